package ir

import (
	"culprit/lang/check"
	"culprit/lang/syntax"
)

// number0 is what reading something that is not there gives.
//
// table: a constant that Go has no word for
var number0 = known(0)

// home is where a variable without keys lies; of a string: its flag.
func (c *clause) home(v *check.Var) Mem { return c.p.Places[v.ID].Mem }

// ref is a place in a variable: some bytes behind its start.
type ref struct {
	v   *check.VarRef
	off int
}

// refOf finds out whether an address is a place in a variable that is known as the text is read.
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

// inside says whether size bytes at a place lie in its variable.
func (r ref) inside(l *lowerer, size int) bool {
	return r.off >= 0 && r.off+size <= l.storage(r.v.Var.Type)
}

// address gives the address of a variable as a number; of an element that is not there: 0.
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

// variable reads a variable that is no string. Of a struct or an array it gives the address.
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

// loadVar loads from a variable without keys, unless what is there is known.
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

// mostKnown is how many pieces of variables are remembered at once: registers are few.
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

// bits takes a bit field out of the integer that holds it.
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

// mixed gives the integer old with a bit field in it set to n.
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

// isField gives the type of a bit field.
func isField(t check.Type) (*check.Int, bool) {
	i, ok := t.(*check.Int)
	return i, ok && i.Bits > 0
}

// space is where a pointer leads.
func space(t check.Type) check.Space {
	if p, ok := t.(*check.Pointer); ok {
		return p.Space
	}
	return check.Kernel
}

// split gives an address as a register and a number of bytes behind it. safe: it lies in a variable of the script.
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
			if n, ok := constant(x.Y); ok && (x.Op == syntax.Add || x.Op == syntax.Sub) && !ofText(x.X) {
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

// isTyped says whether a value is an address that the verifier knows what for: it lets nobody compute with one that may be 0.
func isTyped(e check.Expr) bool {
	for {
		x, ok := e.(*check.Convert)
		if !ok {
			return space(e.Type()) == check.Typed
		}
		e = x.X
	}
}

// ofText says whether an address is that of a string. A character of none is at fault itself: at 0 and so many bytes.
func ofText(e check.Expr) bool {
	x, ok := e.(*check.Convert)
	return ok && isString(x.X.Type())
}

// notNull faults where an address is 0: the kernel lets loads from objects that the verifier knows pass there, and gives 0.
func (c *clause) notNull(r Reg, at syntax.Span) {
	type notNull struct{ r Reg }
	if _, ok := c.known[notNull{r}]; ok {
		return
	}
	c.failIf(r, Eq, 0, false, FaultBadAddr, None, at)
	c.known[notNull{r}] = num{reg: r, size: 8}
}

// inArray gives the address of an element of an array of the script, whose index must be one of it.
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

// fresh gives the place of what copyin or alloca give, if an address is at off bytes in it.
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
			room, is := constant(x.Args[len(x.Args)-1])
			if !is || off < 0 || room < int64(size)+off || room > int64(c.allocaMost) {
				return m, false
			}
			c.call(x) // whose arguments may allocate, too
			start := c.given - round(int(room), 8)
			if start < 0 { // there was no room, and the clause has ended
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

// key builds a key in scratch memory, with more bytes of room behind it. What has to be there at all is asked for with
// must: a string that is none.
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

// threadKey gives what a key of a self-> array begins with.
func (c *clause) threadKey() num {
	type thread struct{}
	if n, ok := c.known[thread{}]; ok {
		return n
	}
	which := 0
	if c.lowerer.src.Options.Namespace != nil {
		which = Unique // threads outside of the namespace have one number
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

// put writes a value into a tuple or a record. A string that is none is a fault if it must be one.
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
	}
	n := c.number(e)
	if f.Size > 4 {
		size, signed := shape(e.Type())
		n = c.extended(n, size, signed)
	}
	c.storeMem(m, f.Size, n)
}

// element is what is needed to come by an element of an associative array.
type element struct {
	table int
	key   Mem
}

func (c *clause) element(e *check.VarRef) element {
	n := c.p.Places[e.Var.ID].Table
	return element{n, c.key(c.p.Tables[n].Key, e.Keys, 0, false)}
}

func (c *clause) onElement(op Op, e element) Reg {
	s := blank(op)
	s.N, s.Mem = e.table, e.key
	if op == OpDelete {
		c.step(s)
		return None
	}
	return c.out(s)
}

// find gives the address of an element, 0: it is not there.
func (c *clause) find(e *check.VarRef) Reg { return c.onElement(OpFind, c.element(e)) }

// assign makes an assignment to anything but a string.
func (c *clause) assign(e *check.Assign) num {
	if isString(e.X.Type()) {
		t := c.assignText(e)
		return num{reg: c.inReg(t.set), size: 8} // nobody can ask for more than whether it is there
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

// increment makes ++ and --.
func (c *clause) increment(e *check.Step) num {
	return c.update(e.X, true, func(old num) num {
		return c.compute(syntax.Add, old, known(e.By), e.X.Type(), e.Place())
	}, e.Post)
}

// update gives a number a new value, which is made of the old one if reads is set. Its place is found once. What it gives
// is the new value, or the old one.
func (c *clause) update(x check.Expr, reads bool, value func(num) num, post bool) num {
	t := x.Type()
	size, signed := shape(t)
	field, isField := isField(t)
	var old, now num
	// stored puts the new value where load and store reach it.
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
		stored(func() num { return c.loadVar(m, size, signed) }, func(n num) { c.storeVar(m, size, n) })
	case ok:
		now, old = c.updateElement(r, t, reads, value)
	default:
		l, is := x.(*check.Load)
		if !is {
			c.complain(x.Place(), NotYet, "culprit cannot assign to this yet")
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
			s.A, s.Imm, s.Space, s.Size, s.Signed, s.At = at, off, check.Own, size, signed, x.Place()
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

// updateChar gives a character of a string variable a new value. A string ends with its first 0, so what would stand behind
// one becomes 0: that of the new value, or of an end before the character.
func (c *clause) updateChar(of *check.VarRef, index check.Expr, reads bool, value func(num) num, at syntax.Span) (now, old num) {
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

// updateElement gives an element of an associative array, or a member of one, a new value. An element that becomes 0 is
// taken out, unless it is the member alone that does.
func (c *clause) updateElement(r ref, t check.Type, reads bool, value func(num) num) (now, old num) {
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
	// What is there is read; it is made only when it is known that it stays.
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

// ifThere runs f if p is not 0, and goes on at end.
func (c *clause) ifThere(p Reg, end *block, f func()) {
	have := c.block()
	c.branchOn(num{reg: p, size: 8}, Ne, number0, false, have, end, syntax.Span{})
	c.place(have)
	f()
	c.jump(end)
	c.place(end)
}

// whole evaluates a struct for what it does.
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

// wholeAddress gives the address of a struct or an array.
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
		size = min(size, int(x.Size))
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
			c.copyCall(c.tempAddress(e.Y, size), c.regOf(to), known(int64(size)), check.Own, e.Place())
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

// tempAddress copies a struct into scratch memory and gives its address.
func (c *clause) tempAddress(e check.Expr, size int) Reg {
	m := c.alloc(size)
	c.wholeInto(e, m, size)
	return c.addressOf(m)
}
