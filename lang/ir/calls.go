package ir

import "culprit/lang/check"

// What OpCall takes and gives, by Sub. A string that is made goes to Mem, is cut to Size - 1 bytes, and has zeroes behind it
// up to Size. Strings that are taken are never none: ir asked before. Addresses are
// read in Space; what is not there is FaultBadAddr with the address.
//
//	strlen             Dst = bytes of From
//	strjoin            Mem = From, then From2
//	lltostr            Mem = A as a signed number in base B (None: 10), by DTrace's rules: a sign in base 10 alone, 0x and 0 before 16 and 8
//	strtoll            Dst = the number that From begins with, in base A (None: 10); 0: none
//	basename, dirname  Mem = of the path From, as basename(1) and dirname(1) have it; of nothing: "."
//	cleanpath          Mem = the path From without //, /./ and name/../
//	tolower, toupper   Mem = From, of ASCII
//	substr             Mem = From from A on (negative: from the end), B bytes of it (None: all; negative: without so many at the end).
//	                   What stands before the string counts for B, and is nothing
//	index, rindex      Dst = where From2 stands in From, the first, the last; -1: nowhere; A (None: all of it): not before, not after
//	strchr, strrchr    Mem = From from the first, the last character A on; Dst = 1; not found: Mem is zeroes, Dst = 0
//	strstr             the same with the string From2
//	strtok             Mem = the next token, of which From2 are the ends; Dst = 1; none left: zeroes, 0. From: a u64, which is 1 + where
//	                   to go on, and behind it the string, which ir put there; both change
//	inet_ntoa          Mem = the IPv4 address at the address A
//	inet_ntoa6         Mem = the IPv6 address at the address A, one of IPv4 in it as ::ffff:1.2.3.4 or ::1.2.3.4; N 0: as 1.2.3.4
//	inet_ntop          Mem = the address of family A at the address B, written with IPv4 in it as for inet_ntoa6 with N 1; another family is FaultIllOp
//	link_ntop          Mem = the hardware address of type A at the address B; another type is FaultIllOp
//	htons, ntohs ...   Dst = A with its 2, 4, 8 low bytes turned, as the machine needs it; the rest 0
//	rand               Dst = a number of 32 bits
//	progenyof          Dst = 1: the process at hand is A or descends from it
//	bcopy              C bytes from the address A in Space to the address B, which must be as OpPoke has it. More than there is room: FaultBadSize.
//	                   copyinto, and copyin where its place is found while the clause runs, are this with the space User
//	mutex_owned ...    Dst = of the lock at the address A
//	d_path             Mem = the path of the struct path at the address A
//
// alloca and copyin, getmajor and getminor, copyinstr and speculation are other steps.

// call makes a subroutine that gives a number or nothing.
func (c *clause) call(e *check.Call) num {
	if isString(e.T) {
		return number0 // not reached: text makes these
	}
	s := blank(OpCall)
	s.Sub, s.At = e.Func, e.Place()
	size, signed := 8, false
	switch e.Func {
	case check.SubAlloca:
		return c.alloca(c.value(e.Args[0]), e.Place())
	case check.SubCopyin:
		return c.copyin(e)
	case check.SubBcopy:
		c.copyCall(c.addressArg(e.Args[0]), c.addressArg(e.Args[1]), c.value(e.Args[2]), c.spaceOf(e.Args[0]), e.Place())
		return number0
	case check.SubCopyinto:
		from := c.addressArg(e.Args[0])
		size := c.value(e.Args[1]) // before the address behind it, as they are written
		c.copyCall(from, c.addressArg(e.Args[2]), size, check.User, e.Place())
		return number0
	case check.SubGetmajor: // of a dev_t as the kernel has it: 12 and 20 bits
		return num{reg: c.two(OpShr, c.inReg(c.extended(c.number(e.Args[0]), 4, false)), known(20), false), size: 4}
	case check.SubGetminor:
		return num{reg: c.two(OpAnd, c.inReg(c.number(e.Args[0])), known(1<<20-1), false), size: 4}
	case check.SubSpeculation:
		s = blank(OpSpeculate)
		return num{reg: c.out(s), size: 4}
	case check.SubStrlen:
		c.stringArg(&s.From, e.Args[0])
		size = 4
	case check.SubIndex, check.SubRindex:
		c.stringArg(&s.From, e.Args[0])
		c.stringArg(&s.From2, e.Args[1])
		if len(e.Args) > 2 {
			s.A = c.regOf(e.Args[2])
		}
		signed = true
	case check.SubStrtoll:
		c.stringArg(&s.From, e.Args[0])
		if len(e.Args) > 1 {
			s.A = c.regOf(e.Args[1])
		}
	case check.SubHtons, check.SubNtohs:
		s.A, size = c.regOf(e.Args[0]), 2
	case check.SubHtonl, check.SubNtohl:
		s.A, size = c.regOf(e.Args[0]), 4
	case check.SubHtonll, check.SubNtohll, check.SubProgenyof, check.SubMutexOwned, check.SubMutexOwner, check.SubMutexTypeAdaptive,
		check.SubMutexTypeSpin, check.SubRwIswriter, check.SubRwReadHeld, check.SubRwWriteHeld:
		s.A = c.regOf(e.Args[0])
		s.Space = space(e.Args[0].Type())
	case check.SubRand:
		size = 4
	default:
		c.complain(e.Place(), NotYet, "culprit has no %s() yet", subName(e.Func))
		return number0
	}
	return num{reg: c.out(s), size: size, signed: signed}
}

