package ir

import (
	"culprit/lang/check"
	"culprit/lang/syntax"
)

// The memory of alloca and copyin belongs to a firing of a probe: an allocation of one clause stays
// valid in later clauses until the firing ends. Program.taken, in this->, is 0 when a firing begins
// and counts the allocated bytes; an address beyond them is a fault.
//
//	| beside: 64 bytes, a fault | allocated: Program.taken bytes | a fault | up to Alloca.Size
//
// The first allocating clause of its probes, if all its sizes are constants, has its pieces at
// fixed offsets from 0 on. All others allocate from Program.taken at run time. Each piece is
// followed by 8 zero bytes, so that a string in it ends with it. A piece of 0 bytes takes no
// memory: its address is that of a literal of zeroes.

const (
	// between is the number of bytes after a piece.
	between = 8

	// beside is the number of invalid bytes before the allocated memory, so that a wrong index is a
	// fault.
	beside = 64

	// defaultScratch is the number of bytes that a clause may allocate without -x scratchsize.
	// Larger constant sizes increase it.
	defaultScratch = 256

	// mostFiring is the number of bytes that the clauses of one firing share, if no single clause
	// needs more.
	mostFiring = 4096

	// mostScratchSize is the largest -x scratchsize: gen reserves twice as much, and strings and
	// records need memory, too.
	mostScratchSize = maxScratch/2 - 1024
)

// A scratchUse is how a clause uses the memory of alloca and copyin.
type scratchUse struct {
	allocates bool
	fixed     bool // its pieces have fixed places
	shared    bool // other clauses run in the same firing
	before    bool // a clause before it may have allocated in the same firing
}

// layoutScratch computes the allocations of each clause, and reserves the memory.
func (l *lowerer) layoutScratch() {
	l.uses = make([]scratchUse, len(l.src.Clauses))
	if !l.calls(check.SubAlloca, check.SubCopyin) {
		return
	}
	set := 0
	if n := check.OptionBytes(l.src.Options.All["scratchsize"]); n > 0 {
		set = int(min(n, mostScratchSize))
		if n > mostScratchSize {
			l.complain(
				syntax.Span{}, TooLarge,
				"-x scratchsize=%d exceeds the memory of a firing: at most %d bytes", n,
				mostScratchSize,
			)
		}
	}
	clauses := map[uint32]int{} // per probe: number of clauses
	// per probe: highest allocation of the clauses before the current one
	needs := map[uint32]int{}
	for _, src := range l.src.Clauses {
		for _, p := range src.Probes {
			clauses[p.ID]++
		}
	}
	largest := 0
	for i, src := range l.src.Clauses {
		use := &l.uses[i]
		need := 0
		use.allocates, use.fixed, need = scratchNeed(src, set)
		largest = max(largest, need)
		for _, p := range src.Probes {
			use.before = use.before || needs[p.ID] > 0
			use.shared = use.shared || clauses[p.ID] > 1
			needs[p.ID] += need
			l.allocaMost = max(l.allocaMost, needs[p.ID])
		}
		use.fixed = use.fixed && !use.before
	}
	l.allocaMost = max(min(l.allocaMost, mostFiring), largest) - between
	l.p.taken = l.p.This
	l.p.This += 8
	l.p.Alloca = Region{l.p.This + beside, round(l.allocaMost, 8) + between}
}

// scratchNeed returns whether a clause allocates, whether all sizes are constants, and the highest
// allocation in bytes: set, from -x scratchsize, or the sum of its constants, at least
// defaultScratch.
func scratchNeed(src *check.Clause, set int) (allocates, constants bool, need int) {
	sum, gaps := 0, 0
	constants = true
	walk(src, func(e check.Expr) {
		call, ok := e.(*check.Call)
		if !ok || call.Func != check.SubAlloca && call.Func != check.SubCopyin {
			return
		}
		allocates = true
		gaps += between
		n, known := constant(call.Args[len(call.Args)-1])
		constants = constants && known
		if known && n > 0 && n <= check.MostScratch {
			sum += round(int(n), 8)
		}
	}, nil)
	if !allocates {
		return false, false, 0
	}
	if set == 0 {
		set = max(defaultScratch, min(sum, check.MostScratch))
	}
	return allocates, constants, set + gaps
}

// allocate returns the address of size bytes of Program.Alloca, at a multiple of 8. If size is not
// 0, fill must fill them.
func (c *clause) allocate(size num, at syntax.Span, fill func(address num)) num {
	switch {
	case size.known() && size.imm == 0:
		return num{reg: c.nothing(), size: 8}
	case c.use.fixed:
		m, ok := c.give(size.imm, at)
		if !ok {
			return number0
		}
		address := num{reg: c.addressOf(m), size: 8}
		fill(address)
		return address
	case size.known():
		return c.take(size, at, fill)
	}
	size = num{reg: c.inReg(size), size: 8}
	out := c.reg()
	none, some, end := c.block(), c.block(), c.block()
	c.branchOn(size, Eq, number0, false, none, some, at)
	c.place(none)
	c.apart(func() { c.become(out, num{reg: c.nothing()}) })
	c.jump(end)
	c.place(some)
	c.apart(func() { c.become(out, c.take(size, at, fill)) })
	c.jump(end)
	c.place(end)
	return num{reg: out, size: 8}
}

// next returns the offset of the next piece of a clause with fixed places.
func (c *clause) next() int {
	if c.given == 0 {
		return 0
	}
	return c.given + between
}

