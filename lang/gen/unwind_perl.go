package gen

import (
	"github.com/cilium/ebpf/asm"
)

// The numbers of a layout of Perl.
const (
	plWay     = iota // how the interpreter of the thread is found
	plSlot           // of a thread: where its values by key are
	plOp             // of an interpreter: the operation that runs
	plCOP            // its statement (COP)
	plInfo           // its stack of contexts (PERL_SI)
	plType           // of a stack: why it was begun
	plTop            // of a stack: the index of its last complete sub; 0: it has none
	plContext        // size of a context
	plSub            // of the context of a sub or a format: its code (CV)
	plEval           // of the context of an eval: the same; code 0: the eval is a block
)

// The ways to find the interpreter of a thread, as in package perl.
const (
	perlKey     = 1 + iota // the number at the head is a key of glibc
	perlMuslKey            // of musl
	perlGlobals            // its members are variables from the head on
)

// Offsets in structs, the same in all versions.
const (
	perlContexts     = 8  // of a stack: its contexts
	perlBefore       = 16 // the stack below
	perlIndex        = 32 // the index of its last context
	perlInfoSize     = 48
	perlOldCOP       = 16 // of a context: the statement of its caller
	perlReturn       = 48 // of the context of a sub: where it returns to; 0: to C
	perlAddress      = 16 // of an operation: the function that runs it
	perlLine         = 36 // of a statement
	perlFlags        = 92 // of code: its flags
	perlMostContexts = 1 << 20
)

// The lowest bits of the first byte of a context: cop.h, CXt_NULL ...
const (
	perlTypes     = 15
	perlBlockSort = 0
	perlSubType   = 9
	perlFormat    = 10
	perlEvalType  = 11
	perlPattern   = 0x40 // of a sub: code in a regular expression
)

// Reasons for which a stack was begun: PERLSI_SORT and PERLSI_MULTICALL.
const (
	perlSort      = 3
	perlMultiCall = 10
)

// perlInC is the flag of code that is a function of C.
const perlInC = 8

// What the method of a frame of Perl is, in its lowest byte: the code object is a statement. The
// line of it follows. As in package perl.
const (
	perlMain  = 1 + iota // in no sub
	perlEvals            // in code that was evaluated or required
)

// walkInCOP is the statement that runs in the next frame of Perl, which looks at no threads.
const walkInCOP = walkInLeft

// The places of what is read, in the function's stack.
const (
	perlInfoPlace    = -120 // a stack of contexts, then 24 bytes of a statement
	perlContextPlace = -144 // the first members of a context
	perlMethodPlace  = -152
	perlLastPlace    = -160 // 1: the frame is the last one of this call
)

// A perlCode is the code of Perl in makeInterpreter.
type perlCode struct{ *interpreterCode }

// begin finds the interpreter of the thread. r8 is the bias.
//
//	switch (l->way) {
//	case KEY:
//		key = *(u32 *)(l->head + w->bias);
//		if (key >= 32) goto no_thread;           // glibc has others elsewhere
//		p = *(u64 *)(w->in_self + l->slot + 16 * key);
//	case MUSL_KEY:
//		if (key >= 128) goto no_thread;
//		p = (*(u64 **)(w->in_self + l->slot))[key];
//	case GLOBALS:
//		p = l->head + w->bias;
//	}
//	found: if (!p) goto no_thread;
//	w->in_cop = p->cop; w->in_of = info = p->info;
//	if (!info) goto no_thread;
//	n = info->index + 1;
//	if (n >= MOST_CONTEXTS) goto unreadable;
//	// between two comparisons of a sort, or two calls of a block by a function of C
//	if (!p->op && n == 1 && (info->type == SORT || info->type == MULTICALL)) {
//		w->in_cop = info->contexts[0].cop;
//		n = 0;
//	}
//	w->in_at = n; w->in_state = READY;
//	return AGAIN;
func (b *perlCode) begin() {
	const keys, muslKeys = 32, 128
	musl, globals, found := b.label(), b.label(), b.label()
	b.number(asm.R9, plWay)
	b.load(asm.R3, asm.R7, inHead, 8, false)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.ifImm(asm.JEq, asm.R9, perlGlobals, globals, asm.R1)
	b.userWords(4, b.unreadable)
	b.load(asm.R8, asm.R6, walkTemp, 4, false)
	b.load(asm.R3, asm.R6, walkInSelf, 8, false)
	b.number(asm.R1, plSlot)
	b.alu(asm.Add, asm.R3, asm.R1)
	b.ifImm(asm.JEq, asm.R9, perlMuslKey, musl, asm.R1)
	b.ifImm(asm.JGE, asm.R8, keys, b.noThread, asm.R1)
	b.add(asm.LSh.Imm(asm.R8, 4))
	b.alu(asm.Add, asm.R3, asm.R8)
	b.word()
	b.mov(asm.R9, asm.R1)
	b.jump(found)
	b.bind(musl)
	b.ifImm(asm.JGE, asm.R8, muslKeys, b.noThread, asm.R1)
	b.word()
	b.ifImm(asm.JEq, asm.R1, 0, b.noThread, asm.R2)
	b.add(asm.LSh.Imm(asm.R8, 3))
	b.mov(asm.R3, asm.R1)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.word()
	b.mov(asm.R9, asm.R1)
	b.jump(found)
	b.bind(globals)
	b.mov(asm.R9, asm.R3)
	b.bind(found)
	b.findContexts()
}

