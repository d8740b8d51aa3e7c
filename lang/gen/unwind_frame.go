package gen

import (
	"github.com/cilium/ebpf/asm"
)

// search does a binary search over n sorted entries of size bytes at r0 + at. It leaves in r1 the
// offset of the last entry whose first width bytes are <= target, or 0 if there is none. It changes
// r2 and r3. Differences must not overflow.
func (b userWalk) search(n, size, at, width int, target asm.Register) {
	b.movImm(asm.R1, 0)
	for n > 1 {
		half := n / 2
		b.mov(asm.R2, asm.R0)
		b.alu(asm.Add, asm.R2, asm.R1)
		b.load(asm.R3, asm.R2, at+half*size, width, false)
		b.alu(asm.Sub, asm.R3, target)
		b.add(asm.Sub.Imm(asm.R3, 1))
		b.add(asm.ArSh.Imm(asm.R3, 63))
		// no branch: the verifier would follow both ways
		b.add(asm.And.Imm(asm.R3, int32(half*size)))
		b.alu(asm.Add, asm.R1, asm.R3)
		n -= half
	}
}

// userWords reads size bytes at the user address in r3 into walkTemp of the state at r6.
func (b userWalk) userWords(size int, failed label) {
	b.lift(asm.R1, asm.R6, walkTemp)
	b.movImm(asm.R2, int64(size))
	b.call(asm.FnProbeReadUser)
	b.ifImm(asm.JNE, asm.R0, 0, failed, asm.R1)
}

// A frameCode is the code of makeFrame while it is generated: the places that its parts jump to.
type frameCode struct {
	userWalk
	inside  label // the mapping of the address is known
	nowhere label // the address is in no known mapping
	pointer label // follow the frame pointer
	signal  label // the frame is that of a signal handler's return
	cfa     label // r9 is the CFA, r8 the address of the rule
	same    label // r9 is the CFA, and the frame pointer of the caller is known
	ret     label // r1 is the return address, found by the table
	next    label // r1 is the return address
	ended   label // the stack ends here
	stop    label // r1 is the Stop
	memory  label // the stack can't be read
	other   label // the rule is not supported
	stuck   label // the caller's frame would not be higher
}

// makeFrame makes the callback of bpf_loop, which is called for each frame. The address of the
// state is at r2. It stores the frame and continues at its caller. It returns 1 to end the walk.
//
//	int frame(u64 index, struct walk **state) {
//		struct walk *w = *state;
//		if (w->look - w->start >= w->size)
//			find the mapping of w->look, or goto nowhere;
//		if (w->how == INTERPRETER)
//			replace a frame of an evaluator by frames of its language
//		if (w->how == HOTSPOT)
//			store the frame of a method, go on at its caller, and return 0;
//		if (w->how == V8 || w->how == NODE)
//			store the frame of a function of JavaScript in place of that of its code
//		store w->pc as a frame;
//		if (w->how == TABLE || w->how == MIXED || w->how == INTERPRETER || w->how == NODE)
//			find the rule of w->look, apply it, and return 0;
//		follow the frame pointer and return 0;
//	}
func (b userWalk) makeFrame() {
	l := b.label
	c := &frameCode{
		userWalk: b, inside: l(), nowhere: l(), pointer: l(), signal: l(), cfa: l(), same: l(),
		ret: l(), next: l(), ended: l(), stop: l(), memory: l(), other: l(), stuck: l(),
	}
	b.load(asm.R6, asm.R2, 0, 8, false)
	b.load(asm.R7, asm.R6, walkLook, 8, false)
	b.load(asm.R1, asm.R6, walkStart, 8, false)
	b.load(asm.R2, asm.R6, walkSize, 8, false)
	b.mov(asm.R3, asm.R7)
	b.alu(asm.Sub, asm.R3, asm.R1)
	b.ifReg(asm.JLT, asm.R3, asm.R2, c.inside)
	c.findMapping()

	b.bind(c.inside)
	c.replaceByInterpreted()
	c.walkHotSpot()
	c.walkV8()
	b.keepFrame(c.ended)
	b.load(asm.R8, asm.R6, walkTable, 8, false)
	b.mov(asm.R1, asm.R8)
	b.add(asm.RSh.Imm(asm.R1, 32))
	table := b.label()
	b.ifImm(asm.JEq, asm.R1, CodeMixed, table, asm.R2)
	b.ifImm(asm.JEq, asm.R1, CodeNode, table, asm.R2)
	b.ifImm(asm.JEq, asm.R1, CodeInterpreter, table, asm.R2)
	b.ifImm(asm.JNE, asm.R1, CodeTable, c.pointer, asm.R2)
	b.bind(table)
	b.findRow(c.pointer, c.ended)
	c.computeCFA()
	c.unwindByTable()
	c.unwindSignal()

	b.bind(c.pointer)
	b.beforeReturn(c.same)
	b.followPointer(c.ended, c.stop, c.next)
	c.endWalk()
}

