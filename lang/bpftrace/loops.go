package bpftrace

import (
	"fmt"
	"slices"
	"strings"

	"culprit/lang/syntax"
)

// Loops are translated by repeating their statements, because programs in the kernel must end. A
// variable of the clause contains how far it has stopped; statements that may follow a jump are
// guarded by it.
//
//	while (C) { A; if (B) { continue; } D; }
//
//	stop = 0
//	if (C) { A; if (B) { stop = continued; } else { D; } } else { stop = broken; }
//	if (stop <= continued) { stop = 0; if (C) ... else ... }
//	... mostTurns times
//	if (stop <= continued && C) { an error is printed }
//	if (stop <= broken) { stop = 0; }

// How far a clause has stopped.
const (
	continued = 1 + iota // this turn of a loop
	broken               // the loop
	returned             // the clause
)

// mostTurns is how often the body of a loop runs at most, and mostNested that of loops that contain
// others or are in others.
const (
	mostTurns  = 100
	mostNested = 16
)

// most returns how often a body runs at most.
func (t *translator) most(body []Stmt) int {
	if t.loops > 0 || loops(body) {
		return mostNested
	}
	return mostTurns
}

// loops reports whether statements contain a loop.
func loops(list []Stmt) bool {
	return slices.ContainsFunc(list, func(s Stmt) bool {
		switch s := s.(type) {
		case *If:
			return loops(s.Then) || loops(s.Else)
		case *Repeat, *For:
			return true
		}
		return false
	})
}

// returns reports whether statements may end the clause.
func returns(list []Stmt) bool {
	return slices.ContainsFunc(list, func(s Stmt) bool {
		switch s := s.(type) {
		case *Jump:
			return s.Word == "return"
		case *If:
			return returns(s.Then) || returns(s.Else)
		case *Repeat:
			return returns(s.Body)
		case *For:
			return returns(s.Body)
		}
		return ends(s)
	})
}

// stoppedIn is the name of the variable that contains how far the body of a loop over a map has
// stopped; 0: the clause.
func stoppedIn(loop int) string {
	if loop == 0 {
		return "(return)"
	}
	return fmt.Sprintf("(return %d)", loop)
}

// stopped returns the variable that contains how far the clause, or the body of a loop over a map,
// has stopped.
func (t *translator) stopped() syntax.Expr {
	loop := 0
	if n := len(t.inLoops); n > 0 {
		loop = t.inLoops[n-1]
	}
	return t.local(syntax.Span{}, stoppedIn(loop))
}

// setStopped returns the statements that set how far the clause has stopped; 0: it runs. A return
// ends all loops over maps.
func (t *translator) setStopped(at syntax.Span, far uint64) []syntax.Stmt {
	out := []syntax.Stmt{&syntax.Do{Span: at, X: &syntax.Assign{
		Span: at, Op: syntax.Set, X: t.stopped(), Y: &syntax.Int{Value: far, Long: 1},
	}}}
	if far < returned {
		return out
	}
	outer := 0
	for _, loop := range t.inLoops {
		out = append(out, t.setLocal(at, stoppedIn(outer), returned),
			t.setLocal(at, running(loop), 0))
		outer = loop
	}
	return out
}

// unless returns statements that run if the clause has not stopped further than that.
func (t *translator) unless(at syntax.Span, far uint64, list []syntax.Stmt) syntax.Stmt {
	return &syntax.If{
		Span: at,
		Cond: &syntax.Binary{
			Span: at, Op: syntax.Le, X: t.stopped(), Y: &syntax.Int{Value: far, Long: 1},
		},
		Then: &syntax.Block{Span: at, List: list},
	}
}

// jump translates return, break and continue.
func (t *translator) jump(j *Jump) []syntax.Stmt {
	if j.Word == "return" {
		return t.setStopped(j.Span, returned)
	}
	if t.loops == 0 && len(t.inLoops) == 0 {
		t.fail(j.Span, BadCall, "use it within while or for", "%s is not in a loop", j.Word)
		return nil
	}
	if j.Word == "continue" {
		return t.setStopped(j.Span, continued)
	}
	out := t.setStopped(j.Span, broken)
	if t.loops == 0 { // it ends a loop over a map
		out = append(out, t.setLocal(j.Span, running(t.inLoops[len(t.inLoops)-1]), 0))
	}
	return out
}

