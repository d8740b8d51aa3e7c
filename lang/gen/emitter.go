package gen

import (
	"errors"
	"math"

	"culprit/lang/syntax"

	"github.com/cilium/ebpf/asm"
)

// ErrTooLarge is a program with a jump beyond its range, or that needs too much memory.
var ErrTooLarge = errors.New("too large for one BPF program")

// A label is a target of jumps and calls.
type label int

// An emitter collects instructions. Jumps are resolved at the end to numeric offsets, so that the
// loader needs no lookups.
type emitter struct {
	ins    asm.Instructions
	labels []int // the index of the instruction after each; -1: not placed yet
	wanted []bool
	fixes  []fix
	places []Origin
	at     syntax.Span
	// the next instructions are unreachable and are dropped, because the verifier refuses them
	dead bool
}

// A fix is an instruction that refers to a label.
type fix struct {
	ins   int
	label label
}

func (e *emitter) label() label {
	e.labels = append(e.labels, -1)
	e.wanted = append(e.wanted, false)
	return label(len(e.labels) - 1)
}

func (e *emitter) bind(l label) {
	e.labels[l] = len(e.ins)
	e.dead = e.dead && !e.wanted[l]
}

// lead records that the next instruction refers to a label.
func (e *emitter) lead(l label) {
	if !e.dead {
		e.fixes = append(e.fixes, fix{len(e.ins), l})
		e.wanted[l] = true
	}
}

func (e *emitter) add(i asm.Instruction) {
	if e.dead {
		return
	}
	if e.at.To > e.at.From && (len(e.places) == 0 || e.places[len(e.places)-1].At != e.at) {
		e.places = append(e.places, Origin{First: len(e.ins), At: e.at})
	}
	e.ins = append(e.ins, i)
}

func (e *emitter) mov(dst, src asm.Register) {
	if dst != src {
		e.add(asm.Mov.Reg(dst, src))
	}
}

func (e *emitter) movImm(dst asm.Register, v int64) {
	switch {
	case v >= math.MinInt32 && v <= math.MaxInt32:
		e.add(asm.Mov.Imm(dst, int32(v)))
	case v > 0 && v <= math.MaxUint32:
		e.add(asm.Mov.Imm32(dst, int32(uint32(v))))
	default:
		e.add(asm.LoadImm(dst, v, asm.DWord))
	}
}

func (e *emitter) alu(op asm.ALUOp, dst, src asm.Register) { e.add(op.Reg(dst, src)) }

// aluImm does dst = dst op v; tmp is used if v does not fit in an instruction.
func (e *emitter) aluImm(op asm.ALUOp, dst asm.Register, v int64, tmp asm.Register) {
	if fits(v) {
		e.add(op.Imm(dst, int32(v)))
		return
	}
	e.movImm(tmp, v)
	e.add(op.Reg(dst, tmp))
}

func fits(v int64) bool { return v >= math.MinInt32 && v <= math.MaxInt32 }

func sizeOf(n int) asm.Size {
	switch n {
	case 1:
		return asm.Byte
	case 2:
		return asm.Half
	case 4:
		return asm.Word
	}
	return asm.DWord
}

// load reads size bytes, zero-extended or, if signed, sign-extended.
func (e *emitter) load(dst, base asm.Register, off, size int, signed bool) {
	e.add(asm.LoadMem(dst, base, int16(off), sizeOf(size)))
	if signed {
		e.signExtend(dst, size)
	}
}

func (e *emitter) signExtend(r asm.Register, size int) {
	if size < 8 {
		e.add(asm.LSh.Imm(r, int32(64-8*size)))
		e.add(asm.ArSh.Imm(r, int32(64-8*size)))
	}
}

func (e *emitter) extend(r asm.Register, size int, signed bool) {
	switch {
	case size >= 8:
	case signed:
		e.signExtend(r, size)
	case size == 4:
		e.add(asm.Mov.Reg32(r, r))
	default:
		e.add(asm.And.Imm(r, 1<<(8*size)-1))
	}
}

