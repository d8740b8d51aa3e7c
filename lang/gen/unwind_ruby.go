package gen

import (
	"github.com/cilium/ebpf/asm"
)

// The numbers of a layout of Ruby.
const (
	rbWay     = iota // how the thread is found
	rbStorage        // where the storage of a thread has its execution context
	rbStep           // bytes of an entry of the table of storages
	rbFrame          // size of a frame
	rbThreads        // of the virtual machine: the list of threads
	rbNode           // of a thread: its node in the list
	rbID             // of a thread: what pthread_self() returns
	rbContext        // of a thread: its execution context
)

// The ways to find the execution context of a thread, as in package ruby.
const (
	rubyFixed  = 1 + iota // it is at pthread_self() - rbStorage
	rubyModule            // in the storage of a module, whose number is at the head
	rubyList              // in the list of threads of the virtual machine that is at the head
)

// The flags of a frame: vm_core.h, enum vm_frame_env_flags.
const (
	rubyKinds   = 0x7fff0001
	rubyCFunc   = 0x55550001
	rubyIFunc   = 0x66660001
	rubyDummy   = 0x79990001
	rubyFinish  = 0x20 // the last frame of a call of the evaluator
	rubyBMethod = 0x40 // a block that is a method
	rubyLocal   = 2    // the environment is that of a method
	rubyLevels  = 8    // of blocks, up to the method that they are in
)

// A rubyCode is the code of Ruby in makeInterpreter.
type rubyCode struct {
	*interpreterCode
	found label // r9 is an execution context
}

