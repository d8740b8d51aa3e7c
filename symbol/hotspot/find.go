package hotspot

import (
	"bytes"
	"encoding/binary"
	"strings"

	"culprit/symbol/interp"
)

// The tables by which HotSpot describes its structs (vmStructs.hpp), for debuggers. Each ends with
// an entry without a type.
//
//	of structs: | u64 type | u64 field | u64 its type | u32 static, 0 | u64 offset | u64 addr |
//	of types:   | u64 type | u64 above it | u32, u32, u32, u32 0 | u64 size |
//
// Those of type are addresses of texts. addr is that of a static field. The offsets are 0 in the
// file: code writes them when the library is loaded.
const (
	structEntry  = 48
	structField  = 8
	structText   = 16
	structOffset = 32
	structAddr   = 40
	typeEntry    = 40
	typeSize     = 32

	mostEntries = 4096     // of a table
	mostCode    = 64 << 20 // bytes of code that are searched
	mostLength  = 64       // bytes of a text
)

// relocationRelative is R_X86_64_RELATIVE (System V ABI, AMD64 supplement).
const relocationRelative = 8

// Find returns the layout of HotSpot in a file; nil: it has none.
func Find(f interp.File, _ string) interp.Layout {
	if l := find(f); l != nil {
		return l
	}
	return nil
}

func find(f interp.File) *Layout {
	structs, size, ok := f.Exported("gHotSpotVMStructs")
	types, typesSize, alsoTypes := f.Exported("gHotSpotVMTypes")
	if !ok || !alsoTypes || size != 8 || typesSize != 8 {
		return nil
	}
	d := &description{file: f, texts: map[uint64]string{}, fields: map[string]field{},
		sizes: map[string]uint64{}}
	pointers := [2]uint64{d.word(structs), d.word(types)}
	f.Relocations(func(r interp.Relocation) bool {
		for i, at := range [...]uint64{structs, types} {
			if r.At == at && r.Kind == relocationRelative {
				pointers[i] = r.Addend
			}
		}
		return true
	})
	d.read(pointers[0], pointers[1])
	return d.layout()
}

// A description is what the tables of a file describe.
type description struct {
	file   interp.File
	texts  map[uint64]string // by address
	fields map[string]field  // by type and name: CodeBlob._name
	sizes  map[string]uint64 // of types
	bad    bool              // a field was missing
}

// A field is one of a struct.
type field struct {
	offset uint64
	addr   uint64 // of a static one
	size   int    // in bytes; 0: not known
	known  bool   // the file has its offset or its address
}

