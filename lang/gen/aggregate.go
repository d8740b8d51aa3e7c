package gen

import (
	"fmt"

	"culprit/lang/check"
	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// aggregate adds to an aggregation.
func (b *builder) aggregate(s *ir.Step) {
	a := &b.p.Aggs[s.N]
	done := b.label()
	keyed := a.Key.Size > 0
	dist := distribution(a.Agg.Func)
	if dist {
		b.bucket(a, s)
		if a.Sparse {
			base, off := b.place(s.Mem, asm.R4, true, done)
			b.store(base, off+a.Key.Size, asm.R0, 8)
		} else {
			b.store(asm.R10, slotHold, asm.R0, 8)
		}
	}
	if keyed && b.many() && !b.k.cutsKey(b.p, s) {
		b.findInFunction(a, s, done)
	} else {
		b.findValue(a, s, done)
	}
	switch {
	case dist:
		first := 0
		if a.Marked {
			first = 8
			b.movImm(asm.R1, 1)
			b.addTo(0)
		}
		if !a.Sparse {
			b.load(asm.R1, asm.R10, slotHold, 8, false)
			b.ifImm(asm.JGE, asm.R1, int64(a.Buckets), done, asm.R2)
			b.add(asm.LSh.Imm(asm.R1, 3))
			b.alu(asm.Add, asm.R0, asm.R1)
		}
		b.weight(s)
		b.addTo(first)
	case a.Agg.Func == check.Count:
		b.weight(s)
		b.addTo(0)
	case a.Agg.Func == check.Sum, a.Agg.Func == check.Avg:
		b.value(asm.R1, s)
		b.addTo(0)
		b.movImm(asm.R1, 1)
		b.addTo(8)
	case a.Agg.Func == check.Min, a.Agg.Func == check.Max:
		b.extreme(a, s)
	default:
		b.deviation(s)
	}
	b.bind(done)
}

// findValue leaves the address of the value of a key in r0. It creates the key if needed; if that
// fails, it jumps to done. The bucket of a distribution with keys is in the key.
func (b *builder) findValue(a *ir.Agg, s *ir.Step, done label) {
	at, keyed := b.lay.aggs[s.N], a.Key.Size > 0
	if keyed { // | key | u32 bucket | u32 CPU |
		b.call(asm.FnGetSmpProcessorId)
		base, off := b.place(s.Mem, asm.R4, true, done)
		if a.Sparse {
			b.store(base, off+a.Key.Size+4, asm.R0, 4)
		} else {
			b.aluImm(asm.LSh, asm.R0, 32, asm.R1)
			b.store(base, off+a.Key.Size, asm.R0, 8)
		}
	}
	cut := keyed && b.k.cutsKey(b.p, s)
	if cut {
		b.key(asm.R2, s, true, ir.DropAgg, done, done)
	}
	index := int32(slotZero)
	if at.Index > 0 {
		index = slotTemp
		b.storeImm(asm.R10, slotTemp, int64(at.Index), 8, asm.R0)
	}
	b.mapPtr(asm.R1, at.Map)
	b.mov(asm.R2, asm.R10)
	b.aluImm(asm.Add, asm.R2, int64(index), asm.R0)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, done, asm.R1)
	b.mov(asm.R1, asm.R0)
	switch {
	case cut:
		b.cutKey(asm.R2)
	case keyed:
		b.address(asm.R2, s.Mem, false, done)
	default:
		b.mov(asm.R2, asm.R10)
		b.aluImm(asm.Add, asm.R2, slotZero, asm.R0)
	}
	b.call(asm.FnMapLookupElem)
	if keyed {
		got, missing := b.label(), b.label()
		b.ifImm(asm.JEq, asm.R0, 0, missing, asm.R1)
		b.bind(got)
		b.routines.later = append(b.routines.later, func() {
			b.bind(missing)
			if cut {
				b.cutKey(asm.R1)
			} else {
				b.address(asm.R1, s.Mem, false, done)
			}
			b.movImm(asm.R2, int64(at.Index))
			b.callSub(b.function(at.Map, func() { b.makeAggElement(at.Map) }))
			b.ifImm(asm.JEq, asm.R0, 0, done, asm.R1)
			b.jump(got)
		})
	} else {
		b.ifImm(asm.JEq, asm.R0, 0, done, asm.R1)
	}
}

