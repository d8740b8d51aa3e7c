package gen

import (
	"github.com/cilium/ebpf/asm"
)

// This file generates the frames of V8, the virtual machine of JavaScript. All of its code has
// frame pointers but for the first and last instructions of functions. Below the frame pointer each
// frame of a function of JavaScript has the same slots, from which the function is read while the
// thread is stopped: the collector may move it afterwards. Its SharedFunctionInfo is stored, which
// is rarely moved.

// The numbers of a layout of V8.
const (
	v8Known  = iota // 1: frames can be read
	v8Shared        // of JSFunction: its SharedFunctionInfo
	v8Data          // of BytecodeArray: where the bytecode begins
	v8Regexp        // what frames of regular expressions have in place of the context; 0: not known
)

// Offsets from the frame pointer (frame-constants.h), the same in all versions that have a layout.
const (
	v8ContextAt  = -8
	v8FunctionAt = -16
	v8ArrayAt    = -32 // of interpreted frames: the BytecodeArray
	v8OffsetAt   = -40 // and the offset in it plus where the bytecode begins, less the tag
	v8FrameSize  = 40
)

const (
	v8Tag   = 1 // of the address of an object
	v8Stack = 16 << 20
	// v8MostOffset is above the offsets in bytecode that a frame has.
	v8MostOffset = 1 << 17
)

// Results of the function v8.
const (
	v8Keep  = iota // store the frame, if it is not stored, and go on
	v8Again        // the walk is at the caller
	v8Ended        // the stack ends here
)

// The places of the function's variables on its stack; see also codePlace and others.
const (
	v8FramePlace  = -120 // v8FrameSize bytes below the frame pointer
	v8BeforePlace = -128 // the 8 bytes of code before the program counter
	v8AfterPlace  = -136 // the 8 bytes from there on
	v8NextPlace   = -144 // where the caller's return address is; 0: the frame is complete
	v8FunctionNow = -152 // the function
	v8OffsetNow   = -160 // the instruction
)

// A v8Code is the code of makeV8 while it is generated. The state is at r6, the layout at r7.
type v8Code struct {
	*interpreterCode       // keep, full and unreadable are the results
	framed           label // the frame pointer at r8 has all slots
	function         label // the function is at v8FunctionNow
	pattern          label // r8 is what the frame has in place of a context
}

// walkV8 stores a frame at r6 of V8:
//
//	if ((w->how == V8 || w->how == NODE) && !w->kept) {
//		r = v8(w);
//		if (r == AGAIN) return 0;
//		if (r == ENDED) goto ended;
//	}
func (b *frameCode) walkV8() {
	plain, again, ours := b.label(), b.label(), b.label()
	b.load(asm.R1, asm.R6, walkTable, 8, false)
	b.add(asm.RSh.Imm(asm.R1, 32))
	b.ifImm(asm.JEq, asm.R1, CodeV8, ours, asm.R2)
	b.ifImm(asm.JNE, asm.R1, CodeNode, plain, asm.R2)
	b.bind(ours)
	b.load(asm.R1, asm.R6, walkKept, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, plain, asm.R2)
	b.mov(asm.R1, asm.R6)
	b.callSub(b.function("v8", b.makeV8))
	b.ifImm(asm.JEq, asm.R0, v8Again, again, asm.R1)
	b.ifImm(asm.JEq, asm.R0, v8Ended, b.ended, asm.R1)
	b.jump(plain)
	b.bind(again)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(plain)
}

