package trace

import (
	"encoding/binary"
	"slices"
	"strconv"

	"culprit/lang/gen"
)

// pieces are stacks whose keys were too long for the kernel, so that programs cut them into pieces
// (gen.PieceOf).
type pieces struct {
	now map[uint32][]byte // keys of the pieces of the last reading, by number
	// before has the pieces of the reading before: a program that ran while they were removed may
	// have used their numbers.
	before map[uint32][]byte
}

// eachStack calls take with the whole key of each stack in the kernel, as gen.MapStacks describes
// it, and with its number. With remove it removes them. The key is valid until take returns. A
// stack that cannot be read is left out; its number is then reported as lost.
func (s *stackReader) eachStack(remove bool, take func(key []byte, id uint32)) {
	if !s.script.kernel.InPieces() {
		s.eachPiece(remove, take)
		return
	}
	if remove {
		s.pieces.before = s.pieces.now
	}
	s.pieces.now = map[uint32][]byte{}
	s.eachPiece(remove, func(key []byte, id uint32) { s.pieces.now[id] = slices.Clone(key) })
	for id, key := range s.pieces.now {
		if whole := s.pieces.join(key); whole != nil {
			take(whole, id)
		}
	}
}

// eachPiece calls take with each key of the maps of stacks.
func (s *stackReader) eachPiece(remove bool, take func(key []byte, id uint32)) {
	for i := 0; ; i++ {
		m := s.maps[gen.MapStacks+strconv.Itoa(i)]
		if m == nil {
			return
		}
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
func (p *pieces) join(key []byte) []byte {
	before := gen.PieceOf(binary.NativeEndian.Uint64(key))
	if before == 0 {
		return key
	}
	first, ok := p.now[before]
	if !ok {
		first, ok = p.before[before]
	}
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
