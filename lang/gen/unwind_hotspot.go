package gen

import (
	"github.com/cilium/ebpf/asm"
)

// This file generates the walk through code of HotSpot, the virtual machine of Java. It keeps
// compiled methods, the interpreter and stubs in heaps of its own (CodeHeap). The program finds the
// CodeBlob of an address there, which has the size of its frame, as HotSpot does itself
// (CodeCache::find_blob, frame::sender). Addresses and offsets are those of a layout of package
// hotspot.

// The slots of a layout of HotSpot: numbers of 16 bits, in the order of package hotspot. A shift is
// by how many bits a word is shifted left and right to get a smaller number.
const (
	_               = iota // 1: frames can be read
	hsVectorLength         // of GrowableArray
	hsVectorData           //
	hsHeapLow              // of CodeHeap
	hsHeapHigh             //
	hsSegmapLow            //
	hsSegmentShift         //
	hsBlockSize            // of HeapBlock, which precedes a CodeBlob
	hsBlockUsed            //
	hsBlobName             // of CodeBlob
	hsBlobFrame            //
	hsBlobComplete         //
	hsCompleteShift        //
	hsBlobCode             // where its code begins
	hsCodeShift            // 0: it is an address, else an offset
	hsMethod               // of nmethod
	hsVerified             //
	hsVerifiedShift        // 0: it is an address, else an offset from the code
	hsConst                // of Method
	hsConstSize            // of ConstMethod, which precedes the bytecode
	hsHeaderSize           // of CodeBlob: the size of its struct
	hsHeaderShift          //
	hsNMethodSize          // of nmethod
	hsStubsBuffer          // of StubQueue: where the interpreter begins
	hsStubsLimit           // of StubQueue: its size
)

const (
	hotspotHeaps    = 4   // CodeHeaps that are looked at
	hotspotHops     = 64  // in the map of segments
	hotspotFree     = 255 // in that map: no CodeBlob
	hotspotShift    = 16  // above the logarithm of the size of a segment
	hotspotFrame    = 1 << 20
	hotspotInCode   = 1 << 17 // as interp.InCode
	hotspotBytecode = 1 << 16 // above the size of a method's bytecode
	hotspotStack    = 16 << 20
)

// hotspotVTable is "vtable c" as a number: what a name of a CodeBlob begins with.
const hotspotVTable = 0x6320656c62617476

// Offsets from the frame pointer of an interpreted frame (frame_x86.hpp).
const (
	hotspotSender     = -8  // the caller's stack pointer
	hotspotMethodAt   = -24 //
	hotspotBytecodeAt = -64 // the address of the instruction
)

// Results of the function hotspot.
const (
	hotspotKeep  = iota // store the frame, if it is not stored, and follow its frame pointer
	hotspotAgain        // the walk is at the caller
	hotspotEnded        // the stack ends here
	hotspotStop         // the frame is not as expected
)

// The places of the function's variables on its stack; see also codePlace and others.
const (
	hsLowPlace    = -80  // where the heap begins
	hsShiftPlace  = -88  //
	hsVectorPlace = -96  // its heaps
	hsLengthPlace = -104 // how many
	hsSegmapPlace = -112 //
	hsKindPlace   = -120 // 1: the CodeBlob is one of a method
	hsBeforePlace = -128 // the 8 bytes of code before the program counter
	hsAfterPlace  = -136 // the 8 bytes from there on
	hsBeginPlace  = -144 // where the code begins
)

// A hotspotCode is the code of makeHotSpot while it is generated. The state is at r6, the layout at
// r7.
type hotspotCode struct {
	*interpreterCode       // keep, full and unreadable are the results
	blob             label // r8 is the CodeBlob
	method           label // it is one of a method
	interpreter      label // it is the interpreter
	framed           label // r9 is the CFA, and the frame pointer is saved below the return address
	bare             label // the return address is at the stack pointer
	pushed           label // the frame pointer is there, and the return address above it
	unsaved          label // r9 is the CFA, and the frame pointer is not saved yet
	caller           label // r9 is the caller's stack pointer, r1 the return address
	ended            label
}