// makeV8 makes the function that stores the frame of a function of JavaScript in place of that of
// its code, of the walk at r1.
//
//	long v8(struct walk *w) {
//		l = lookup(interpreters, w->table);
//		if (!l || !l->numbers[0]) return KEEP;
//		next = 0; offset = UNKNOWN; fp = w->bp;
//		if (w->how == NODE) {
//			at = w->look - w->bias;
//			if (at - l->around < l->around_size) { // the interpreter's code for an instruction:
//				w->kept = 1;                       // the function follows
//				return KEEP;
//			}
//			if (at - l->from >= l->size || w->look == w->pc) return KEEP;
//			...                                    // interpreted
//		} else {
//			if (w->look == w->pc) ...              // leaf
//			framed: ...                            // readFrame
//		}
//		function: ...                              // storeFunction
//	}
func (b userWalk) makeV8() {
	l := b.label
	in := &interpreterCode{userWalk: b, keep: l(), full: l(), unreadable: l()}
	c := &v8Code{interpreterCode: in, framed: l(), function: l(), pattern: l()}
	generated := l()
	b.mov(asm.R6, asm.R1)
	b.load(asm.R1, asm.R6, walkTable, 4, false)
	b.store(asm.R10, -8, asm.R1, 4)
	b.mapPtr(asm.R1, MapInterpreter)
	b.lift(asm.R2, asm.R10, -8)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, c.keep, asm.R1)
	b.mov(asm.R7, asm.R0)
	c.number(asm.R1, v8Known)
	b.ifImm(asm.JEq, asm.R1, 0, c.keep, asm.R2)
	b.storeImm(asm.R10, v8NextPlace, 0, 8, asm.R1)
	b.storeImm(asm.R10, v8OffsetNow, unknownInstruction, 8, asm.R1)
	b.load(asm.R8, asm.R6, walkBP, 8, false)
	b.load(asm.R1, asm.R6, walkTable, 8, false)
	b.add(asm.RSh.Imm(asm.R1, 32))
	b.ifImm(asm.JEq, asm.R1, CodeV8, generated, asm.R2)
	c.interpreted()
	b.bind(generated)
	c.leaf()
	b.bind(c.framed)
	c.readFrame(c.pattern)
	b.load(asm.R1, asm.R10, v8FramePlace+v8FrameSize+v8FunctionAt, 8, false)
	b.store(asm.R10, v8FunctionNow, asm.R1, 8)
	b.bind(c.function)
	c.storeFunction()
	c.end()
}

// interpreted goes on at function with that of an interpreted frame, or leaves the frame out.
//
//	offset = frame.offset - (l->data - TAG);
//	if (offset >= MOST_OFFSET) offset = UNKNOWN;
func (b *v8Code) interpreted() {
	out, handler := b.label(), b.label()
	b.load(asm.R1, asm.R6, walkLook, 8, false)
	b.load(asm.R2, asm.R6, walkBias, 8, false)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.mov(asm.R4, asm.R1)
	b.load(asm.R2, asm.R7, inAround, 8, false)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.load(asm.R2, asm.R7, inAroundSize, 8, false)
	b.ifReg(asm.JLT, asm.R1, asm.R2, handler)
	b.load(asm.R2, asm.R7, inFrom, 8, false)
	b.alu(asm.Sub, asm.R4, asm.R2)
	b.load(asm.R2, asm.R7, inSize, 8, false)
	b.ifReg(asm.JGE, asm.R4, asm.R2, b.keep)
	b.load(asm.R1, asm.R6, walkLook, 8, false)
	b.load(asm.R2, asm.R6, walkPC, 8, false)
	b.ifReg(asm.JEq, asm.R1, asm.R2, b.keep)
	b.readFrame(b.keep)
	b.load(asm.R1, asm.R10, v8FramePlace+v8FrameSize+v8FunctionAt, 8, false)
	b.store(asm.R10, v8FunctionNow, asm.R1, 8)
	b.load(asm.R1, asm.R10, v8FramePlace+v8FrameSize+v8OffsetAt, 8, false)
	b.add(asm.RSh.Imm(asm.R1, 32))
	b.number(asm.R2, v8Data)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.add(asm.Add.Imm(asm.R1, v8Tag))
	b.ifImm(asm.JGE, asm.R1, v8MostOffset, out, asm.R2)
	b.store(asm.R10, v8OffsetNow, asm.R1, 8)
	b.bind(out)
	b.jump(b.function)
	b.bind(handler)
	b.storeImm(asm.R6, walkKept, 1, 8, asm.R1)
	b.jump(b.keep)
}

