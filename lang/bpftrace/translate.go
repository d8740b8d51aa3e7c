package bpftrace

import (
	"fmt"
	"slices"
	"strings"

	"culprit/lang/syntax"
)

// Options are what a translation depends on besides the text.
type Options struct {
	File   string
	Unsafe bool   // functions that change the system are allowed
	PID    int    // of -p; 0: none
	Target int64  // of -c or -p: cpid; 0: none
	TAI    int64  // the international atomic time at time 0 of the monotonic clock, in ns
	Stacks string // how stacks are printed without a mode: bpftrace, perf or raw; "": bpftrace
	// Address returns the address of a symbol of the kernel; false: there is none.
	Address func(name string) (uint64, bool)
	// Cgroup returns the ID of a cgroup's directory; an error without one.
	Cgroup func(path string) (uint64, error)
}

// A Script is a translated program: a tree for lang/check, and how user space prints what the
// tree's records contain.
type Script struct {
	Tree    *syntax.Program
	Outputs []*Output // by the number that a record's action names
	Maps    []*Map    // sorted by name
	Loops   []*Loop   // by number, from 1, of the clauses that are their bodies
	Locals  []string  // variables of D that are 0 when a clause with loops begins
	Joins   bool      // a string may have 1024 bytes
	Paths   bool      // the program uses path()
}

// A Map is a map of the program.
type Map struct {
	Name  string   // without @
	Func  string   // count, sum, ...; "": a plain map, whose values are assigned
	Keys  []*Shape // nil: without keys
	Value *Shape   // of a plain map
	Bits  int      // of hist: each power of two has 2^Bits buckets

	keyed bool // Keys is known
	known bool // Value is known
	at    syntax.Span
}

// mostOutputs is the highest number of actions of a program, and mostStatements that of its
// statements when loops are unrolled.
const (
	mostOutputs    = 10_000
	mostStatements = 20_000
)

// A translator translates one program.
type translator struct {
	o       Options
	text    string
	prog    *Program
	out     *Script
	maps    map[string]*Map
	wrong   syntax.Diagnostics
	elapsed bool // the program reads elapsed

	clause     int // number of the clause, from 0
	site       site
	vars       map[string]*Shape // $variables of the clause
	statements int
	loops      int      // around the statement that is translated, without those over maps
	divided    bool     // the clause is divided into parts
	inLoops    []int    // numbers of the loops over maps around the statement, outermost first
	inNames    []string // and their variables
	conditions int      // number of conditions of the clause that have a variable
	// the names of the variables of loops over maps, each of which has types of its own
	loopVars map[string]string
	// the variables with the answers to queries, by their expressions
	answers map[syntax.Expr]string
}

// Translate translates a parsed program. text is its source, for positions. It returns a script or
// diagnostics, never both.
func Translate(text string, prog *Program, o Options) (*Script, syntax.Diagnostics) {
	t := &translator{
		o: o, text: text, prog: prog, maps: map[string]*Map{}, answers: map[syntax.Expr]string{},
	}
	t.findMaps()
	// The first pass finds the shapes of maps that are read before the text assigns to them.
	for pass := range 2 {
		if pass > 0 && len(t.wrong) > 0 {
			break
		}
		t.out = &Script{Tree: &syntax.Program{}}
		t.out.Tree.Items = append(t.out.Tree.Items, prog.Types...)
		t.elapsed = false
		for _, i := range t.order(pass) {
			t.clause = i
			t.oneClause(prog.Clauses[i])
		}
		if t.elapsed {
			t.addBegin()
		}
	}
	if len(t.wrong) > 0 {
		return nil, t.wrong
	}
	for _, m := range t.maps {
		t.out.Maps = append(t.out.Maps, m)
	}
	slices.SortFunc(t.out.Maps, func(a, b *Map) int { return strings.Compare(a.Name, b.Name) })
	return t.out, nil
}

// order returns the numbers of the clauses in the order of their translation. In the first pass
// those with loops over maps come last, so that the keys of the maps are known.
func (t *translator) order(pass int) (out []int) {
	var last []int
	for i, c := range t.prog.Clauses {
		if pass == 0 && t.dividesClause(c) {
			last = append(last, i)
		} else {
			out = append(out, i)
		}
	}
	return append(out, last...)
}

// fail reports a mistake at a node.
func (t *translator) fail(
	at syntax.Span, code syntax.Code, hint, message string, args ...any,
) {
	if len(t.wrong) >= mostDiagnostics || slices.ContainsFunc(
		t.wrong, func(d *syntax.Diagnostic) bool { return d.Pos == int(at.From) },
	) {
		return
	}
	t.wrong = append(t.wrong,
		syntax.Diagnose(t.o.File, t.text, at, code, fmt.Sprintf(message, args...), hint))
}

// aggregating are the functions whose results only user space has.
//
// table: name to the function of D, with the least and the highest number of arguments
var aggregating = map[string]struct {
	d           string
	least, most int
}{
	"count": {"count", 0, 0}, "sum": {"sum", 1, 1}, "avg": {"avg", 1, 1}, "min": {"min", 1, 1},
	"max": {"max", 1, 1}, "stats": {"avg", 1, 1}, "hist": {"quantize", 1, 2},
	"lhist": {"lquantize", 4, 4},
}

