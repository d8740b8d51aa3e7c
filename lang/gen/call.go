package gen

import (
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf/asm"
)

// call does a subroutine, as lang/ir's calls.go has it.
func (b *builder) subroutine(s *ir.Step, none label) error {
	number := func(r ir.Reg, absent int64, dst asm.Register) {
		if r == ir.None {
			b.movImm(dst, absent)
		} else {
			b.get(dst, r)
		}
	}
	// text calls a function that works in the area at r1 on the strings at r2 and r3, or a number in r3 and r4, and leaves a
	// string in the area, r0 a number.
	text := func(name string, args func(), body func()) {
		if args != nil {
			args()
		}
		b.lift(asm.R1, asm.R9, b.lay.text)
		b.callSub(b.function(name, body))
	}
	one := func() { b.address(asm.R2, s.From, false, 0) }
	two := func() {
		b.operands(s.From, s.From2)
		b.load(asm.R3, asm.R10, slotHold, 8, false)
	}
	give := func() { b.put(s.Dst, asm.R0) }
	keep := func() { b.keepText(s, none) }
	found := func() {
		give()
		keep()
	}
	turn := func(size asm.Size) {
		b.getNumber(asm.R0, s.A)
		b.add(asm.HostTo(asm.BE, asm.R0, size))
		give()
	}
	switch s.Sub {
	case check.SubStrlen:
		one()
		b.mov(asm.R3, asm.R2)
		b.lift(asm.R1, asm.R9, b.lay.text)
		b.movImm(asm.R2, int64(b.p.StrSize))
		b.call(asm.FnProbeReadKernelStr)
		b.add(asm.Sub.Imm(asm.R0, 1))
		give()
	case check.SubStrjoin:
		text("strjoin", two, b.makeJoin)
		keep()
	case check.SubSubstr:
		text(map[bool]string{true: "substr", false: "substr to the end"}[s.B != ir.None], func() {
			one()
			b.getNumber(asm.R3, s.A)
			number(s.B, 0, asm.R4)
		}, func() { b.makeSubstr(s.B != ir.None) })
		keep()
	case check.SubTolower, check.SubToupper:
		from := byte('A')
		if s.Sub == check.SubToupper {
			from = 'a'
		}
		text("case of "+string(from), one, func() { b.makeCase(from) })
		keep()
	case check.SubBasename:
		text("basename", one, func() { b.makePath(false) })
		keep()
	case check.SubDirname:
		text("dirname", one, func() { b.makePath(true) })
		keep()
	case check.SubCleanpath:
		text("cleanpath", one, b.makeCleanpath)
		keep()
	case check.SubStrchr, check.SubStrrchr:
		last := s.Sub == check.SubStrrchr
		text(fmt.Sprint("strchr", last), func() {
			one()
			b.getNumber(asm.R3, s.A)
		}, func() { b.makeChar(last) })
		found()
	case check.SubIndex, check.SubRindex, check.SubStrstr:
		last := s.Sub == check.SubRindex
		text(fmt.Sprint("index", last), func() {
			two()
			if s.Sub == check.SubStrstr {
				b.movImm(asm.R4, 0)
			} else {
				absent := int64(0)
				if last {
					absent = int64(b.p.StrSize)
				}
				number(s.A, absent, asm.R4)
			}
		}, func() { b.makeIndex(last) })
		if s.Sub != check.SubStrstr {
			give()
			break
		}
		b.mov(asm.R2, asm.R0)
		b.lift(asm.R1, asm.R9, b.lay.text)
		b.callSub(b.function("tail", b.makeTail))
		found()
	case check.SubStrtok:
		text("strtok", two, b.makeToken)
		found()
	case check.SubLltostr:
		text("lltostr", func() {
			b.getNumber(asm.R2, s.A)
			number(s.B, 10, asm.R3)
		}, b.makeNumber)
		keep()
	case check.SubStrtoll:
		text("strtoll", func() {
			one()
			number(s.A, 10, asm.R3)
		}, b.makeParse)
		give()
	case check.SubHtons, check.SubNtohs:
		turn(asm.Half)
	case check.SubHtonl, check.SubNtohl:
		turn(asm.Word)
	case check.SubHtonll, check.SubNtohll:
		turn(asm.DWord)
	case check.SubRand:
		b.call(asm.FnGetPrandomU32)
		b.extend(asm.R0, 4, false)
		give()
	case check.SubBcopy:
		b.bcopy(s)
	case check.SubInetNtoa, check.SubInetNtoa6, check.SubInetNtop, check.SubLinkNtop:
		b.netAddress(s)
		keep()
	case check.SubProgenyof:
		return b.progeny(s)
	case check.SubMutexOwned, check.SubMutexOwner:
		return b.mutex(s)
	case check.SubMutexTypeAdaptive, check.SubMutexTypeSpin: // all of Linux's wait as adaptive ones do
		b.movImm(asm.R0, 0)
		if s.Sub == check.SubMutexTypeAdaptive {
			b.movImm(asm.R0, 1)
		}
		give()
	default:
		return fmt.Errorf("subroutine %d: %w", s.Sub, measure.ErrUnsupported)
	}
	return nil
}

