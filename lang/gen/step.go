package gen

import (
	"encoding/binary"
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/measure"

	"github.com/cilium/ebpf/asm"
)

// in returns the machine register that contains r, loading it into tmp if it is in memory.
func (b *builder) in(r ir.Reg, tmp asm.Register) asm.Register {
	if l := b.current.locs[r]; l.where == inReg {
		return l.reg
	}
	b.get(tmp, r)
	return tmp
}

// get copies r to a machine register.
func (b *builder) get(dst asm.Register, r ir.Reg) {
	switch l := b.current.locs[r]; l.where {
	case inReg:
		b.mov(dst, l.reg)
	case onStack:
		b.load(dst, asm.R10, l.off, 8, false)
	case inSpill:
		b.load(dst, asm.R9, b.lay.spill+l.off, 8, false)
	}
}

// numeric returns the machine register that contains r as a number: r's own, or tmp if r may be a
// pointer tracked by the verifier. The verifier refuses arithmetic on pointers that may be NULL,
// such as addresses of map values and kernel objects.
func (b *builder) numeric(r ir.Reg, tmp asm.Register) asm.Register {
	if !b.current.pointers[r] {
		return b.in(r, tmp)
	}
	b.getNumber(tmp, r)
	return tmp
}

// getNumber copies r to a machine register, as a number.
func (b *builder) getNumber(dst asm.Register, r ir.Reg) {
	b.get(dst, r)
	if b.current.pointers[r] {
		b.plain(dst)
	}
}

// plain turns a pointer in a register into a number. The verifier forgets the pointer when the
// bytes are swapped, and a swap to the machine's byte order changes nothing (since Linux 4.1; with
// CAP_PERFMON). x86 and arm64 emit no code for it.
func (b *builder) plain(r asm.Register) {
	order := asm.LE
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		order = asm.BE
	}
	b.add(asm.HostTo(order, r, asm.DWord))
}

// pointersOf returns, by register, whether it may contain a pointer tracked by the verifier: the
// address of a map's value, an argument of a BTF-typed probe, the current task, or a pointer read
// from an object of known type.
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

// out returns the machine register to compute r in: its own, or tmp. put then stores it to r's
// place.
func (b *builder) out(r ir.Reg, tmp asm.Register) asm.Register {
	if r != ir.None && b.current.locs[r].where == inReg {
		return b.current.locs[r].reg
	}
	return tmp
}

func (b *builder) put(r ir.Reg, src asm.Register) {
	if r == ir.None {
		return
	}
	switch l := b.current.locs[r]; l.where {
	case inReg:
		b.mov(l.reg, src)
	case onStack:
		b.store(asm.R10, l.off, src, 8)
	case inSpill:
		b.store(asm.R9, b.lay.spill+l.off, src, 8)
	}
}

// spills reports whether a step's registers are in scratch memory.
func (b *builder) spills(s *ir.Step) bool {
	if s.Dst != ir.None && b.current.locs[s.Dst].where == inSpill {
		return true
	}
	found := false
	reads(s, func(r ir.Reg) { found = found || b.current.locs[r].where == inSpill })
	return found
}

// place returns a base register and an offset for a memory; tmp is used if the base must be
// computed. Missing thread-local memory reads as zeroes; a write jumps to none, and the loss is
// counted. For InSelf it changes r0 to r5, and the result is in tmp, which a call would destroy.
func (b *builder) place(
	m ir.Mem, tmp asm.Register, write bool, none label,
) (base asm.Register, off int) {
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

// address leaves the address of a memory in dst, as a pointer tracked by the verifier.
func (b *builder) address(dst asm.Register, m ir.Mem, write bool, none label) {
	base, off := b.place(m, dst, write, none)
	b.mov(dst, base)
	if off != 0 {
		b.aluImm(asm.Add, dst, int64(off), asm.R0)
	}
}

// inScratch reports whether a step needs scratch memory, not counting registers.
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
		case check.BuiltinStackDepth,
			check.BuiltinUStackDepth,
			check.BuiltinCaller,
			check.BuiltinUCaller,
			check.BuiltinFrame,
			check.BuiltinUFrame:
			return true
		}
	case ir.OpCall:
		switch s.Sub {
		case check.SubHtons,
			check.SubNtohs,
			check.SubHtonl,
			check.SubNtohl,
			check.SubHtonll,
			check.SubNtohll,
			check.SubRand,
			check.SubProgenyof,
			check.SubMutexOwned,
			check.SubMutexOwner,
			check.SubMutexTypeAdaptive,
			check.SubMutexTypeSpin:
		default:
			return true
		}
	}
	return false
}

// usesMem reports whether a step uses a memory operand.
func usesMem(p *ir.Program, s *ir.Step, m *ir.Mem) bool {
	switch s.Op {
	case ir.OpLoad,
		ir.OpStore,
		ir.OpZero,
		ir.OpAddress,
		ir.OpReadMem,
		ir.OpReadStr,
		ir.OpBuiltinStr,
		ir.OpFind,
		ir.OpMake,
		ir.OpDelete,
		ir.OpEmit:
		return m == &s.Mem
	case ir.OpAggregate:
		return m == &s.Mem && p.Aggs[s.N].Key.Size > 0
	case ir.OpCopy, ir.OpStrCompare:
		return m != &s.From2
	case ir.OpCall: // used if present
		return false
	}
	return false
}

// step generates a step that continues with the next one.
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
	case ir.OpRan:
		b.storeImm(asm.R10, slotRan, 1, 8, asm.R0)
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
		return fmt.Errorf("unknown step %d: %w", s.Op, measure.ErrUnsupported)
	}
	if !b.placed(next) {
		b.bind(next)
	}
	return nil
}

func (e *emitter) placed(l label) bool { return e.labels[l] >= 0 }

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
	b.readFailed(s, good)
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

// readFailed ends the clause with a fault if a read has failed, whose result is in r0; otherwise it
// continues at good. Programs of bpftrace go on: the helpers have filled the memory with zeroes.
func (b *builder) readFailed(s *ir.Step, good label) {
	if !b.p.Source.Options.Bpftrace {
		b.ifImm(asm.JEq, asm.R0, 0, good, asm.R1)
		b.badAddress(s)
	}
	b.bind(good)
}

// badAddress ends the clause with the fault of the address that a step could not use.
func (b *builder) badAddress(s *ir.Step) {
	b.getNumber(asm.R3, s.A)
	if s.Imm != 0 && (s.Op == ir.OpRead || s.Op == ir.OpPoke) {
		null := b.label() // a member of NULL: report the address 0
		b.ifImm(asm.JEq, asm.R3, 0, null, asm.R1)
		b.aluImm(asm.Add, asm.R3, s.Imm, asm.R1)
		b.bind(null)
	}
	b.current.ends.join(b.current.flow)
	b.faultAt(ir.FaultBadAddr)
}