// begin finds the execution context of the thread, or begins the search for the thread. r8 is the
// bias.
//
//	switch (l->way) {
//	case FIXED:
//		context = *(u64 *)(w->in_self - l->storage);
//	case MODULE:
//		module = *(u64 *)(l->head + w->bias);
//		if (module - 1 >= 4096) goto no_thread;
//		storage = ((u64 *)w->in_self)[1][module * l->step];
//		if (storage + 1 < 2) goto no_thread;             // this thread has none
//		context = *(u64 *)(storage + l->storage);
//	case LIST:
//		list = *(u64 *)(l->head + w->bias) + l->threads;
//		w->in_of = list; w->in_at = list->next; w->in_state = SEARCH;
//		return AGAIN;
//	}
//	found: if (!context) goto no_thread;
//	w->in_of = context->stack + 8 * context->size;
//	w->in_at = context->frame; w->in_state = READY;
//	return AGAIN;
func (b *rubyCode) begin() {
	const mostModules = 4096
	fixed, list := b.label(), b.label()
	b.number(asm.R9, rbWay)
	b.ifImm(asm.JEq, asm.R9, rubyFixed, fixed, asm.R1)
	b.load(asm.R3, asm.R7, inHead, 8, false)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.word()
	b.ifImm(asm.JEq, asm.R9, rubyList, list, asm.R2)
	b.mov(asm.R9, asm.R1)
	b.mov(asm.R2, asm.R1)
	b.add(asm.Sub.Imm(asm.R2, 1))
	b.ifImm(asm.JGE, asm.R2, mostModules, b.noThread, asm.R3)
	b.load(asm.R3, asm.R6, walkInSelf, 8, false)
	b.add(asm.Add.Imm(asm.R3, 8))
	b.word()
	b.number(asm.R3, rbStep)
	b.alu(asm.Mul, asm.R3, asm.R9)
	b.alu(asm.Add, asm.R3, asm.R1)
	b.word()
	b.mov(asm.R3, asm.R1)
	b.add(asm.Add.Imm(asm.R1, 1))
	b.ifImm(asm.JLT, asm.R1, 2, b.noThread, asm.R2)
	b.number(asm.R2, rbStorage)
	b.alu(asm.Add, asm.R3, asm.R2)
	b.word()
	b.mov(asm.R9, asm.R1)
	b.jump(b.found)
	b.bind(fixed)
	b.load(asm.R3, asm.R6, walkInSelf, 8, false)
	b.number(asm.R2, rbStorage)
	b.alu(asm.Sub, asm.R3, asm.R2)
	b.word()
	b.mov(asm.R9, asm.R1)
	b.bind(b.found)
	b.ifImm(asm.JEq, asm.R9, 0, b.noThread, asm.R1)
	b.mov(asm.R3, asm.R9)
	b.userWords(16, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.load(asm.R2, asm.R6, walkTemp+8, 8, false)
	b.add(asm.LSh.Imm(asm.R2, 3))
	b.alu(asm.Add, asm.R1, asm.R2)
	b.store(asm.R6, walkInOf, asm.R1, 8)
	b.lift(asm.R3, asm.R9, 16)
	b.word()
	b.store(asm.R6, walkInAt, asm.R1, 8)
	b.storeImm(asm.R6, walkInState, interpreterReady, 8, asm.R1)
	b.result(interpreterAgain)
	b.bind(list)
	b.ifImm(asm.JEq, asm.R1, 0, b.noThread, asm.R2)
	b.number(asm.R3, rbThreads)
	b.alu(asm.Add, asm.R3, asm.R1)
	b.store(asm.R6, walkInOf, asm.R3, 8)
	b.word()
	b.store(asm.R6, walkInAt, asm.R1, 8)
	b.storeImm(asm.R6, walkInState, interpreterSearch, 8, asm.R1)
	b.result(interpreterAgain)
}

// search looks at the thread with the node r9.
//
//	if (!--w->in_left) goto many;
//	if (!node || node == w->in_of) goto no_thread;
//	thread = node - l->node;
//	if (thread->id != w->in_self) { w->in_at = node->next; return AGAIN; }
//	context = thread->context;
//	goto found;
func (b *rubyCode) search() {
	other := b.label()
	b.load(asm.R1, asm.R6, walkInLeft, 8, false)
	b.add(asm.Sub.Imm(asm.R1, 1))
	b.store(asm.R6, walkInLeft, asm.R1, 8)
	b.ifImm(asm.JEq, asm.R1, 0, b.many, asm.R2)
	b.ifImm(asm.JEq, asm.R9, 0, b.noThread, asm.R2)
	b.load(asm.R1, asm.R6, walkInOf, 8, false)
	b.ifReg(asm.JEq, asm.R1, asm.R9, b.noThread)
	b.mov(asm.R8, asm.R9)
	b.number(asm.R1, rbNode)
	b.alu(asm.Sub, asm.R8, asm.R1)
	b.member(asm.R8, rbID)
	b.load(asm.R2, asm.R6, walkInSelf, 8, false)
	b.ifReg(asm.JNE, asm.R1, asm.R2, other)
	b.member(asm.R8, rbContext)
	b.mov(asm.R9, asm.R1)
	b.jump(b.found)
	b.bind(other)
	b.mov(asm.R3, asm.R9)
	b.word()
	b.store(asm.R6, walkInAt, asm.R1, 8)
	b.result(interpreterAgain)
}

// The places of what is read of a frame of Ruby, in the function's stack.
const (
	rubyFramePlace = -112 // pc, stack pointer, code, self, environment
	rubyEnvPlace   = -136 // method, environment of the block around, flags
)

// frame stores the frame r9, if it is one of a function that has a name.
//
//	if (frame >= w->in_of) goto leave;       // the end of the stack
//	pc, _, code, _, ep = *frame;
//	method, around, flags = ep[-2], ep[-1], ep[0];
//	w->in_at = frame + l->frame;
//	if (flags & KINDS is CFUNC, IFUNC or DUMMY || !pc || !code) goto skip; // C: frames of its own
//	at = pc >> 3 & INSTRUCTIONS;             // the reader subtracts where the code begins
//	if (code >= MOST_ADDRESS || code & 7) goto unreadable;
//	store the frame and report it with its method, which is that of the outermost environment
//	w->in_got = 1;
//	skip: if (flags & FINISH) goto leave;
//	return AGAIN;
func (b *rubyCode) frame() {
	skip := b.label()
	b.load(asm.R1, asm.R6, walkInOf, 8, false)
	b.ifReg(asm.JGE, asm.R9, asm.R1, b.leave)
	b.mov(asm.R3, asm.R9)
	b.userPlace(rubyFramePlace, 40)
	b.load(asm.R3, asm.R10, rubyFramePlace+32, 8, false)
	b.add(asm.Sub.Imm(asm.R3, 16))
	b.userPlace(rubyEnvPlace, 24)
	b.number(asm.R1, rbFrame)
	b.alu(asm.Add, asm.R1, asm.R9)
	b.store(asm.R6, walkInAt, asm.R1, 8)
	b.load(asm.R8, asm.R10, rubyEnvPlace+16, 8, false)
	b.mov(asm.R1, asm.R8)
	b.add(asm.And.Imm(asm.R1, rubyKinds))
	b.ifImm(asm.JEq, asm.R1, rubyCFunc, skip, asm.R2)
	b.ifImm(asm.JEq, asm.R1, rubyIFunc, skip, asm.R2)
	b.ifImm(asm.JEq, asm.R1, rubyDummy, skip, asm.R2)
	b.load(asm.R1, asm.R10, rubyFramePlace, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, skip, asm.R2)
	b.add(asm.RSh.Imm(asm.R1, 3))
	b.add(asm.And.Imm(asm.R1, unknownInstruction))
	b.load(asm.R2, asm.R10, rubyFramePlace+16, 8, false)
	b.ifImm(asm.JEq, asm.R2, 0, skip, asm.R3)
	b.movImm(asm.R3, frameMostAddress)
	b.ifReg(asm.JGE, asm.R2, asm.R3, b.unreadable)
	b.mov(asm.R3, asm.R2)
	b.add(asm.And.Imm(asm.R3, 7))
	b.ifImm(asm.JNE, asm.R3, 0, b.unreadable, asm.R4)
	b.store(asm.R10, codePlace, asm.R2, 8)
	b.storeFrame(b.method)
	b.storeImm(asm.R6, walkInGot, 1, 8, asm.R1)
	b.bind(skip)
	b.add(asm.And.Imm(asm.R8, rubyFinish))
	b.ifImm(asm.JNE, asm.R8, 0, b.leave, asm.R1)
	b.result(interpreterAgain)
}

// method leaves the method of the frame in r1; 0: it is not known. Blocks have it in one of the
// environments around them.
//
//	for (i = 0; i < LEVELS; i++) {
//		if (flags & LOCAL || flags & BMETHOD && method) return method;
//		method, around, flags = around[-2], around[-1], around[0]; // or return 0
//	}
//	return 0;
func (b *rubyCode) method() {
	got, none, done := b.label(), b.label(), b.label()
	for range rubyLevels {
		next := b.label()
		b.load(asm.R2, asm.R10, rubyEnvPlace+16, 8, false)
		b.load(asm.R1, asm.R10, rubyEnvPlace, 8, false)
		b.mov(asm.R3, asm.R2)
		b.add(asm.And.Imm(asm.R3, rubyLocal))
		b.ifImm(asm.JNE, asm.R3, 0, got, asm.R4)
		b.add(asm.And.Imm(asm.R2, rubyBMethod))
		b.ifImm(asm.JEq, asm.R2, 0, next, asm.R4)
		b.ifImm(asm.JNE, asm.R1, 0, got, asm.R4)
		b.bind(next)
		b.load(asm.R3, asm.R10, rubyEnvPlace+8, 8, false)
		b.add(asm.And.Imm(asm.R3, -4))
		b.add(asm.Sub.Imm(asm.R3, 16))
		b.lift(asm.R1, asm.R10, rubyEnvPlace)
		b.movImm(asm.R2, 24)
		b.call(asm.FnProbeReadUser)
		b.ifImm(asm.JNE, asm.R0, 0, none, asm.R1)
	}
	b.bind(none)
	b.movImm(asm.R1, 0)
	b.jump(done)
	b.bind(got)
	b.bind(done)
}
