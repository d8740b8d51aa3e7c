package ir

import (
	"culprit/lang/check"
	"culprit/lang/syntax"
)

// element is an element of an associative array, with its key in memory.
type element struct {
	table int
	key   Mem
}

func (c *clause) element(e *check.VarRef) element {
	n := c.p.Places[e.Var.ID].Table
	return element{n, c.key(c.p.Tables[n].Key, e.Keys, 0, false)}
}

func (c *clause) onElement(op Opcode, e element) Reg {
	s := blank(op)
	s.N, s.Mem = e.table, e.key
	if op == OpDelete {
		c.step(s)
		return None
	}
	return c.out(s)
}

// find returns the address of an element, 0: there is none.
func (c *clause) find(e *check.VarRef) Reg { return c.onElement(OpFind, c.element(e)) }

// assign lowers an assignment to anything but a string.
func (c *clause) assign(e *check.Assign) num {
	if isString(e.X.Type()) {
		t := c.assignText(e)
		return num{reg: c.inReg(t.set), size: 8} // only its truth can be used
	}
	if isWhole(e.T) {
		c.assignWhole(e)
		return number0
	}
	return c.update(e.X, e.Op != syntax.Set, func(old num) num {
		if e.Op == syntax.Set {
			return c.number(e.Y)
		}
		size, signed := shape(e.X.Type())
		y := c.operand(e.Y, e.Op)
		return c.compute(e.Op, c.extended(old, size, signed), y, e.Y.Type(), e.Place())
	}, false)
}

// increment lowers ++ and --.
func (c *clause) increment(e *check.Step) num {
	return c.update(e.X, true, func(old num) num {
		return c.compute(syntax.Add, old, known(e.By), e.X.Type(), e.Place())
	}, e.Post)
}

// update assigns to a number; the new value depends on the old one if reads is set. The place is
// computed once. It returns the new value, or with post the old one.
func (c *clause) update(x check.Expr, reads bool, value func(num) num, post bool) num {
	t := x.Type()
	size, signed := shape(t)
	field, isField := isField(t)
	var old, now num
	// stored writes the new value through load and store.
	stored := func(load func() num, store func(num)) {
		var all num
		if reads || isField {
			all = load()
			old = c.bits(all, t)
		}
		now = value(old)
		if isField {
			store(c.mixed(all, now, field))
		} else {
			store(now)
		}
	}
	var r ref
	ok := false
	if v, is := x.(*check.VarRef); is {
		r, ok = ref{v: v}, true
	} else if l, is := x.(*check.Load); is {
		if r, ok = refOf(l.X); ok && !r.inside(c.lowerer, size) {
			ok = false
		}
	}
	switch {
	case ok && len(r.v.Keys) == 0:
		m := c.home(r.v.Var).plus(r.off)
		stored(
			func() num { return c.loadVar(m, size, signed) },
			func(n num) { c.storeVar(m, size, n) },
		)
	case ok:
		now, old = c.updateElement(r, t, reads, value)
	default:
		l, is := x.(*check.Load)
		if !is {
			c.complain(x.Place(), NotYet, "assignment to this expression is not supported")
			return number0
		}
		if of, index := l.CharOf(); of != nil {
			now, old = c.updateChar(of, index, reads, value, x.Place())
			break
		}
		var at Reg
		var off int64
		find := func() {
			safe := false
			if at, off, safe = c.split(l.X); !safe {
				c.guard(at, off, None, int64(size), x.Place())
			}
		}
		if reads || isField {
			find()
		}
		stored(func() num {
			s := blank(OpRead)
			s.A, s.Imm, s.Space, s.Size, s.Signed, s.At = at, off, check.Own, size, signed,
				x.Place()
			return num{reg: c.out(s), size: size, signed: signed}
		}, func(n num) {
			s := blank(OpPoke)
			s.B = c.inReg(n)
			if !reads && !isField {
				find()
			}
			s.A, s.Imm, s.Size, s.At = at, off, size, x.Place()
			c.step(s)
		})
	}
	if post {
		return old
	}
	if isField {
		return c.bits(num{reg: c.two(OpShl, c.inReg(now), known(int64(field.Shift)), false)}, t)
	}
	return now
}

