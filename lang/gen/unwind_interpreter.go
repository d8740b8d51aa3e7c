package gen

import (
	"github.com/cilium/ebpf/asm"
)

// This file generates the replacement of frames of an interpreter's evaluator by the frames that it
// evaluates; the files of the languages have what differs. Frames are read while the thread is
// stopped at the sample, since they change afterwards; names are read later. A frame of an
// interpreter is a number that is no address: interp.Word.

// The languages, as in package interp.
const (
	LanguagePython = 1 + iota
	LanguageRuby
	LanguagePerl
	_ // Java, whose code has a walk of its own
	LanguagePHP
	_ // JavaScript, the same
)

// Reasons for which a stack has no frames of an interpreter, as in package interp.
const (
	whyNoTable = 1 + iota
	whyNoThread
	whyThreads
	whyUnreadable
	whyRegexp
)

// The bits of a frame of an interpreter, as in package interp.
const (
	frameTag           = 62
	frameCodeBits      = 44
	unknownInstruction = 1<<18 - 1
	frameMostAddress   = 1 << 47
)

// LayoutNumbers is how many numbers an InterpreterLayout has.
const LayoutNumbers = 15

// An InterpreterLayout is a value of MapInterpreter. The addresses are those of the file.
type InterpreterLayout struct {
	From, Size uint64 // of the evaluator
	// Around and AroundSize are the function that calls the evaluator and does nothing else.
	Around, AroundSize uint64
	Head               uint64 // where the search for the thread begins
	Language           uint32
	// Numbers are those of the language; the first one is 0 if there are no frames.
	Numbers [LayoutNumbers]uint32
}

// Offsets in an InterpreterLayout.
const (
	inFrom                = 0
	inSize                = 8
	inAround              = 16
	inAroundSize          = 24
	inHead                = 32
	inLanguage            = 40
	inNumbers             = 44
	interpreterLayoutSize = 104
)

const (
	// CodeSeen is the size of a record of MapWake about a code object.
	CodeSeen = 24
	// codeSeenMost is how many code objects are known to have been reported.
	codeSeenMost = 4096
	// InterpretersMost is how many files of interpreters there may be.
	InterpretersMost = 256
	// interpreterThreads is how many threads of a process are looked at to find the current one.
	interpreterThreads = 1024
)

// How far the search for frames of an interpreter in a walk is.
const (
	interpreterBegin  = iota
	interpreterSearch // walkInAt is a thread
	interpreterReady  // walkInAt is a frame
	interpreterOver   // there are none
)

// Results of the function interpreter.
const (
	interpreterKeep  = iota // the frame is one of C
	interpreterAgain        // another iteration goes on
	interpreterTaken        // frames of the language are stored in its place
	interpreterFull         // the stack is full
)

// An interpreterCode is the code of makeInterpreter while it is generated.
type interpreterCode struct {
	userWalk
	keep, again, taken, full            label
	noTable, noThread, many, unreadable label
	leave                               label // taken if frames are stored, else keep
}

// A languageCode generates what differs between languages. The layout is at r7, the state at r6.
// Each part ends with a result or a jump to a label of interpreterCode.
type languageCode interface {
	// begin begins the search for the thread. r8 is the bias of the file.
	begin()
	// search looks at the thread r9.
	search()
	// frame stores the frame r9.
	frame()
}

// languages returns the code of the languages that have any here.
func (b *interpreterCode) languages() map[int64]languageCode {
	return map[int64]languageCode{
		LanguagePython: &pythonCode{interpreterCode: b, interpreter: b.label()},
		LanguageRuby:   &rubyCode{interpreterCode: b, found: b.label()},
		LanguagePerl:   &perlCode{b},
		LanguagePHP:    &phpCode{b},
	}
}

// selfAt returns the offset of fsbase in a task_struct, which pthread_self() returns in glibc and
// musl; !ok: it is not known, and there are no frames of interpreters.
func (b userWalk) selfAt() (off int, ok bool) {
	thread, err := b.offset("task_struct", "thread")
	if err != nil {
		return 0, false
	}
	base, err := b.offset("thread_struct", "fsbase")
	return thread + base, err == nil
}

