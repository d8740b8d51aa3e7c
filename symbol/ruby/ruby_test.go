package ruby

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
		l := Layout{version, Module, 0x1000, 0x2000, 0x3000, 0x3100, 0x4000, 8, 16}
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

// file is an interp.File with code at 0x1000, functions of 0x100 bytes, and data at 0x8000.
type file struct {
	exported map[string][2]uint64
	named    map[string][2]uint64
	code     []byte
	data     []byte
	moved    []interp.Relocation
	size     uint64
	program  bool
	musl     bool
}

// Exported implements interp.File.
func (f *file) Exported(name string) (addr, size uint64, ok bool) {
	s, ok := f.exported[name]
	return s[0], s[1], ok
}

// Symbols implements interp.File.
func (f *file) Symbols(names ...string) (out [][2]uint64) {
	for _, name := range names {
		out = append(out, f.named[name])
	}
	return out
}

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
func (f *file) Function(addr uint64) (from, to uint64, ok bool) {
	return addr &^ 0xff, addr&^0xff + 0x100, addr >= 0x1000 && addr < 0x8000
}

// Relocations implements interp.File.
func (f *file) Relocations(each func(interp.Relocation) bool) {
	for _, r := range f.moved {
		if !each(r) {
			return
		}
	}
}

// ThreadStorage implements interp.File.
func (f *file) ThreadStorage() (uint64, bool) { return f.size, f.program }

// Needs implements interp.File.
func (f *file) Needs(prefix string) bool { return f.musl && prefix == "libc.musl-" }

// Code implements interp.File.
func (f *file) Code() (addr, size uint64) { return 0x1000, uint64(len(f.code)) }

// stripped returns a library as distributions have it: a table of instructions in the function at
// 0x2000, one of a smaller function before it, a call of it at 0x3000, and a read of the storage.
func stripped(version string) *file {
	f := &file{code: make([]byte, 0x3000), data: append([]byte(version), 0),
		exported: map[string][2]uint64{"ruby_version": {0x8000, uint64(len(version)) + 1},
			"ruby_current_vm_ptr": {0x8800, 8}, "rb_errinfo": {0x3200, 64}}}
	f.data = append(f.data, make([]byte, 0x1000)...)
	for i := range uint64(98) {
		f.moved = append(f.moved, interp.Relocation{Kind: 8, At: 0x8100 + 8*i, Addend: 0x1100 + i})
	}
	for i := range uint64(200) {
		f.moved = append(f.moved, interp.Relocation{Kind: 8, At: 0x8500 + 8*i, Addend: 0x2010 + i})
	}
	call := func(at, callee uint64) {
		f.code[at-0x1000] = 0xe8
		binary.LittleEndian.PutUint32(f.code[at-0x1000+1:], uint32(callee-at-5))
	}
	call(0x3040, 0x2000)
	copy(f.code[0x2200:], "\x48\x83\xec\x08\x66\x48\x8d\x3d") // sub; data16 lea
	binary.LittleEndian.PutUint32(f.code[0x2208:], 0x8c00-0x320c)
	binary.LittleEndian.PutUint64(f.data[0xc08:], 0x10)
	f.moved = append(f.moved, interp.Relocation{Kind: 16, At: 0x8c00})
	return f
}

func TestFind(t *testing.T) {
	for _, tt := range []struct {
		name, version string
		change        func(f *file)
		want          *Layout // nil: no interpreter
		why           string
	}{
		{"3.4, stripped", "3.4.7", func(*file) {},
			&Layout{0x304, Module, 0x2000, 0x2100, 0x3000, 0x3100, 0x8c00, 0x10, 16}, ""},
		{"with musl", "3.3.8", func(f *file) { f.musl = true },
			&Layout{0x303, Module, 0x2000, 0x2100, 0x3000, 0x3100, 0x8c00, 0x10, 8}, ""},
		{"2.7", "2.7.8", func(*file) {},
			&Layout{0x207, List, 0x2000, 0x2100, 0x3000, 0x3100, 0x8800, 0, 0}, ""},
		{"a program with symbols", "3.2.2", func(f *file) {
			f.program, f.size = true, 0x20
			f.named = map[string][2]uint64{"vm_exec_core": {0x4000, 0x80}, "rb_vm_exec": {0x5000, 16},
				"ruby_current_ec": {0x8, 8}}
		}, &Layout{0x302, Fixed, 0x4000, 0x4080, 0x5000, 0x5010, 0, 0x18, 0}, ""},
		{"one function", "3.1.2", func(f *file) {
			f.moved = f.moved[len(f.moved)-1:]
			f.named = map[string][2]uint64{"vm_exec": {0x5000, 0x80}}
		}, &Layout{0x301, Module, 0x5000, 0x5080, 0, 0, 0x8c00, 0x10, 16}, ""},
		{"no storage", "3.1.2", func(f *file) { delete(f.exported, "rb_errinfo") },
			&Layout{0x301, NoWay, 0x2000, 0x2100, 0x3000, 0x3100, 0, 0, 0},
			"the file does not show where threads are"},
		{"2.6", "2.6.10", func(*file) {},
			&Layout{0x206, NoWay, 0x2000, 0x2100, 0x3000, 0x3100, 0, 0, 0}, "no table for 2.6"},
		{"4.0", "4.0.1", func(*file) {},
			&Layout{0x400, NoWay, 0x2000, 0x2100, 0x3000, 0x3100, 0, 0, 0}, "no table for 4.0"},
		{"no evaluator", "3.4.7", func(f *file) { f.moved = f.moved[:98] }, nil, ""},
		{"no version", "x.y", func(*file) {}, nil, ""},
		{"another program", "3.4.7", func(f *file) { delete(f.exported, "ruby_version") }, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := stripped(tt.version)
			tt.change(f)
			switch l := find(f); {
			case (l == nil) != (tt.want == nil):
				t.Errorf("%+v, want %+v", l, tt.want)
			case l != nil && (*l != *tt.want || l.Why() != tt.why):
				t.Errorf("%+v, %q, want %+v, %q", *l, l.Why(), *tt.want, tt.why)
			}
		})
	}
}

