package gen

import (
	"encoding/binary"
	"fmt"

	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// pieceBytes is how many bytes of a key a piece of it has: a key of maxKey bytes less the number before them.
const pieceBytes = maxKey - 8

// A KeyCut is how a key that is longer than the kernel takes is stored. Numbers stand for its first Pieces pieces of pieceBytes, as
// MapLong has them, each with the number of the piece before it. The key in the map is then
//
//	| u64 number of the last piece | the other bytes of the key |
type KeyCut struct {
	Pieces int
	Size   int // bytes of the key in the map
}

// CutKey returns how keys of so many bytes are stored on a kernel, or false where they are stored as they are.
func (k Kernel) CutKey(size int) (KeyCut, bool) {
	if k.LongKeys || size <= maxKey {
		return KeyCut{Size: size}, false
	}
	n := (size - 1) / pieceBytes // the rest is 1 to pieceBytes long
	return KeyCut{n, 8 + size - n*pieceBytes}, true
}

// Restore returns the key of which a map has key. piece returns the bytes of a piece by its number, behind the number of the piece before
// it; nil: there is none, and Restore returns nil.
func (c KeyCut) Restore(key []byte, piece func(number uint32) []byte) []byte {
	whole := make([]byte, c.Pieces*pieceBytes, c.Pieces*pieceBytes+len(key)-8)
	for i, n := c.Pieces-1, binary.NativeEndian.Uint64(key); i >= 0; i-- {
		one := piece(uint32(n))
		if len(one) != maxKey {
			return nil
		}
		copy(whole[i*pieceBytes:], one[8:])
		n = binary.NativeEndian.Uint64(one)
	}
	return append(whole, key[8:]...)
}

// keyBytes returns how long a key of so many bytes is in a map.
func (k Kernel) keyBytes(size int) uint32 {
	cut, _ := k.CutKey(size)
	return uint32(cut.Size)
}

// keySize returns how long the key is that a step looks into a map by; 0: it is of no such step.
func keySize(p *ir.Program, s *ir.Step) int {
	switch s.Op {
	case ir.OpFind, ir.OpMake, ir.OpDelete:
		return tableKey(p, s.N)
	case ir.OpAggregate:
		if size := p.Aggs[s.N].Key.Size; size > 0 {
			return aggKey(size)
		}
	}
	return 0
}

// tableKey returns the bytes of a key of an associative array, aggKey those of an aggregation whose own key has size: bucket and CPU are
// behind it.
func tableKey(p *ir.Program, n int) int { return max(8, p.Tables[n].Key.Size) }
func aggKey(size int) int               { return size + 8 }

// cutsKey reports whether a step looks into a map by a key that is cut.
func (k Kernel) cutsKey(p *ir.Program, s *ir.Step) bool {
	_, long := k.CutKey(keySize(p, s))
	return long
}

// key leaves in dst where the key of a step is, as the map has it. Where it is cut, that takes a call, which changes r0 to r5, and failed
// is where it leads with 0 in r0 if a piece is not there; with create it is made, and counted as d if there is no room.
func (b *builder) key(dst asm.Register, s *ir.Step, create bool, d ir.Drop, none, failed label) {
	if !b.k.cutsKey(b.p, s) {
		b.address(dst, s.Mem, false, none)
		return
	}
	size := keySize(b.p, s)
	b.address(asm.R1, s.Mem, false, none)
	b.mov(asm.R2, asm.R9)
	b.callSub(b.function(fmt.Sprint("key", size, create, d), func() { b.makeKey(size, create, d) }))
	b.ifImm(asm.JEq, asm.R0, 0, failed, asm.R1)
	b.cutKey(dst)
}

// cutKey leaves in dst where the key is that was cut last.
func (b *builder) cutKey(dst asm.Register) { b.lift(dst, asm.R9, b.lay.long) }

// makeKey makes the function that cuts the key at r1, in the scratch memory at r2, and gives 0 if a piece is not there:
//
//	area.number = 0
//	for each piece: area.bytes = the piece; area.number = number of area in MapLong
//	area.bytes = the rest
func (b *builder) makeKey(size int, create bool, d ir.Drop) {
	const (
		number = -8
		own    = -16
	)
	cut, _ := b.k.CutKey(size)
	b.store(asm.R10, own, asm.R2, 8)
	b.mov(asm.R7, asm.R1)
	b.lift(asm.R6, asm.R2, b.lay.long)
	b.storeImm(asm.R6, 0, 0, 8, asm.R0)
	failed := b.label()
	read := func(from, n int) {
		b.lift(asm.R1, asm.R6, 8)
		b.movImm(asm.R2, int64(n))
		b.lift(asm.R3, asm.R7, from)
		b.call(asm.FnProbeReadKernel)
	}
	for i := range cut.Pieces {
		read(i*pieceBytes, pieceBytes)
		got := b.label()
		if create {
			b.numberKey(MapLong, number, own, false, got, failed)
		} else {
			b.mapPtr(asm.R1, MapLong)
			b.mov(asm.R2, asm.R6)
			b.call(asm.FnMapLookupElem)
			b.ifImm(asm.JEq, asm.R0, 0, failed, asm.R1)
			b.load(asm.R0, asm.R0, 0, 4, false)
		}
		b.bind(got)
		b.store(asm.R6, 0, asm.R0, 8)
	}
	read(cut.Pieces*pieceBytes, cut.Size-8)
	b.movImm(asm.R0, 1)
	b.exit()
	b.bind(failed)
	if create {
		b.drop(d)
	}
	b.movImm(asm.R0, 0)
	b.exit()
}
