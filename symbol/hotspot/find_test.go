package hotspot

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"culprit/heapbound"
	"culprit/symbol/interp"
)

// Addresses of the parts of a file.
const (
	fileStart  = 0x1000
	textsAt    = 0x1100
	structsAt  = 0x4000
	typesAt    = 0x6000
	releaseAt  = 0x7000
	heapsAt    = 0x7100
	stubsAt    = 0x7180
	pointersAt = 0x7200 // of the two tables
	codeAt     = 0x8000
	fileEnd    = 0x9000
)

// A file is an interp.File with bytes from fileStart on, and code from codeAt on.
type file struct {
	exported map[string]uint64
	bytes    []byte
	moved    []interp.Relocation
}

// Exported implements interp.File.
func (f *file) Exported(name string) (addr, size uint64, ok bool) {
	at, ok := f.exported[name]
	return at, 8, ok
}

// Symbols implements interp.File.
func (f *file) Symbols(names ...string) [][2]uint64 { return make([][2]uint64, len(names)) }

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
func (f *file) Relocations(each func(interp.Relocation) bool) {
	for _, r := range f.moved {
		if !each(r) {
			return
		}
	}
}

// ThreadStorage implements interp.File.
func (f *file) ThreadStorage() (uint64, bool) { return 0, false }

// Needs implements interp.File.
func (f *file) Needs(string) bool { return false }

// Code implements interp.File.
func (f *file) Code() (addr, size uint64) { return codeAt, fileEnd - codeAt }

// A member is a field of a struct as HotSpot describes it.
type member struct {
	of, name, text string
	offset         uint32
}

// table: never changed
var common = []member{
	{"VirtualSpace", "_low", "char*", 16}, {"VirtualSpace", "_high", "char*", 24},
	{"CodeHeap", "_memory", "VirtualSpace", 8}, {"CodeHeap", "_segmap", "VirtualSpace", 120},
	{"CodeHeap", "_log2_segment_size", "int", 244}, {"HeapBlock", "_header", "HeapBlock::Header", 0},
	{"HeapBlock::Header", "_used", "bool", 8}, {"CodeBlob", "_frame_size", "int", 68},
	{"Method", "_constMethod", "ConstMethod*", 11}, {"ConstMethod", "_constants", "ConstantPool*", 13},
	{"ConstMethod", "_name_index", "u2", 42}, {"ConstMethod", "_code_size", "u2", 40},
	{"ConstantPool", "_pool_holder", "InstanceKlass*", 31}, {"Klass", "_name", "Symbol*", 37},
	{"Symbol", "_length", "u2", 4}, {"Symbol", "_body", "u1", 6}, {"PcDesc", "_pc_offset", "int", 0},
	{"StubQueue", "_stub_buffer", "address", 12}, {"StubQueue", "_buffer_limit", "int", 21},
	{"PcDesc", "_scope_decode_offset", "int", 4}, {"nmethod", "_scopes_pcs_offset", "int", 204},
}

// table: never changed
var before23 = []member{
	{"CodeBlob", "_name", "const char*", 56}, {"CodeBlob", "_frame_complete_offset", "int", 28},
	{"CodeBlob", "_code_begin", "address", 80}, {"ConstMethod", "_flags", "u2", 38},
	{"CompiledMethod", "_method", "Method*", 152},
	{"nmethod", "_verified_entry_point", "address", 256},
	{"CodeBlob", "_header_size", "int", 20}, {"nmethod", "_dependencies_offset", "int", 208}, {"nmethod", "_metadata_offset", "int", 196},
	{"CompiledMethod", "_scopes_data_begin", "address", 160},
}

// members returns what a release describes.
func members(release uint32) []member {
	out := slices.Clone(common)
	switch {
	case release < 17:
		return append(append(out, before23...),
			member{"GenericGrowableArray", "_len", "int", 0},
			member{"GrowableArray<int>", "_data", "int*", 24},
			member{"InstanceKlass", "_source_file_name_index", "u2", 276})
	case release < 23:
		return append(append(out, before23...),
			member{"GrowableArrayBase", "_len", "int", 0},
			member{"GrowableArray<int>", "_data", "int*", 8},
			member{"ConstantPool", "_source_file_name_index", "u2", 62})
	}
	return append(out, member{"GrowableArrayBase", "_len", "int", 0},
		member{"GrowableArray<int>", "_data", "int*", 8},
		member{"CodeBlob", "_name", "const char*", 9},
		member{"CodeBlob", "_frame_complete_offset", "int16_t", 50},
		member{"CodeBlob", "_code_offset", "int", 44},
		member{"CodeBlob", "_mutable_data", "address", 40}, member{"CodeBlob", "_header_size", "u2", 46},
		member{"CodeBlob", "_relocation_size", "int", 52},
		member{"ConstMethod", "_flags._flags", "u4", 36}, member{"nmethod", "_method", "Method*", 80},
		member{"nmethod", "_verified_entry_offset", "u2", 200},
		member{"nmethod", "_immutable_data", "address", 96},
		member{"nmethod", "_scopes_data_offset", "int", 108},
		member{"ConstantPool", "_source_file_name_index", "u2", 62})
}

