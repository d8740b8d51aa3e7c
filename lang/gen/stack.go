package gen

import (
	"strconv"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// stackBytes returns the size of the scratch memory for reading a stack: two frames more than are
// kept, their size in bytes, and padding for zeroes. The verifier treats start and length as
// unrelated.
func stackBytes(frames int) int { return stackLength(frames) + 16 + 8*frames }

func stackLength(frames int) int { return 8 + 8*(frames+2) }

// flagUserStack is the kernel's BPF_F_USER_STACK. The lowest 8 bits of the flags are the number of
// frames to skip.
const flagUserStack = 1 << 8

// stackFlags returns the flags for reading a stack. If the program is called like a function, the
// stack begins with its own frame and its caller's, which are skipped.
func (b *builder) stackFlags(s check.Space) int64 {
	if s == check.User {
		return flagUserStack
	}
	switch b.site {
	case check.SiteSyscallEntry, check.SiteSyscallReturn:
		if b.record {
			return 0 // perf has recorded its caller
		}
		return 2
	case check.SiteRun,
		check.SiteRawTracepoint,
		check.SiteTracepointBTF,
		check.SiteFentry,
		check.SiteFexit:
		return 2 // the program, bpf_trace_run or a trampoline
	}
	return 0
}

// A reach is the address range of a kernel function.
type reach struct{ address, size uint64 }

// between returns the functions that may be between a tracepoint and bpf_trace_run:
// __bpf_trace_NAME, unless the compiler made a tail call of it; __traceiter_NAME, when several
// programs are at the tracepoint.
func (b *builder) between() []reach {
	if b.routines.analyzed {
		return b.routines.callers
	}
	b.routines.analyzed = true
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
			b.routines.callers = append(b.routines.callers, reach{a, size})
		}
	}
	return b.routines.callers
}

// callersOf returns the names of those functions for a tracepoint. perf records its own caller,
// except for the part that newer compilers split off.
func (b *builder) callersOf(tracepoint string) []string {
	if b.record {
		return []string{"perf_trace_" + tracepoint, "__traceiter_" + tracepoint}
	}
	return []string{"__bpf_trace_" + tracepoint, "__traceiter_" + tracepoint}
}

// passOver advances r6, which is 8 bytes before the frames, past the frames between the tracepoint
// and the program. r8 stays, and the length after it is reduced. It changes r1 and r2.
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