// findMapping finds the mapping of the address r7, and stores it in the state at r6:
//
//	if (look >= 1UL << 57) goto nowhere;
//	if (w->vma)
//		return to the caller with vma(w), which stores the mapping; see listedMapping
//	block = lookup(code, {w->pid >> 32, w->block});
//	if (!block) goto nowhere;
//	e = the last entry of block with e->start <= look, or the first one;
//	if (e->how == CHAIN) {
//		if (w->block >= CodeBlocks) goto nowhere;
//		w->block++;
//		return 0;                       // the next iteration searches the next block
//	}
//	w->block = 0;
//	if (look - e->start >= e->end - e->start) goto nowhere;
//	w->start = e->start; w->size = e->end - e->start; w->bias = e->bias;
//	w->table = e->table; w->how = e->how;
func (b *frameCode) findMapping() {
	const key = -8
	b.movImm(asm.R1, 1<<57) // highest user address with five levels of page tables
	b.ifReg(asm.JGE, asm.R7, asm.R1, b.nowhere)
	b.listedMapping()
	b.load(asm.R1, asm.R6, walkPID, 8, false)
	b.store(asm.R10, key, asm.R1, 4)
	b.load(asm.R8, asm.R6, walkBlock, 8, false)
	b.store(asm.R10, key+4, asm.R8, 4)
	b.mapPtr(asm.R1, MapCode)
	b.lift(asm.R2, asm.R10, key)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, b.nowhere, asm.R1)
	b.search(CodeEntries, CodeEntrySize, CodeHead, 8, asm.R7)
	b.alu(asm.Add, asm.R0, asm.R1)
	b.load(asm.R4, asm.R0, CodeHead+24, 8, false)
	b.mov(asm.R1, asm.R4)
	b.add(asm.RSh.Imm(asm.R1, 32))
	found := b.label()
	b.ifImm(asm.JNE, asm.R1, CodeChain, found, asm.R2)
	b.ifImm(asm.JGE, asm.R8, CodeBlocks, b.nowhere, asm.R2)
	b.add(asm.Add.Imm(asm.R8, 1))
	b.store(asm.R6, walkBlock, asm.R8, 8)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(found)
	b.storeImm(asm.R6, walkBlock, 0, 8, asm.R1)
	b.load(asm.R1, asm.R0, CodeHead, 8, false)
	b.load(asm.R2, asm.R0, CodeHead+8, 8, false)
	b.load(asm.R5, asm.R0, CodeHead+16, 8, false)
	b.alu(asm.Sub, asm.R2, asm.R1)
	b.mov(asm.R3, asm.R7)
	b.alu(asm.Sub, asm.R3, asm.R1)
	b.ifReg(asm.JGE, asm.R3, asm.R2, b.nowhere)
	b.store(asm.R6, walkStart, asm.R1, 8)
	b.store(asm.R6, walkSize, asm.R2, 8)
	b.store(asm.R6, walkBias, asm.R5, 8)
	b.store(asm.R6, walkTable, asm.R4, 8)
}