// Addresses in heapOf.
const (
	heapStart = 0x10000
	heapBytes = 0x2000
	codeAt    = heapStart
	bodyAt    = heapStart + 0x100
	labelAt   = heapStart + 0x200
	fileAt    = heapStart + 0x240
	linesAt   = heapStart + 0x300
	indexAt   = heapStart + 0x400
	methodAt  = heapStart + 0x600
	classAt   = heapStart + 0x700
	nameAt    = heapStart + 0x800
	rootAt    = heapStart + 0x900
	rootName  = heapStart + 0xa00
	tableAt   = heapStart + 0xb00 // of the class; that of its root follows
	encodedAt = heapStart + 0x1000
)

// heapOf returns memory that begins with the code of the method A#f in a.rb, from line 5 on. Its
// third instruction begins line 7.
func heapOf(version Version) []byte {
	of := versions[version]
	b := make([]byte, heapBytes)
	put := func(at, v uint64) { binary.LittleEndian.PutUint64(b[at-heapStart:], v) }
	str := func(at uint64, s string) {
		if of.LongString {
			put(at, typeString)
			put(at+16, uint64(len(s)))
			copy(b[at-heapStart+24:], s)
			return
		}
		put(at, typeString|uint64(len(s))<<14)
		copy(b[at-heapStart+16:], s)
	}
	put(codeAt, typeMemo|memoCode<<memoShift)
	put(codeAt+16, bodyAt)
	put(bodyAt, codeMethod|100<<32)
	put(bodyAt+8, encodedAt)
	for i, v := range []uint64{fileAt, labelAt, labelAt, 5} {
		put(bodyAt+64+8*uint64(i), v)
	}
	if !of.PlainLine {
		put(bodyAt+64+24, 5<<1|1)
	}
	lines := bodyAt + uint64(of.Lines)
	put(lines, linesAt)
	put(lines+16, 2)
	put(lines+24, indexAt)
	put(bodyAt+uint64(of.Local), codeAt)
	str(labelAt, "f")
	str(fileAt, "a.rb")
	put(linesAt, 5)
	put(linesAt+uint64(of.Line), 7)
	counts := uint64(1 | 1<<7) // two instructions on the first line
	for i := 2; i < 9; i++ {
		counts |= 2 << (7 * i)
	}
	put(indexAt, counts)
	put(methodAt, typeMemo|memoMethod<<memoShift)
	put(methodAt+32, classAt)
	put(classAt, typeClass)
	put(classAt+16, rootAt)
	put(rootAt, typeClass)
	str(nameAt, "A")
	str(rootName, "BasicObject")
	if of.Classes == classMembers {
		put(classAt+classPath, nameAt)
		return b
	}
	for i, class := range []uint64{classAt, rootAt} {
		table := tableAt + 0x100*uint64(i)
		put(class+classExtension, table)
		put(table+8, table+16)
		put(table+16+40, 1)
		put(table+16+48, table+0x80)
		put(table+0x80+8, 77)
		put(table+0x80+16, []uint64{nameAt, rootName}[i])
	}
	return b
}

// frameAt returns the frame of heapOf before an instruction that comes after n.
func frameAt(n uint64) interp.Frame {
	return interp.Frame{Word: interp.NewWord(codeAt, encodedAt>>3+n+1), Method: methodAt}
}

