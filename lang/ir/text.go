package ir

import (
	"culprit/lang/check"
	"culprit/lang/syntax"
)

// A text is an intermediate string: size bytes of memory, zero-filled after its end, and whether it
// is NULL.
type text struct {
	mem  Mem
	size int
	set  num // 0: NULL; or 1
}

// none returns NULL: the value of an unassigned variable, and of strchr when it finds nothing.
func (c *clause) none() text {
	t := c.literalText("")
	t.set = known(0)
	return t
}

func (c *clause) literalText(s string) text {
	off, size := c.literal(s)
	return text{mem: Mem{Base: InLiteral, Reg: None, Off: off}, size: size, set: known(1)}
}

// need faults, like a read at the address 0, if a string is NULL.
func (c *clause) need(set num, at syntax.Span) {
	switch {
	case c.lowerer.src.Options.Bpftrace:
	case !set.known():
		c.failIf(set.reg, Eq, 0, false, FaultBadAddr, None, at)
	case set.imm == 0:
		c.failNow(FaultBadAddr, at)
	}
}

// text evaluates a string. The result may be in a variable: copy it to keep it.
func (c *clause) text(e check.Expr) text {
	switch e := e.(type) {
	case *check.Const:
		return c.none()
	case *check.Text:
		return c.literalText(e.Value)
	case *check.VarRef:
		if len(e.Keys) == 0 {
			m := c.home(e.Var)
			return text{mem: m.plus(8), size: c.p.StrSize, set: c.flag(m)}
		}
	case *check.Assign:
		return c.assignText(e)
	case *check.Binary: // a comma
		c.drop(e.X)
		return c.text(e.Y)
	case *check.Convert:
		if isString(e.X.Type()) {
			return c.text(e.X)
		}
	case *check.StringOf:
		if isString(e.X.Type()) && e.Max == 0 {
			return c.text(e.X)
		}
	}
	size := c.bound(c.src, e)
	m := c.alloc(size)
	return text{mem: m, size: size, set: c.textInto(e, m, size)}
}

// flag reports whether the string of a variable is assigned.
func (c *clause) flag(m Mem) num {
	n := c.loadVar(m, 8, false)
	n.size, n.signed = 1, false
	return n
}

// textInto writes a string to size bytes of memory that nothing else uses yet, and returns whether
// it is not NULL.
func (c *clause) textInto(e check.Expr, m Mem, size int) (set num) {
	switch e := e.(type) {
	case *check.Builtin:
		s := blank(OpBuiltinStr)
		s.Which, s.Mem, s.Size = e.Which, m, size
		c.step(s)
		c.trim(m, size)
		return known(1)
	case *check.StringOf:
		if isString(e.X.Type()) && e.Max == 0 {
			return c.textInto(e.X, m, size)
		}
		return c.readText(e.X, e.Max, m, size, e.Place())
	case *check.Convert:
		if isString(e.X.Type()) {
			return c.textInto(e.X, m, size)
		}
		return c.readText(e.X, 0, m, size, e.Place())
	case *check.Load:
		return c.readText(e.X, 0, m, size, e.Place())
	case *check.Call:
		return c.textCall(e, m, size)
	case *check.VarRef:
		if len(e.Keys) > 0 {
			p := c.find(e)
			r := c.reg()
			have, end := c.block(), c.block()
			c.zero(m, size)
			c.become(r, known(0))
			c.branchOn(num{reg: p, size: 8}, Ne, number0, false, have, end, e.At)
			c.place(have)
			from := Mem{Base: InValue, Reg: p}
			c.become(r, c.loadMem(from, 8, false))
			c.copyText(m, size, text{mem: from.plus(8), size: c.p.StrSize})
			c.jump(end)
			c.place(end)
			return num{reg: r, size: 1}
		}
	case *check.Cond:
		return c.textChoice(e, m, size)
	case *check.Const, *check.Text, *check.Assign, *check.Binary:
	default:
		if !isString(e.Type()) {
			return c.readText(e, 0, m, size, e.Place())
		}
		c.complain(e.Place(), NotYet, "this string expression is not supported")
		return known(1)
	}
	t := c.text(e)
	c.copyText(m, size, t)
	return t.set
}

// most returns the highest length of a string in size bytes of memory.
func (c *clause) most(size int) int64 { return int64(min(size-1, c.p.StrMost)) }

// trim truncates a string to strsize, when that is not a multiple of 8.
func (c *clause) trim(m Mem, size int) {
	if most := int(c.most(size)); most < size-1 {
		c.zero(m.plus(most), size-most)
	}
}

// copyText copies a string to size bytes.
func (c *clause) copyText(m Mem, size int, t text) {
	n := min(size, t.size)
	c.copyMem(m, t.mem, n)
	if n < size {
		c.zero(m.plus(n), size-n)
	} else if n < t.size { // truncated: never within a longer string, unless its bound is wrong
		c.storeMem(m.plus(size-1), 1, known(0))
	}
}

// readText reads the string at an address.
func (c *clause) readText(address check.Expr, most int64, m Mem, size int, at syntax.Span) num {
	if v, ok := constant(address); ok && v == 0 {
		c.zero(m, size)
		return known(0)
	}
	s := blank(OpReadStr)
	s.Space = space(address.Type())
	if r, ok := refOf(address); ok {
		s.A, s.Space = c.refAddress(r), check.Own
	} else {
		n := c.value(address)
		s.A = c.inReg(n)
	}
	if s.Space == check.Own {
		c.guard(s.A, 0, None, 1, at)
	}
	s.Mem, s.Size, s.Imm, s.At = m, size, c.most(size), at
	if most > 0 {
		s.Imm = min(s.Imm, most)
	}
	c.out(s)
	return known(1)
}

