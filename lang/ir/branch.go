package ir

import (
	"culprit/lang/check"
	"culprit/lang/syntax"
)

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// holds compares numbers as OpSet does.
func holds(a, b int64, cond Cond, signed bool) bool {
	if !signed {
		a, b = int64(uint64(a)^1<<63), int64(uint64(b)^1<<63)
	}
	switch cond {
	case Eq:
		return a == b
	case Ne:
		return a != b
	case Lt:
		return a < b
	case Le:
		return a <= b
	case Gt:
		return a > b
	default:
		return a >= b
	}
}

// compared returns the two sides of a comparison; for strings the result of comparing them, and 0.
func (c *clause) compared(e *check.Binary) (a, b num, cond Cond, signed bool) {
	cond = Cond(e.Op - syntax.Eq)
	if isString(e.X.Type()) || isString(e.Y.Type()) {
		return c.compareText(e.X, e.Y, cond <= Ne), known(0), cond, true
	}
	_, signed = shape(e.X.Type())
	a = c.value(e.X)
	b = c.value(e.Y)
	if a.known() && !b.known() {
		a, b = b, a
		cond = [...]Cond{Eq: Eq, Ne: Ne, Lt: Gt, Le: Ge, Gt: Lt, Ge: Le}[cond]
	}
	return a, b, cond, signed
}

// truth returns 0 or 1: the truth of an expression.
func (c *clause) truth(e check.Expr) num {
	if isString(e.Type()) {
		return c.text(e).set
	}
	n := c.value(e)
	switch {
	case n.known():
		return known(truth(n.imm != 0))
	case isLogic(e):
		return n
	}
	return c.set(n.reg, Ne, known(0), false)
}

// isLogic reports whether an expression can only be 0 or 1.
func isLogic(e check.Expr) bool {
	switch e := e.(type) {
	case *check.Unary:
		return e.Op == syntax.Not
	case *check.Binary:
		return e.Op >= syntax.LogOr && e.Op <= syntax.LogAnd ||
			e.Op >= syntax.Eq && e.Op <= syntax.Ge
	}
	return false
}

// truthValue converts logic with jumps to 0 or 1.
func (c *clause) truthValue(e check.Expr) num {
	if u, ok := e.(*check.Unary); ok {
		x := c.truth(u.X)
		if x.known() {
			return known(1 - x.imm)
		}
		return num{reg: c.two(OpXor, x.reg, known(1), false), size: 1}
	}
	yes, no, end := c.block(), c.block(), c.block()
	r := c.reg()
	c.branch(e, yes, no)
	c.place(yes)
	c.become(r, known(1))
	c.jump(end)
	c.place(no)
	c.become(r, known(0))
	c.jump(end)
	c.place(end)
	return num{reg: r, size: 1}
}

// become assigns the value of one branch to a register that joins branches.
func (c *clause) become(r Reg, n num) {
	s := blank(OpMove)
	if n.known() {
		s.Op, s.Imm = OpConst, n.imm
	}
	s.Dst, s.A = r, n.reg
	c.step(s)
}

// branch ends the block: an expression selects the next one. Facts about builtins stay valid only
// if they were learned on all ways.
func (c *clause) branch(e check.Expr, yes, no *block) {
	switch x := e.(type) {
	case *check.Unary:
		if x.Op == syntax.Not {
			c.branch(x.X, no, yes)
			return
		}
	case *check.Binary:
		switch {
		case x.Op == syntax.LogAnd || x.Op == syntax.LogOr:
			second := c.block()
			if x.Op == syntax.LogAnd {
				c.branch(x.X, second, no)
			} else {
				c.branch(x.X, yes, second)
			}
			c.place(second)
			c.apart(func() { c.branch(x.Y, yes, no) })
			return
		case x.Op >= syntax.Eq && x.Op <= syntax.Ge:
			a, b, cond, signed := c.compared(x)
			c.branchOn(a, cond, b, signed, yes, no, e.Place())
			return
		case x.Op == syntax.Comma:
			c.drop(x.X)
			c.branch(x.Y, yes, no)
			return
		}
	case *check.VarRef:
		if len(x.Keys) > 0 && !isString(x.T) && !isWhole(x.T) {
			size, signed := shape(x.T)
			p := c.find(x)
			have := c.block()
			c.branchOn(num{reg: p, size: 8}, Ne, number0, false, have, no, e.Place())
			c.place(have)
			c.branchOn(c.loadMem(Mem{Base: InValue, Reg: p}, size, signed), Ne, number0, false, yes,
				no, e.Place())
			return
		}
	case *check.Convert:
		// A conversion to at least as many bytes preserves truth.
		from, _ := shape(x.X.Type())
		to, _ := shape(x.T)
		if to >= from && !isString(x.X.Type()) && !isString(x.T) {
			c.branch(x.X, yes, no)
			return
		}
	}
	n := num{}
	if isString(e.Type()) {
		n = c.text(e).set
	} else {
		n = c.value(e)
	}
	c.branchOn(n, Ne, known(0), false, yes, no, e.Place())
}

func (c *clause) branchOn(a num, cond Cond, b num, signed bool, yes, no *block, at syntax.Span) {
	if a.known() && b.known() {
		if holds(a.imm, b.imm, cond, signed) {
			c.jump(yes)
		} else {
			c.jump(no)
		}
		return
	}
	s := blank(OpBranch)
	s.A, s.B, s.Cond, s.Signed, s.To, s.Else, s.At = c.inReg(
		a,
	), b.reg, cond, signed, yes.at, no.at, at
	if b.known() {
		s.Imm = b.imm
	}
	c.step(s)
}

// choice lowers ?: of numbers.
func (c *clause) choice(e *check.Cond) num {
	if v, ok := constant(e.If); ok {
		if v != 0 {
			return c.number(e.Then)
		}
		return c.number(e.Else)
	}
	size, signed := shape(e.T)
	then, els, end := c.block(), c.block(), c.block()
	r := c.reg()
	c.branch(e.If, then, els)
	c.place(then)
	c.apart(func() { c.become(r, c.extended(c.number(e.Then), size, signed)) })
	c.jump(end)
	c.place(els)
	c.apart(func() { c.become(r, c.extended(c.number(e.Else), size, signed)) })
	c.jump(end)
	c.place(end)
	return num{reg: r, size: size, signed: signed}
}
