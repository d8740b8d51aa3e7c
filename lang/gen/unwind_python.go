package gen

import (
	"github.com/cilium/ebpf/asm"
)

// The numbers of a layout of CPython: how frames belong to calls of the evaluator, and offsets.
const (
	pyLinks = iota
	pyNextInterpreter
	pyFirst
	pyNext
	pyID
	pyFrame
	pyInFrame
	pyCode
	pyBack
	pyInstruction
	pyOwner
	pyShift
	pyStart
)

// Links of a layout, as in package python.
const (
	pythonObjects = 1 + iota
	pythonEntries
	pythonShims
)

const (
	pythonFirstShim = 3         // the least owner of a frame without code
	pythonNoStruct  = 1<<32 - 1 // of pyInFrame: threads have their frame themselves
)

// A pythonCode is the code of CPython in makeInterpreter.
type pythonCode struct {
	*interpreterCode
	interpreter label // r1 is an interpreter
}

// begin begins the search for the thread with the first interpreter. r8 is the bias.
//
//	interpreter = *(u64 *)(l->head + w->bias);
//	interpreter: if (!interpreter) goto no_thread;
//	w->in_of = interpreter; w->in_at = interpreter->first;
//	w->in_state = SEARCH;
//	return AGAIN;
func (b *pythonCode) begin() {
	b.load(asm.R3, asm.R7, inHead, 8, false)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.word()
	b.bind(b.interpreter)
	b.ifImm(asm.JEq, asm.R1, 0, b.noThread, asm.R2)
	b.store(asm.R6, walkInOf, asm.R1, 8)
	b.mov(asm.R9, asm.R1)
	b.member(asm.R9, pyFirst)
	b.store(asm.R6, walkInAt, asm.R1, 8)
	b.storeImm(asm.R6, walkInState, interpreterSearch, 8, asm.R1)
	b.result(interpreterAgain)
}

// search looks at the thread r9.
//
//	if (!--w->in_left) goto many;
//	if (!thread) { interpreter = w->in_of->next; goto interpreter; }
//	if (thread->id != w->in_self) { w->in_at = thread->next; return AGAIN; }
//	frame = thread->frame;
//	if (l->in_frame != NO_STRUCT) frame = *(u64 *)(frame + l->in_frame);
//	w->in_at = frame; w->in_state = READY;
//	return AGAIN;
func (b *pythonCode) search() {
	some, found, direct := b.label(), b.label(), b.label()
	b.load(asm.R1, asm.R6, walkInLeft, 8, false)
	b.add(asm.Sub.Imm(asm.R1, 1))
	b.store(asm.R6, walkInLeft, asm.R1, 8)
	b.ifImm(asm.JEq, asm.R1, 0, b.many, asm.R2)
	b.ifImm(asm.JNE, asm.R9, 0, some, asm.R2)
	b.load(asm.R9, asm.R6, walkInOf, 8, false)
	b.member(asm.R9, pyNextInterpreter)
	b.jump(b.interpreter)
	b.bind(some)
	b.member(asm.R9, pyID)
	b.load(asm.R2, asm.R6, walkInSelf, 8, false)
	b.ifReg(asm.JEq, asm.R1, asm.R2, found)
	b.member(asm.R9, pyNext)
	b.store(asm.R6, walkInAt, asm.R1, 8)
	b.result(interpreterAgain)
	b.bind(found)
	b.member(asm.R9, pyFrame)
	b.number(asm.R2, pyInFrame)
	b.movImm(asm.R3, pythonNoStruct)
	b.ifReg(asm.JEq, asm.R2, asm.R3, direct)
	b.mov(asm.R9, asm.R1)
	b.member(asm.R9, pyInFrame)
	b.bind(direct)
	b.store(asm.R6, walkInAt, asm.R1, 8)
	b.storeImm(asm.R6, walkInState, interpreterReady, 8, asm.R1)
	b.result(interpreterAgain)
}

// frame stores the frame r9, if it has code.
//
//	if (!f) return KEEP;
//	owner = l->links == OBJECTS ? 0 : f->owner;
//	back = f->back;
//	w->in_at = back;
//	if (l->links == SHIMS && owner >= FIRST_SHIM) goto leave; // the call ends here
//	code = f->code & ~7;
//	if (!code || code >= MOST_ADDRESS) goto unreadable;
//	if (l->links == OBJECTS) at = (s64)*(int *)f->instruction >> l->shift;
//	else at = (f->instruction - code - l->start) >> 1;
//	if (at > UNKNOWN) at = UNKNOWN;
//	store the frame and report the code object
//	if (l->links == OBJECTS || l->links == ENTRIES && owner) goto taken;
//	w->in_got = 1;
//	return AGAIN;
func (b *pythonCode) frame() {
	const owner = -16
	owned, real, known, object, counted := b.label(), b.label(), b.label(), b.label(), b.label()
	b.ifImm(asm.JEq, asm.R9, 0, b.keep, asm.R1)
	b.storeImm(asm.R10, owner, 0, 8, asm.R1)
	b.number(asm.R8, pyLinks)
	b.ifImm(asm.JEq, asm.R8, pythonObjects, owned, asm.R1)
	b.number(asm.R3, pyOwner)
	b.alu(asm.Add, asm.R3, asm.R9)
	b.userWords(1, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 1, false)
	b.store(asm.R10, owner, asm.R1, 8)
	b.bind(owned)
	b.member(asm.R9, pyBack)
	b.store(asm.R6, walkInAt, asm.R1, 8)
	b.ifImm(asm.JNE, asm.R8, pythonShims, real, asm.R1)
	b.load(asm.R1, asm.R10, owner, 8, false)
	b.ifImm(asm.JLT, asm.R1, pythonFirstShim, real, asm.R2)
	b.jump(b.leave)
	b.bind(real)
	b.member(asm.R9, pyCode)
	b.add(asm.And.Imm(asm.R1, -8))
	b.ifImm(asm.JEq, asm.R1, 0, b.unreadable, asm.R2)
	b.movImm(asm.R2, frameMostAddress)
	b.ifReg(asm.JGE, asm.R1, asm.R2, b.unreadable)
	b.store(asm.R10, codePlace, asm.R1, 8)
	b.ifImm(asm.JEq, asm.R8, pythonObjects, object, asm.R2)
	b.member(asm.R9, pyInstruction)
	b.load(asm.R2, asm.R10, codePlace, 8, false)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.number(asm.R2, pyStart)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.add(asm.RSh.Imm(asm.R1, 1))
	b.jump(counted)
	b.bind(object)
	b.number(asm.R3, pyInstruction)
	b.alu(asm.Add, asm.R3, asm.R9)
	b.userWords(4, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 4, true)
	b.number(asm.R2, pyShift)
	b.add(asm.And.Imm(asm.R2, 1))
	b.alu(asm.ArSh, asm.R1, asm.R2)
	b.bind(counted)
	b.ifImm(asm.JLT, asm.R1, unknownInstruction, known, asm.R2)
	b.movImm(asm.R1, unknownInstruction)
	b.bind(known)
	b.storeFrame(func() { b.movImm(asm.R1, 0) })
	b.ifImm(asm.JEq, asm.R8, pythonObjects, b.taken, asm.R1)
	last := b.label()
	b.storeImm(asm.R6, walkInGot, 1, 8, asm.R1)
	b.ifImm(asm.JNE, asm.R8, pythonEntries, last, asm.R1)
	b.load(asm.R1, asm.R10, owner, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, b.taken, asm.R2)
	b.bind(last)
	b.result(interpreterAgain)
}
