package php

import (
	"encoding/binary"
	"errors"
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

const checked = Version(20220829) // 8.2

func TestLayoutNumbers(t *testing.T) {
	for _, l := range []Layout{{checked, false, true, 0x1000, 0x2000, 0x3000},
		{20210902, true, false, 0x1000, 0x2000, 0}} {
		if got := fromNumbers(l.Numbers()); got == nil || *got != l {
			t.Errorf("%+v, want %+v", got, l)
		}
		for i := range l.Numbers() {
			n := l.Numbers()
			n[i] = 1 << 48
			if l := FromNumbers(n); l != nil {
				t.Errorf("number %d may be %d: %+v", i, n[i], l)
			}
		}
	}
}

// file is an interp.File with code at 0x1000 and data at 0x8000.
type file struct {
	exported map[string][2]uint64
	code     []byte
	data     []byte
}

// Exported implements interp.File.
func (f *file) Exported(name string) (addr, size uint64, ok bool) {
	s, ok := f.exported[name]
	return s[0], s[1], ok
}

// Symbols implements interp.File.
func (f *file) Symbols(names ...string) [][2]uint64 { return make([][2]uint64, len(names)) }

// Data implements interp.File.
func (f *file) Data(addr uint64, n int) ([]byte, error) {
	from, b := uint64(0x1000), f.code
	if addr >= 0x8000 {
		from, b = 0x8000, f.data
	}
	if addr < from || addr-from > uint64(len(b)) || uint64(n) > uint64(len(b))-(addr-from) {
		return nil, errors.New("not there")
	}
	return b[addr-from:][:n], nil
}

// Function implements interp.File.
func (f *file) Function(uint64) (from, to uint64, ok bool) { return 0, 0, false }

// Relocations implements interp.File.
func (f *file) Relocations(func(interp.Relocation) bool) {}

// ThreadStorage implements interp.File.
func (f *file) ThreadStorage() (uint64, bool) { return 0, false }

// Needs implements interp.File.
func (f *file) Needs(string) bool { return false }

// Code implements interp.File.
func (f *file) Code() (addr, size uint64) { return 0x1000, uint64(len(f.code)) }

// fileOf returns the file of a build, in which zend_get_executed_scope() reads the pointer at
// 0x91e8. Constants are at 0x8000.
func fileOf(build string) *file {
	f := &file{code: make([]byte, 0x7000), data: make([]byte, 320), exported: map[string][2]uint64{
		"execute_ex": {0x1100, 0x40}, "zend_get_executed_scope": {0x1200, 0x80},
		"executor_globals": {0x9000, 0x600}}}
	copy(f.data[280:], "\x00"+build+"\x00")
	copy(f.code[0x200:], "\xf3\x0f\x1e\xfa\x48\x8d\x05....\x48\x8b\x80\xe8\x01\x00\x00")
	binary.LittleEndian.PutUint32(f.code[0x207:], 0x9000-0x120b)
	return f
}

func TestFind(t *testing.T) {
	unknown := &Layout{checked, false, false, 0x1100, 0x1140, 0}
	const where = "the file does not show where calls are"
	for _, tt := range []struct {
		name, build string
		change      func(f *file)
		want        *Layout // nil: no interpreter
		why         string
	}{
		{"8.2", "API20220829,NTS", func(*file) {},
			&Layout{checked, false, false, 0x1100, 0x1140, 0x91e8}, ""},
		{"one instruction", "API20220829,NTS", func(f *file) {
			f.code[0x205] = 0x8b
			binary.LittleEndian.PutUint32(f.code[0x207:], 0x90f0-0x120b)
		}, &Layout{checked, false, false, 0x1100, 0x1140, 0x90f0}, ""},
		{"threads", "API20220829,TS", func(*file) {},
			&Layout{checked, true, false, 0x1100, 0x1140, 0}, "no table for builds with threads"},
		{"debugging", "API20220829,NTS,debug", func(*file) {},
			&Layout{checked, false, true, 0x1100, 0x1140, 0x91e8},
			"no table for builds with debugging"},
		{"another function", "API20220829,NTS", func(f *file) { clear(f.code) }, unknown, where},
		{"another variable", "API20220829,NTS", func(f *file) { f.code[0x207]++ }, unknown, where},
		{"a pointer elsewhere", "API20220829,NTS",
			func(f *file) { f.exported["executor_globals"] = [2]uint64{0x9000, 0x1e8} },
			unknown, where},
		{"8.1", "API20210902,NTS", func(*file) {},
			&Layout{20210902, false, false, 0x1100, 0x1140, 0x91e8}, "no table for 8.1"},
		{"a later one", "API20300101,NTS", func(*file) {},
			&Layout{20300101, false, false, 0x1100, 0x1140, 0x91e8},
			"no table for modules of version 20300101"},
		{"no build ID", "API2022", func(*file) {}, nil, ""},
		{"another program", "API20220829,NTS", func(f *file) { delete(f.exported, "execute_ex") },
			nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fileOf(tt.build)
			tt.change(f)
			switch l := find(f); {
			case (l == nil) != (tt.want == nil):
				t.Errorf("%+v, want %+v", l, tt.want)
			case l != nil && (*l != *tt.want || l.Why() != tt.why):
				t.Errorf("%+v, %q, want %+v, %q", *l, l.Why(), *tt.want, tt.why)
			case l != nil && (l.Kernel().Numbers[0] == 0) != (tt.why != ""):
				t.Errorf("the program reads frames with %d", l.Kernel().Numbers[0])
			}
		})
	}
}