// findContexts finds the contexts of the interpreter r9; see begin.
func (b *perlCode) findContexts() {
	held, ready := b.label(), b.label()
	b.ifImm(asm.JEq, asm.R9, 0, b.noThread, asm.R1)
	b.member(asm.R9, plCOP)
	b.store(asm.R6, walkInCOP, asm.R1, 8)
	b.member(asm.R9, plInfo)
	b.ifImm(asm.JEq, asm.R1, 0, b.noThread, asm.R2)
	b.store(asm.R6, walkInOf, asm.R1, 8)
	b.member(asm.R9, plOp)
	b.mov(asm.R8, asm.R1)
	b.load(asm.R9, asm.R6, walkInOf, 8, false)
	b.countContexts()
	b.ifImm(asm.JNE, asm.R8, 0, ready, asm.R1)
	b.load(asm.R1, asm.R6, walkInAt, 8, false)
	b.ifImm(asm.JNE, asm.R1, 1, ready, asm.R2)
	b.number(asm.R3, plType)
	b.alu(asm.Add, asm.R3, asm.R9)
	b.userWords(4, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 4, false)
	b.ifImm(asm.JEq, asm.R1, perlSort, held, asm.R2)
	b.ifImm(asm.JNE, asm.R1, perlMultiCall, ready, asm.R2)
	b.bind(held)
	b.lift(asm.R3, asm.R9, perlContexts)
	b.word()
	b.lift(asm.R3, asm.R1, perlOldCOP)
	b.word()
	b.store(asm.R6, walkInCOP, asm.R1, 8)
	b.storeImm(asm.R6, walkInAt, 0, 8, asm.R1)
	b.bind(ready)
	b.storeImm(asm.R6, walkInState, interpreterReady, 8, asm.R1)
	b.result(interpreterAgain)
}

// countContexts stores how many contexts the stack r9 has in walkInAt.
func (b *perlCode) countContexts() {
	b.lift(asm.R3, asm.R9, perlIndex)
	b.userWords(4, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 4, true)
	b.add(asm.Add.Imm(asm.R1, 1))
	b.ifImm(asm.JGE, asm.R1, perlMostContexts, b.unreadable, asm.R2)
	b.store(asm.R6, walkInAt, asm.R1, 8)
}

// search is not used: the interpreter of a thread is found at once.
func (b *perlCode) search() { b.jump(b.keep) }

