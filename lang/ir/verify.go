package ir

import (
	"fmt"
	"maps"

	"culprit/lang/check"
)

// Verify checks the invariants that lang/gen relies on: blocks jump forward, registers are assigned
// on all ways, memory is within its bounds, elements of tables are checked for existence. It
// returns an error for the first violation.
func (p *Program) Verify() error {
	for i, f := range p.Clauses {
		if err := f.verify(p); err != nil {
			return fmt.Errorf("clause %d: %w", i, err)
		}
	}
	for i, r := range p.Records {
		end := RecordHeader
		for _, a := range r.Actions {
			for _, f := range a.Fields {
				if f.Size > 0 && (f.Offset < end || f.Offset+f.Size > r.Size) {
					return fmt.Errorf(
						"record %d: field at %d of %d bytes is after %d of %d", i, f.Offset, f.Size,
						end, r.Size,
					)
				}
				end = max(end, f.Offset+f.Size)
			}
		}
	}
	return nil
}

// facts are true at a place, whichever way led there.
type facts struct {
	set    map[Reg]bool // assigned
	there  map[Reg]bool // not 0
	tables map[Reg]int  // an address of a value of this table
}

func (a facts) clone() facts {
	return facts{maps.Clone(a.set), maps.Clone(a.there), maps.Clone(a.tables)}
}

// meet drops the facts that are not in b.
func (a facts) meet(b facts) {
	maps.DeleteFunc(a.set, func(r Reg, _ bool) bool { return !b.set[r] })
	maps.DeleteFunc(a.there, func(r Reg, _ bool) bool { return !b.there[r] })
	maps.DeleteFunc(a.tables, func(r Reg, n int) bool { m, ok := b.tables[r]; return ok && m != n })
	for r, n := range b.tables {
		if _, ok := a.tables[r]; !ok {
			a.tables[r] = n
		}
	}
}

func (f *Func) verify(p *Program) error {
	if len(f.Blocks) == 0 {
		return fmt.Errorf("no blocks")
	}
	in := make([]*facts, len(f.Blocks))
	in[0] = &facts{map[Reg]bool{}, map[Reg]bool{}, map[Reg]int{}}
	for i, b := range f.Blocks {
		if len(b.Steps) == 0 {
			return fmt.Errorf("b%d is empty", i)
		}
		if in[i] == nil {
			return fmt.Errorf("b%d is unreachable", i)
		}
		now := *in[i]
		lead := func(to int, f facts) error {
			if to <= i || to >= len(in) {
				return fmt.Errorf("leads to b%d", to)
			}
			if in[to] == nil {
				c := f.clone()
				in[to] = &c
			} else {
				in[to].meet(f)
			}
			return nil
		}
		for j, s := range b.Steps {
			last := j == len(b.Steps)-1
			err := s.verify(p, f, now)
			if ends := s.Op == OpJump || s.Op == OpBranch || s.Op == OpFault ||
				s.Op == OpEnd; err == nil &&
				ends != last {
				err = fmt.Errorf("at the wrong end of the block")
			}
			if err == nil {
				switch s.Op {
				case OpJump:
					err = lead(s.To, now)
				case OpBranch:
					yes, no := now.clone(), now.clone()
					if s.B == None && s.Imm == 0 {
						switch s.Cond {
						case Ne:
							yes.there[s.A] = true
						case Eq:
							no.there[s.A] = true
						}
					}
					if err = lead(s.To, yes); err == nil {
						err = lead(s.Else, no)
					}
				}
			}
			if err != nil {
				return fmt.Errorf("b%d: %v: %w", i, s, err)
			}
			if s.Dst == None {
				continue
			}
			now.set[s.Dst] = true
			delete(now.there, s.Dst)
			delete(now.tables, s.Dst)
			switch s.Op {
			case OpFind, OpMake:
				now.tables[s.Dst] = s.N
			case OpMove:
				if n, ok := now.tables[s.A]; ok {
					now.tables[s.Dst] = n
				}
				if now.there[s.A] {
					now.there[s.Dst] = true
				}
			}
		}
	}
	return nil
}