// stringArg makes a string that a subroutine takes.
func (c *clause) stringArg(m *Mem, e check.Expr) {
	t := c.operandText(e)
	c.need(t.set, e.Place())
	*m = t.mem
}

// addressArg gives the address that an argument is, a string's too.
func (c *clause) addressArg(e check.Expr) Reg {
	switch {
	case isString(e.Type()):
		return c.textAddress(e)
	case isWhole(e.Type()):
		return c.wholeAddress(e)
	}
	return c.regOf(e)
}

func (c *clause) spaceOf(e check.Expr) check.Space {
	if isString(e.Type()) {
		return check.Own
	}
	if _, ok := refOf(e); ok {
		return check.Own
	}
	return space(e.Type())
}

// textCall makes a subroutine that gives a string.
func (c *clause) textCall(e *check.Call, m Mem, size int) (set num) {
	s := blank(OpCall)
	s.Sub, s.Mem, s.Size, s.At = e.Func, m, size, e.Place()
	found := false
	switch e.Func {
	case check.SubCopyinstr:
		s = blank(OpReadStr)
		s.A, s.Space = c.regOf(e.Args[0]), check.User
		s.Mem, s.Size, s.Imm, s.At = m, size, c.most(size), e.Place()
		if len(e.Args) > 1 {
			if n, ok := constant(e.Args[1]); ok {
				s.Imm = max(0, min(s.Imm, n-1)) // the byte that ends it is one of them
			} else {
				return c.copyinstr(s, c.value(e.Args[1]))
			}
		}
	case check.SubStrjoin:
		c.stringArg(&s.From, e.Args[0])
		c.stringArg(&s.From2, e.Args[1])
	case check.SubBasename, check.SubDirname, check.SubCleanpath, check.SubTolower, check.SubToupper:
		c.stringArg(&s.From, e.Args[0])
	case check.SubLltostr:
		s.A = c.regOf(e.Args[0])
		if len(e.Args) > 1 {
			s.B = c.regOf(e.Args[1])
		}
	case check.SubSubstr:
		if !c.substrAt(&s, e) {
			c.stringArg(&s.From, e.Args[0])
			s.A = c.regOf(e.Args[1])
		}
		if len(e.Args) > 2 {
			s.B = c.regOf(e.Args[2])
		}
	case check.SubStrchr, check.SubStrrchr:
		c.stringArg(&s.From, e.Args[0])
		s.A = c.inReg(c.extended(c.number(e.Args[1]), 1, false))
		found = true
	case check.SubStrstr:
		c.stringArg(&s.From, e.Args[0])
		c.stringArg(&s.From2, e.Args[1])
		found = true
	case check.SubStrtok:
		c.strtokString(e.Args[0])
		s.From = scratch(c.p.strtok)
		c.stringArg(&s.From2, e.Args[1])
		found = true
	case check.SubInetNtoa, check.SubInetNtoa6, check.SubPath:
		if len(e.Args) > 1 {
			if n, ok := constant(e.Args[1]); ok && n != 0 {
				s.N = 1
			}
		}
		s.A, s.Space = c.addressArg(e.Args[0]), c.spaceOf(e.Args[0])
	case check.SubInetNtop, check.SubLinkNtop:
		s.A = c.regOf(e.Args[0])
		s.B, s.Space = c.addressArg(e.Args[1]), c.spaceOf(e.Args[1])
	default:
		c.complain(e.Place(), NotYet, "culprit has no %s() yet", subName(e.Func))
		return known(1)
	}
	if s.Op == OpReadStr {
		c.out(s)
		return known(1)
	}
	set = known(1)
	if found {
		set = num{reg: c.out(s), size: 1}
	} else {
		c.step(s)
	}
	c.trim(m, size)
	return set
}