// beginInterpreter initializes the part of the state at r6 that is about interpreters. The task is
// at r8.
func (b userWalk) beginInterpreter() {
	off, ok := b.selfAt()
	if !ok {
		return
	}
	b.load(asm.R1, asm.R8, off, 8, false)
	b.store(asm.R6, walkInSelf, asm.R1, 8)
	b.storeImm(asm.R6, walkInState, interpreterBegin, 8, asm.R1)
	b.storeImm(asm.R6, walkInLeft, interpreterThreads, 8, asm.R1)
	b.storeImm(asm.R6, walkInGot, 0, 8, asm.R1)
	b.storeImm(asm.R6, walkInAfter, 0, 8, asm.R1)
}

// replaceByInterpreted replaces the frame at r6 by frames of a language, if it is one of its
// evaluator:
//
//	if (w->how == INTERPRETER && !w->kept) {
//		r = interpreter(w);
//		if (r == AGAIN) return 0;        // the next iteration goes on
//		if (r == FULL) goto ended;
//	}
func (b *frameCode) replaceByInterpreted() {
	if _, ok := b.selfAt(); !ok {
		return
	}
	plain, again := b.label(), b.label()
	b.load(asm.R1, asm.R6, walkTable, 8, false)
	b.add(asm.RSh.Imm(asm.R1, 32))
	b.ifImm(asm.JNE, asm.R1, CodeInterpreter, plain, asm.R2)
	b.load(asm.R1, asm.R6, walkKept, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, plain, asm.R2)
	b.mov(asm.R1, asm.R6)
	b.callSub(b.function("interpreter", b.makeInterpreter))
	b.ifImm(asm.JEq, asm.R0, interpreterFull, b.ended, asm.R1)
	b.ifImm(asm.JNE, asm.R0, interpreterAgain, plain, asm.R1)
	b.bind(again)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(plain)
}

// makeInterpreter makes the function that stores frames of a language in place of the frame of C of
// the walk at r1. Each call does one step: it looks at one thread, or stores one frame.
//
//	long interpreter(struct walk *w) {
//		l = lookup(interpreters, w->table);
//		if (!l) return KEEP;
//		at = w->look - w->bias;
//		if (at - l->around < l->around_size) {
//			if (w->in_after == w->n) {       // its call of the evaluator was replaced
//				w->kept = 1;
//				return TAKEN;
//			}
//		} else if (at - l->from >= l->size) return KEEP;
//		if (w->in_state == BEGIN && !l->numbers[0]) goto no_table;
//		switch (l->language, w->in_state) {
//		case BEGIN:  ...             // begin of the language
//		case SEARCH: ...             // its search
//		case READY:  ...             // its frame
//		}
//		return KEEP;
//	}
func (b userWalk) makeInterpreter() {
	l := b.label
	c := &interpreterCode{userWalk: b, keep: l(), again: l(), taken: l(), full: l(),
		noTable: l(), noThread: l(), many: l(), unreadable: l(), leave: l()}
	b.mov(asm.R6, asm.R1)
	b.load(asm.R1, asm.R6, walkTable, 4, false)
	b.store(asm.R10, -8, asm.R1, 4)
	b.mapPtr(asm.R1, MapInterpreter)
	b.lift(asm.R2, asm.R10, -8)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, c.keep, asm.R1)
	b.mov(asm.R7, asm.R0)
	c.inEvaluator()
	known := l()
	b.load(asm.R9, asm.R6, walkInAt, 8, false)
	b.load(asm.R1, asm.R6, walkInState, 8, false)
	b.ifImm(asm.JNE, asm.R1, interpreterBegin, known, asm.R2)
	b.load(asm.R2, asm.R7, inNumbers, 4, false)
	b.ifImm(asm.JEq, asm.R2, 0, c.noTable, asm.R3)
	b.bind(known)
	b.load(asm.R2, asm.R7, inLanguage, 4, false)
	all := c.languages()
	for _, number := range [...]int64{LanguagePython, LanguageRuby, LanguagePerl, LanguagePHP} {
		begin, search, ready, other := l(), l(), l(), l()
		b.ifImm(asm.JNE, asm.R2, number, other, asm.R3)
		b.ifImm(asm.JEq, asm.R1, interpreterReady, ready, asm.R3)
		b.ifImm(asm.JEq, asm.R1, interpreterSearch, search, asm.R3)
		b.ifImm(asm.JNE, asm.R1, interpreterBegin, c.keep, asm.R3)
		b.bind(begin)
		all[number].begin()
		b.bind(search)
		all[number].search()
		b.bind(ready)
		all[number].frame()
		b.bind(other)
	}
	b.jump(c.keep)
	c.end()
}