// frame looks at the last of r9 contexts.
//
//	info = w->in_of;
//	if (!info) goto keep;                    // the program was stored
//	if (!n) { the stack below, or the program; see below }
//	c = info->contexts + --w->in_at;
//	switch (c->type & TYPES) {
//	case BLOCK_SORT: goto leave;             // of the sub around it; the evaluator runs the block
//	case SUB, FORMAT: code = c->sub; last = !c->return; break;
//	case EVAL: code = c->eval; last = 0; break;
//	default: return AGAIN;                   // a loop or another block
//	}
//	if (l->top && n - 1 > info->top || !code) return AGAIN; // begins or ends
//	if (c->type & PATTERN) return AGAIN;     // its code may not run now
//	if (last && code is a function of C) last = 0; // no call of the evaluator, and no frame
//	else store the frame
//	w->in_cop = c->cop;
//	if (last) goto leave;
//	return AGAIN;
func (b *perlCode) frame() {
	some, skip := b.label(), b.label()
	sub, eval, both := b.label(), b.label(), b.label()
	b.mov(asm.R8, asm.R9)
	b.load(asm.R9, asm.R6, walkInOf, 8, false)
	b.ifImm(asm.JEq, asm.R9, 0, b.keep, asm.R1)
	b.mov(asm.R3, asm.R9)
	b.userPlace(perlInfoPlace, perlInfoSize)
	b.ifImm(asm.JNE, asm.R8, 0, some, asm.R1)
	b.below()
	b.bind(some)
	b.add(asm.Sub.Imm(asm.R8, 1))
	b.store(asm.R6, walkInAt, asm.R8, 8)
	b.number(asm.R9, plContext)
	b.alu(asm.Mul, asm.R9, asm.R8)
	b.load(asm.R1, asm.R10, perlInfoPlace+perlContexts, 8, false)
	b.alu(asm.Add, asm.R9, asm.R1)
	b.mov(asm.R3, asm.R9)
	b.userPlace(perlContextPlace, perlOldCOP+8)
	b.storeImm(asm.R10, perlLastPlace, 0, 8, asm.R1)
	b.load(asm.R1, asm.R10, perlContextPlace, 1, false)
	b.add(asm.And.Imm(asm.R1, perlTypes))
	b.ifImm(asm.JEq, asm.R1, perlEvalType, eval, asm.R2)
	b.ifImm(asm.JEq, asm.R1, perlSubType, sub, asm.R2)
	b.ifImm(asm.JEq, asm.R1, perlFormat, sub, asm.R2)
	b.ifImm(asm.JNE, asm.R1, perlBlockSort, skip, asm.R2)
	b.jump(b.leave)

	b.bind(eval)
	b.complete(skip)
	b.member(asm.R9, plEval)
	b.ifImm(asm.JEq, asm.R1, 0, skip, asm.R2)
	b.movImm(asm.R8, perlEvals)
	b.readCOP()
	b.storeStatement(both)
	b.jump(both)

	b.bind(sub)
	b.complete(skip)
	b.storeSub(skip)

	b.bind(both)
	b.nextCOP()
	b.load(asm.R1, asm.R10, perlLastPlace, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, b.leave, asm.R2)
	b.bind(skip)
	b.result(interpreterAgain)
}

// nextCOP continues with the statement of the caller.
func (b *perlCode) nextCOP() {
	b.load(asm.R1, asm.R10, perlContextPlace+perlOldCOP, 8, false)
	b.store(asm.R6, walkInCOP, asm.R1, 8)
}

// complete goes to skip if the context with the index r8 of the stack at perlInfoPlace was only
// begun, or has ended.
func (b *perlCode) complete(skip label) {
	known := b.label()
	b.number(asm.R1, plTop)
	b.ifImm(asm.JEq, asm.R1, 0, known, asm.R2)
	const top = 40
	b.load(asm.R1, asm.R10, perlInfoPlace+top, 4, true)
	b.ifReg(asm.JSGT, asm.R8, asm.R1, skip)
	b.bind(known)
}

// below continues with the stack below the one at perlInfoPlace. Below the first one is the
// program.
//
//	before = info->before;
//	if (before) { w->in_of = before; w->in_at = before->index + 1; return AGAIN; }
//	w->in_of = 0;
//	store the statement as that of the program, or goto leave
//	goto taken;
func (b *perlCode) below() {
	program := b.label()
	b.load(asm.R9, asm.R10, perlInfoPlace+perlBefore, 8, false)
	b.store(asm.R6, walkInOf, asm.R9, 8)
	b.ifImm(asm.JEq, asm.R9, 0, program, asm.R1)
	b.countContexts()
	b.result(interpreterAgain)
	b.bind(program)
	b.movImm(asm.R8, perlMain)
	b.readCOP()
	b.storeStatement(b.leave)
	b.jump(b.taken)
}

