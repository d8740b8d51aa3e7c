package gen

import (
	"slices"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// unwinds says whether stacks of processes are walked by tables at the site.
func (b *builder) unwinds() bool {
	return b.k.Unwind && !b.other() && b.site != check.SiteRun && !b.arm
}

// Where the kernel leaves the registers for a signal's handler to return to, from the stack pointer on: struct rt_sigframe of x86-64.
const (
	signalBP = 120
	signalSP = 160
	signalPC = 168
)

// The state of a walk, in scratch memory.
const (
	walkPC     = 0
	walkSP     = 8
	walkBP     = 16
	walkN      = 24  // frames until now
	walkLook   = 32  // what is looked up: a return's place less 1, as the call may be the last instruction of a function
	walkStart  = 40  // the stretch of memory that the last frame was in
	walkSize   = 48  // of it
	walkBias   = 56  // of it
	walkTable  = 64  // of it; the upper half: how
	walkStop   = 72  // why it ended
	walkPID    = 80  // the process
	walkMM     = 88  // its mm_struct
	walkBy     = 96  // the Stop to tell if a frame that a frame pointer led to is nowhere; 0: a table led to it
	walkTemp   = 104 // 16 bytes
	walkMost   = 120 // frames that are wanted
	walkKept   = 128 // 1: the place is among the frames already
	walkBlock  = 136 // of the process, that is looked into next
	walkRows   = 144 // the same, of the page of the table
	walkReturn = 152 // the return_instance that was looked at last, of functions with return probes
	walkDoubt  = 160 // frames up to the first whose caller may be missing; 0: there is none
	walkState  = 168
)

// walkFrames is where the frames are from the state on.
func (b *builder) walkFrames() int { return b.lay.stack + 8 - b.lay.walk }

// makeWalk makes the function that walks the stack of the process into the scratch memory at r1, of at most r2 frames, and gives their
// bytes; -1: the kernel's own walk does; -2: so it must, as nothing is known of the process yet.
func (b *builder) makeWalk() {
	const (
		key   = -8
		state = -16
	)
	plain, unknown, adopted, known := b.label(), b.label(), b.label(), b.label()
	mmAt, _ := b.offset("task_struct", "mm") // newBuilder has asked
	b.lift(asm.R6, asm.R1, b.lay.walk)
	b.mov(asm.R7, asm.R2)
	b.call(asm.FnGetCurrentTaskBtf)
	b.mov(asm.R8, asm.R0)
	b.load(asm.R9, asm.R8, mmAt, 8, false)
	b.ifImm(asm.JEq, asm.R9, 0, plain, asm.R1) // a thread of the kernel
	b.store(asm.R6, walkMM, asm.R9, 8)
	b.ids()
	b.add(asm.RSh.Imm(asm.R0, 32))
	b.store(asm.R6, walkPID, asm.R0, 8)
	b.store(asm.R10, key, asm.R0, 8)
	b.mapPtr(asm.R1, MapCode)
	b.lift(asm.R2, asm.R10, key)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, unknown, asm.R1)
	b.load(asm.R1, asm.R0, 0, 8, false)
	b.load(asm.R2, asm.R6, walkMM, 8, false)
	b.ifReg(asm.JEq, asm.R1, asm.R2, known)
	b.ifImm(asm.JEq, asm.R1, 0, adopted, asm.R3)
	b.bind(unknown)
	outside := b.label() // user space can't look into it
	b.load(asm.R1, asm.R6, walkPID, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, outside, asm.R2)
	b.mov(asm.R1, asm.R6)
	b.callSub(b.function("want", b.makeWant))
	b.bind(outside)
	b.movImm(asm.R0, -2)
	b.exit()
	b.bind(adopted)
	b.store(asm.R0, 0, asm.R2, 8)
	b.bind(known)
	b.load(asm.R1, asm.R0, 8, 8, false)
	b.add(asm.And.Imm(asm.R1, CodeKernel))
	b.ifImm(asm.JNE, asm.R1, 0, plain, asm.R2)
	// The registers of the process, wherever in the kernel it is: they are saved on every way in.
	b.mov(asm.R1, asm.R8)
	b.call(asm.FnTaskPtRegs)
	b.load(asm.R1, asm.R0, 8*17, 2, false) // cs
	const user64 = 0x33
	b.ifImm(asm.JNE, asm.R1, user64, plain, asm.R2) // of 32 bits, or a worker of the kernel with the process's memory
	b.load(asm.R1, asm.R0, 8*16, 8, false)
	b.store(asm.R6, walkPC, asm.R1, 8)
	b.store(asm.R6, walkLook, asm.R1, 8)
	b.load(asm.R1, asm.R0, 8*19, 8, false)
	b.store(asm.R6, walkSP, asm.R1, 8)
	b.load(asm.R1, asm.R0, 8*4, 8, false)
	b.store(asm.R6, walkBP, asm.R1, 8)
	for _, at := range [...]int{walkN, walkStart, walkSize, walkBy, walkKept, walkBlock, walkRows, walkReturn, walkDoubt} {
		b.storeImm(asm.R6, at, 0, 8, asm.R1)
	}
	b.storeImm(asm.R6, walkStop, int64(StopLong), 8, asm.R1)
	b.store(asm.R6, walkMost, asm.R7, 8)
	b.mov(asm.R1, asm.R7) // a turn is a frame, or one more block that its place is looked for in
	b.add(asm.LSh.Imm(asm.R1, 1))
	b.add(asm.Add.Imm(asm.R1, 2*CodeBlocks))
	b.callbacks++
	b.functionPtr(asm.R2, b.function("frame", b.makeFrame))
	b.store(asm.R10, state, asm.R6, 8)
	b.lift(asm.R3, asm.R10, state)
	b.movImm(asm.R4, 0)
	b.call(asm.FnLoop)
	done := b.label()
	b.load(asm.R0, asm.R6, walkN, 8, false)
	b.load(asm.R1, asm.R6, walkStop, 8, false)
	some, none := b.label(), b.label()
	b.ifImm(asm.JNE, asm.R1, int64(StopUnknown), some, asm.R2)
	b.ifImm(asm.JLE, asm.R0, 1, none, asm.R2) // nothing is known of the very first: the kernel's walk may tell more
	b.bind(some)
	b.load(asm.R4, asm.R6, walkDoubt, 8, false)
	b.mov(asm.R2, asm.R1)
	b.alu(asm.Or, asm.R2, asm.R4)
	b.ifImm(asm.JEq, asm.R2, 0, done, asm.R3)
	b.ifImm(asm.JGT, asm.R0, int64(b.lay.frames), done, asm.R2)
	b.add(asm.Or.Imm(asm.R1, 2<<6)) // as Stop.Frame
	b.add(asm.LSh.Imm(asm.R1, 56))
	b.alu(asm.Or, asm.R1, asm.R4)
	b.mov(asm.R2, asm.R0)
	b.add(asm.LSh.Imm(asm.R2, 3))
	b.mov(asm.R3, asm.R6)
	b.add(asm.Add.Imm(asm.R3, int32(b.walkFrames())))
	b.alu(asm.Add, asm.R3, asm.R2)
	b.store(asm.R3, 0, asm.R1, 8)
	b.add(asm.Add.Imm(asm.R0, 1))
	b.bind(done)
	b.add(asm.LSh.Imm(asm.R0, 3))
	b.exit()
	b.bind(none)
	b.movImm(asm.R0, -2)
	b.exit()
	b.bind(plain)
	b.movImm(asm.R0, -1)
	b.exit()
}

