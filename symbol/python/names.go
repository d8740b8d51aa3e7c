package python

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"unicode/utf16"

	"culprit/symbol/interp"
)

const (
	codeBytes = 256      // of a code object that are read
	mostText  = 512      // characters of a name
	mostPath  = 1024     // characters of a file name
	mostLines = 64 << 10 // bytes of a table of lines
	mostLine  = 1 << 28
	mostBytes = 4 << 20 // of all names and tables that a Reader reads
)

// A Reader reads names of frames out of the memory of a process. Numbers and lengths there are
// decided by the process. Not safe for concurrent use.
type Reader struct {
	mem    io.ReaderAt
	layout *Layout
	codes  map[uint64]*codeObject
	kinds  map[uint64]bool // types by their address: whether it is that of code
	texts  map[uint64]string
	left   int // bytes of names and tables of lines that are still read
	buffer []byte
}

// A codeObject is what is known of a code object.
type codeObject struct {
	interp.Name        // without a line
	lines       uint64 // address of the table of lines; 0: table is read
	table       []byte // of lines; nil: it cannot be read
}

// NewReader implements interp.Layout. There is a table.
func (l *Layout) NewReader(mem io.ReaderAt) interp.Reader {
	return &Reader{mem: mem, layout: l, codes: map[uint64]*codeObject{}, kinds: map[uint64]bool{},
		texts: map[uint64]string{}, left: mostBytes}
}

// Name implements interp.Reader.
func (r *Reader) Name(f interp.Frame) interp.Name {
	w := f.Word
	at := w.Code()
	c := r.codes[at]
	if c == nil {
		c = r.code(at)
		r.codes[at] = c
	}
	out := c.Name
	if out.Function == "" || w.Instruction() == interp.UnknownInstruction {
		return out
	}
	if c.lines != 0 {
		if table, ok := r.bytes(c.lines); ok && len(table) <= r.left {
			c.table = append([]byte{}, table...)
			r.left -= len(table)
		}
		c.lines = 0
	}
	if c.table != nil {
		out.Line = r.layout.line(c.table, c.First, w.Instruction())
	}
	return out
}

// code reads a code object. Without a name it is none.
func (r *Reader) code(at uint64) *codeObject {
	c := &codeObject{}
	b, ok := r.read(at, codeBytes)
	if !ok {
		return c
	}
	of := &r.layout.Code
	word := func(off uint32) uint64 { return binary.LittleEndian.Uint64(b[off:]) }
	kind, name, file, lines := word(8), word(of.Name), word(of.File), word(of.Lines)
	first := int32(binary.LittleEndian.Uint32(b[of.FirstLine:]))
	if first < 0 || first > mostLine || !r.isCode(kind) {
		return c
	}
	function, ok := r.text(name, mostText)
	if !ok {
		return c
	}
	path, ok := r.text(file, mostPath)
	if !ok || function == "" || path == "" {
		return c
	}
	c.Name, c.lines = interp.Name{Function: function, File: path, First: int(first)}, lines
	return c
}

// typeName is the offset of tp_name in PyTypeObject.
const typeName = 24

// isCode reports whether the type at an address is that of code objects.
func (r *Reader) isCode(at uint64) bool {
	is, known := r.kinds[at]
	if known {
		return is
	}
	if b, ok := r.read(at+typeName, 8); ok {
		b, ok = r.read(binary.LittleEndian.Uint64(b), 5)
		is = ok && string(b) == "code\x00"
	}
	if len(r.kinds) < 16 {
		r.kinds[at] = is
	}
	return is
}

// read reads memory of the process. The bytes are valid until the next call.
func (r *Reader) read(at uint64, n int) ([]byte, bool) {
	if at == 0 || at > interp.MostAddress {
		return nil, false
	}
	r.buffer = slices.Grow(r.buffer[:0], n)[:n]
	if _, err := r.mem.ReadAt(r.buffer, int64(at)); err != nil {
		return nil, false
	}
	return r.buffer, true
}

// text reads a str of at most most characters; what is beyond is left out.
func (r *Reader) text(at uint64, most int) (string, bool) {
	if s, ok := r.texts[at]; ok {
		return s, true
	}
	b, ok := r.read(at, 40)
	if !ok {
		return "", false
	}
	n := binary.LittleEndian.Uint64(b[16:])
	state := binary.LittleEndian.Uint32(b[32:])
	kind, compact, ascii := int(state>>2&7), state>>5&1 == 1, state>>6&1 == 1
	if !compact || kind != 1 && kind != 2 && kind != 4 || n > 1<<30 || ascii && kind != 1 {
		return "", false
	}
	start := r.layout.Code.Other
	if ascii {
		start = r.layout.Code.ASCII
	}
	b, ok = r.read(at+uint64(start), kind*min(int(n), most))
	if !ok {
		return "", false
	}
	s := characters(b, kind)
	if r.left -= len(s); r.left < 0 {
		return "", false
	}
	r.texts[at] = s
	return s, true
}

// characters returns a text of characters of kind bytes each.
func characters(b []byte, kind int) string {
	var out strings.Builder
	for ; len(b) >= kind; b = b[kind:] {
		c := rune(b[0])
		switch kind {
		case 2:
			c = rune(binary.LittleEndian.Uint16(b))
		case 4:
			c = rune(binary.LittleEndian.Uint32(b) & 0x7fffffff)
		}
		if utf16.IsSurrogate(c) { // a byte of a file name that is no text
			c = 0xfffd
		}
		out.WriteRune(c)
	}
	return out.String()
}

// bytes reads a bytes object, which is valid until the next call of read.
func (r *Reader) bytes(at uint64) ([]byte, bool) {
	b, ok := r.read(at+16, 8)
	if !ok {
		return nil, false
	}
	n := binary.LittleEndian.Uint64(b)
	if n == 0 || n > mostLines {
		return nil, n == 0
	}
	return r.read(at+32, int(n))
}
