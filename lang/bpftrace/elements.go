package bpftrace

import (
	"fmt"
	"slices"
	"strconv"

	"culprit/lang/syntax"
)

// User space performs loops over maps and len(@map), because it can read whole maps, and reads the
// values of count() and others, which the kernel keeps by CPU. It runs the parts of a clause that
// contains them one after the other, and the body of a loop once for each element.
//
//	END { A; if (C) { B; for ($kv : @m) { D; } E; } F; }
//
//	END { A; $c = C; if ($c) { B; running = 1; } }
//	END { D; }                       for each element of @m, until running is 0
//	END { if ($c) { E; } F; }
//
// The parts share the variables of the clause. Therefore these are no clause-local variables of D
// but associative arrays with one element. Only clauses that user space runs can be divided. It
// runs one at a time.

// A Loop is a loop over a map, a len(@map), or the value of an element.
type Loop struct {
	Map *Map
	// variables of D that contain the parts of the key and of the value
	Keys, Values []string
	Running      string // variable that is not 0 while the loop runs
	Length       string // variable for the number of elements
	// variable for the value of the element with the key in Keys; "", like Length: it is a loop
	Value  string
	Parent int // number of the loop that contains it, from 1; 0: none
}

// A begin is the statement before the body of a loop over a map: the last one of its part.
type begin struct{ *For }

// A query is the statement before the one that contains len(@map), a *syntax.Call, or the value of
// a map, a *syntax.Aggregation.
type query struct{ x syntax.Expr }

func (q query) At() syntax.Span { return q.x.At() }
func (query) stmt()             {}

// divides reports whether user space performs a part of the statements.
func (t *translator) divides(list []Stmt) bool {
	return slices.ContainsFunc(list, func(s Stmt) bool {
		if len(t.queries(s)) > 0 {
			return true
		}
		switch s := s.(type) {
		case *If:
			return t.divides(s.Then) || t.divides(s.Else)
		case *Repeat:
			return t.divides(s.Body)
		case *For:
			return s.End == nil || t.divides(s.Body)
		}
		return false
	})
}

// dividesClause reports whether a clause must be divided if user space runs it.
func (t *translator) dividesClause(c *Clause) bool {
	return t.divides(c.Body) || c.Predicate != nil && len(t.queriesIn(c.Predicate)) > 0
}

// queries returns what a statement asks user space for, without its nested statements.
func (t *translator) queries(s Stmt) []syntax.Expr {
	switch s := s.(type) {
	case *Do:
		return t.queriesIn(s.X)
	case *If:
		return t.queriesIn(s.Cond)
	case *Repeat:
		return t.queriesIn(s.X)
	case *For:
		if s.End != nil {
			return append(t.queriesIn(s.X), t.queriesIn(s.End)...)
		}
	}
	return nil
}

// queriesIn returns the calls of len() in an expression and the values of maps with aggregating
// functions, those in keys first.
func (t *translator) queriesIn(e syntax.Expr) (out []syntax.Expr) {
	add := func(list ...syntax.Expr) {
		for _, x := range list {
			out = append(out, t.queriesIn(x)...)
		}
	}
	syntax.Walk(e, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if m, ok := n.X.(*syntax.Aggregation); ok {
				add(append(slices.Clone(m.Keys), n.Y)...)
				return false
			}
		case *syntax.Step:
			_, ok := n.X.(*syntax.Aggregation)
			return !ok
		case *syntax.Call:
			if len(n.Args) == 0 {
				break
			}
			m, ok := n.Args[0].(*syntax.Aggregation)
			switch n.Func.Text {
			case "len":
				if ok {
					out = append(out, n)
				}
				return !ok
			case "print", "clear", "zero", "delete", "has_key":
				if ok { // a map, not its value
					add(append(slices.Clone(m.Keys), n.Args[1:]...)...)
				}
				return !ok
			}
		case *syntax.Aggregation:
			add(n.Keys...)
			if m := t.maps[n.Name]; m != nil && m.number() {
				out = append(out, n)
			}
			return false
		}
		return true
	})
	return out
}

// number reports whether an aggregating function has one number for each key.
func (m *Map) number() bool {
	switch m.Func {
	case "count", "sum", "min", "max", "avg":
		return true
	}
	return false
}

// leavesEarly reports whether statements contain a jump or exit().
func leavesEarly(list []Stmt) bool {
	return slices.ContainsFunc(list, func(s Stmt) bool {
		switch s := s.(type) {
		case *Jump:
			return true
		case *If:
			return leavesEarly(s.Then) || leavesEarly(s.Else)
		case *Repeat:
			return leavesEarly(s.Body)
		case *For:
			return leavesEarly(s.Body)
		}
		return ends(s)
	})
}

// A piece is statements that run together. Without a list it is the body of a loop over a map, or
// the place of a query.
type piece struct {
	list []Stmt
	loop *For // nil: a query
}

