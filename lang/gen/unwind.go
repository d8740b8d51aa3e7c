package gen

import (
	"slices"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// unwinds reports whether user stacks are walked by unwind tables at this site.
func (b *builder) unwinds() bool {
	return b.k.Unwind && !b.other() && b.site != check.SiteRun && !b.arm
}

// The registers that a signal handler returns to, as offsets from the stack pointer: struct
// rt_sigframe of x86-64.
const (
	signalBP = 120
	signalSP = 160
	signalPC = 168
)

// The state of a walk, as offsets in scratch memory. docs/UNWINDER.md draws it.
const (
	walkPC = 0
	walkSP = 8
	walkBP = 16
	walkN  = 24 // number of frames so far
	// the address looked up: the return address - 1, because a call may be the last instruction of
	// a function
	walkLook  = 32
	walkStart = 40 // start of the mapping of the last lookup
	walkSize  = 48 // its size
	walkBias  = 56 // its bias
	walkTable = 64 // its table; in the upper half one of CodeTable ...
	walkStop  = 72 // reason for the end
	walkPID   = 80 // process ID in the upper half, 0 in the lower
	walkMM    = 88 // its mm_struct
	// the Stop to report if the frame is in no known mapping and a frame pointer led to it; 0: a
	// table led to it
	walkBy     = 96
	walkTemp   = 104 // 16 bytes
	walkMost   = 120 // highest number of frames
	walkKept   = 128 // 1: the current address is stored as a frame already
	walkBlock  = 136 // number of the process's block to search next
	walkRows   = 144 // number of the page's block of rows to search next
	walkReturn = 152 // last return_instance searched, of functions with return probes
	walkDoubt  = 160 // number of frames up to the first whose caller may be missing; 0: none
	walkVMA    = 168 // 1: mappings are looked up in the kernel's list
	walkNode   = 176 // 120 bytes: pivots of a node of that list
	// of frames of interpreters; see unwind_interpreter.go
	walkInState = 296
	walkInAt    = 304 // a thread, or the next frame
	walkInOf    = 312 // where the list of threads ends, or the stack of the interpreter
	walkInLeft  = 320 // how many threads are still looked at
	walkInSelf  = 328 // what pthread_self() returns in this thread
	walkInGot   = 336 // 1: this call of the evaluator has stored a frame
	walkInAfter = 344 // number of frames after the last call of the evaluator; 0: none
	walkDI      = 352 // %rdi of the innermost frame
	walkState   = 360
)

// A userWalk generates the code that walks user stacks by unwind tables.
type userWalk struct{ *builder }

// walkFrames is the offset of the frames from the state.
func (b userWalk) walkFrames() int { return b.lay.stack + 8 - b.lay.walk }

// makeWalk makes the function that walks the stack of the process, for at most r2 frames, into the
// scratch memory at r1. It returns the size of the frames in bytes; -1: use the kernel's own walk;
// -2: the same, because the process is not known yet.
//
//	long walk(void *scratch, u64 most) {
//		struct walk *w = scratch + walk;
//		...                                  // findProcess, readRegisters
//		bpf_loop(2 * most + 2 * CodeBlocks + interpreterThreads, frame, &w, 0);
//		if (w->stop == UNKNOWN && w->n <= 1) // not even the first frame is known:
//			return -2;                       // the kernel's walk may find more
//		if ((w->stop || w->doubt) && w->n <= the highest depth)
//			w->frames[w->n++] = 2 << 62 | w->stop << 56 | w->doubt;
//		return 8 * w->n;
//	}
func (b userWalk) makeWalk() {
	const state = -16
	plain, unknown := b.label(), b.label()
	b.lift(asm.R6, asm.R1, b.lay.walk)
	b.mov(asm.R7, asm.R2)
	b.findProcess(plain, unknown)
	b.readRegisters(plain)
	b.mov(asm.R1, asm.R7) // each iteration is a frame, or one more block to search
	b.add(asm.LSh.Imm(asm.R1, 1))
	b.add(asm.Add.Imm(asm.R1, 2*CodeBlocks+interpreterThreads))
	b.routines.callbacks++
	b.functionPtr(asm.R2, b.function("frame", b.makeFrame))
	b.store(asm.R10, state, asm.R6, 8)
	b.lift(asm.R3, asm.R10, state)
	b.movImm(asm.R4, 0)
	b.call(asm.FnLoop)
	b.appendEnding()
	b.bind(plain)
	b.movImm(asm.R0, -1)
	b.exit()
}

// findProcess finds the blocks of the current process, whose state is at r6. It leaves the
// task_struct in r8.
//
//	task = bpf_get_current_task_btf();
//	if (!task->mm) goto plain;               // a kernel thread
//	w->mm = task->mm; w->pid = pid << 32;
//	block = lookup(code, {pid, 0});
//	w->vma = 0;
//	if (!block || block->mm && block->mm != w->mm) {
//		w->vma = 1;
//		if (random & 15) return;             // user space loads processes that have many samples
//		if (w->pid) want(w);                 // 0: outside the PID namespace
//		return;                              // or -2 without makeVMA
//	}
//	if (!block->mm) block->mm = w->mm;
//	if (block->flags & KERNEL) goto plain;
func (b userWalk) findProcess(plain, unknown label) {
	const key = -8
	adopted, known := b.label(), b.label()
	mmAt, _ := b.offset("task_struct", "mm") // the constructor has checked it
	b.call(asm.FnGetCurrentTaskBtf)
	b.mov(asm.R8, asm.R0)
	b.load(asm.R9, asm.R8, mmAt, 8, false)
	b.ifImm(asm.JEq, asm.R9, 0, plain, asm.R1)
	b.store(asm.R6, walkMM, asm.R9, 8)
	b.storeImm(asm.R6, walkVMA, 0, 8, asm.R1)
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
	outside, walk := b.label(), b.label()
	_, listed := b.vmaLayout()
	if listed {
		b.storeImm(asm.R6, walkVMA, 1, 8, asm.R1)
		b.call(asm.FnGetPrandomU32)
		b.add(asm.And.Imm(asm.R0, 15))
		b.ifImm(asm.JNE, asm.R0, 0, walk, asm.R1)
	}
	b.load(asm.R1, asm.R6, walkPID, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, outside, asm.R2)
	b.mov(asm.R1, asm.R6)
	b.callSub(b.function("want", b.makeWant))
	b.bind(outside)
	if !listed {
		b.movImm(asm.R0, -2)
		b.exit()
	} else {
		b.jump(walk)
	}
	b.bind(adopted)
	b.store(asm.R0, 0, asm.R2, 8)
	b.bind(known)
	b.load(asm.R1, asm.R0, 8, 8, false)
	b.add(asm.And.Imm(asm.R1, CodeKernel))
	b.ifImm(asm.JNE, asm.R1, 0, plain, asm.R2)
	b.bind(walk)
}

// readRegisters initializes the state at r6 with the user registers of the task r8, which every
// entry into the kernel saves:
//
//	regs = bpf_task_pt_regs(task);
//	if ((u16)regs->cs != USER64) goto plain; // 32 bits, or a kernel worker with its memory
//	w->pc = w->look = regs->ip; w->sp = regs->sp; w->bp = regs->bp;
//	w->di = regs->di;
//	w->n = w->start = w->size = ... = 0;
//	w->stop = LONG;                          // unless an iteration sets another
//	w->most = most;
func (b userWalk) readRegisters(plain label) {
	b.mov(asm.R1, asm.R8)
	b.call(asm.FnTaskPtRegs)
	b.load(asm.R1, asm.R0, 8*17, 2, false) // cs
	const user64 = 0x33
	b.ifImm(asm.JNE, asm.R1, user64, plain, asm.R2)
	b.load(asm.R1, asm.R0, 8*16, 8, false) // ip
	b.store(asm.R6, walkPC, asm.R1, 8)
	b.store(asm.R6, walkLook, asm.R1, 8)
	b.load(asm.R1, asm.R0, 8*19, 8, false) // sp
	b.store(asm.R6, walkSP, asm.R1, 8)
	b.load(asm.R1, asm.R0, 8*4, 8, false) // bp
	b.store(asm.R6, walkBP, asm.R1, 8)
	b.load(asm.R1, asm.R0, 8*14, 8, false) // di
	b.store(asm.R6, walkDI, asm.R1, 8)
	for _, at := range [...]int{
		walkN, walkStart, walkSize, walkBy, walkKept, walkBlock, walkRows, walkReturn, walkDoubt,
	} {
		b.storeImm(asm.R6, at, 0, 8, asm.R1)
	}
	b.storeImm(asm.R6, walkStop, int64(StopLong), 8, asm.R1)
	b.store(asm.R6, walkMost, asm.R7, 8)
	b.beginInterpreter()
}

// appendEnding appends the Ending of the walk at r6, if it has one, and returns the size of the
// frames, or -2. See makeWalk.
func (b userWalk) appendEnding() {
	done, some, none := b.label(), b.label(), b.label()
	b.load(asm.R0, asm.R6, walkN, 8, false)
	b.load(asm.R1, asm.R6, walkStop, 8, false)
	b.ifImm(asm.JNE, asm.R1, int64(StopUnknown), some, asm.R2)
	b.ifImm(asm.JLE, asm.R0, 1, none, asm.R2)
	b.bind(some)
	b.load(asm.R4, asm.R6, walkDoubt, 8, false)
	b.mov(asm.R2, asm.R1)
	b.alu(asm.Or, asm.R2, asm.R4)
	b.ifImm(asm.JEq, asm.R2, 0, done, asm.R3)
	b.ifImm(asm.JGT, asm.R0, int64(b.lay.frames), done, asm.R2)
	b.add(asm.Or.Imm(asm.R1, 2<<6)) // as in Stop.Frame
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
}

// makeWant makes the function that requests tables from user space for the process of the walk at
// r1, because its mappings are unknown or incomplete. It wakes user space, unless the process is
// requested already.
//
//	long want(struct walk *w) {
//		u64 *mm = lookup(wanted, &w->pid);
//		if (mm && *mm == w->mm) return 0;
//		update(wanted, &w->pid, &w->mm);         // if it is full, the next sample tries again
//		bpf_ringbuf_output(wake, &w->pid, 8, 0); // if it is full, user space is awake
//		return 0;
//	}
func (b userWalk) makeWant() {
	requested, fresh := b.label(), b.label()
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
	b.ifReg(asm.JEq, asm.R1, asm.R2, requested)
	b.bind(fresh)
	b.mapPtr(asm.R1, MapWanted)
	b.lift(asm.R2, asm.R10, -8)
	b.lift(asm.R3, asm.R10, -16)
	b.movImm(asm.R4, 0)
	b.call(asm.FnMapUpdateElem)
	b.mapPtr(asm.R1, MapWake)
	b.lift(asm.R2, asm.R10, -8)
	b.movImm(asm.R3, 8)
	b.movImm(asm.R4, 0)
	b.call(asm.FnRingbufOutput)
	b.bind(requested)
	b.movImm(asm.R0, 0)
	b.exit()
}

// WantsUserFrames reports whether a program reads user stacks.
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

// usesUserFrames reports whether a step reads frames of a process.
func usesUserFrames(s *ir.Step) bool {
	return s.Op == ir.OpStack && s.Space == check.User ||
		s.Op == ir.OpBuiltin &&
			(s.Which == check.BuiltinUStackDepth || s.Which == check.BuiltinUCaller ||
				s.Which == check.BuiltinUFrame)
}