// verify checks one step, given the facts before it.
func (s *Step) verify(p *Program, f *Func, now facts) error {
	var wrong error
	s.reads(func(r *Reg) {
		if !now.set[*r] {
			wrong = fmt.Errorf("%v is not assigned on some way", *r)
		}
	})
	if wrong != nil {
		return wrong
	}
	if int(s.Dst) >= f.Regs {
		return fmt.Errorf("%v of %d registers", s.Dst, f.Regs)
	}
	if s.hasResult() != (s.Dst != None) && s.Op != OpCall {
		return fmt.Errorf("result register missing or unexpected")
	}
	within := func(m Mem, size int, write bool) {
		if err := p.within(m, size, write, now); err != nil && wrong == nil {
			wrong = err
		}
	}
	number := func() {
		if s.Size != 1 && s.Size != 2 && s.Size != 4 && s.Size != 8 {
			wrong = fmt.Errorf("invalid size of a number: %d bytes", s.Size)
		}
	}
	text := func(m Mem) {
		if m != nowhere {
			within(m, p.StrSize, false)
		}
	}
	switch s.Op {
	case OpExtend, OpRead, OpPoke:
		number()
	case OpLoad:
		number()
		within(s.Mem, s.Size, false)
	case OpStore:
		number()
		within(s.Mem, s.Size, true)
	case OpZero, OpReadMem, OpBuiltinStr:
		within(s.Mem, s.Size, true)
	case OpReadStr:
		within(s.Mem, s.Size, true)
		if s.Imm >= int64(s.Size) || s.Imm < 0 {
			wrong = fmt.Errorf("no space for the final 0")
		}
	case OpCopy:
		within(s.Mem, s.Size, true)
		within(s.From, s.Size, false)
	case OpAddress:
		within(s.Mem, 0, false)
	case OpStrCompare:
		text(s.Mem)
		text(s.From)
		if s.Size > p.StrSize {
			wrong = fmt.Errorf("%d bytes of strings of %d", s.Size, p.StrSize)
		}
	case OpCall:
		if s.Mem != nowhere {
			within(s.Mem, s.Size, true)
		}
		text(s.From)
		text(s.From2)
		if s.Sub == check.SubStrtok {
			within(s.From, 8+p.StrSize, true)
		}
	case OpFind, OpMake, OpDelete:
		if s.N < 0 || s.N >= len(p.Tables) {
			return fmt.Errorf("no such table")
		}
		within(s.Mem, p.Tables[s.N].Key.Size, false)
	case OpAggregate:
		if s.N < 0 || s.N >= len(p.Aggs) || p.Aggs[s.N].Agg == nil {
			return fmt.Errorf("no such aggregation")
		}
		a := p.Aggs[s.N]
		more := 0
		if a.Key.Size > 0 {
			more = 8
		}
		within(s.Mem, a.Key.Size+more, true)
		if (s.A == None) != (a.Agg.Func == check.Count) {
			wrong = fmt.Errorf("wrong number of operands")
		}
	case OpEmit:
		if s.N < 0 || s.N >= len(p.Records) {
			return fmt.Errorf("no such record")
		}
		within(s.Mem, p.Records[s.N].Size, true)
	}
	return wrong
}

// hasResult reports whether a step has a result; OpCall depends on its Sub.
func (s *Step) hasResult() bool {
	switch s.Op {
	case OpLoad,
		OpAddress,
		OpRead,
		OpReadStr,
		OpBuiltin,
		OpStrCompare,
		OpFind,
		OpMake,
		OpStack,
		OpSpeculate:
		return true
	}
	return s.Op <= OpSet
}

// within returns an error if size bytes at m are out of bounds.
func (p *Program) within(m Mem, size int, write bool, now facts) error {
	limit := 0
	switch m.Base {
	case InScratch:
		limit = p.Scratch
	case InGlobals:
		limit = p.Globals
	case InSelf:
		limit = p.Self
	case InLiteral:
		if write {
			return fmt.Errorf("writes to a literal")
		}
		limit = len(p.Literals)
	case InValue:
		n, ok := now.tables[m.Reg]
		if !ok {
			return fmt.Errorf("%v is no element", m.Reg)
		}
		if !now.there[m.Reg] {
			return fmt.Errorf("%v may be no element", m.Reg)
		}
		limit = p.Tables[n].Value
	}
	if m.Off < 0 || m.Off+size > limit {
		return fmt.Errorf("%v and %d bytes, of %d", m, size, limit)
	}
	return nil
}