// walkHotSpot goes on at the caller of a frame at r6 of HotSpot:
//
//	if (w->how == HOTSPOT && !w->kept) {
//		r = hotspot(w);
//		if (r == AGAIN) return 0;
//		if (r == ENDED) goto ended;
//		if (r == STOP) { store w->pc as a frame; goto stop with HOTSPOT; }
//	}
func (b *frameCode) walkHotSpot() {
	plain, again, failed := b.label(), b.label(), b.label()
	b.load(asm.R1, asm.R6, walkTable, 8, false)
	b.add(asm.RSh.Imm(asm.R1, 32))
	b.ifImm(asm.JNE, asm.R1, CodeHotSpot, plain, asm.R2)
	b.load(asm.R1, asm.R6, walkKept, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, plain, asm.R2)
	b.mov(asm.R1, asm.R6)
	b.callSub(b.function("hotspot", b.makeHotSpot))
	b.ifImm(asm.JEq, asm.R0, hotspotAgain, again, asm.R1)
	b.ifImm(asm.JEq, asm.R0, hotspotEnded, b.ended, asm.R1)
	b.ifImm(asm.JEq, asm.R0, hotspotStop, failed, asm.R1)
	b.jump(plain)
	b.bind(again)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(failed)
	b.keepFrame(b.ended)
	b.movImm(asm.R1, int64(StopHotSpot))
	b.jump(b.stop)
	b.bind(plain)
}

// makeHotSpot makes the function that stores the frame of the walk at r1 and goes on at its caller.
// The frame is a Method, or the CodeBlob of other code and of compiled code that has called another
// method.
//
//	long hotspot(struct walk *w) {
//		l = lookup(interpreters, w->table);
//		if (!l) return KEEP;
//		queue = *(u64 *)(l->from + w->bias);
//		if (w->look - queue->buffer < queue->limit)
//			...                              // interpreted
//		...                                  // findHeap, findBlob
//		size = blob->frame_size;
//		kind = blob->header_size == sizeof(nmethod);
//		if (kind)
//			...                              // storeMethod
//		else {
//			store blob as a frame;
//			if (size <= 0) ...               // stub
//		}
//		...                                  // compiled
//	}
func (b userWalk) makeHotSpot() {
	l := b.label
	in := &interpreterCode{userWalk: b, keep: l(), full: l(), unreadable: l()}
	c := &hotspotCode{interpreterCode: in, blob: l(), method: l(), interpreter: l(), framed: l(),
		bare: l(), pushed: l(), unsaved: l(), caller: l(), ended: l()}
	sized, stub := l(), l()
	b.mov(asm.R6, asm.R1)
	b.load(asm.R1, asm.R6, walkTable, 4, false)
	b.store(asm.R10, -8, asm.R1, 4)
	b.mapPtr(asm.R1, MapInterpreter)
	b.lift(asm.R2, asm.R10, -8)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, c.keep, asm.R1)
	b.mov(asm.R7, asm.R0)
	c.findInterpreter()
	c.findHeap()
	c.findBlob()
	c.slot(asm.R3, hsBlobFrame)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.userWords(4, c.unreadable)
	b.load(asm.R9, asm.R6, walkTemp, 4, true)
	c.at(asm.R8, hsHeaderSize)
	c.shifted(hsHeaderShift)
	b.storeImm(asm.R10, hsKindPlace, 1, 8, asm.R2)
	c.slot(asm.R2, hsNMethodSize)
	b.ifReg(asm.JEq, asm.R1, asm.R2, c.method)
	b.storeImm(asm.R10, hsKindPlace, 0, 8, asm.R2)
	b.store(asm.R10, codePlace, asm.R8, 8)
	c.storeNamed()
	b.ifImm(asm.JSLE, asm.R9, 0, stub, asm.R1)
	b.jump(sized)
	b.bind(c.method)
	c.storeMethod()
	b.ifImm(asm.JSGT, asm.R9, 0, sized, asm.R1)
	c.ifLeaf(c.bare) // it jumps to another method
	b.jump(c.unreadable)
	b.bind(sized)
	c.compiled()
	b.bind(stub)
	c.stub()
	b.bind(c.interpreter)
	c.interpreted()
	c.end()
}

// slot loads a slot of the layout.
func (b *hotspotCode) slot(into asm.Register, n int) {
	b.load(into, asm.R7, inNumbers+2*n, 2, false)
}

// at reads the 8 bytes of a member of the struct at base into r1. A slot is its offset.
func (b *hotspotCode) at(base asm.Register, slot int) {
	b.slot(asm.R3, slot)
	b.alu(asm.Add, asm.R3, base)
	b.word()
}

// shifted makes a smaller number of the word r1. A slot is its shift, which is in r2 then.
func (b *hotspotCode) shifted(slot int) {
	b.slot(asm.R2, slot)
	b.add(asm.And.Imm(asm.R2, 63))
	b.alu(asm.LSh, asm.R1, asm.R2)
	b.alu(asm.ArSh, asm.R1, asm.R2)
}