// readCOP reads the statement that runs in this frame to perlInfoPlace, from the address of its
// function on; zeros: there is none.
func (b *perlCode) readCOP() {
	none, done := b.label(), b.label()
	b.load(asm.R3, asm.R6, walkInCOP, 8, false)
	b.ifImm(asm.JEq, asm.R3, 0, none, asm.R1)
	b.add(asm.Add.Imm(asm.R3, perlAddress))
	b.userPlace(perlInfoPlace, perlLine+4-perlAddress)
	b.jump(done)
	b.bind(none)
	b.storeImm(asm.R10, perlInfoPlace, 0, 8, asm.R1)
	b.storeImm(asm.R10, perlInfoPlace+16, 0, 8, asm.R1)
	b.bind(done)
}

// storeStatement stores the frame of a statement that readCOP has read, in no sub. r8 is what it is
// in. While the compiler runs there is none, and it goes to compiles.
func (b *perlCode) storeStatement(compiles label) {
	b.load(asm.R1, asm.R10, perlInfoPlace, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, compiles, asm.R2)
	b.load(asm.R1, asm.R10, perlInfoPlace+perlLine-perlAddress, 4, false)
	b.add(asm.LSh.Imm(asm.R1, 8))
	b.alu(asm.Or, asm.R1, asm.R8)
	b.store(asm.R10, perlMethodPlace, asm.R1, 8)
	b.load(asm.R1, asm.R6, walkInCOP, 8, false)
	b.storeAtLine()
}

// storeSub stores the frame of the sub whose context, with the first members at perlContextPlace,
// is r9. It goes to skip if it is none.
func (b *perlCode) storeSub(skip label) {
	returns, real, done := b.label(), b.label(), b.label()
	b.load(asm.R1, asm.R10, perlContextPlace, 1, false)
	b.add(asm.And.Imm(asm.R1, perlPattern|perlTypes))
	b.ifImm(asm.JEq, asm.R1, perlPattern|perlSubType, skip, asm.R2)
	b.lift(asm.R3, asm.R9, perlReturn)
	b.word()
	b.ifImm(asm.JNE, asm.R1, 0, returns, asm.R2)
	b.storeImm(asm.R10, perlLastPlace, 1, 8, asm.R1)
	b.bind(returns)
	b.member(asm.R9, plSub)
	b.ifImm(asm.JEq, asm.R1, 0, skip, asm.R2)
	b.mov(asm.R9, asm.R1)
	b.load(asm.R1, asm.R10, perlLastPlace, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, real, asm.R2)
	b.mov(asm.R3, asm.R9) // is it a function of C that compares?
	b.word()
	b.lift(asm.R3, asm.R1, perlFlags)
	b.userWords(4, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 4, false)
	b.add(asm.And.Imm(asm.R1, perlInC))
	b.ifImm(asm.JEq, asm.R1, 0, real, asm.R2)
	b.storeImm(asm.R10, perlLastPlace, 0, 8, asm.R1)
	b.jump(done)
	b.bind(real)
	b.readCOP()
	b.storeImm(asm.R10, perlMethodPlace, 0, 8, asm.R1)
	b.mov(asm.R1, asm.R9)
	b.storeAtLine()
	b.bind(done)
}

// storeAtLine stores the frame of the code object r1 with the line of the statement at
// perlInfoPlace and the method at perlMethodPlace.
//
//	if (code >= MOST_ADDRESS || code & 7) goto unreadable;
//	store the frame and report it with its method
//	w->in_got = 1;
func (b *perlCode) storeAtLine() {
	known, unknown := b.label(), b.label()
	b.movImm(asm.R2, frameMostAddress)
	b.ifReg(asm.JGE, asm.R1, asm.R2, b.unreadable)
	b.mov(asm.R2, asm.R1)
	b.add(asm.And.Imm(asm.R2, 7))
	b.ifImm(asm.JNE, asm.R2, 0, b.unreadable, asm.R3)
	b.store(asm.R10, codePlace, asm.R1, 8)
	b.load(asm.R1, asm.R10, perlInfoPlace+perlLine-perlAddress, 4, false)
	b.ifImm(asm.JEq, asm.R1, 0, unknown, asm.R2)
	b.ifImm(asm.JLT, asm.R1, unknownInstruction, known, asm.R2)
	b.bind(unknown)
	b.movImm(asm.R1, unknownInstruction)
	b.bind(known)
	b.storeFrame(func() { b.load(asm.R1, asm.R10, perlMethodPlace, 8, false) })
	b.storeImm(asm.R6, walkInGot, 1, 8, asm.R1)
}
