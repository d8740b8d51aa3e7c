package ir

import (
	"culprit/lang/check"
	"culprit/lang/syntax"
)

// number0 is the value of a missing element.
//
// table: a constant that Go can't express
var number0 = known(0)

// home returns the location of a variable without keys; for a string, that of its flag.
func (c *clause) home(v *check.Var) Mem { return c.p.Places[v.ID].Mem }

// ref is a place in a variable: an offset from its start.
type ref struct {
	v   *check.VarRef
	off int
}

// refOf returns the place in a variable that an address refers to, if it is known at compile time.
func refOf(e check.Expr) (ref, bool) {
	switch e := e.(type) {
	case *check.AddrOf:
		if isString(e.X.T) {
			return ref{}, false
		}
		return ref{v: e.X}, true
	case *check.VarRef:
		if isWhole(e.Var.Type) {
			return ref{v: e}, true
		}
	case *check.Load: // the address of a member that is a struct or an array itself
		if isWhole(e.T) {
			return refOf(e.X)
		}
	case *check.Convert:
		if _, ok := e.T.(*check.Pointer); ok {
			return refOf(e.X)
		}
	case *check.Binary:
		if n, ok := constant(e.Y); ok && (e.Op == syntax.Add || e.Op == syntax.Sub) {
			r, ok := refOf(e.X)
			if e.Op == syntax.Sub {
				n = -n
			}
			r.off += int(n)
			return r, ok
		}
	}
	return ref{}, false
}

// inside reports whether size bytes at a place are within its variable.
func (r ref) inside(l *lowerer, size int) bool {
	return r.off >= 0 && r.off+size <= l.storage(r.v.Var.Type)
}

// address returns the address of a variable as a number; for a missing element, 0.
func (c *clause) address(e *check.AddrOf) Reg {
	if isString(e.X.T) {
		return c.textAddress(e.X)
	}
	return c.refAddress(ref{v: e.X})
}

func (c *clause) refAddress(r ref) Reg {
	if len(r.v.Keys) > 0 {
		return c.inReg(c.sum(c.find(r.v), int64(r.off)))
	}
	return c.addressOf(c.home(r.v.Var).plus(r.off))
}

func (c *clause) addressOf(m Mem) Reg {
	s := blank(OpAddress)
	s.Mem = m
	return c.out(s)
}

func (c *clause) sum(r Reg, n int64) num {
	if n == 0 {
		return num{reg: r, size: 8}
	}
	return num{reg: c.two(OpAdd, r, known(n), false), size: 8}
}

// variable reads a variable that is not a string. For a struct or an array it returns the address.
func (c *clause) variable(e *check.VarRef) num {
	if isWhole(e.Var.Type) {
		return num{reg: c.refAddress(ref{v: e}), size: 8}
	}
	return c.fetch(ref{v: e}, e.T)
}

// fetch reads a number from a place in a variable.
func (c *clause) fetch(r ref, t check.Type) num {
	size, signed := shape(t)
	if f, ok := t.(*check.Float); ok {
		size = int(f.Bytes)
	}
	if len(r.v.Keys) == 0 {
		return c.bits(c.loadVar(c.home(r.v.Var).plus(r.off), size, signed), t)
	}
	at := c.find(r.v)
	out := c.reg()
	have, end := c.block(), c.block()
	c.become(out, number0)
	c.branchOn(num{reg: at, size: 8}, Ne, number0, false, have, end, r.v.At)
	c.place(have)
	c.become(out, c.loadMem(Mem{Base: InValue, Reg: at, Off: r.off}, size, signed))
	c.jump(end)
	c.place(end)
	return c.bits(num{reg: out, size: size, signed: signed}, t)
}

func (c *clause) loadMem(m Mem, size int, signed bool) num {
	s := blank(OpLoad)
	s.Mem, s.Size, s.Signed = m, size, signed
	return num{reg: c.out(s), size: size, signed: signed}
}

// loadVar loads from a variable without keys, unless its value is in a register.
func (c *clause) loadVar(m Mem, size int, signed bool) num {
	p, ok := c.pieceOf(m, size)
	if ok {
		for i := range c.held {
			if c.held[i].piece == p {
				return c.extended(c.held[i].in, size, signed)
			}
		}
	}
	n := c.loadMem(m, size, signed)
	if ok {
		c.learn(p, n)
	}
	return n
}

// mostKnown is the highest number of holdings: registers are few.
const mostKnown = 32

func (c *clause) learn(p piece, n num) {
	for i := range c.held {
		if c.held[i].piece == p {
			c.held[i].in = n
			return
		}
	}
	if len(c.held) > mostKnown {
		c.forgetAll()
	}
	c.held = append(c.held, holding{p, n})
}

// storeVar stores in a variable without keys.
func (c *clause) storeVar(m Mem, size int, n num) {
	c.storeMem(m, size, n)
	if p, ok := c.pieceOf(m, size); ok {
		c.learn(p, n)
	}
}

