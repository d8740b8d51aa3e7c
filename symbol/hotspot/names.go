package hotspot

import (
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"culprit/symbol/interp"
)

const (
	mostText  = 1024    // bytes of the name of a class, a method or a file
	mostBytes = 4 << 20 // of all texts that a Reader reads
	mostConst = 512     // bytes of ConstMethod
	mostBlob  = 64      // bytes of the name of code that is no method
)

// A Reader is an interp.Reader. The code object of a frame is a Method or a CodeBlob.
type Reader struct {
	mem     io.ReaderAt
	at      *[slots]uint16
	methods map[uint64]*method
	texts   map[uint64]string // of Symbols
	left    int               // bytes of texts that are still read
	buffer  []byte
}

// A method is what is known of one.
type method struct {
	name  interp.Name
	lines []byte
}

// Name implements interp.Reader.
func (r *Reader) Name(f interp.Frame) interp.Name {
	at, instruction := f.Word.Code(), f.Word.Instruction()
	if instruction >= interp.InCode && instruction != interp.UnknownInstruction {
		return r.compiled(at, instruction-interp.InCode)
	}
	out := r.named(at, instruction)
	if out.Function == "" {
		out.Function = r.blob(at)
	}
	switch out.Function {
	case "[nmethod]", "[native nmethod]":
		method, _ := r.pointer(at + uint64(r.at[nmethodMethod]))
		return r.named(method, interp.UnknownInstruction)
	}
	return out
}

// named returns the name of a method and the line of an instruction.
func (r *Reader) named(at, instruction uint64) interp.Name {
	m, known := r.methods[at]
	if !known {
		if m = r.method(at); m == nil {
			m = &method{}
		}
		r.methods[at] = m
	}
	out := m.name
	if instruction != interp.UnknownInstruction {
		out.Line = r.line(m.lines, instruction)
	}
	return out
}

// A chain has the words that lead from a method to its names. A heap that changes while it is read
// has another one afterwards.
type chain struct {
	constMethod, pool, holder uint64
	class, name, file         uint64 // Symbols
	code                      uint64 // bytes
	lines                     bool   // there is a table of lines
}

// method reads a method; nil: there is none at the address, or it has changed meanwhile.
func (r *Reader) method(at uint64) *method {
	c, ok := r.chain(at)
	if !ok {
		return nil
	}
	m := &method{name: interp.Name{Function: function(r.text(c.class), r.text(c.name))}}
	if m.name.Function == "" {
		return nil
	}
	m.name.File = r.text(c.file)
	if !plain(m.name.File) {
		m.name.File = ""
	}
	if c.lines {
		m.lines = r.lines(c.constMethod + uint64(r.at[constSize]) + c.code)
		m.name.First = r.line(m.lines, 0)
	}
	if again, ok := r.chain(at); !ok || again != c {
		return nil
	}
	return m
}

// chain reads the chain of a method.
func (r *Reader) chain(method uint64) (c chain, ok bool) {
	if c.constMethod, ok = r.pointer(method + uint64(r.at[methodConst])); !ok {
		return c, false
	}
	b, ok := r.read(c.constMethod, int(r.at[constSize]))
	if !ok || len(b) > mostConst {
		return c, false
	}
	half := func(s slot) uint64 {
		if at := int(r.at[s]); at+2 <= len(b) {
			return uint64(binary.LittleEndian.Uint16(b[at:]))
		}
		ok = false
		return 0
	}
	if int(r.at[constPool])+8 > len(b) {
		return c, false
	}
	c.pool = word(b, int(r.at[constPool]))
	name := half(constName)
	c.code, c.lines = half(constCode), half(constFlags)&1 != 0
	if !ok || name == 0 {
		return c, false
	}
	if c.holder, ok = r.pointer(c.pool + uint64(r.at[poolHolder])); !ok {
		return c, false
	}
	if c.class, ok = r.pointer(c.holder + uint64(r.at[klassName])); !ok {
		return c, false
	}
	entries := c.pool + uint64(r.at[poolSize])
	if c.name, ok = r.pointer(entries + 8*name); !ok {
		return c, false
	}
	owner := c.holder
	if r.at[sourceOwner] != 0 {
		owner = c.pool
	}
	if b, ok = r.read(owner+uint64(r.at[sourceName]), 2); !ok {
		return c, false
	}
	if n := uint64(binary.LittleEndian.Uint16(b)); n != 0 {
		c.file, _ = r.pointer(entries + 8*n) // generated classes may have none
	}
	return c, true
}

// text reads a Symbol; "": there is none.
func (r *Reader) text(at uint64) string {
	s, known := r.texts[at]
	if known || at == 0 || at&7 != 0 {
		return s
	}
	if b, ok := r.read(at+uint64(r.at[symbolSize]), 2); ok {
		n := min(int(binary.LittleEndian.Uint16(b)), mostText)
		if b, ok = r.read(at+uint64(r.at[symbolText]), n); ok && r.left >= n && utf8.Valid(b) {
			r.left -= n
			s = string(b)
		}
	}
	r.texts[at] = s
	return s
}

// blob returns the name of code that belongs to no method, in brackets; "": there is none.
func (r *Reader) blob(at uint64) string {
	name, ok := r.pointer(at + uint64(r.at[blobName]))
	if !ok {
		return ""
	}
	for n := mostBlob; n > 1; n /= 2 {
		b, ok := r.read(name, n)
		if !ok {
			continue // no memory follows
		}
		end := slices.Index(b, 0)
		if end < 1 || !plain(string(b[:end])) || !utf8.Valid(b[:end]) {
			return ""
		}
		return "[" + string(b[:end]) + "]"
	}
	return ""
}

// function returns the name of a method with its class: java.util.HashMap.get. "": one of them is
// no name (JVM specification, 4.2). What distinguishes the hidden classes of one expression is left
// out, since it differs from run to run: it follows a plus sign.
func function(class, name string) string {
	class, _, _ = strings.Cut(class, "+0x")
	if class == "" || name == "" || !plain(class) || !plain(name) ||
		strings.ContainsAny(class, ".;[") || strings.ContainsAny(name, ".;[/") {
		return ""
	}
	if strings.ContainsAny(name, "<>") && name != "<init>" && name != "<clinit>" {
		return ""
	}
	return strings.ReplaceAll(class, "/", ".") + "." + name
}

// plain reports whether a text has no control characters.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f })
}

// word returns the 8 bytes at an offset.
func word(b []byte, at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }

// pointer reads the address of an object.
func (r *Reader) pointer(at uint64) (to uint64, ok bool) {
	b, ok := r.read(at, 8)
	if !ok {
		return 0, false
	}
	to = word(b, 0)
	return to, to != 0 && to < interp.MostAddress
}

// read reads memory of the process. The bytes are valid until the next call.
func (r *Reader) read(at uint64, n int) ([]byte, bool) {
	if at == 0 || at >= interp.MostAddress {
		return nil, false
	}
	r.buffer = slices.Grow(r.buffer[:0], n)[:n]
	if _, err := r.mem.ReadAt(r.buffer, int64(at)); err != nil {
		return nil, false
	}
	return r.buffer, true
}