// makeWant makes the function that tells user space of the process of the walk at r1: what it executes is not known, or not all of it. It wakes who
// waits for that, unless the process is told already.
func (b *builder) makeWant() {
	told, fresh := b.label(), b.label()
	b.load(asm.R0, asm.R1, walkPID, 8, false)
	b.store(asm.R10, -8, asm.R0, 8)
	b.load(asm.R0, asm.R1, walkMM, 8, false)
	b.store(asm.R10, -16, asm.R0, 8)
	b.mapPtr(asm.R1, MapWanted)
	b.lift(asm.R2, asm.R10, -8)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, fresh, asm.R1)
	b.load(asm.R1, asm.R0, 0, 8, false)
	b.load(asm.R2, asm.R10, -16, 8, false)
	b.ifReg(asm.JEq, asm.R1, asm.R2, told)
	b.bind(fresh)
	b.mapPtr(asm.R1, MapWanted)
	b.lift(asm.R2, asm.R10, -8)
	b.lift(asm.R3, asm.R10, -16)
	b.movImm(asm.R4, 0)
	b.call(asm.FnMapUpdateElem) // where there is no room now, the next sample tells it again
	b.mapPtr(asm.R1, MapWake)
	b.lift(asm.R2, asm.R10, -8)
	b.movImm(asm.R3, 8)
	b.movImm(asm.R4, 0)
	b.call(asm.FnRingbufOutput) // where there is no room, somebody was woken and has not looked yet
	b.bind(told)
	b.movImm(asm.R0, 0)
	b.exit()
}

// WantsUserFrames says whether a program looks at stacks of processes.
func WantsUserFrames(p *ir.Program) bool {
	for _, f := range p.Clauses {
		for _, bl := range f.Blocks {
			if slices.ContainsFunc(bl.Steps, func(s ir.Step) bool { return usesUserFrames(&s) }) {
				return true
			}
		}
	}
	return false
}

// usesUserFrames says whether a step wants frames of a process.
func usesUserFrames(s *ir.Step) bool {
	return s.Op == ir.OpStack && s.Space == check.User ||
		s.Op == ir.OpBuiltin && (s.Which == check.BuiltinUStackDepth || s.Which == check.BuiltinUCaller || s.Which == check.BuiltinUFrame)
}