// findMaps finds all maps and the functions that are assigned to them.
func (t *translator) findMaps() {
	visit := func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			m, ok := n.X.(*syntax.Aggregation)
			if !ok {
				break
			}
			name := ""
			if c, ok := n.Y.(*syntax.Call); ok && aggregating[c.Func.Text].d != "" {
				name = c.Func.Text
			}
			t.useMap(m, name, true)
		case *syntax.Step:
			if m, ok := n.X.(*syntax.Aggregation); ok {
				t.useMap(m, "", true)
			}
		}
		return true
	}
	for _, c := range t.prog.Clauses {
		eachExpr(c.Body, func(e syntax.Expr) { syntax.Walk(e, visit) })
	}
}

// useMap records an assignment to a map.
func (t *translator) useMap(m *syntax.Aggregation, fn string, assigned bool) *Map {
	known := t.maps[m.Name]
	if known == nil {
		if assigned {
			known = &Map{Name: m.Name, Func: fn, at: m.At()}
			t.maps[m.Name] = known
		}
		return known
	}
	if assigned && known.Func != fn {
		other := "a value"
		if known.Func != "" {
			other = known.Func + "()"
		}
		t.fail(m.At(), BadMap, "use another map", "@%s is assigned %s before", m.Name, other)
	}
	return known
}

// eachExpr calls visit with all expressions of statements.
func eachExpr(list []Stmt, visit func(syntax.Expr)) {
	for _, s := range list {
		switch s := s.(type) {
		case *Do:
			visit(s.X)
		case *If:
			visit(s.Cond)
			eachExpr(s.Then, visit)
			eachExpr(s.Else, visit)
		case *Repeat:
			visit(s.X)
			eachExpr(s.Body, visit)
		case *For:
			visit(s.X)
			if s.End != nil {
				visit(s.End)
			}
			eachExpr(s.Body, visit)
		}
	}
}

// oneClause translates a clause: one clause of D for each kind of its probes.
func (t *translator) oneClause(c *Clause) {
	type group struct {
		site   site
		probes []*syntax.Probe
	}
	var groups []group
	for _, point := range c.Points {
		p, s := t.point(point)
		if p == nil {
			continue
		}
		i := slices.IndexFunc(groups, func(g group) bool { return g.site == s })
		if i >= 0 && !readsArgs(c) { // fields may be at different places
			groups[i].probes = append(groups[i].probes, p)
			continue
		}
		groups = append(groups, group{s, []*syntax.Probe{p}})
	}
	for _, g := range groups {
		t.site, t.vars, t.statements, t.conditions = g.site, map[string]*Shape{}, 0, 0
		t.loopVars = map[string]string{}
		t.divided = (g.site == siteBegin || g.site == siteTimer) && t.dividesClause(c)
		if t.divided {
			t.divide(c, g.probes)
			continue
		}
		d := &syntax.Clause{Span: c.Span, Probes: g.probes, Body: &syntax.Block{Span: c.Span}}
		if c.Predicate != nil {
			d.Predicate, _ = t.expr(c.Predicate)
		}
		if t.o.PID != 0 && g.site.filtered() {
			d.Predicate = ofProcess(d.Predicate, int64(t.o.PID), c.Span)
		}
		d.Body.List = t.block(c.Body)
		t.out.Tree.Items = append(t.out.Tree.Items, d)
	}
}

// readsArgs reports whether a clause reads fields of args.
func readsArgs(c *Clause) (found bool) {
	visit := func(e syntax.Expr) {
		syntax.Walk(e, func(n syntax.Node) bool {
			id, ok := n.(*syntax.Ident)
			found = found || ok && id.Name == "args"
			return !found
		})
	}
	if c.Predicate != nil {
		visit(c.Predicate)
	}
	eachExpr(c.Body, visit)
	return found
}

// ofProcess adds a comparison with the process to a predicate; nil: there is none.
func ofProcess(predicate syntax.Expr, pid int64, at syntax.Span) syntax.Expr {
	own := &syntax.Binary{
		Span: at, Op: syntax.Eq, X: &syntax.Ident{Span: at, Name: "pid"},
		Y: &syntax.Int{Span: at, Value: uint64(pid)},
	}
	if predicate == nil {
		return own
	}
	return &syntax.Binary{Span: at, Op: syntax.LogAnd, X: own, Y: predicate}
}

// addBegin adds a first clause that keeps the time of the start.
func (t *translator) addBegin() {
	set := &syntax.Do{X: &syntax.Assign{
		Op: syntax.Set, X: &syntax.Ident{Name: beginName}, Y: &syntax.Ident{Name: "timestamp"},
	}}
	begin := &syntax.Clause{
		Probes: []*syntax.Probe{probeOf(syntax.Span{}, "dtrace", "", "", "BEGIN")},
		Body:   &syntax.Block{List: []syntax.Stmt{set}},
	}
	t.out.Tree.Items = append([]syntax.Item{begin}, t.out.Tree.Items...)
}

// beginName is the variable with the time of the start.
const beginName = "(begin)"
