package gen

import (
	"encoding/binary"
	"fmt"

	"culprit/lang/ir"

	"github.com/cilium/ebpf/asm"
)

// pieceBytes is the number of bytes of a key in a piece: a key of maxKey bytes minus the number
// before them.
const pieceBytes = maxKey - 8

// A KeyCut describes how a key longer than the kernel's limit is stored. A number represents its
// first Pieces pieces of pieceBytes each. MapLong contains each piece with the number of the piece
// before it. The key in the map is
//
//	| u64 number of the last piece | the other bytes of the key |
type KeyCut struct {
	Pieces int
	Size   int // bytes of the key in the map
}

// CutKey returns how keys of a size in bytes are stored on a kernel, or false when they are stored
// unchanged.
func (k Kernel) CutKey(size int) (KeyCut, bool) {
	if k.LongKeys || size <= maxKey {
		return KeyCut{Size: size}, false
	}
	n := (size - 1) / pieceBytes // the rest has 1 to pieceBytes bytes
	return KeyCut{n, 8 + size - n*pieceBytes}, true
}

// Restore returns the whole key of a key in a map. piece returns the bytes of a piece by its
// number, after the number of the piece before it; when it returns nil, Restore returns nil.
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

// keyBytes returns the size in the map of a key of a size in bytes.
func (k Kernel) keyBytes(size int) uint32 {
	cut, _ := k.CutKey(size)
	return uint32(cut.Size)
}

// keySize returns the size of the key that a step looks up; 0: it looks up none.
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

// tableKey returns the size in bytes of a key of an associative array, aggKey that of an
// aggregation whose own key has size: bucket and CPU follow it.
func tableKey(p *ir.Program, n int) int { return max(8, p.Tables[n].Key.Size) }
func aggKey(size int) int               { return size + 8 }

// cutsKey reports whether a step looks up a cut key.
func (k Kernel) cutsKey(p *ir.Program, s *ir.Step) bool {
	_, long := k.CutKey(keySize(p, s))
	return long
}

// key leaves in dst the address of the key of a step, in the form in the map. Cutting it takes a
// call, which changes r0 to r5. It jumps to failed, with 0 in r0, if a piece does not exist. With
// create it adds the piece, and counts d if the map is full.
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

// cutKey leaves in dst the address of the last cut key.
func (b *builder) cutKey(dst asm.Register) { b.lift(dst, asm.R9, b.lay.long) }

// makeKey makes the function that cuts the key at r1, in the scratch memory at r2. It returns 0 if
// a piece does not exist:
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
			b.numberKey(MapLong, number, own, got, failed)
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