// findInFunction is findValue, for a key that is not cut, by a function that all clauses share.
func (b *builder) findInFunction(a *ir.Agg, s *ir.Step, done label) {
	at := b.lay.aggs[s.N]
	b.address(asm.R1, s.Mem, false, done)
	name := fmt.Sprint(at.Map, "find", at.Index, a.Key.Size, a.Sparse)
	b.callSub(b.function(name, func() { b.makeFind(at, a) }))
	b.ifImm(asm.JEq, asm.R0, 0, done, asm.R1)
}

// makeFind makes the function of findInFunction, whose argument r1 is the address of the key.
func (b *builder) makeFind(at AggPlace, a *ir.Agg) {
	const index = -8
	got := b.label()
	b.mov(asm.R6, asm.R1)
	b.call(asm.FnGetSmpProcessorId)
	if a.Sparse {
		b.store(asm.R6, a.Key.Size+4, asm.R0, 4)
	} else {
		b.aluImm(asm.LSh, asm.R0, 32, asm.R1)
		b.store(asm.R6, a.Key.Size, asm.R0, 8)
	}
	b.storeImm(asm.R10, index, int64(at.Index), 8, asm.R0)
	b.mapPtr(asm.R1, at.Map)
	b.lift(asm.R2, asm.R10, index)
	b.call(asm.FnMapLookupElem)
	missing := b.label()
	b.ifImm(asm.JEq, asm.R0, 0, missing, asm.R1)
	b.mov(asm.R1, asm.R0)
	b.mov(asm.R2, asm.R6)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JNE, asm.R0, 0, got, asm.R1)
	b.mov(asm.R1, asm.R6)
	b.movImm(asm.R2, int64(at.Index))
	b.callSub(b.function(at.Map, func() { b.makeAggElement(at.Map) }))
	b.bind(got)
	b.exit()
	b.bind(missing)
	b.movImm(asm.R0, 0)
	b.exit()
}

// value leaves the value of an aggregating step in dst.
func (b *builder) value(dst asm.Register, s *ir.Step) {
	if s.A != ir.None {
		b.get(dst, s.A)
	} else {
		b.movImm(dst, s.Imm)
	}
}

// weight leaves the weight of a value in r1.
func (b *builder) weight(s *ir.Step) {
	if s.B != ir.None {
		b.get(asm.R1, s.B)
	} else {
		b.movImm(asm.R1, 1)
	}
}

// addTo adds r1 to the number at r0 + off, atomically: otherwise the addition of a nested firing on
// the same CPU would be lost.
func (b *builder) addTo(off int) {
	b.atomic(asm.AddAtomic, asm.R0, off, asm.R1)
}

// extreme keeps the minimum or the maximum.
func (b *builder) extreme(a *ir.Agg, s *ir.Step) {
	first, keep := b.label(), b.label()
	cond := ir.Le // for min: the current value is <= the new one
	if a.Agg.Func == check.Max {
		cond = ir.Ge
	}
	b.value(asm.R1, s)
	b.load(asm.R2, asm.R0, 8, 8, false)
	b.ifImm(asm.JEq, asm.R2, 0, first, asm.R3)
	b.load(asm.R2, asm.R0, 0, 8, false)
	b.ifReg(jumpOp(cond, a.Agg.Signed), asm.R2, asm.R1, keep)
	b.bind(first)
	b.store(asm.R0, 0, asm.R1, 8)
	b.bind(keep)
	b.movImm(asm.R1, 1)
	b.addTo(8)
}

