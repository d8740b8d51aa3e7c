package gen

import (
	"culprit/lang/check"
	"culprit/lang/ir"
	"culprit/lang/syntax"
)

// A hand builds programs of the intermediate form.
type hand struct {
	p *ir.Program
	f *ir.Func
}

func newHand(strsize int) *hand {
	return &hand{p: &ir.Program{Source: &check.Program{}, StrSize: strsize, Scratch: strsize}}
}

// clause begins a clause with one empty block.
func (h *hand) clause(probes ...*check.Probe) *hand {
	c := &check.Clause{
		Index:  len(h.p.Clauses),
		Probes: probes,
		At:     syntax.Span{From: int32(10 * len(h.p.Clauses)), To: int32(10*len(h.p.Clauses) + 9)},
	}
	h.p.Source.Clauses = append(h.p.Source.Clauses, c)
	h.f = &ir.Func{Clause: c, Blocks: []*ir.Block{{}}}
	h.p.Clauses = append(h.p.Clauses, h.f)
	return h
}

func (h *hand) reg() ir.Reg {
	h.f.Regs++
	return ir.Reg(h.f.Regs - 1)
}

// block begins the next block.
func (h *hand) block() int {
	h.f.Blocks = append(h.f.Blocks, &ir.Block{})
	return len(h.f.Blocks) - 1
}

func blank(op ir.Opcode) ir.Step {
	none := ir.Mem{Reg: ir.None}
	return ir.Step{
		Op:    op,
		Dst:   ir.None,
		A:     ir.None,
		B:     ir.None,
		C:     ir.None,
		Mem:   none,
		From:  none,
		From2: none,
	}
}

// do adds a step to the last block; with sets its operands.
func (h *hand) do(op ir.Opcode, with func(*ir.Step)) {
	s := blank(op)
	if with != nil {
		with(&s)
	}
	b := h.f.Blocks[len(h.f.Blocks)-1]
	b.Steps = append(b.Steps, s)
}

// value adds a step with a result.
func (h *hand) value(op ir.Opcode, with func(*ir.Step)) ir.Reg {
	r := h.reg()
	h.do(op, func(s *ir.Step) {
		s.Dst = r
		if with != nil {
			with(s)
		}
	})
	return r
}

func (h *hand) number(v int64) ir.Reg {
	return h.value(ir.OpConst, func(s *ir.Step) { s.Imm = v })
}

func (h *hand) arg(n int) ir.Reg {
	return h.value(ir.OpBuiltin, func(s *ir.Step) { s.Which, s.N = check.BuiltinArg, n })
}

func (h *hand) builtin(w check.BuiltinVar) ir.Reg {
	return h.value(ir.OpBuiltin, func(s *ir.Step) { s.Which = w })
}

func (h *hand) two(op ir.Opcode, a, b ir.Reg, signed bool) ir.Reg {
	return h.value(op, func(s *ir.Step) { s.A, s.B, s.Signed = a, b, signed })
}

func (h *hand) store(m ir.Mem, r ir.Reg, size int) {
	h.do(ir.OpStore, func(s *ir.Step) { s.Mem, s.A, s.Size = m, r, size })
}

func (h *hand) load(m ir.Mem, size int, signed bool) ir.Reg {
	return h.value(ir.OpLoad, func(s *ir.Step) { s.Mem, s.Size, s.Signed = m, size, signed })
}

// branch ends the block: it continues with the next one if a compares so with imm, otherwise with
// els.
func (h *hand) branch(a ir.Reg, c ir.Cond, imm int64, els int) {
	to := len(h.f.Blocks)
	h.do(
		ir.OpBranch,
		func(s *ir.Step) { s.A, s.Cond, s.Imm, s.Signed, s.To, s.Else = a, c, imm, true, to, els },
	)
	h.block()
}

func (h *hand) end() { h.do(ir.OpEnd, nil) }

// scratch returns memory of a firing.
func (h *hand) scratch(size int) ir.Mem {
	off := h.p.Scratch
	h.p.Scratch += round8(size)
	return ir.Mem{Base: ir.InScratch, Reg: ir.None, Off: off}
}

func (h *hand) global() ir.Mem {
	h.p.Globals += 8
	return ir.Mem{Base: ir.InGlobals, Reg: ir.None, Off: h.p.Globals - 8}
}

func (h *hand) self() ir.Mem {
	h.p.Self += 8
	return ir.Mem{Base: ir.InSelf, Reg: ir.None, Off: h.p.Self - 8}
}

// aggregation adds an aggregation with a key of a size in bytes.
func (h *hand) aggregation(f check.AggFunc, key int, steps ...int64) int {
	a := &check.Aggregation{ID: len(h.p.Aggs), Func: f, Signed: true}
	copy(a.Steps[:], steps)
	g := ir.Agg{Agg: a, Key: ir.Tuple{Size: key}, Value: 16}
	if key > 0 {
		g.Key.Fields = []ir.TupleField{{Size: key}}
	}
	switch f {
	case check.Count:
		g.Value = 8
	case check.Stddev:
		g.Value = 32
	case check.Quantize:
		g.Buckets = 127
	case check.Lquantize:
		g.Buckets = int((steps[1]-steps[0])/steps[2]) + 2
	case check.Llquantize:
		g.Buckets = 2*(1+int((steps[2]-steps[1]+1)*(steps[3]-steps[3]/steps[0]))) + 1
	}
	if g.Buckets > 0 {
		g.Sparse = key > 0
		g.Value = 8 * g.Buckets
		if g.Sparse {
			g.Value = 8
		}
	}
	h.p.Aggs = append(h.p.Aggs, g)
	return a.ID
}

func (h *hand) record(clause int, size int, kind check.ActionKind) int {
	h.p.Records = append(
		h.p.Records,
		ir.Record{
			Clause:  clause,
			Size:    size,
			Actions: []ir.RecordAction{{Action: &check.Record{Action: check.Action{Kind: kind}}}},
		},
	)
	return len(h.p.Records) - 1
}

func tick() *check.Probe {
	return &check.Probe{ID: 9, Provider: "tick", Name: "tick-1s", Site: check.SiteRun}
}