// listedMapping finds the mapping of the walk's address in the kernel's list, if the process has no
// blocks. A file that is not known ends the walk: makeWalk returns -2 then.
//
//	if (w->vma) {
//		found = vma(w);
//		if (found == FOUND) goto inside;
//		if (found == NOWHERE) goto nowhere;
//		if (w->pid) want(w);
//		w->n = 0; w->stop = UNKNOWN; return 1;
//	}
func (b *frameCode) listedMapping() {
	if _, listed := b.vmaLayout(); !listed {
		return
	}
	loaded, quiet := b.label(), b.label()
	b.load(asm.R1, asm.R6, walkVMA, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, loaded, asm.R2)
	b.mov(asm.R1, asm.R6)
	b.callSub(b.function("vma", b.makeVMA))
	b.ifImm(asm.JEq, asm.R0, vmaFound, b.inside, asm.R1)
	b.ifImm(asm.JEq, asm.R0, vmaNowhere, b.nowhere, asm.R1)
	b.load(asm.R1, asm.R6, walkPID, 8, false)
	b.ifImm(asm.JEq, asm.R1, 0, quiet, asm.R2)
	b.mov(asm.R1, asm.R6)
	b.callSub(b.function("want", b.makeWant))
	b.bind(quiet)
	b.storeImm(asm.R6, walkN, 0, 8, asm.R1)
	b.movImm(asm.R1, int64(StopUnknown))
	b.jump(b.stop)
	b.bind(loaded)
}

// computeCFA computes the CFA in r9 from the rule at r0, which it moves to r8. r7 is its CFA rule.
//
//	switch (rule->cfa) {
//	case END:    goto ended;
//	case SIGNAL: goto signal;
//	case SP:     cfa = sp + rule->offset; break;
//	case BP:     cfa = bp + rule->offset; break;
//	case PLT:    cfa = sp + rule->offset + ((pc & 15) >= rule->bp_offset ? 8 : 0); break;
//	case AT_SP:  cfa = *(u64 *)(sp + rule->offset); break;
//	case AT_BP:  cfa = *(u64 *)(bp + rule->offset); break;
//	default:     goto other;
//	}
func (b *frameCode) computeCFA() {
	base, plain := b.label(), b.label()
	b.mov(asm.R8, asm.R0)
	b.load(asm.R7, asm.R8, 0, 1, false)
	b.ifImm(asm.JEq, asm.R7, CFAEnd, b.ended, asm.R1)
	b.ifImm(asm.JEq, asm.R7, CFASignal, b.signal, asm.R1)
	b.ifImm(asm.JLT, asm.R7, CFASP, b.other, asm.R1)
	b.ifImm(asm.JGE, asm.R7, CFASignal, b.other, asm.R1)
	b.load(asm.R9, asm.R6, walkBP, 8, false)
	b.ifImm(asm.JEq, asm.R7, CFABP, base, asm.R1)
	b.ifImm(asm.JEq, asm.R7, CFAAtBP, base, asm.R1)
	b.load(asm.R9, asm.R6, walkSP, 8, false)
	b.bind(base)
	b.load(asm.R1, asm.R8, 4, 4, true)
	b.alu(asm.Add, asm.R9, asm.R1)
	b.ifImm(asm.JNE, asm.R7, CFAPLT, plain, asm.R1)
	b.load(asm.R1, asm.R6, walkPC, 8, false)
	b.add(asm.And.Imm(asm.R1, 15))
	b.load(asm.R2, asm.R8, 8, 4, false)
	b.ifReg(asm.JLT, asm.R1, asm.R2, b.cfa)
	b.add(asm.Add.Imm(asm.R9, 8))
	b.jump(b.cfa)
	b.bind(plain)
	b.ifImm(asm.JLT, asm.R7, CFAAtSP, b.cfa, asm.R1)
	b.mov(asm.R3, asm.R9)
	b.userWords(8, b.memory)
	b.load(asm.R9, asm.R6, walkTemp, 8, false)
}

