package format

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// A Shape is the type of the argument of print(), as far as printing needs it.
type Shape struct {
	Form Form
	// in the notation of C: "struct task_struct", "int", "char [5]"; without a name: "struct",
	// "union", "enum"
	Name    string
	Size    int // bytes
	Signed  bool
	Char    bool           // a plain char, printed as a character
	Elem    *Shape         // of an array
	Len     int            // of an array
	Members func() []Piece // of a struct or union; called only when it is printed
	Values  []Named        // of an enumeration
}

// Form is the kind of a Shape.
type Form uint8

// The kinds.
const (
	FormInt Form = iota
	FormEnum
	FormPointer
	FormStruct
	FormUnion
	FormArray
	FormOther // a floating-point number, a function: not printed
)

// A Piece is a member of a struct or union.
type Piece struct {
	Name   string // "" for an anonymous struct or union
	Offset int    // bits from the start
	Bits   int    // of a bit field; 0: none
	Shape  *Shape
}

// A Named is a name of an enumeration.
type Named struct {
	Name  string
	Value int64
}

const (
	printIndent = 44 // the column where dtrace begins the lines of print()
	printDepth  = 10 // the deepest nesting that it prints
)

// Print appends the output of print(): the address of the value, then its members except those that
// are 0. data is the recorded value. Bytes from limit on, and bytes missing in data, are printed as
// "...".
func (s *Style) Print(dst []byte, address uint64, shape *Shape, data []byte, limit int) []byte {
	where := "(nil)" // as C's %p
	if address != 0 {
		where = "0x" + strconv.FormatUint(address, 16)
	}
	p := printer{dst: append(append(dst, where...), " = *\n"...), data: data, limit: limit}
	p.show("", shape, 0, 0, 0)
	p.close(0)
	return p.dst
}

type printer struct {
	dst   []byte
	data  []byte
	limit int
	// depths of the open structs: each is closed before the next value beside or above it
	open []int
}

func (p *printer) line(depth int, text string) {
	p.dst = fill(p.dst, ' ', printIndent+depth)
	p.dst = append(append(p.dst, text...), '\n')
}

// close closes all structs at depth or deeper.
func (p *printer) close(depth int) {
	for n := len(p.open); n > 0 && p.open[n-1] >= depth; n-- {
		end := "},"
		if p.open[n-1] == 0 {
			end = "}"
		}
		p.line(p.open[n-1], end)
		p.open = p.open[:n-1]
	}
}

// show appends a value and reports whether more may follow: not when the data has ended.
func (p *printer) show(name string, t *Shape, bit, bits, depth int) bool {
	at := bit / 8
	if at < 0 || at >= p.limit || at >= len(p.data) || depth >= printDepth {
		p.line(depth, "...")
		return false
	}
	p.close(depth)
	rest := p.data[at:]
	if depth > 0 && zero(rest[:min(len(rest), max(t.Size, 0))]) {
		return true
	}
	label := ""
	if name != "" {
		label = "." + name + " = "
	}
	switch t.Form {
	case FormStruct, FormUnion:
		p.line(depth, label+"("+t.Name+") {")
		p.open = append(p.open, depth)
		if t.Members == nil {
			return true
		}
		for _, m := range t.Members() {
			if !p.show(m.Name, m.Shape, bit+m.Offset, m.Bits, depth+1) {
				return false
			}
		}
	case FormArray:
		p.line(depth, label+"("+t.Name+") [")
		for i := 0; i < t.Len && t.Elem != nil && t.Elem.Size > 0; i++ {
			where := bit + 8*i*t.Elem.Size
			if t.Elem.Char && where/8 < len(p.data) && p.data[where/8] == 0 {
				break // the end of a text
			}
			if !p.show("", t.Elem, where, 0, depth+1) {
				return false
			}
		}
		p.close(depth + 1)
		p.line(depth, "],")
	case FormInt, FormEnum, FormPointer:
		if len(rest) < t.Size {
			p.line(depth, "...")
			return false
		}
		if text := t.text(p.data, bit, bits); text != "" {
			p.line(depth, label+"("+t.Name+")"+text+",")
		}
	}
	return true
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// text returns a number in its form; "" for a bit field of 0, which is omitted like all zeroes.
func (t *Shape) text(data []byte, bit, bits int) string {
	var u uint64
	if bits > 0 && bits <= 64 {
		for i := range bits { // little-endian, as all supported machines
			if at := bit + i; at/8 < len(data) && data[at/8]>>(at%8)&1 != 0 {
				u |= 1 << i
			}
		}
		if u == 0 {
			return ""
		}
	} else {
		bits = 8 * t.Size
		var b [8]byte
		if t.Size > 8 || t.Size < 1 {
			return fmt.Sprintf("?(%d bit value)", bits)
		}
		copy(b[:t.Size], data[bit/8:])
		u = binary.LittleEndian.Uint64(b[:])
	}
	n := int64(u)
	if (t.Signed || t.Form == FormEnum) && bits < 64 && u>>(bits-1) != 0 {
		n = int64(u | ^uint64(0)<<bits)
	}
	switch {
	case t.Form == FormPointer:
		return "0x" + strconv.FormatUint(u, 16)
	case t.Form == FormEnum:
		for _, v := range t.Values {
			if v.Value == n || v.Value == int64(u) {
				return v.Name
			}
		}
		return strconv.FormatInt(n, 10)
	case t.Char && t.Size == 1:
		if c := byte(u); c >= ' ' && c <= '~' {
			return "'" + string([]byte{c}) + "'"
		}
		return "'" + escape(string([]byte{byte(u)}), false) + "'"
	case t.Signed:
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatUint(u, 10)
}
