package gen

import (
	"encoding/binary"
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf/asm"
)

// in gives the machine register that holds r, which is tmp where r lives in memory.
func (b *builder) in(r ir.Reg, tmp asm.Register) asm.Register {
	if l := b.locs[r]; l.where == inReg {
		return l.reg
	}
	b.get(tmp, r)
	return tmp
}

// get copies r to a machine register.
func (b *builder) get(dst asm.Register, r ir.Reg) {
	switch l := b.locs[r]; l.where {
	case inReg:
		b.mov(dst, l.reg)
	case onStack:
		b.load(dst, asm.R10, l.off, 8, false)
	case inSpill:
		b.load(dst, asm.R9, b.lay.spill+l.off, 8, false)
	}
}

// numeric returns the machine register that holds r as a number: r's own, or tmp where r may hold a pointer that the verifier
// tracks. The verifier refuses arithmetic with pointers that may be NULL, as addresses of values of maps and kernel objects are.
func (b *builder) numeric(r ir.Reg, tmp asm.Register) asm.Register {
	if !b.pointers[r] {
		return b.in(r, tmp)
	}
	b.getNumber(tmp, r)
	return tmp
}

// getNumber copies r to a machine register, as a number.
func (b *builder) getNumber(dst asm.Register, r ir.Reg) {
	b.get(dst, r)
	if b.pointers[r] {
		b.plain(dst)
	}
}

// plain turns a pointer in a register into a number: the verifier forgets what a register points to once its bytes are
// swapped, and a swap to the byte order of the machine changes nothing (since Linux 4.1; with CAP_PERFMON). x86 and arm64 emit no
// code for it.
func (b *builder) plain(r asm.Register) {
	order := asm.LE
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		order = asm.BE
	}
	b.add(asm.HostTo(order, r, asm.DWord))
}

// pointersOf returns, by register, whether it may hold a pointer that the verifier tracks: an address of a map's value, an
// argument of a BTF-typed probe, the current task, or a pointer read from an object of known type.
func pointersOf(f *ir.Func) []bool {
	is := make([]bool, f.Regs)
	for _, bl := range f.Blocks {
		for i := range bl.Steps {
			switch s := &bl.Steps[i]; s.Op {
			case ir.OpFind, ir.OpMake:
				is[s.Dst] = true
			case ir.OpBuiltin:
				switch s.Which {
				case check.BuiltinArg, check.BuiltinSite, check.BuiltinCurthread:
					is[s.Dst] = true
				}
			case ir.OpRead:
				is[s.Dst] = is[s.Dst] || s.Space == check.Typed && s.Size == 8
			case ir.OpMove:
				is[s.Dst] = is[s.Dst] || is[s.A]
			}
		}
	}
	return is
}

// out gives the machine register in which r is to be made: its own, else tmp. put then brings it to where r lives.
func (b *builder) out(r ir.Reg, tmp asm.Register) asm.Register {
	if r != ir.None && b.locs[r].where == inReg {
		return b.locs[r].reg
	}
	return tmp
}

func (b *builder) put(r ir.Reg, src asm.Register) {
	if r == ir.None {
		return
	}
	switch l := b.locs[r]; l.where {
	case inReg:
		b.mov(l.reg, src)
	case onStack:
		b.store(asm.R10, l.off, src, 8)
	case inSpill:
		b.store(asm.R9, b.lay.spill+l.off, src, 8)
	}
}

// spills says whether a step's registers live in scratch memory.
func (b *builder) spills(s *ir.Step) bool {
	if s.Dst != ir.None && b.locs[s.Dst].where == inSpill {
		return true
	}
	found := false
	reads(s, func(r ir.Reg) { found = found || b.locs[r].where == inSpill })
	return found
}

// place gives a base register and an offset for a memory: tmp is used where it needs to be computed. Memory of the thread that
// is not to be had is zeroes to be read; a writer is led to none, and the loss counted. It changes r0 to r5 for InSelf, of which
// the result is in tmp, which a call in between would lose.
func (b *builder) place(m ir.Mem, tmp asm.Register, write bool, none label) (base asm.Register, off int) {
	switch m.Base {
	case ir.InScratch:
		base, off = asm.R9, scratchHeader+m.Off
	case ir.InGlobals:
		b.mapValue(tmp, MapGlobals, m.Off)
		return tmp, 0
	case ir.InLiteral:
		b.mapValue(tmp, MapLiterals, m.Off)
		return tmp, 0
	case ir.InValue:
		base, off = b.in(m.Reg, tmp), m.Off
	case ir.InSelf:
		if write {
			b.self(true, none)
			b.mov(tmp, asm.R0)
			return tmp, m.Off
		}
		absent, done := b.label(), b.label()
		b.self(false, absent)
		b.mov(tmp, asm.R0)
		b.jump(done)
		b.bind(absent)
		b.mapValue(tmp, MapLiterals, b.lay.zeroes)
		b.bind(done)
		return tmp, m.Off
	}
	return base, off
}

