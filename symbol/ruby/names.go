package ruby

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"culprit/symbol/interp"
)

const (
	mostText      = 512       // bytes of a label, or of the name of a class
	mostPath      = 1024      // bytes of a file name
	mostLine      = 1 << 28   // above it there is no line
	mostBytes     = 4 << 20   // of all texts that a Reader reads
	mostSize      = 1<<18 - 1 // instructions of code with lines
	mostSupers    = 256       // classes above one another
	mostVariables = 64        // of a class
	bodyBytes     = 192       // of rb_iseq_constant_body that are read
)

// Types of objects: the lowest bits of their flags (value_type.h), and the kinds of internal ones
// (internal/imemo.h).
const (
	typeMask   = 0x1f
	typeClass  = 0x02
	typeModule = 0x03
	typeString = 0x05
	typeArray  = 0x07
	typeMemo   = 0x1a
	memoShift  = 12
	memoMask   = 15
	memoSVar   = 2
	memoMethod = 6
	memoCode   = 7
	notInside  = userFlag << 1 // of a string: its characters are elsewhere
	inside     = userFlag << 1 // of an array: its elements are here
)

// codeMethod is ISEQ_TYPE_METHOD.
const codeMethod = 1

// evaluated is the label of what eval() has compiled in a method, from 3.4 on.
const evaluated = "<compiled>"

// A Reader is an interp.Reader.
type Reader struct {
	mem    io.ReaderAt
	layout *Layout
	of     offsets
	bodies map[uint64]*body
	names  map[nameKey]interp.Name
	owners map[uint64]string // names of classes, with the character that precedes a method
	// pathKey is the number of the variable with the name of a class; 0: not known
	pathKey uint64
	left    int // bytes of texts that are still read
	buffer  []byte
}

type nameKey struct{ code, method uint64 }

// A body is what is known of code.
type body struct {
	kind        uint32
	size        uint32 // instructions
	encoded     uint64 // where they begin
	label, base string
	file        string
	first       int
	lines       lineTable
	local       uint64 // the code of the method around it
}

// NewReader implements interp.Layout. There is a table.
func (l *Layout) NewReader(mem io.ReaderAt) interp.Reader {
	return &Reader{mem: mem, layout: l, of: versions[l.Version], bodies: map[uint64]*body{},
		names: map[nameKey]interp.Name{}, owners: map[uint64]string{}, left: mostBytes}
}

// Name implements interp.Reader.
func (r *Reader) Name(f interp.Frame) interp.Name {
	code := f.Word.Code()
	b := r.body(code)
	if b == nil {
		return interp.Name{}
	}
	key := nameKey{code, f.Method}
	out, known := r.names[key]
	if !known {
		out = interp.Name{Function: r.function(b, r.method(f.Method)), File: b.file, First: b.first}
		r.names[key] = out
	}
	if at := f.Word.Instruction(); at != interp.UnknownInstruction {
		// the program has passed the lowest bits of where the instruction is
		at = (at - b.encoded>>3) & interp.UnknownInstruction
		if at <= uint64(b.size) && b.size < mostSize {
			out.Line = r.line(&b.lines, max(at, 1)-1)
		}
	}
	return out
}

// body reads code; nil: there is none at the address.
func (r *Reader) body(at uint64) *body {
	b, known := r.bodies[at]
	if !known {
		b = r.readBody(at)
		r.bodies[at] = b
	}
	return b
}

func (r *Reader) readBody(at uint64) *body {
	const bodyAt = 16
	m, ok := r.read(at, bodyAt+8)
	if !ok || !isMemo(word(m, 0), memoCode) {
		return nil
	}
	if m, ok = r.read(word(m, bodyAt), bodyBytes); !ok {
		return nil
	}
	const size, encoded, location = 4, 8, 64
	const path, base, label, first = location, location + 8, location + 16, location + 24
	of := &r.of
	b := &body{kind: uint32(word(m, 0)), size: uint32(word(m, size) & (1<<32 - 1)),
		encoded: word(m, encoded), local: word(m, int(of.Local))}
	b.lines = lineTable{entries: word(m, int(of.Lines)), size: uint32(word(m, int(of.Lines)+16)),
		index: word(m, int(of.Lines)+24), each: of.Line}
	b.first = int(int32(word(m, first)))
	if !of.PlainLine {
		b.first = int(int32(word(m, first) >> 1))
	}
	paths, bases, labels := word(m, path), word(m, base), word(m, label)
	if b.first < 0 || b.first > mostLine {
		return nil
	}
	var ok1, ok2 bool
	b.label, ok = r.text(labels, mostText)
	b.base, ok1 = r.text(bases, mostText)
	b.file, ok2 = r.path(paths)
	if !ok || !ok1 || !ok2 || b.label == "" || b.file == "" {
		return nil
	}
	return b
}

