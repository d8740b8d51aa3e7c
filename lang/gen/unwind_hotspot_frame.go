package gen

import (
	"github.com/cilium/ebpf/asm"
)

// This file generates how the caller of a frame in code of HotSpot is found; see unwind_hotspot.go.

// stub goes on at the caller of code without a frame of a fixed size. It has a frame pointer, but
// for the first instructions, which only the innermost frame can be at.
//
//	if (w->look == w->pc) {
//		if (blob->name is "vtable chunks") goto bare; // they jump to the method
//		if (the next instruction is ret or push %rbp) goto bare;
//		if (it is pop %rbp, or the last one was push %rbp) goto pushed;
//		if (!w->doubt) w->doubt = w->n;
//	}
//	return KEEP;
func (b *hotspotCode) stub() {
	leaf, other := b.label(), b.label()
	b.ifLeaf(leaf)
	b.jump(b.keep)
	b.bind(leaf)
	b.at(asm.R8, hsBlobName)
	b.mov(asm.R3, asm.R1)
	b.userWords(8, other) // the text may not be in memory
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.ifImm(asm.JEq, asm.R1, hotspotVTable, b.bare, asm.R2)
	b.bind(other)
	b.readCode()
	b.code(hsAfterPlace, 0, 1, 0xc3, b.bare)
	b.code(hsAfterPlace, 0, 1, 0x5d, b.pushed)
	b.code(hsAfterPlace, 0, 1, 0x55, b.bare)
	b.code(hsBeforePlace, 7, 1, 0x55, b.pushed)
	b.load(asm.R1, asm.R6, walkDoubt, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, b.keep, asm.R2)
	b.load(asm.R1, asm.R6, walkN, 8, false)
	b.store(asm.R6, walkDoubt, asm.R1, 8)
	b.jump(b.keep)
}

