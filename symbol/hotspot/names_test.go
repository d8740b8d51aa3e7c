package hotspot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

// Addresses in heapOf.
const (
	heapStart = 0x10000
	heapBytes = 0x1000
	methodAt  = heapStart
	constAt   = heapStart + 0x100
	poolAt    = heapStart + 0x200
	klassAt   = heapStart + 0x300
	symbolsAt = heapStart + 0x400 // of the class, the method and the file
	blobAt    = heapStart + 0x600
	nameAt    = heapStart + 0x700
)

// typical returns a layout as Java 17 or 25 has it.
func typical(number uint16) *Layout {
	return &Layout{Heaps: 8, At: [slots]uint16{ready: 1, blobName: 56, methodConst: 8,
		constSize: 56,
		constPool: 8, constName: 42, constCode: 40, constFlags: 38, poolHolder: 24, poolSize: 72,
		klassName: 24, symbolSize: 4, symbolText: 6, sourceName: 62, sourceOwner: 1,
		release: number}}
}

// heapOf returns memory with a method of 20 bytes of bytecode. Its lines are 7 from instruction 0
// on, 9 from 5 on, 120 from 8 on and 100 from 12 on.
func heapOf(release uint16, class, name, source string) []byte {
	b := make([]byte, heapBytes)
	put := func(at, v uint64) { binary.LittleEndian.PutUint64(b[at-heapStart:], v) }
	half := func(at uint64, v uint16) { binary.LittleEndian.PutUint16(b[at-heapStart:], v) }
	put(methodAt+8, constAt)
	put(constAt+8, poolAt)
	half(constAt+38, 1)
	half(constAt+40, 20)
	half(constAt+42, 3)
	escape := "\xff\x06\xde\x00\xff\x08\x27" // 3, 111; 4, -20
	if release >= zeroFree {
		escape = "\xff\x07\xdf\x01\xff\x09\x28"
	}
	copy(b[constAt-heapStart+56+20:], "\x07\x2a"+escape+"\x00")
	put(poolAt+24, klassAt)
	half(poolAt+62, 5)
	for i, s := range []string{class, name, source} {
		at := symbolsAt + 0x80*uint64(i)
		half(at+4, uint16(len(s)))
		copy(b[at-heapStart+6:], s)
		put([]uint64{klassAt + 24, poolAt + 72 + 8*3, poolAt + 72 + 8*5}[i], at)
	}
	put(blobAt+56, nameAt)
	copy(b[nameAt-heapStart:], "StubRoutines (1)")
	return b
}