// word returns the 8 bytes at an address of the file; 0: there are none.
func (d *description) word(at uint64) uint64 {
	b, err := d.file.Data(at, 8)
	if err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// table returns the bytes of a table, and as many behind it as the file has.
func (d *description) table(at uint64, each int) (out []byte) {
	for _, n := range [...]int{64, 1} { // entries at once
		for len(out) < mostEntries*each {
			b, err := d.file.Data(at+uint64(len(out)), n*each)
			if err != nil || len(b) != n*each {
				break
			}
			out = append(out, b...)
		}
	}
	return out
}

// read reads the tables of structs and types.
func (d *description) read(structsAt, typesAt uint64) {
	structs, types := d.table(structsAt, structEntry), d.table(typesAt, typeEntry)
	patch := func(b []byte, from uint64, r interp.Relocation) {
		if at := r.At - from; len(b) >= 8 && at <= uint64(len(b)-8) {
			binary.LittleEndian.PutUint64(b[at:], r.Addend)
		}
	}
	d.file.Relocations(func(r interp.Relocation) bool {
		if r.Kind == relocationRelative {
			patch(structs, structsAt, r)
			patch(types, typesAt, r)
		}
		return true
	})
	structs, types = upToEnd(structs, structEntry), upToEnd(types, typeEntry)
	written := d.written(structsAt, len(structs))
	for i := 0; i < len(structs); i += structEntry {
		e := structs[i:]
		name := d.text(word(e, 0))
		if !wanted(name) {
			continue
		}
		one := field{offset: word(e, structOffset), addr: word(e, structAddr),
			size: sizeOf(d.text(word(e, structText)))}
		one.known = one.offset != 0 || one.addr != 0
		if n, ok := written[i/structEntry]; ok && !one.known {
			one.offset, one.known = n, true
		}
		name += "." + d.text(word(e, structField))
		if _, known := d.fields[name]; !known {
			d.fields[name] = one
		}
	}
	for ; len(types) > 0; types = types[typeEntry:] {
		if name := d.text(word(types, 0)); wanted(name) {
			d.sizes[name] = word(types, typeSize)
		}
	}
}

// upToEnd returns a table up to its last entry.
func upToEnd(b []byte, each int) []byte {
	for at := 0; at+each <= len(b); at += each {
		if word(b, at) == 0 {
			return b[:at]
		}
	}
	return nil
}

// written returns the offsets that code writes to a table of structs, by the number of the entry:
//
//	48 c7 05 OFFSET NUMBER    movq $NUMBER, OFFSET(%rip)
//
// An entry to which it writes different numbers has none.
func (d *description) written(table uint64, size int) map[int]uint64 {
	const move, length, chunk = "\x48\xc7\x05", 11, 1 << 20
	out, twice := map[int]uint64{}, map[int]bool{}
	start, n := d.file.Code()
	n = min(n, mostCode)
	for at := uint64(0); at+length <= n; at += chunk {
		b, err := d.file.Data(start+at, int(min(n-at, chunk+length-1)))
		if err != nil {
			break
		}
		for i := 0; ; i++ {
			next := bytes.Index(b[i:], []byte(move))
			if next < 0 || i+next+length > len(b) {
				break
			}
			i += next
			to := start + at + uint64(i) + length + signed(b[i+3:]) - table
			if to >= uint64(size) || to%structEntry != structOffset {
				continue
			}
			entry, number := int(to/structEntry), signed(b[i+7:])
			if before, known := out[entry]; known && before != number {
				twice[entry] = true
			}
			out[entry] = number
		}
	}
	for entry := range twice {
		delete(out, entry)
	}
	return out
}

// signed reads a number of an instruction.
func signed(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }

// text returns the text at an address; "": there is none of less than mostLength bytes.
func (d *description) text(at uint64) string {
	if s, known := d.texts[at]; known {
		return s
	}
	s := ""
	for n := mostLength; n > 0; n /= 2 {
		b, err := d.file.Data(at, n)
		if err != nil {
			continue // the file ends there
		}
		if end := bytes.IndexByte(b, 0); end > 0 {
			s = string(b[:end])
		}
		break
	}
	d.texts[at] = s
	return s
}

// wanted reports whether a type has a field or a size that is read.
func wanted(name string) bool {
	switch name {
	case "CodeCache", "CodeHeap", "CodeBlob", "CompiledMethod", "nmethod", "HeapBlock",
		"HeapBlock::Header", "VirtualSpace", "GrowableArrayBase", "GenericGrowableArray",
		"GrowableArray<int>", "Method", "ConstMethod", "ConstantPool", "InstanceKlass", "Klass",
		"Symbol", "PcDesc", "AbstractInterpreter", "StubQueue", "Abstract_VM_Version":
		return true
	}
	return false
}

// sizeOf returns the size of a type of C++; 0: not known.
func sizeOf(text string) int {
	switch text {
	case "int", "u4", "uint", "uint32_t", "int32_t", "unsigned int":
		return 4
	case "u2", "int16_t", "uint16_t", "unsigned short", "jushort":
		return 2
	case "address":
		return 8
	}
	if strings.HasSuffix(text, "*") {
		return 8
	}
	return 0
}

// layout returns the layout; without ready if a number is missing.
func (d *description) layout() *Layout {
	l := &Layout{}
	put := func(s slot, n uint64) {
		if n > 1<<16-1 {
			d.bad = true
			return
		}
		l.At[s] = uint16(n)
	}
	offset := func(s slot, size int, names ...string) { put(s, d.field(size, names...).offset) }
	l.Heaps = d.field(0, "CodeCache._heaps").addr
	l.Interpreter = d.field(0, "AbstractInterpreter._code").addr
	d.code(put, offset)
	offset(methodConst, 0, "Method._constMethod")
	put(constSize, d.size("ConstMethod"))
	offset(constPool, 8, "ConstMethod._constants")
	offset(constName, 2, "ConstMethod._name_index")
	offset(constCode, 2, "ConstMethod._code_size")
	offset(constFlags, 0, "ConstMethod._flags", "ConstMethod._flags._flags")
	offset(poolHolder, 8, "ConstantPool._pool_holder")
	put(poolSize, d.size("ConstantPool"))
	offset(klassName, 8, "Klass._name")
	offset(symbolSize, 2, "Symbol._length")
	offset(symbolText, 0, "Symbol._body")
	offset(sourceName, 2, "ConstantPool._source_file_name_index",
		"InstanceKlass._source_file_name_index")
	if _, ok := d.fields["ConstantPool._source_file_name_index"]; ok {
		put(sourceOwner, 1)
	}
	b, err := d.file.Data(d.field(0, "Abstract_VM_Version._vm_major_version").addr, 4)
	if err == nil {
		put(release, uint64(binary.LittleEndian.Uint32(b)))
	}
	for _, s := range [...]slot{methodConst, constSize, poolHolder, poolSize, klassName, symbolText,
		nmethodMethod, blobFrame, release} {
		d.bad = d.bad || l.At[s] == 0 // objects begin with other members
	}
	for _, at := range [...]uint64{l.Heaps, l.Interpreter} {
		d.bad = d.bad || at == 0 || at > interp.MostAddress
	}
	if d.bad || l.At[release] < 11 {
		return &Layout{}
	}
	l.At[ready] = 1
	inlined := *l
	if d.scopes(&inlined) {
		return &inlined
	}
	return l
}

// scopes puts the numbers that are about inlined methods; false: one is missing.
func (d *description) scopes(l *Layout) bool {
	put := func(s slot, size int, names ...string) {
		f := d.field(size, names...)
		d.bad = d.bad || f.offset > 1<<16-1
		l.At[s] = uint16(f.offset)
	}
	put(descriptors, 4, "nmethod._scopes_pcs_offset")
	if _, ok := d.fields["nmethod._immutable_data"]; ok {
		put(immutable, 8, "nmethod._immutable_data")
		put(afterThem, 4, "nmethod._scopes_data_offset")
		put(mutable, 8, "CodeBlob._mutable_data")
		put(relocations, 4, "CodeBlob._relocation_size")
	} else {
		put(afterThem, 4, "nmethod._dependencies_offset")
		put(scopeData, 8, "CompiledMethod._scopes_data_begin", "nmethod._scopes_data_begin")
		put(metadata, 4, "nmethod._metadata_offset")
	}
	put(codeOffset, 0, "PcDesc._pc_offset")
	put(scopeOffset, 0, "PcDesc._scope_decode_offset")
	size := d.size("PcDesc")
	l.At[descriptor], l.At[inlining] = uint16(size), 1
	return !d.bad && size < 1<<16
}

// code puts the numbers that are about compiled code.
func (d *description) code(put func(slot, uint64), offset func(slot, int, ...string)) {
	offset(vectorLength, 4, "GrowableArrayBase._len", "GenericGrowableArray._len")
	offset(vectorData, 8, "GrowableArray<int>._data")
	memory, segmap := d.field(0, "CodeHeap._memory").offset, d.field(0, "CodeHeap._segmap").offset
	low, high := d.field(8, "VirtualSpace._low").offset, d.field(8, "VirtualSpace._high").offset
	put(heapLow, memory+low)
	put(heapHigh, memory+high)
	put(segmapLow, segmap+low)
	offset(segmentShift, 4, "CodeHeap._log2_segment_size")
	put(blockSize, d.size("HeapBlock"))
	put(blockUsed, d.field(0, "HeapBlock._header").offset+
		d.field(0, "HeapBlock::Header._used").offset)
	offset(blobName, 8, "CodeBlob._name")
	offset(blobFrame, 4, "CodeBlob._frame_size")
	sized := func(s, shift slot, names ...string) {
		f := d.field(-1, names...)
		put(s, f.offset)
		put(shift, uint64(64-8*f.size))
	}
	sized(blobComplete, completeShift, "CodeBlob._frame_complete_offset")
	sized(blobCode, codeShift, "CodeBlob._code_begin", "CodeBlob._code_offset")
	sized(verifiedEntry, verifiedShift, "nmethod._verified_entry_point",
		"nmethod._verified_entry_offset")
	offset(nmethodMethod, 8, "nmethod._method", "CompiledMethod._method")
	sized(headerSize, headerShift, "CodeBlob._header_size")
	put(nmethodSize, d.size("nmethod"))
	offset(stubsBuffer, 8, "StubQueue._stub_buffer")
	offset(stubsLimit, 4, "StubQueue._buffer_limit")
}

// field returns the first field that there is, of the names that it has had. Its size must be size;
// 0: any, also one that is not known; -1: one that is known.
func (d *description) field(size int, names ...string) field {
	for _, name := range names {
		f, ok := d.fields[name]
		if !ok {
			continue
		}
		if !f.known || size > 0 && f.size != size || size < 0 && f.size == 0 {
			break
		}
		return f
	}
	d.bad = true
	return field{size: 8}
}

// size returns the size of a type.
func (d *description) size(name string) uint64 {
	n := d.sizes[name]
	d.bad = d.bad || n == 0
	return n
}
