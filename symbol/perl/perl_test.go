package perl

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

func TestLayoutNumbers(t *testing.T) {
	for version := range versions {
		l := Layout{version, Key, 0x1000, 0x2000, 0x3000, 8, 208, 224}
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

// file is an interp.File with code at 0x1000 and data at 0x8000.
type file struct {
	exported map[string][2]uint64
	code     []byte
	data     []byte
	musl     bool
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
func (f *file) Needs(prefix string) bool { return f.musl && prefix == "libc.musl-" }

// Code implements interp.File.
func (f *file) Code() (addr, size uint64) { return 0x1000, uint64(len(f.code)) }

// fileOf returns the file of a version with threads, in which Perl_block_gimme() begins with the
// read of the stack of contexts at the offset 224.
func fileOf(minor byte) *file {
	f := &file{code: make([]byte, 0x400), data: []byte{5, minor}, exported: map[string][2]uint64{
		"Perl_runops_standard": {0x1100, 0x40}, "Perl_block_gimme": {0x1200, 0x80},
		"PL_revision": {0x8000, 1}, "PL_version": {0x8001, 1}, "PL_thr_key": {0x9000, 4}}}
	copy(f.code[0x200:], "\xf3\x0f\x1e\xfa\x48\x8b\x47\x08\x48\x8b\x97\xe0\x00\x00\x00")
	return f
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name   string
		minor  byte
		change func(f *file)
		want   *Layout // nil: no interpreter
		why    string
	}{
		{"5.36", 36, func(*file) {}, &Layout{36, Key, 0x1100, 0x1140, 0x9000, 8, 208, 224}, ""},
		{"with musl", 40, func(f *file) { f.musl = true },
			&Layout{40, MuslKey, 0x1100, 0x1140, 0x9000, 8, 208, 224}, ""},
		{"without threads", 38, func(f *file) {
			delete(f.exported, "PL_thr_key")
			f.exported["PL_op"] = [2]uint64{0x9030, 8}
			f.exported["PL_curcop"] = [2]uint64{0x9010, 8}
			f.exported["PL_curstackinfo"] = [2]uint64{0x9058, 8}
		}, &Layout{38, Globals, 0x1100, 0x1140, 0x9010, 0x20, 0, 0x48}, ""},
		{"without threads, but many interpreters", 38, func(f *file) {
			delete(f.exported, "PL_thr_key")
		}, &Layout{Version: 38, From: 0x1100, To: 0x1140},
			"the file does not show where interpreters are"},
		{"another function", 36, func(f *file) { clear(f.code) },
			&Layout{Version: 36, From: 0x1100, To: 0x1140},
			"the file does not show where interpreters are"},
		{"an offset that is none", 36, func(f *file) { f.code[0x20b] = 0xe1 },
			&Layout{Version: 36, From: 0x1100, To: 0x1140},
			"the file does not show where interpreters are"},
		{"5.26", 26, func(*file) {}, &Layout{Version: 26, From: 0x1100, To: 0x1140},
			"no table for 5.26"},
		{"5.42", 42, func(*file) {}, &Layout{Version: 42, From: 0x1100, To: 0x1140},
			"no table for 5.42"},
		{"a version of developers", 37, func(*file) {},
			&Layout{Version: 37, From: 0x1100, To: 0x1140}, "no table for 5.37"},
		{"an old version", 14, func(f *file) { delete(f.exported, "PL_revision") },
			&Layout{From: 0x1100, To: 0x1140}, "no table for versions before 5.16"},
		{"Perl 7", 0, func(f *file) { f.data[0] = 7 }, nil, ""},
		{"a module", 36, func(f *file) { delete(f.exported, "Perl_runops_standard") }, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fileOf(tt.minor)
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
	heapStart = 0x10000
	heapBytes = 0x2000
	subAt     = heapStart
	bodyAt    = heapStart + 0x40
	globAt    = heapStart + 0xc0
	globBody  = heapStart + 0x100
	partsAt   = heapStart + 0x180 // of the glob
	stashAt   = heapStart + 0x200
	stashBody = heapStart + 0x240
	bucketsAt = heapStart + 0x300
	startAt   = heapStart + 0x400 // the first statement of the sub
	keyAt     = heapStart + 0x480
	packageAt = heapStart + 0x500
	fileAt    = heapStart + 0x580
	linesAt   = heapStart + 0x600 // the glob of the file
	linesBody = heapStart + 0x640
	linesKey  = heapStart + 0x6c0
	heapEnd   = heapStart + 0x740
)

// heapOf returns memory that begins with the sub A::B::f in a.pl, whose first statement is on line
// 5.
func heapOf(version Version, way Way) []byte {
	b := make([]byte, heapBytes)
	put := func(at, v uint64) { binary.LittleEndian.PutUint64(b[at-heapStart:], v) }
	head := func(at, body uint64, flags uint32, own uint64) {
		put(at, body)
		put(at+8, uint64(flags)<<32|1)
		put(at+16, own)
	}
	key := func(at uint64, text string, flags byte) {
		put(at, uint64(len(text))<<32|0x1234)
		copy(b[at-heapStart+8:], text)
		b[at-heapStart+8+uint64(len(text))+1] = flags
	}
	head(subAt, bodyAt, typeCode, 0)
	put(bodyAt+32, stashAt)
	put(bodyAt+40, startAt)
	put(bodyAt+56, globAt)
	put(bodyAt+64, fileAt)
	head(globAt, globBody, typeGlob|hasGlob, partsAt)
	put(globBody+32, keyAt)
	put(globBody+40, stashAt)
	put(partsAt+56, globAt)
	key(keyAt, "f", 0)
	head(stashAt, stashBody, typeHash|hasAux, bucketsAt)
	if versions[version].NameInBody {
		put(stashBody+32, packageAt)
	} else {
		put(stashBody+24, 7)
		put(bucketsAt+8*8, packageAt)
	}
	key(packageAt, "A::B", 0)
	copy(b[fileAt-heapStart:], "a.pl\x00")
	put(startAt+16, 0x5000)
	put(startAt+32, 5<<32)
	put(startAt+48, fileAt)
	if way == Globals {
		put(startAt+48, linesAt)
		head(linesAt, linesBody, typeGlob|hasGlob, 0)
		put(linesBody+32, linesKey)
		key(linesKey, "_<a.pl", 0)
	}
	return b
}

func TestNameOfHeap(t *testing.T) {
	for version := range versions {
		for _, way := range []Way{Key, Globals} {
			l := &Layout{Version: version, Way: way}
			for _, tt := range []struct {
				name   string
				frame  interp.Frame
				change func(b []byte)
				want   interp.Name
			}{
				{"with line", interp.Frame{Word: interp.NewWord(subAt, 9)}, nil,
					interp.Name{Function: "A::B::f", File: "a.pl", First: 5, Line: 9}},
				{"without line", interp.Frame{Word: interp.NewWord(subAt, interp.UnknownInstruction)},
					nil, interp.Name{Function: "A::B::f", File: "a.pl", First: 5}},
				{"statement of the program",
					interp.Frame{Word: interp.NewWord(startAt, 5), Method: inProgram | 5<<8}, nil,
					interp.Name{Function: "(main)", File: "a.pl", Line: 5}},
				{"statement of an eval",
					interp.Frame{Word: interp.NewWord(startAt, interp.UnknownInstruction),
						Method: inEval | 5<<8}, nil, interp.Name{Function: "(eval)", File: "a.pl"}},
				{"another statement at the address",
					interp.Frame{Word: interp.NewWord(startAt, 6), Method: inEval | 6<<8}, nil,
					interp.Name{}},
				{"method of another kind",
					interp.Frame{Word: interp.NewWord(startAt, 5), Method: 3 | 5<<8}, nil,
					interp.Name{}},
				{"a hash at the address", interp.Frame{Word: interp.NewWord(stashAt, 9)}, nil,
					interp.Name{}},
				{"format", interp.Frame{Word: interp.NewWord(subAt, 9)},
					func(b []byte) { b[12] = typeFormat },
					interp.Name{Function: "A::B::f", File: "a.pl", First: 5, Line: 9}},
				{"empty sub", interp.Frame{Word: interp.NewWord(subAt, 9)},
					func(b []byte) { b[startAt-heapStart+16] = 0; b[startAt-heapStart+17] = 0 },
					interp.Name{Function: "A::B::f", File: "a.pl", Line: 9}},
				{"name of its own", interp.Frame{Word: interp.NewWord(subAt, 9)},
					func(b []byte) {
						binary.LittleEndian.PutUint32(b[bodyAt-heapStart+92:], named)
						binary.LittleEndian.PutUint64(b[bodyAt-heapStart+56:], keyAt)
					}, interp.Name{Function: "A::B::f", File: "a.pl", First: 5, Line: 9}},
				{"lexical", interp.Frame{Word: interp.NewWord(subAt, 9)},
					func(b []byte) {
						binary.LittleEndian.PutUint32(b[bodyAt-heapStart+92:], named|lexical)
						binary.LittleEndian.PutUint64(b[bodyAt-heapStart+56:], keyAt)
					}, interp.Name{Function: "f", File: "a.pl", First: 5, Line: 9}},
				{"package without a name", interp.Frame{Word: interp.NewWord(subAt, 9)},
					func(b []byte) { b[stashAt-heapStart+15] = 0 },
					interp.Name{Function: "__ANON__::f", File: "a.pl", First: 5, Line: 9}},
				{"name in UTF-8", interp.Frame{Word: interp.NewWord(subAt, 9)},
					func(b []byte) { copy(b[keyAt-heapStart+4:], "\x02\x00\x00\x00\xc3\xa9\x00\x01") },
					interp.Name{Function: "A::B::é", File: "a.pl", First: 5, Line: 9}},
				{"name in Latin-1", interp.Frame{Word: interp.NewWord(subAt, 9)},
					func(b []byte) { copy(b[keyAt-heapStart+4:], "\x01\x00\x00\x00\xe9\x00\x00") },
					interp.Name{Function: "A::B::é", File: "a.pl", First: 5, Line: 9}},
			} {
				t.Run(version.String()+"/"+tt.name, func(t *testing.T) {
					b := heapOf(version, way)
					if tt.change != nil {
						tt.change(b)
					}
					if got := l.NewReader(memory{heapStart, b}).Name(tt.frame); got != tt.want {
						t.Errorf("%+v, want %+v", got, tt.want)
					}
				})
			}
		}
	}
}

// A changing is memory in which a sub is freed after some reads.
type changing struct {
	memory
	left *int // reads until then
}

// ReadAt implements io.ReaderAt.
func (c changing) ReadAt(b []byte, at int64) (int, error) {
	if *c.left--; *c.left == 0 {
		c.bytes[subAt-heapStart+12] = typeHash
	}
	return c.memory.ReadAt(b, at)
}

// A sub that is freed while its name is read has none.
func TestFreedMeanwhile(t *testing.T) {
	for after := 1; ; after++ {
		left := after
		m := changing{memory{heapStart, heapOf(36, Key)}, &left}
		n := (&Layout{Version: 36, Way: Key}).NewReader(m).
			Name(interp.Frame{Word: interp.NewWord(subAt, 9)})
		if left > 0 { // it was read before
			if n.Function != "A::B::f" {
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
	if len(n.Function) > 4*mostText+2 || len(n.File) > mostPath || n.Line < 0 || n.First < 0 {
		t.Errorf("%+v", n)
	}
}

// A process may have anything in its memory.
func FuzzNames(f *testing.F) {
	for version := range versions {
		f.Add(heapOf(version, Key), byte(version), false, uint32(0), uint64(0))
		f.Add(heapOf(version, Globals), byte(version), true, uint32(startAt-heapStart),
			uint64(inEval|5<<8))
	}
	heapbound.Fuzz(f, func(t *testing.T, heap []byte, version byte, globals bool, code uint32,
		method uint64) {
		if _, known := versions[Version(version)]; !known {
			return
		}
		l := &Layout{Version: Version(version), Way: Key}
		if globals {
			l.Way = Globals
		}
		r := l.NewReader(memory{heapStart, heap})
		for i := range uint64(64) {
			w := interp.NewWord(heapStart+uint64(code)+8*i, i)
			checkName(t, r.Name(interp.Frame{Word: w}))
			checkName(t, r.Name(interp.Frame{Word: w, Method: method}))
		}
	})
}

func FuzzLayout(f *testing.F) {
	l := Layout{36, Key, 0x1000, 0x2000, 0x3000, 8, 208, 224}
	f.Add(interp.Text(l.Numbers()))
	heapbound.Fuzz(f, func(_ *testing.T, text []byte) {
		if l := fromNumbers(interp.NumbersOf(text, 8)); l != nil && l.Why() == "" {
			l.Kernel()
			l.NewReader(memory{bytes: text}).Name(interp.Frame{Word: interp.NewWord(8, 1)})
		}
	})
}

// Names of a heap in which words are replaced by other addresses, which make cycles, and by large
// numbers are bounded.
func TestHostileHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := []Version{28, 30, 32, 34, 36, 38, 40}
	got := 0
	for range 20000 {
		version, way := all[random.IntN(len(all))], []Way{Key, Globals}[random.IntN(2)]
		heap := heapOf(version, way)
		for range 1 + random.IntN(3) {
			v := []uint64{heapStart + uint64(random.IntN(heapBytes)), 1 << 62, ^uint64(0), 1 << 47,
				1<<30 - 1, 0, uint64(random.IntN(256))}[random.IntN(7)]
			binary.LittleEndian.PutUint64(heap[8*random.IntN((heapEnd-heapStart)/8):], v)
		}
		r := (&Layout{Version: version, Way: way}).NewReader(memory{heapStart, heap})
		n := r.Name(interp.Frame{Word: interp.NewWord(subAt, 9)})
		checkName(t, n)
		w := interp.NewWord(startAt, 5)
		checkName(t, r.Name(interp.Frame{Word: w, Method: inProgram | 5<<8}))
		if n.Function != "" {
			got++
		}
	}
	if got == 0 {
		t.Error("no sub has a name")
	}
}
