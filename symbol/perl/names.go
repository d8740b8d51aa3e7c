package perl

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"unicode/utf8"

	"culprit/symbol/interp"
)

const (
	mostText  = 512     // bytes of the name of a sub, or of a package
	mostPath  = 1024    // bytes of a file name
	mostLine  = 1 << 28 // above it there is no line
	mostBytes = 4 << 20 // of all texts that a Reader reads
	page      = 4096
)

// Types of values: the lowest byte of their flags (sv.h).
const (
	typeMask   = 0xff
	typeGlob   = 9
	typeLValue = 10 // may be a glob
	typeHash   = 12
	typeCode   = 13
	typeFormat = 14
	hasGlob    = 0x8000     // of a glob: it has what globs have
	hasAux     = 0x02000000 // of a hash: it has what a stash needs
)

// Flags of code (cv.h).
const (
	named   = 0x8000  // it has its name itself; else its glob has it
	lexical = 0x10000 // my sub
)

// What the method of a frame is in its lowest byte, as in package gen: the code object is a
// statement with the line that follows. 0: it is a sub or a format.
const (
	inProgram = 1 + iota
	inEval
)

// nameless is how Perl calls the package of a name whose stash has none.
const nameless = "__ANON__"

// A Reader is an interp.Reader.
type Reader struct {
	mem    io.ReaderAt
	layout *Layout
	of     offsets
	subs   map[uint64]interp.Name
	left   int // bytes of texts that are still read
	buffer []byte
}

// NewReader implements interp.Layout. There is a table.
func (l *Layout) NewReader(mem io.ReaderAt) interp.Reader {
	return &Reader{mem: mem, layout: l, of: versions[l.Version], subs: map[uint64]interp.Name{},
		left: mostBytes}
}

// Name implements interp.Reader. The instruction of a frame is the line: the program has read it.
func (r *Reader) Name(f interp.Frame) interp.Name {
	var out interp.Name
	if f.Method != 0 {
		out = r.statement(f.Word.Code(), f.Method)
	} else {
		out = r.sub(f.Word.Code())
	}
	if at := f.Word.Instruction(); at != interp.UnknownInstruction && out.Function != "" {
		out.Line = int(at)
	}
	return out
}

// statement returns the place of a statement that is in no sub.
func (r *Reader) statement(at, method uint64) interp.Name {
	const kinds, shift = 0xff, 8
	var out interp.Name
	switch method & kinds {
	case inProgram:
		out.Function = "(main)"
	case inEval:
		out.Function = "(eval)"
	default:
		return interp.Name{}
	}
	line, file, ok := r.place(at)
	if !ok || uint64(line) != method>>shift || file == "" { // else it was freed
		return interp.Name{}
	}
	out.File = file
	return out
}

// place returns the line and the file of a statement: a struct cop.
//
//	| u64 next | u64 sibling or parent | u64 function | u64 target | u32 kind | u32 line |
//	| u64 package | u64 file: its characters, or without threads a glob with its name |
func (r *Reader) place(at uint64) (line int, file string, ok bool) {
	const functionAt, lineAt, fileAt = 16, 36, 48
	m, ok := r.read(at, fileAt+8)
	if !ok || word(m, functionAt) == 0 {
		return 0, "", false
	}
	n, from := binary.LittleEndian.Uint32(m[lineAt:]), word(m, fileAt)
	if n > mostLine {
		return 0, "", false
	}
	if r.layout.Way == Globals {
		file, ok = r.globFile(from)
	} else {
		file, ok = r.path(from)
	}
	return int(n), file, ok
}

// globFile returns the file whose lines the glob at an address has: its name begins with _<.
func (r *Reader) globFile(at uint64) (string, bool) {
	const before = "_<"
	name, _, ok := r.glob(at)
	if !ok || len(name) <= len(before) || name[:len(before)] != before {
		return "", false
	}
	return name[len(before):], true
}

// sub returns the name of a sub or a format; Function "": there is none at the address.
func (r *Reader) sub(at uint64) interp.Name {
	out, known := r.subs[at]
	if !known {
		out = r.readSub(at)
		r.subs[at] = out
	}
	return out
}

// A value is the head of a value: a struct sv.
type value struct {
	body  uint64
	flags uint32
	own   uint64 // what it has itself
}

// is reports whether the value is of one of two types.
func (v value) is(a, b uint32) bool { return v.flags&typeMask == a || v.flags&typeMask == b }

// value reads the head of a value.
//
//	| u64 body | u32 references | u32 flags | u64 own |
func (r *Reader) value(at uint64) (v value, ok bool) {
	const flagsAt, ownAt = 12, 16
	m, ok := r.read(at, ownAt+8)
	if !ok {
		return v, false
	}
	return value{word(m, 0), binary.LittleEndian.Uint32(m[flagsAt:]), word(m, ownAt)}, true
}

// readSub reads the body of code: a struct xpvcv. Perl may free or change it meanwhile, so that its
// head is read again at the end.
func (r *Reader) readSub(at uint64) interp.Name {
	const stashAt, startAt, nameAt, fileAt, flagsAt = 32, 40, 56, 64, 92
	head, ok := r.value(at)
	if !ok || !head.is(typeCode, typeFormat) {
		return interp.Name{}
	}
	m, ok := r.read(head.body, flagsAt+4)
	if !ok {
		return interp.Name{}
	}
	stash, start, name, path := word(m, stashAt), word(m, startAt), word(m, nameAt), word(m, fileAt)
	flags := binary.LittleEndian.Uint32(m[flagsAt:])
	var out interp.Name
	if flags&named != 0 {
		out.Function, ok = r.key(name)
	} else if out.Function, stash, ok = r.glob(name); ok {
		out.Function, stash, ok = r.effective(name, out.Function, stash)
	}
	if !ok {
		return interp.Name{}
	}
	if flags&lexical == 0 {
		out.Function = r.packageName(stash) + "::" + out.Function
	}
	if out.File, ok = r.path(path); !ok || out.File == "" {
		return interp.Name{}
	}
	// The sub begins with a statement, unless it is empty: an operation is one if it has the file.
	if line, file, ok := r.place(start); ok && file == out.File {
		out.First = line
	}
	if again, ok := r.value(at); !ok || again.body != head.body || again.flags != head.flags {
		return interp.Name{}
	}
	return out
}