// Addresses in heapOf.
const (
	heapStart  = 0x10000
	heapBytes  = 0x1000
	functionAt = heapStart
	nameAt     = heapStart + 0x100
	classAt    = heapStart + 0x180
	classText  = heapStart + 0x200
	fileAt     = heapStart + 0x280
	codeAt     = heapStart + 0x800
	heapEnd    = heapStart + 0x300
)

// heapOf returns memory that begins with the function A::f of a.php, from line 5 on.
func heapOf() []byte {
	b := make([]byte, heapBytes)
	put := func(at, v uint64) { binary.LittleEndian.PutUint64(b[at-heapStart:], v) }
	str := func(at uint64, s string) {
		put(at, 6<<32|1)
		put(at+16, uint64(len(s)))
		copy(b[at-heapStart+24:], s)
	}
	of := versions[checked]
	put(functionAt, typeUser)
	put(functionAt+8, nameAt)
	put(functionAt+16, classAt)
	put(functionAt+uint64(of.Opcodes), codeAt)
	put(functionAt+uint64(of.File), fileAt)
	put(functionAt+uint64(of.Line), 5)
	put(classAt+8, classText)
	str(nameAt, "f")
	str(classText, "A")
	str(fileAt, "a.php")
	return b
}

func TestNameOfHeap(t *testing.T) {
	at, inFile := interp.NewWord(codeAt, 9), interp.NewWord(fileAt, 9)
	for _, tt := range []struct {
		name   string
		frame  interp.Frame
		change func(b []byte)
		want   interp.Name
	}{
		{"method", interp.Frame{Word: at, Method: functionAt}, func([]byte) {},
			interp.Name{Function: "A::f", File: "a.php", First: 5, Line: 9}},
		{"without line", interp.Frame{Word: interp.NewWord(codeAt, interp.UnknownInstruction), Method: functionAt},
			func([]byte) {}, interp.Name{Function: "A::f", File: "a.php", First: 5}},
		{"function", interp.Frame{Word: at, Method: functionAt}, func(b []byte) { clear(b[16:24]) },
			interp.Name{Function: "f", File: "a.php", First: 5, Line: 9}},
		{"class without a name", interp.Frame{Word: at, Method: functionAt}, func(b []byte) {
			copy(b[classText-heapStart+16:], "\x08\x00\x00\x00\x00\x00\x00\x00class@a\x00")
		}, interp.Name{Function: "class@a::f", File: "a.php", First: 5, Line: 9}},
		{"program", interp.Frame{Word: inFile, Method: fileAt | isMain},
			func(b []byte) { clear(b[:0x100]) }, // the function is free already
			interp.Name{Function: "{main}", File: "a.php", Line: 9}},
		{"included", interp.Frame{Word: interp.NewWord(hash("a.php")&hashMask, 9),
			Method: fileAt | isIncluded}, func([]byte) {},
			interp.Name{Function: "include", File: "a.php", Line: 9}},
		{"included without a hash", interp.Frame{Word: interp.NewWord(noHash, 9),
			Method: fileAt | isIncluded}, func([]byte) {},
			interp.Name{Function: "include", Line: 9}},
		{"another text is there", interp.Frame{Word: interp.NewWord(hash("b.php")&hashMask, 9),
			Method: fileAt | isIncluded}, func([]byte) {}, interp.Name{}},
		{"evaluated", interp.Frame{Word: interp.NewWord(8, 9), Method: isEval}, func([]byte) {},
			interp.Name{Function: "eval", File: "eval()'d code", Line: 9}},
		{"another file", interp.Frame{Word: at, Method: fileAt | isMain}, func([]byte) {},
			interp.Name{}},
		{"no kind", interp.Frame{Word: inFile, Method: fileAt | 4}, func([]byte) {}, interp.Name{}},
		{"no name", interp.Frame{Word: at, Method: functionAt}, func(b []byte) { clear(b[8:16]) },
			interp.Name{}},
		{"a function of C", interp.Frame{Word: at, Method: functionAt}, func(b []byte) { b[0] = 1 }, interp.Name{}},
		{"another function there", interp.Frame{Word: interp.NewWord(codeAt+8, 9), Method: functionAt},
			func([]byte) {}, interp.Name{}},
		{"no method", interp.Frame{Word: at}, func([]byte) {}, interp.Name{}},
		{"no file", interp.Frame{Word: at, Method: functionAt}, func(b []byte) { b[fileAt-heapStart+4] = 7 },
			interp.Name{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := heapOf()
			tt.change(b)
			r := (&Layout{Version: checked}).NewReader(memory{heapStart, b})
			if got := r.Name(tt.frame); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

// A changing is memory in which a function is freed after some reads.
type changing struct {
	memory
	left *int // reads until then
}

// ReadAt implements io.ReaderAt.
func (c changing) ReadAt(b []byte, at int64) (int, error) {
	if *c.left--; *c.left == 0 {
		c.bytes[0] = 0
	}
	return c.memory.ReadAt(b, at)
}

// A function that is freed while its name is read has none.
func TestFreedMeanwhile(t *testing.T) {
	for after := 1; ; after++ {
		left := after
		r := (&Layout{Version: checked}).NewReader(changing{memory{heapStart, heapOf()}, &left})
		n := r.Name(interp.Frame{Word: interp.NewWord(codeAt, 9), Method: functionAt})
		if left > 0 { // it was read before
			if n.Function != "A::f" {
				t.Errorf("%+v", n)
			}
			return
		}
		if n != (interp.Name{}) {
			t.Errorf("after %d reads: %+v", after, n)
		}
	}
}

// checkName fails the test when a name is not within its bounds.
func checkName(t *testing.T, n interp.Name) {
	t.Helper()
	if len(n.Function) > 2*mostText+2 || len(n.File) > mostPath || n.Line < 0 || n.First < 0 {
		t.Errorf("%+v", n)
	}
}

// A process may have anything in its memory.
func FuzzNames(f *testing.F) {
	f.Add(heapOf(), uint32(codeAt-heapStart), uint64(functionAt))
	f.Add(heapOf(), uint32(fileAt-heapStart), uint64(fileAt|isMain))
	heapbound.Fuzz(f, func(t *testing.T, heap []byte, code uint32, method uint64) {
		r := (&Layout{Version: checked}).NewReader(memory{heapStart, heap})
		for i := range uint64(64) {
			w := interp.NewWord(heapStart+uint64(code)+8*i, i)
			checkName(t, r.Name(interp.Frame{Word: w, Method: method}))
			checkName(t, r.Name(interp.Frame{Word: w, Method: heapStart + 8*i}))
		}
	})
}

func FuzzLayout(f *testing.F) {
	l := Layout{checked, false, false, 0x1000, 0x2000, 0x3000}
	f.Add(interp.Text(l.Numbers()))
	heapbound.Fuzz(f, func(_ *testing.T, text []byte) {
		if l := fromNumbers(interp.NumbersOf(text, 6)); l != nil && l.Why() == "" {
			l.Kernel()
			l.NewReader(memory{bytes: text}).Name(interp.Frame{Word: interp.NewWord(8, 1)})
		}
	})
}

// Names of a heap in which words are replaced by other addresses, which make cycles, and by large
// numbers are bounded.
func TestHostileHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	got := 0
	for range 20000 {
		heap := heapOf()
		for range 1 + random.IntN(3) {
			v := []uint64{heapStart + uint64(random.IntN(heapBytes)), 1 << 62, ^uint64(0), 1 << 47,
				1<<30 - 1, 0, uint64(random.IntN(256))}[random.IntN(7)]
			binary.LittleEndian.PutUint64(heap[8*random.IntN((heapEnd-heapStart)/8):], v)
		}
		n := (&Layout{Version: checked}).NewReader(memory{heapStart, heap}).
			Name(interp.Frame{Word: interp.NewWord(codeAt, 9), Method: functionAt})
		checkName(t, n)
		if n.Function != "" {
			got++
		}
	}
	if got == 0 {
		t.Error("no function has a name")
	}
}