// substrAt reads the string of which substr takes a part where that part begins, if it is told by its address and the part begins
// at a place that is known: the string itself may be longer than one of D can be.
func (c *clause) substrAt(s *Step, e *check.Call) bool {
	from, told := constant(e.Args[1])
	at := e.Args[0]
	if v, ok := at.(*check.StringOf); ok && v.Max == 0 { // of an address that has no bound
		at = v.X
	}
	if len(e.Args) > 2 { // below 0 it counts from the end of what a string can be
		if n, ok := constant(e.Args[2]); !ok || n < 0 {
			return false
		}
	}
	_, own := refOf(at)
	null, isConst := constant(at)
	sp := space(at.Type())
	if !told || from <= 0 || from >= int64(c.p.StrSize) || isString(at.Type()) || own || sp == check.Own || isConst && null == 0 {
		return false
	}
	before := blank(OpReadStr) // what comes before it, which may be all there is
	before.A, before.Space, before.At = c.inReg(c.value(at)), sp, e.Place()
	before.Size, before.Imm = round(int(from)+1, 8), from
	before.Mem = c.alloc(before.Size)
	length := c.out(before)
	rest := blank(OpReadStr)
	rest.A, rest.Space, rest.At = c.two(OpAdd, before.A, num{reg: length, size: 8}, false), sp, e.Place()
	rest.Mem, rest.Size, rest.Imm = c.alloc(c.p.StrSize), c.p.StrSize, c.most(c.p.StrSize)
	c.out(rest)
	s.From, s.A = rest.Mem, c.two(OpSub, c.inReg(known(from)), num{reg: length, size: 8}, false) // 0, or beyond the end
	return true
}

// copyinstr reads a string of the process, of at most so many bytes as are found out while the clause runs, with the one that ends it.
func (c *clause) copyinstr(read Step, most num) num {
	c.out(read)
	// What is behind the most is cut off afterwards.
	s := blank(OpCall)
	s.Sub, s.Mem, s.Size, s.At = check.SubSubstr, read.Mem, read.Size, read.At
	t := c.alloc(read.Size)
	c.copyMem(t, read.Mem, read.Size)
	text := num{reg: c.two(OpSub, c.inReg(most), known(1), false), size: 8}
	below := num{reg: c.two(OpShr, text.reg, known(63), true), size: 8} // all bits where it is below 0
	not := blank(OpNot)
	not.A = below.reg
	s.From, s.A, s.B = t, c.inReg(known(0)), c.two(OpAnd, text.reg, num{reg: c.out(not), size: 8}, false)
	c.step(s)
	return known(1)
}

// strtokString puts the string that strtok begins with where it goes on in it. Without one it goes on; if there never was
// one, that is a fault.
func (c *clause) strtokString(e check.Expr) {
	if v, ok := constant(e); ok && v == 0 {
		begun := c.loadMem(scratch(c.p.strtok), 8, false)
		c.failIf(begun.reg, Eq, 0, false, FaultBadAddr, None, e.Place())
		return
	}
	t := c.operandText(e)
	c.need(t.set, e.Place())
	c.copyText(scratch(c.p.strtok+8), c.p.StrSize, t)
	c.storeMem(scratch(c.p.strtok), 8, known(1))
}