// readStack reads a stack into scratch memory, after 8 bytes. It leaves the arguments of the
// functions below: r1 size in bytes, r2 address, r3 flags. The program itself reads the stack: each
// further frame of its own would cost 100 ns to skip.
//
// most is the number of frames wanted. With unwind tables, the kernel's own walk serves only
// processes without them.
func (b *builder) readStack(space check.Space, most int) {
	if b.other() {
		b.otherStack(space)
		return
	}
	if space == check.User && b.unwinds() {
		kernel, done, known := b.label(), b.label(), b.label()
		b.mov(asm.R1, asm.R9)
		b.movImm(asm.R2, int64(most))
		b.callSub(b.function("walk", userWalk{b}.makeWalk))
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

// flagNotYet is for the functions below: tables might find more than the kernel's walk.
const flagNotYet = 1 << 16

// fewFrames is the number of kernel frames to read first; if the stack is deeper, all are read. The
// kernel zeroes the rest of the buffer, and a kilobyte outside the cache costs as much as some
// frames.
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
	if b.record { // the begin or end of a system call has three or four
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

// readStackAtEntry is readStack for a process at the first instruction of a function, which has not
// set up its frame. A walk by frame pointers misses its caller, unless the kernel recognizes some
// first instructions, as newer ones do. The caller is inserted if it isn't the second frame.
func (b *builder) readStackAtEntry() {
	const length = slotTemp + 8
	at := b.lay.stack + 16 // with space for one before it
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
		b.storeImm(asm.R10, slotTemp, 0, 8, asm.R1)
		b.lift(asm.R1, asm.R10, slotTemp)
		b.movImm(asm.R2, int64(8>>bit(b.probes[0].Narrow)))
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

// takeStack begins a function that uses the result of readStack. r8 is the memory; r6 is 8 bytes
// before the first frame that counts. Kernel threads have no user stack.
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

// endNotYet appends StopNotYet to the frames at r6, if the flags in r3 say that the process is not
// known yet. r3 stays.
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

// stack leaves the number of the current stack. Equal stacks have equal numbers.
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

// maxKey is the longest key of a hash map before Linux 5.11: the kernel's MAX_BPF_STACK.
const maxKey = 512

// pieceFrames is the number of frames in a key of maxKey bytes, after its first word.
const pieceFrames = maxKey/8 - 1

// stackClasses returns the depths of the maps of stacks. The kernel hashes and compares whole keys,
// so short stacks, the most frequent ones, get short keys. With preallocated maps there is one map.
// If keys can't be long, the last map contains pieces of stacks; see pieceStack.
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

// makeStack makes the function that finds the number of the stack that was read, truncated to r4
// bytes. The stack is a key, so two stacks never share a number. Its map is the one with the
// shortest sufficient keys.
func (b *builder) makeStack() {
	const (
		number = -8
		flags  = -16
		most   = -24
		own    = -32
		zero   = -40
	)
	// kept in memory, so that the verifier does not follow each length separately
	length := stackLength(b.lay.frames)
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
		b.stackMap(i, zero, failed)
		b.numberKey(inR7, number, own, got, failed)
		b.bind(longer)
	}
	if last := len(b.lay.stacks) - 1; b.lay.stacks[last] < b.lay.frames {
		b.stackMap(last, zero, failed)
		b.pieceStack(length, number, own, got, failed)
	}
	b.bind(failed)
	b.drop(ir.DropStack)
	b.movImm(asm.R0, 0)
	b.bind(got)
	b.exit()
}

// stackMap leaves the map of a class of stacks that user space does not read now in r7. The stack
// has space at zero.
func (b *builder) stackMap(class, zero int, missing label) {
	b.storeImm(asm.R10, zero, 0, 8, asm.R0)
	b.mapPtr(asm.R1, MapStacks+strconv.Itoa(class))
	b.lift(asm.R2, asm.R10, zero)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, missing, asm.R1)
	b.mov(asm.R7, asm.R0)
}

// stackPiece is set in the first word of a key that is not the first piece of a stack. The bits
// below it are the number of the previous piece.
const stackPiece = 1 << 63

// PieceOf decodes the first word of a key of MapStacks. It returns the number of the previous piece
// if the key is not the first piece of a stack, otherwise 0. The frames of the key are the callers
// of that piece's frames.
func PieceOf(word uint64) (before uint32) {
	if word&stackPiece == 0 {
		return 0
	}
	return uint32(word)
}

// InPieces reports whether stacks may be in pieces on a kernel.
func (k Kernel) InPieces() bool { return !k.LongKeys }

// pieceStack numbers a stack that is longer than a key, in pieces, innermost frames first:
//
//	| process, or stackPiece | number of the previous piece | pieceFrames frames |
//
// The number of the last piece is that of the stack. It overwrites the memory at r6: the last word
// of a piece becomes the first of the next. All pieces are in the map in r7.
func (b *builder) pieceStack(length, number, own int, got, failed label) {
	for at := pieceFrames; at < b.lay.frames; at += pieceFrames {
		next, last := b.label(), b.label()
		b.numberKey(inR7, number, own, next, failed)
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
		b.numberKey(inR7, number, own, got, failed)
		b.bind(last)
	}
}

// zeroTail zeroes the memory after the r1 bytes of frames at r6, up to n frames.
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

// inR7 is for numberKey: the map is in r7.
const inR7 = ""

// numberKey leaves in r0 the number of the key at r6 in a map, which it adds if needed, and jumps
// to got. The stack has space at number, and the address of the firing's scratch memory at own.
func (b *builder) numberKey(name string, number, own int, got, failed label) {
	toMap := func() {
		if name == inR7 {
			b.mov(asm.R1, asm.R7)
		} else {
			b.mapPtr(asm.R1, name)
		}
	}
	look := func(missing label) {
		toMap()
		b.mov(asm.R2, asm.R6)
		b.call(asm.FnMapLookupElem)
		b.ifImm(asm.JEq, asm.R0, 0, missing, asm.R1)
		b.load(asm.R0, asm.R0, 0, 4, false)
		b.jump(got)
	}
	missing, taken, fits := b.label(), b.label(), b.label()
	look(missing)
	b.bind(missing)
	b.fresh(own)
	b.add(asm.And.Imm(asm.R0, int32(b.p.Source.StoredStack()-1)))
	b.ifImm(asm.JNE, asm.R0, 0, fits, asm.R1)
	b.movImm(asm.R0, 1)
	b.bind(fits)
	b.store(asm.R10, number, asm.R0, 4)
	toMap()
	b.mov(asm.R2, asm.R6)
	b.lift(asm.R3, asm.R10, number)
	b.movImm(asm.R4, 1) // BPF_NOEXIST
	b.call(asm.FnMapUpdateElem)
	b.ifImm(asm.JNE, asm.R0, 0, taken, asm.R1)
	b.load(asm.R0, asm.R10, number, 4, false)
	b.jump(got)
	b.bind(taken) // added by another CPU; or the map is full
	look(failed)
}

// fresh leaves a number in r0 whose low 32 bits are unique until they repeat. Without atomic
// operations that return the old value, each scratch memory, which only this firing uses, has its
// own counter, and numbers interleave all counters.
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

// caller leaves the return address of the current function in r0; 0: unknown.
func (b *builder) caller(space check.Space) {
	b.frames("caller", space, 2, func(length int) {
		known := b.label()
		b.load(asm.R1, asm.R8, length, 8, false)
		b.load(asm.R0, asm.R6, 16, 8, false)
		none := b.label()
		if b.unwinds() { // a Stop is no address
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

// depth leaves the number of frames in r0, at most most; 0: no limit.
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

// frames reads the stack and calls a function that computes a number from it.
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