// described returns a file of a release. Code writes the offsets.
func described(release uint32) *file { return describing(release, members(release)) }

func describing(release uint32, all []member) *file {
	f := &file{exported: map[string]uint64{"gHotSpotVMStructs": pointersAt,
		"gHotSpotVMTypes": pointersAt + 8}, bytes: make([]byte, fileEnd-fileStart)}
	texts, code := uint64(textsAt), uint64(codeAt+5)
	text := func(s string) uint64 {
		at := texts
		texts += uint64(copy(f.bytes[at-fileStart:], s)) + 1
		return at
	}
	entry := func(i int) uint64 { return structsAt + uint64(i)*structEntry }
	row := func(i int, of, name, typ string) {
		f.put(entry(i), text(of))
		f.put(entry(i)+structField, text(name))
		f.put(entry(i)+structText, text(typ))
	}
	for i, m := range all {
		row(i, m.of, m.name, m.text)
		f.write(code, entry(i)+structOffset, m.offset)
		code += 12
	}
	row(len(all), "CodeCache", "_heaps", "GrowableArray<CodeHeap*>*")
	f.put(entry(len(all))+structAddr, heapsAt)
	row(len(all)+1, "Abstract_VM_Version", "_vm_major_version", "int")
	f.put(entry(len(all)+1)+structAddr, releaseAt)
	row(len(all)+2, "AbstractInterpreter", "_code", "StubQueue*")
	f.put(entry(len(all)+2)+structAddr, stubsAt)
	f.put(releaseAt, uint64(release))
	types := []string{"ConstMethod", "ConstantPool", "HeapBlock", "PcDesc", "nmethod"}
	for i, size := range []uint64{56, 80, 16, 18, 344} {
		f.put(typesAt+uint64(i)*typeEntry, text(types[i]))
		f.put(typesAt+uint64(i)*typeEntry+typeSize, size)
	}
	f.put(pointersAt, structsAt)
	f.put(pointersAt+8, typesAt)
	return f
}

// put writes 8 bytes.
func (f *file) put(at, v uint64) { binary.LittleEndian.PutUint64(f.bytes[at-fileStart:], v) }

// write writes code that writes a number.
func (f *file) write(code, to uint64, number uint32) {
	copy(f.bytes[code-fileStart:], "\x48\xc7\x05")
	binary.LittleEndian.PutUint32(f.bytes[code-fileStart+3:], uint32(to-code-11))
	binary.LittleEndian.PutUint32(f.bytes[code-fileStart+7:], number)
}

// want returns the layout of described.
func want(number uint16) *Layout {
	l := &Layout{Heaps: heapsAt, Interpreter: stubsAt, At: [slots]uint16{ready: 1, vectorData: 8,
		heapLow:  24,
		heapHigh: 32, segmapLow: 136, segmentShift: 244, blockSize: 16, blockUsed: 8, blobName: 56,
		blobFrame: 68, blobComplete: 28, completeShift: 32, blobCode: 80, nmethodMethod: 152,
		verifiedEntry: 256, headerSize: 20,
		headerShift: 32, nmethodSize: 344, stubsBuffer: 12, stubsLimit: 21, methodConst: 11, constSize: 56, constPool: 13, constName: 42,
		constCode: 40, constFlags: 38, poolHolder: 31, poolSize: 80, klassName: 37, symbolSize: 4,
		symbolText: 6, sourceName: 62, sourceOwner: 1, release: number, inlining: 1,
		descriptors: 204, afterThem: 208, scopeData: 160, metadata: 196, descriptor: 18,
		scopeOffset: 4}}
	switch {
	case number < 17:
		l.At[vectorData], l.At[sourceName], l.At[sourceOwner] = 24, 276, 0
	case number >= 23:
		l.At[blobName], l.At[blobComplete], l.At[completeShift] = 9, 50, 48
		l.At[blobCode], l.At[codeShift], l.At[constFlags], l.At[nmethodMethod] = 44, 32, 36, 80
		l.At[verifiedEntry], l.At[verifiedShift] = 200, 48
		l.At[immutable], l.At[afterThem], l.At[scopeData], l.At[metadata] = 96, 108, 0, 0
		l.At[mutable], l.At[relocations] = 40, 52
		l.At[headerSize], l.At[headerShift] = 46, 48
	}
	return l
}