// at returns the frame of a method at an instruction.
func at(instruction uint64) interp.Frame {
	return interp.Frame{Word: interp.NewWord(methodAt, instruction)}
}

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		name, class, method, source string
		want                        interp.Name
	}{
		{"a class in a package", "java/util/HashMap", "get", "HashMap.java",
			interp.Name{Function: "java.util.HashMap.get", File: "HashMap.java", First: 7}},
		{"a constructor", "A$B", "<init>", "A.java",
			interp.Name{Function: "A$B.<init>", File: "A.java", First: 7}},
		{"a hidden class", "A$$Lambda$14+0x0000000800c03000", "run", "",
			interp.Name{Function: "A$$Lambda$14.run", First: 7}},
		{"other letters", "größe/Maß", "名前", "Maß.java",
			interp.Name{Function: "größe.Maß.名前", File: "Maß.java", First: 7}},
		{"no class", "", "get", "A.java", interp.Name{}},
		{"a descriptor", "A", "(I)V;", "A.java", interp.Name{}},
		{"a method with brackets", "A", "<x>", "A.java", interp.Name{}},
		{"control characters", "A", "a\nb", "A.java", interp.Name{}},
		{"bytes that are no text", "A", "a\xff", "A.java", interp.Name{}},
		{"a file that is no text", "A", "a", "A\x01", interp.Name{Function: "A.a", First: 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			heap := heapOf(17, tt.class, tt.method, tt.source)
			r := typical(17).NewReader(memory{heapStart, heap})
			if got := r.Name(at(interp.UnknownInstruction)); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestLines(t *testing.T) {
	for _, release := range []uint16{17, 19, 20, 25} {
		r := typical(release).NewReader(memory{heapStart, heapOf(release, "A", "a", "A.java")})
		for instruction, want := range map[uint64]int{0: 7, 4: 7, 5: 9, 7: 9, 8: 120, 11: 120,
			12: 100, 19: 100} {
			if got := r.Name(at(instruction)); got.Line != want || got.First != 7 {
				t.Errorf("Java %d: instruction %d is on line %d of a method from line %d, want %d",
					release, instruction, got.Line, got.First, want)
			}
		}
	}
}

// Code that belongs to no method has the name that HotSpot has given it.
func TestNameOfStub(t *testing.T) {
	heap := heapOf(17, "A", "a", "A.java")
	stub := interp.Frame{Word: interp.NewWord(blobAt, interp.UnknownInstruction)}
	got := typical(17).NewReader(memory{heapStart, heap}).Name(stub)
	if want := (interp.Name{Function: "[StubRoutines (1)]"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	heap[nameAt-heapStart+3] = 7
	if got := typical(17).NewReader(memory{heapStart, heap}).Name(stub); got != (interp.Name{}) {
		t.Errorf("a text with control characters is %+v", got)
	}
}

// Addresses in compiledHeap.
const (
	innerAt    = heapStart + 0x40 // a Method
	innerConst = heapStart + 0x180
	compiledAt = heapStart + 0x800
	kindAt     = heapStart + 0xa00
	recordsAt  = heapStart + 0xbc0
	scopesAt   = heapStart + 0xc00
	listAt     = heapStart + 0xd00
)

// compiledHeap returns a layout and memory with the compiled method A.a, in which A.inner is
// inlined: at 0x30, where A.a is on line 9. At 0x20 it is on line 9 alone.
func compiledHeap(number uint16) (*Layout, []byte) {
	l, b := typical(number), heapOf(number, "A", "a", "A.java")
	put := func(at, v uint64) { binary.LittleEndian.PutUint64(b[at-heapStart:], v) }
	put4 := func(at uint64, v int32) { binary.LittleEndian.PutUint32(b[at-heapStart:], uint32(v)) }
	put(innerAt+8, innerConst)
	copy(b[innerConst-heapStart:], b[constAt-heapStart:][:0x80])
	b[innerConst-heapStart+42] = 7
	const text = symbolsAt + 0x180
	put(poolAt+72+8*7, text)
	b[text-heapStart+4] = 5
	copy(b[text-heapStart+6:], "inner")
	for s, n := range map[slot]uint16{inlining: 1, nmethodMethod: 152, descriptors: 204,
		afterThem: 208, descriptor: 16, codeOffset: 0, scopeOffset: 4} {
		l.At[s] = n
	}
	put(compiledAt+56, kindAt)
	copy(b[kindAt-heapStart:], "nmethod")
	put(compiledAt+152, methodAt)
	if number < 23 {
		l.At[scopeData], l.At[metadata] = 160, 196
		put(compiledAt+160, scopesAt)
		put4(compiledAt+196, listAt-compiledAt)
		put4(compiledAt+204, recordsAt-compiledAt)
		put4(compiledAt+208, scopesAt-compiledAt)
	} else {
		l.At[immutable], l.At[mutable], l.At[relocations] = 96, 40, 52
		put(compiledAt+96, recordsAt-0x10)
		put4(compiledAt+204, 0x10)
		put4(compiledAt+208, scopesAt-recordsAt+0x10)
		put(compiledAt+40, listAt-8)
		put4(compiledAt+52, 8)
	}
	for i, one := range [][2]int32{{-1, 0}, {0x20, 1}, {0x30, 4}, {1<<31 - 1, 0}} {
		put4(recordsAt+16*uint64(i), one[0])
		put4(recordsAt+16*uint64(i)+4, one[1])
	}
	scopes := []byte{0, 0, 1, 6, 1, 2, 9} // from 1 on: outer, method, instruction + 1
	if number >= zeroFree {
		scopes = []byte{0, 1, 2, 7, 2, 3, 10}
	}
	copy(b[scopesAt-heapStart:], scopes)
	put(listAt, methodAt)
	put(listAt+8, innerAt)
	return l, b
}

func TestInlined(t *testing.T) {
	outer := interp.Name{Function: "A.a", File: "A.java", First: 7}
	inner := interp.Name{Function: "A.inner", File: "A.java", First: 7, Line: 120}
	onLine := outer
	onLine.Line = 9
	for _, number := range []uint16{17, 25} {
		for _, tt := range []struct {
			name        string
			instruction uint64
			change      func(heap []byte)
			want        interp.Name
			caller      *interp.Name
		}{
			{"inlined", interp.InCode + 0x30, nil, inner, &onLine},
			{"not inlined", interp.InCode + 0x20, nil, onLine, nil},
			{"no record", interp.InCode + 0x31, nil, outer, nil},
			{"no offset", interp.UnknownInstruction, nil, outer, nil},
			{"a scope in itself", interp.InCode + 0x30, func(heap []byte) {
				heap[scopesAt-heapStart+4] = heap[scopesAt-heapStart+4] + 3
			}, outer, nil},
			{"another method around", interp.InCode + 0x30, func(heap []byte) {
				binary.LittleEndian.PutUint64(heap[listAt-heapStart:], innerAt)
			}, outer, nil},
			{"no method", interp.InCode + 0x30, func(heap []byte) {
				binary.LittleEndian.PutUint64(heap[compiledAt-heapStart+152:], 0)
			}, interp.Name{}, nil},
			{"another kind of code", interp.InCode + 0x30, func(heap []byte) {
				heap[kindAt-heapStart] = 'N'
			}, interp.Name{}, nil},
		} {
			t.Run(fmt.Sprint(number, " ", tt.name), func(t *testing.T) {
				l, heap := compiledHeap(number)
				if tt.change != nil {
					tt.change(heap)
				}
				r := l.NewReader(memory{heapStart, heap})
				got := r.Name(interp.Frame{Word: interp.NewWord(compiledAt, tt.instruction)})
				caller := got.Caller
				got.Caller = nil
				if got != tt.want || (caller == nil) != (tt.caller == nil) ||
					caller != nil && *caller != *tt.caller {
					t.Errorf("%+v, %+v, want %+v, %+v", got, caller, tt.want, tt.caller)
				}
			})
		}
	}
}

// changing is memory that becomes another one after some reads.
type changing struct {
	before, after memory
	reads         int
}

// ReadAt implements io.ReaderAt.
func (c *changing) ReadAt(b []byte, at int64) (int, error) {
	if c.reads--; c.reads < 0 {
		return c.after.ReadAt(b, at)
	}
	return c.before.ReadAt(b, at)
}

// A method that is replaced by another one while it is read has the name of one of them, or none.
func TestHeapThatChanges(t *testing.T) {
	before, after := heapOf(17, "pack/A", "first", "A.java"), make([]byte, heapBytes)
	// the other one has all its parts elsewhere, and other texts at their old places
	other := heapOf(17, "pack/B", "second", "B.java")
	copy(after, other)
	const by = 0x800
	copy(after[by:], other[:heapBytes-by])
	for _, at := range []int{8, by + 0x108, by + 0x200 + 24, by + 0x318, by + 0x260, by + 0x270} {
		binary.LittleEndian.PutUint64(after[at:], binary.LittleEndian.Uint64(after[at:])+by)
	}
	if got := typical(17).NewReader(memory{heapStart, after}).Name(at(0)); got.Function != "pack.B.second" {
		t.Fatalf("the other method is %+v", got)
	}
	names := map[string]int{}
	for reads := range 40 {
		mem := &changing{memory{heapStart, before}, memory{heapStart, after}, reads}
		names[typical(17).NewReader(mem).Name(at(0)).Function]++
	}
	for name := range names {
		if name != "pack.A.first" && name != "pack.B.second" && name != "" {
			t.Errorf("there is a method %s", name)
		}
	}
	if names["pack.A.first"] == 0 || names["pack.B.second"] == 0 || names[""] == 0 {
		t.Errorf("%v", names)
	}
}

// checkName fails the test when a name is not within its bounds.
func checkName(t *testing.T, n interp.Name) {
	t.Helper()
	for deep := 0; n.Caller != nil; n = *n.Caller {
		if deep++; deep > mostInlined {
			t.Fatal("too many are inlined")
		}
	}
	if len(n.Function) > 2*mostText+1 || len(n.File) > mostText || n.Line < 0 || n.First < 0 {
		t.Errorf("%+v", n)
	}
}

// A process may have anything in its memory.
func FuzzNames(f *testing.F) {
	for _, release := range []uint16{17, 25} {
		f.Add(heapOf(release, "java/lang/A", "a", "A.java"), interp.Text(typical(release).Numbers()),
			uint32(methodAt-heapStart), uint32(5))
		l, heap := compiledHeap(release)
		f.Add(heap, interp.Text(l.Numbers()), uint32(compiledAt-heapStart),
			uint32(interp.InCode+0x30))
	}
	heapbound.Fuzz(f, func(t *testing.T, heap, layout []byte, code, instruction uint32) {
		l := fromNumbers(interp.NumbersOf(layout, 2+int(slots)))
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

// Names of a heap in which words are replaced by other addresses and by large numbers are bounded.
func TestHostileHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	named := 0
	for range 20000 {
		l, heap := compiledHeap([]uint16{17, 25}[random.IntN(2)])
		for range 1 + random.IntN(3) {
			v := []uint64{heapStart + uint64(random.IntN(heapBytes)), 1 << 62, ^uint64(0), 1 << 47,
				1<<30 - 1, 0, uint64(random.IntN(256))}[random.IntN(7)]
			binary.LittleEndian.PutUint64(heap[8*random.IntN(0xe00/8):], v)
		}
		r := l.NewReader(memory{heapStart, heap})
		w := interp.NewWord(compiledAt, interp.InCode+0x30)
		for _, n := range []interp.Name{r.Name(at(5)), r.Name(interp.Frame{Word: w})} {
			checkName(t, n)
			if n.Function == "A.a" || n.Function == "A.inner" {
				named++
			}
		}
	}
	if named == 0 {
		t.Error("no method has a name")
	}
}