// deviation adds to count, sum and the 128-bit sum of squares.
//
//	|x| = h<<32 + l, so x*x = h*h<<64 + 2*h*l<<32 + l*l
func (b *builder) deviation(s *ir.Step) {
	b.value(asm.R1, s)
	b.addTo(8)
	b.mov(asm.R2, asm.R1) // |x| in r1
	b.add(asm.ArSh.Imm(asm.R2, 63))
	b.alu(asm.Xor, asm.R1, asm.R2)
	b.alu(asm.Sub, asm.R1, asm.R2)
	b.mov(asm.R2, asm.R1)
	b.add(asm.RSh.Imm(asm.R2, 32))       // h
	b.add(asm.Mov.Reg32(asm.R3, asm.R1)) // l
	b.mov(asm.R4, asm.R2)
	b.alu(asm.Mul, asm.R4, asm.R3) // h*l, less than 2^63: h is at most 2^31
	b.alu(asm.Mul, asm.R2, asm.R2) // h*h
	b.alu(asm.Mul, asm.R3, asm.R3) // l*l
	b.mov(asm.R5, asm.R4)
	b.add(asm.RSh.Imm(asm.R5, 31)) // the high part of 2*h*l<<32
	b.alu(asm.Add, asm.R2, asm.R5)
	b.add(asm.LSh.Imm(asm.R4, 33)) // its low part
	b.alu(asm.Add, asm.R3, asm.R4)
	carried := b.label()
	b.ifReg(asm.JGE, asm.R3, asm.R4, carried)
	b.add(asm.Add.Imm(asm.R2, 1))
	b.bind(carried)
	// r2:r3 is the square. Add the low halves first, for the carry.
	b.mov(asm.R4, asm.R3)
	if b.k.AtomicFetch {
		b.atomic(asm.FetchAdd, asm.R0, 16, asm.R4)
	} else {
		b.load(asm.R5, asm.R0, 16, 8, false)
		b.alu(asm.Add, asm.R4, asm.R5)
		b.store(asm.R0, 16, asm.R4, 8)
		b.mov(asm.R4, asm.R5)
	}
	b.alu(asm.Add, asm.R4, asm.R3)
	fine := b.label()
	b.ifReg(asm.JGE, asm.R4, asm.R3, fine)
	b.add(asm.Add.Imm(asm.R2, 1))
	b.bind(fine)
	b.mov(asm.R1, asm.R2)
	b.addTo(24)
	b.movImm(asm.R1, 1)
	b.addTo(0)
}

// bucket leaves the number of the bucket of a value in r0.
func (b *builder) bucket(a *ir.Agg, s *ir.Step) {
	b.value(asm.R1, s)
	switch a.Agg.Func {
	case check.Quantize:
		b.quantize()
	case check.Lquantize:
		b.lquantize(a)
	default:
		b.llquantize(a)
	}
}

// quantize computes the bucket of r1 in r0, as lang/format's Buckets: 63 for 0, and one per power
// of two. It has no branches, which would double the ways that the verifier follows.
func (b *builder) quantize() {
	b.mov(asm.R3, asm.R1) // r3: all ones if negative; r1: the absolute value
	b.add(asm.ArSh.Imm(asm.R3, 63))
	b.alu(asm.Xor, asm.R1, asm.R3)
	b.alu(asm.Sub, asm.R1, asm.R3)
	b.mov(asm.R4, asm.R1) // r4: 1 if not 0
	b.add(asm.Neg.Imm(asm.R4, 0))
	b.alu(asm.Or, asm.R4, asm.R1)
	b.add(asm.RSh.Imm(asm.R4, 63))
	// r0 becomes the index of the highest bit: if the upper half is not 0, add its width and
	// continue with it.
	b.movImm(asm.R0, 0)
	for half := int32(32); half > 0; half /= 2 {
		b.mov(asm.R2, asm.R1)
		b.add(asm.RSh.Imm(asm.R2, half))
		if half > 1 { // otherwise it is a single bit
			b.add(asm.Neg.Imm(asm.R2, 0))
			b.add(asm.RSh.Imm(asm.R2, 63)) // 1: not 0, as it is less than 2^63
			b.add(asm.LSh.Imm(asm.R2, log2(half)))
			b.alu(asm.RSh, asm.R1, asm.R2)
		}
		b.alu(asm.Or, asm.R0, asm.R2)
	}
	b.alu(asm.Add, asm.R0, asm.R4)
	b.mov(asm.R2, asm.R0) // 64, only for the lowest number, has no bucket of its own
	b.add(asm.RSh.Imm(asm.R2, 6))
	b.alu(asm.Sub, asm.R0, asm.R2)
	b.alu(asm.Xor, asm.R0, asm.R3)
	b.alu(asm.Sub, asm.R0, asm.R3)
	b.add(asm.Add.Imm(asm.R0, quantizeZero))
}