// unwindByTable continues at the caller, given the CFA in r9 and the rule at r8:
//
//	if (cfa <= sp) goto stuck;
//	sp = cfa;
//	switch (rule->bp) {                  // CFAPLT has no such rule
//	case SAME:   break;
//	case AT_CFA: bp = *(u64 *)(cfa + rule->bp_offset); break;
//	case AT_BP:  bp = *(u64 *)(bp + rule->bp_offset); break;
//	case LOST:   bp = 1; break;          // an invalid frame pointer
//	}
//	ret = *(u64 *)(cfa - 8);
//	w->by = 0;
//	next: w->kept = w->block = w->rows = 0;
//	if (!ret) goto ended;
//	w->pc = ret; w->look = ret - 1;
//	return 0;
func (b *frameCode) unwindByTable() {
	lost, saved, apart := b.label(), b.label(), b.label()
	b.bind(b.cfa)
	b.load(asm.R1, asm.R6, walkSP, 8, false)
	b.ifReg(asm.JLE, asm.R9, asm.R1, b.stuck)
	b.store(asm.R6, walkSP, asm.R9, 8)
	b.ifImm(asm.JEq, asm.R7, CFAPLT, b.same, asm.R1)
	b.load(asm.R7, asm.R8, 1, 1, false)
	b.load(asm.R3, asm.R8, 8, 4, true)
	b.ifImm(asm.JEq, asm.R7, BPSame, b.same, asm.R1)
	b.ifImm(asm.JEq, asm.R7, BPLost, lost, asm.R1)
	b.load(asm.R1, asm.R6, walkBP, 8, false)
	b.ifImm(asm.JEq, asm.R7, BPAtBP, saved, asm.R2)
	b.ifImm(asm.JNE, asm.R3, -16, apart, asm.R2)
	b.alu(asm.Add, asm.R3, asm.R9) // most functions save it just below the return address
	b.userWords(16, b.memory)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.store(asm.R6, walkBP, asm.R1, 8)
	b.load(asm.R1, asm.R6, walkTemp+8, 8, false)
	b.jump(b.ret)
	b.bind(apart)
	b.mov(asm.R1, asm.R9)
	b.bind(saved)
	b.alu(asm.Add, asm.R3, asm.R1)
	b.userWords(8, b.memory)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.store(asm.R6, walkBP, asm.R1, 8)
	b.jump(b.same)
	b.bind(lost)
	b.storeImm(asm.R6, walkBP, 1, 8, asm.R1)
	b.bind(b.same)
	b.mov(asm.R3, asm.R9)
	b.add(asm.Sub.Imm(asm.R3, 8))
	b.userWords(8, b.memory)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.bind(b.ret)
	b.storeImm(asm.R6, walkBy, 0, 8, asm.R2)
	b.bind(b.next)
	b.storeImm(asm.R6, walkKept, 0, 8, asm.R2)
	b.storeImm(asm.R6, walkBlock, 0, 8, asm.R2)
	b.storeImm(asm.R6, walkRows, 0, 8, asm.R2)
	b.ifImm(asm.JEq, asm.R1, 0, b.ended, asm.R2)
	b.store(asm.R6, walkPC, asm.R1, 8)
	b.add(asm.Sub.Imm(asm.R1, 1))
	b.store(asm.R6, walkLook, asm.R1, 8)
	b.movImm(asm.R0, 0)
	b.exit()
}

// unwindSignal continues at the instruction that a signal interrupted:
//
//	signal: frame = sp; bp = frame->bp; sp = frame->sp; pc = frame->pc;
//	if (!pc) goto ended;
//	w->look = pc;                        // not pc - 1: it does not follow a call
//	w->by = w->kept = w->block = w->rows = 0;
//	return 0;
func (b *frameCode) unwindSignal() {
	b.bind(b.signal)
	b.load(asm.R9, asm.R6, walkSP, 8, false)
	for _, from := range [...][2]int{{signalBP, walkBP}, {signalSP, walkSP}, {signalPC, walkPC}} {
		b.lift(asm.R3, asm.R9, from[0])
		b.userWords(8, b.memory)
		b.load(asm.R1, asm.R6, walkTemp, 8, false)
		b.store(asm.R6, from[1], asm.R1, 8)
	}
	b.ifImm(asm.JEq, asm.R1, 0, b.ended, asm.R2)
	b.store(asm.R6, walkLook, asm.R1, 8)
	for _, at := range [...]int{walkBy, walkKept, walkBlock, walkRows} {
		b.storeImm(asm.R6, at, 0, 8, asm.R2)
	}
	b.movImm(asm.R0, 0)
	b.exit()
}

// endWalk generates the ends of the walk. An address in no known mapping is a frame if a table led
// to it, or if it is the first one; if a frame pointer led to it, it is none.
//
//	nowhere: if a return probe replaced the address: goto next with the real one;
//	if (!w->vma) want(w);
//	if (w->by) { w->stop = w->by; return 1; }
//	store w->pc as a frame;
//	w->stop = UNKNOWN; return 1;
//	other: w->stop = OTHER; return 1;    // and so on
func (b *frameCode) endWalk() {
	b.bind(b.nowhere)
	b.afterReturnProbe(b.next)
	listed := b.label()
	b.load(asm.R1, asm.R6, walkVMA, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, listed, asm.R2)
	b.mov(asm.R1, asm.R6)
	b.callSub(b.function("want", b.makeWant))
	b.bind(listed)
	b.load(asm.R1, asm.R6, walkBy, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, b.stop, asm.R2)
	b.keepFrame(b.ended)
	because := func(s Stop) {
		b.movImm(asm.R1, int64(s))
		b.jump(b.stop)
	}
	because(StopUnknown)
	b.bind(b.other)
	because(StopOther)
	b.bind(b.stuck)
	because(StopStuck)
	b.bind(b.memory)
	because(StopMemory)
	b.bind(b.ended)
	b.movImm(asm.R1, 0)
	b.bind(b.stop)
	b.store(asm.R6, walkStop, asm.R1, 8)
	b.movImm(asm.R0, 1)
	b.exit()
}