// address leaves the address of a memory in dst, as a pointer that the verifier follows.
func (b *builder) address(dst asm.Register, m ir.Mem, write bool, none label) {
	base, off := b.place(m, dst, write, none)
	b.mov(dst, base)
	if off != 0 {
		b.aluImm(asm.Add, dst, int64(off), asm.R0)
	}
}

// self leaves the address of the thread's variables in r0, and leads to none where there are none: with make, that is
// counted.
func (b *builder) self(create bool, none label) {
	if b.flow.self == always {
		b.load(asm.R0, asm.R10, slotSelf, 8, false)
		return
	}
	had := b.label()
	if b.flow.self != never {
		b.load(asm.R0, asm.R10, slotSelf, 8, false)
		b.ifImm(asm.JNE, asm.R0, 0, had, asm.R1)
	}
	b.selfOf()
	if create {
		b.callSub(b.function("self", func() { b.makeSelf(true) }))
	} else {
		b.callSub(b.function("self?", func() { b.makeSelf(false) }))
	}
	b.store(asm.R10, slotSelf, asm.R0, 8)
	b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
	b.bind(had)
	// On the way to none there is none: the slot must not be taken for granted behind it.
	b.flow.self = never | always
}

// makeSelf makes the function that finds the variables of the thread, or with create makes them, zero; 0: there are none.
func (b *builder) makeSelf(create bool) {
	got, done := b.label(), b.label()
	if b.k.TaskStorage {
		if !b.other() {
			b.call(asm.FnGetCurrentTaskBtf)
			b.mov(asm.R1, asm.R0)
		}
		b.mov(asm.R2, asm.R1)
		b.mapPtr(asm.R1, MapSelf)
		b.movImm(asm.R3, 0)
		b.movImm(asm.R4, 0)
		if create {
			b.movImm(asm.R4, 1) // BPF_LOCAL_STORAGE_GET_F_CREATE
		}
		b.call(asm.FnTaskStorageGet)
	} else {
		// By the thread's id; the idle threads have none, so by their CPU.
		if b.other() {
			b.mov(asm.R0, asm.R1)
		} else {
			b.call(asm.FnGetCurrentPidTgid)
		}
		known := b.label()
		b.extend(asm.R0, 4, false)
		b.ifImm(asm.JNE, asm.R0, 0, known, asm.R1)
		b.call(asm.FnGetSmpProcessorId)
		b.movImm(asm.R1, 1<<32)
		b.alu(asm.Or, asm.R0, asm.R1)
		b.bind(known)
		b.store(asm.R10, -8, asm.R0, 8)
		look := func() {
			b.mapPtr(asm.R1, MapSelf)
			b.mov(asm.R2, asm.R10)
			b.aluImm(asm.Add, asm.R2, -8, asm.R0)
		}
		look()
		b.call(asm.FnMapLookupElem)
		if create {
			b.ifImm(asm.JNE, asm.R0, 0, got, asm.R1)
			look()
			b.mapValue(asm.R3, MapLiterals, b.lay.zeroes)
			b.movImm(asm.R4, 1) // BPF_NOEXIST
			b.call(asm.FnMapUpdateElem)
			look()
			b.call(asm.FnMapLookupElem)
		}
	}
	b.bind(got)
	if create {
		b.ifImm(asm.JNE, asm.R0, 0, done, asm.R1)
		b.drop(ir.DropDynamic)
		b.movImm(asm.R0, 0)
		b.bind(done)
	}
	b.exit()
}