// inEvaluator continues if the address of the state at r6 is in the evaluator of the layout at r7,
// or in the function around it; see makeInterpreter. It leaves the bias in r8.
func (b *interpreterCode) inEvaluator() {
	inside, around := b.label(), b.label()
	b.load(asm.R1, asm.R6, walkLook, 8, false)
	b.load(asm.R8, asm.R6, walkBias, 8, false)
	b.alu(asm.Sub, asm.R1, asm.R8)
	b.mov(asm.R4, asm.R1)
	b.load(asm.R2, asm.R7, inFrom, 8, false)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.load(asm.R2, asm.R7, inSize, 8, false)
	b.ifReg(asm.JLT, asm.R1, asm.R2, inside)
	b.load(asm.R2, asm.R7, inAround, 8, false)
	b.alu(asm.Sub, asm.R4, asm.R2)
	b.load(asm.R2, asm.R7, inAroundSize, 8, false)
	b.ifReg(asm.JLT, asm.R4, asm.R2, around)
	b.jump(b.keep)
	b.bind(around)
	b.load(asm.R1, asm.R6, walkInAfter, 8, false)
	b.load(asm.R2, asm.R6, walkN, 8, false)
	b.ifReg(asm.JNE, asm.R1, asm.R2, inside)
	b.ifImm(asm.JEq, asm.R1, 0, inside, asm.R2)
	b.storeImm(asm.R6, walkKept, 1, 8, asm.R1)
	b.result(interpreterTaken)
	b.bind(inside)
}

// number loads a number of the layout at r7.
func (b *interpreterCode) number(into asm.Register, n int) {
	b.load(into, asm.R7, inNumbers+4*n, 4, false)
}

// member reads 8 bytes at the address in base plus an offset that is a number of the layout at r7,
// into r1.
func (b *interpreterCode) member(base asm.Register, n int) {
	b.number(asm.R3, n)
	b.alu(asm.Add, asm.R3, base)
	b.word()
}

