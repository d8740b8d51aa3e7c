package v8

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/symbol/interp"
)

// memory is the memory of a process: bytes from an address on.
type memory struct {
	from  int64
	bytes []byte
}

// ReadAt implements io.ReaderAt.
func (m memory) ReadAt(b []byte, at int64) (int, error) {
	at -= m.from
	if at < 0 || at >= int64(len(m.bytes)) {
		return 0, errors.New("not mapped")
	}
	n := copy(b, m.bytes[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Addresses in a heap. Maps follow each other from mapsAt on: that of type t is at
// mapsAt + 16 * t.
const (
	heapStart = 0x10000
	heapBytes = 0x4000
	mapsAt    = heapStart
	shareAt   = heapStart + 0x2000
	scriptAt  = heapStart + 0x2100
	nameAt    = heapStart + 0x2200
	fileAt    = heapStart + 0x2300
	sourceAt  = heapStart + 0x2400
	freeAt    = heapStart + 0x3000
)

// Types of objects, as in Node.js 20 less what would not fit.
const (
	kindShare  = 0x90
	kindScript = 0x91
	kindScope  = 0x92
	kindArray  = 0x93
)

// typical returns the layout of the heap.
func typical() *Layout {
	return &Layout{At: [slots]uint16{ready: 1, functionShare: 24, bytecodeData: 54,
		instanceType: 12, shareName: 16, shareScript: 32, shareData: 8, scriptSource: 8, scriptName: 16,
		scriptEnds: 56, stringLength: 12, oneByteChars: 16, twoByteChars: 16, consFirst: 16, consSecond: 24,
		slicedParent: 16, slicedOffset: 24, thinActual: 16, externalData: 24, arrayLength: 8,
		arrayData: 16, localCount: 2, localFirst: 3, codeBytecode: 16, positions: 32,
		typeShare: kindShare, typeScope: kindScope, typeScript: kindScript, typeBytecode: 0x94,
		typeCode: 0x95, typeArray: kindArray, typePositions: 0x96}}
}

// A heap is memory with objects.
type heap struct{ bytes []byte }

// word writes 8 bytes.
func (h *heap) word(at, v uint64) { binary.LittleEndian.PutUint64(h.bytes[at-heapStart:], v) }

// smi writes a number.
func (h *heap) smi(at uint64, v int32) { h.word(at, uint64(uint32(v))<<32) }

// object begins an object of a type and returns its address with the tag.
func (h *heap) object(at uint64, kind uint16) uint64 {
	described := mapsAt + 16*uint64(kind)
	h.word(at, described+tag)
	binary.LittleEndian.PutUint16(h.bytes[described+12-heapStart:], kind)
	return at + tag
}

// text writes a string with characters of one or two bytes.
func (h *heap) text(at uint64, s string, kind uint16) uint64 {
	out := h.object(at, kind)
	units := []rune(s)
	binary.LittleEndian.PutUint32(h.bytes[at+12-heapStart:], uint32(len(units)))
	for i, c := range units {
		if kind&oneByte != 0 {
			h.bytes[at+16+uint64(i)-heapStart] = byte(c)
		} else {
			binary.LittleEndian.PutUint16(h.bytes[at+16+2*uint64(i)-heapStart:], uint16(c))
		}
	}
	return out
}

// heapOf returns memory with a function whose name is in a string of its own.
func heapOf(name string) *heap {
	h := &heap{make([]byte, heapBytes)}
	h.object(shareAt, kindShare)
	h.word(shareAt+16, h.text(nameAt, name, oneByte))
	h.word(shareAt+32, h.object(scriptAt, kindScript))
	h.word(scriptAt+8, h.text(sourceAt, "one\ntwo\r\nthree\rfour", oneByte))
	h.word(scriptAt+16, h.text(fileAt, "/a/b.js", oneByte))
	return h
}

// name reads the name of the function of a heap.
func (h *heap) name() interp.Name {
	w := interp.NewWord(shareAt, interp.UnknownInstruction)
	return typical().NewReader(memory{heapStart, h.bytes}).Name(interp.Frame{Word: w})
}

// Names are read from strings of every kind.
func TestStrings(t *testing.T) {
	one, two := uint16(oneByte), uint16(0)
	for _, tt := range []struct {
		name string
		want string
		text func(h *heap) uint64
	}{
		{"one byte", "größe", func(h *heap) uint64 { return h.text(freeAt, "größe", one) }},
		{"two bytes", "名前", func(h *heap) uint64 { return h.text(freeAt, "名前", two) }},
		{"none", anonymous, func(h *heap) uint64 { return h.text(freeAt, "", one) }},
		{"two strings", "a.名b", func(h *heap) uint64 {
			out := h.object(freeAt, consString)
			h.word(freeAt+16, h.text(freeAt+0x100, "a.", one))
			inner := h.object(freeAt+0x200, consString)
			h.word(freeAt+0x210, h.text(freeAt+0x300, "名", two))
			h.word(freeAt+0x218, h.text(freeAt+0x400, "b", one))
			h.word(freeAt+24, inner)
			return out
		}},
		{"part of one", "cde", func(h *heap) uint64 {
			out := h.object(freeAt, slicedString|one)
			binary.LittleEndian.PutUint32(h.bytes[freeAt+12-heapStart:], 3)
			h.word(freeAt+16, h.text(freeAt+0x100, "abcdef", one))
			h.smi(freeAt+24, 2)
			return out
		}},
		{"more than the whole", anonymous, func(h *heap) uint64 {
			out := h.object(freeAt, slicedString|one)
			binary.LittleEndian.PutUint32(h.bytes[freeAt+12-heapStart:], 5)
			h.word(freeAt+16, h.text(freeAt+0x100, "abcdef", one))
			h.smi(freeAt+24, 2)
			return out
		}},
		{"one elsewhere", "there", func(h *heap) uint64 {
			out := h.object(freeAt, thinString)
			binary.LittleEndian.PutUint32(h.bytes[freeAt+12-heapStart:], 5)
			h.word(freeAt+16, h.text(freeAt+0x100, "there", one))
			return out
		}},
		{"outside", "library", func(h *heap) uint64 {
			out := h.object(freeAt, externalString|one)
			binary.LittleEndian.PutUint32(h.bytes[freeAt+12-heapStart:], 7)
			h.word(freeAt+24, freeAt+0x100)
			copy(h.bytes[freeAt+0x100-heapStart:], "library")
			return out
		}},
		{"a cycle of two strings", anonymous, func(h *heap) uint64 {
			out := h.object(freeAt, consString)
			h.word(freeAt+16, h.text(freeAt+0x100, "a", one))
			h.word(freeAt+24, out)
			return out
		}},
		{"a cycle of first strings", anonymous, func(h *heap) uint64 {
			out := h.object(freeAt, consString)
			h.word(freeAt+16, out)
			h.word(freeAt+24, out)
			return out
		}},
		{"a cycle of parts", anonymous, func(h *heap) uint64 {
			out := h.object(freeAt, slicedString|one)
			h.word(freeAt+16, out)
			return out
		}},
		{"a length of 2^31", anonymous, func(h *heap) uint64 {
			out := h.text(freeAt, "a", one)
			binary.LittleEndian.PutUint32(h.bytes[freeAt+12-heapStart:], 1<<31)
			return out
		}},
		{"a length of 2^31-1", anonymous, func(h *heap) uint64 {
			out := h.text(freeAt, "a", one)
			binary.LittleEndian.PutUint32(h.bytes[freeAt+12-heapStart:], 1<<31-1)
			return out
		}},
		{"longer than a name", anonymous, func(h *heap) uint64 {
			return h.text(freeAt, strings.Repeat("a", mostText+1), one)
		}},
		{"as long as a name", strings.Repeat("a", mostText), func(h *heap) uint64 {
			return h.text(freeAt, strings.Repeat("a", mostText), one)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := heapOf("")
			h.word(shareAt+16, tt.text(h))
			if got := h.name().Function; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A ScopeInfo has the name of its function after its variables.
func TestScopes(t *testing.T) {
	const named, inferred, saved = 1 << 12, scopeInferred, scopeSaved
	for _, tt := range []struct {
		name   string
		flags  int32
		locals int
		first  uint16
		want   interp.Name
	}{
		{"named", named, 0, 3, interp.Name{Function: "name", First: 2}},
		{"named, with variables", named, 2, 3, interp.Name{Function: "name", First: 2}},
		{"inferred", inferred, 1, 3, interp.Name{Function: "inferred", First: 2}},
		{"both", named | inferred, 1, 3, interp.Name{Function: "name", First: 2}},
		{"both, of a class", named | inferred | saved, 1, 3, interp.Name{Function: "name", First: 2}},
		{"neither", 0, 3, 3, interp.Name{Function: anonymous, First: 2}},
		{"many variables", named, 80, 3, interp.Name{Function: "name", First: 2}},
		{"the position first", named | inferred, 2, 5, interp.Name{Function: "name", First: 2}},
		{"too many variables", named, 1 << 20, 3, interp.Name{Function: anonymous}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := heapOf("")
			at := uint64(freeAt)
			h.word(shareAt+16, h.object(at, kindScope))
			h.smi(at+8, tt.flags)
			h.smi(at+24, int32(tt.locals))
			next := at + 8 + 8*uint64(tt.first)
			if tt.first == 5 {
				h.smi(at+32, 5)
			}
			locals := tt.locals
			if locals < scopeManyLocals {
				for range locals {
					h.word(next, h.text(nameAt, "variable", oneByte))
					next += 8
				}
			} else {
				h.word(next, nameAt+tag)
				next += 8
			}
			if locals > 1000 {
				locals = 0
			}
			next += 8 * uint64(locals)
			if tt.flags&saved != 0 {
				next += 8
			}
			if tt.flags&named != 0 {
				h.word(next, h.text(nameAt+0x40, "name", oneByte))
				next += 16
			}
			if tt.flags&inferred != 0 {
				h.word(next, h.text(nameAt+0x80, "inferred", oneByte))
				next += 8
			}
			if tt.first == 3 {
				h.smi(next, 5)
			}
			l := typical()
			l.At[localFirst] = tt.first
			w := interp.NewWord(shareAt, interp.UnknownInstruction)
			tt.want.File = "/a/b.js"
			got := l.NewReader(memory{heapStart, h.bytes}).Name(interp.Frame{Word: w})
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// Lines end with a newline, a return, or both, in sources of one and of two bytes a character, and
// where V8 has noted it.
func TestLines(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(h *heap)
		want   []int // of positions 0, 3, 4, 8, 9, 14, 15, 18
	}{
		{"one byte", func(*heap) {}, []int{1, 1, 2, 2, 3, 3, 4, 4}},
		{"two bytes", func(h *heap) {
			h.word(scriptAt+8, h.text(sourceAt, "one\ntwo\r\nthreeĊ\nour", 0))
		}, []int{1, 1, 2, 2, 3, 3, 3, 4}},
		{"noted", func(h *heap) {
			h.word(scriptAt+56, h.object(freeAt, kindArray))
			h.smi(freeAt+8, 2)
			h.smi(freeAt+16, 3)
			h.smi(freeAt+24, 14)
		}, []int{1, 1, 2, 2, 2, 2, 3, 3}},
		{"no source", func(h *heap) { h.word(scriptAt+8, 0) }, []int{1, 0, 0, 0, 0, 0, 0, 0}},
		{"a later line of its file", func(h *heap) { h.smi(scriptAt+24, 10) },
			[]int{11, 11, 12, 12, 13, 13, 14, 14}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := heapOf("a")
			tt.change(h)
			r := typical().NewReader(memory{heapStart, h.bytes}).(*Reader)
			s := r.scriptOf(scriptAt + tag)
			for i, position := range []int{0, 3, 4, 8, 9, 14, 15, 18} {
				if got := r.line(s, position); got != tt.want[i] {
					t.Errorf("position %d is on line %d, want %d", position, got, tt.want[i])
				}
			}
		})
	}
}

// A table of positions has the last instruction at or before the one that runs.
func TestPositions(t *testing.T) {
	// instructions 0 (position 10), 4 (an expression, 30), 9 (20), as V8 writes them
	var table []byte
	put := func(by int64, moved int64) {
		for _, v := range []int64{by, moved} {
			table = binary.AppendUvarint(table, uint64(v<<1)^uint64(v>>63))
		}
	}
	put(0, 11<<1)
	put(-4-1, 20<<1)
	put(5, -10<<1)
	for _, tt := range []struct {
		instruction uint64
		want        int
	}{{0, 10}, {3, 10}, {4, 30}, {8, 30}, {9, 20}, {1000, 20}} {
		if got, ok := positionOf(table, tt.instruction); !ok || got != tt.want {
			t.Errorf("instruction %d is at %d, want %d", tt.instruction, got, tt.want)
		}
	}
	for _, bad := range [][]byte{nil, {0x80}, {0, 0x80}, {0, 0}} {
		if got, ok := positionOf(bad, 5); ok {
			t.Errorf("% x has position %d", bad, got)
		}
	}
}

// What is no function has no name.
func TestNoFunction(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(h *heap)
	}{
		{"another type", func(h *heap) { h.object(shareAt, kindScript) }},
		{"no type", func(h *heap) { h.word(shareAt, 0) }},
		{"a type elsewhere", func(h *heap) { h.word(shareAt, 1<<46+tag) }},
		{"control characters", func(h *heap) { h.word(shareAt+16, h.text(nameAt, "a\x01", oneByte)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := heapOf("function")
			if h.name().Function != "function" {
				t.Fatalf("it is %+v", h.name())
			}
			tt.change(h)
			if got := h.name(); got != (interp.Name{}) {
				t.Errorf("it is %+v", got)
			}
		})
	}
}

// checkName fails the test when a name is not within its bounds.
func checkName(t *testing.T, n interp.Name) {
	t.Helper()
	if len(n.Function) > 6*mostText || len(n.File) > 6*mostText || n.Line < 0 || n.First < 0 ||
		n.Caller != nil {
		t.Errorf("%+v", n)
	}
}

// Names of the memory of Node.js in which words are replaced by other addresses and by large
// numbers are bounded, and mostly read.
func TestHostileHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	read := 0
	for version, m := range images(t) {
		for range 3000 {
			i := random.IntN(len(m.at))
			before := append([]byte(nil), m.bytes[i]...)
			if len(before) >= 8 {
				at := m.at[random.IntN(len(m.at))] &^ 7
				v := []uint64{at + tag, at, 1<<62 + tag, ^uint64(0), 1<<47 + tag, 1 << 63,
					(1<<31 - 1) << 32, 0, uint64(random.IntN(1 << 30))}[random.IntN(9)]
				binary.LittleEndian.PutUint64(m.bytes[i][8*random.IntN(len(before)/8):], v)
			} else {
				m.bytes[i][random.IntN(len(before))] = byte(random.IntN(256))
			}
			r := m.layout.NewReader(m)
			for k := range m.names {
				n := r.Name(m.names[k].frame)
				checkName(t, n)
				if n == m.names[k].want {
					read++
				}
			}
			m.bytes[i] = before
		}
		if read == 0 {
			t.Errorf("%s: no function has a name", version)
		}
	}
}

// A process may have anything in its memory.
func FuzzNames(f *testing.F) {
	h := heapOf("a")
	f.Add(h.bytes, interp.Text(typical().Numbers()), uint32(shareAt-heapStart), uint32(5))
	h.word(shareAt+16, h.object(freeAt, consString))
	h.word(freeAt+16, freeAt+tag)
	h.word(freeAt+24, freeAt+tag)
	f.Add(h.bytes, interp.Text(typical().Numbers()), uint32(shareAt-heapStart),
		uint32(interp.UnknownInstruction))
	heapbound.Fuzz(f, func(t *testing.T, heap, layout []byte, code, instruction uint32) {
		l := fromNumbers(interp.NumbersOf(layout, addresses+int(slots)))
		if l == nil {
			return
		}
		r := l.NewReader(memory{heapStart, heap})
		for i := range uint64(64) {
			w := interp.NewWord(heapStart+uint64(code)+8*i, uint64(instruction))
			checkName(t, r.Name(interp.Frame{Word: w}))
		}
	})
}
