package python

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
)

// A Word is a frame of Python in a stack of addresses: the code object that runs, and which of its
// instructions. No address has its two highest bits, 01.
//
//	| 2 bits 01 | 18 bits instruction | 44 bits address of the code object / 8 |
//
// With the code object 0 it is no frame, and the instruction is a Why.
type Word uint64

// Bits of a Word.
const (
	codeBits        = 44
	instructionBits = 18
	// UnknownInstruction is the instruction of a frame of which only the code object is known.
	UnknownInstruction = 1<<instructionBits - 1
)

// NewWord returns the word of a frame.
func NewWord(code, instruction uint64) Word {
	return Word(1<<62 | min(instruction, UnknownInstruction)<<codeBits | code>>3&(1<<codeBits-1))
}

// IsWord reports whether a number in a stack of addresses is a Word.
func IsWord(pc uint64) bool { return pc>>62 == 1 }

// Code returns the address of the code object; 0: the word is a Why.
func (w Word) Code() uint64 { return uint64(w) & (1<<codeBits - 1) << 3 }

// Instruction returns which instruction runs.
func (w Word) Instruction() uint64 { return uint64(w) >> codeBits & UnknownInstruction }

// A Why is why a stack has no frames of Python from here on.
type Why uint64

// The reasons.
const (
	WhyNoTable    Why = 1 + iota // see Layout.Why
	WhyNoThread                  // the interpreter does not have the thread
	WhyThreads                   // it has too many threads to find it
	WhyUnreadable                // a page with a frame is not in memory, or the heap is invalid
)

// Why returns the reason of a word without a code object.
func (w Word) Why() Why { return Why(w.Instruction()) }

// A Name is where a frame is. Function "": it cannot be read.
type Name struct {
	Function string // qualified from 3.11 on
	File     string // as the program was given it
	First    int    // line on which the function begins
	Line     int    // line of the instruction; 0: unknown
}

const (
	codeBytes   = 256      // of a code object that are read
	mostText    = 512      // characters of a name
	mostPath    = 1024     // characters of a file name
	mostLines   = 64 << 10 // bytes of a table of lines
	mostLine    = 1 << 28
	mostAddress = 1 << 47
	mostBytes   = 4 << 20 // of all names and tables that a Reader reads
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
	Name         // without a line
	lines uint64 // address of the table of lines; 0: table is read
	table []byte // of lines; nil: it cannot be read
}

// NewReader returns a Reader of the memory of a process.
func NewReader(mem io.ReaderAt, l *Layout) *Reader {
	return &Reader{mem: mem, layout: l, codes: map[uint64]*codeObject{}, kinds: map[uint64]bool{},
		texts: map[uint64]string{}, left: mostBytes}
}

// Name returns where a frame is.
func (r *Reader) Name(w Word) Name {
	at := w.Code()
	c := r.codes[at]
	if c == nil {
		c = r.code(at)
		r.codes[at] = c
	}
	out := c.Name
	if out.Function == "" || w.Instruction() == UnknownInstruction {
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
	c.Name, c.lines = Name{Function: function, File: path, First: int(first)}, lines
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
	if at == 0 || at > mostAddress {
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
