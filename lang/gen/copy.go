package gen

import (
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// storeStep writes a number. A thread without variables has zeroes, so writing 0 creates none.
func (b *builder) storeStep(s *ir.Step, none label) {
	create := s.A != ir.None || s.Imm != 0
	var base asm.Register
	var off int
	if s.Mem.Base == ir.InSelf && !create {
		b.self(false, none)
		base, off = asm.R0, s.Mem.Off
	} else {
		base, off = b.place(s.Mem, asm.R4, true, none)
	}
	if s.A == ir.None {
		b.storeImm(base, off, s.Imm, s.Size, asm.R1)
		return
	}
	b.store(base, off, b.in(s.A, asm.R1), s.Size)
}

// zeroBytes writes size zeroes.
func (b *builder) zeroBytes(base asm.Register, off, size int) {
	for size > 0 && (off&7 != 0 || size < 8) {
		n := piece(off, min(size, 7))
		b.storeImm(base, off, 0, n, asm.R1)
		off, size = off+n, size-n
	}
	words := size &^ 7
	b.zeroFill(base, off, words)
	if size > words {
		b.zeroBytes(base, off+words, size-words)
	}
}

// piece returns how many of the bytes left to move at once.
func piece(off, left int) int {
	for n := 8; n > 1; n /= 2 {
		if left >= n && off%n == 0 {
			return n
		}
	}
	return 1
}

// copyMost is the highest number of bytes copied by instructions; for more a helper is faster.
const copyMost = 128

func (b *builder) copyStep(s *ir.Step, none label) {
	to, from := s.Mem, s.From
	toTmp, fromTmp := asm.R4, asm.R5
	var toBase, fromBase asm.Register
	var toOff, fromOff int
	if to.Base == ir.InSelf { // calls come first
		toBase, toOff = b.place(to, toTmp, true, none)
		if from.Base == ir.InSelf { // the same memory
			fromBase, fromOff = toBase, from.Off
		} else {
			fromBase, fromOff = b.place(from, fromTmp, false, none)
		}
	} else {
		fromBase, fromOff = b.place(from, fromTmp, false, none)
		toBase, toOff = b.place(to, toTmp, true, none)
	}
	b.copyBytes(toBase, toOff, fromBase, fromOff, s.Size)
}

// copyBytes copies between memories of the script that do not overlap. It changes r0 to r5.
func (b *builder) copyBytes(to asm.Register, toOff int, from asm.Register, fromOff, size int) {
	if size > copyMost {
		b.mov(asm.R3, from)
		b.aluImm(asm.Add, asm.R3, int64(fromOff), asm.R0)
		b.mov(asm.R1, to)
		b.aluImm(asm.Add, asm.R1, int64(toOff), asm.R0)
		b.movImm(asm.R2, int64(size))
		b.call(asm.FnProbeReadKernel)
		return
	}
	for at := 0; at < size; {
		n := piece((toOff+at)|(fromOff+at), size-at)
		b.load(asm.R0, from, fromOff+at, n, false)
		b.store(to, toOff+at, asm.R0, n)
		at += n
	}
}
