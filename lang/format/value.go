package format

import "strings"

// ValueKind is the sort of a Value.
type ValueKind uint8

// The kinds of values.
const (
	Int      ValueKind = iota
	Floating      // Num holds the bits of a float64
	Chars         // string of D
	Raw           // an array or struct as its bytes, in the order of memory
	Frames        // stack() or ustack()
	Place         // sym(), func(), mod(), uaddr() ...: an address that is told by name
)

// A Value is one thing to print: an argument of an action, an element of an aggregation's key.
type Value struct {
	Kind   ValueKind
	Size   int    // bytes that it takes in the kernel: 1, 2, 4 or 8 of an Int, strsize of Chars
	Signed bool   // of an Int
	Num    uint64 // Int: its bits, of which the lowest Size bytes count. Place: the address
	Pid    uint64 // of a Place in user space: the process
	// Text is what Chars and Raw hold (Chars without what stands behind the first 0), and the name of a Place. An Int that
	// %a or %A prints has the name of the address here, too; "" prints as 0x...
	Text   string
	Frames []string // the lines of a stack, innermost first
	PCs    []uint64 // of a stack: its addresses, by which keys are ordered
}

// IntOf makes an integer of size bytes: 1, 2, 4 or 8.
func IntOf(n int64, size int, signed bool) Value {
	return Value{Kind: Int, Size: size, Signed: signed, Num: uint64(n)}
}

// TextOf makes a string of D, which takes size bytes in the kernel.
func TextOf(s string, size int) Value {
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return Value{Kind: Chars, Size: size, Text: s}
}

// BytesOf makes a value of bytes as they are: an array, a struct, what tracemem recorded.
func BytesOf(b []byte) Value { return Value{Kind: Raw, Size: len(b), Text: string(b)} }

// StackOf makes a stack of lines that are resolved already, innermost first.
func StackOf(lines []string, pcs []uint64) Value {
	return Value{Kind: Frames, Size: 8 * len(pcs), Frames: lines, PCs: pcs}
}

// Innermost gives a stack with its innermost frames alone, so many of them; below 0: all.
func (v Value) Innermost(most int) Value {
	if most < 0 {
		return v
	}
	return StackOf(v.Frames[:min(most, len(v.Frames))], v.PCs[:min(most, len(v.PCs))])
}

// PlaceOf makes the value of sym(), func(), mod() and so on: an address, and what it is called.
func PlaceOf(name string, address uint64) Value {
	return Value{Kind: Place, Size: 8, Num: address, Text: name}
}

// UserPlaceOf makes the value of usym(), ufunc(), umod() and uaddr().
func UserPlaceOf(name string, pid, address uint64) Value {
	return Value{Kind: Place, Size: 16, Num: address, Pid: pid, Text: name}
}

// unsigned gives the integer as its size holds it.
func (v Value) unsigned() uint64 {
	switch v.Size {
	case 1:
		return uint64(uint8(v.Num))
	case 2:
		return uint64(uint16(v.Num))
	case 4:
		return uint64(uint32(v.Num))
	}
	return v.Num
}

// signed gives the integer with the sign that its size gives it.
func (v Value) signed() int64 {
	switch v.Size {
	case 1:
		return int64(int8(v.Num))
	case 2:
		return int64(int16(v.Num))
	case 4:
		return int64(int32(v.Num))
	}
	return int64(v.Num)
}

// compare orders values as elements of a key: integers without regard to their sign, as dtrace does, everything else by its
// bytes or addresses.
func (v Value) compare(w Value) int {
	switch {
	case v.Kind == Int && w.Kind == Int:
		return order(v.unsigned(), w.unsigned())
	case v.Kind == Place && w.Kind == Place:
		if c := order(v.Pid, w.Pid); c != 0 {
			return c
		}
		return order(v.Num, w.Num)
	case v.Kind == Frames && w.Kind == Frames:
		for i := range min(len(v.PCs), len(w.PCs)) {
			if c := order(v.PCs[i], w.PCs[i]); c != 0 {
				return c
			}
		}
		if c := len(v.PCs) - len(w.PCs); c != 0 {
			return c
		}
		return strings.Compare(strings.Join(v.Frames, "\n"), strings.Join(w.Frames, "\n"))
	}
	return strings.Compare(v.Text, w.Text)
}

func order[T uint64 | int64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// cut gives s up to its first 0.
func cut(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// escape writes what %S and %C print: C's escapes for what is not printable ASCII, and \0 for the 0 at the end, which a
// string of D always has.
func escape(s string, ended bool) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch c {
		case 0:
			b.WriteString(`\0`)
			return b.String()
		case '\a':
			b.WriteString(`\a`)
		case '\b':
			b.WriteString(`\b`)
		case '\f':
			b.WriteString(`\f`)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\v':
			b.WriteString(`\v`)
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			if c >= ' ' && c <= '~' {
				b.WriteByte(c)
				continue
			}
			b.Write([]byte{'\\', '0' + c>>6, '0' + c>>3&7, '0' + c&7})
		}
	}
	if ended {
		b.WriteString(`\0`)
	}
	return b.String()
}
