package gen

import (
	"github.com/cilium/ebpf/asm"
)

// This file generates the replacement of frames of CPython's evaluator by the frames of Python that
// it evaluates. The frames are read while the thread is stopped at the sample, since they change
// afterwards; names are read later. A frame of Python is a number that is no address: python.Word.

// Links of a layout in MapPython, as in package python.
const (
	PythonNoTable = iota
	PythonObjects
	PythonEntries
	PythonShims
)

// Reasons for which a stack has no frames of Python, as in package python.
const (
	pythonWhyNoTable = 1 + iota
	pythonWhyNoThread
	pythonWhyThreads
	pythonWhyUnreadable
)

// The bits of a frame of Python, as in package python.
const (
	pythonTag         = 62
	pythonCodeBits    = 44
	pythonUnknown     = 1<<18 - 1 // the instruction is not known
	pythonMostAddress = 1 << 47
	pythonFirstShim   = 3 // the least owner of a frame without code
)

// PythonNoStruct is PythonLayout.InFrame of versions whose threads have their frame themselves.
const PythonNoStruct = 1<<32 - 1

// A PythonLayout is a value of MapPython. The addresses are those of the file.
type PythonLayout struct {
	From, Size, Head       uint64
	Links                  uint32
	NextInterpreter, First uint32
	Next, ID               uint32
	Frame, InFrame         uint32
	Code, Back             uint32
	Instruction, Owner     uint32
	Shift, Start           uint32
	_                      uint32
}

// Offsets in a PythonLayout.
const (
	pyFrom            = 0
	pySize            = 8
	pyHead            = 16
	pyLinks           = 24
	pyNextInterpreter = 28
	pyFirst           = 32
	pyNext            = 36
	pyID              = 40
	pyFrame           = 44
	pyInFrame         = 48
	pyCode            = 52
	pyBack            = 56
	pyInstruction     = 60
	pyOwner           = 64
	pyShift           = 68
	pyStart           = 72
	pythonLayoutSize  = 80
)

const (
	// PythonSeen is the size of a record of MapWake about a code object.
	PythonSeen = 16
	// pythonSeenMost is how many code objects are known to have been reported.
	pythonSeenMost = 4096
	// PythonsMost is how many files of interpreters there may be.
	PythonsMost = 256
	// pythonThreads is how many threads of a process are looked at to find the current one.
	pythonThreads = 1024
)

// How far the search for frames of Python in a walk is.
const (
	pythonBegin  = iota
	pythonSearch // walkPyAt is a thread, walkPyOf its interpreter
	pythonReady  // walkPyAt is a frame
	pythonOver   // there are none
)

// Results of the function python.
const (
	pythonKeep  = iota // the frame is one of C
	pythonAgain        // another iteration goes on
	pythonTaken        // frames of Python are stored in its place
	pythonFull         // the stack is full
)

// selfAt returns the offset of fsbase in a task_struct, which pthread_self() returns in glibc and
// musl; !ok: it is not known, and there are no frames of Python.
func (b userWalk) selfAt() (off int, ok bool) {
	thread, err := b.offset("task_struct", "thread")
	if err != nil {
		return 0, false
	}
	base, err := b.offset("thread_struct", "fsbase")
	return thread + base, err == nil
}

// beginPython initializes the part of the state at r6 that is about Python. The task is at r8.
func (b userWalk) beginPython() {
	off, ok := b.selfAt()
	if !ok {
		return
	}
	b.load(asm.R1, asm.R8, off, 8, false)
	b.store(asm.R6, walkPySelf, asm.R1, 8)
	b.storeImm(asm.R6, walkPyState, pythonBegin, 8, asm.R1)
	b.storeImm(asm.R6, walkPyLeft, pythonThreads, 8, asm.R1)
	b.storeImm(asm.R6, walkPyGot, 0, 8, asm.R1)
}