// returnOffsets returns the offsets of the members that contain the real return addresses of
// functions with return probes (include/linux/uprobes.h); nil: unknown.
func (b userWalk) returnOffsets() []int {
	var out []int
	for _, m := range [...][2]string{
		{"task_struct", "utask"},
		{"uprobe_task", "return_instances"},
		{"return_instance", "next"},
		{"return_instance", "stack"},
		{"return_instance", "orig_ret_vaddr"},
	} {
		off, err := b.offset(m[0], m[1])
		if err != nil {
			return nil
		}
		out = append(out, off)
	}
	return out
}

// afterReturnProbe handles a return address that a return probe has replaced. It jumps to next with
// the real one in r1. When there is none it continues here.
//
//	ri = w->ri ? w->ri->next : current->utask ? current->utask->return_instances : 0;
//	w->ri = ri;
//	if (!ri) goto none;
//	if (ri->stack != sp - 8) return 0;       // the next iteration checks the next one
//	w->ri = 0; ret = ri->orig_ret_vaddr; goto next;
//	none:
func (b userWalk) afterReturnProbe(next label) {
	const at = -16
	offs := b.returnOffsets()
	if offs == nil {
		return
	}
	more, look, none := b.label(), b.label(), b.label()
	b.load(asm.R3, asm.R6, walkReturn, 8, false)
	b.ifImm(asm.JNE, asm.R3, 0, more, asm.R1)
	b.call(asm.FnGetCurrentTask)
	b.mov(asm.R3, asm.R0)
	b.kernelWord(offs[0], 8, at)
	b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
	b.mov(asm.R3, asm.R0)
	b.kernelWord(offs[1], 8, at)
	b.jump(look)
	b.bind(more)
	b.kernelWord(offs[2], 8, at)
	b.bind(look)
	b.store(asm.R6, walkReturn, asm.R0, 8)
	b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
	b.mov(asm.R9, asm.R0)
	b.mov(asm.R3, asm.R0)
	b.kernelWord(offs[3], 8, at)
	b.load(asm.R1, asm.R6, walkSP, 8, false)
	b.add(asm.Sub.Imm(asm.R1, 8))
	other := b.label()
	b.ifReg(asm.JNE, asm.R0, asm.R1, other)
	b.storeImm(asm.R6, walkReturn, 0, 8, asm.R1)
	b.mov(asm.R3, asm.R9)
	b.kernelWord(offs[4], 8, at)
	b.mov(asm.R1, asm.R0)
	b.jump(next)
	b.bind(other)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(none)
}

// keepFrame appends the address of the state at r6 to the frames, unless it is stored already:
//
//	if (!w->kept) {
//		w->kept = 1;
//		if (w->n >= w->most || w->n > the highest depth) goto full;
//		w->frames[w->n++] = w->pc;
//	}
func (b userWalk) keepFrame(full label) {
	kept := b.label()
	b.load(asm.R1, asm.R6, walkKept, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, kept, asm.R2)
	b.storeImm(asm.R6, walkKept, 1, 8, asm.R1)
	b.load(asm.R1, asm.R6, walkN, 8, false)
	b.load(asm.R2, asm.R6, walkMost, 8, false)
	b.ifReg(asm.JGE, asm.R1, asm.R2, full)
	b.ifImm(asm.JGT, asm.R1, int64(b.lay.frames), full, asm.R2)
	b.mov(asm.R2, asm.R1)
	b.add(asm.LSh.Imm(asm.R2, 3))
	b.mov(asm.R3, asm.R6)
	b.add(asm.Add.Imm(asm.R3, int32(b.walkFrames())))
	b.alu(asm.Add, asm.R3, asm.R2)
	b.load(asm.R2, asm.R6, walkPC, 8, false)
	b.store(asm.R3, 0, asm.R2, 8)
	b.add(asm.Add.Imm(asm.R1, 1))
	b.store(asm.R6, walkN, asm.R1, 8)
	b.bind(kept)
}

