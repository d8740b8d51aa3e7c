package ir

import "culprit/lang/check"

// The operands of OpCall, by Sub. A resulting string is written to Mem, truncated to Size - 1 bytes
// and zero-filled up to Size. String operands are never NULL: ir checks before. Addresses are read
// in Space; an invalid one is FaultBadAddr with the address.
//
//	strlen             Dst = length of From
//	strjoin            Mem = From, then From2
//	lltostr            Mem = A as a signed number in base B (None: 10), by DTrace's rules: a sign
//	                   only in base 10, 0x before base 16 and 0 before base 8
//	strtoll            Dst = the number at the start of From, in base A (None: 10); 0: none
//	basename, dirname  Mem = part of the path From, as in basename(1) and dirname(1); "." for ""
//	cleanpath          Mem = the path From without //, /./ and name/../
//	tolower, toupper   Mem = From with its ASCII letters converted
//	substr             Mem = From from A on (negative: from the end), B bytes of it (None: all;
//	                   negative: without that many at the end). Positions before the string count
//	                   for B, and are empty
//	index, rindex      Dst = position of From2 in From, the first, the last; -1: none; A (None:
//	                   the whole string): not before A, not after A
//	strchr, strrchr    Mem = From from the first, the last character A on; Dst = 1; not found: Mem
//	                   is zeroes, Dst = 0
//	strstr             the same with the string From2
//	strtok             Mem = the next token, delimited by From2; Dst = 1; none left: zeroes, 0.
//	                   From: a u64, 1 + the position to continue at, then the string, which ir put
//	                   there; both change
//	inet_ntoa          Mem = the IPv4 address at the address A
//	inet_ntoa6         Mem = the IPv6 address at the address A, with an IPv4 address in it as
//	                   ::ffff:1.2.3.4 or ::1.2.3.4; N 0: as 1.2.3.4
//	inet_ntop          Mem = the address of family A at the address B, as inet_ntoa6 with N 1;
//	                   another family is FaultIllOp
//	link_ntop          Mem = the hardware address of type A at the address B; another type is
//	                   FaultIllOp
//	htons, ntohs ...   Dst = A with its 2, 4, 8 low bytes swapped, if the machine needs it; rest 0
//	rand               Dst = a 32-bit number
//	progenyof          Dst = 1: the current process is A or descends from it
//	bcopy              C bytes from the address A in Space to the address B, which must be valid
//	                   for OpPoke. Too many bytes: FaultBadSize. copyinto, and copyin without a
//	                   fixed place, are bcopy with the space User
//	mutex_owned ...    Dst = state of the lock at the address A
//	d_path             Mem = the part N (check.PathPart) of the name of the file whose struct path
//	                   is at the address A; none there: FaultBadAddr. With check.PathOfFile or
//	                   PathOfRequest A is the address of such a struct, or 0; none: "<none>"
//	file_of            Dst = the address of the struct file of the descriptor A, 0: none
//
// alloca and copyin, getmajor and getminor, copyinstr and speculation are other steps.