// give allocates a piece at a fixed place. !ok: memory is exhausted, and the clause ends there.
func (c *clause) give(size int64, at syntax.Span) (m Mem, ok bool) {
	start := c.next()
	if size < 0 || size > int64(c.allocaMost-start) {
		c.failNow(FaultNoScratch, at)
		return nowhere, false
	}
	c.given = start + round(int(size), 8)
	if c.use.shared {
		c.storeMem(scratch(c.p.taken), 8, known(int64(c.given)))
	}
	m = scratch(c.p.Alloca.Off + start)
	end := int(size) &^ 7
	c.zero(m.plus(end), round(int(size), 8)+between-end)
	return m, true
}

// take allocates a piece at run time, after those of the firing.
func (c *clause) take(size num, at syntax.Span, fill func(address num)) num {
	most := int64(c.allocaMost)
	n := c.inReg(size)
	c.failIf(n, Gt, most, false, FaultNoScratch, None, at)
	taken := c.loadMem(scratch(c.p.taken), 8, false)
	// between, except before the first piece
	gap := c.two(OpShl, c.set(taken.reg, Ne, number0, false).reg, known(3), false)
	start := num{reg: c.two(OpAdd, taken.reg, num{reg: gap}, false), size: 8}
	end := c.two(OpAdd, start.reg, num{reg: n}, false)
	c.failIf(end, Gt, most, false, FaultNoScratch, None, at)
	c.storeMem(
		scratch(c.p.taken), 8,
		num{reg: c.two(OpAnd, c.two(OpAdd, end, known(7), false), known(^7), false)},
	)
	address := num{reg: c.two(OpAdd, c.addressOf(scratch(c.p.Alloca.Off)), start, false), size: 8}
	zero := blank(OpPoke) // the word with the first byte after the piece
	zero.A, zero.B, zero.Size, zero.At = c.two(
		OpAdd, address.reg, num{reg: c.two(OpAnd, n, known(^7), false)}, false,
	), c.inReg(
		number0,
	), 8, at
	c.step(zero)
	fill(address)
	return address
}

// nothing returns the address of a piece of 0 bytes: read-only zeroes.
func (c *clause) nothing() Reg { return c.addressOf(c.zeroes()) }

// zeroes returns a literal of zeroes as long as the longest string or piece.
func (c *clause) zeroes() Mem {
	if c.lowerer.zeroes == 0 {
		c.lowerer.zeroes = 1 + len(c.p.Literals)
		c.p.Literals = append(c.p.Literals, make([]byte, max(c.p.StrSize, c.p.Alloca.Size))...)
	}
	return Mem{Base: InLiteral, Reg: None, Off: c.lowerer.zeroes - 1}
}

// alloca lowers the subroutine: zeroes.
func (c *clause) alloca(size num, at syntax.Span) num {
	m := scratch(c.p.Alloca.Off + c.next())
	return c.allocate(size, at, func(address num) {
		if c.use.fixed {
			if n := int(size.imm) &^ 7; n > 0 {
				c.zero(m, n)
			}
			return
		}
		s := blank(OpCall)
		s.Sub, s.A, s.B, s.C, s.Space, s.At = check.SubBcopy, c.nothing(), address.reg, c.inReg(
			size,
		), check.Own, at
		c.step(s)
	})
}

// copyin lowers the subroutine: bytes of the process.
func (c *clause) copyin(e *check.Call) num {
	from := c.regOf(e.Args[0])
	size := c.value(e.Args[1])
	m := scratch(c.p.Alloca.Off + c.next())
	return c.allocate(size, e.Place(), func(address num) {
		if !c.use.fixed {
			c.copyCall(from, address.reg, size, check.User, e.Place())
			return
		}
		s := blank(OpReadMem)
		s.Mem, s.Size, s.A, s.Space, s.At = m, int(size.imm), from, check.User, e.Place()
		c.step(s)
	})
}

// copyCall copies size bytes to an address in a register.
func (c *clause) copyCall(from, to Reg, size num, sp check.Space, at syntax.Span) {
	if size.known() && size.imm == 0 {
		return
	}
	n := c.inReg(size)
	c.guard(to, 0, n, 0, at)
	if sp == check.Own {
		c.guard(from, 0, n, 0, at)
	}
	s := blank(OpCall)
	s.Sub, s.A, s.B, s.C, s.Space, s.At = check.SubBcopy, from, to, n, sp, at
	c.step(s)
}

// guard faults if an address is in the memory of alloca and the size bytes from it (n: or as many
// as in this register) are not allocated in this firing. 0 bytes are valid everywhere.
func (c *clause) guard(address Reg, off int64, n Reg, size int64, at syntax.Span) {
	memory := c.p.Alloca
	if memory.Size == 0 {
		return
	}
	address = c.sum(address, off).reg
	d := num{
		reg:  c.two(OpSub, address, num{reg: c.addressOf(scratch(memory.Off - beside))}, false),
		size: 8,
	}
	inside, fine := c.block(), c.block()
	c.branchOn(d, Lt, known(int64(beside+memory.Size)), false, inside, fine, at)
	c.place(inside)
	if n != None {
		some := c.block()
		c.branchOn(num{reg: n, size: 8}, Eq, number0, false, fine, some, at)
		c.place(some)
	}
	// before the first piece: more than there is
	d = num{reg: c.two(OpSub, d.reg, known(beside), false), size: 8}
	top := known(int64(c.given))
	if !c.use.fixed && (c.use.allocates || c.use.before) {
		top = c.loadMem(scratch(c.p.taken), 8, false)
	}
	bad := c.fault(FaultBadAddr, address, 0, at)
	some := c.block()
	c.branchOn(d, Ge, top, false, bad, some, at)
	c.place(some)
	left := num{reg: c.two(OpSub, c.inReg(top), d, false), size: 8}
	if n != None {
		c.branchOn(left, Lt, num{reg: n, size: 8}, false, c.fault(FaultBadSize, n, 0, at), fine, at)
	} else {
		c.branchOn(left, Lt, known(size), false, bad, fine, at)
	}
	c.place(fine)
}