// compiled goes on at the caller of the CodeBlob r8, whose frame has r9 words: the return address,
// below it the caller's frame pointer, and others. The innermost frame may be incomplete.
//
//	if (size > FRAME) goto unreadable;
//	cfa = w->sp + 8 * size;
//	if (w->look == w->pc) ...                // leaf
//	framed: w->bp = cfa[-2]; ret = cfa[-1];
//	goto caller;
//	pushed: cfa = w->sp + 16; goto framed;
//	bare: cfa = w->sp + 8;
//	unsaved: ret = cfa[-1];
//	caller: if (cfa <= w->sp) goto unreadable;
//	w->sp = cfa; w->by = HOTSPOT; w->kept = w->block = w->rows = 0;
//	if (!ret) return ENDED;
//	w->pc = ret; w->look = ret - 1;
//	return AGAIN;
func (b *hotspotCode) compiled() {
	leaf := b.label()
	b.ifImm(asm.JSGT, asm.R9, hotspotFrame, b.unreadable, asm.R1)
	b.add(asm.LSh.Imm(asm.R9, 3))
	b.load(asm.R1, asm.R6, walkSP, 8, false)
	b.alu(asm.Add, asm.R9, asm.R1)
	b.ifLeaf(leaf)
	b.bind(b.framed)
	b.mov(asm.R3, asm.R9)
	b.add(asm.Sub.Imm(asm.R3, 16))
	b.userWords(16, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.store(asm.R6, walkBP, asm.R1, 8)
	b.load(asm.R1, asm.R6, walkTemp+8, 8, false)
	b.jump(b.caller)
	b.bind(b.pushed)
	b.load(asm.R9, asm.R6, walkSP, 8, false)
	b.add(asm.Add.Imm(asm.R9, 16))
	b.jump(b.framed)
	b.bind(b.bare)
	b.load(asm.R9, asm.R6, walkSP, 8, false)
	b.add(asm.Add.Imm(asm.R9, 8))
	b.bind(b.unsaved)
	b.mov(asm.R3, asm.R9)
	b.add(asm.Sub.Imm(asm.R3, 8))
	b.userWords(8, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.bind(b.caller)
	b.load(asm.R2, asm.R6, walkSP, 8, false)
	b.ifReg(asm.JLE, asm.R9, asm.R2, b.unreadable)
	b.store(asm.R6, walkSP, asm.R9, 8)
	b.storeImm(asm.R6, walkBy, int64(StopHotSpot), 8, asm.R2)
	for _, at := range [...]int{walkKept, walkBlock, walkRows} {
		b.storeImm(asm.R6, at, 0, 8, asm.R2)
	}
	b.ifImm(asm.JEq, asm.R1, 0, b.ended, asm.R2)
	b.store(asm.R6, walkPC, asm.R1, 8)
	b.add(asm.Sub.Imm(asm.R1, 1))
	b.store(asm.R6, walkLook, asm.R1, 8)
	b.result(hotspotAgain)
	b.bind(leaf)
	b.readCode()
	b.epilogue()
	b.prologue()
}

// readCode reads the code around the program counter.
func (b *hotspotCode) readCode() {
	b.load(asm.R3, asm.R6, walkPC, 8, false)
	b.add(asm.Sub.Imm(asm.R3, 8))
	b.userWords(16, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.store(asm.R10, hsBeforePlace, asm.R1, 8)
	b.load(asm.R1, asm.R6, walkTemp+8, 8, false)
	b.store(asm.R10, hsAfterPlace, asm.R1, 8)
}

// code jumps if n bytes of code are those of a number: of the 8 bytes at a place, those from skip
// on.
func (b *interpreterCode) code(place, skip, n int, is int64, to label) {
	b.load(asm.R1, asm.R10, place, 8, false)
	b.add(asm.LSh.Imm(asm.R1, int32(64-8*n-8*skip)))
	b.add(asm.RSh.Imm(asm.R1, int32(64-8*n)))
	b.ifImm(asm.JEq, asm.R1, is, to, asm.R2)
}

// epilogue recognizes code that is about to return. Bytes are the lowest first:
//
//	add $N,%rsp; pop %rbp; cmp OFFSET(%r15),%rsp; ja SLOW; ret    from Java 16 on
//	add $N,%rsp; pop %rbp; mov OFFSET(%r15),%r10; test %eax,(%r10); ret
func (b *hotspotCode) epilogue() {
	polled := b.label()
	b.code(hsAfterPlace, 0, 1, 0xc3, b.bare)
	b.code(hsAfterPlace, 0, 1, 0x5d, b.pushed)
	b.code(hsAfterPlace, 0, 3, 0xa73b49, b.bare)
	b.code(hsAfterPlace, 0, 3, 0x673b49, b.bare)
	b.code(hsAfterPlace, 0, 4, 0xc3028541, b.bare)
	b.code(hsAfterPlace, 0, 2, 0x870f, polled)
	b.code(hsAfterPlace, 0, 3, 0x978b4d, polled)
	other := b.label()
	b.jump(other)
	b.bind(polled)
	b.code(hsBeforePlace, 1, 3, 0xa73b49, b.bare) // ja after cmp
	b.code(hsBeforePlace, 4, 3, 0x673b49, b.bare)
	b.code(hsBeforePlace, 7, 1, 0x5d, b.bare) // mov after pop
	b.bind(other)
}

// prologue recognizes code that has not made its frame yet. It ends with a jump:
//
//	if (pc - begin >= complete) goto framed;
//	if (pc <= the verified entry) goto bare;
//	mov %eax,-N(%rsp); push %rbp; mov %rsp,%rbp; sub $N,%rsp    or
//	sub $N,%rsp; mov %rbp,N(%rsp)
func (b *hotspotCode) prologue() {
	verified := b.label()
	b.at(asm.R8, hsBlobCode)
	b.shifted(hsCodeShift)
	b.relative(asm.R8)
	b.store(asm.R10, hsBeginPlace, asm.R1, 8)
	b.at(asm.R8, hsBlobComplete)
	b.shifted(hsCompleteShift)
	b.ifImm(asm.JSLE, asm.R1, 0, b.framed, asm.R2)
	b.load(asm.R2, asm.R6, walkPC, 8, false)
	b.load(asm.R3, asm.R10, hsBeginPlace, 8, false)
	b.alu(asm.Sub, asm.R2, asm.R3)
	b.ifReg(asm.JGE, asm.R2, asm.R1, b.framed)
	b.load(asm.R1, asm.R10, hsKindPlace, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, verified, asm.R2)
	b.at(asm.R8, hsVerified)
	b.shifted(hsVerifiedShift)
	b.load(asm.R3, asm.R10, hsBeginPlace, 8, false)
	b.relative(asm.R3)
	b.load(asm.R2, asm.R6, walkPC, 8, false)
	b.ifReg(asm.JLE, asm.R2, asm.R1, b.bare)
	b.bind(verified)
	b.code(hsBeforePlace, 7, 1, 0x55, b.pushed)     // after push %rbp
	b.code(hsBeforePlace, 5, 3, 0xec8b48, b.pushed) // after mov %rsp,%rbp
	b.code(hsBeforePlace, 5, 3, 0xe58948, b.pushed)
	b.code(hsAfterPlace, 0, 1, 0x55, b.bare)     // push %rbp
	b.code(hsAfterPlace, 0, 3, 0x248489, b.bare) // mov %eax,N(%rsp)
	b.code(hsAfterPlace, 0, 3, 0xec8148, b.bare) // sub $N,%rsp
	b.code(hsAfterPlace, 0, 3, 0xec8348, b.bare)
	b.code(hsAfterPlace, 0, 4, 0x246c8948, b.unsaved) // mov %rbp,N(%rsp)
	b.code(hsAfterPlace, 0, 4, 0x24ac8948, b.unsaved)
	b.jump(b.framed)
}

// relative adds the address in base to r1, unless its shift, which is in r2, is 0.
func (b *hotspotCode) relative(base asm.Register) {
	address := b.label()
	b.ifImm(asm.JEq, asm.R2, 0, address, asm.R3)
	b.alu(asm.Add, asm.R1, base)
	b.bind(address)
}

// interpreted stores an interpreted frame and goes on at its caller. The instruction of the
// innermost one is in a register.
//
//	fp = w->bp;
//	if (fp - w->sp >= STACK || fp & 7) goto unreadable;
//	method = fp[-3];
//	at = UNKNOWN;
//	if (w->look != w->pc)
//		at = fp[-8] - (method->const + sizeof(*method->const));
//	if (at >= BYTECODE) at = UNKNOWN;
//	store the frame
//	cfa = fp[-1]; w->bp = fp[0]; ret = fp[1];
//	if (cfa <= fp) goto unreadable;
//	goto caller;
func (b *hotspotCode) interpreted() {
	inner := b.label()
	b.load(asm.R9, asm.R6, walkBP, 8, false)
	b.load(asm.R1, asm.R6, walkSP, 8, false)
	b.mov(asm.R2, asm.R9)
	b.alu(asm.Sub, asm.R2, asm.R1)
	b.ifImm(asm.JGE, asm.R2, hotspotStack, b.unreadable, asm.R1)
	b.mov(asm.R1, asm.R9)
	b.add(asm.And.Imm(asm.R1, 7))
	b.ifImm(asm.JNE, asm.R1, 0, b.unreadable, asm.R2)
	b.lift(asm.R3, asm.R9, hotspotMethodAt)
	b.word()
	b.checkMethod(b.unreadable)
	b.movImm(asm.R8, unknownInstruction)
	b.ifLeaf(inner)
	b.load(asm.R8, asm.R10, codePlace, 8, false)
	b.at(asm.R8, hsConst)
	b.mov(asm.R8, asm.R1)
	b.slot(asm.R1, hsConstSize)
	b.alu(asm.Add, asm.R8, asm.R1)
	b.lift(asm.R3, asm.R9, hotspotBytecodeAt)
	b.userWords(8, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.alu(asm.Sub, asm.R1, asm.R8)
	b.movImm(asm.R8, unknownInstruction)
	b.ifImm(asm.JGE, asm.R1, hotspotBytecode, inner, asm.R2)
	b.mov(asm.R8, asm.R1)
	b.bind(inner)
	b.mov(asm.R1, asm.R8)
	b.storeWord()
	b.lift(asm.R3, asm.R9, hotspotSender)
	b.userWords(8, b.unreadable)
	b.load(asm.R8, asm.R6, walkTemp, 8, false)
	b.ifReg(asm.JLE, asm.R8, asm.R9, b.unreadable)
	b.mov(asm.R3, asm.R9)
	b.userWords(16, b.unreadable)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.store(asm.R6, walkBP, asm.R1, 8)
	b.load(asm.R1, asm.R6, walkTemp+8, 8, false)
	b.mov(asm.R9, asm.R8)
	b.jump(b.caller)
}

// end generates the results.
func (b *hotspotCode) end() {
	for _, r := range [...]struct {
		at label
		is int64
	}{
		{b.unreadable, hotspotStop},
		{b.full, hotspotEnded},
		{b.ended, hotspotEnded},
		{b.keep, hotspotKeep},
	} {
		b.bind(r.at)
		b.result(r.is)
	}
}