// findInterpreter jumps if the address of the walk is in the interpreter.
func (b *hotspotCode) findInterpreter() {
	b.load(asm.R3, asm.R7, inFrom, 8, false)
	b.load(asm.R1, asm.R6, walkBias, 8, false)
	b.alu(asm.Add, asm.R3, asm.R1)
	b.word()
	b.mov(asm.R8, asm.R1)
	b.slot(asm.R3, hsStubsLimit)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.userWords(4, b.unreadable)
	b.load(asm.R9, asm.R6, walkTemp, 4, false)
	b.at(asm.R8, hsStubsBuffer)
	b.load(asm.R2, asm.R6, walkLook, 8, false)
	b.alu(asm.Sub, asm.R2, asm.R1)
	b.ifReg(asm.JLT, asm.R2, asm.R9, b.interpreter)
}

// findHeap leaves in r8 the CodeHeap of the address of the walk, whose code begins at hsLowPlace.
//
//	vector = *(u64 *)(l->head + w->bias);
//	for (i = 0; i < min(vector->length, HEAPS); i++) {
//		heap = vector->data[i];
//		if (w->look - heap->low < heap->high - heap->low) goto found;
//	}
//	return KEEP;
func (b *hotspotCode) findHeap() {
	next, other, found := b.label(), b.label(), b.label()
	b.load(asm.R3, asm.R7, inHead, 8, false)
	b.load(asm.R1, asm.R6, walkBias, 8, false)
	b.alu(asm.Add, asm.R3, asm.R1)
	b.word()
	b.mov(asm.R8, asm.R1)
	b.slot(asm.R3, hsVectorLength)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.userWords(4, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 4, false)
	b.store(asm.R10, hsLengthPlace, asm.R1, 8)
	b.at(asm.R8, hsVectorData)
	b.store(asm.R10, hsVectorPlace, asm.R1, 8)
	b.movImm(asm.R9, 0)
	b.bind(next)
	b.load(asm.R1, asm.R10, hsLengthPlace, 8, false)
	b.ifReg(asm.JGE, asm.R9, asm.R1, b.keep)
	b.load(asm.R3, asm.R10, hsVectorPlace, 8, false)
	b.mov(asm.R1, asm.R9)
	b.add(asm.LSh.Imm(asm.R1, 3))
	b.alu(asm.Add, asm.R3, asm.R1)
	b.word()
	b.mov(asm.R8, asm.R1)
	b.add(asm.Add.Imm(asm.R9, 1))
	b.at(asm.R8, hsHeapHigh)
	b.load(asm.R2, asm.R6, walkLook, 8, false)
	b.ifReg(asm.JGE, asm.R2, asm.R1, other)
	b.at(asm.R8, hsHeapLow)
	b.load(asm.R2, asm.R6, walkLook, 8, false)
	b.ifReg(asm.JGE, asm.R2, asm.R1, found)
	b.bind(other)
	b.ifImm(asm.JLT, asm.R9, hotspotHeaps, next, asm.R1)
	b.jump(b.keep)
	b.bind(found)
	b.store(asm.R10, hsLowPlace, asm.R1, 8)
}