// inScratch says whether a step needs scratch memory, registers aside.
func inScratch(p *ir.Program, s *ir.Step) bool {
	for _, m := range [...]*ir.Mem{&s.Mem, &s.From, &s.From2} {
		if m.Base == ir.InScratch && usesMem(p, s, m) {
			return true
		}
	}
	switch s.Op {
	case ir.OpStack, ir.OpAddress, ir.OpPoke, ir.OpAct:
		return true
	case ir.OpBuiltinStr:
		return s.Which == check.BuiltinExecargs
	case ir.OpBuiltin:
		switch s.Which {
		case check.BuiltinStackDepth, check.BuiltinUStackDepth, check.BuiltinCaller, check.BuiltinUCaller, check.BuiltinFrame, check.BuiltinUFrame:
			return true
		}
	case ir.OpCall:
		switch s.Sub {
		case check.SubHtons, check.SubNtohs, check.SubHtonl, check.SubNtohl, check.SubHtonll, check.SubNtohll, check.SubRand, check.SubProgenyof,
			check.SubMutexOwned, check.SubMutexOwner, check.SubMutexTypeAdaptive, check.SubMutexTypeSpin:
		default:
			return true
		}
	}
	return false
}

// usesMem says whether a memory of a step means something.
func usesMem(p *ir.Program, s *ir.Step, m *ir.Mem) bool {
	switch s.Op {
	case ir.OpLoad, ir.OpStore, ir.OpZero, ir.OpAddress, ir.OpReadMem, ir.OpReadStr, ir.OpBuiltinStr, ir.OpFind, ir.OpMake, ir.OpDelete, ir.OpEmit:
		return m == &s.Mem
	case ir.OpAggregate:
		return m == &s.Mem && p.Aggs[s.N].Key.Size > 0
	case ir.OpCopy, ir.OpStrCompare:
		return m != &s.From2
	case ir.OpCall: // where one stands it means something
		return false
	}
	return false
}

// step makes the instructions of one step that leads on to the next.
func (b *builder) step(s *ir.Step) error {
	if inScratch(b.p, s) || b.spills(s) || b.k.cutsKey(b.p, s) {
		b.scratch()
	}
	if err := b.refuse(s); err != nil {
		return err
	}
	next := b.label()
	switch s.Op {
	case ir.OpConst:
		d := b.out(s.Dst, asm.R0)
		b.movImm(d, s.Imm)
		b.put(s.Dst, d)
	case ir.OpMove:
		d := b.out(s.Dst, asm.R0)
		b.get(d, s.A)
		b.put(s.Dst, d)
	case ir.OpAdd, ir.OpSub, ir.OpMul, ir.OpAnd, ir.OpOr, ir.OpXor, ir.OpShl, ir.OpShr:
		b.arithmetic(s)
	case ir.OpDiv, ir.OpMod:
		b.divide(s)
	case ir.OpNeg, ir.OpNot:
		d := b.out(s.Dst, asm.R0)
		b.getNumber(d, s.A)
		if s.Op == ir.OpNeg {
			b.add(asm.Neg.Imm(d, 0))
		} else {
			b.add(asm.Xor.Imm(d, -1))
		}
		b.put(s.Dst, d)
	case ir.OpExtend:
		d := b.out(s.Dst, asm.R0)
		b.getNumber(d, s.A)
		b.extend(d, s.Size, s.Signed)
		b.put(s.Dst, d)
	case ir.OpSet:
		d := b.out(s.Dst, asm.R0)
		a, c := b.compared(s)
		b.movImm(d, 1)
		b.compare(s, s.Cond, a, c, next)
		b.movImm(d, 0)
		b.bind(next)
		b.put(s.Dst, d)
	case ir.OpLoad:
		d := b.out(s.Dst, asm.R0)
		base, off := b.place(s.Mem, asm.R1, false, 0)
		b.load(d, base, off, s.Size, s.Signed)
		b.put(s.Dst, d)
	case ir.OpStore:
		b.storeStep(s, next)
	case ir.OpZero:
		base, off := b.place(s.Mem, asm.R4, true, next)
		b.zeroBytes(base, off, s.Size)
	case ir.OpCopy:
		b.copyStep(s, next)
	case ir.OpBuiltin:
		return b.builtin(s)
	case ir.OpBuiltinStr:
		return b.builtinStr(s, next)
	case ir.OpFind, ir.OpMake, ir.OpDelete:
		b.find(s)
	case ir.OpAggregate:
		b.aggregate(s)
	case ir.OpEmit:
		b.emit(s)
	case ir.OpExit:
		b.mapValue(asm.R1, MapState, 0)
		b.storeImm(asm.R1, 0, Draining, 8, asm.R0)
	case ir.OpRead:
		return b.read(s)
	case ir.OpReadMem:
		b.readMem(s, next)
	case ir.OpReadStr:
		b.readString(s, next)
	case ir.OpAddress:
		b.addressStep(s)
	case ir.OpPoke:
		b.poke(s)
	case ir.OpStrCompare:
		b.strCompare(s)
	case ir.OpCall:
		if err := b.subroutine(s, next); err != nil {
			return err
		}
	case ir.OpStack:
		b.stack(s)
	case ir.OpSpeculate:
		b.callSub(b.function("speculate", b.makeSpeculate))
		b.put(s.Dst, asm.R0)
	case ir.OpAct:
		if err := b.act(s); err != nil {
			return err
		}
	default:
		return fmt.Errorf("step %d of the intermediate form: %w", s.Op, measure.ErrUnsupported)
	}
	if !b.placed(next) {
		b.bind(next)
	}
	return nil
}