func (e *emitter) store(base asm.Register, off int, src asm.Register, size int) {
	e.add(asm.StoreMem(base, int16(off), src, sizeOf(size)))
}

// storeImm writes a number; tmp is used for an 8-byte number that does not fit in an instruction.
func (e *emitter) storeImm(base asm.Register, off int, v int64, size int, tmp asm.Register) {
	switch {
	case size < 8:
		e.add(asm.StoreImm(base, int16(off), int64(int32(v)), sizeOf(size)))
	case fits(v):
		// cilium/ebpf v0.22's StoreImm uses an opcode for DWord that the kernel refuses.
		e.add(asm.Instruction{OpCode: storeImm8, Dst: base, Offset: int16(off), Constant: v})
	default:
		e.movImm(tmp, v)
		e.store(base, off, tmp, 8)
	}
}

const storeImm8 = asm.OpCode(0x7a) // BPF_ST | BPF_MEM | BPF_DW

// atomic does an 8-byte atomic operation. cilium/ebpf v0.22 encodes every one as an addition unless
// Constant is set, too.
func (e *emitter) atomic(op asm.AtomicOp, base asm.Register, off int, src asm.Register) {
	i := op.Mem(base, src, asm.DWord, int16(off))
	i.Constant = int64(op >> 8)
	e.add(i)
}

func (e *emitter) call(fn asm.BuiltinFunc) { e.add(fn.Call()) }

// callSub calls a function of the program.
func (e *emitter) callSub(l label) {
	e.lead(l)
	e.add(
		asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoCall},
	)
}

// functionPtr loads the address of a function of the program, for a helper that calls it.
func (e *emitter) functionPtr(dst asm.Register, l label) {
	e.lead(l)
	e.add(asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: dst, Src: asm.PseudoFunc})
}

func (e *emitter) jump(l label) {
	e.lead(l)
	e.add(asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Ja)})
	e.dead = true
}

func (e *emitter) ifImm(op asm.JumpOp, r asm.Register, v int64, l label, tmp asm.Register) {
	if !fits(v) {
		e.movImm(tmp, v)
		e.ifReg(op, r, tmp, l)
		return
	}
	e.lead(l)
	e.add(
		asm.Instruction{
			OpCode:   asm.OpCode(asm.JumpClass).SetJumpOp(op).SetSource(asm.ImmSource),
			Dst:      r,
			Constant: v,
		},
	)
}

func (e *emitter) ifReg(op asm.JumpOp, a, b asm.Register, l label) {
	e.lead(l)
	e.add(
		asm.Instruction{
			OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(op).SetSource(asm.RegSource),
			Dst:    a,
			Src:    b,
		},
	)
}

func (e *emitter) exit() {
	e.add(asm.Return())
	e.dead = true
}

// mapPtr loads the map called name, mapValue the address of a byte in the only element of an array.
func (e *emitter) mapPtr(dst asm.Register, name string) {
	e.add(asm.LoadMapPtr(dst, 0).WithReference(name))
}

func (e *emitter) mapValue(dst asm.Register, name string, off int) {
	e.add(asm.LoadMapValue(dst, 0, uint32(off)).WithReference(name))
}

// resolve sets the distances of jumps and calls, and the offsets of Origins in the verifier's
// counting. It returns ErrTooLarge for a jump beyond its range.
func (e *emitter) resolve() error {
	e.islands()
	offset := e.offsets()
	for _, f := range e.fixes {
		to := e.labels[f.label]
		if to < 0 {
			panic("gen: a jump to an unplaced label")
		}
		d := offset[to] - offset[f.ins] - 1
		if i := &e.ins[f.ins]; i.IsFunctionReference() {
			i.Constant = int64(d)
			if i.OpCode.IsDWordLoad() {
				i.Constant = int64(uint32(d))
			}
			continue
		}
		if d != int(int16(d)) {
			return ErrTooLarge
		}
		e.ins[f.ins].Offset = int16(d)
	}
	for i := range e.places {
		e.places[i].First = offset[e.places[i].First]
	}
	return nil
}