// findRow leaves in r0 the address of the rule for the address r7, from the table r8 of the state
// at r6:
//
//	off = look - w->bias;
//	if (off >= 1UL << 32) goto none;
//	rows = lookup(rows, {table, off >> RowsPageBits << 4 | w->rows});
//	if (!rows) goto none;
//	row = the last row with row->off <= off % RowsPage, or the first one;
//	if (row->rule == CHAIN) {
//		if (w->rows >= RowsBlocks - 1) goto none;
//		w->rows++;
//		return 0;                            // the next iteration searches the next block
//	}
//	if (!row->rule) goto none;
//	rule = lookup(rules, row->rule);
//	if (!rule) goto ended;                   // never: the verifier requires the check
func (b userWalk) findRow(none, ended label) {
	const key = -8
	row := b.label()
	b.store(asm.R10, key, asm.R8, 4)
	b.load(asm.R1, asm.R6, walkBias, 8, false)
	b.alu(asm.Sub, asm.R7, asm.R1)
	b.movImm(asm.R1, 1<<32)
	b.ifReg(asm.JGE, asm.R7, asm.R1, none)
	b.mov(asm.R9, asm.R7)
	b.add(asm.RSh.Imm(asm.R9, RowsPageBits))
	b.add(asm.LSh.Imm(asm.R9, 4))
	b.add(asm.And.Imm(asm.R7, RowsPage-1))
	b.load(asm.R8, asm.R6, walkRows, 8, false)
	b.mov(asm.R1, asm.R9)
	b.alu(asm.Or, asm.R1, asm.R8)
	b.store(asm.R10, key+4, asm.R1, 4)
	b.mapPtr(asm.R1, MapRows)
	b.lift(asm.R2, asm.R10, key)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
	b.search(RowsEntries, 4, 0, 2, asm.R7)
	b.alu(asm.Add, asm.R0, asm.R1)
	b.load(asm.R1, asm.R0, 2, 2, false)
	b.ifImm(asm.JNE, asm.R1, RowsChain, row, asm.R2)
	b.ifImm(asm.JGE, asm.R8, RowsBlocks-1, none, asm.R2)
	b.add(asm.Add.Imm(asm.R8, 1))
	b.store(asm.R6, walkRows, asm.R8, 8)
	b.movImm(asm.R0, 0)
	b.exit()
	b.bind(row)
	b.ifImm(asm.JEq, asm.R1, 0, none, asm.R2)
	b.store(asm.R10, key, asm.R1, 4)
	b.mapPtr(asm.R1, MapRules)
	b.lift(asm.R2, asm.R10, key)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, ended, asm.R1)
}