// turns translates a loop of n turns; turn returns the statements of one. leaves: a turn may stop.
// rest returns what runs when the loop has not stopped by then; nil: nothing.
func (t *translator) turns(
	at syntax.Span, n int, leaves bool, turn func(i int) []syntax.Stmt, rest func() []syntax.Stmt,
) []syntax.Stmt {
	t.loops++
	defer func() { t.loops-- }()
	var out []syntax.Stmt
	for i := range n {
		one := turn(i)
		if len(t.wrong) > 0 {
			return nil
		}
		if leaves && i > 0 {
			one = []syntax.Stmt{t.unless(at, continued, append(t.setStopped(at, 0), one...))}
		}
		out = append(out, one...)
	}
	if rest != nil {
		out = append(out, t.unless(at, continued, rest()))
	}
	if leaves {
		out = append(out, t.unless(at, broken, t.setStopped(at, 0)))
	}
	return out
}

// leaves reports whether a turn of a loop may stop.
func leaves(body []Stmt) bool { return slices.ContainsFunc(body, mayEnd) }

// while translates at most n turns, as long as a condition holds. turn returns the statements of
// one.
func (t *translator) while(
	at syntax.Span, n int, cond func() syntax.Expr, turn func() []syntax.Stmt,
) []syntax.Stmt {
	return t.turns(at, n, true, func(int) []syntax.Stmt {
		return []syntax.Stmt{&syntax.If{
			Span: at, Cond: cond(), Then: &syntax.Block{Span: at, List: turn()},
			Else: &syntax.Block{Span: at, List: t.setStopped(at, broken)},
		}}
	}, func() []syntax.Stmt {
		line := 1 + strings.Count(t.text[:at.From], "\n")
		text := fmt.Sprintf("ERROR: the loop on line %d was ended after %d turns\n", line, n)
		report := &syntax.Call{Span: at, Func: syntax.Name{Span: at, Text: "printf"},
			Args: []syntax.Expr{&syntax.String{Span: at, Value: text}}}
		return []syntax.Stmt{&syntax.If{
			Span: at, Cond: cond(), Then: &syntax.Block{Span: at, List: t.printf(at, report)},
		}}
	})
}

// repeat translates unroll (N) and while (C).
func (t *translator) repeat(s *Repeat) []syntax.Stmt {
	if s.While {
		return t.while(s.Span, t.most(s.Body), func() syntax.Expr {
			x, _ := t.expr(s.X)
			return x
		}, func() []syntax.Stmt { return t.block(s.Body) })
	}
	n, ok := constant(s.X)
	if !ok || n < 1 || n > mostTurns {
		t.fail(s.X.At(), BadCall, "write unroll (10) { ... }",
			"the number of unroll must be a constant from 1 to %d", mostTurns)
		return nil
	}
	return t.turns(s.Span, int(n), leaves(s.Body), func(int) []syntax.Stmt {
		return t.block(s.Body)
	}, nil)
}

// forEach translates a loop over a range. Its ends are computed once.
func (t *translator) forEach(s *For) []syntax.Stmt {
	if s.End == nil {
		t.fail(s.Span, Unsupported,
			"write it in interval:s:1 or END; print(@map) prints all elements",
			"loops over maps work only in BEGIN, END and interval")
		return nil
	}
	set := func(name string, x syntax.Expr) []syntax.Stmt {
		return t.do(&Do{Span: s.Span, X: &syntax.Assign{
			Span: s.Span, Op: syntax.Set, X: &syntax.Macro{Span: s.Span, Name: name}, Y: x,
		}})
	}
	from, ok := constant(s.X)
	to, ok2 := constant(s.End)
	if ok && ok2 && to-from <= mostTurns {
		return t.turns(s.Span, int(max(0, to-from)), leaves(s.Body), func(i int) []syntax.Stmt {
			return append(set(s.Name, number(s.Span, from+int64(i))), t.block(s.Body)...)
		}, nil)
	}
	last := fmt.Sprint("(end ", s.From, ")")
	i := &syntax.Macro{Span: s.Span, Name: s.Name}
	out := append(set(s.Name, s.X), set(last, s.End)...)
	return append(out, t.while(s.Span, t.most(s.Body), func() syntax.Expr {
		x, _ := t.expr(&syntax.Binary{
			Span: s.Span, Op: syntax.Lt, X: i, Y: &syntax.Macro{Span: s.Span, Name: last},
		})
		return x
	}, func() []syntax.Stmt {
		return append(t.block(s.Body), set(s.Name, &syntax.Binary{
			Span: s.Span, Op: syntax.Add, X: i, Y: number(s.Span, 1),
		})...)
	})...)
}