// quantizeZero is quantize's bucket of 0.
const quantizeZero = 63

func log2(n int32) (l int32) {
	for ; n > 1; n /= 2 {
		l++
	}
	return l
}

// lquantize computes the bucket of r1 in r0: 0 below the base, then one per step, the last after
// the last whole step.
func (b *builder) lquantize(a *ir.Agg) {
	base, step := a.Agg.Steps[0], a.Agg.Steps[2]
	levels := (a.Agg.Steps[1] - base) / step
	done := b.label()
	b.movImm(asm.R0, 0)
	b.ifImm(asm.JSLT, asm.R1, base, done, asm.R2)
	b.movImm(asm.R0, levels+1)
	b.aluImm(asm.Sub, asm.R1, base, asm.R2)
	b.ifImm(asm.JGE, asm.R1, levels*step, done, asm.R2)
	b.mov(asm.R0, asm.R1)
	switch {
	case step == 1:
	case step&(step-1) == 0:
		b.add(asm.RSh.Imm(asm.R0, log2(int32(step))))
	default: // the range fits in 32 bits, where a division is cheaper
		b.add(asm.Div.Imm32(asm.R0, int32(step)))
	}
	b.add(asm.Add.Imm(asm.R0, 1))
	b.bind(done)
}

// llquantize computes the bucket of r1 in r0. The middle one is for values nearer to 0 than
// factor^low. On both sides of it there are, for each magnitude, those of its equal steps that
// reach beyond factor^magnitude. The outermost ones are for greater values.
func (b *builder) llquantize(a *ir.Agg) {
	factor, low, high, steps := uint64(
		a.Agg.Steps[0],
	), a.Agg.Steps[1], a.Agg.Steps[2], uint64(
		a.Agg.Steps[3],
	)
	each := int64(steps - steps/factor)
	middle := 1 + (high-low+1)*each
	done := b.label()
	b.mov(asm.R3, asm.R1) // r3: all ones if negative; r1: the absolute value
	b.add(asm.ArSh.Imm(asm.R3, 63))
	b.alu(asm.Xor, asm.R1, asm.R3)
	b.alu(asm.Sub, asm.R1, asm.R3)
	top := uint64(1)
	for range low {
		top *= factor
	}
	b.movImm(asm.R0, 0)
	b.ifImm(asm.JLT, asm.R1, int64(top), done, asm.R2)
	for mag := low; mag <= high; mag++ {
		top *= factor
		next := b.label()
		b.ifImm(asm.JGE, asm.R1, int64(top), next, asm.R2)
		b.mov(asm.R0, asm.R1)
		if mag == 0 { // there may be more steps than integers
			b.aluImm(asm.Mul, asm.R0, int64(steps), asm.R2)
			b.aluImm(asm.Div, asm.R0, int64(top), asm.R2)
		} else {
			b.aluImm(asm.Div, asm.R0, int64(top/steps), asm.R2)
		}
		b.aluImm(asm.Add, asm.R0, (mag-low)*each-int64(steps/factor)+1, asm.R2)
		b.jump(done)
		b.bind(next)
	}
	b.movImm(asm.R0, middle)
	b.bind(done)
	b.alu(asm.Xor, asm.R0, asm.R3)
	b.alu(asm.Sub, asm.R0, asm.R3)
	b.aluImm(asm.Add, asm.R0, middle, asm.R2)
}