// keepText copies the string in the work area to where a step wants it, cut to Size - 1 bytes.
func (b *builder) keepText(s *ir.Step, none label) {
	size := min(round8(s.Size), b.p.StrSize)
	base, off := b.place(s.Mem, asm.R4, true, none)
	again := func() {
		if base == asm.R4 {
			b.load(asm.R4, asm.R10, slotHold, 8, false)
		}
	}
	if base == asm.R4 {
		b.store(asm.R10, slotHold, asm.R4, 8)
	}
	b.copyBytes(base, off, asm.R9, b.lay.text, size)
	again()
	b.cutText(base, off, min(s.Size, b.p.StrSize)-1, round8(s.Size))
}

// cutText makes zeroes of a string's memory behind its first bytes.
func (b *builder) cutText(base asm.Register, off, most, size int) {
	if most < size {
		b.zeroBytes(base, off+most, size-most)
	}
}

// The functions below have r6 to r9 to themselves: r6 is the work area, r7 the string.
func (b *builder) enter() {
	b.mov(asm.R6, asm.R1)
	b.mov(asm.R7, asm.R2)
}

func (b *builder) clearResult() {
	b.zeroFill(asm.R6, b.area().result, b.p.StrSize)
}

// word is a number in the work area, behind its strings.
func (b *builder) word(n int) int { return b.area().words + 8*n }

func (b *builder) setWord(n int, r asm.Register) { b.store(asm.R6, b.word(n), r, 8) }
func (b *builder) zeroWord(n int)                { b.storeImm(asm.R6, b.word(n), 0, 8, asm.R0) }
func (b *builder) getWord(r asm.Register, n int) { b.load(r, asm.R6, b.word(n), 8, false) }

// within leads to out unless 0 <= r <= most, as the verifier wants to see it.
func (b *builder) within(r asm.Register, most int, out label) {
	b.ifImm(asm.JGT, r, int64(most), out, asm.R0)
}

// cut puts the bytes of the string at r7 from r1 on, up to before r2, into the result, which is zeroes, and returns with n in
// r0: 0 <= r1 <= r2 < StrSize.
func (b *builder) cut(n int64) {
	done := b.label()
	most := b.p.StrSize - 1
	b.alu(asm.Sub, asm.R2, asm.R1)
	b.within(asm.R1, most, done)
	b.within(asm.R2, most, done)
	b.add(asm.Add.Imm(asm.R2, 1))
	b.mov(asm.R3, asm.R7)
	b.alu(asm.Add, asm.R3, asm.R1)
	b.lift(asm.R1, asm.R6, b.area().result)
	b.call(asm.FnProbeReadKernelStr)
	b.bind(done)
	b.movImm(asm.R0, n)
	b.exit()
}

