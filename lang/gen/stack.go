package gen

import (
	"strconv"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// stackRoom is how much scratch memory a stack of so many frames is read into: two frames more than are kept, behind them how
// many bytes they take, and room for zeroes to end in: the verifier takes where they begin and how many they are for unrelated.
func stackRoom(frames int) int { return stackLength(frames) + 16 + 8*frames }

func stackLength(frames int) int { return 8 + 8*(frames+2) }

// flagUserStack is the kernel's BPF_F_USER_STACK. The lowest 8 bits of the flags are how many frames to pass over.
const flagUserStack = 1 << 8

// stackFlags are those for reading a stack. Where a program is called like a function, its own frames and that of what called
// it come first, which are no part of the kernel's stack.
func (b *builder) stackFlags(s check.Space) int64 {
	if s == check.User {
		return flagUserStack
	}
	switch b.site {
	case check.SiteSyscallEntry, check.SiteSyscallReturn:
		if b.record {
			return 0 // perf has noted where it was called from
		}
		return 2
	case check.SiteRun, check.SiteRawTracepoint, check.SiteTracepointBTF, check.SiteFentry, check.SiteFexit:
		return 2 // the program, bpf_trace_run or a trampoline
	}
	return 0
}

// A reach is where a function of the kernel lies.
type reach struct{ address, size uint64 }

// between finds the functions that may stand between a tracepoint and bpf_trace_run: __bpf_trace_NAME is there unless the
// compiler saw that it ends with a call, __traceiter_NAME when more than one program is at the tracepoint.
func (b *builder) between() []reach {
	if b.asked {
		return b.callers
	}
	b.asked = true
	var names []string
	switch b.site {
	case check.SiteSyscallEntry:
		names = b.callersOf("sys_enter")
	case check.SiteSyscallReturn:
		names = b.callersOf("sys_exit")
	case check.SiteRawTracepoint, check.SiteTracepointBTF:
		if len(b.probes) == 1 {
			name := b.probes[0].Name
			if m := b.probes[0].Meaning; m != nil {
				name = m.Event
			}
			names = b.callersOf(name)
		}
	}
	if b.k.Symbol == nil {
		return nil
	}
	for _, n := range names {
		if a, size, err := b.k.Symbol(n); err == nil && size > 0 && size < 1<<31 {
			b.callers = append(b.callers, reach{a, size})
		}
	}
	return b.callers
}

// callersOf gives the names of those functions of a tracepoint. perf notes where its own function was called from, but for the part of it
// that newer compilers make a function of.
func (b *builder) callersOf(tracepoint string) []string {
	if b.record {
		return []string{"perf_trace_" + tracepoint, "__traceiter_" + tracepoint}
	}
	return []string{"__bpf_trace_" + tracepoint, "__traceiter_" + tracepoint}
}

// passOver moves r6 from 8 bytes before the frames to 8 bytes before the first one that is not of what stands between the
// tracepoint and the program. r8 stays, and the length behind it tells what is left. It changes r1 and r2.
func (b *builder) passOver() {
	length := stackLength(b.lay.frames)
	for _, r := range b.between() {
		other := b.label()
		b.load(asm.R1, asm.R6, 8, 8, false)
		b.movImm(asm.R2, int64(r.address))
		b.alu(asm.Sub, asm.R1, asm.R2)
		b.ifImm(asm.JGE, asm.R1, int64(r.size), other, asm.R2)
		b.load(asm.R1, asm.R8, length, 8, false)
		b.ifImm(asm.JLT, asm.R1, 8, other, asm.R2)
		b.add(asm.Sub.Imm(asm.R1, 8))
		b.store(asm.R8, length, asm.R1, 8)
		b.add(asm.Add.Imm(asm.R6, 8))
		b.bind(other)
	}
}

// readStack reads a stack into scratch memory, behind 8 bytes, and makes the arguments of the functions below: r1 how many
// bytes, r2 where, r3 the flags. The program reads it itself: each frame more of its own costs 100 ns to pass over.
//
// Most is how many frames are wanted. Where user stacks are walked by tables, the kernel's own walk is for processes that have none.
func (b *builder) readStack(space check.Space, most int) {
	if b.other() {
		b.otherStack(space)
		return
	}
	if space == check.User && b.unwinds() {
		kernel, done, known := b.label(), b.label(), b.label()
		b.mov(asm.R1, asm.R9)
		b.movImm(asm.R2, int64(most))
		b.callSub(b.function("walk", b.makeWalk))
		b.ifImm(asm.JSLT, asm.R0, 0, kernel, asm.R1)
		b.mov(asm.R1, asm.R0)
		b.lift(asm.R2, asm.R9, b.lay.stack)
		b.movImm(asm.R3, flagUserStack)
		b.jump(done)
		b.bind(kernel)
		b.store(asm.R10, slotHold, asm.R0, 8)
		b.kernelStack(space)
		few := b.label()
		b.ifImm(asm.JSLE, asm.R1, int64(8*most), few, asm.R4)
		b.movImm(asm.R1, int64(8*most))
		b.bind(few)
		b.load(asm.R0, asm.R10, slotHold, 8, false)
		b.ifImm(asm.JNE, asm.R0, -2, known, asm.R4)
		b.add(asm.Or.Imm(asm.R3, flagNotYet))
		b.bind(known)
		b.bind(done)
		return
	}
	b.kernelStack(space)
}

// flagNotYet says to the functions below that tables might have told more than the kernel's walk.
const flagNotYet = 1 << 16

// fewFrames are read of the kernel's stack at first, and all where there are as many: the kernel fills the rest of the memory that it
// is given with zeroes, and a kilobyte that is in no cache costs as much as some frames.
const fewFrames = 40

// kernelStack is readStack by the kernel's own walk.
func (b *builder) kernelStack(space check.Space) {
	if space == check.User && b.probes[0].AtEntry {
		b.readStackAtEntry()
		return
	}
	get := func(frames int) {
		b.load(asm.R1, asm.R10, slotCtx, 8, false)
		b.lift(asm.R2, asm.R9, b.lay.stack+8)
		b.movImm(asm.R3, int64(8*frames))
		b.movImm(asm.R4, b.stackFlags(space))
		b.call(asm.FnGetStack)
	}
	few := fewFrames
	if b.record { // a system call that begins or ends has three or four
		few = 12
	}
	if space == check.Kernel && b.lay.frames > 2*few {
		all := b.label()
		get(few)
		b.ifImm(asm.JNE, asm.R0, int64(8*few), all, asm.R1)
		get(b.lay.frames + 2)
		b.bind(all)
	} else {
		get(b.lay.frames + 2)
	}
	b.mov(asm.R1, asm.R0)
	b.lift(asm.R2, asm.R9, b.lay.stack)
	b.movImm(asm.R3, b.stackFlags(space))
}

// readStackAtEntry is readStack of a process where a function has just been called and has not made its frame: who follows frames
// from there misses its caller, unless the kernel sees that it is so, which newer ones do for some first instructions. The caller is
// put in where it isn't the second frame.
func (b *builder) readStackAtEntry() {
	const length = slotTemp + 8
	at := b.lay.stack + 16 // with room for one before it
	plain, put, done := b.label(), b.label(), b.label()
	b.load(asm.R1, asm.R10, slotCtx, 8, false)
	b.lift(asm.R2, asm.R9, at)
	b.movImm(asm.R3, int64(8*(b.lay.frames+1)))
	b.movImm(asm.R4, flagUserStack)
	b.call(asm.FnGetStack)
	b.store(asm.R10, length, asm.R0, 8)
	b.ifImm(asm.JSLT, asm.R0, 8, plain, asm.R1)
	if b.arm {
		off, _ := b.register("x30")
		b.ctx(off)
		b.store(asm.R10, slotTemp, asm.R0, 8)
	} else {
		b.ctx(b.registers().sp)
		b.mov(asm.R3, asm.R0)
		b.lift(asm.R1, asm.R10, slotTemp)
		b.movImm(asm.R2, 8)
		b.call(asm.FnProbeReadUser)
		b.ifImm(asm.JNE, asm.R0, 0, plain, asm.R1)
	}
	b.load(asm.R1, asm.R10, slotTemp, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, plain, asm.R2)
	b.load(asm.R3, asm.R10, length, 8, false)
	b.ifImm(asm.JLT, asm.R3, 16, put, asm.R2)
	b.load(asm.R2, asm.R9, at+8, 8, false)
	b.ifReg(asm.JEq, asm.R1, asm.R2, plain)
	b.bind(put)
	b.load(asm.R2, asm.R9, at, 8, false)
	b.store(asm.R9, at-8, asm.R2, 8)
	b.store(asm.R9, at, asm.R1, 8)
	b.mov(asm.R1, asm.R3)
	b.add(asm.Add.Imm(asm.R1, 8))
	b.lift(asm.R2, asm.R9, at-16)
	b.jump(done)
	b.bind(plain)
	b.load(asm.R1, asm.R10, length, 8, false)
	b.lift(asm.R2, asm.R9, at-8)
	b.bind(done)
	b.movImm(asm.R3, flagUserStack)
}

// takeStack begins a function of what readStack gives. r8 is the memory, r6 where it is 8 bytes before the first frame that
// counts. The user's stack of a thread of the kernel has none.
func (b *builder) takeStack(flagsAt int) {
	some, user := b.label(), b.label()
	b.mov(asm.R6, asm.R2)
	b.mov(asm.R8, asm.R2)
	b.store(asm.R10, flagsAt, asm.R3, 8)
	b.ifImm(asm.JSGE, asm.R1, 0, some, asm.R0)
	b.movImm(asm.R1, 0)
	b.bind(some)
	b.store(asm.R8, stackLength(b.lay.frames), asm.R1, 8)
	if b.unwinds() {
		b.endNotYet()
		b.add(asm.And.Imm(asm.R3, flagNotYet-1))
		b.store(asm.R10, flagsAt, asm.R3, 8)
	}
	if !b.other() && len(b.between()) > 0 {
		b.ifImm(asm.JEq, asm.R3, flagUserStack, user, asm.R0)
		b.passOver()
	}
	b.bind(user)
}

// endNotYet ends the frames at r6 of a process of which nothing was known, as the flags in r3 say, with the Stop that says so. r3 stays.
func (b *builder) endNotYet() {
	done := b.label()
	b.load(asm.R2, asm.R8, stackLength(b.lay.frames), 8, false)
	b.ifImm(asm.JLT, asm.R3, flagNotYet, done, asm.R0)
	b.ifImm(asm.JLT, asm.R2, 8, done, asm.R0)
	b.ifImm(asm.JGT, asm.R2, int64(8*b.lay.frames), done, asm.R0)
	b.mov(asm.R1, asm.R6)
	b.alu(asm.Add, asm.R1, asm.R2)
	b.movImm(asm.R0, int64(StopNotYet.Frame()))
	b.store(asm.R1, 8, asm.R0, 8)
	b.add(asm.Add.Imm(asm.R2, 8))
	b.store(asm.R8, stackLength(b.lay.frames), asm.R2, 8)
	b.bind(done)
}

// stack gives the number of the stack here: the same stack has the same number, and another one another.
func (b *builder) stack(s *ir.Step) {
	if b.byHand() && s.Space == check.Kernel {
		b.movImm(asm.R0, 0)
		b.put(s.Dst, asm.R0)
		return
	}
	b.readStack(s.Space, s.N)
	b.movImm(asm.R4, int64(8*(s.N+bit(s.Space == check.User && b.unwinds())))) // and an Ending
	b.mov(asm.R5, asm.R9)
	b.callSub(b.function("stack", b.makeStack))
	b.put(s.Dst, asm.R0)
}

// maxKey is the longest key of a hash map before Linux 5.11: MAX_BPF_STACK of the kernel.
const maxKey = 512

// pieceFrames is how many frames a key of maxKey bytes has behind its first word.
const pieceFrames = maxKey/8 - 1

// stackClasses are the numbers of frames that there is a map of stacks for: the kernel hashes and compares whole keys, so short
// stacks, of which there are most, have short ones. Where maps have all their elements from the start, there is one map. Where
// keys can't be long, the last map is of pieces of stacks; see pieceStack.
func stackClasses(frames int, k Kernel) []int {
	var out []int
	last := frames
	if !k.LongKeys {
		last = min(frames, pieceFrames)
	}
	if k.NoPrealloc {
		for _, n := range [...]int{8, 20, 48} {
			if n < last {
				out = append(out, n)
			}
		}
	}
	return append(out, last)
}

// makeStack makes the function that finds the number of the stack that was read, cut to r4 bytes. The stack is a key, so two
// never share a number; its map is that of the shortest keys it fits into.
func (b *builder) makeStack() {
	const (
		number = -8
		flags  = -16
		most   = -24
		own    = -32
	)
	length := stackLength(b.lay.frames) // kept in memory, so that the verifier does not follow each length by itself
	b.store(asm.R10, most, asm.R4, 8)
	b.store(asm.R10, own, asm.R5, 8)
	b.takeStack(flags)
	short := b.label()
	b.load(asm.R0, asm.R8, length, 8, false)
	b.load(asm.R1, asm.R10, most, 8, false)
	b.ifReg(asm.JLE, asm.R0, asm.R1, short)
	b.store(asm.R8, length, asm.R1, 8)
	b.bind(short)
	kernel, owned := b.label(), b.label()
	b.load(asm.R1, asm.R10, flags, 8, false)
	b.ifImm(asm.JNE, asm.R1, flagUserStack, kernel, asm.R0)
	b.ids()
	b.add(asm.RSh.Imm(asm.R0, 32))
	if b.k.Namespace != nil {
		b.ifImm(asm.JNE, asm.R0, 0, owned, asm.R1)
		b.movImm(asm.R0, Outside)
	}
	b.jump(owned)
	b.bind(kernel)
	b.movImm(asm.R0, 0)
	b.bind(owned)
	b.store(asm.R6, 0, asm.R0, 8)

	failed, got := b.label(), b.label()
	for i, n := range b.lay.stacks {
		longer := b.label()
		b.load(asm.R1, asm.R8, length, 8, false)
		b.ifImm(asm.JGT, asm.R1, int64(8*n), longer, asm.R0)
		b.zeroTail(n)
		b.numberKey(MapStacks+strconv.Itoa(i), number, own, b.cuts(), got, failed)
		b.bind(longer)
	}
	if last := len(b.lay.stacks) - 1; b.lay.stacks[last] < b.lay.frames {
		b.pieceStack(MapStacks+strconv.Itoa(last), length, number, own, got, failed)
	}
	b.bind(failed)
	b.drop(ir.DropStack)
	b.movImm(asm.R0, 0)
	b.bind(got)
	b.exit()
}

// stackPiece is set in the first word of a key that is not the first piece of a stack: below it is the number of the piece before.
const stackPiece = 1 << 63

// PieceOf returns the number of the piece before, where the first word of a key of MapStacks says that the key is not the first piece of a
// stack; else 0. The frames of the key are those that called the frames of that piece.
func PieceOf(word uint64) (before uint32) {
	if word&stackPiece == 0 {
		return 0
	}
	return uint32(word)
}

// InPieces reports whether stacks may be in pieces on a kernel.
func (k Kernel) InPieces() bool { return !k.LongKeys }

// pieceStack numbers a stack that is longer than a key may be, in pieces, innermost frames first:
//
//	| process, or stackPiece | number of the piece before | pieceFrames frames |
//
// The number of the last piece is that of the stack. The memory at r6 is used up: the last word of a piece becomes the first of the next.
func (b *builder) pieceStack(name string, length, number, own int, got, failed label) {
	for at := pieceFrames; at < b.lay.frames; at += pieceFrames {
		next, last := b.label(), b.label()
		b.numberKey(name, number, own, b.cuts(), next, failed)
		b.bind(next)
		b.add(asm.Add.Imm(asm.R6, 8*pieceFrames))
		b.movImm(asm.R1, -stackPiece)
		b.alu(asm.Or, asm.R0, asm.R1)
		b.store(asm.R6, 0, asm.R0, 8)
		b.load(asm.R1, asm.R8, length, 8, false)
		b.add(asm.Sub.Imm(asm.R1, 8*pieceFrames))
		b.store(asm.R8, length, asm.R1, 8)
		b.ifImm(asm.JGT, asm.R1, 8*pieceFrames, last, asm.R0)
		b.zeroTail(pieceFrames)
		b.numberKey(name, number, own, b.cuts(), got, failed)
		b.bind(last)
	}
}

// zeroTail zeroes what is behind the r1 bytes of frames at r6, which has room for n.
func (b *builder) zeroTail(n int) {
	const inline = 8
	if n <= inline {
		done := b.label()
		for i := n - 1; i >= 0; i-- {
			b.ifImm(asm.JGT, asm.R1, int64(8*i), done, asm.R0)
			b.storeImm(asm.R6, 8+8*i, 0, 8, asm.R0)
		}
		b.bind(done)
		return
	}
	b.movImm(asm.R2, int64(8*n))
	b.alu(asm.Sub, asm.R2, asm.R1)
	b.alu(asm.Add, asm.R1, asm.R6)
	b.add(asm.Add.Imm(asm.R1, 8))
	b.mapValue(asm.R3, MapLiterals, b.lay.zeroes)
	b.call(asm.FnProbeReadKernel)
}

// numberKey leaves the number of the key at r6 in a map in r0, made if it has none, and goes to got. r10 has room for it at number,
// and at own where the scratch memory of this firing is. With cuts a number has check.StackBits bits.
func (b *builder) numberKey(name string, number, own int, cuts bool, got, failed label) {
	look := func(missing label) {
		b.mapPtr(asm.R1, name)
		b.mov(asm.R2, asm.R6)
		b.call(asm.FnMapLookupElem)
		b.ifImm(asm.JEq, asm.R0, 0, missing, asm.R1)
		b.load(asm.R0, asm.R0, 0, 4, false)
		b.jump(got)
	}
	missing, taken := b.label(), b.label()
	look(missing)
	b.bind(missing)
	b.fresh(own)
	if cuts {
		fits := b.label()
		b.add(asm.And.Imm(asm.R0, 1<<check.StackBits-1))
		b.ifImm(asm.JNE, asm.R0, 0, fits, asm.R1)
		b.movImm(asm.R0, 1)
		b.bind(fits)
	}
	b.store(asm.R10, number, asm.R0, 4)
	b.mapPtr(asm.R1, name)
	b.mov(asm.R2, asm.R6)
	b.lift(asm.R3, asm.R10, number)
	b.movImm(asm.R4, 1) // BPF_NOEXIST
	b.call(asm.FnMapUpdateElem)
	b.ifImm(asm.JNE, asm.R0, 0, taken, asm.R1)
	b.load(asm.R0, asm.R10, number, 4, false)
	b.jump(got)
	b.bind(taken) // by another CPU; or the map is full
	look(failed)
}

// cuts reports whether numbers of stacks have room for a depth beside them.
func (b *builder) cuts() bool { return b.p.Source != nil && b.p.Source.Cuts }

// fresh leaves a number in r0 that no other firing has: 32 bits, and not 0. Without atomic operations that give the old value each scratch memory,
// which is this firing's alone, has a count of its own, and numbers are the counts of all of them, interleaved.
func (b *builder) fresh(own int) {
	if b.k.AtomicFetch {
		b.mapValue(asm.R1, MapNumber, 0)
		b.movImm(asm.R0, 1)
		b.atomic(asm.FetchAdd, asm.R1, 0, asm.R0)
		b.add(asm.Add.Imm(asm.R0, 1))
		return
	}
	b.call(asm.FnGetSmpProcessorId)
	b.load(asm.R1, asm.R10, own, 8, false)
	b.load(asm.R2, asm.R1, scratchCount, 8, false)
	b.add(asm.Add.Imm(asm.R2, 1))
	b.store(asm.R1, scratchCount, asm.R2, 8)
	b.add(asm.Mul.Imm(asm.R2, int32(b.k.CPUs)))
	b.alu(asm.Add, asm.R0, asm.R2)
	b.add(asm.Mul.Imm(asm.R0, nestingMost))
	b.load(asm.R2, asm.R1, scratchSlot, 8, false)
	b.alu(asm.Add, asm.R0, asm.R2)
}

// caller leaves the place in r0 from which the function at hand was called; 0: that is not known.
func (b *builder) caller(space check.Space) {
	b.frames("caller", space, 2, func(length int) {
		known := b.label()
		b.load(asm.R1, asm.R8, length, 8, false)
		b.load(asm.R0, asm.R6, 16, 8, false)
		none := b.label()
		if b.unwinds() { // a Stop is no place
			b.mov(asm.R2, asm.R0)
			b.add(asm.RSh.Imm(asm.R2, 62))
			b.ifImm(asm.JEq, asm.R2, 2, none, asm.R3)
		}
		b.ifImm(asm.JGE, asm.R1, 16, known, asm.R2)
		b.bind(none)
		b.movImm(asm.R0, 0)
		b.bind(known)
	})
}

// depth leaves the number of frames in r0, but no more than most; 0: as many as there are.
func (b *builder) depth(space check.Space, most int) {
	b.frames("depth"+strconv.Itoa(most), space, b.lay.frames, func(length int) {
		b.load(asm.R0, asm.R8, length, 8, false)
		b.add(asm.RSh.Imm(asm.R0, 3))
		if b.unwinds() { // a Stop is no frame
			all := b.label()
			b.ifImm(asm.JEq, asm.R0, 0, all, asm.R1)
			b.ifImm(asm.JGT, asm.R0, int64(b.lay.frames+2), all, asm.R1)
			b.mov(asm.R1, asm.R0)
			b.add(asm.LSh.Imm(asm.R1, 3))
			b.alu(asm.Add, asm.R1, asm.R6)
			b.load(asm.R1, asm.R1, 0, 8, false)
			b.add(asm.RSh.Imm(asm.R1, 62))
			b.ifImm(asm.JNE, asm.R1, 2, all, asm.R2)
			b.add(asm.Sub.Imm(asm.R0, 1))
			b.bind(all)
		}
		if most > 0 {
			few := b.label()
			b.ifImm(asm.JLE, asm.R0, int64(most), few, asm.R1)
			b.movImm(asm.R0, int64(most))
			b.bind(few)
		}
	})
}

// frames reads the stack and calls a function that makes a number of it.
func (b *builder) frames(name string, space check.Space, most int, body func(length int)) {
	b.readStack(space, most)
	b.callSub(b.function(name, func() {
		b.takeStack(-8)
		body(stackLength(b.lay.frames))
		b.exit()
	}))
}

// bit returns 1 for true.
func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
