package unwind

import "encoding/binary"

// The expressions that compilers and linkers write (DWARF 5, section 7.7.1).
const (
	opDeref  = 0x06
	opBreg6  = 0x70 + dwarfBP
	opBreg7  = 0x70 + dwarfSP
	opBreg16 = 0x70 + dwarfPC
	opLit0   = 0x30
	opLit31  = opLit0 + 31
)

// cfaFrom sets the CFA from an expression: memory at a register, or the linker's description of the
// PLT.
func (s *frameState) cfaFrom(e cursor) {
	s.cfa, s.off = CFAOther, 0
	op := e.byte()
	off := e.sleb()
	if e.bad || off != int64(int32(off)) {
		return
	}
	rest := e.rest()
	switch {
	case op == opBreg7 && string(rest) == string([]byte{opDeref}):
		s.cfa, s.off = CFAAtSP, int32(off)
	case op == opBreg6 && string(rest) == string([]byte{opDeref}):
		s.cfa, s.off = CFAAtBP, int32(off)
	case op == opBreg7 && len(rest) == 9 && rest[4] >= opLit0 && rest[4] <= opLit31:
		// rip + 0, 15, and, N, ge, 3, shl, plus
		want := []byte{opBreg16, 0, opLit0 + 15, 0x1a, rest[4], 0x2a, opLit0 + 3, 0x24, 0x22}
		if string(rest) == string(want) {
			s.cfa, s.off, s.plt = CFAPLT, int32(off), int32(rest[4]-opLit0)
		}
	}
}

// savedFrom returns the location of a register from an expression.
func savedFrom(e cursor) saved {
	op := e.byte()
	off := e.sleb()
	if e.bad || e.left() > 0 || off != int64(int32(off)) {
		return saved{how: savedOther}
	}
	switch op {
	case opBreg6:
		return saved{savedAtBP, int32(off)}
	case opBreg7:
		return saved{savedAtSP, int32(off)}
	}
	return saved{how: savedOther}
}

// A cursor reads bytes up to an end. Beyond it, it reads 0 and sets bad.
type cursor struct {
	b       []byte
	at, end int
	from    int // where b begins in the section
	width   int // bytes of offsets
	bad     bool
}

func (c *cursor) left() int { return c.end - c.at }

func (c *cursor) rest() []byte { return c.b[c.at:c.end] }

func (c *cursor) byte() byte {
	if c.bad || c.at >= c.end {
		c.bad = true
		return 0
	}
	c.at++
	return c.b[c.at-1]
}

func (c *cursor) fixed(n int) (v uint64) {
	if c.bad || n > c.left() {
		c.bad = true
		return 0
	}
	if n == 4 { // most of them
		v = uint64(binary.LittleEndian.Uint32(c.b[c.at:]))
		c.at += 4
		return v
	}
	for i := range n {
		v |= uint64(c.b[c.at+i]) << (8 * i)
	}
	c.at += n
	return v
}

func (c *cursor) uleb() (v uint64) {
	if !c.bad && c.at < c.end && c.b[c.at] < 0x80 { // most of them
		c.at++
		return uint64(c.b[c.at-1])
	}
	for shift := 0; ; shift += 7 {
		b := c.byte()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b < 0x80 {
			return v
		}
	}
}

func (c *cursor) sleb() (v int64) {
	for shift := 0; ; {
		b := c.byte()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		if shift += 7; b < 0x80 {
			if b&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// text reads up to a NUL.
func (c *cursor) text() string {
	from := c.at
	for c.byte() != 0 {
	}
	if c.bad {
		return ""
	}
	return string(c.b[from : c.at-1])
}

// block reads a length and that many bytes.
func (c *cursor) block() cursor {
	n := c.uleb()
	if c.bad || n > uint64(c.left()) {
		c.bad = true
		return cursor{bad: true}
	}
	out := cursor{b: c.b, at: c.at, end: c.at + int(n), from: c.from}
	c.at += int(n)
	return out
}

// pointer reads a pointer in one of the encodings of the Linux Standard Base (DW_EH_PE), in a
// section that is loaded at an address.
func (c *cursor) pointer(encoding byte, section uint64) (v uint64) {
	place := section + uint64(c.from+c.at)
	if encoding == 0xff { // omitted
		c.bad = true
		return 0
	}
	switch encoding & 0x0f {
	case 0x00, 0x04, 0x0c:
		v = c.fixed(8)
	case 0x01:
		v = c.uleb()
	case 0x02:
		v = c.fixed(2)
	case 0x03:
		v = c.fixed(4)
	case 0x09:
		v = uint64(c.sleb())
	case 0x0a:
		v = uint64(int16(c.fixed(2)))
	case 0x0b:
		v = uint64(int32(c.fixed(4)))
	default:
		c.bad = true
	}
	switch encoding & 0x70 {
	case 0x00:
	case 0x10: // from its own place
		v += place
	default: // from the text, the data, or the function: nobody writes these into .eh_frame
		c.bad = true
	}
	if encoding&0x80 != 0 { // where the pointer stands: that is filled in when the file is loaded
		return 0
	}
	return v
}

// Pointer reads a pointer at an offset of b, in one of the encodings of the Linux Standard Base
// (DW_EH_PE). section is the address of b; !ok: b is too short or the encoding is unknown.
func Pointer(b []byte, at int, encoding byte, section uint64) (v uint64, ok bool) {
	c := cursor{b: b, at: at, end: len(b)}
	v = c.pointer(encoding, section)
	return v, !c.bad
}