// single makes the result one character, and returns.
func (b *builder) single(c byte) {
	b.storeImm(asm.R6, b.area().result, int64(c), 1, asm.R0)
	b.movImm(asm.R0, 0)
	b.exit()
}

// loop makes a loop of n turns in a function: r6 and r7 stay, r8 is the number of the turn. The body falls through, or leads to
// next, or to one of outs, which stand for the targets that the loop is left for. Where the kernel has bpf_loop the body is a
// function of its own, which the verifier looks at once; else it follows each turn. Nothing but words is kept from one to the
// next.
func (b *builder) loop(n int, body func(next label, outs []label), targets ...label) {
	next := b.label()
	if !b.k.Loop {
		again := b.label()
		b.movImm(asm.R8, 0)
		b.bind(again)
		body(next, targets)
		b.bind(next)
		b.add(asm.Add.Imm(asm.R8, 1))
		b.ifImm(asm.JLT, asm.R8, int64(n), again, asm.R0)
		return
	}
	b.zeroWord(wordExit)
	b.store(asm.R10, -8, asm.R6, 8)
	b.store(asm.R10, -16, asm.R7, 8)
	b.movImm(asm.R1, int64(n))
	b.callbacks++
	b.functionPtr(asm.R2, b.function(fmt.Sprint("turn", b.callbacks), func() {
		outs := make([]label, len(targets))
		for i := range outs {
			outs[i] = b.label()
		}
		b.load(asm.R6, asm.R2, 8, 8, false)
		b.load(asm.R7, asm.R2, 0, 8, false)
		b.mov(asm.R8, asm.R1)
		stop := b.label()
		b.ifImm(asm.JGE, asm.R8, int64(n), stop, asm.R0) // it never is
		body(next, outs)
		b.bind(next)
		b.movImm(asm.R0, 0)
		b.exit()
		for i, out := range outs {
			b.bind(out)
			b.storeImm(asm.R6, b.word(wordExit), int64(i+1), 8, asm.R0)
			b.jump(stop)
		}
		b.bind(stop)
		b.movImm(asm.R0, 1)
		b.exit()
	}))
	b.lift(asm.R3, asm.R10, -16)
	b.movImm(asm.R4, 0)
	b.call(asm.FnLoop)
	b.getWord(asm.R1, wordExit)
	for i, t := range targets {
		b.ifImm(asm.JEq, asm.R1, int64(i+1), t, asm.R0)
	}
}

// wordExit is the word of the work area that says how a loop was left.
const wordExit = 15

// each makes a loop over the bytes of the string at r7: the body finds the byte in r1, its number in r8 and its address in r9.
// The string's end leads to the first of the targets.
func (b *builder) each(body func(next label, outs []label), targets ...label) {
	b.loop(b.p.StrSize, func(next label, outs []label) {
		b.mov(asm.R9, asm.R7)
		b.alu(asm.Add, asm.R9, asm.R8)
		b.load(asm.R1, asm.R9, 0, 1, false)
		b.ifImm(asm.JEq, asm.R1, 0, outs[0], asm.R0)
		body(next, outs)
	}, targets...)
}

// before loads the byte before the one at hand in each, of which r8 is known not to be less than 1. (Before 6.6 the verifier
// does not see that in a comparison with 0.)
func (b *builder) before(dst asm.Register) {
	b.mov(dst, asm.R8)
	b.add(asm.Sub.Imm(dst, 1))
	b.alu(asm.Add, dst, asm.R7)
	b.load(dst, dst, 0, 1, false)
}

