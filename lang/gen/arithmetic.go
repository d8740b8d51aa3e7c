package gen

import (
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

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
		if shift { // the verifier refuses counts that may be too great
			b.mov(asm.R2, c)
			b.add(asm.And.Imm(asm.R2, 63))
			c = asm.R2
		}
		b.getNumber(d, s.A)
		b.alu(op, d, c)
	}
	b.put(s.Dst, d)
}

// divide generates divisions. Signed ones divide absolute values, because old kernels have no
// signed division.
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
	// r3: all ones if the result is negative. (x ^ m) - m is |x| when m is all ones for a negative
	// x.
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

// branch jumps to a label if the step's comparison is true.
func (b *builder) branch(s *ir.Step, c ir.Cond, to label) {
	if b.spills(s) {
		b.scratch()
	}
	a, other := b.compared(s)
	b.compare(s, c, a, other, to)
}

// compared returns the registers that a step compares. A pointer compared with NULL stays a
// pointer: the verifier requires that check before loads.
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
	return [...]ir.Cond{ir.Eq: ir.Ne, ir.Ne: ir.Eq, ir.Lt: ir.Ge, ir.Le: ir.Gt, ir.Gt: ir.Le,
		ir.Ge: ir.Lt}[c]
}