// followPointer continues at the caller by the frame pointer: it leaves the return address in r1.
// Code of Go and of JIT compilers has frame pointers, on stacks anywhere in memory. In other code a
// frame pointer more than 16 MiB above the stack pointer is invalid.
//
//	why = the Stop for w->how;
//	if (w->how >= POINTERS) {
//		if (!bp) goto ended;
//	} else if (bp - sp >= 16 << 20)
//		goto nothing;
//	if (bp & 7) goto nothing;
//	doubt(w);
//	w->bp = ((u64 *)bp)[0]; ret = ((u64 *)bp)[1];
//	w->sp = bp + 16; w->by = why;
//	goto next;
//	nothing: stop with why
func (b userWalk) followPointer(ended, stop, next label) {
	nothing, near, follow := b.label(), b.label(), b.label()
	b.load(asm.R8, asm.R6, walkTable, 8, false)
	b.add(asm.RSh.Imm(asm.R8, 32))
	why, other := b.label(), b.label()
	b.ifImm(asm.JNE, asm.R8, CodeNode, other, asm.R1)
	b.movImm(asm.R8, CodeTable) // C++, and code of V8 that the table describes
	b.bind(other)
	// r9: the Stop to report if the frame pointer leads nowhere.
	for _, each := range [...]struct {
		how  int64
		stop Stop
	}{
		{CodeTable, StopNoRow},
		{CodeNoTable, StopNoTable},
		{CodeTooLarge, StopTooLarge},
		{CodeTooMany, StopTooMany},
		{CodeNotYet, StopNotYet},
		{CodeInterpreter, StopNoRow},
	} {
		b.movImm(asm.R9, int64(each.stop))
		b.ifImm(asm.JEq, asm.R8, each.how, why, asm.R1)
	}
	b.movImm(asm.R9, int64(StopGenerated))
	b.bind(why)
	b.load(asm.R7, asm.R6, walkBP, 8, false)
	b.ifImm(asm.JGE, asm.R8, CodePointers, near, asm.R1)
	b.load(asm.R1, asm.R6, walkSP, 8, false)
	b.mov(asm.R2, asm.R7)
	b.alu(asm.Sub, asm.R2, asm.R1)
	const largest = 16 << 20
	b.ifImm(asm.JGE, asm.R2, largest, nothing, asm.R1)
	b.jump(follow)
	b.bind(near)
	b.ifImm(asm.JEq, asm.R7, 0, ended, asm.R1)
	b.bind(follow)
	b.mov(asm.R1, asm.R7)
	b.add(asm.And.Imm(asm.R1, 7))
	b.ifImm(asm.JNE, asm.R1, 0, nothing, asm.R2)
	b.doubt()
	b.mov(asm.R3, asm.R7)
	b.userWords(16, nothing)
	b.load(asm.R1, asm.R6, walkTemp, 8, false)
	b.store(asm.R6, walkBP, asm.R1, 8)
	b.add(asm.Add.Imm(asm.R7, 16))
	b.store(asm.R6, walkSP, asm.R7, 8)
	b.store(asm.R6, walkBy, asm.R9, 8)
	b.load(asm.R1, asm.R6, walkTemp+8, 8, false)
	b.jump(next)
	b.bind(nothing)
	b.mov(asm.R1, asm.R9)
	b.jump(stop)
}

// beforeReturn handles generated code that is about to return, with or without a frame pointer: it
// jumps to found with the CFA in r9 when the next two instructions are
//
//	add $N,%rsp    48 83 c4 N
//	ret            c3
//
// CPython's trampolines of -X perf contain them. Otherwise it continues here.
func (b userWalk) beforeReturn(found label) {
	other := b.label()
	b.load(asm.R1, asm.R6, walkTable, 8, false)
	b.add(asm.RSh.Imm(asm.R1, 32))
	b.ifImm(asm.JNE, asm.R1, CodeGenerated, other, asm.R2)
	b.load(asm.R3, asm.R6, walkPC, 8, false)
	b.userWords(8, other)
	b.load(asm.R9, asm.R6, walkTemp, 8, false)
	b.mov(asm.R1, asm.R9)
	b.add(asm.And.Imm(asm.R1, 0xffffff))
	b.ifImm(asm.JNE, asm.R1, 0xc48348, other, asm.R2)
	b.mov(asm.R1, asm.R9)
	b.add(asm.RSh.Imm(asm.R1, 32))
	b.add(asm.And.Imm(asm.R1, 0xff))
	b.ifImm(asm.JNE, asm.R1, 0xc3, other, asm.R2)
	b.add(asm.RSh.Imm(asm.R9, 24))
	b.add(asm.And.Imm(asm.R9, 0xff))
	b.ifImm(asm.JGE, asm.R9, 0x80, other, asm.R2)
	b.load(asm.R1, asm.R6, walkSP, 8, false)
	b.alu(asm.Add, asm.R9, asm.R1)
	b.add(asm.Add.Imm(asm.R9, 8))
	b.store(asm.R6, walkSP, asm.R9, 8)
	b.jump(found)
	b.bind(other)
}

// doubt records that the frame pointer may not belong to the last frame. r8 is how its code is
// walked. A table without a row for this code does not describe it; without a table nothing shows
// that the code has frame pointers.
func (b userWalk) doubt() {
	sure := b.label()
	b.ifImm(asm.JGE, asm.R8, CodePointers, sure, asm.R1)
	b.load(asm.R1, asm.R6, walkDoubt, 8, false)
	b.ifImm(asm.JNE, asm.R1, 0, sure, asm.R2)
	b.load(asm.R1, asm.R6, walkN, 8, false)
	b.store(asm.R6, walkDoubt, asm.R1, 8)
	b.bind(sure)
}
