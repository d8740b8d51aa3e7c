package gen

import (
	"cmp"
	"slices"

	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// A loc is the place of a register of ir: a machine register, the stack, or scratch memory.
type loc struct {
	reg asm.Register // the machine register, if inReg
	// otherwise the offset: from the frame pointer, negative; or from the start of the spilled ones
	// in scratch, not negative
	off   int
	where uint8
}

const (
	nowhere = iota // never read nor written
	inReg
	onStack
	inSpill
)

// A span is the range of steps in which the value of a register is live.
type span struct {
	reg      ir.Reg
	from, to int
	uses     int
	pointer  bool // may be an address tracked by the verifier, which stays known only on the stack
}

// reads calls f for each register that a step reads.
func reads(s *ir.Step, f func(ir.Reg)) {
	for _, r := range [...]ir.Reg{s.A, s.B, s.C} {
		if r != ir.None {
			f(r)
		}
	}
	for _, m := range [...]*ir.Mem{&s.Mem, &s.From, &s.From2} {
		if m.Base == ir.InValue && m.Reg != ir.None {
			f(m.Reg)
		}
	}
}

// spans returns the live ranges. Blocks jump only forward, so a value is live from its first write
// to its last read, in the order of the text.
func spans(f *ir.Func) []span {
	all := make([]span, f.Regs)
	for i := range all {
		all[i] = span{reg: ir.Reg(i), from: -1}
	}
	at := 0
	for _, b := range f.Blocks {
		for i := range b.Steps {
			s := &b.Steps[i]
			reads(s, func(r ir.Reg) {
				all[r].to = at
				all[r].uses++
			})
			if s.Dst != ir.None {
				d := &all[s.Dst]
				if d.from < 0 {
					d.from = at
				}
				d.to = max(d.to, at)
				d.uses++
				switch s.Op {
				case ir.OpFind, ir.OpMake, ir.OpBuiltin, ir.OpMove, ir.OpAdd, ir.OpSub, ir.OpRead:
					d.pointer = true
				}
			}
			at++
		}
	}
	return slices.DeleteFunc(all, func(s span) bool { return s.from < 0 })
}

// lanes are places that several values use one after another.
type lanes[P any] struct {
	busy  [][]span // sorted
	place func(n int) (P, bool)
}

// take returns an existing place that is free for all of s, or a new one.
func (l *lanes[P]) take(s span) (p P, ok bool) {
	for n := 0; ; n++ {
		p, ok := l.place(n)
		if !ok {
			return p, false
		}
		if n == len(l.busy) {
			l.busy = append(l.busy, nil)
		}
		i, _ := slices.BinarySearchFunc(
			l.busy[n], s.from, func(b span, from int) int { return cmp.Compare(b.from, from) },
		)
		// Both ends are inclusive: a step may write its result before it has read all operands.
		if i > 0 && l.busy[n][i-1].to >= s.from || i < len(l.busy[n]) && l.busy[n][i].from <= s.to {
			continue
		}
		l.busy[n] = slices.Insert(l.busy[n], i, s)
		return p, true
	}
}

// allocate assigns a place to every register of f. Those with the most uses per length get machine
// registers, others the stack from the offset below down to the limit, the rest scratch memory. It
// returns the bytes used of the stack and of scratch.
func allocate(f *ir.Func, regs []asm.Register, below, limit int) (locs []loc, stack, spilled int) {
	all := spans(f)
	slices.SortStableFunc(all, func(a, b span) int {
		// a.uses/len(a) > b.uses/len(b)
		return cmp.Compare(b.uses*(a.to-a.from+1), a.uses*(b.to-b.from+1))
	})
	locs = make([]loc, f.Regs)
	machine := lanes[asm.Register]{place: func(n int) (asm.Register, bool) {
		if n < len(regs) {
			return regs[n], true
		}
		return 0, false
	}}
	slots := lanes[int]{
		place: func(n int) (int, bool) { return below - 8*(n+1), below-8*(n+1) >= limit },
	}
	spill := lanes[int]{place: func(n int) (int, bool) { return 8 * n, true }}
	var rest []span
	for _, s := range all {
		if r, ok := machine.take(s); ok {
			locs[s.reg] = loc{where: inReg, reg: r}
		} else {
			rest = append(rest, s)
		}
	}
	slices.SortStableFunc(rest, func(a, b span) int {
		switch {
		case a.pointer == b.pointer:
			return 0
		case a.pointer:
			return -1
		}
		return 1
	})
	for _, s := range rest {
		if off, ok := slots.take(s); ok {
			locs[s.reg] = loc{where: onStack, off: off}
			stack = max(stack, below-off)
			continue
		}
		off, _ := spill.take(s)
		locs[s.reg] = loc{where: inSpill, off: off}
		spilled = max(spilled, off+8)
	}
	return locs, stack, spilled
}
