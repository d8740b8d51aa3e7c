package bpftrace

import "culprit/lang/syntax"

// block translates statements. Statements behind a jump are not run: those behind an if that may
// contain one are guarded by a variable.
func (t *translator) block(list []Stmt) []syntax.Stmt {
	var out []syntax.Stmt
	for i, s := range list {
		if t.statements++; t.statements > mostStatements {
			t.fail(s.At(), TooLarge, "unroll fewer times",
				"the clause has too many statements, with those of unrolled loops")
			return nil
		}
		if j, ok := s.(*Jump); ok {
			return append(out, t.jump(j)...)
		}
		one := t.statement(s)
		out = append(out, one...)
		if ends(s) {
			return append(out, t.setStopped(s.At(), returned)...)
		}
		rest := list[i+1:]
		if !mayEnd(s) || len(rest) == 0 {
			continue
		}
		if f, ok := s.(*If); ok && len(f.Else) == 0 && alwaysEnds(f.Then) {
			if d, ok := out[len(out)-1].(*syntax.If); ok { // no flag is needed
				d.Else = &syntax.Block{Span: s.At(), List: t.block(rest)}
				return out
			}
		}
		return append(out, &syntax.If{
			Span: s.At(), Cond: &syntax.Unary{Op: syntax.Not, X: t.stopped()},
			Then: &syntax.Block{Span: s.At(), List: t.block(rest)},
		})
	}
	return out
}

// ends reports whether a statement ends the clause: exit() does.
func ends(s Stmt) bool {
	d, ok := s.(*Do)
	if !ok {
		return false
	}
	c, ok := d.X.(*syntax.Call)
	return ok && c.Func.Text == "exit"
}

// alwaysEnds reports whether a list certainly ends the clause or the turn of a loop.
func alwaysEnds(list []Stmt) bool {
	if len(list) == 0 {
		return false
	}
	switch s := list[len(list)-1].(type) {
	case *Jump:
		return true
	case *If:
		return alwaysEnds(s.Then) && alwaysEnds(s.Else)
	default:
		return ends(s)
	}
}

// mayEnd reports whether a statement may end the clause or the turn of the loop that contains it.
func mayEnd(s Stmt) bool {
	any := func(list []Stmt) bool {
		for _, s := range list {
			if mayEnd(s) {
				return true
			}
		}
		return false
	}
	switch s := s.(type) {
	case *Jump:
		return true
	case *If:
		return any(s.Then) || any(s.Else)
	case *Repeat:
		return returns(s.Body)
	case *For:
		return returns(s.Body)
	}
	return ends(s)
}

func (t *translator) statement(s Stmt) []syntax.Stmt {
	switch s := s.(type) {
	case *Do:
		return t.do(s)
	case *If:
		cond, _ := t.expr(s.Cond)
		out := &syntax.If{
			Span: s.Span, Cond: cond,
			Then: &syntax.Block{Span: s.Span, List: t.block(s.Then)},
		}
		if len(s.Else) > 0 {
			out.Else = &syntax.Block{Span: s.Span, List: t.block(s.Else)}
		}
		return []syntax.Stmt{out}
	case *Repeat:
		return t.repeat(s)
	case *For:
		return t.forEach(s)
	case begin:
		return t.beginLoop(s.For)
	case query:
		return t.query(s)
	}
	return nil
}

// number returns a constant of 64 bits.
func number(at syntax.Span, n int64) syntax.Expr {
	if n < 0 {
		return &syntax.Unary{Span: at, Op: syntax.Neg, X: number(at, -n)}
	}
	return &syntax.Int{Span: at, Value: uint64(n), Long: 1}
}

// constant returns the value of a constant.
func constant(e syntax.Expr) (int64, bool) {
	switch e := e.(type) {
	case *syntax.Int:
		return int64(e.Value), true
	case *syntax.Unary:
		if n, ok := constant(e.X); ok && e.Op == syntax.Neg {
			return -n, true
		}
	case *syntax.Binary:
		x, ok := constant(e.X)
		y, ok2 := constant(e.Y)
		if !ok || !ok2 {
			return 0, false
		}
		switch e.Op {
		case syntax.Add:
			return x + y, true
		case syntax.Sub:
			return x - y, true
		case syntax.Mul:
			return x * y, true
		case syntax.Shl:
			return x << uint64(y), true
		}
	}
	return 0, false
}

// do translates an expression statement.
func (t *translator) do(s *Do) []syntax.Stmt {
	switch x := s.X.(type) {
	case *syntax.Assign:
		return t.assign(s.Span, x)
	case *syntax.Call:
		if out, ok := t.action(s.Span, x); ok {
			return out
		}
	case *syntax.Cond: // C ? printf(...) : printf(...)
		if isAction(x.Then) || isAction(x.Else) {
			return t.statement(&If{
				Span: s.Span, Cond: x.If, Then: []Stmt{&Do{Span: x.Then.At(), X: x.Then}},
				Else: []Stmt{&Do{Span: x.Else.At(), X: x.Else}},
			})
		}
	}
	x, _ := t.expr(s.X)
	if t.failedAt(s.Span) {
		return nil
	}
	return []syntax.Stmt{&syntax.Do{Span: s.Span, X: x}}
}

// isAction reports whether an expression is a call that is a statement, or a choice of such calls.
func isAction(e syntax.Expr) bool {
	switch e := e.(type) {
	case *syntax.Call:
		return actions[e.Func.Text]
	case *syntax.Cond:
		return isAction(e.Then) || isAction(e.Else)
	}
	return false
}

// failedAt reports whether there is a diagnostic within a span.
func (t *translator) failedAt(at syntax.Span) bool {
	for _, d := range t.wrong {
		if d.Pos >= int(at.From) && d.Pos < int(at.To) {
			return true
		}
	}
	return false
}