// findBlob leaves in r8 the CodeBlob of the address of the walk. The heap is at r8. Its map has a
// byte for each segment: how many segments before it the CodeBlob begins, or a part of that.
//
//	seg = (w->look - low) >> heap->shift;
//	for (i = 0; i < HOPS; i++) {
//		back = heap->segmap[seg];
//		if (!back) goto block;
//		if (back == FREE || back > seg) goto unreadable;
//		seg -= back;
//	}
//	goto unreadable;
//	block: block = low + (seg << heap->shift);
//	if (!block->used) goto unreadable;
//	blob = block + sizeof(*block);
func (b *hotspotCode) findBlob() {
	hop, block := b.label(), b.label()
	b.slot(asm.R3, hsSegmentShift)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.userWords(4, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 4, false)
	b.ifImm(asm.JGE, asm.R1, hotspotShift, b.unreadable, asm.R2)
	b.store(asm.R10, hsShiftPlace, asm.R1, 8)
	b.at(asm.R8, hsSegmapLow)
	b.store(asm.R10, hsSegmapPlace, asm.R1, 8)
	b.load(asm.R8, asm.R6, walkLook, 8, false)
	b.load(asm.R1, asm.R10, hsLowPlace, 8, false)
	b.alu(asm.Sub, asm.R8, asm.R1)
	b.load(asm.R1, asm.R10, hsShiftPlace, 8, false)
	b.alu(asm.RSh, asm.R8, asm.R1)
	b.movImm(asm.R9, 0)
	b.bind(hop)
	b.load(asm.R3, asm.R10, hsSegmapPlace, 8, false)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.userWords(1, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 1, false)
	b.ifImm(asm.JEq, asm.R1, 0, block, asm.R2)
	b.ifImm(asm.JEq, asm.R1, hotspotFree, b.unreadable, asm.R2)
	b.ifReg(asm.JGT, asm.R1, asm.R8, b.unreadable)
	b.alu(asm.Sub, asm.R8, asm.R1)
	b.add(asm.Add.Imm(asm.R9, 1))
	b.ifImm(asm.JLT, asm.R9, hotspotHops, hop, asm.R1)
	b.jump(b.unreadable)
	b.bind(block)
	b.load(asm.R1, asm.R10, hsShiftPlace, 8, false)
	b.alu(asm.LSh, asm.R8, asm.R1)
	b.load(asm.R1, asm.R10, hsLowPlace, 8, false)
	b.alu(asm.Add, asm.R8, asm.R1)
	b.slot(asm.R3, hsBlockUsed)
	b.alu(asm.Add, asm.R3, asm.R8)
	b.userWords(1, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 1, false)
	b.ifImm(asm.JEq, asm.R1, 0, b.unreadable, asm.R2)
	b.slot(asm.R1, hsBlockSize)
	b.alu(asm.Add, asm.R8, asm.R1)
}

// checkMethod continues if r1 may be the address of a Method, which it stores at codePlace.
func (b *hotspotCode) checkMethod(failed label) {
	b.ifImm(asm.JEq, asm.R1, 0, failed, asm.R2)
	b.movImm(asm.R2, frameMostAddress)
	b.ifReg(asm.JGE, asm.R1, asm.R2, failed)
	b.mov(asm.R2, asm.R1)
	b.add(asm.And.Imm(asm.R2, 7))
	b.ifImm(asm.JNE, asm.R2, 0, failed, asm.R3)
	b.store(asm.R10, codePlace, asm.R1, 8)
}

// storeMethod stores the frame of the method that the CodeBlob r8 has compiled. HotSpot knows which
// methods are inlined where a call returns to: then the frame is the CodeBlob with the offset in
// its code.
//
//	if (w->look != w->pc && w->pc - begin < IN_CODE - 1)
//		store blob with the instruction IN_CODE | w->pc - begin;
//	else
//		store blob->method with the instruction UNKNOWN;
func (b *hotspotCode) storeMethod() {
	plain, known := b.label(), b.label()
	b.at(asm.R8, hsMethod)
	b.checkMethod(b.unreadable)
	b.ifLeaf(plain)
	b.at(asm.R8, hsBlobCode)
	b.shifted(hsCodeShift)
	b.relative(asm.R8)
	b.load(asm.R2, asm.R6, walkPC, 8, false)
	b.alu(asm.Sub, asm.R2, asm.R1)
	b.ifImm(asm.JGE, asm.R2, hotspotInCode-1, plain, asm.R3)
	b.store(asm.R10, codePlace, asm.R8, 8)
	b.mov(asm.R1, asm.R2)
	b.add(asm.Or.Imm(asm.R1, hotspotInCode))
	b.jump(known)
	b.bind(plain)
	b.movImm(asm.R1, unknownInstruction)
	b.bind(known)
	b.storeWord()
}

// storeNamed stores a frame for the code at codePlace, without an instruction in it.
func (b *hotspotCode) storeNamed() {
	b.movImm(asm.R1, unknownInstruction)
	b.storeWord()
}

// storeWord stores the frame of what is at codePlace with the instruction r1.
func (b *hotspotCode) storeWord() {
	b.storeFrame(func() { b.movImm(asm.R1, 0) })
	b.storeImm(asm.R6, walkKept, 1, 8, asm.R1)
}

// ifLeaf jumps unless the address of the walk is one to which a call returns.
func (b *hotspotCode) ifLeaf(to label) {
	b.load(asm.R1, asm.R6, walkLook, 8, false)
	b.load(asm.R2, asm.R6, walkPC, 8, false)
	b.ifReg(asm.JEq, asm.R1, asm.R2, to)
}