func (e *emitter) placed(l label) bool { return e.labels[l] >= 0 }

func (b *builder) arithmetic(s *ir.Step) {
	var op asm.ALUOp
	switch s.Op {
	case ir.OpAdd:
		op = asm.Add
	case ir.OpSub:
		op = asm.Sub
	case ir.OpMul:
		op = asm.Mul
	case ir.OpAnd:
		op = asm.And
	case ir.OpOr:
		op = asm.Or
	case ir.OpXor:
		op = asm.Xor
	case ir.OpShl:
		op = asm.LSh
	case ir.OpShr:
		op = asm.RSh
		if s.Signed {
			op = asm.ArSh
		}
	}
	d := b.out(s.Dst, asm.R0)
	shift := s.Op == ir.OpShl || s.Op == ir.OpShr
	if s.B == ir.None {
		b.getNumber(d, s.A)
		if shift {
			b.add(op.Imm(d, int32(s.Imm&63)))
		} else {
			b.aluImm(op, d, s.Imm, asm.R2)
		}
	} else {
		c := b.numeric(s.B, asm.R2)
		if shift { // the verifier takes no counts that may be too great
			b.mov(asm.R2, c)
			b.add(asm.And.Imm(asm.R2, 63))
			c = asm.R2
		}
		b.getNumber(d, s.A)
		b.alu(op, d, c)
	}
	b.put(s.Dst, d)
}

// divide makes unsigned divisions; signed ones of what is without its sign, which old kernels have no instruction for.
func (b *builder) divide(s *ir.Step) {
	op := asm.Div
	if s.Op == ir.OpMod {
		op = asm.Mod
	}
	d := b.out(s.Dst, asm.R0)
	b.getNumber(asm.R0, s.A)
	if !s.Signed {
		if s.B != ir.None {
			b.alu(op, asm.R0, b.numeric(s.B, asm.R2))
		} else {
			b.aluImm(op, asm.R0, s.Imm, asm.R2)
		}
		b.mov(d, asm.R0)
		b.put(s.Dst, d)
		return
	}
	if s.B != ir.None {
		b.getNumber(asm.R2, s.B)
	} else {
		b.movImm(asm.R2, s.Imm)
	}
	// r3: all ones where the result is negative. x = (x ^ m) - m is without its sign, where m is its sign.
	b.mov(asm.R1, asm.R0)
	b.add(asm.ArSh.Imm(asm.R1, 63))
	b.mov(asm.R3, asm.R1)
	b.alu(asm.Xor, asm.R0, asm.R1)
	b.alu(asm.Sub, asm.R0, asm.R1)
	b.mov(asm.R1, asm.R2)
	b.add(asm.ArSh.Imm(asm.R1, 63))
	b.alu(asm.Xor, asm.R2, asm.R1)
	b.alu(asm.Sub, asm.R2, asm.R1)
	if s.Op == ir.OpDiv {
		b.alu(asm.Xor, asm.R3, asm.R1)
	}
	b.alu(op, asm.R0, asm.R2)
	b.alu(asm.Xor, asm.R0, asm.R3)
	b.alu(asm.Sub, asm.R0, asm.R3)
	b.put(s.Dst, asm.R0)
}

// branch leads to a label where the step's registers compare so.
func (b *builder) branch(s *ir.Step, c ir.Cond, to label) {
	if b.spills(s) {
		b.scratch()
	}
	a, other := b.compared(s)
	b.compare(s, c, a, other, to)
}

// compared returns the registers that a step compares. A pointer that is compared with NULL stays one: that is the check
// that the verifier asks for before loads.
func (b *builder) compared(s *ir.Step) (a, other asm.Register) {
	if s.B != ir.None {
		return b.numeric(s.A, asm.R1), b.numeric(s.B, asm.R2)
	}
	if s.Imm == 0 && (s.Cond == ir.Eq || s.Cond == ir.Ne) {
		return b.in(s.A, asm.R1), other
	}
	return b.numeric(s.A, asm.R1), other
}