// makeJoin: the string at r2, then the one at r3.
func (b *builder) makeJoin() {
	done := b.label()
	s := b.p.StrSize
	b.enter()
	b.mov(asm.R8, asm.R3)
	b.clearResult()
	b.readStr(asm.R6, 0, s, asm.R7, 0)
	b.ifImm(asm.JSLT, asm.R0, 1, done, asm.R1)
	b.within(asm.R0, s, done)
	b.add(asm.Sub.Imm(asm.R0, 1))
	b.mov(asm.R1, asm.R6)
	b.alu(asm.Add, asm.R1, asm.R0)
	b.movImm(asm.R2, int64(s))
	b.mov(asm.R3, asm.R8)
	b.call(asm.FnProbeReadKernelStr) // what does not fit runs on into the next part of the area
	b.bind(done)
	b.storeImm(asm.R6, s-1, 0, 1, asm.R0)
	b.movImm(asm.R0, 0)
	b.exit()
}

// makeSubstr: of the string at r2 from r3 on; counted: r4 bytes.
func (b *builder) makeSubstr(counted bool) {
	nothing, forward, positive, short := b.label(), b.label(), b.label(), b.label()
	b.enter()
	b.mov(asm.R8, asm.R3)
	b.mov(asm.R9, asm.R4)
	b.clearResult()
	b.readStr(asm.R6, b.area().hay, b.p.StrSize, asm.R7, 0)
	b.add(asm.Sub.Imm(asm.R0, 1)) // r0: how long it is
	if !counted {
		b.movImm(asm.R9, 1<<32)
	}
	b.ifImm(asm.JSGE, asm.R8, 0, forward, asm.R1)
	b.alu(asm.Add, asm.R8, asm.R0)
	b.ifImm(asm.JSGE, asm.R8, 0, forward, asm.R1)
	b.mov(asm.R1, asm.R8) // before its start: if it ends within, that is what there is
	b.alu(asm.Add, asm.R1, asm.R9)
	b.ifImm(asm.JSLE, asm.R1, 0, nothing, asm.R2)
	b.mov(asm.R9, asm.R1)
	b.movImm(asm.R8, 0)
	b.bind(forward)
	b.ifReg(asm.JSGE, asm.R8, asm.R0, nothing)
	b.alu(asm.Sub, asm.R0, asm.R8) // r0: how much is left
	b.ifImm(asm.JSGE, asm.R9, 0, positive, asm.R1)
	b.alu(asm.Add, asm.R9, asm.R0)
	b.ifImm(asm.JSLE, asm.R9, 0, nothing, asm.R1)
	b.bind(positive)
	b.ifReg(asm.JSLE, asm.R9, asm.R0, short)
	b.mov(asm.R9, asm.R0)
	b.bind(short)
	b.mov(asm.R1, asm.R8)
	b.mov(asm.R2, asm.R8)
	b.alu(asm.Add, asm.R2, asm.R9)
	b.cut(0)
	b.bind(nothing)
	b.movImm(asm.R0, 0)
	b.exit()
}