// replaceByPython replaces the frame at r6 by frames of Python, if it is one of the evaluator:
//
//	if (w->how == PYTHON && !w->kept) {
//		r = python(w);
//		if (r == AGAIN) return 0;        // the next iteration goes on
//		if (r == FULL) goto ended;
//	}
func (b *frameCode) replaceByPython() {
	if _, ok := b.selfAt(); !ok {
		return
	}
	plain, again := b.label(), b.label()
	b.load(asm.R1, asm.R6, walkTable, 8, false)
	b.add(asm.RSh.Imm(asm.R1, 32))
	b.ifImm(asm.JNE, asm.R1, CodePython, plain, asm.R2)
	b.load(asm.R1, asm.R6, walkKept, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, plain, asm.R2)
	b.mov(asm.R1, asm.R6)
	b.callSub(b.function("python", b.makePython))
	b.ifImm(asm.JEq, asm.R0, pythonFull, b.ended, asm.R1)
	b.ifImm(asm.JNE, asm.R0, pythonAgain, plain, asm.R1)
	b.bind(again)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(plain)
}

// A pythonCode is the code of makePython while it is generated.
type pythonCode struct {
	userWalk
	keep, again, taken, full            label
	noTable, noThread, many, unreadable label
	interpreter                         label // r1 is an interpreter
}

// makePython makes the function that stores frames of Python in place of the frame of C of the walk
// at r1. Each call does one step: it looks at one thread, or stores one frame.
//
//	long python(struct walk *w) {
//		l = lookup(pythons, w->table);
//		if (!l || w->look - w->bias - l->from >= l->size) return KEEP;
//		switch (w->py_state) {
//		case BEGIN:  ...             // beginSearch
//		case SEARCH: ...             // searchThread
//		case READY:  ...             // storeFrame
//		}
//		return KEEP;
//	}
func (b userWalk) makePython() {
	l := b.label
	c := &pythonCode{userWalk: b, keep: l(), again: l(), taken: l(), full: l(), noTable: l(),
		noThread: l(), many: l(), unreadable: l(), interpreter: l()}
	search, ready := l(), l()
	b.mov(asm.R6, asm.R1)
	b.load(asm.R1, asm.R6, walkTable, 4, false)
	b.store(asm.R10, -8, asm.R1, 4)
	b.mapPtr(asm.R1, MapPython)
	b.lift(asm.R2, asm.R10, -8)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, c.keep, asm.R1)
	b.mov(asm.R7, asm.R0)
	b.load(asm.R1, asm.R6, walkLook, 8, false)
	b.load(asm.R8, asm.R6, walkBias, 8, false)
	b.alu(asm.Sub, asm.R1, asm.R8)
	b.load(asm.R2, asm.R7, pyFrom, 8, false)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.load(asm.R2, asm.R7, pySize, 8, false)
	b.ifReg(asm.JGE, asm.R1, asm.R2, c.keep)
	b.load(asm.R9, asm.R6, walkPyAt, 8, false)
	b.load(asm.R1, asm.R6, walkPyState, 8, false)
	b.ifImm(asm.JEq, asm.R1, pythonReady, ready, asm.R2)
	b.ifImm(asm.JEq, asm.R1, pythonSearch, search, asm.R2)
	b.ifImm(asm.JNE, asm.R1, pythonBegin, c.keep, asm.R2)
	c.beginSearch()
	b.bind(search)
	c.searchThread()
	b.bind(ready)
	c.storeFrame()
	c.end()
}