// updateChar assigns to a character of a string variable. A string ends at its first 0, so a
// character after one becomes 0, whether the 0 is the new value or an earlier end.
func (c *clause) updateChar(
	of *check.VarRef, index check.Expr, reads bool, value func(num) num, at syntax.Span,
) (now, old num) {
	m := c.home(of.Var)
	i := number0
	if index != nil {
		i = c.value(index)
	}
	n := c.inReg(i)
	c.need(c.flag(m), at)
	c.failIf(n, Ge, int64(c.p.StrMost), false, FaultBadIndex, n, at)
	address := c.two(OpAdd, c.addressOf(m.plus(8)), num{reg: n}, false)
	if reads {
		s := blank(OpRead)
		s.A, s.Space, s.Size, s.Signed, s.At = address, check.Own, 1, true, at
		old = num{reg: c.out(s), size: 1, signed: true}
	}
	now = value(old)
	s := blank(OpPoke)
	s.A, s.B, s.Size, s.At = address, c.inReg(now), 1, at
	c.step(s)
	text := c.alloc(c.p.StrSize)
	read := blank(OpReadStr)
	read.A, read.Space, read.At = c.addressOf(m.plus(8)), check.Own, at
	read.Mem, read.Size, read.Imm = text, c.p.StrSize, c.most(c.p.StrSize)
	c.out(read)
	c.copyMem(m.plus(8), text, c.p.StrSize)
	return now, old
}

// updateElement assigns to an element of an associative array, or to a member of one. An element
// that becomes 0 is deleted; a member that becomes 0 is not.
func (c *clause) updateElement(
	r ref, t check.Type, reads bool, value func(num) num,
) (now, old num) {
	size, signed := shape(t)
	field, isField := isField(t)
	isMember := isWhole(r.v.Var.Type)
	if !reads {
		now = value(number0)
	}
	el := c.element(r.v)
	end := c.block()
	if !reads && !isMember {
		now = c.extended(now, size, signed)
		if c.lowerer.src.Options.Bpftrace { // 0 is a value like others
			p := c.onElement(OpMake, el)
			c.ifThere(p, end, func() { c.storeMem(Mem{Base: InValue, Reg: p}, size, now) })
			return now, old
		}
		if now.known() {
			if now.imm == 0 {
				c.onElement(OpDelete, el)
				c.jump(end)
				c.place(end)
				return now, old
			}
		} else {
			zero, more := c.block(), c.block()
			c.branchOn(now, Eq, number0, false, zero, more, r.v.At)
			c.place(zero)
			c.onElement(OpDelete, el)
			c.jump(end)
			c.place(more)
		}
		p := c.onElement(OpMake, el)
		c.ifThere(p, end, func() { c.storeMem(Mem{Base: InValue, Reg: p}, size, now) })
		return now, old
	}
	// Read the current value; add the element only if the result is not 0.
	p := c.onElement(OpFind, el)
	all := num{reg: c.reg(), size: size, signed: signed}
	have, joined := c.block(), c.block()
	c.become(all.reg, number0)
	c.branchOn(num{reg: p, size: 8}, Ne, number0, false, have, joined, r.v.At)
	c.place(have)
	c.become(all.reg, c.loadMem(Mem{Base: InValue, Reg: p, Off: r.off}, size, signed))
	c.jump(joined)
	c.place(joined)
	old = c.bits(all, t)
	if reads {
		now = value(old)
	}
	put := now
	if isField {
		put = c.mixed(all, now, field)
	}
	if !isMember {
		put = c.extended(put, size, signed)
		now = put
	}
	if !isMember && !c.lowerer.src.Options.Bpftrace {
		zero, more := c.block(), c.block()
		c.branchOn(put, Eq, number0, false, zero, more, r.v.At)
		c.place(zero)
		c.onElement(OpDelete, el)
		c.jump(end)
		c.place(more)
	}
	q := c.reg()
	make, had, go_ := c.block(), c.block(), c.block()
	c.branchOn(num{reg: p, size: 8}, Ne, number0, false, had, make, r.v.At)
	c.place(had)
	c.become(q, num{reg: p})
	c.jump(go_)
	c.place(make)
	c.become(q, num{reg: c.onElement(OpMake, el)})
	c.jump(go_)
	c.place(go_)
	c.ifThere(q, end, func() { c.storeMem(Mem{Base: InValue, Reg: q, Off: r.off}, size, put) })
	return now, old
}

// ifThere runs f if p is not 0, and continues at end.
func (c *clause) ifThere(p Reg, end *block, f func()) {
	have := c.block()
	c.branchOn(num{reg: p, size: 8}, Ne, number0, false, have, end, syntax.Span{})
	c.place(have)
	f()
	c.jump(end)
	c.place(end)
}
