package v8

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"culprit/heapbound"
	"culprit/symbol/interp"
)

// fileStart is where the bytes of a file are.
const fileStart = 0x1000

// A file is an interp.File of constants.
type file struct {
	exported, symbols map[string][2]uint64
	bytes             []byte
}

// Exported implements interp.File.
func (f *file) Exported(name string) (addr, size uint64, ok bool) {
	s, ok := f.exported[name]
	return s[0], s[1], ok
}

// Symbols implements interp.File.
func (f *file) Symbols(names ...string) (out [][2]uint64) {
	for _, name := range names {
		out = append(out, f.symbols[name])
	}
	return out
}

// Data implements interp.File.
func (f *file) Data(addr uint64, n int) ([]byte, error) {
	at := addr - fileStart
	if at > uint64(len(f.bytes)) || uint64(n) > uint64(len(f.bytes))-at {
		return nil, errors.New("not there")
	}
	return f.bytes[at : at+uint64(n)], nil
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
func (f *file) Code() (addr, size uint64) { return fileStart, 0 }

// put adds a constant, in place of the one that there was.
func (f *file) put(name string, n int32) {
	f.exported[prefix+name] = [2]uint64{fileStart + uint64(len(f.bytes)), 4}
	f.bytes = binary.LittleEndian.AppendUint32(f.bytes, uint32(n))
}

// fileOf returns a file with all constants; each has a number of its own.
func fileOf() *file {
	f := &file{exported: map[string][2]uint64{}, symbols: map[string][2]uint64{
		"Builtins_InterpreterEntryTrampoline": {0x5000, 0x300},
		"Builtins_WideHandler":                {0x8000, 0x20},
		"Builtins_AbortExtraWideHandler":      {0x9000, 0x40},
	}}
	for name, n := range required {
		f.put(name, n)
	}
	for i, c := range constants {
		f.put(c.names[0], int32(100+i))
	}
	return f
}

func TestFind(t *testing.T) {
	got := Find(fileOf(), "node").(*Layout)
	if got.Why() != "" {
		t.Fatal(got.Why())
	}
	for i, c := range constants {
		want := uint16(100 + i)
		if c.slot == externalData {
			want += 8
		}
		if got.At[c.slot] != want {
			t.Errorf("%s is %d, want %d", c.names[0], got.At[c.slot], want)
		}
	}
	if got.Entry != 0x5000 || got.EntryEnd != 0x5300 || got.Handlers != 0x8000 ||
		got.HandlersEnd != 0x9040 {
		t.Errorf("%+v", got)
	}
	k := got.Kernel()
	if want := [...]uint32{1, 100, 101, 0}; !slices.Equal(k.Numbers[:4], want[:]) ||
		k.From != 0x5000 || k.AroundTo != 0x9040 {
		t.Errorf("%+v", k)
	}
}

// What a file has besides the constants that all versions have.
func TestVersions(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(f *file)
		slot   slot
		want   uint16
	}{
		{"regular expressions", func(f *file) { f.put("frametype_IrregexpFrame", 27) }, regexpMarker, 54},
		{"no regular expressions", func(*file) {}, regexpMarker, 0},
		{"positions before 12", func(*file) {}, positions, 32},
		{"positions from 12 on", func(f *file) { f.put(wrapper, 16) }, positions, 24},
		{"code from 12 on", func(f *file) { f.put(wrapper, 16) }, codeBytecode, 8},
		{"another name of a member", func(f *file) {
			delete(f.exported, prefix+constants[3].names[0])
			f.put(constants[3].names[2], 7)
		}, shareName, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fileOf()
			tt.change(f)
			l := find(f)
			if l.Why() != "" || l.At[tt.slot] != tt.want {
				t.Errorf("%d, want %d; %s", l.At[tt.slot], tt.want, l.Why())
			}
		})
	}
}

// Files that lack something have no frames of JavaScript, and say so.
func TestFindNot(t *testing.T) {
	if l := Find(&file{}, "node"); l != nil {
		t.Errorf("a file without constants has %+v", l)
	}
	for _, tt := range []struct {
		name   string
		change func(f *file)
	}{
		{"compressed pointers", func(f *file) { f.put("TaggedSize", 4) }},
		{"another frame", func(f *file) { f.put("off_fp_function", -24) }},
		{"a constant is missing", func(f *file) { delete(f.exported, prefix+constants[0].names[0]) }},
		{"a negative offset", func(f *file) { f.put(constants[0].names[0], -8) }},
		{"a large offset", func(f *file) { f.put(constants[0].names[0], 1<<16) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := fileOf()
			tt.change(f)
			l := Find(f, "node")
			if l == nil || l.Why() == "" || l.Kernel().Numbers[0] != 0 {
				t.Errorf("%+v", l)
			}
		})
	}
}

// A file without symbols has no interpreted functions.
func TestStripped(t *testing.T) {
	f := fileOf()
	f.symbols = nil
	l := find(f)
	if k := l.Kernel(); l.Why() != "" || k.From != 0 || k.To != 0 || k.AroundTo != 0 {
		t.Errorf("%q, %+v", l.Why(), k)
	}
	f.symbols = map[string][2]uint64{"Builtins_InterpreterEntryTrampoline": {0x5000, 0x300},
		"Builtins_WideHandler": {0x9000, 1}, "Builtins_AbortExtraWideHandler": {0x8000, 1}}
	if k := find(f).Kernel(); k.To != 0 {
		t.Errorf("handlers that end before they begin: %+v", k)
	}
}

func TestNumbers(t *testing.T) {
	l := find(fileOf())
	if got := FromNumbers(l.Numbers()); got == nil || *got.(*Layout) != *l {
		t.Errorf("%+v, want %+v", got, l)
	}
	for i := range l.Numbers() {
		n := l.Numbers()
		n[i] = 1 << 50
		if got := FromNumbers(n); got != nil {
			t.Errorf("number %d may be 1<<50: %+v", i, got)
		}
	}
	if FromNumbers(l.Numbers()[1:]) != nil {
		t.Error("a number is missing")
	}
}

func FuzzFind(f *testing.F) {
	one := fileOf()
	f.Add(one.bytes, uint16(0), uint64(0x9000))
	heapbound.Fuzz(f, func(t *testing.T, constants []byte, missing uint16, symbol uint64) {
		one := fileOf()
		copy(one.bytes, constants)
		for i := range 16 {
			if missing>>i&1 != 0 {
				delete(one.exported, prefix+"TaggedSize")
			}
		}
		one.symbols["Builtins_AbortExtraWideHandler"] = [2]uint64{symbol, symbol >> 40}
		l := Find(one, "node")
		if l == nil {
			return
		}
		if FromNumbers(l.Numbers()) == nil {
			t.Errorf("%+v is no layout", l)
		}
	})
}
