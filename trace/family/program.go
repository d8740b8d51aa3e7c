package family

import (
	"fmt"
	"maps"
	"slices"

	"culprit/lang/syntax"
	"culprit/measure"
)

// A familyProgram is the part of a family's program that some queries need.
type familyProgram struct {
	tree  *syntax.Program
	stats []familyStat
}

// A familyStat is a statistic as a program measures it.
type familyStat struct {
	stat  measure.Stat      // its fields: first those that are keys, then the fixed ones
	fixed map[string]string // by field that is no key: the only value that rows have
}

// A familyWant is what a query needs of one aggregation.
type familyWant struct {
	stat  *measure.Stat
	keys  []string          // fields
	fixed map[string]string // as in familyStat
	terms []measure.Term    // those that the kernel can evaluate
}

// program returns the program for queries, at most one per statistic. It contains only their
// aggregations, with only the fields that they need, and other statements only if these need them.
// Events that do not match the queries' terms are left out, if the kernel can evaluate the terms.
// self is the process whose events are not counted; 0: none.
func (f *Family) program(queries []measure.Query, self int) (*familyProgram, error) {
	tree, ds := syntax.Parse(f.text, syntax.Mode{File: f.file + ".d"})
	if len(ds) > 0 {
		return nil, ds
	}
	p := &familyProgram{tree: tree}
	wants := map[string]*familyWant{}
	for _, q := range queries {
		st := f.stat(q.Stat)
		if st == nil {
			return nil, fmt.Errorf("%s is no statistic of %s.d", q.Stat, f.file)
		}
		w := f.want(st, q)
		wants[aggregationOf(q.Stat)] = w
		s := familyStat{stat: *st, fixed: w.fixed}
		s.stat.Fields = nil
		for _, fixed := range []bool{false, true} { // fixed fields come last
			for _, field := range st.Fields {
				if _, is := w.fixed[field.Name]; is == fixed &&
					(is || slices.Contains(w.keys, field.Name)) {
					s.stat.Fields = append(s.stat.Fields, field)
				}
			}
		}
		p.stats = append(p.stats, s)
	}
	clauses := clausesOf(tree)
	for _, c := range clauses {
		if err := f.pick(c, wants); err != nil {
			return nil, err
		}
	}
	own := f.ofThread(clauses, wants)
	for _, c := range clauses {
		f.narrow(c, wants, own)
	}
	live := liveParts(clauses)
	for _, c := range clauses {
		c.Body.List = slices.DeleteFunc(c.Body.List, func(s syntax.Stmt) bool { return !live[s] })
	}
	tree.Items = slices.DeleteFunc(tree.Items, func(item syntax.Item) bool {
		c, ok := item.(*syntax.Clause)
		return ok && len(c.Body.List) == 0
	})
	if f.without && self > 0 {
		for _, c := range clauses {
			c.Predicate = both(
				&syntax.Binary{
					Op: syntax.Ne,
					X:  &syntax.Ident{Name: "pid"},
					Y:  integer(int64(self)),
				},
				c.Predicate,
			)
		}
	}
	return p, nil
}

func clausesOf(tree *syntax.Program) (out []*syntax.Clause) {
	for _, item := range tree.Items {
		if c, ok := item.(*syntax.Clause); ok {
			out = append(out, c)
		}
	}
	return out
}

// want returns what a query needs of its aggregation.
func (f *Family) want(st *measure.Stat, q measure.Query) *familyWant {
	w := &familyWant{stat: st, fixed: map[string]string{}}
	need := slices.Clone(q.By)
	for _, t := range q.Where {
		need = append(need, t.Field)
		field, _ := st.Field(t.Field)
		if f.condition(&syntax.Ident{}, field, t) == nil {
			continue
		}
		w.terms = append(w.terms, t)
		if t.Op == measure.Equal {
			w.fixed[t.Field] = t.Values[0]
		}
	}
	for _, field := range st.Fields {
		if _, is := w.fixed[field.Name]; !is && slices.Contains(need, field.Name) {
			w.keys = append(w.keys, field.Name)
		}
	}
	return w
}

// pick removes from a clause the aggregations that no query needs. It fails when another
// does not have one key for each field.
func (f *Family) pick(c *syntax.Clause, wants map[string]*familyWant) error {
	var list []syntax.Stmt
	for _, s := range c.Body.List {
		a := addition(s)
		if a == nil {
			list = append(list, s)
			continue
		}
		w := wants[a.Name]
		if w == nil {
			continue
		}
		if len(a.Keys) != len(w.stat.Fields) {
			return fmt.Errorf(
				"statistics of %s.d: @%s has %d keys, %s %d fields", f.file, a.Name, len(a.Keys),
				w.stat.ID, len(w.stat.Fields),
			)
		}
		list = append(list, s)
	}
	c.Body.List = list
	return nil
}

// ofThread returns, by their text, the conditions about the current thread, such as its process,
// that all aggregations demand. For other threads, clauses need not set thread-local variables.
func (f *Family) ofThread(
	clauses []*syntax.Clause, wants map[string]*familyWant,
) map[string]syntax.Expr {
	out, count, all := map[string]syntax.Expr{}, map[string]int{}, 0
	for _, c := range clauses {
		for _, s := range c.Body.List {
			a := addition(s)
			if a == nil {
				continue
			}
			all++
			w := wants[a.Name]
			for _, t := range w.terms {
				field, at := w.stat.Field(t.Field)
				if id, ok := a.Keys[at].(*syntax.Ident); ok && id.Scope == syntax.ScopeGlobal &&
					slices.Contains(lasting(), id.Name) {
					x := f.condition(id, field, t)
					text := syntax.Print(x)
					out[text] = x
					count[text]++
				}
			}
		}
	}
	for text, n := range count {
		if n < all {
			delete(out, text)
		}
	}
	return out
}