// pieces divides statements. Before each piece without a list is one that ends with its begin or
// query.
func (t *translator) pieces(list []Stmt) []piece {
	var out []piece
	var now []Stmt
	cut := func(last Stmt, p piece) {
		out = append(out, piece{list: append(now, last)}, p)
		now = nil
	}
	for _, s := range list {
		switch s := s.(type) {
		case *Repeat:
			t.undivided(s, s.Body)
		case *For:
			if s.End == nil {
				cut(begin{s}, piece{loop: s})
				continue
			}
			t.undivided(s, s.Body)
		}
		for _, x := range t.queries(s) {
			cut(query{x}, piece{})
		}
		branch, ok := s.(*If)
		if !ok || !t.divides(branch.Then) && !t.divides(branch.Else) {
			now = append(now, s)
			continue
		}
		t.conditions++
		cond := &syntax.Macro{Span: branch.Cond.At(), Name: fmt.Sprintf("(if %d)", t.conditions)}
		at := branch.Cond.At()
		now = append(now, &Do{Span: at, X: &syntax.Assign{
			Span: at, Op: syntax.Set, X: cond,
			Y: &syntax.Cond{Span: at, If: branch.Cond, Then: number(at, 1), Else: number(at, 0)},
		}})
		for i, part := range [][]Stmt{branch.Then, branch.Else} {
			for _, p := range t.pieces(part) {
				if p.list == nil {
					out = append(out, piece{list: now}, p)
					now = nil
					continue
				}
				own := &If{Span: branch.Span, Cond: cond, Then: p.list}
				if i == 1 {
					own.Then, own.Else = nil, p.list
				}
				now = append(now, own)
			}
		}
	}
	if len(now) > 0 {
		out = append(out, piece{list: now})
	}
	return out
}

// undivided reports what user space performs within a loop whose statements are repeated.
func (t *translator) undivided(s Stmt, body []Stmt) {
	_, isWhile := s.(*Repeat)
	if t.divides(body) || isWhile && len(t.queries(s)) > 0 {
		t.fail(s.At(), Unsupported, "write the loop over the map, or $n = len(@map), before it",
			"loops over maps, len() and values of count() or sum() can't be in while, unroll and "+
				"loops over ranges")
	}
}

// divide translates a clause in parts.
func (t *translator) divide(c *Clause, probes []*syntax.Probe) {
	body := c.Body
	if c.Predicate != nil {
		body = []Stmt{&If{Span: c.Predicate.At(), Cond: c.Predicate, Then: body}}
	}
	t.parts(&syntax.Clause{Span: c.Span, Probes: probes}, body, leavesEarly(body))
}

// parts translates statements in parts, each of which becomes a clause of D with the probes of d.
// leaves: the clause contains a jump.
func (t *translator) parts(d *syntax.Clause, list []Stmt, leaves bool) {
	in := 0
	if n := len(t.inLoops); n > 0 {
		in = t.inLoops[n-1]
	}
	add := func(loop int, list []syntax.Stmt) {
		part := *d
		part.Loop, part.Body = loop, &syntax.Block{Span: d.Span, List: list}
		t.out.Tree.Items = append(t.out.Tree.Items, &part)
		d.Continues = true
	}
	for i, p := range t.pieces(list) {
		switch {
		case p.loop != nil:
			t.inLoops = append(t.inLoops, len(t.out.Loops)) // its begin was the last one translated
			t.inNames = append(t.inNames, p.loop.Name)
			t.parts(d, p.loop.Body, leaves)
			t.inLoops = t.inLoops[:len(t.inLoops)-1]
			t.inNames = t.inNames[:len(t.inNames)-1]
		case p.list == nil:
			add(len(t.out.Loops), nil) // marks the place of the query
		default:
			own := t.block(p.list)
			if leaves && i == 0 {
				own = append(t.setStopped(d.Span, 0), own...)
			} else if leaves {
				own = []syntax.Stmt{&syntax.If{
					Span: d.Span, Cond: &syntax.Unary{Op: syntax.Not, X: t.stopped()},
					Then: &syntax.Block{Span: d.Span, List: own},
				}}
			}
			add(in, own)
		}
	}
}

// local returns a $variable of the clause.
func (t *translator) local(at syntax.Span, name string) syntax.Expr {
	name = t.scratchName(name)
	if !t.divided {
		return &syntax.Ident{Span: at, Scope: syntax.ScopeThis, Name: name}
	}
	if !slices.Contains(t.out.Locals, name) {
		t.out.Locals = append(t.out.Locals, name)
	}
	return &syntax.Index{
		Span: at, X: &syntax.Ident{Span: at, Name: name}, Keys: []syntax.Expr{number(at, 0)},
	}
}

// setLocal returns the statement that assigns a number to a variable of the clause.
func (t *translator) setLocal(at syntax.Span, name string, n int64) syntax.Stmt {
	return t.assignLocal(at, name, number(at, n))
}

// mostLoops is the highest number of loops over maps and queries of a program.
const mostLoops = 200

// addLoop adds a loop or a query to the program.
func (t *translator) addLoop(at syntax.Span, l *Loop) {
	if len(t.out.Loops) >= mostLoops {
		t.fail(at, TooLarge, "write fewer of them",
			"the program has more than %d loops over maps, len() and values of count() or sum()",
			mostLoops)
	}
	if n := len(t.inLoops); n > 0 {
		l.Parent = t.inLoops[n-1]
	}
	t.out.Loops = append(t.out.Loops, l)
}