func (c *clause) textChoice(e *check.Cond, m Mem, size int) num {
	then, els, end := c.block(), c.block(), c.block()
	r := c.reg()
	c.branch(e.If, then, els)
	var a, b num
	c.place(then)
	c.apart(func() { a = c.textInto(e.Then, m, size); c.become(r, a) })
	c.jump(end)
	c.place(els)
	c.apart(func() { b = c.textInto(e.Else, m, size); c.become(r, b) })
	c.jump(end)
	c.place(end)
	if a.known() && b.known() && a.imm == b.imm {
		return a
	}
	return num{reg: r, size: 1}
}

// textAddress returns the address of a string; 0 for NULL.
func (c *clause) textAddress(e check.Expr) Reg {
	if s, ok := e.(*check.StringOf); ok && !isString(s.X.Type()) && s.Max == 0 {
		return c.regOf(s.X)
	}
	t := c.text(e)
	a := c.addressOf(t.mem)
	if t.set.known() {
		if t.set.imm == 0 {
			return c.inReg(number0)
		}
		return a
	}
	s := blank(OpNeg)
	s.A = t.set.reg
	return c.two(OpAnd, a, num{reg: c.out(s)}, false)
}

// compareText compares strings: negative, 0, or positive. NULL is less than all others.
func (c *clause) compareText(x, y check.Expr, equality bool) num {
	a := c.operandText(x)
	b := c.operandText(y)
	if a.set.known() && b.set.known() && a.set.imm&b.set.imm == 0 {
		return known(a.set.imm - b.set.imm)
	}
	// A comparison with NULL needs only the flag.
	if b.set.known() && b.set.imm == 0 {
		return a.set
	}
	if a.set.known() && a.set.imm == 0 {
		s := blank(OpNeg)
		s.A = b.set.reg
		return num{reg: c.out(s), size: 8}
	}
	s := blank(OpStrCompare)
	s.Mem, s.From, s.Size, s.Cond = a.mem, b.mem, min(a.size, b.size), Lt
	if equality {
		s.Cond = Eq
	}
	r := num{reg: c.out(s), size: 8}
	if a.set.known() && b.set.known() || isText(x) || isText(y) {
		return r
	}
	// NULL has an empty text, so the flags decide only between NULL and "".
	d := c.two(OpSub, c.inReg(a.set), b.set, false)
	return num{reg: c.two(OpOr, r.reg, num{reg: d}, false), size: 8}
}

// isText reports whether an expression is a non-empty literal, which NULL never equals.
func isText(e check.Expr) bool {
	t, ok := e.(*check.Text)
	return ok && t.Value != ""
}

// operandText returns the string of an operand of a string comparison, including a pointer or an
// array of char.
func (c *clause) operandText(e check.Expr) text {
	if isString(e.Type()) {
		return c.text(e)
	}
	if v, ok := constant(e); ok && v == 0 {
		return c.none()
	}
	m := c.alloc(c.p.StrSize)
	return text{mem: m, size: c.p.StrSize, set: c.readText(e, 0, m, c.p.StrSize, e.Place())}
}

// assignText assigns a string to a variable, and returns it.
func (c *clause) assignText(e *check.Assign) text {
	v, ok := e.X.(*check.VarRef)
	if !ok {
		return c.pokeText(e)
	}
	if len(v.Keys) == 0 {
		m := c.home(v.Var)
		if direct(e.Y) {
			set := c.textInto(e.Y, m.plus(8), c.p.StrSize)
			c.storeVar(m, 8, set)
			return text{mem: m.plus(8), size: c.p.StrSize, set: set}
		}
		t := c.operandText(e.Y)
		c.copyText(m.plus(8), c.p.StrSize, t)
		c.storeVar(m, 8, t.set)
		return text{mem: m.plus(8), size: c.p.StrSize, set: t.set}
	}
	t := c.operandText(e.Y)
	el := c.element(v)
	end := c.block()
	if t.set.known() && t.set.imm == 0 {
		c.onElement(OpDelete, el)
		return t
	}
	if !t.set.known() {
		take, give := c.block(), c.block()
		c.branchOn(t.set, Eq, number0, false, take, give, e.Place())
		c.place(take)
		c.onElement(OpDelete, el)
		c.jump(end)
		c.place(give)
	}
	p := c.onElement(OpMake, el)
	c.ifThere(p, end, func() {
		c.storeMem(Mem{Base: InValue, Reg: p}, 8, known(1))
		c.copyText(Mem{Base: InValue, Reg: p, Off: 8}, c.p.StrSize, t)
	})
	return t
}

// direct reports whether a string can be built in the variable that it is assigned to: it reads no
// variable of the script, and can't fail, which would leave the variable half-written.
func direct(e check.Expr) bool {
	switch e.(type) {
	case *check.Builtin, *check.Text:
		return true
	}
	return false
}

// pokeText writes a string to the address in a string *.
func (c *clause) pokeText(e *check.Assign) text {
	l, ok := e.X.(*check.Load)
	if !ok {
		c.complain(e.Place(), NotYet, "assignment to this expression is not supported")
		return c.none()
	}
	m := c.alloc(c.p.StrSize)
	t := text{mem: m, size: c.p.StrSize, set: c.textInto(e.Y, m, c.p.StrSize)}
	c.copyCall(c.addressOf(m), c.regOf(l.X), known(int64(c.p.StrSize)), check.Own, e.Place())
	return t
}