// lasting returns the variables that never change for a thread.
func lasting() []string { return []string{"pid", "tid"} }

// narrow removes from the aggregations of a clause the keys that no query needs, and adds the
// conditions of the queries. A condition becomes part of the predicate if the whole clause depends
// on it, else an if before the addition. own are the conditions of ofThread.
func (f *Family) narrow(
	c *syntax.Clause, wants map[string]*familyWant, own map[string]syntax.Expr,
) {
	// alone: no other clause needs variables that the clause sets. inner: no clause of another
	// thread does.
	alone, inner := true, true
	adds := 0
	for _, s := range c.Body.List {
		if addition(s) != nil {
			adds++
			continue
		}
		scope, ok := scopeOf(s)
		alone = alone && ok && scope == syntax.ScopeThis
		inner = inner && ok && (scope == syntax.ScopeThis || scope == syntax.ScopeSelf)
	}
	conditions := map[*syntax.Aggregation]map[string]syntax.Expr{}
	shared := map[string]int{}
	for _, s := range c.Body.List {
		a := addition(s)
		if a == nil {
			continue
		}
		w := wants[a.Name]
		conditions[a] = map[string]syntax.Expr{}
		for _, t := range w.terms {
			field, at := w.stat.Field(t.Field)
			x := f.condition(a.Keys[at], field, t)
			text := syntax.Print(x)
			if inner && own[text] != nil {
				continue
			}
			conditions[a][text] = x
			shared[text]++
		}
		var keys []syntax.Expr
		for i, field := range w.stat.Fields {
			if slices.Contains(w.keys, field.Name) {
				keys = append(keys, a.Keys[i])
			}
		}
		a.Keys = keys
	}
	for i, s := range c.Body.List {
		a := addition(s)
		if a == nil {
			continue
		}
		var before syntax.Expr
		for _, text := range slices.Sorted(maps.Keys(conditions[a])) {
			switch x := conditions[a][text]; {
			case !alone || shared[text] < adds || ofClause(x): // the predicate can't contain it
				before = both(before, x)
			case shared[text] == adds: // once for all additions
				c.Predicate, shared[text] = both(c.Predicate, x), adds+1
			}
		}
		if before != nil {
			c.Body.List[i] = &syntax.If{Cond: before, Then: &syntax.Block{List: []syntax.Stmt{s}}}
		}
	}
	if inner {
		for _, text := range slices.Backward(slices.Sorted(maps.Keys(own))) {
			c.Predicate = both(own[text], c.Predicate) // first, because it is cheap
		}
	}
}

// ofClause reports whether an expression uses clause-local variables.
func ofClause(x syntax.Expr) (is bool) {
	syntax.Walk(x, func(n syntax.Node) bool {
		v, ok := n.(*syntax.Ident)
		is = is || ok && v.Scope == syntax.ScopeThis
		return true
	})
	return is
}

// both returns a condition that is true when x and y are. Either may be nil.
func both(x, y syntax.Expr) syntax.Expr {
	switch {
	case x == nil:
		return y
	case y == nil:
		return x
	}
	if and, ok := y.(*syntax.Binary); ok && and.Op == syntax.LogAnd { // && associates to the left
		return &syntax.Binary{Op: syntax.LogAnd, X: both(x, and.X), Y: and.Y}
	}
	return &syntax.Binary{Op: syntax.LogAnd, X: x, Y: y}
}

// addition returns the aggregation that a statement adds to, or nil.
func addition(s syntax.Stmt) *syntax.Aggregation {
	if do, ok := s.(*syntax.Do); ok {
		if set, ok := do.X.(*syntax.Assign); ok {
			a, _ := set.X.(*syntax.Aggregation)
			return a
		}
	}
	return nil
}

// variableOf returns the variable that a statement sets, or nil, and the keys of an element.
func variableOf(s syntax.Stmt) (v *syntax.Ident, keys []syntax.Expr) {
	do, ok := s.(*syntax.Do)
	if !ok {
		return nil, nil
	}
	set, ok := do.X.(*syntax.Assign)
	if !ok {
		return nil, nil
	}
	x := set.X
	if at, ok := x.(*syntax.Index); ok {
		x, keys = at.X, at.Keys
	}
	v, _ = x.(*syntax.Ident)
	return v, keys
}

func scopeOf(s syntax.Stmt) (syntax.Scope, bool) {
	v, _ := variableOf(s)
	if v == nil {
		return 0, false
	}
	return v.Scope, true
}

// liveParts returns the statements that have an effect: those that add to an aggregation, and those
// that set a variable which these or their predicates use. A statement that neither adds nor sets
// is kept too.
func liveParts(clauses []*syntax.Clause) map[syntax.Stmt]bool {
	type variable struct {
		scope syntax.Scope
		name  string
	}
	live, read := map[syntax.Stmt]bool{}, map[variable]bool{}
	look := func(n syntax.Node) bool {
		if v, ok := n.(*syntax.Ident); ok {
			read[variable{v.Scope, v.Name}] = true
		}
		return true
	}
	for again := true; again; {
		again = false
		for _, c := range clauses {
			for _, s := range c.Body.List {
				v, keys := variableOf(s)
				if live[s] || v != nil && !read[variable{v.Scope, v.Name}] {
					continue
				}
				live[s], again = true, true
				syntax.Walk(c.Predicate, look)
				if v == nil {
					syntax.Walk(s, look)
					continue
				}
				for _, k := range keys {
					syntax.Walk(k, look)
				}
				syntax.Walk(s.(*syntax.Do).X.(*syntax.Assign).Y, look)
			}
		}
	}
	return live
}