// word reads 8 bytes at the address in r3 into r1.
func (b *interpreterCode) word() {
	b.userWords(8, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
}

// userPlace reads size bytes at the user address in r3 into the function's stack.
func (b *interpreterCode) userPlace(place, size int) {
	b.lift(asm.R1, asm.R10, place)
	b.movImm(asm.R2, int64(size))
	b.call(asm.FnProbeReadUser)
	b.ifImm(asm.JNE, asm.R0, 0, b.unreadable, asm.R1)
}

// result returns from the function.
func (b *interpreterCode) result(n int64) {
	b.movImm(asm.R0, n)
	b.exit()
}

// The places of a frame that is stored, in the function's stack.
const (
	codePlace   = -24
	wordPlace   = -32
	keyPlace    = -48
	recordPlace = -72
)

// storeFrame stores the frame of the code object at codePlace and the instruction r1, which is at
// most unknownInstruction. It reports the code object with its method, unless it is reported
// already; method leaves it in r1.
//
//	word = instruction << CODE_BITS | code >> 3;
//	store 1 << TAG | word;
//	key = {w->mm, code};
//	if (w->pid && !lookup(seen, &key)) {
//		record = {w->pid, word, method};
//		if (!bpf_ringbuf_output(wake, &record, 24, 0)) // it is full: the next sample tries again
//			update(seen, &key, &word);                 // the oldest one makes space
//	}
func (b *interpreterCode) storeFrame(method func()) {
	known := b.label()
	b.add(asm.LSh.Imm(asm.R1, frameCodeBits))
	b.load(asm.R4, asm.R10, codePlace, 8, false)
	b.add(asm.RSh.Imm(asm.R4, 3))
	b.alu(asm.Or, asm.R4, asm.R1)
	b.store(asm.R10, wordPlace, asm.R4, 8)
	b.push()
	b.load(asm.R1, asm.R6, walkPID, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, known, asm.R2)
	b.store(asm.R10, recordPlace, asm.R1, 8)
	b.load(asm.R1, asm.R6, walkMM, 8, false)
	b.store(asm.R10, keyPlace, asm.R1, 8)
	b.load(asm.R1, asm.R10, codePlace, 8, false)
	b.store(asm.R10, keyPlace+8, asm.R1, 8)
	b.mapPtr(asm.R1, MapSeen)
	b.lift(asm.R2, asm.R10, keyPlace)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JNE, asm.R0, 0, known, asm.R1)
	method()
	b.store(asm.R10, recordPlace+16, asm.R1, 8)
	b.load(asm.R1, asm.R10, wordPlace, 8, false)
	b.store(asm.R10, recordPlace+8, asm.R1, 8)
	b.mapPtr(asm.R1, MapWake)
	b.lift(asm.R2, asm.R10, recordPlace)
	b.movImm(asm.R3, CodeSeen)
	b.movImm(asm.R4, 0)
	b.call(asm.FnRingbufOutput)
	b.ifImm(asm.JNE, asm.R0, 0, known, asm.R1)
	b.mapPtr(asm.R1, MapSeen)
	b.lift(asm.R2, asm.R10, keyPlace)
	b.lift(asm.R3, asm.R10, wordPlace)
	b.movImm(asm.R4, 0)
	b.call(asm.FnMapUpdateElem)
	b.bind(known)
}

// push appends the frame r4 of a language, without its tag, to the frames.
func (b *interpreterCode) push() {
	b.movImm(asm.R1, 1<<frameTag)
	b.alu(asm.Or, asm.R4, asm.R1)
	b.append()
}

// append appends r4 to the frames; see keepFrame.
func (b *interpreterCode) append() {
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
// about, which no frame of a language has replaced:
//
//	no_table: why = NO_TABLE;                // and so on
//	w->in_state = OVER;
//	if (!w->in_got) store w->pc as a frame;
//	store 1 << TAG | why << CODE_BITS;
//	goto taken;
//	leave: if (!w->in_got) return KEEP;
//	taken: w->in_got = 0; w->in_after = w->n; w->kept = 1; return TAKEN;
func (b *interpreterCode) end() {
	why, only := b.label(), b.label()
	for _, one := range [...]struct {
		at label
		is int64
	}{
		{b.noTable, whyNoTable},
		{b.noThread, whyNoThread},
		{b.many, whyThreads},
		{b.unreadable, whyUnreadable},
	} {
		b.bind(one.at)
		b.movImm(asm.R9, one.is)
		b.jump(why)
	}
	b.bind(why)
	b.storeImm(asm.R6, walkInState, interpreterOver, 8, asm.R1)
	b.load(asm.R1, asm.R6, walkInGot, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, only, asm.R2)
	b.load(asm.R4, asm.R6, walkPC, 8, false)
	b.append()
	b.bind(only)
	b.mov(asm.R4, asm.R9)
	b.add(asm.LSh.Imm(asm.R4, frameCodeBits))
	b.push()
	b.jump(b.taken)
	b.bind(b.leave)
	b.load(asm.R1, asm.R6, walkInGot, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, b.keep, asm.R2)
	b.bind(b.taken)
	b.storeImm(asm.R6, walkInGot, 0, 8, asm.R1)
	b.load(asm.R1, asm.R6, walkN, 8, false)
	b.store(asm.R6, walkInAfter, asm.R1, 8)
	b.storeImm(asm.R6, walkKept, 1, 8, asm.R1)
	b.result(interpreterTaken)
	b.bind(b.keep)
	b.result(interpreterKeep)
	b.bind(b.again)
	b.result(interpreterAgain)
	b.bind(b.full)
	b.result(interpreterFull)
}
