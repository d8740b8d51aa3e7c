package gen

import (
	"github.com/cilium/ebpf/asm"
)

// Functions that search strings: strchr, strrchr, strstr, index, rindex, strtok.

// makeChar makes the function that returns the string at r2 from its first or last character r3 on.
// r0: 1 if there is one.
func (b *builder) makeChar(last bool) {
	behind, none, got := b.label(), b.label(), b.label()
	b.enter()
	b.setWord(1, asm.R3)
	b.clearResult()
	b.zeroWord(0)
	b.each(func(next label, outs []label) {
		b.getWord(asm.R2, 1)
		b.ifReg(asm.JNE, asm.R1, asm.R2, next)
		b.mov(asm.R1, asm.R8)
		b.add(asm.Add.Imm(asm.R1, 1))
		b.setWord(0, asm.R1)
		if !last {
			b.jump(outs[1])
		}
	}, behind, got)
	b.bind(behind)
	b.getWord(asm.R2, 1)
	ends := b.label()
	b.ifImm(asm.JEq, asm.R2, 0, ends, asm.R0) // the end is a character, too: the result is empty
	b.bind(got)
	b.getWord(asm.R1, 0)
	b.ifImm(asm.JEq, asm.R1, 0, none, asm.R0)
	b.add(asm.Sub.Imm(asm.R1, 1))
	b.within(asm.R1, b.p.StrSize-1, none)
	b.mov(asm.R3, asm.R7)
	b.alu(asm.Add, asm.R3, asm.R1)
	b.lift(asm.R1, asm.R6, b.area().result)
	b.movImm(asm.R2, int64(b.p.StrSize))
	b.call(asm.FnProbeReadKernelStr)
	b.bind(ends)
	b.movImm(asm.R0, 1)
	b.exit()
	b.bind(none)
	b.movImm(asm.R0, 0)
	b.exit()
}

// makeIndex makes the function that returns in r0 the position of the string at r3 in the one at
// r2: the first at or after r4, or the last at or before it; -1: none. It leaves the searched
// string in the area.
func (b *builder) makeIndex(last bool) {
	const from, length, where = 0, 1, 2
	a := b.area()
	s := b.p.StrSize
	none, over := b.label(), b.label()
	b.enter()
	b.mov(asm.R8, asm.R3)
	b.setWord(from, asm.R4)
	b.storeImm(asm.R6, b.word(where), -1, 8, asm.R0)
	b.zeroFill(asm.R6, a.hay, 2*s)
	b.readStr(asm.R6, a.hay, s, asm.R7, 0)
	b.ifImm(asm.JSLT, asm.R0, 1, none, asm.R1)
	b.add(asm.Sub.Imm(asm.R0, 1))
	b.setWord(length, asm.R0)
	// The mask has ones for each byte of the needle, which follows it.
	b.zeroFill(asm.R6, a.mask, s)
	const all = 0x0101010101010101
	mark, marked := b.label(), b.label()
	b.movImm(asm.R9, 0)
	b.bind(mark)
	b.load(asm.R1, asm.R8, 0, 8, false)
	b.mov(asm.R2, asm.R1) // the first byte that is 0 leaves 0x80
	b.movImm(asm.R3, all)
	b.alu(asm.Sub, asm.R2, asm.R3)
	b.mov(asm.R3, asm.R1)
	b.add(asm.Xor.Imm(asm.R3, -1))
	b.alu(asm.And, asm.R2, asm.R3)
	b.movImm(asm.R3, -0x7f7f7f7f7f7f7f80)
	b.alu(asm.And, asm.R2, asm.R3)
	b.mov(asm.R3, asm.R2)
	b.add(asm.Neg.Imm(asm.R3, 0))
	b.alu(asm.And, asm.R3, asm.R2) // that alone; if none is 0: 0
	b.add(asm.RSh.Imm(asm.R3, 7))
	b.add(asm.Sub.Imm(asm.R3, 1)) // ones below it
	b.alu(asm.And, asm.R1, asm.R3)
	b.mov(asm.R4, asm.R6)
	b.alu(asm.Add, asm.R4, asm.R9)
	b.store(asm.R4, a.mask, asm.R3, 8)
	b.store(asm.R4, a.mask+s, asm.R1, 8)
	b.ifImm(asm.JNE, asm.R2, 0, marked, asm.R0)
	b.add(asm.Add.Imm(asm.R8, 8))
	b.add(asm.Add.Imm(asm.R9, 8))
	b.ifImm(asm.JLT, asm.R9, int64(s), mark, asm.R0)
	b.bind(marked)
	// The range of positions.
	low, high := b.label(), b.label()
	b.getWord(asm.R1, from)
	b.ifImm(asm.JSGE, asm.R1, 0, low, asm.R0)
	if last { // a negative position matches nothing
		b.load(asm.R2, asm.R6, a.mask, 1, false)
		b.ifImm(asm.JNE, asm.R2, 0, none, asm.R0)
	}
	b.movImm(asm.R1, 0)
	b.bind(low)
	b.getWord(asm.R2, length)
	b.ifReg(asm.JSLE, asm.R1, asm.R2, high)
	b.mov(asm.R1, asm.R2)
	b.bind(high)
	b.setWord(from, asm.R1)
	b.loop(s, func(next label, outs []label) {
		words, hit := b.label(), b.label()
		b.getWord(asm.R1, from)
		if last {
			b.ifReg(asm.JGT, asm.R8, asm.R1, outs[0])
		} else {
			b.ifReg(asm.JLT, asm.R8, asm.R1, next)
			b.getWord(asm.R1, length)
			b.ifReg(asm.JGT, asm.R8, asm.R1, outs[0])
		}
		b.movImm(asm.R5, 0)
		b.bind(words)
		b.mov(asm.R3, asm.R6)
		b.alu(asm.Add, asm.R3, asm.R5)
		b.load(asm.R4, asm.R3, a.mask, 8, false)
		b.load(asm.R1, asm.R3, a.mask+s, 8, false)
		b.alu(asm.Add, asm.R3, asm.R8)
		b.load(asm.R2, asm.R3, a.hay, 8, false)
		b.alu(asm.And, asm.R2, asm.R4)
		b.ifReg(asm.JNE, asm.R1, asm.R2, next)
		b.ifImm(asm.JNE, asm.R4, -1, hit, asm.R0)
		b.add(asm.Add.Imm(asm.R5, 8))
		b.ifImm(asm.JLT, asm.R5, int64(s), words, asm.R0)
		b.bind(hit)
		b.setWord(where, asm.R8)
		if !last {
			b.jump(outs[0])
		}
	}, over)
	b.bind(over)
	b.bind(none)
	b.getWord(asm.R0, where)
	b.exit()
}