// makeCase: the string at r2 with the letters from one on, A or a, in the other case. Eight letters are looked at at a time:
// 0x80 in each byte that is a letter, shifted to 0x20, turns them.
func (b *builder) makeCase(from byte) {
	const all = 0x0101010101010101
	again, done := b.label(), b.label()
	b.enter()
	b.clearResult()
	b.movImm(asm.R8, 0)
	b.bind(again)
	b.load(asm.R1, asm.R7, 0, 8, false)
	b.movImm(asm.R2, 0x7f*all)
	b.alu(asm.And, asm.R2, asm.R1)
	b.mov(asm.R3, asm.R2)
	b.movImm(asm.R4, int64(0x80-from)*all)
	b.alu(asm.Add, asm.R2, asm.R4) // 0x80: not less than the first letter
	b.movImm(asm.R4, int64(0x80-from-26)*all)
	b.alu(asm.Add, asm.R3, asm.R4) // 0x80: more than the last letter
	b.alu(asm.Xor, asm.R2, asm.R3)
	b.mov(asm.R3, asm.R1)
	b.add(asm.Xor.Imm(asm.R3, -1))
	b.alu(asm.And, asm.R2, asm.R3) // not of bytes beyond ASCII
	b.movImm(asm.R4, -0x7f7f7f7f7f7f7f80)
	b.alu(asm.And, asm.R2, asm.R4)
	b.add(asm.RSh.Imm(asm.R2, 2))
	b.alu(asm.Xor, asm.R1, asm.R2)
	b.mov(asm.R2, asm.R6)
	b.alu(asm.Add, asm.R2, asm.R8)
	b.store(asm.R2, b.area().result, asm.R1, 8)
	// A word with a 0 in it is the last one.
	b.mov(asm.R2, asm.R1)
	b.movImm(asm.R3, all)
	b.alu(asm.Sub, asm.R2, asm.R3)
	b.add(asm.Xor.Imm(asm.R1, -1))
	b.alu(asm.And, asm.R2, asm.R1)
	b.alu(asm.And, asm.R2, asm.R4)
	b.ifImm(asm.JNE, asm.R2, 0, done, asm.R0)
	b.add(asm.Add.Imm(asm.R7, 8))
	b.add(asm.Add.Imm(asm.R8, 8))
	b.ifImm(asm.JLT, asm.R8, int64(b.p.StrSize), again, asm.R0)
	b.bind(done)
	b.movImm(asm.R0, 0)
	b.exit()
}

// makePath: basename or dirname of the path at r2. The words: where the last name begins, where it ends, where the one before
// it ends.
func (b *builder) makePath(dir bool) {
	const begin, end, before = 0, 1, 2
	behind, named, dot := b.label(), b.label(), b.label()
	b.enter()
	b.clearResult()
	b.zeroWord(begin)
	b.zeroWord(end)
	b.zeroWord(before)
	b.each(func(next label, _ []label) {
		first, inside := b.label(), b.label()
		b.ifImm(asm.JEq, asm.R1, '/', next, asm.R0)
		b.ifImm(asm.JLT, asm.R8, 1, first, asm.R0)
		b.before(asm.R1)
		b.ifImm(asm.JNE, asm.R1, '/', inside, asm.R0)
		b.bind(first)
		b.setWord(begin, asm.R8)
		b.getWord(asm.R1, end)
		b.setWord(before, asm.R1)
		b.bind(inside)
		b.mov(asm.R1, asm.R8)
		b.add(asm.Add.Imm(asm.R1, 1))
		b.setWord(end, asm.R1)
	}, behind)
	b.bind(behind)
	b.getWord(asm.R2, end)
	b.ifImm(asm.JNE, asm.R2, 0, named, asm.R0)
	b.load(asm.R1, asm.R7, 0, 1, false)
	b.ifImm(asm.JEq, asm.R1, 0, dot, asm.R0)
	b.single('/')
	b.bind(named)
	if !dir {
		b.getWord(asm.R1, begin)
		b.cut(0)
	} else {
		up := b.label()
		b.getWord(asm.R1, begin)
		b.ifImm(asm.JEq, asm.R1, 0, dot, asm.R0)
		b.getWord(asm.R2, before)
		b.ifImm(asm.JNE, asm.R2, 0, up, asm.R0)
		b.single('/')
		b.bind(up)
		b.movImm(asm.R1, 0)
		b.cut(0)
	}
	b.bind(dot)
	b.single('.')
}