func TestNameOfHeap(t *testing.T) {
	for version, of := range versions {
		t.Run(version.String(), func(t *testing.T) {
			l := &Layout{Version: version}
			r := l.NewReader(memory{heapStart, heapOf(version)})
			want := interp.Name{Function: "A#f", File: "a.rb", First: 5, Line: 5}
			if of.Classes == noClasses {
				want.Function = "f"
			}
			if got := r.Name(frameAt(1)); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			want.Line = 7
			if got := r.Name(frameAt(2)); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
			want.Function, want.Line = "f", 0
			got := r.Name(interp.Frame{Word: interp.NewWord(codeAt, interp.UnknownInstruction)})
			if got != want {
				t.Errorf("without method and line: %+v, want %+v", got, want)
			}
			w := interp.NewWord(codeAt+8, 1)
			if got := r.Name(interp.Frame{Word: w}); got != (interp.Name{}) {
				t.Errorf("another address is %+v", got)
			}
		})
	}
}

// Lines behind the first 54 instructions are in blocks.
func TestEntryOf(t *testing.T) {
	b := make([]byte, 48+2*80)
	block := b[48+80:] // instructions 566 to 1077
	binary.LittleEndian.PutUint32(block, 9)
	binary.LittleEndian.PutUint64(block[8:], 2<<9|1) // 1 before the second word, 2 before the third
	binary.LittleEndian.PutUint64(block[16:], 1<<5)
	binary.LittleEndian.PutUint64(block[24:], 1<<63)
	binary.LittleEndian.PutUint64(block[32:], 1|1<<2)
	r := (&Layout{Version: 0x303}).NewReader(memory{heapStart, b}).(*Reader)
	for _, tt := range []struct{ instruction, want uint64 }{
		{566 + 4, 9}, {566 + 5, 10}, {566 + 126, 10}, {566 + 127, 11}, {566 + 128, 12},
		{566 + 129, 12}, {566 + 130, 13},
	} {
		if got := r.entryOf(heapStart, tt.instruction); got != tt.want {
			t.Errorf("instruction %d: %d, want %d", tt.instruction, got, tt.want)
		}
	}
}

// checkName fails the test when a name is not within its bounds.
func checkName(t *testing.T, n interp.Name) {
	t.Helper()
	if len(n.Function) > 3*mostText || len(n.File) > mostPath || n.Line < 0 || n.First < 0 {
		t.Errorf("%+v", n)
	}
}

// A process may have anything in its memory.
func FuzzNames(f *testing.F) {
	for version := range versions {
		f.Add(heapOf(version), uint16(version), uint32(0), uint32(3), uint32(methodAt-heapStart))
	}
	heapbound.Fuzz(f, func(t *testing.T, heap []byte, version uint16, code, at, method uint32) {
		if _, known := versions[Version(version)]; !known {
			return
		}
		r := (&Layout{Version: Version(version)}).NewReader(memory{heapStart, heap})
		for i := range uint64(64) {
			w := interp.NewWord(heapStart+uint64(code)+8*i, uint64(at))
			checkName(t, r.Name(interp.Frame{Word: w, Method: heapStart + uint64(method)}))
		}
	})
}

func FuzzLayout(f *testing.F) {
	l := Layout{0x304, Module, 0x1000, 0x2000, 0x3000, 0x3100, 0x4000, 8, 16}
	f.Add(interp.Text(l.Numbers()))
	heapbound.Fuzz(f, func(t *testing.T, text []byte) {
		if l := fromNumbers(interp.NumbersOf(text, 9)); l != nil && l.Why() == "" {
			l.NewReader(memory{bytes: text}).Name(frameAt(0))
		}
	})
}

// Names of a heap in which words are replaced by other addresses, which make cycles, and by large
// numbers are bounded.
func TestHostileHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	named := 0
	all := []Version{0x207, 0x300, 0x301, 0x302, 0x303, 0x304}
	for range 20000 {
		version := all[random.IntN(len(all))]
		heap := heapOf(version)
		for range 1 + random.IntN(3) {
			v := []uint64{heapStart + uint64(random.IntN(heapBytes)), 1 << 62, ^uint64(0), 1 << 47,
				1<<30 - 1, 0, uint64(random.IntN(256))}[random.IntN(7)]
			binary.LittleEndian.PutUint64(heap[8*random.IntN(0xd00/8):], v)
		}
		n := (&Layout{Version: version}).NewReader(memory{heapStart, heap}).Name(frameAt(2))
		checkName(t, n)
		if n.Function != "" {
			named++
		}
	}
	if named == 0 {
		t.Error("no code has a name")
	}
}

// A class above itself ends the search for its name.
func TestCycleOfClasses(t *testing.T) {
	heap := heapOf(0x301)
	binary.LittleEndian.PutUint64(heap[rootAt-heapStart+16:], classAt)
	n := (&Layout{Version: 0x301}).NewReader(memory{heapStart, heap}).Name(frameAt(2))
	if want := (interp.Name{Function: "f", File: "a.rb", First: 5, Line: 7}); n != want {
		t.Errorf("%+v, want %+v", n, want)
	}
}