// call lowers a subroutine that returns a number or nothing.
func (c *clause) call(e *check.Call) num {
	if isString(e.T) {
		return number0 // not reached: text handles these
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
		c.copyCall(
			c.addressArg(e.Args[0]), c.addressArg(e.Args[1]), c.value(e.Args[2]),
			c.spaceOf(e.Args[0]), e.Place(),
		)
		return number0
	case check.SubCopyinto:
		from := c.addressArg(e.Args[0])
		size := c.value(e.Args[1]) // before the address after it, in the order of the text
		c.copyCall(from, c.addressArg(e.Args[2]), size, check.User, e.Place())
		return number0
	case check.SubGetmajor: // of a dev_t in the kernel's form: 12 and 20 bits
		return num{
			reg:  c.two(OpShr, c.inReg(c.extended(c.number(e.Args[0]), 4, false)), known(20), false),
			size: 4,
		}
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
	case check.SubHtonll,
		check.SubNtohll,
		check.SubProgenyof,
		check.SubMutexOwned,
		check.SubMutexOwner,
		check.SubMutexTypeAdaptive,
		check.SubMutexTypeSpin,
		check.SubRwIswriter,
		check.SubRwReadHeld,
		check.SubRwWriteHeld,
		check.SubFileOf:
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

// stringArg lowers a string argument of a subroutine.
func (c *clause) stringArg(m *Mem, e check.Expr) {
	t := c.operandText(e)
	c.need(t.set, e.Place())
	*m = t.mem
}

// addressArg returns the address in an argument, including that of a string.
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

// textCall lowers a subroutine that returns a string.
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
				s.Imm = max(0, min(s.Imm, n-1)) // including its final byte
			} else {
				return c.copyinstr(s, c.value(e.Args[1]))
			}
		}
	case check.SubStrjoin:
		c.stringArg(&s.From, e.Args[0])
		c.stringArg(&s.From2, e.Args[1])
	case check.SubBasename,
		check.SubDirname,
		check.SubCleanpath,
		check.SubTolower,
		check.SubToupper:
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
	case check.SubInetNtoa, check.SubInetNtoa6:
		if len(e.Args) > 1 {
			if n, ok := constant(e.Args[1]); ok && n != 0 {
				s.N = 1
			}
		}
		s.A, s.Space = c.addressArg(e.Args[0]), c.spaceOf(e.Args[0])
	case check.SubPath:
		n, _ := constant(e.Args[1])
		s.A, s.N = c.regOf(e.Args[0]), int(n)
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

// substrAt reads the operand of substr from the position where the result begins, if the operand is
// the string at an address and the position is constant. That string may be longer than strsize.
func (c *clause) substrAt(s *Step, e *check.Call) bool {
	from, fromKnown := constant(e.Args[1])
	at := e.Args[0]
	if v, ok := at.(*check.StringOf); ok && v.Max == 0 { // at an address without a limit
		at = v.X
	}
	if len(e.Args) > 2 { // a negative count is relative to the end of the longest possible string
		if n, ok := constant(e.Args[2]); !ok || n < 0 {
			return false
		}
	}
	_, own := refOf(at)
	address, addressKnown := constant(at)
	sp := space(at.Type())
	isNull := addressKnown && address == 0
	if !fromKnown || from <= 0 || from >= int64(c.p.StrSize) {
		return false
	}
	if isString(at.Type()) || own || sp == check.Own || isNull {
		return false
	}
	before := blank(OpReadStr) // the part before it, which may be the whole string
	before.A, before.Space, before.At = c.inReg(c.value(at)), sp, e.Place()
	before.Size, before.Imm = round(int(from)+1, 8), from
	before.Mem = c.alloc(before.Size)
	length := c.out(before)
	rest := blank(OpReadStr)
	rest.A, rest.Space, rest.At = c.two(
		OpAdd, before.A, num{reg: length, size: 8}, false,
	), sp, e.Place()
	rest.Mem, rest.Size, rest.Imm = c.alloc(c.p.StrSize), c.p.StrSize, c.most(c.p.StrSize)
	c.out(rest)
	// 0, or beyond the end
	s.From, s.A = rest.Mem, c.two(OpSub, c.inReg(known(from)), num{reg: length, size: 8}, false)
	return true
}

// copyinstr reads a string of the process, of at most the number of bytes in a register, including
// the final one.
func (c *clause) copyinstr(read Step, most num) num {
	c.out(read)
	// The rest is cut off afterwards.
	s := blank(OpCall)
	s.Sub, s.Mem, s.Size, s.At = check.SubSubstr, read.Mem, read.Size, read.At
	t := c.alloc(read.Size)
	c.copyMem(t, read.Mem, read.Size)
	text := num{reg: c.two(OpSub, c.inReg(most), known(1), false), size: 8}
	// all ones when it is negative
	below := num{reg: c.two(OpShr, text.reg, known(63), true), size: 8}
	not := blank(OpNot)
	not.A = below.reg
	s.From, s.A, s.B = t, c.inReg(
		known(0),
	), c.two(OpAnd, text.reg, num{reg: c.out(not), size: 8}, false)
	c.step(s)
	return known(1)
}

// strtokString puts the operand of strtok where strtok continues in it. Without an operand strtok
// continues; if there never was one, that is a fault.
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