// path reads a file name: a string, or an array of it and of the path in the file system.
func (r *Reader) path(at uint64) (string, bool) {
	m, ok := r.read(at, 24)
	if ok && word(m, 0)&typeMask == typeArray && word(m, 0)&inside != 0 {
		at = word(m, 16)
	}
	return r.text(at, mostPath)
}

// function returns the text of a function with the name of its class: block in Class#method. owner
// is the class, with # or a dot; "": it is not known.
func (r *Reader) function(b *body, owner string) string {
	if owner == "" {
		return b.label
	}
	local := r.body(b.local)
	if local == nil || local.kind != codeMethod {
		return b.label
	}
	before, ok := strings.CutSuffix(b.label, local.base)
	if !ok {
		if before, ok = strings.CutSuffix(b.label, evaluated); !ok {
			return b.label
		}
	}
	if strings.HasSuffix(before, "#") || strings.HasSuffix(before, ".") {
		return b.label // it is there already
	}
	return before + owner + local.base
}

// method returns the class of a method with the character that precedes its name; "": it is not
// known.
func (r *Reader) method(at uint64) string {
	const inVariable, ownerAt = 8, 32
	m, ok := r.read(at, ownerAt+8)
	if ok && isMemo(word(m, 0), memoSVar) {
		m, ok = r.read(word(m, inVariable), ownerAt+8)
	}
	if !ok || !isMemo(word(m, 0), memoMethod) {
		return ""
	}
	class := word(m, ownerAt)
	owner, known := r.owners[class]
	if !known {
		owner = r.owner(class)
		r.owners[class] = owner
	}
	return owner
}

// owner returns the name of a class with the character that precedes a method.
func (r *Reader) owner(class uint64) string {
	flags, ok := r.class(class)
	if !ok {
		return ""
	}
	between := "#"
	if flags&typeMask == typeClass && flags&r.of.Singleton != 0 {
		between = "."
		if class, ok = r.attached(class); !ok {
			return ""
		}
	}
	name := r.className(class)
	if name == "" || name[0] == '#' { // a class without a name has an address in its place
		return ""
	}
	return name + between
}

// class returns the flags of a class or a module.
func (r *Reader) class(at uint64) (flags uint64, ok bool) {
	m, ok := r.read(at, 8)
	if !ok {
		return 0, false
	}
	flags = word(m, 0)
	kind := flags & typeMask
	return flags, kind == typeClass || kind == typeModule
}

// isMemo reports whether flags are those of an internal object of a kind.
func isMemo(flags, kind uint64) bool {
	return flags&typeMask == typeMemo && flags>>memoShift&memoMask == kind
}

// word returns the 8 bytes at an offset.
func word(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// read reads memory of the process. The bytes are valid until the next call.
func (r *Reader) read(at uint64, n int) ([]byte, bool) {
	if at == 0 || at&7 != 0 || at > interp.MostAddress {
		return nil, false
	}
	return r.readAny(at, n)
}

// readAny reads memory at an address that need not be one of an object.
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

// text reads a string of at most most bytes; what is beyond is left out.
func (r *Reader) text(at uint64, most int) (string, bool) {
	const lengthAt, shortAt, longAt = 16, 16, 24
	m, ok := r.read(at, longAt+8)
	if !ok || word(m, 0)&typeMask != typeString {
		return "", false
	}
	flags, n, start := word(m, 0), word(m, lengthAt), at+longAt
	switch {
	case flags&notInside != 0:
		start = word(m, longAt)
	case !r.of.LongString:
		const shift, mask = 14, 0x1f // RSTRING_EMBED_LEN
		n, start = flags>>shift&mask, at+shortAt
	}
	if n > 1<<30 {
		return "", false
	}
	if m, ok = r.readAny(start, min(int(n), most)); !ok {
		return "", n == 0
	}
	if r.left -= len(m); r.left < 0 {
		return "", false
	}
	return string(m), true
}
