// Package bpftrace is a second front end: it parses programs in bpftrace's language and translates
// them into the tree of lang/syntax, which check, ir and gen compile. It touches no kernel.
//
// Expressions are nodes of lang/syntax. Three constructs that D lacks are written with nodes that D
// has: $name is a *syntax.Macro, @name[keys] a *syntax.Aggregation, and a tuple a call of the
// function "(tuple)". Statements and clauses have types of their own.
package bpftrace

import "culprit/lang/syntax"

// A Program is a parsed text.
type Program struct {
	Types   []syntax.Item // definitions of structs, unions, enums and typedefs
	Clauses []*Clause     // in the order of the text
	// of the config block: missing_probes, max_strlen ...; those without an effect too
	Config Settings
}

// A Clause connects probes with statements.
//
//	Clause = Point { "," Point } [ "/" Expr "/" ] Block .
type Clause struct {
	syntax.Span
	Points    []*Point
	Predicate syntax.Expr // nil: always
	Body      []Stmt
}

// A Point is a description of probes, such as tracepoint:sched:sched_switch. Parts are its text
// between colons, without quotes, with macros replaced.
type Point struct {
	syntax.Span
	Parts []string
}

// A Stmt is a statement: *Do, *If, *Repeat, *For or *Jump.
type Stmt interface {
	At() syntax.Span // its position in the text
	stmt()
}

// A Do is an expression or an assignment.
type Do struct {
	syntax.Span
	X syntax.Expr
}

// An If runs one of two lists.
type If struct {
	syntax.Span
	Cond       syntax.Expr
	Then, Else []Stmt
}

// A Repeat is unroll (N) or while (Cond).
type Repeat struct {
	syntax.Span
	While bool        // X is a condition, not a number
	X     syntax.Expr // never nil
	Body  []Stmt
}

// A For runs its body for each element of a map or each number of a range.
//
//	For = "for" "(" "$" name ":" ( map | Expr ".." Expr ) ")" Block .
type For struct {
	syntax.Span
	Name string      // of the variable, without $
	X    syntax.Expr // the map, or the start of the range
	End  syntax.Expr // of the range; nil: X is a map
	Body []Stmt
}

// A Jump is return, break or continue.
type Jump struct {
	syntax.Span
	Word string
}

func (*Do) stmt()     {}
func (*If) stmt()     {}
func (*Repeat) stmt() {}
func (*For) stmt()    {}
func (*Jump) stmt()   {}

// tupleName is the function of a call that represents a tuple; no text can contain it.
const tupleName = "(tuple)"

// isTuple returns the elements of a tuple.
func isTuple(e syntax.Expr) ([]syntax.Expr, bool) {
	c, ok := e.(*syntax.Call)
	if !ok || c.Func.Text != tupleName {
		return nil, false
	}
	return c.Args, true
}