func (c *clause) storeMem(m Mem, size int, n num) {
	s := blank(OpStore)
	s.Mem, s.Size, s.A, s.Imm = m, size, n.reg, n.imm
	if !n.known() {
		s.Imm = 0
	}
	c.step(s)
}

// bits extracts a bit field from the integer that contains it.
func (c *clause) bits(n num, t check.Type) num {
	i, ok := t.(*check.Int)
	if !ok || i.Bits == 0 {
		return n
	}
	up := 64 - int64(i.Bits) - int64(i.Shift)
	r := n.reg
	if up > 0 {
		r = c.two(OpShl, r, known(up), false)
	}
	r = c.two(OpShr, r, known(64-int64(i.Bits)), i.Signed)
	return num{reg: r, size: int(i.Bytes), signed: i.Signed}
}

// mixed returns the integer old with its bit field set to n.
func (c *clause) mixed(old, n num, i *check.Int) num {
	mask := int64(1)<<i.Bits - 1
	if i.Bits == 64 {
		mask = -1
	}
	keep := c.two(OpAnd, c.inReg(old), known(^(mask << i.Shift)), false)
	if n.known() {
		return num{reg: c.two(OpOr, keep, known(n.imm&mask<<i.Shift), false), size: 8}
	}
	r := c.two(OpAnd, c.inReg(n), known(mask), false)
	if i.Shift > 0 {
		r = c.two(OpShl, r, known(int64(i.Shift)), false)
	}
	return num{reg: c.two(OpOr, keep, num{reg: r}, false), size: 8}
}

// isField returns the type of a bit field.
func isField(t check.Type) (*check.Int, bool) {
	i, ok := t.(*check.Int)
	return i, ok && i.Bits > 0
}

// space returns the space that a pointer refers to.
func space(t check.Type) check.Space {
	if p, ok := t.(*check.Pointer); ok {
		return p.Space
	}
	return check.Kernel
}

// split returns an address as a register and an offset. safe: it is in a variable of the script.
func (c *clause) split(e check.Expr) (at Reg, off int64, safe bool) {
	for {
		switch x := e.(type) {
		case *check.Convert:
			_, a := x.T.(*check.Pointer)
			_, b := x.X.Type().(*check.Pointer)
			if a && b {
				e = x.X
				continue
			}
		case *check.Load:
			if isWhole(x.T) {
				e = x.X
				continue
			}
		case *check.Binary:
			if n, ok := constant(x.Y); ok && (x.Op == syntax.Add || x.Op == syntax.Sub) &&
				!ofText(x.X) {
				if x.Op == syntax.Sub {
					n = -n
				}
				if int64(int32(off+n)) == off+n {
					off += n
					e = x.X
					continue
				}
			}
			if r, ok := refOf(x.X); ok && x.Op == syntax.Add && len(r.v.Keys) == 0 {
				return c.inArray(r, x.Y, e.Place()), off, true
			}
		}
		break
	}
	n := c.value(e)
	r := c.inReg(n)
	if off != 0 && isTyped(e) {
		c.notNull(r, e.Place())
	}
	return r, off, false
}

// isTyped reports whether a value is an address known to the verifier, which allows no arithmetic
// on an address that may be 0.
func isTyped(e check.Expr) bool {
	for {
		x, ok := e.(*check.Convert)
		if !ok {
			return space(e.Type()) == check.Typed
		}
		e = x.X
	}
}

// ofText reports whether an address is that of a string. Reading a character of NULL is a fault at
// 0 plus the index.
func ofText(e check.Expr) bool {
	x, ok := e.(*check.Convert)
	return ok && isString(x.X.Type())
}

// notNull faults if an address is 0: in loads from objects known to the verifier the kernel accepts
// 0 and returns 0.
func (c *clause) notNull(r Reg, at syntax.Span) {
	type notNull struct{ r Reg }
	if _, ok := c.known[notNull{r}]; ok {
		return
	}
	c.failIf(r, Eq, 0, false, FaultBadAddr, None, at)
	c.known[notNull{r}] = num{reg: r, size: 8}
}

// inArray returns the address of an element of an array of the script, and checks its index.
func (c *clause) inArray(r ref, behind check.Expr, at syntax.Span) Reg {
	size := int64(1)
	if m, ok := behind.(*check.Binary); ok && m.Op == syntax.Mul {
		if n, ok := constant(m.Y); ok && n > 0 {
			behind, size = m.X, n
		}
	}
	i := c.inReg(c.value(behind))
	c.failIf(i, Ge, (int64(c.storage(r.v.Var.Type))-int64(r.off))/size, false, FaultBadIndex, i, at)
	if size != 1 {
		i = c.two(OpMul, i, known(size), false)
	}
	return c.two(OpAdd, c.refAddress(r), num{reg: i}, false)
}