// readFrame reads the slots below the frame pointer r8. It jumps to other if they are not those of
// a function of JavaScript: such frames have a number in place of the context, which is in r8 then.
func (b *v8Code) readFrame(other label) {
	b.load(asm.R1, asm.R6, walkSP, 8, false)
	b.mov(asm.R2, asm.R8)
	b.add(asm.Add.Imm(asm.R2, 8))
	b.alu(asm.Sub, asm.R2, asm.R1)
	b.ifImm(asm.JGE, asm.R2, v8Stack, b.keep, asm.R1)
	b.mov(asm.R1, asm.R8)
	b.add(asm.And.Imm(asm.R1, 7))
	b.ifImm(asm.JNE, asm.R1, 0, b.keep, asm.R2)
	b.lift(asm.R3, asm.R8, -v8FrameSize)
	b.lift(asm.R1, asm.R10, v8FramePlace)
	b.movImm(asm.R2, v8FrameSize)
	b.call(asm.FnProbeReadUser)
	b.ifImm(asm.JNE, asm.R0, 0, b.keep, asm.R1)
	b.load(asm.R8, asm.R10, v8FramePlace+v8FrameSize+v8ContextAt, 8, false)
	b.mov(asm.R1, asm.R8)
	b.add(asm.And.Imm(asm.R1, 7))
	b.ifImm(asm.JNE, asm.R1, v8Tag, other, asm.R2)
}

// leaf handles the first and last instructions of generated code, which only the innermost frame
// can be at. Otherwise it goes on at framed. Where a function begins, it is in %rdi. Bytes are the
// lowest first:
//
//	55           push %rbp          the return address is at the stack pointer
//	48 89 e5     mov %rsp,%rbp      the return address is 8 bytes above it
//	56           push %rsi          the frame pointer is set
//	57           push %rdi          the same
//	...
//	c3, c2       ret                the slots are still below the stack pointer
func (b *v8Code) leaf() {
	entered, pushed, register, returns := b.label(), b.label(), b.label(), b.label()
	b.load(asm.R1, asm.R6, walkLook, 8, false)
	b.load(asm.R3, asm.R6, walkPC, 8, false)
	b.ifReg(asm.JNE, asm.R1, asm.R3, b.framed)
	b.add(asm.Sub.Imm(asm.R3, 8))
	b.userWords(16, b.keep)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.store(asm.R10, v8BeforePlace, asm.R1, 8)
	b.load(asm.R1, asm.R6, walkTemp+8, 8, false)
	b.store(asm.R10, v8AfterPlace, asm.R1, 8)
	b.load(asm.R4, asm.R6, walkSP, 8, false)
	b.code(v8AfterPlace, 0, 4, 0xe5894855, entered)
	b.code(v8BeforePlace, 4, 4, 0xe5894855, register)
	b.code(v8BeforePlace, 4, 4, 0x56e58948, register)
	b.code(v8AfterPlace, 0, 1, 0xc3, returns)
	b.code(v8AfterPlace, 0, 1, 0xc2, returns)
	b.code(v8AfterPlace, 0, 3, 0xe58948, pushed)
	b.jump(b.framed)
	b.bind(pushed)
	b.add(asm.Add.Imm(asm.R4, 8))
	b.code(v8BeforePlace, 7, 1, 0x55, entered)
	b.jump(b.framed)
	b.bind(entered)
	b.store(asm.R10, v8NextPlace, asm.R4, 8)
	b.bind(register)
	b.load(asm.R1, asm.R6, walkDI, 8, false)
	b.store(asm.R10, v8FunctionNow, asm.R1, 8)
	b.jump(b.function)
	b.bind(returns)
	b.store(asm.R10, v8NextPlace, asm.R4, 8)
	b.mov(asm.R8, asm.R4)
	b.add(asm.Sub.Imm(asm.R8, 8))
}

