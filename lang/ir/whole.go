package ir

import (
	"culprit/lang/check"
)

// whole evaluates a struct for its effects.
func (c *clause) whole(e check.Expr) {
	switch e := e.(type) {
	case *check.Assign:
		c.assignWhole(e)
	case *check.Binary:
		c.drop(e.X)
		c.drop(e.Y)
	case *check.Copy, *check.Load:
		c.wholeInto(e, c.alloc(int(e.Type().Size())), int(e.Type().Size()))
	}
}

// wholeAddress returns the address of a struct or an array.
func (c *clause) wholeAddress(e check.Expr) Reg {
	if r, ok := refOf(e); ok {
		return c.refAddress(r)
	}
	if a, ok := e.(*check.Assign); ok {
		c.assignWhole(a)
		return c.wholeAddress(a.X)
	}
	return c.inReg(c.number(e))
}

// wholeInto copies a struct, an array or bytes to m.
func (c *clause) wholeInto(e check.Expr, m Mem, size int) {
	from := e
	sp := check.Kernel
	switch x := e.(type) {
	case *check.Copy:
		from, sp = x.X, space(x.X.Type())
		if n := int(x.Size); n < size {
			c.zero(m.plus(n), size-n)
			size = n
		}
	case *check.Load:
		from, sp = x.X, space(x.X.Type())
	case *check.Const:
		c.zero(m, size)
		return
	case *check.Assign:
		c.assignWhole(x)
		from = x.X
	case *check.Cond:
		then, els, end := c.block(), c.block(), c.block()
		c.branch(x.If, then, els)
		c.place(then)
		c.apart(func() { c.wholeInto(x.Then, m, size) })
		c.jump(end)
		c.place(els)
		c.apart(func() { c.wholeInto(x.Else, m, size) })
		c.jump(end)
		c.place(end)
		return
	default:
		if _, ok := e.Type().(*check.Pointer); ok {
			sp = space(e.Type())
		}
	}
	if r, ok := refOf(from); ok && r.inside(c.lowerer, size) {
		if len(r.v.Keys) == 0 {
			c.copyMem(m, c.home(r.v.Var).plus(r.off), size)
			return
		}
		p := c.find(r.v)
		end := c.block()
		c.zero(m, size)
		c.ifThere(p, end, func() { c.copyMem(m, Mem{Base: InValue, Reg: p, Off: r.off}, size) })
		return
	}
	if isString(from.Type()) {
		c.textInto(from, m, size)
		return
	}
	s := blank(OpReadMem)
	s.Mem, s.Size, s.Space, s.At = m, size, sp, e.Place()
	s.A = c.inReg(c.value(from))
	c.step(s)
}

func (c *clause) copyMem(to, from Mem, size int) {
	s := blank(OpCopy)
	s.Mem, s.From, s.Size = to, from, size
	c.step(s)
}

// assignWhole copies a struct or an array.
func (c *clause) assignWhole(e *check.Assign) {
	size := int(e.T.Size())
	v, ok := e.X.(*check.VarRef)
	r := ref{v: v}
	if !ok {
		to := e.X // the address of a member
		if l, is := to.(*check.Load); is {
			to = l.X
		}
		if r, ok = refOf(to); !ok || !r.inside(c.lowerer, size) {
			c.copyCall(
				c.tempAddress(e.Y, size), c.regOf(to), known(int64(size)), check.Own, e.Place(),
			)
			return
		}
	}
	zero := false
	if n, is := constant(e.Y); is && n == 0 {
		zero = true
	}
	if len(r.v.Keys) == 0 {
		m := c.home(r.v.Var).plus(r.off)
		if zero {
			c.zero(m, size)
			return
		}
		c.wholeInto(e.Y, m, size)
		return
	}
	if zero && r.v == v {
		c.onElement(OpDelete, c.element(r.v))
		return
	}
	m := c.alloc(size)
	c.wholeInto(e.Y, m, size)
	el := c.element(r.v)
	p := c.onElement(OpMake, el)
	c.ifThere(p, c.block(), func() { c.copyMem(Mem{Base: InValue, Reg: p, Off: r.off}, m, size) })
}

// tempAddress copies a struct into scratch memory and returns its address.
func (c *clause) tempAddress(e check.Expr, size int) Reg {
	m := c.alloc(size)
	c.wholeInto(e, m, size)
	return c.addressOf(m)
}