// makeNumber: the number r2 in base r3, by DTrace's rules. Digits are made from the last one on, in what is the hay otherwise.
func (b *builder) makeNumber() {
	const room = 72 // a sign or 0x, 64 digits, 0
	a := b.area()
	nothing, unsigned, again, done := b.label(), b.label(), b.label(), b.label()
	b.enter()
	b.mov(asm.R8, asm.R3)
	b.clearResult()
	b.zeroFill(asm.R6, a.hay, room)
	b.zeroWord(0)
	b.ifImm(asm.JLT, asm.R8, 2, nothing, asm.R0)
	b.ifImm(asm.JGT, asm.R8, 36, nothing, asm.R0)
	b.ifImm(asm.JNE, asm.R8, 10, unsigned, asm.R0)
	b.ifImm(asm.JSGE, asm.R7, 0, unsigned, asm.R0)
	b.add(asm.Neg.Imm(asm.R7, 0))
	b.movImm(asm.R1, 1)
	b.setWord(0, asm.R1)
	b.bind(unsigned)
	b.lift(asm.R9, asm.R6, a.hay+room-2)
	b.movImm(asm.R5, 0)
	b.bind(again)
	digit := b.label()
	b.mov(asm.R1, asm.R7)
	b.alu(asm.Mod, asm.R1, asm.R8)
	b.alu(asm.Div, asm.R7, asm.R8)
	b.mov(asm.R2, asm.R1)
	b.add(asm.Add.Imm(asm.R2, '0'))
	b.ifImm(asm.JLT, asm.R1, 10, digit, asm.R0)
	b.add(asm.Add.Imm(asm.R2, 'a'-'0'-10))
	b.bind(digit)
	b.store(asm.R9, 0, asm.R2, 1)
	b.add(asm.Add.Imm(asm.R5, 1))
	b.ifImm(asm.JEq, asm.R7, 0, done, asm.R0)
	b.add(asm.Sub.Imm(asm.R9, 1))
	b.ifImm(asm.JLT, asm.R5, 64, again, asm.R0)
	b.bind(done)
	// r9 is where the first digit stands, and r5 how many there are, which the verifier is to forget.
	b.add(asm.Neg.Imm(asm.R5, 0))
	b.add(asm.Add.Imm(asm.R5, 64))
	b.setWord(1, asm.R5)
	b.lift(asm.R9, asm.R6, a.hay+room-1-64)
	b.getWord(asm.R5, 1)
	b.within(asm.R5, 64, nothing)
	b.alu(asm.Add, asm.R9, asm.R5)
	before := func(c byte) {
		b.add(asm.Sub.Imm(asm.R9, 1))
		b.storeImm(asm.R9, 0, int64(c), 1, asm.R0)
	}
	plain, eight, write := b.label(), b.label(), b.label()
	b.getWord(asm.R1, 0)
	b.ifImm(asm.JEq, asm.R1, 0, plain, asm.R0)
	before('-')
	b.bind(plain)
	b.ifImm(asm.JEq, asm.R8, 8, eight, asm.R0)
	b.ifImm(asm.JNE, asm.R8, 16, write, asm.R0)
	before('x')
	b.bind(eight)
	before('0')
	b.bind(write)
	b.readStr(asm.R6, a.result, min(b.p.StrSize, room+8), asm.R9, 0)
	b.bind(nothing)
	b.movImm(asm.R0, 0)
	b.exit()
}

