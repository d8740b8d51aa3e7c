package python

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
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

func TestLayoutNumbers(t *testing.T) {
	for version, l := range versions {
		l.Version, l.From, l.To, l.Head = version, 0x1000, 0x2000, 0x3000
		if got := fromNumbers(l.Numbers()); got == nil || *got != l {
			t.Errorf("%v: %+v, want %+v", version, got, l)
		}
		for i := range l.Numbers() {
			n := l.Numbers()
			n[i] = 1 << 48
			if l := FromNumbers(n); l != nil {
				t.Errorf("%v: number %d may be %d: %+v", version, i, n[i], l)
			}
		}
	}
}

// symbols are the bytes of symbols.
type symbols map[string][]byte

// file is an interp.File with symbols.
type file struct {
	interp.File
	of symbols
}

// Exported implements interp.File.
func (f file) Exported(name string) (addr, size uint64, ok bool) {
	at := map[string]uint64{"PyEval_EvalFrameEx": 0x1000, "_PyEval_EvalFrameDefault": 0x2000,
		"_PyRuntime": 0x3000, "Py_Version": 0x4000}[name]
	b, ok := f.of[name]
	return at, uint64(len(b)), ok
}

// Data implements interp.File.
func (f file) Data(addr uint64, n int) ([]byte, error) {
	for name, b := range f.of {
		if at, size, _ := f.Exported(name); at == addr && uint64(n) <= size {
			return b[:n], nil
		}
	}
	return nil, errors.New("not there")
}

func TestFind(t *testing.T) {
	hex := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v<<16) }
	debug := func(version, free uint64) []byte {
		b := []byte(debugCookie)
		for i := 1; i < debugWords; i++ {
			b = binary.LittleEndian.AppendUint64(b, uint64(i))
		}
		binary.LittleEndian.PutUint64(b[8:], version<<16)
		binary.LittleEndian.PutUint64(b[16:], free)
		return b
	}
	code := make([]byte, 8)
	for _, tt := range []struct {
		name, path string
		file       symbols
		why        string // "-": no interpreter
	}{
		{"another program", "python3.9", symbols{"Py_Version": hex(0x30b)}, "-"},
		{"2.7", "libpython2.7.so.1.0", symbols{"PyEval_EvalFrameEx": code}, "no table for 2.7"},
		{"3.7", "python3.7", symbols{"PyEval_EvalFrameEx": code, "_PyRuntime": code},
			"no table for 3.7"},
		{"3.8", "libpython3.8.so.1.0", symbols{"PyEval_EvalFrameEx": code, "_PyRuntime": code}, ""},
		{"3.10", "python3.10", symbols{"PyEval_EvalFrameEx": code, "_PyRuntime": code}, ""},
		{"3.10 with another name", "uwsgi", symbols{"PyEval_EvalFrameEx": code, "_PyRuntime": code},
			"version not known"},
		{"3.11 with another name", "uwsgi", symbols{"PyEval_EvalFrameEx": code, "_PyRuntime": code,
			"Py_Version": hex(0x30b)}, ""},
		{"3.12 without its variables", "python3.12", symbols{"PyEval_EvalFrameEx": code,
			"Py_Version": hex(0x30c)}, "no table for 3.12"},
		{"3.13", "python3.13", symbols{"PyEval_EvalFrameEx": code, "Py_Version": hex(0x30d),
			"_PyRuntime": debug(0x30d, 0)}, ""},
		{"3.13 without the global lock", "python3.13t", symbols{"PyEval_EvalFrameEx": code,
			"Py_Version": hex(0x30d), "_PyRuntime": debug(0x30d, 1)}, "no table for 3.13"},
		{"3.13 with offsets of another version", "python3.13", symbols{"PyEval_EvalFrameEx": code,
			"Py_Version": hex(0x30d), "_PyRuntime": debug(0x30e, 0)}, "no table for 3.13"},
		{"3.14", "python3.14", symbols{"PyEval_EvalFrameEx": code, "Py_Version": hex(0x30e),
			"_PyRuntime": debug(0x30e, 0)}, ""},
		{"3.15", "python3.15", symbols{"PyEval_EvalFrameEx": code, "Py_Version": hex(0x30f),
			"_PyRuntime": debug(0x30f, 0)}, "no table for 3.15"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := Find(file{of: tt.file}, tt.path)
			switch {
			case l == nil:
				if tt.why != "-" {
					t.Error("there is no layout")
				}
			case l.Why() != tt.why:
				t.Errorf("the layout %+v has %q, want %q", l, l.Why(), tt.why)
			}
		})
	}
}