func TestFind(t *testing.T) {
	without := func(name string) *file {
		var all []member
		for _, m := range members(17) {
			if m.name != name {
				all = append(all, m)
			}
		}
		return describing(17, all)
	}
	changed := func(change func(*file)) *file {
		f := described(17)
		change(f)
		return f
	}
	refused := &Layout{}
	for _, tt := range []struct {
		name string
		f    *file
		want *Layout // nil: no HotSpot
	}{
		{"Java 11", described(11), want(11)},
		{"Java 17", described(17), want(17)},
		{"Java 25", described(25), want(25)},
		{"addresses by relocations", changed(func(f *file) {
			for _, at := range []uint64{pointersAt, pointersAt + 8, structsAt,
				structsAt + structField} {
				b, _ := f.Data(at, 8)
				f.moved = append(f.moved, interp.Relocation{At: at, Kind: relocationRelative,
					Addend: word(b, 0)})
				f.put(at, 0)
			}
		}), want(17)},
		{"an offset in the file", changed(func(f *file) {
			f.put(structsAt+structEntry+structOffset, 99)
		}), func() *Layout { l := want(17); l.At[heapHigh] = 8 + 99; return l }()},
		{"an offset that code writes twice", changed(func(f *file) {
			f.write(fileEnd-20, structsAt+structEntry+structOffset, 99)
		}), refused},
		{"an offset that no code writes", changed(func(f *file) { f.write(codeAt+5, 0, 1) }), refused},
		{"a field is missing", without("_frame_size"), refused},
		{"a field for inlined methods is missing", without("_pc_offset"), func() *Layout {
			l := want(17)
			clear(l.At[inlining:])
			return l
		}()},
		{"the name of the file is missing", without("_source_file_name_index"), refused},
		{"Java 10", described(10), refused},
		{"a large offset", changed(func(f *file) {
			f.put(structsAt+structEntry+structOffset, 1<<16)
		}), refused},
		{"no tables", &file{}, nil},
		{"tables that are not there", changed(func(f *file) {
			f.put(pointersAt, 1<<40)
		}), refused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			switch l := find(tt.f); {
			case (l == nil) != (tt.want == nil):
				t.Errorf("%+v, want %+v", l, tt.want)
			case l != nil && *l != *tt.want:
				t.Errorf("%+v, want %+v", *l, *tt.want)
			case l != nil && (l.Why() == "") != (tt.want != refused):
				t.Errorf("why: %q", l.Why())
			}
		})
	}
}

func TestLayoutNumbers(t *testing.T) {
	l := want(25)
	if got := fromNumbers(l.Numbers()); got == nil || *got != *l {
		t.Errorf("%+v, want %+v", got, l)
	}
	for i := range l.Numbers() {
		n := l.Numbers()
		n[i] = 1 << 48
		if l := FromNumbers(n); l != nil {
			t.Errorf("number %d may be %d: %+v", i, n[i], l)
		}
	}
	if k := (&Layout{Heaps: 1}).Kernel(); k.Numbers[0] != 0 {
		t.Errorf("a layout that is not ready has numbers: %v", k)
	}
	k := l.Kernel()
	for i := range kernelSlots {
		if got := uint16(k.Numbers[i/2] >> (16 * (i % 2))); got != l.At[i] {
			t.Errorf("slot %d is %d, want %d", i, got, l.At[i])
		}
	}
}

// A file may have anything in its tables.
func FuzzFind(f *testing.F) {
	for _, release := range []uint32{11, 17, 25} {
		f.Add(described(release).bytes, uint64(structsAt), uint64(heapsAt))
	}
	heapbound.Fuzz(f, func(t *testing.T, b []byte, at, addend uint64) {
		in := &file{exported: map[string]uint64{"gHotSpotVMStructs": pointersAt,
			"gHotSpotVMTypes": pointersAt + 8}, bytes: b,
			moved: []interp.Relocation{{At: at, Kind: relocationRelative, Addend: addend}}}
		l := find(in)
		if l == nil {
			return
		}
		if again := fromNumbers(l.Numbers()); again == nil || *again != *l {
			t.Errorf("%+v is read as %+v", l, again)
		}
	})
}
