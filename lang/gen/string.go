package gen

import (
	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// The work area of string subroutines in scratch memory, at layout.text. S is StrSize.
//
//	| result: S | string to search in, zero-filled: 2 S | masks of the needle, or marks: 2 S |
//	| words |
//
// Loops keep their results in the words, not in registers: at the end of a loop the verifier then
// sees one state, not one for each iteration.
type workArea struct{ result, hay, mask, words, size int }

func (b *builder) area() workArea { return areaOf(b.p) }

func areaOf(p *ir.Program) workArea {
	s := max(p.StrSize, 80) // large enough for a number with all its digits
	return workArea{result: 0, hay: s, mask: 3 * s, words: 5 * s, size: 5*s + 128}
}

// textBytes returns the size of the work area.
func textBytes(p *ir.Program) int { return areaOf(p).size }

// lift adds a constant to an address tracked by the verifier and leaves it in dst.
func (b *builder) lift(dst, base asm.Register, off int) {
	b.mov(dst, base)
	if off != 0 {
		b.add(asm.Add.Imm(dst, int32(off)))
	}
}

// readStr reads the string at a place into a buffer. r0 is its size including the final 0; less
// than 1: the address is invalid.
func (b *builder) readStr(to asm.Register, toOff, size int, from asm.Register, fromOff int) {
	b.lift(asm.R3, from, fromOff)
	b.lift(asm.R1, to, toOff)
	b.movImm(asm.R2, int64(size))
	b.call(asm.FnProbeReadKernelStr)
}

// strCompare compares two strings; Size bytes decide.
func (b *builder) strCompare(s *ir.Step) {
	const inline = 64
	differ, done := b.label(), b.label()
	d := b.out(s.Dst, asm.R0)
	size := round8(s.Size)
	b.operands(s.Mem, s.From)
	if size > inline {
		b.movImm(asm.R3, int64(size))
		b.mov(asm.R1, asm.R2)
		b.load(asm.R2, asm.R10, slotHold, 8, false)
		b.callSub(b.function("compare", b.makeCompare))
		b.put(s.Dst, asm.R0)
		return
	}
	b.load(asm.R1, asm.R10, slotHold, 8, false)
	for at := 0; at < size; at += 8 {
		b.load(asm.R3, asm.R2, at, 8, false)
		b.load(asm.R4, asm.R1, at, 8, false)
		b.ifReg(asm.JNE, asm.R3, asm.R4, differ)
	}
	b.movImm(d, 0)
	b.jump(done)
	b.bind(differ)
	if s.Cond == ir.Eq {
		b.movImm(d, 1)
	} else {
		b.order(d, asm.R3, asm.R4, done)
	}
	b.bind(done)
	b.put(s.Dst, d)
}

// order sets dst to 1 or -1, by the first different byte of two words.
func (b *builder) order(dst, x, y asm.Register, done label) {
	b.add(asm.HostTo(asm.BE, x, asm.DWord))
	b.add(asm.HostTo(asm.BE, y, asm.DWord))
	b.movImm(dst, 1)
	b.ifReg(asm.JGT, x, y, done)
	b.movImm(dst, -1)
}

// makeCompare makes the function that compares the strings at r1 and r2 within r3 bytes.
func (b *builder) makeCompare() {
	again, same, differ, done := b.label(), b.label(), b.label(), b.label()
	b.bind(again)
	b.load(asm.R0, asm.R1, 0, 8, false)
	b.load(asm.R4, asm.R2, 0, 8, false)
	b.ifReg(asm.JNE, asm.R0, asm.R4, differ)
	b.ifImm(asm.JEq, asm.R0, 0, same, asm.R5) // both have ended
	b.add(asm.Add.Imm(asm.R1, 8))
	b.add(asm.Add.Imm(asm.R2, 8))
	b.add(asm.Sub.Imm(asm.R3, 8))
	b.ifImm(asm.JNE, asm.R3, 0, again, asm.R5)
	b.bind(same)
	b.movImm(asm.R0, 0)
	b.jump(done)
	b.bind(differ)
	b.mov(asm.R5, asm.R0)
	b.order(asm.R0, asm.R5, asm.R4, done)
	b.bind(done)
	b.exit()
}

// operands leaves the address of the first memory in r2 and of the second in slotHold.
func (b *builder) operands(first, second ir.Mem) {
	b.address(asm.R2, second, false, 0)
	b.store(asm.R10, slotHold, asm.R2, 8)
	b.address(asm.R2, first, false, 0)
}

// readString generates OpReadStr.
func (b *builder) readString(s *ir.Step, none label) {
	good := b.label()
	base, off := b.place(s.Mem, asm.R4, true, none)
	if base == asm.R4 { // a call would destroy it
		b.store(asm.R10, slotHold, asm.R4, 8)
	}
	b.zeroFill(base, off, round8(s.Size))
	if base == asm.R4 {
		b.load(asm.R4, asm.R10, slotHold, 8, false)
	}
	b.getNumber(asm.R3, s.A)
	b.lift(asm.R1, base, off)
	b.movImm(asm.R2, s.Imm+1)
	if s.Space == check.User {
		b.call(asm.FnProbeReadUserStr)
	} else {
		b.call(asm.FnProbeReadKernelStr)
	}
	b.ifImm(asm.JSGT, asm.R0, 0, good, asm.R1)
	if b.p.Source.Options.Bpftrace {
		b.movImm(asm.R0, 1) // an empty string
	} else {
		b.badAddress(s)
	}
	b.bind(good)
	if s.Dst != ir.None {
		b.add(asm.Sub.Imm(asm.R0, 1))
		b.put(s.Dst, asm.R0)
	}
}

// readMem generates OpReadMem.
func (b *builder) readMem(s *ir.Step, none label) {
	good := b.label()
	base, off := b.place(s.Mem, asm.R4, true, none)
	if s.B != ir.None {
		if base == asm.R4 {
			b.store(asm.R10, slotHold, asm.R4, 8)
		}
		b.zeroFill(base, off, round8(s.Size))
		if base == asm.R4 {
			b.load(asm.R4, asm.R10, slotHold, 8, false)
		}
		few := b.label()
		b.getNumber(asm.R2, s.B)
		b.ifImm(asm.JLE, asm.R2, int64(s.Size), few, asm.R1)
		b.movImm(asm.R2, int64(s.Size))
		b.bind(few)
	} else {
		b.movImm(asm.R2, int64(s.Size))
	}
	b.getNumber(asm.R3, s.A)
	b.lift(asm.R1, base, off)
	b.call(readFrom(s.Space))
	b.readFailed(s, good)
}

// addressStep generates OpAddress: the address is a number for arithmetic.
func (b *builder) addressStep(s *ir.Step) {
	none := b.label()
	d := b.out(s.Dst, asm.R0)
	b.address(asm.R1, s.Mem, true, none)
	b.mov(d, asm.R1)
	b.plain(d)
	b.put(s.Dst, d)
	if s.Mem.Base == ir.InSelf {
		done := b.label()
		b.jump(done)
		b.bind(none)
		b.movImm(asm.R0, 0)
		b.put(s.Dst, asm.R0)
		b.bind(done)
	} else {
		b.bind(none)
	}
}

// A region is memory that programs may write by address.
type region struct {
	mem  ir.Mem
	size int
}

func (b *builder) regions() []region {
	var all []region
	for _, r := range [...]region{
		{ir.Mem{Base: ir.InScratch, Reg: ir.None}, b.p.This},
		{ir.Mem{Base: ir.InScratch, Reg: ir.None, Off: b.p.Alloca.Off}, b.p.Alloca.Size},
		{ir.Mem{Base: ir.InGlobals, Reg: ir.None}, b.p.Globals},
	} {
		if r.size > 0 {
			all = append(all, r)
		}
	}
	return all
}

// poke writes to an address if it is in one of the regions.
func (b *builder) poke(s *ir.Step) {
	done := b.label()
	for _, r := range b.regions() {
		if r.size < s.Size {
			continue
		}
		next := b.label()
		b.address(asm.R4, r.mem, true, next)
		b.mov(asm.R5, asm.R4)
		b.plain(asm.R5)
		b.getNumber(asm.R1, s.A)
		if s.Imm != 0 {
			b.aluImm(asm.Add, asm.R1, s.Imm, asm.R2)
		}
		b.alu(asm.Sub, asm.R1, asm.R5)
		b.ifImm(asm.JGT, asm.R1, int64(r.size-s.Size), next, asm.R2)
		b.alu(asm.Add, asm.R4, asm.R1)
		b.getNumber(asm.R1, s.B)
		b.store(asm.R4, 0, asm.R1, s.Size)
		b.jump(done)
		b.bind(next)
	}
	b.badAddress(s)
	b.bind(done)
}

// bcopy copies [C] bytes from [A] to [B].
func (b *builder) bcopy(s *ir.Step) {
	done, bad := b.label(), b.label()
	tooMany := b.label()
	b.getNumber(asm.R1, s.C)
	b.ifImm(asm.JEq, asm.R1, 0, done, asm.R2)
	for _, r := range b.regions() {
		next := b.label()
		b.address(asm.R4, r.mem, true, next)
		b.mov(asm.R5, asm.R4)
		b.plain(asm.R5)
		b.getNumber(asm.R1, s.B)
		b.alu(asm.Sub, asm.R1, asm.R5)
		b.ifImm(asm.JGE, asm.R1, int64(r.size), next, asm.R2)
		b.getNumber(asm.R2, s.C)
		b.ifImm(asm.JGT, asm.R2, int64(r.size), tooMany, asm.R3)
		// The sum begins with the size. With the offset first, Linux 6.12 narrows the offset to a
		// constant when the sum is compared, and then refuses to add it to an address.
		b.mov(asm.R3, asm.R2)
		b.alu(asm.Add, asm.R3, asm.R1)
		b.ifImm(asm.JGT, asm.R3, int64(r.size), tooMany, asm.R5)
		b.alu(asm.Add, asm.R4, asm.R1)
		b.mov(asm.R1, asm.R4)
		b.getNumber(asm.R3, s.A)
		b.call(readFrom(s.Space))
		b.ifImm(asm.JNE, asm.R0, 0, bad, asm.R1)
		b.jump(done)
		b.bind(next)
	}
	b.faultOf(ir.FaultBadAddr, s.B)
	b.bind(tooMany)
	b.faultOf(ir.FaultBadSize, s.C)
	b.bind(bad)
	b.faultOf(ir.FaultBadAddr, s.A)
	b.bind(done)
}
