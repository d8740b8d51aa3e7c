package format

import "strings"

// ValueKind is the kind of a Value.
type ValueKind uint8

// The kinds of values.
const (
	Int      ValueKind = iota
	Floating           // Num contains the bits of a float64
	Chars              // string of D
	Raw                // an array or struct as its bytes, in the order of memory
	Frames             // stack() or ustack()
	Place              // sym(), func(), mod(), uaddr() ...: an address that is printed as a symbol
)

// A Value is a value to print: an argument of an action, or an element of an aggregation's key.
type Value struct {
	Kind   ValueKind
	Size   int    // its size in the kernel: 1, 2, 4 or 8 for an Int, strsize for Chars
	Signed bool   // of an Int
	Num    uint64 // Int: its bits, of which the lowest Size bytes count. Place: the address
	Pid    uint64 // for a Place in a process: its ID
	// Text is the text of Chars and Raw (Chars up to the first 0), and the symbol of a Place. An
	// Int printed by %a or %A has the symbol of the address here, too; "" prints as 0x...
	Text   string
	Frames []string // the lines of a stack, innermost first
	PCs    []uint64 // the addresses of a stack, by which keys are ordered
}

// IntOf returns an integer of size bytes: 1, 2, 4 or 8.
func IntOf(n int64, size int, signed bool) Value {
	return Value{Kind: Int, Size: size, Signed: signed, Num: uint64(n)}
}

// TextOf returns a string of D, which takes size bytes in the kernel.
func TextOf(s string, size int) Value {
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	return Value{Kind: Chars, Size: size, Text: s}
}

// BytesOf returns a value of raw bytes: an array, a struct, the record of tracemem.
func BytesOf(b []byte) Value { return Value{Kind: Raw, Size: len(b), Text: string(b)} }

// StackOf returns a stack of resolved lines, innermost first.
func StackOf(lines []string, pcs []uint64) Value {
	return Value{Kind: Frames, Size: 8 * len(pcs), Frames: lines, PCs: pcs}
}

// Innermost returns a stack with at most the given number of frames, innermost first; negative:
// all.
func (v Value) Innermost(most int) Value {
	if most < 0 {
		return v
	}
	return StackOf(v.Frames[:min(most, len(v.Frames))], v.PCs[:min(most, len(v.PCs))])
}

// PlaceOf returns the value of sym(), func(), mod() and so on: an address with its symbol.
func PlaceOf(name string, address uint64) Value {
	return Value{Kind: Place, Size: 8, Num: address, Text: name}
}

// UserPlaceOf returns the value of usym(), ufunc(), umod() and uaddr().
func UserPlaceOf(name string, pid, address uint64) Value {
	return Value{Kind: Place, Size: 16, Num: address, Pid: pid, Text: name}
}

// unsigned returns the integer truncated to its size.
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

// signed returns the integer, sign-extended from its size.
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

// compare orders values as elements of a key: integers as unsigned, as dtrace does, everything else
// by its bytes or addresses.
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

// cut returns s up to its first 0.
func cut(s string) string {
	if i := strings.IndexByte(s, 0); i >= 0 {
		return s[:i]
	}
	return s
}

// escape returns the output of %S and %C: C's escapes for bytes that are not printable ASCII, and
// \0 for the final 0 of a D string.
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