func TestLines(t *testing.T) {
	tests := []struct {
		name    string
		version Version
		table   []byte
		want    []int // of the instructions; the function begins on line 10
	}{
		{"3.9: none", 0x309, nil, []int{10, 10}},
		{"3.9: one more, two less", 0x309, []byte{2, 1, 4, 0xfe}, []int{10, 11, 11, 9}},
		{"3.10: ranges", 0x30a, []byte{2, 1, 4, 3, 2, 0x80, 2, 0xff}, []int{11, 14, 14, 0, 13, 0}},
		// one instruction on the first line; two on the next one; one with a number of -3; one
		// without a line; one long
		{"3.11: locations", 0x30b, []byte{0xd0, 1, 2, 0xd9, 1, 2, 0xe8, 7, 0xf8, 0xf0, 4, 0, 1, 2},
			[]int{10, 11, 11, 8, 0, 10, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := &Layout{Version: tt.version}
			var got []int
			for i := range tt.want {
				got = append(got, l.line(tt.table, 10, uint64(i)))
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("lines %v, want %v", got, tt.want)
			}
		})
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte{0xd0, 1, 2, 0xd9, 1, 2, 0xe8, 7, 0xf8}, 10, uint64(3))
	heapbound.Fuzz(f, func(t *testing.T, table []byte, first int, instruction uint64) {
		for version := Version(0x308); version <= 0x30e; version++ {
			l := &Layout{Version: version}
			if n := l.line(table, first, instruction); n < 0 || n > mostLine {
				t.Errorf("%v: line %d", version, n)
			}
		}
	})
}

func FuzzLayout(f *testing.F) {
	for _, l := range versions {
		l.From, l.To = 1, 2
		f.Add(interp.Text(l.Numbers()))
	}
	heapbound.Fuzz(f, func(t *testing.T, text []byte) {
		if l := fromNumbers(interp.NumbersOf(text, layoutNumbers)); l != nil {
			l.NewReader(memory{bytes: text}).Name(interp.Frame{Word: interp.NewWord(8, 1)})
		}
	})
}

// A process may have anything in its memory.
func FuzzNames(f *testing.F) {
	f.Add(heapOf(0x30b), uint16(0x30b), uint32(0), uint32(3))
	f.Add(heapOf(0x309), uint16(0x309), uint32(0), uint32(3))
	heapbound.Fuzz(f, func(t *testing.T, heap []byte, version uint16, code, instruction uint32) {
		l := versions[Version(version)]
		l.Version = Version(version)
		r := l.NewReader(memory{heapStart, heap})
		for i := range uint64(64) {
			w := interp.NewWord(heapStart+uint64(code)+8*i, uint64(instruction))
			checkName(t, r.Name(interp.Frame{Word: w}))
		}
	})
}

// checkName fails the test when a name is not within its bounds.
func checkName(t *testing.T, n interp.Name) {
	t.Helper()
	if len(n.Function) > 4*mostText || len(n.File) > 4*mostPath || n.Line < 0 || n.First < 0 {
		t.Errorf("%+v", n)
	}
}

// Names of a heap in which words are replaced by other addresses and large numbers are bounded.
func TestHostileHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	named := 0
	for range 20000 {
		version := Version(0x308 + random.IntN(5))
		l, heap := versions[version], heapOf(version)
		l.Version = version
		for range 1 + random.IntN(3) {
			v := []uint64{heapStart + uint64(random.IntN(4096)), 1 << 62, ^uint64(0), 1 << 47,
				1<<30 - 1, 0, uint64(random.IntN(256))}[random.IntN(7)]
			binary.LittleEndian.PutUint64(heap[8*random.IntN(len(heap)/8):], v)
		}
		n := l.NewReader(memory{heapStart, heap}).Name(frameAt(heapStart))
		checkName(t, n)
		if n.Function != "" {
			named++
		}
	}
	if named == 0 {
		t.Error("no code object has a name")
	}
}

// frameAt returns the frame of instruction 2 of the code object at an address.
func frameAt(at uint64) interp.Frame { return interp.Frame{Word: interp.NewWord(at, 2)} }

// heapStart is where heapOf begins.
const heapStart = 0x10000

// heapOf returns memory that begins with a code object, f in a.py from line 5 on.
func heapOf(version Version) []byte {
	const objects, typ, text = 512, 512, 1024
	l := versions[version]
	b := make([]byte, 4096)
	put := func(at int, v uint64) { binary.LittleEndian.PutUint64(b[at:], v) }
	str := func(at int, s string) {
		put(at+16, uint64(len(s)))
		b[at+32] = 1<<2 | 1<<5 | 1<<6 // a byte a character, compact, ASCII
		copy(b[at+int(l.Code.ASCII):], s)
	}
	put(8, heapStart+typ)
	put(typ+typeName, heapStart+text)
	copy(b[text:], "code\x00")
	for i, at := range []uint32{l.Code.Name, l.Code.File, l.Code.Lines} {
		put(int(at), uint64(heapStart+2048+256*i))
	}
	binary.LittleEndian.PutUint32(b[l.Code.FirstLine:], 5)
	str(2048, "f")
	str(2304, "a.py")
	put(2560+16, 2)
	copy(b[2560+32:], []byte{0xda, 1})
	return b
}

func TestNameOfHeap(t *testing.T) {
	l := versions[0x30b]
	l.Version = 0x30b
	r := l.NewReader(memory{heapStart, heapOf(0x30b)})
	want := interp.Name{Function: "f", File: "a.py", First: 5, Line: 6}
	if got := r.Name(frameAt(heapStart)); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := r.Name(frameAt(heapStart + 8)); got != (interp.Name{}) {
		t.Errorf("another address is %+v", got)
	}
}