// makeParse: r0 is the number that the string at r2 begins with, in base r3. Words: the number, its sign, whether it has begun.
func (b *builder) makeParse() {
	const value, sign, begun, base = 0, 1, 2, 3
	const blanks, digits = 0, 1
	over := b.label()
	b.enter()
	b.setWord(base, asm.R3)
	b.zeroWord(value)
	b.zeroWord(sign)
	b.zeroWord(begun)
	b.each(func(next label, outs []label) {
		number, begin := b.label(), b.label()
		b.getWord(asm.R2, begun)
		b.ifImm(asm.JNE, asm.R2, blanks, number, asm.R0)
		b.ifImm(asm.JEq, asm.R1, ' ', next, asm.R0)
		b.mov(asm.R2, asm.R1)
		b.add(asm.Sub.Imm(asm.R2, '\t'))
		b.ifImm(asm.JLE, asm.R2, '\r'-'\t', next, asm.R0)
		b.movImm(asm.R2, digits)
		b.setWord(begun, asm.R2)
		b.ifImm(asm.JEq, asm.R1, '+', next, asm.R0)
		b.ifImm(asm.JNE, asm.R1, '-', begin, asm.R0)
		b.setWord(sign, asm.R2)
		b.jump(next)
		b.bind(begin)
		b.bind(number)
		// The x of 0x: r2 counts how many digits there were, 1 more.
		letter, less, hex, add := b.label(), b.label(), b.label(), b.label()
		b.getWord(asm.R2, begun)
		b.ifImm(asm.JNE, asm.R2, digits+1, letter, asm.R0)
		b.mov(asm.R3, asm.R1)
		b.add(asm.Or.Imm(asm.R3, 0x20))
		b.ifImm(asm.JNE, asm.R3, 'x', letter, asm.R0)
		b.getWord(asm.R3, value)
		b.ifImm(asm.JNE, asm.R3, 0, letter, asm.R0)
		b.getWord(asm.R3, base)
		b.ifImm(asm.JNE, asm.R3, 16, letter, asm.R0)
		b.ifImm(asm.JLT, asm.R8, 1, letter, asm.R0)
		b.before(asm.R3)
		b.ifImm(asm.JEq, asm.R3, '0', hex, asm.R0)
		b.bind(letter)
		b.mov(asm.R3, asm.R1)
		b.add(asm.Sub.Imm(asm.R3, '0'))
		b.ifImm(asm.JLE, asm.R3, 9, less, asm.R0)
		b.add(asm.Or.Imm(asm.R1, 0x20))
		b.mov(asm.R3, asm.R1)
		b.add(asm.Sub.Imm(asm.R3, 'a'))
		b.ifImm(asm.JGT, asm.R3, 25, outs[0], asm.R0)
		b.add(asm.Add.Imm(asm.R3, 10))
		b.bind(less)
		b.getWord(asm.R4, base)
		b.ifReg(asm.JSGE, asm.R3, asm.R4, outs[0])
		b.getWord(asm.R5, value)
		b.alu(asm.Mul, asm.R5, asm.R4)
		b.alu(asm.Add, asm.R5, asm.R3)
		b.setWord(value, asm.R5)
		b.jump(add)
		b.bind(hex)
		b.bind(add)
		b.add(asm.Add.Imm(asm.R2, 1))
		b.setWord(begun, asm.R2)
	}, over)
	b.bind(over)
	done := b.label()
	b.getWord(asm.R0, value)
	b.getWord(asm.R1, sign)
	b.ifImm(asm.JEq, asm.R1, 0, done, asm.R2)
	b.add(asm.Neg.Imm(asm.R0, 0))
	b.bind(done)
	b.exit()
}