// fresh returns the place of the result of copyin or alloca, if an address refers to it with an
// offset.
func (c *clause) fresh(e check.Expr, size int) (m Mem, ok bool) {
	off := int64(0)
	for {
		switch x := e.(type) {
		case *check.Convert:
			if _, is := x.T.(*check.Pointer); !is {
				return m, false
			}
			e = x.X
			continue
		case *check.Binary:
			n, is := constant(x.Y)
			if !is || x.Op != syntax.Add {
				return m, false
			}
			off += n
			e = x.X
			continue
		case *check.Call:
			if x.Func != check.SubCopyin && x.Func != check.SubAlloca || !c.use.fixed {
				return m, false
			}
			allocated, is := constant(x.Args[len(x.Args)-1])
			if !is || off < 0 || allocated < int64(size)+off || allocated > int64(c.allocaMost) {
				return m, false
			}
			c.call(x) // whose arguments may allocate, too
			start := c.given - round(int(allocated), 8)
			if start < 0 { // memory was exhausted, and the clause has ended
				start = 0
			}
			return scratch(c.p.Alloca.Off + start + int(off)), true
		}
		return m, false
	}
}

// load reads the number at an address.
func (c *clause) load(e *check.Load) num {
	if isWhole(e.T) {
		return c.number(e.X)
	}
	size, signed := shape(e.T)
	if f, ok := e.T.(*check.Float); ok {
		size = int(f.Bytes)
	}
	if r, ok := refOf(e.X); ok && r.inside(c.lowerer, size) {
		return c.fetch(r, e.T)
	}
	if m, ok := c.fresh(e.X, size); ok {
		return c.bits(c.loadMem(m, size, signed), e.T)
	}
	s := blank(OpRead)
	safe := false
	s.A, s.Imm, safe = c.split(e.X)
	s.Space, s.Size, s.Signed, s.At = space(e.X.Type()), size, signed, e.Place()
	if s.Space == check.Typed {
		c.notNull(s.A, s.At)
	}
	if s.Space == check.Own && !safe {
		c.guard(s.A, s.Imm, None, int64(size), s.At)
	}
	return c.bits(num{reg: c.out(s), size: size, signed: signed}, e.T)
}

// key builds a key in scratch memory, followed by more free bytes. With must, a NULL string in it
// is a fault.
func (c *clause) key(t Tuple, keys []check.Expr, more int, must bool) Mem {
	m := c.alloc(t.Size + more)
	end := 0
	if t.Thread {
		c.storeMem(m, 8, c.threadKey())
		end = 8
	}
	for i, k := range keys {
		f := t.Fields[i]
		c.gap(m, end, f.Offset)
		c.put(m.plus(f.Offset), f, k, must)
		end = f.Offset + f.Size
	}
	c.gap(m, end, t.Size)
	return m
}

// threadKey returns the first part of a key of a self-> array.
func (c *clause) threadKey() num {
	type thread struct{}
	if n, ok := c.known[thread{}]; ok {
		return n
	}
	which := 0
	if c.lowerer.src.Options.Namespace != nil {
		which = Unique // threads outside of the namespace share one number
	}
	tid := c.builtin(check.BuiltinTID, which)
	r := c.reg()
	idle, end := c.block(), c.block()
	c.become(r, tid)
	c.branchOn(tid, Eq, number0, false, idle, end, syntax.Span{})
	c.place(idle)
	c.apart(func() {
		cpu := c.two(OpAdd, c.inReg(c.builtin(check.BuiltinCPU, 0)), known(1), false)
		c.become(r, num{reg: c.two(OpShl, cpu, known(32), false)})
	})
	c.jump(end)
	c.place(end)
	n := num{reg: r, size: 8}
	c.known[thread{}] = n
	return n
}

func (c *clause) gap(m Mem, from, to int) {
	if from < to {
		c.zero(m.plus(from), to-from)
	}
}

// put writes a value into a tuple or a record. With must, a NULL string is a fault.
func (c *clause) put(m Mem, f TupleField, e check.Expr, must bool) {
	switch t := f.Type.(type) {
	case check.StringType:
		set := c.textInto(e, m, f.Size)
		if must {
			c.need(set, e.Place())
		}
		return
	case check.SymbolType:
		c.storeMem(m, 8, c.value(e))
		if t.Of == check.User {
			c.storeMem(m.plus(8), 8, c.builtin(check.BuiltinPID, 0))
		}
		return
	case *check.Bytes:
		c.wholeInto(e, m, f.Size)
		return
	case *check.Array, *check.Struct:
		if c.lowerer.src.Options.Bpftrace {
			c.wholeInto(e, m, f.Size)
			return
		}
	}
	n := c.number(e)
	if f.Size > 4 {
		size, signed := shape(e.Type())
		n = c.extended(n, size, signed)
	}
	c.storeMem(m, f.Size, n)
}