// makeTail makes the function that returns the string searched by makeIndex from r2 on; r0: 1 if
// that position exists.
func (b *builder) makeTail() {
	none := b.label()
	a := b.area()
	b.enter()
	b.clearResult()
	b.within(asm.R7, b.p.StrSize-1, none)
	b.mov(asm.R3, asm.R6)
	b.alu(asm.Add, asm.R3, asm.R7)
	b.add(asm.Add.Imm(asm.R3, int32(a.hay)))
	b.lift(asm.R1, asm.R6, a.result)
	b.movImm(asm.R2, int64(b.p.StrSize))
	b.call(asm.FnProbeReadKernelStr)
	b.movImm(asm.R0, 1)
	b.exit()
	b.bind(none)
	b.movImm(asm.R0, 0)
	b.exit()
}

// makeToken makes the function that returns the next token of the string after the u64 at r2, which
// is 1 + the position to continue at. The characters at r3 are the delimiters. r0: 1 if there is a
// token. Words: 1 + the start of the token, its end; then a bit per character.
func (b *builder) makeToken() {
	const begin, end, from, bits = 0, 1, 2, 4
	b.enter()
	b.mov(asm.R8, asm.R3)
	b.clearResult()
	b.zeroWord(begin)
	for i := range 4 {
		b.zeroWord(bits + i)
	}
	bit := func(c asm.Register) { // r2: address of the word of character c, r1: its bit in it
		b.mov(asm.R2, c)
		b.add(asm.RSh.Imm(asm.R2, 6))
		b.add(asm.And.Imm(asm.R2, 3))
		b.add(asm.LSh.Imm(asm.R2, 3))
		b.alu(asm.Add, asm.R2, asm.R6)
		b.mov(asm.R3, c)
		b.add(asm.And.Imm(asm.R3, 63))
		b.movImm(asm.R1, 1)
		b.alu(asm.LSh, asm.R1, asm.R3)
	}
	marked := b.label()
	b.store(asm.R10, -24, asm.R7, 8)
	b.mov(asm.R7, asm.R8)
	b.each(func(next label, _ []label) {
		b.mov(asm.R4, asm.R1)
		bit(asm.R4)
		b.load(asm.R3, asm.R2, b.word(bits), 8, false)
		b.alu(asm.Or, asm.R3, asm.R1)
		b.store(asm.R2, b.word(bits), asm.R3, 8)
	}, marked)
	b.bind(marked)
	b.load(asm.R7, asm.R10, -24, 8, false)
	b.load(asm.R1, asm.R7, 0, 8, false)
	b.add(asm.Sub.Imm(asm.R1, 1))
	b.setWord(from, asm.R1)
	b.setWord(end, asm.R1)
	over, token := b.label(), b.label()
	b.add(asm.Add.Imm(asm.R7, 8))
	b.each(func(next label, outs []label) {
		ends := b.label()
		b.getWord(asm.R2, from)
		b.ifReg(asm.JLT, asm.R8, asm.R2, next)
		b.mov(asm.R4, asm.R1)
		bit(asm.R4)
		b.load(asm.R3, asm.R2, b.word(bits), 8, false)
		b.alu(asm.And, asm.R3, asm.R1)
		b.getWord(asm.R2, begin)
		b.ifImm(asm.JNE, asm.R3, 0, ends, asm.R0)
		b.mov(asm.R1, asm.R8)
		b.add(asm.Add.Imm(asm.R1, 1))
		b.setWord(end, asm.R1) // so far
		b.ifImm(asm.JNE, asm.R2, 0, next, asm.R0)
		b.setWord(begin, asm.R1)
		b.jump(next)
		b.bind(ends)
		b.mov(asm.R1, asm.R8)
		b.ifImm(asm.JNE, asm.R2, 0, outs[1], asm.R0)
		b.add(asm.Add.Imm(asm.R1, 1))
		b.setWord(end, asm.R1) // skipped
	}, over, token)
	b.bind(over)
	b.bind(token)
	b.getWord(asm.R2, end)
	b.add(asm.Add.Imm(asm.R2, 1))
	b.store(asm.R7, -8, asm.R2, 8)
	got := b.label()
	b.getWord(asm.R1, begin)
	b.ifImm(asm.JNE, asm.R1, 0, got, asm.R0)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(got)
	b.add(asm.Sub.Imm(asm.R1, 1))
	b.getWord(asm.R2, end)
	b.cut(1)
}
