package trace

import (
	"encoding/binary"
	"slices"

	"culprit/lang/gen"

	"github.com/cilium/ebpf"
)

// pieces are the keys of stacks whose keys were too long for the kernel, so that programs cut them
// into pieces (gen.PieceOf), by number. All pieces of a stack are in the same map.
type pieces map[uint32][]byte

// eachStack calls take with the whole key of each stack in maps, as gen.MapStacks describes it, and
// with its number. With remove it removes them. The key is valid until take returns. A stack that
// cannot be read is left out; its number is then reported as lost.
func (s *stackReader) eachStack(from []*ebpf.Map, remove bool, take func(key []byte, id uint32)) {
	if !s.script.kernel.InPieces() {
		s.eachPiece(from, remove, take)
		return
	}
	all := pieces{}
	s.eachPiece(from, remove, func(key []byte, id uint32) { all[id] = slices.Clone(key) })
	for id, key := range all {
		if whole := all.join(key); whole != nil {
			take(whole, id)
		}
	}
}

// eachPiece calls take with each key of the maps of stacks.
func (s *stackReader) eachPiece(from []*ebpf.Map, remove bool, take func(key []byte, id uint32)) {
	for _, m := range from {
		err := s.batches.each(
			m, 1, remove,
			func(key []byte, values [][]byte) { take(key, binary.NativeEndian.Uint32(values[0])) },
		)
		if err != nil {
			return
		}
	}
}

// join returns the whole key of the stack whose last piece is key, or nil when a piece is missing.
func (p pieces) join(key []byte) []byte {
	before := gen.PieceOf(binary.NativeEndian.Uint64(key))
	if before == 0 {
		return key
	}
	first, ok := p[before]
	if !ok {
		return nil
	}
	if first = p.join(first); first == nil {
		return nil
	}
	return slices.Concat(first, key[8:])
}

// keyPiece returns a piece of a cut key (gen.KeyCut), which begins with the number of the piece
// before it. It returns nil when no piece has this number.
func (s *stackReader) keyPiece(number uint32) []byte {
	if one := s.long[number]; one != nil {
		return one
	}
	s.long = map[uint32][]byte{}
	err := s.batches.each(s.maps[gen.MapLong], 1, false, func(key []byte, values [][]byte) {
		s.long[binary.NativeEndian.Uint32(values[0])] = slices.Clone(key)
	})
	if err != nil {
		return nil
	}
	return s.long[number]
}