// makeCleanpath: the path at r2 without what leads nowhere else. Words: how much is written, how many names, where to go on. The
// marks say how much was written before each name, so that it is taken back at once.
func (b *builder) makeCleanpath() {
	const out, names, from = wordOut, 1, 2
	a := b.area()
	s := b.p.StrSize
	b.enter()
	b.clearResult()
	b.zeroWord(out)
	b.zeroWord(names)
	b.zeroWord(from)
	// The string is copied where zeroes are behind it, for looking ahead.
	b.zeroFill(asm.R6, a.hay, s+8)
	b.readStr(asm.R6, a.hay, s, asm.R7, 0)
	b.lift(asm.R7, asm.R6, a.hay)
	ended, full, relative, empty := b.label(), b.label(), b.label(), b.label()
	b.load(asm.R1, asm.R7, 0, 1, false)
	b.ifImm(asm.JEq, asm.R1, 0, empty, asm.R0)
	b.ifImm(asm.JNE, asm.R1, '/', relative, asm.R0)
	b.char('/')
	b.bind(relative)
	mark := func() { // r1: where the mark of the name r2 is
		b.within(asm.R2, s/2, full)
		b.mov(asm.R1, asm.R2)
		b.add(asm.LSh.Imm(asm.R1, 1))
		b.alu(asm.Add, asm.R1, asm.R6)
	}
	b.each(func(next label, outs []label) {
		first, write, name, up, slash, plain := b.label(), b.label(), b.label(), b.label(), b.label(), b.label()
		full = outs[1]
		b.getWord(asm.R2, from)
		b.ifReg(asm.JLT, asm.R8, asm.R2, next)
		b.ifImm(asm.JEq, asm.R1, '/', next, asm.R0)
		b.ifImm(asm.JLT, asm.R8, 1, first, asm.R0)
		b.before(asm.R2)
		b.ifImm(asm.JNE, asm.R2, '/', write, asm.R0)
		b.bind(first)
		b.ifImm(asm.JNE, asm.R1, '.', name, asm.R0)
		b.load(asm.R2, asm.R9, 1, 1, false)
		b.ifImm(asm.JEq, asm.R2, '/', next, asm.R0)
		b.ifImm(asm.JEq, asm.R2, 0, next, asm.R0)
		b.ifImm(asm.JNE, asm.R2, '.', name, asm.R0)
		b.load(asm.R2, asm.R9, 2, 1, false)
		b.ifImm(asm.JEq, asm.R2, '/', up, asm.R0)
		b.ifImm(asm.JNE, asm.R2, 0, name, asm.R0)
		b.bind(up)
		root, dots := b.label(), b.label()
		b.mov(asm.R2, asm.R8)
		b.add(asm.Add.Imm(asm.R2, 2))
		b.setWord(from, asm.R2)
		b.getWord(asm.R2, names)
		b.ifImm(asm.JEq, asm.R2, 0, root, asm.R0)
		b.add(asm.Sub.Imm(asm.R2, 1))
		b.setWord(names, asm.R2)
		mark()
		b.load(asm.R1, asm.R1, a.mask, 2, false)
		b.setWord(out, asm.R1)
		b.jump(next)
		b.bind(root) // nothing to take back
		b.load(asm.R1, asm.R7, 0, 1, false)
		b.ifImm(asm.JEq, asm.R1, '/', next, asm.R0)
		b.getWord(asm.R1, out)
		b.ifImm(asm.JEq, asm.R1, 0, dots, asm.R0)
		b.char('/')
		b.bind(dots)
		b.char('.')
		b.char('.')
		b.jump(next)
		b.bind(name)
		b.getWord(asm.R2, names)
		mark()
		b.add(asm.Add.Imm(asm.R2, 1))
		b.setWord(names, asm.R2)
		b.getWord(asm.R2, out)
		b.store(asm.R1, a.mask, asm.R2, 2)
		b.ifImm(asm.JEq, asm.R2, 0, plain, asm.R0)
		b.ifImm(asm.JNE, asm.R2, 1, slash, asm.R0)
		b.load(asm.R1, asm.R7, 0, 1, false)
		b.ifImm(asm.JEq, asm.R1, '/', plain, asm.R0) // behind the first one
		b.bind(slash)
		b.char('/')
		b.bind(plain)
		b.load(asm.R1, asm.R9, 0, 1, false)
		b.bind(write)
		b.char(0)
	}, ended, full)
	b.bind(ended)
	b.bind(full)
	some := b.label()
	b.getWord(asm.R1, out)
	b.ifImm(asm.JNE, asm.R1, 0, some, asm.R0)
	b.char('.')
	b.bind(some)
	// What stands behind the end was taken back.
	b.loop(s, func(next label, _ []label) {
		b.getWord(asm.R2, out)
		b.ifReg(asm.JLT, asm.R8, asm.R2, next)
		b.mov(asm.R3, asm.R6)
		b.alu(asm.Add, asm.R3, asm.R8)
		b.storeImm(asm.R3, a.result, 0, 1, asm.R0)
	})
	b.bind(empty)
	b.movImm(asm.R0, 0)
	b.exit()
}
