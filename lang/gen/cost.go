package gen

import (
	"culprit/lang/ir"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A ClauseCost is how often and how long a clause ran on one CPU: the value of MapCost.
type ClauseCost struct {
	Fired uint64 // the clause began
	Ran   uint64 // its predicate was true
	Time  uint64 // ns from its begin to its end, with its predicate
}

// The members of a ClauseCost in memory.
const (
	costFired = 0
	costRan   = 8
	costTime  = 16
	costSize  = 24
)

// costMap returns the map of the costs.
func costMap(p *ir.Program) ebpf.MapSpec {
	return ebpf.MapSpec{
		Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: costSize,
		MaxEntries: uint32(max(1, len(p.Clauses))),
	}
}

// firstSlot returns the offset of the stack below which registers are stored.
func firstSlot(p *ir.Program) int {
	if p.CountsCosts() {
		return slotRan
	}
	return slotRegs
}

// beginCost notes the time at which a clause begins. It changes r0 to r5.
func (b *builder) beginCost() {
	b.storeImm(asm.R10, slotRan, 0, 8, asm.R0)
	b.call(asm.FnKtimeGetNs)
	b.store(asm.R10, slotBegan, asm.R0, 8)
}

// endCost counts the run of a clause since beginCost. It changes r0 to r5.
func (b *builder) endCost(f *ir.Func) {
	b.movImm(asm.R1, int64(f.Clause.Index))
	b.load(asm.R2, asm.R10, slotBegan, 8, false)
	b.load(asm.R3, asm.R10, slotRan, 8, false)
	b.callSub(b.function("cost", b.makeCost))
}

// makeCost makes the function that counts a run: r1 the clause, r2 when it began, r3 whether its
// predicate was true. The additions are atomic, because an interrupt may run the same clause of
// another program on this CPU.
//
//	took = now - began
//	cost = lookup(costs, &clause)
//	cost->fired++; cost->ran += ran; cost->time += took
func (b *builder) makeCost() {
	const key, began, ran = -8, -16, -24
	none := b.label()
	b.store(asm.R10, key, asm.R1, 4)
	b.store(asm.R10, began, asm.R2, 8)
	b.store(asm.R10, ran, asm.R3, 8)
	b.call(asm.FnKtimeGetNs)
	b.load(asm.R1, asm.R10, began, 8, false)
	b.add(asm.Sub.Reg(asm.R0, asm.R1))
	b.store(asm.R10, began, asm.R0, 8)
	b.mapPtr(asm.R1, MapCost)
	b.mov(asm.R2, asm.R10)
	b.aluImm(asm.Add, asm.R2, key, asm.R0)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, none, asm.R1)
	b.movImm(asm.R1, 1)
	b.atomic(asm.AddAtomic, asm.R0, costFired, asm.R1)
	b.load(asm.R1, asm.R10, ran, 8, false)
	b.atomic(asm.AddAtomic, asm.R0, costRan, asm.R1)
	b.load(asm.R1, asm.R10, began, 8, false)
	b.atomic(asm.AddAtomic, asm.R0, costTime, asm.R1)
	b.bind(none)
	b.movImm(asm.R0, 0)
	b.exit()
}