// glob returns the name of a glob and the address of its stash: a struct xpvgv.
func (r *Reader) glob(at uint64) (name string, stash uint64, ok bool) {
	const nameAt, stashAt = 32, 40
	head, ok := r.value(at)
	if !ok || !head.is(typeGlob, typeLValue) || head.flags&hasGlob == 0 {
		return "", 0, false
	}
	m, ok := r.read(head.body, stashAt+8)
	if !ok {
		return "", 0, false
	}
	key, stash := word(m, nameAt), word(m, stashAt)
	name, ok = r.key(key)
	return name, stash, ok
}

// effective returns the name of the glob that Perl reports in place of the one at an address, which
// has a name: that under which it was first known. It is in what the glob has: a struct gp.
func (r *Reader) effective(at uint64, name string, stash uint64) (string, uint64, bool) {
	const effectiveAt = 56
	head, ok := r.value(at)
	if !ok {
		return "", 0, false
	}
	m, ok := r.read(head.own, effectiveAt+8)
	if !ok {
		return "", 0, false
	}
	if first := word(m, effectiveAt); first != 0 && first != at {
		return r.glob(first)
	}
	return name, stash, true
}

// packageName returns the name of a stash. It is in a struct xpvhv_aux:
//
//	| u64 name | u64 | u64 | u32 | i32 names: the name is the first one of a table of them |
func (r *Reader) packageName(at uint64) string {
	const bucketsAt, inBody, countAt, mostBuckets = 24, 32, 28, 1 << 32
	head, ok := r.value(at)
	if !ok || head.flags&typeMask != typeHash || head.flags&hasAux == 0 {
		return nameless
	}
	aux := head.body + inBody
	if !r.of.NameInBody {
		m, ok := r.read(head.body, bucketsAt+8)
		if !ok || word(m, bucketsAt) >= mostBuckets {
			return nameless
		}
		aux = head.own + 8*(word(m, bucketsAt)+1)
	}
	m, ok := r.read(aux, countAt+4)
	if !ok {
		return nameless
	}
	key := word(m, 0)
	if binary.LittleEndian.Uint32(m[countAt:]) != 0 {
		if m, ok = r.read(key, 8); !ok {
			return nameless
		}
		key = word(m, 0)
	}
	name, ok := r.key(key)
	if !ok {
		return nameless
	}
	return name
}

// key returns the text of a key (struct hek), at most mostText bytes of it.
//
//	| u32 hash | i32 length | length times u8 | u8 0 | u8 flags, bit 0: UTF-8 |
func (r *Reader) key(at uint64) (string, bool) {
	const lengthAt, textAt, utf = 4, 8, 1
	m, ok := r.read(at, textAt)
	if !ok {
		return "", false
	}
	n := int32(binary.LittleEndian.Uint32(m[lengthAt:]))
	if n <= 0 || n > 1<<20 {
		return "", false
	}
	end, ok := r.readAny(at+textAt+uint64(n), 2)
	if !ok || end[0] != 0 {
		return "", false
	}
	isUTF := end[1]&utf != 0
	if m, ok = r.readAny(at+textAt, min(int(n), mostText)); !ok || !r.pay(len(m)) {
		return "", false
	}
	if isUTF || !slices.ContainsFunc(m, func(c byte) bool { return c >= utf8.RuneSelf }) {
		return string(m), true
	}
	text := make([]rune, len(m)) // of Latin-1
	for i, c := range m {
		text[i] = rune(c)
	}
	return string(text), true
}

// path reads a file name: characters up to a 0, without control characters.
func (r *Reader) path(at uint64) (string, bool) {
	var out []byte
	for len(out) < mostPath {
		n := min(mostPath-len(out), page-int(at%page))
		m, ok := r.readAny(at, n)
		if !ok {
			return "", false
		}
		text, _, ends := bytes.Cut(m, []byte{0})
		if !r.pay(len(text)) || slices.ContainsFunc(text, func(c byte) bool { return c < ' ' }) {
			return "", false
		}
		if out = append(out, text...); ends {
			return string(out), true
		}
		at += uint64(n)
	}
	return string(out), true
}

// pay counts bytes of text; false: the Reader has read its share.
func (r *Reader) pay(n int) bool {
	r.left -= n
	return r.left >= 0
}

// word returns the 8 bytes at an offset.
func word(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// read reads memory of the process. The bytes are valid until the next call.
func (r *Reader) read(at uint64, n int) ([]byte, bool) {
	if at&7 != 0 {
		return nil, false
	}
	return r.readAny(at, n)
}

// readAny reads memory at an address that need not be one of a struct.
func (r *Reader) readAny(at uint64, n int) ([]byte, bool) {
	if at == 0 || at > interp.MostAddress {
		return nil, false
	}
	r.buffer = slices.Grow(r.buffer[:0], n)[:n]
	if _, err := r.mem.ReadAt(r.buffer, int64(at)); err != nil {
		return nil, false
	}
	return r.buffer, true
}
