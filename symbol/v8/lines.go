package v8

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"
)

const (
	mostPosition  = 1 << 29   // of a string
	mostTable     = 256 << 10 // bytes of a table of positions
	sourceAtOnce  = 64 << 10  // bytes of a source that are read at once
	positionBits  = 30        // of a position in a table: | 1 bit external | 30 bits position + 1 |
	mostLineEnds  = 1 << 20
	mostLineDelta = 1 << 20 // a script may begin on a later line of its file
)

// A script is what is known of one.
type script struct {
	name   string
	offset int      // lines before its first one
	source part     // its source; length 0: not known
	ends   lineEnds // where V8 has found its lines to end
	// found are where lines end in the source that was read so far.
	found []int32
	read  uint64 // characters
	ended bool   // the source can be read no further
}

// lineEnds is a FixedArray with the ends of lines.
type lineEnds struct {
	at uint64
	n  int
}

// scriptOf reads a Script, or that of an object that has it in the same place of its own; nil:
// there is none.
func (r *Reader) scriptOf(at uint64) *script {
	s, known := r.scripts[at]
	if !known {
		s = r.script(at)
		r.scripts[at] = s
	}
	return s
}

func (r *Reader) script(at uint64) *script {
	kind, ok := r.typeOf(at)
	if !ok || kind != r.at[typeScript] {
		return nil
	}
	object := at - tag
	name, _ := r.word(object + uint64(r.at[scriptName])) // 0: no name
	s := &script{name: r.text(name)}
	if !plain(s.name) {
		s.name = ""
	}
	w, _ := r.word(object + uint64(r.at[scriptName]) + 8)
	if n, ok := number(w); ok && n > 0 && n < mostLineDelta {
		s.offset = n
	}
	if source, ok := r.word(object + uint64(r.at[scriptSource])); ok {
		if kind, ok := r.typeOf(source); ok && kind < firstNoString {
			s.source, _ = r.flat(source) // length 0: not known
		}
	}
	ends, _ := r.word(object + uint64(r.at[scriptEnds]))
	if kind, ok := r.typeOf(ends); ok && kind == r.at[typeArray] {
		w, _ := r.word(ends - tag + uint64(r.at[arrayLength]))
		if n, ok := number(w); ok && n > 0 && n < mostLineEnds {
			s.ends = lineEnds{ends - tag + uint64(r.at[arrayData]), n}
		}
	}
	return s
}

// line returns the line of a position in the source of a script, from 1 on; 0: not known.
func (r *Reader) line(s *script, position int) int {
	if s.ends.n > 0 {
		ok := true
		n := sort.Search(s.ends.n, func(i int) bool {
			w, read := r.word(s.ends.at + 8*uint64(i))
			end, isNumber := number(w)
			ok = ok && read && isNumber
			return !ok || end >= position
		})
		if ok {
			return s.offset + n + 1
		}
	}
	r.readSource(s, uint64(position))
	if uint64(position) > s.read {
		return 0
	}
	n, _ := slices.BinarySearch(s.found, int32(position))
	return s.offset + n + 1
}

// readSource finds the lines of a source up to a position.
func (r *Reader) readSource(s *script, position uint64) {
	for s.read < min(position, s.source.length) && !s.ended {
		n := min(s.source.length-s.read, sourceAtOnce)
		size := int(n * s.source.width)
		if r.left < size {
			s.ended = true
			return
		}
		r.left -= size
		b, ok := r.read(s.source.at+s.read*s.source.width, size)
		if !ok {
			s.ended = true
			return
		}
		width := int(s.source.width)
		for i := 0; i < len(b); i += width {
			if width == 2 && b[i+1] != 0 {
				continue
			}
			// a return before a newline is part of the same end
			next := i + width
			if b[i] == '\n' || b[i] == '\r' && (next >= len(b) || b[next] != '\n') {
				if r.lines--; r.lines < 0 {
					s.ended = true
					return
				}
				s.found = append(s.found, int32(int(s.read)+i/width))
			}
		}
		s.read += n
	}
}

// table reads the table of positions of the bytecode of a function; nil: it has none. V8 makes it
// when a function is compiled or when it needs it.
func (r *Reader) table(at uint64) []byte {
	kind, ok := r.typeOf(at)
	if ok && kind == r.at[typeCode] {
		at, _ = r.word(at - tag + uint64(r.at[codeBytecode]))
		kind, ok = r.typeOf(at)
	}
	if !ok || kind != r.at[typeBytecode] {
		return nil
	}
	at, _ = r.word(at - tag + uint64(r.at[positions]))
	if kind, ok = r.typeOf(at); !ok || kind != r.at[typePositions] {
		return nil
	}
	w, _ := r.word(at - tag + uint64(r.at[arrayLength]))
	n, ok := number(w)
	if !ok || n <= 0 || n > mostTable || r.left < n {
		return nil
	}
	r.left -= n
	b, ok := r.read(at-tag+uint64(r.at[arrayData]), n)
	if !ok {
		return nil
	}
	return append([]byte(nil), b...)
}

// positionOf returns the position in the source of an instruction. A table has pairs of numbers of
// 7 bits a byte, lowest first: what is added to the instruction, and to the position. A number is
// negative if its lowest bit is set; an instruction has a further bit by its sign.
func positionOf(table []byte, instruction uint64) (position int, ok bool) {
	at, raw := int64(0), int64(0)
	for len(table) > 0 {
		by, n := varint(table)
		if n == 0 {
			break
		}
		moved, m := varint(table[n:])
		if m == 0 {
			break
		}
		table = table[n+m:]
		if by < 0 {
			by = -by - 1
		}
		at += by
		raw += moved
		if at > int64(instruction) || at < 0 {
			break
		}
		position, ok = int(raw>>1&(1<<positionBits-1))-1, true
	}
	return position, ok && position >= 0 && position < math.MaxInt32
}

// varint decodes a number; n 0: there is none.
func varint(b []byte) (v int64, n int) {
	u, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, 0
	}
	return int64(u>>1) ^ -int64(u&1), n
}
