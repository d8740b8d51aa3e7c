package gen

import (
	"strconv"

	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// find looks a key up in an associative array, adds it, or deletes it.
func (b *builder) find(s *ir.Step) {
	name := MapTable + strconv.Itoa(s.N)
	none, failed := b.label(), b.label()
	if s.Op == ir.OpMake {
		b.key(asm.R1, s, true, ir.DropDynamic, none, failed)
		b.callSub(b.function(name, func() { b.makeElement(name, ir.DropDynamic) }))
		b.bind(failed)
		b.put(s.Dst, asm.R0)
		return
	}
	b.key(asm.R2, s, false, 0, none, failed)
	b.mapPtr(asm.R1, name)
	if s.Op == ir.OpDelete {
		b.call(asm.FnMapDeleteElem)
		b.bind(failed)
		return
	}
	b.call(asm.FnMapLookupElem)
	b.bind(failed)
	b.put(s.Dst, asm.R0)
}

// makeElement makes the function that returns the value of the key at r1 in a hash, or adds a zero
// one. It returns 0, counted as a loss, when the map is full.
func (b *builder) makeElement(name string, d ir.Drop) {
	got, full := b.label(), b.label()
	b.store(asm.R10, -8, asm.R1, 8)
	b.mov(asm.R2, asm.R1)
	b.mapPtr(asm.R1, name)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JNE, asm.R0, 0, got, asm.R1)
	b.mapPtr(asm.R1, name)
	b.load(asm.R2, asm.R10, -8, 8, false)
	b.mapValue(asm.R3, MapLiterals, b.lay.zeroes)
	b.movImm(asm.R4, 1) // BPF_NOEXIST: another CPU may have added it
	b.call(asm.FnMapUpdateElem)
	b.mapPtr(asm.R1, name)
	b.load(asm.R2, asm.R10, -8, 8, false)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, full, asm.R1)
	b.bind(got)
	b.exit()
	b.bind(full)
	b.drop(d)
	b.movImm(asm.R0, 0)
	b.exit()
}

// makeAggElement makes the function that adds a zero value for the key at r1 to the inner map of
// aggregation r2 of a map, and returns it. It returns 0, counted as a loss, when the map is full.
func (b *builder) makeAggElement(name string) {
	full := b.label()
	b.store(asm.R10, -8, asm.R1, 8)
	b.store(asm.R10, -16, asm.R2, 8)
	b.mapPtr(asm.R1, name)
	b.mov(asm.R2, asm.R10)
	b.aluImm(asm.Add, asm.R2, -16, asm.R0)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, full, asm.R1)
	b.store(asm.R10, -16, asm.R0, 8)
	b.mov(asm.R1, asm.R0)
	b.load(asm.R2, asm.R10, -8, 8, false)
	b.mapValue(asm.R3, MapLiterals, b.lay.zeroes)
	b.movImm(asm.R4, 1) // BPF_NOEXIST
	b.call(asm.FnMapUpdateElem)
	b.load(asm.R1, asm.R10, -16, 8, false)
	b.load(asm.R2, asm.R10, -8, 8, false)
	b.call(asm.FnMapLookupElem)
	b.ifImm(asm.JEq, asm.R0, 0, full, asm.R1)
	b.exit()
	b.bind(full)
	b.drop(ir.DropAgg)
	b.movImm(asm.R0, 0)
	b.exit()
}