// running is the name of the variable that is not 0 while a loop over a map runs.
func running(loop int) string { return fmt.Sprintf("(for %d)", loop) }

// keyedMap returns a map whose elements are needed; nil after a mistake.
func (t *translator) keyedMap(e syntax.Expr, form string) *Map {
	m, ok := e.(*syntax.Aggregation)
	if !ok || m.Keys != nil {
		t.fail(e.At(), BadCall, "write "+form, "a map is required here")
		return nil
	}
	known := t.maps[m.Name]
	switch {
	case known == nil:
		t.fail(m.Span, BadMap, "assign to it: @"+m.Name+"[KEY] = 1", "@%s is never assigned",
			m.Name)
		return nil
	case known.keyed && len(known.Keys) == 0:
		t.fail(m.Span, BadMap, "use its value: @"+m.Name, "@%s has no keys", m.Name)
		return nil
	}
	return known
}

// beginLoop translates the beginning of a loop over a map: it declares the variables that user
// space sets, and starts the loop.
func (t *translator) beginLoop(f *For) []syntax.Stmt {
	at := f.X.At()
	m := t.keyedMap(f.X, "for ($kv : @map) { ... }")
	if m == nil {
		return nil
	}
	if m.Func != "" && !m.number() {
		t.fail(at, Unsupported, "print(@"+m.Name+") prints them",
			"a loop can't read the values of %s()", m.Func)
		return nil
	}
	n := len(t.out.Loops) + 1
	if slices.Contains(t.inNames, f.Name) {
		t.fail(f.Span, BadMap, "use another variable",
			"$%s is the variable of a loop around this one", f.Name)
		return nil
	}
	t.loopVars[f.Name] = fmt.Sprintf("(%d)%s", n, f.Name)
	l := &Loop{Map: m, Running: t.scratchName(running(n))}
	t.addLoop(at, l)
	key := &Shape{Kind: Tuple, Parts: m.Keys}
	if len(m.Keys) == 1 {
		key = m.Keys[0]
	}
	shape := &Shape{Kind: Tuple, Parts: []*Shape{key, m.Value}}
	t.vars[f.Name] = shape
	ident := func(name string) syntax.Expr { return &syntax.Ident{Span: at, Name: name} }
	var keys []syntax.Expr
	for i := range shape.Values() {
		name := t.scratchName(t.loopVars[f.Name] + "." + strconv.Itoa(i))
		if i < key.Values() {
			l.Keys, keys = append(l.Keys, name), append(keys, ident(name))
		} else {
			l.Values = append(l.Values, name)
		}
	}
	of := func(i int) syntax.Expr {
		if m.Func != "" {
			return &syntax.Aggregation{Span: at, Name: m.Name}
		}
		return ident(VarName(m.Name, i, len(l.Values)))
	}
	out := []syntax.Stmt{t.dStatement(at, "keysof", append([]syntax.Expr{of(0)}, keys...)...)}
	for i, name := range l.Values {
		out = append(out, t.dStatement(at, "valueof", of(i), ident(name)))
	}
	return append(out, t.setLocal(at, running(n), 1))
}

// assignLocal returns the statement that assigns a value to a variable of the clause.
func (t *translator) assignLocal(at syntax.Span, name string, y syntax.Expr) syntax.Stmt {
	return &syntax.Do{Span: at, X: &syntax.Assign{
		Span: at, Op: syntax.Set, X: t.local(at, name), Y: y,
	}}
}

// query translates the place where user space is asked. The variable for the answer gets its type.
func (t *translator) query(q query) []syntax.Stmt {
	at, n := q.At(), len(t.out.Loops)+1
	name := fmt.Sprintf("(answer %d)", n)
	l := &Loop{}
	var out []syntax.Stmt
	switch x := q.x.(type) {
	case *syntax.Call:
		if l.Map = t.keyedMap(x.Args[0], forms["len"].form); l.Map == nil {
			return nil
		}
		l.Length = t.scratchName(name)
	case *syntax.Aggregation:
		l.Map, l.Value = t.maps[x.Name], t.scratchName(name)
		for i, k := range t.mapKeys(x) {
			key := fmt.Sprintf("(key %d.%d)", n, i)
			l.Keys = append(l.Keys, t.scratchName(key))
			out = append(out, t.assignLocal(at, key, k))
		}
	}
	t.addLoop(at, l)
	t.answers[q.x] = name
	return append(out, t.setLocal(at, name, 0))
}

// length translates len(@map).
func (t *translator) length(e *syntax.Call) syntax.Expr {
	name, known := t.answers[e]
	switch m := t.keyedMap(e.Args[0], forms["len"].form); {
	case m == nil:
		return number(e.Span, 0)
	case !t.divided || !known:
		t.fail(e.Span, Unsupported, "use it in interval:s:1 or END",
			"len() works only in BEGIN, END and interval")
		return number(e.Span, 0)
	}
	return t.local(e.Span, name)
}
