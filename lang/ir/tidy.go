package ir

// done returns the Func: it drops unreachable blocks and unused results, merges blocks that only
// follow one another, and renumbers registers.
func (c *clause) done() *Func {
	f := &Func{Clause: c.src, Regs: c.regs, Blocks: make([]*Block, 0, len(c.order))}
	c.thread()
	for i, b := range c.order {
		b.at = i
	}
	for _, b := range c.order {
		for i := range b.steps {
			s := &b.steps[i]
			switch s.Op {
			case OpBranch:
				s.To, s.Else = c.ids[s.To].at, c.ids[s.Else].at
			case OpJump:
				s.To = c.ids[s.To].at
			}
		}
		f.Blocks = append(f.Blocks, &Block{Steps: b.steps})
	}
	f.sweep()
	f.renumber()
	for _, b := range c.ids {
		if cap(b.steps) > 0 {
			c.free = append(c.free, b.steps[:0])
		}
	}
	return f
}

// thread redirects jumps to blocks that only jump, drops unreachable blocks, and merges a block
// with a single predecessor into it, if that has a single successor.
func (c *clause) thread() {
	target := func(n int) int {
		for {
			b := c.ids[n]
			if len(b.steps) == 0 || b.steps[0].Op != OpJump {
				return n
			}
			n = b.steps[0].To
		}
	}
	ways := map[*block]int{c.order[0]: 1}
	var kept []*block
	for _, b := range c.order {
		if ways[b] == 0 {
			continue
		}
		kept = append(kept, b)
		last := &b.steps[len(b.steps)-1]
		switch last.Op {
		case OpBranch:
			last.To, last.Else = target(last.To), target(last.Else)
			if last.To == last.Else {
				*last = jumpTo(last.To)
				ways[c.ids[last.To]]++
				break
			}
			ways[c.ids[last.To]]++
			ways[c.ids[last.Else]]++
		case OpJump:
			last.To = target(last.To)
			ways[c.ids[last.To]]++
		}
	}
	c.order = nil
	gone := map[*block]bool{}
	for _, b := range kept {
		if gone[b] {
			continue
		}
		c.order = append(c.order, b)
		for {
			last := b.steps[len(b.steps)-1]
			if last.Op != OpJump || ways[c.ids[last.To]] != 1 {
				break
			}
			next := c.ids[last.To]
			b.steps = append(b.steps[:len(b.steps)-1], next.steps...)
			gone[next] = true
		}
	}
}

func jumpTo(n int) Step {
	s := blank(OpJump)
	s.To = n
	return s
}

// reads calls f for each register that a step reads.
func (s *Step) reads(f func(*Reg)) {
	for _, r := range []*Reg{&s.A, &s.B, &s.C, &s.Mem.Reg, &s.From.Reg, &s.From2.Reg} {
		if *r != None {
			f(r)
		}
	}
}

// pure reports whether a step has no effect but its result.
func (s *Step) pure() bool {
	switch s.Op {
	case OpLoad, OpAddress, OpBuiltin, OpFind, OpStrCompare, OpSet, OpExtend:
		return true
	}
	return s.Op <= OpNot
}

// sweep drops pure steps with unused results, and copies the others to memory of their own.
// Operands precede their users, so that one backward pass suffices.
func (f *Func) sweep() {
	wanted := make([]bool, f.Regs)
	all := 0
	for i := len(f.Blocks) - 1; i >= 0; i-- {
		b := f.Blocks[i]
		first := len(b.Steps) // kept steps move to the end
		for j := len(b.Steps) - 1; j >= 0; j-- {
			s := &b.Steps[j]
			if s.pure() && !wanted[s.Dst] {
				continue
			}
			s.reads(func(r *Reg) { wanted[*r] = true })
			if first--; first != j {
				b.Steps[first] = *s
			}
		}
		b.Steps = b.Steps[first:]
		all += len(b.Steps)
	}
	memory := make([]Step, 0, all)
	for _, b := range f.Blocks {
		at := len(memory)
		memory = append(memory, b.Steps...)
		b.Steps = memory[at:len(memory):len(memory)]
	}
}

// renumber numbers the registers in the order of their first assignment.
func (f *Func) renumber() {
	numbers := make([]Reg, f.Regs) // 1 + the new number; 0: none yet
	next := Reg(0)
	number := func(r *Reg) {
		if numbers[*r] == 0 {
			next++
			numbers[*r] = next
		}
		*r = numbers[*r] - 1
	}
	for _, b := range f.Blocks {
		for i := range b.Steps {
			s := &b.Steps[i]
			s.reads(number)
			if s.Dst != None {
				number(&s.Dst)
			}
		}
	}
	f.Regs = int(next)
}