func (b *builder) compare(s *ir.Step, c ir.Cond, a, other asm.Register, to label) {
	op := jumpOp(c, s.Signed)
	if s.B == ir.None {
		b.ifImm(op, a, s.Imm, to, asm.R3)
	} else {
		b.ifReg(op, a, other, to)
	}
}

func jumpOp(c ir.Cond, signed bool) asm.JumpOp {
	switch {
	case c == ir.Eq:
		return asm.JEq
	case c == ir.Ne:
		return asm.JNE
	case c == ir.Lt && signed:
		return asm.JSLT
	case c == ir.Lt:
		return asm.JLT
	case c == ir.Le && signed:
		return asm.JSLE
	case c == ir.Le:
		return asm.JLE
	case c == ir.Gt && signed:
		return asm.JSGT
	case c == ir.Gt:
		return asm.JGT
	case signed:
		return asm.JSGE
	}
	return asm.JGE
}

func negate(c ir.Cond) ir.Cond {
	return [...]ir.Cond{ir.Eq: ir.Ne, ir.Ne: ir.Eq, ir.Lt: ir.Ge, ir.Le: ir.Gt, ir.Gt: ir.Le, ir.Ge: ir.Lt}[c]
}

// storeStep writes a number. Zero is what a thread has that has no variables: none are made for it.
func (b *builder) storeStep(s *ir.Step, none label) {
	create := s.A != ir.None || s.Imm != 0
	var base asm.Register
	var off int
	if s.Mem.Base == ir.InSelf && !create {
		b.self(false, none)
		base, off = asm.R0, s.Mem.Off
	} else {
		base, off = b.place(s.Mem, asm.R4, true, none)
	}
	if s.A == ir.None {
		b.storeImm(base, off, s.Imm, s.Size, asm.R1)
		return
	}
	b.store(base, off, b.in(s.A, asm.R1), s.Size)
}

// zeroBytes writes size zeroes.
func (b *builder) zeroBytes(base asm.Register, off, size int) {
	for size > 0 && (off&7 != 0 || size < 8) {
		n := piece(off, min(size, 7))
		b.storeImm(base, off, 0, n, asm.R1)
		off, size = off+n, size-n
	}
	words := size &^ 7
	b.zeroFill(base, off, words)
	if size > words {
		b.zeroBytes(base, off+words, size-words)
	}
}

// piece is how many bytes to move at once, of those that are left.
func piece(off, left int) int {
	for n := 8; n > 1; n /= 2 {
		if left >= n && off%n == 0 {
			return n
		}
	}
	return 1
}

// copyMost is how many bytes are copied by instructions; a helper does more faster.
const copyMost = 128

func (b *builder) copyStep(s *ir.Step, none label) {
	to, from := s.Mem, s.From
	toTmp, fromTmp := asm.R4, asm.R5
	var toBase, fromBase asm.Register
	var toOff, fromOff int
	if to.Base == ir.InSelf { // what calls comes first
		toBase, toOff = b.place(to, toTmp, true, none)
		if from.Base == ir.InSelf { // the same memory, then
			fromBase, fromOff = toBase, from.Off
		} else {
			fromBase, fromOff = b.place(from, fromTmp, false, none)
		}
	} else {
		fromBase, fromOff = b.place(from, fromTmp, false, none)
		toBase, toOff = b.place(to, toTmp, true, none)
	}
	b.copyBytes(toBase, toOff, fromBase, fromOff, s.Size)
}

// copyBytes copies between pieces of memory of the script that do not overlap. It changes r0 to r5.
func (b *builder) copyBytes(to asm.Register, toOff int, from asm.Register, fromOff, size int) {
	if size > copyMost {
		b.mov(asm.R3, from)
		b.aluImm(asm.Add, asm.R3, int64(fromOff), asm.R0)
		b.mov(asm.R1, to)
		b.aluImm(asm.Add, asm.R1, int64(toOff), asm.R0)
		b.movImm(asm.R2, int64(size))
		b.call(asm.FnProbeReadKernel)
		return
	}
	for at := 0; at < size; {
		n := piece((toOff+at)|(fromOff+at), size-at)
		b.load(asm.R0, from, fromOff+at, n, false)
		b.store(to, toOff+at, asm.R0, n)
		at += n
	}
}

