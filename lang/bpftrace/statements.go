package bpftrace

import "culprit/lang/syntax"

// block translates statements. Statements behind a return are not run: those behind an if that may
// return are guarded by a flag.
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
			return append(out, t.setReturns(s.At())...)
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
			Span: s.At(), Cond: &syntax.Unary{Op: syntax.Not, X: t.flag()},
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

// alwaysEnds reports whether a list certainly ends the clause.
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

// mayEnd reports whether a statement may end the clause.
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
		return any(s.Body)
	case *For:
		return any(s.Body)
	}
	return ends(s)
}

// flag returns the variable that is 1 once the clause has returned.
func (t *translator) flag() syntax.Expr {
	if t.returns == "" {
		t.returns = t.scratchName("(return)")
	}
	return &syntax.Ident{Scope: syntax.ScopeThis, Name: t.returns}
}

// setReturns returns the statement that marks the clause as ended.
func (t *translator) setReturns(at syntax.Span) []syntax.Stmt {
	return []syntax.Stmt{&syntax.Do{Span: at, X: &syntax.Assign{
		Span: at, Op: syntax.Set, X: t.flag(), Y: &syntax.Int{Value: 1, Long: 1},
	}}}
}

// jump translates return. break and continue are reported: only loops have them.
func (t *translator) jump(j *Jump) []syntax.Stmt {
	if j.Word != "return" {
		t.fail(j.Span, Unsupported, "use if and else", "%s is not supported", j.Word)
		return nil
	}
	return t.setReturns(j.Span)
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
	}
	return nil
}

// repeat translates unroll (N) by repeating the statements.
func (t *translator) repeat(s *Repeat) []syntax.Stmt {
	if s.While {
		t.fail(s.Span, Unsupported, "repeat a fixed number of times: unroll (10) { ... }",
			"while is not supported")
		return nil
	}
	n, ok := constant(s.X)
	if !ok || n < 1 || n > 100 {
		t.fail(s.X.At(), BadCall, "write unroll (10) { ... }",
			"the number of unroll must be a constant from 1 to 100")
		return nil
	}
	var all []Stmt
	for range n {
		if len(all)+len(s.Body) > mostStatements {
			t.fail(s.Span, TooLarge, "unroll fewer times",
				"the clause has too many statements, with those of unrolled loops")
			return nil
		}
		all = append(all, s.Body...)
	}
	return t.block(all)
}

// forEach translates a loop over a constant range.
func (t *translator) forEach(s *For) []syntax.Stmt {
	if s.End == nil {
		t.fail(s.Span, Unsupported, "print(@map) prints all elements",
			"loops over maps are not supported")
		return nil
	}
	from, ok := constant(s.X)
	to, ok2 := constant(s.End)
	if !ok || !ok2 || to-from > 100 {
		t.fail(s.Span, Unsupported, "write for ($i : 0..10) { ... }",
			"a range must have constant ends and at most 100 numbers")
		return nil
	}
	var all []Stmt
	for i := from; i < to; i++ {
		all = append(all, &Do{Span: s.Span, X: &syntax.Assign{
			Span: s.Span, Op: syntax.Set, X: &syntax.Macro{Span: s.Span, Name: s.Name},
			Y: number(s.Span, i),
		}})
		all = append(all, s.Body...)
	}
	return t.block(all)
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
	}
	x, _ := t.expr(s.X)
	if t.failedAt(s.Span) {
		return nil
	}
	return []syntax.Stmt{&syntax.Do{Span: s.Span, X: x}}
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