// member reads 8 bytes at the address in base plus an offset that the layout at r7 has, into r1.
func (b *pythonCode) member(base asm.Register, off int) {
	b.load(asm.R3, asm.R7, off, 4, false)
	b.alu(asm.Add, asm.R3, base)
	b.userWords(8, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
}

// result returns from the function.
func (b *pythonCode) result(n int64) {
	b.movImm(asm.R0, n)
	b.exit()
}

// beginSearch begins the search for the thread with the first interpreter. r8 is the bias.
//
//	if (l->links == NO_TABLE) goto no_table;
//	interpreter = *(u64 *)(l->head + w->bias);
//	interpreter: if (!interpreter) goto no_thread;
//	w->py_of = interpreter; w->py_at = interpreter->first;
//	w->py_state = SEARCH;
//	return AGAIN;
func (b *pythonCode) beginSearch() {
	b.load(asm.R1, asm.R7, pyLinks, 4, false)
	b.ifImm(asm.JEq, asm.R1, PythonNoTable, b.noTable, asm.R2)
	b.load(asm.R3, asm.R7, pyHead, 8, false)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.userWords(8, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.bind(b.interpreter)
	b.ifImm(asm.JEq, asm.R1, 0, b.noThread, asm.R2)
	b.store(asm.R6, walkPyOf, asm.R1, 8)
	b.mov(asm.R9, asm.R1)
	b.member(asm.R9, pyFirst)
	b.store(asm.R6, walkPyAt, asm.R1, 8)
	b.storeImm(asm.R6, walkPyState, pythonSearch, 8, asm.R1)
	b.result(pythonAgain)
}

// searchThread looks at the thread r9.
//
//	if (!--w->py_left) goto many;
//	if (!thread) { interpreter = w->py_of->next; goto interpreter; }
//	if (thread->id != w->py_self) { w->py_at = thread->next; return AGAIN; }
//	frame = thread->frame;
//	if (l->in_frame != NO_STRUCT) frame = *(u64 *)(frame + l->in_frame);
//	w->py_at = frame; w->py_state = READY;
//	return AGAIN;
func (b *pythonCode) searchThread() {
	some, found, direct := b.label(), b.label(), b.label()
	b.load(asm.R1, asm.R6, walkPyLeft, 8, false)
	b.add(asm.Sub.Imm(asm.R1, 1))
	b.store(asm.R6, walkPyLeft, asm.R1, 8)
	b.ifImm(asm.JEq, asm.R1, 0, b.many, asm.R2)
	b.ifImm(asm.JNE, asm.R9, 0, some, asm.R2)
	b.load(asm.R9, asm.R6, walkPyOf, 8, false)
	b.member(asm.R9, pyNextInterpreter)
	b.jump(b.interpreter)
	b.bind(some)
	b.member(asm.R9, pyID)
	b.load(asm.R2, asm.R6, walkPySelf, 8, false)
	b.ifReg(asm.JEq, asm.R1, asm.R2, found)
	b.member(asm.R9, pyNext)
	b.store(asm.R6, walkPyAt, asm.R1, 8)
	b.result(pythonAgain)
	b.bind(found)
	b.member(asm.R9, pyFrame)
	b.load(asm.R2, asm.R7, pyInFrame, 4, false)
	b.movImm(asm.R3, PythonNoStruct)
	b.ifReg(asm.JEq, asm.R2, asm.R3, direct)
	b.mov(asm.R9, asm.R1)
	b.member(asm.R9, pyInFrame)
	b.bind(direct)
	b.store(asm.R6, walkPyAt, asm.R1, 8)
	b.storeImm(asm.R6, walkPyState, pythonReady, 8, asm.R1)
	b.result(pythonAgain)
}

// storeFrame stores the frame r9, if it has code.
//
//	if (!f) return KEEP;
//	owner = l->links == OBJECTS ? 0 : f->owner;
//	back = f->back;
//	w->py_at = back;
//	if (l->links == SHIMS && owner >= FIRST_SHIM) { // the call of the evaluator ends here
//		if (!w->py_got) return KEEP;
//		goto taken;
//	}
//	code = f->code & ~7;
//	if (!code || code >= MOST_ADDRESS) goto unreadable;
//	if (l->links == OBJECTS) at = (s64)*(int *)f->instruction >> l->shift;
//	else at = (f->instruction - code - l->start) >> 1;
//	if (at > UNKNOWN) at = UNKNOWN;
//	store 1 << TAG | at << CODE_BITS | code >> 3;
//	report the code object, if it is new
//	if (l->links == OBJECTS || l->links == ENTRIES && owner) goto taken;
//	w->py_got = 1;
//	return AGAIN;
//	taken: w->py_got = 0; w->kept = 1; return TAKEN;
func (b *pythonCode) storeFrame() {
	const owner, code, word = -16, -24, -32
	owned, real, known, object, counted := b.label(), b.label(), b.label(), b.label(), b.label()
	b.ifImm(asm.JEq, asm.R9, 0, b.keep, asm.R1)
	b.storeImm(asm.R10, owner, 0, 8, asm.R1)
	b.load(asm.R8, asm.R7, pyLinks, 4, false)
	b.ifImm(asm.JEq, asm.R8, PythonObjects, owned, asm.R1)
	b.load(asm.R3, asm.R7, pyOwner, 4, false)
	b.alu(asm.Add, asm.R3, asm.R9)
	b.userWords(1, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 1, false)
	b.store(asm.R10, owner, asm.R1, 8)
	b.bind(owned)
	b.member(asm.R9, pyBack)
	b.store(asm.R6, walkPyAt, asm.R1, 8)
	b.ifImm(asm.JNE, asm.R8, PythonShims, real, asm.R1)
	b.load(asm.R1, asm.R10, owner, 8, false)
	b.ifImm(asm.JLT, asm.R1, pythonFirstShim, real, asm.R2)
	b.load(asm.R1, asm.R6, walkPyGot, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, b.keep, asm.R2)
	b.jump(b.taken)
	b.bind(real)
	b.member(asm.R9, pyCode)
	b.add(asm.And.Imm(asm.R1, -8))
	b.ifImm(asm.JEq, asm.R1, 0, b.unreadable, asm.R2)
	b.movImm(asm.R2, pythonMostAddress)
	b.ifReg(asm.JGE, asm.R1, asm.R2, b.unreadable)
	b.store(asm.R10, code, asm.R1, 8)
	b.ifImm(asm.JEq, asm.R8, PythonObjects, object, asm.R2)
	b.member(asm.R9, pyInstruction)
	b.load(asm.R2, asm.R10, code, 8, false)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.load(asm.R2, asm.R7, pyStart, 4, false)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.add(asm.RSh.Imm(asm.R1, 1))
	b.jump(counted)
	b.bind(object)
	b.load(asm.R3, asm.R7, pyInstruction, 4, false)
	b.alu(asm.Add, asm.R3, asm.R9)
	b.userWords(4, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 4, true)
	b.load(asm.R2, asm.R7, pyShift, 4, false)
	b.add(asm.And.Imm(asm.R2, 1))
	b.alu(asm.ArSh, asm.R1, asm.R2)
	b.bind(counted)
	b.ifImm(asm.JLT, asm.R1, pythonUnknown, known, asm.R2)
	b.movImm(asm.R1, pythonUnknown)
	b.bind(known)
	b.add(asm.LSh.Imm(asm.R1, pythonCodeBits))
	b.load(asm.R4, asm.R10, code, 8, false)
	b.add(asm.RSh.Imm(asm.R4, 3))
	b.alu(asm.Or, asm.R4, asm.R1)
	b.store(asm.R10, word, asm.R4, 8)
	b.push()
	b.reportCode(code, word)
	b.ifImm(asm.JEq, asm.R8, PythonObjects, b.taken, asm.R1)
	last := b.label()
	b.storeImm(asm.R6, walkPyGot, 1, 8, asm.R1)
	b.ifImm(asm.JNE, asm.R8, PythonEntries, last, asm.R1)
	b.load(asm.R1, asm.R10, owner, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, b.taken, asm.R2)
	b.bind(last)
	b.result(pythonAgain)
}

// reportCode reports a code object that has no report yet to user space, which reads its name at
// once: the process may end soon. The stack has the address of the code object, and the frame
// without its tag.
//
//	key = {w->mm, code};
//	if (w->pid && !lookup(seen, &key)) {
//		update(seen, &key, &word);               // the oldest one makes space
//		record = {w->pid, word};
//		bpf_ringbuf_output(wake, &record, 16, 0); // if it is full, the name is read later
//	}
func (b *pythonCode) reportCode(code, word int) {
	const key, record = -48, -64
	known := b.label()
	b.load(asm.R1, asm.R6, walkPID, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, known, asm.R2)
	b.store(asm.R10, record, asm.R1, 8)
	b.load(asm.R1, asm.R6, walkMM, 8, false)
	b.store(asm.R10, key, asm.R1, 8)
	b.load(asm.R1, asm.R10, code, 8, false)
	b.store(asm.R10, key+8, asm.R1, 8)
	b.mapPtr(asm.R1, MapSeen)
	b.lift(asm.R2, asm.R10, key)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JNE, asm.R0, 0, known, asm.R1)
	b.mapPtr(asm.R1, MapSeen)
	b.lift(asm.R2, asm.R10, key)
	b.lift(asm.R3, asm.R10, word)
	b.movImm(asm.R4, 0)
	b.call(asm.FnMapUpdateElem)
	b.load(asm.R1, asm.R10, word, 8, false)
	b.store(asm.R10, record+8, asm.R1, 8)
	b.mapPtr(asm.R1, MapWake)
	b.lift(asm.R2, asm.R10, record)
	b.movImm(asm.R3, PythonSeen)
	b.movImm(asm.R4, 0)
	b.call(asm.FnRingbufOutput)
	b.bind(known)
}

// push appends the frame of Python r4, without its tag, to the frames.
func (b *pythonCode) push() {
	b.movImm(asm.R1, 1<<pythonTag)
	b.alu(asm.Or, asm.R4, asm.R1)
	b.append()
}

// append appends r4 to the frames; see keepFrame.
func (b *pythonCode) append() {
	b.load(asm.R1, asm.R6, walkN, 8, false)
	b.load(asm.R2, asm.R6, walkMost, 8, false)
	b.ifReg(asm.JGE, asm.R1, asm.R2, b.full)
	b.ifImm(asm.JGT, asm.R1, int64(b.lay.frames), b.full, asm.R2)
	b.mov(asm.R2, asm.R1)
	b.add(asm.LSh.Imm(asm.R2, 3))
	b.mov(asm.R3, asm.R6)
	b.add(asm.Add.Imm(asm.R3, int32(b.walkFrames())))
	b.alu(asm.Add, asm.R3, asm.R2)
	b.store(asm.R3, 0, asm.R4, 8)
	b.add(asm.Add.Imm(asm.R1, 1))
	b.store(asm.R6, walkN, asm.R1, 8)
}

// end generates the ends of the function. A reason is stored behind the frame of C that it is
// about, which no frame of Python has replaced:
//
//	no_table: why = NO_TABLE;                // and so on
//	w->py_state = OVER;
//	if (!w->py_got) store w->pc as a frame;
//	store 1 << TAG | why << CODE_BITS;
//	goto taken;
func (b *pythonCode) end() {
	why, only := b.label(), b.label()
	for _, one := range [...]struct {
		at label
		is int64
	}{
		{b.noTable, pythonWhyNoTable},
		{b.noThread, pythonWhyNoThread},
		{b.many, pythonWhyThreads},
		{b.unreadable, pythonWhyUnreadable},
	} {
		b.bind(one.at)
		b.movImm(asm.R9, one.is)
		b.jump(why)
	}
	b.bind(why)
	b.storeImm(asm.R6, walkPyState, pythonOver, 8, asm.R1)
	b.load(asm.R1, asm.R6, walkPyGot, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, only, asm.R2)
	b.load(asm.R4, asm.R6, walkPC, 8, false)
	b.append()
	b.bind(only)
	b.mov(asm.R4, asm.R9)
	b.add(asm.LSh.Imm(asm.R4, pythonCodeBits))
	b.push()
	b.bind(b.taken)
	b.storeImm(asm.R6, walkPyGot, 0, 8, asm.R1)
	b.storeImm(asm.R6, walkKept, 1, 8, asm.R1)
	b.result(pythonTaken)
	b.bind(b.keep)
	b.result(pythonKeep)
	b.bind(b.again)
	b.result(pythonAgain)
	b.bind(b.full)
	b.result(pythonFull)
}