// emit writes a record to the ring buffer.
func (b *builder) emit(s *ir.Step) {
	rec := &b.p.Records[s.N]
	kept := b.label()
	m := s.Mem
	b.time()
	base, off := b.place(m, asm.R4, true, kept)
	at := func(n int) (asm.Register, int) {
		if base != asm.R9 { // a call may have come between
			base, off = b.place(m, asm.R4, true, kept)
		}
		return base, off + n
	}
	r, o := at(0)
	b.store(r, o, asm.R0, 8)
	b.storeImm(r, o+8, int64(s.N), 4, asm.R1)
	b.probeID(asm.R1)
	r, o = at(12)
	b.store(r, o, asm.R1, 4)
	b.call(asm.FnGetSmpProcessorId)
	r, o = at(16)
	b.store(r, o, asm.R0, 4)
	b.ids()
	r, o = at(20)
	b.store(r, o, asm.R0, 4)
	b.movImm(asm.R4, wake(rec))
	if wake(rec) == ringQuiet {
		// User space looks in by itself now and then; it is called when much has come.
		// Once more each time so much has come, by several records, as another CPU may come between.
		few := b.label()
		b.mapPtr(asm.R1, MapRing)
		b.movImm(asm.R2, 0) // BPF_RB_AVAIL_DATA
		b.call(asm.FnRingbufQuery)
		b.movImm(asm.R4, ringQuiet)
		b.ifImm(asm.JLT, asm.R0, ringMany, few, asm.R1)
		b.add(asm.And.Imm(asm.R0, ringMany-1))
		b.ifImm(asm.JGE, asm.R0, int64(max(ringMany/16, 4*rec.Size)), few, asm.R1)
		b.movImm(asm.R4, ringWake)
		b.bind(few)
	}
	b.mapPtr(asm.R1, MapRing)
	b.address(asm.R2, m, true, kept)
	b.movImm(asm.R3, int64(rec.Size))
	b.call(asm.FnRingbufOutput)
	b.ifImm(asm.JEq, asm.R0, 0, kept, asm.R1)
	b.drop(ir.DropRecord)
	b.bind(kept)
}

const (
	ringQuiet = 1        // BPF_RB_NO_WAKEUP
	ringWake  = 2        // BPF_RB_FORCE_WAKEUP
	ringMany  = 32 << 10 // bytes that wait to be read
)

// wake says whether user space is to be woken up for a record: at once, when the script ends.
func wake(r *ir.Record) int64 {
	for _, a := range r.Actions {
		if a.Action.Action.Kind == check.Exit {
			return ringWake
		}
	}
	return ringQuiet
}

// read reads from an address.
func (b *builder) read(s *ir.Step) error {
	d := b.out(s.Dst, asm.R0)
	if s.Space == check.Typed {
		a := b.in(s.A, asm.R1)
		if s.Imm != int64(int16(s.Imm)) {
			return fmt.Errorf("a member %d bytes into a struct: %w", s.Imm, ErrTooLarge)
		}
		b.load(d, a, int(s.Imm), s.Size, s.Signed)
		b.put(s.Dst, d)
		return nil
	}
	good := b.label()
	b.getNumber(asm.R3, s.A)
	if s.Imm != 0 {
		b.aluImm(asm.Add, asm.R3, s.Imm, asm.R1)
	}
	b.mov(asm.R1, asm.R10)
	b.aluImm(asm.Add, asm.R1, slotTemp, asm.R0)
	b.movImm(asm.R2, int64(s.Size))
	b.call(readFrom(s.Space))
	b.ifImm(asm.JEq, asm.R0, 0, good, asm.R1)
	b.badAddress(s)
	b.bind(good)
	b.load(d, asm.R10, slotTemp, s.Size, s.Signed)
	b.put(s.Dst, d)
	return nil
}

func readFrom(s check.Space) asm.BuiltinFunc {
	if s == check.User {
		return asm.FnProbeReadUser
	}
	return asm.FnProbeReadKernel
}

// badAddress ends the clause with the fault of the address that a step could not use.
func (b *builder) badAddress(s *ir.Step) {
	b.getNumber(asm.R3, s.A)
	if s.Imm != 0 && (s.Op == ir.OpRead || s.Op == ir.OpPoke) {
		null := b.label() // a member of what is at no address: that is what is wrong
		b.ifImm(asm.JEq, asm.R3, 0, null, asm.R1)
		b.aluImm(asm.Add, asm.R3, s.Imm, asm.R1)
		b.bind(null)
	}
	b.ends.join(b.flow)
	b.faultAt(ir.FaultBadAddr)
}
