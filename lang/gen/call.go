package gen

import (
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf/asm"
)

// subroutine generates a subroutine, as defined in lang/ir's calls.go.
func (b *builder) subroutine(s *ir.Step, none label) error {
	number := func(r ir.Reg, absent int64, dst asm.Register) {
		if r == ir.None {
			b.movImm(dst, absent)
		} else {
			b.get(dst, r)
		}
	}
	// text calls a function that works in the area at r1 on the strings at r2 and r3, or on a
	// number in r3 and r4. It leaves a string in the area, and a number in r0.
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
	case check.SubPath:
		return b.path(s, none)
	case check.SubFileOf:
		return b.fileOf(s)
	case check.SubProgenyof:
		return b.progeny(s)
	case check.SubMutexOwned, check.SubMutexOwner:
		return b.mutex(s)
	// all of Linux's wait as adaptive ones do
	case check.SubMutexTypeAdaptive, check.SubMutexTypeSpin:
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

// keepText copies the string in the work area to the step's memory, truncated to Size - 1 bytes.
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

// cutText zeroes a string's memory after its first most bytes.
func (b *builder) cutText(base asm.Register, off, most, size int) {
	if most < size {
		b.zeroBytes(base, off+most, size-most)
	}
}

// enter begins one of the functions below, which use r6 to r9: r6 is the work area, r7 the string.
func (b *builder) enter() {
	b.mov(asm.R6, asm.R1)
	b.mov(asm.R7, asm.R2)
}

func (b *builder) clearResult() {
	b.zeroFill(asm.R6, b.area().result, b.p.StrSize)
}

// word returns the offset of a number in the work area, after its strings.
func (b *builder) word(n int) int { return b.area().words + 8*n }

func (b *builder) setWord(n int, r asm.Register) { b.store(asm.R6, b.word(n), r, 8) }
func (b *builder) zeroWord(n int)                { b.storeImm(asm.R6, b.word(n), 0, 8, asm.R0) }
func (b *builder) getWord(r asm.Register, n int) { b.load(r, asm.R6, b.word(n), 8, false) }

// within jumps to out unless 0 <= r <= most, in a form that the verifier understands.
func (b *builder) within(r asm.Register, most int, out label) {
	b.ifImm(asm.JGT, r, int64(most), out, asm.R0)
}

// cut copies the bytes from r1 to r2 of the string at r7 to the result, which is zeroes, and
// returns n: 0 <= r1 <= r2 < StrSize.
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

// loop generates a loop of n iterations in a function. r6 and r7 stay, r8 is the number of the
// iteration. The body falls through, or jumps to next, or to one of outs, which leave the loop for
// the targets. With bpf_loop the body is a function, which the verifier checks once; otherwise it
// checks each iteration. Only words are kept between iterations.
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
	b.routines.callbacks++
	b.functionPtr(asm.R2, b.function(fmt.Sprint("turn", b.routines.callbacks), func() {
		outs := make([]label, len(targets))
		for i := range outs {
			outs[i] = b.label()
		}
		b.load(asm.R6, asm.R2, 8, 8, false)
		b.load(asm.R7, asm.R2, 0, 8, false)
		b.mov(asm.R8, asm.R1)
		stop := b.label()
		b.ifImm(asm.JGE, asm.R8, int64(n), stop, asm.R0) // never true
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

// wordExit is the word of the work area that contains how a loop was left.
const wordExit = 15

// each generates a loop over the bytes of the string at r7: the body has the byte in r1, its index
// in r8 and its address in r9. The string's end jumps to the first of the targets.
func (b *builder) each(body func(next label, outs []label), targets ...label) {
	b.loop(b.p.StrSize, func(next label, outs []label) {
		b.mov(asm.R9, asm.R7)
		b.alu(asm.Add, asm.R9, asm.R8)
		b.load(asm.R1, asm.R9, 0, 1, false)
		b.ifImm(asm.JEq, asm.R1, 0, outs[0], asm.R0)
		body(next, outs)
	}, targets...)
}

// before loads the byte before the current one in each; r8 must be at least 1. (Before 6.6 the
// verifier does not conclude that from a comparison with 0.)
func (b *builder) before(dst asm.Register) {
	b.mov(dst, asm.R8)
	b.add(asm.Sub.Imm(dst, 1))
	b.alu(asm.Add, dst, asm.R7)
	b.load(dst, dst, 0, 1, false)
}