// storeFunction stores the frame of the function at v8FunctionNow, and goes on at the caller if its
// return address is at v8NextPlace.
//
//	shared = *(u64 *)(function - TAG + l->shared);
//	if (function or shared is no address of an object) return KEEP;
//	store shared - TAG with the instruction offset
//	w->kept = 1;
//	if (!next) return KEEP;
//	w->sp = next + 8; w->by = GENERATED; w->kept = w->block = w->rows = 0;
//	ret = *(u64 *)next;
//	if (!ret) return ENDED;
//	w->pc = ret; w->look = ret - 1;
//	return AGAIN;
func (b *v8Code) storeFunction() {
	b.load(asm.R8, asm.R10, v8FunctionNow, 8, false)
	b.checkObject(asm.R8)
	b.member(asm.R8, v8Shared)
	b.mov(asm.R8, asm.R1)
	b.checkObject(asm.R8)
	b.store(asm.R10, codePlace, asm.R8, 8)
	b.load(asm.R1, asm.R10, v8OffsetNow, 8, false)
	b.storeFrame(func() { b.movImm(asm.R1, 0) })
	b.storeImm(asm.R6, walkKept, 1, 8, asm.R1)
	b.load(asm.R3, asm.R10, v8NextPlace, 8, false)
	b.ifImm(asm.JEq, asm.R3, 0, b.keep, asm.R1)
	b.mov(asm.R8, asm.R3)
	b.word()
	b.add(asm.Add.Imm(asm.R8, 8))
	b.store(asm.R6, walkSP, asm.R8, 8)
	b.storeImm(asm.R6, walkBy, int64(StopGenerated), 8, asm.R2)
	for _, at := range [...]int{walkKept, walkBlock, walkRows} {
		b.storeImm(asm.R6, at, 0, 8, asm.R2)
	}
	b.ifImm(asm.JEq, asm.R1, 0, b.full, asm.R2)
	b.store(asm.R6, walkPC, asm.R1, 8)
	b.add(asm.Sub.Imm(asm.R1, 1))
	b.store(asm.R6, walkLook, asm.R1, 8)
	b.result(v8Again)
}

// checkObject continues if a register may have the address of an object, and removes its tag.
func (b *v8Code) checkObject(r asm.Register) {
	b.mov(asm.R1, r)
	b.add(asm.And.Imm(asm.R1, 7))
	b.ifImm(asm.JNE, asm.R1, v8Tag, b.keep, asm.R2)
	b.movImm(asm.R1, frameMostAddress)
	b.ifReg(asm.JGE, r, asm.R1, b.keep)
	b.add(asm.Sub.Imm(r, v8Tag))
	b.ifImm(asm.JEq, r, 0, b.keep, asm.R1)
}

// end generates the results. A frame of a regular expression is stored as such:
//
//	pattern: if (marker == l->regexp) {
//		store 1 << TAG | REGEXP << CODE_BITS;
//		w->kept = 1;
//	}
//	return KEEP;
func (b *v8Code) end() {
	b.bind(b.pattern)
	b.number(asm.R1, v8Regexp)
	b.ifImm(asm.JEq, asm.R1, 0, b.keep, asm.R2)
	b.ifReg(asm.JNE, asm.R1, asm.R8, b.keep)
	b.movImm(asm.R4, whyRegexp<<frameCodeBits)
	b.push()
	b.storeImm(asm.R6, walkKept, 1, 8, asm.R1)
	b.jump(b.keep)
	b.bind(b.full)
	b.result(v8Ended)
	b.bind(b.unreadable)
	b.bind(b.keep)
	b.result(v8Keep)
}
