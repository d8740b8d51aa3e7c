package proc

import (
	"encoding/binary"
	"errors"
	"math"
)

// native is the machine's byte order, in which the kernel writes binary structures.
var native = binary.NativeEndian

// What can be wrong with a number in text.
var (
	ErrSyntax = errors.New("not a number")
	ErrRange  = errors.New("number out of range")
)

// ParseUint parses decimal digits without sign or space. Beyond 64 bits it returns the maximum and
// ErrRange; for anything else 0 and ErrSyntax. It never allocates.
func ParseUint(b []byte) (uint64, error) {
	v, n, over := digits(b)
	return whole(v, n > 0 && n == len(b), over)
}

// whole returns v if it is all of a text that was not empty; see ParseUint for the errors.
func whole(v uint64, all, over bool) (uint64, error) {
	switch {
	case !all:
		return 0, ErrSyntax
	case over:
		return math.MaxUint64, ErrRange
	}
	return v, nil
}

func signed(v uint64, neg bool, err error) (int64, error) {
	switch {
	case neg && v > 1<<63:
		return math.MinInt64, ErrRange
	case neg:
		return -int64(v), err // 1<<63 negated is itself: the least value
	case v > math.MaxInt64:
		return math.MaxInt64, ErrRange
	}
	return int64(v), err
}

// ParseHex parses hexadecimal digits of either case, with or without 0x in front. The errors are
// those of ParseUint.
func ParseHex(b []byte) (uint64, error) {
	if len(b) > 2 && b[0] == '0' && b[1]|0x20 == 'x' {
		b = b[2:]
	}
	v, n, over := hexDigits(b)
	return whole(v, n > 0 && n == len(b), over)
}

// ParseDecimal parses digits with an optional fraction and an optional '-', as "12.34" in
// /proc/loadavg and pressure files. It accepts no exponent, and digits past the 18th of the
// fraction do not count. With an error, ErrSyntax or ErrRange, it returns NaN.
func ParseDecimal(b []byte) (float64, error) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	whole, n, over := digits(b)
	if n == 0 {
		return math.NaN(), ErrSyntax
	}
	if over {
		return math.NaN(), ErrRange
	}
	v := float64(whole)
	if rest := b[n:]; len(rest) > 0 {
		if rest[0] != '.' {
			return math.NaN(), ErrSyntax
		}
		rest = rest[1:]
		keep := rest[:min(len(rest), 18)] // more digits than a float64 holds
		frac, m, _ := digits(keep)
		if m < len(keep) || len(keep) == 0 {
			return math.NaN(), ErrSyntax
		}
		for _, c := range rest[m:] {
			if c-'0' > 9 {
				return math.NaN(), ErrSyntax
			}
		}
		v += float64(frac) / pow10[m]
	}
	if neg {
		v = -v
	}
	return v, nil
}

var pow10 = [19]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
	1e14, 1e15, 1e16, 1e17, 1e18}

// digits parses leading decimal digits: their value, their number, and whether they overflow 64
// bits (then v has no meaning).
func digits(b []byte) (v uint64, n int, over bool) {
	for n < len(b) {
		d := b[n] - '0'
		if d > 9 {
			break
		}
		if v > math.MaxUint64/10 || v == math.MaxUint64/10 && d > 5 { // 18446744073709551615
			over = true
		}
		v = v*10 + uint64(d)
		n++
	}
	return v, n, over
}

func hexDigits(b []byte) (v uint64, n int, over bool) {
	for ; n < len(b); n++ {
		c := b[n]
		switch {
		case c-'0' <= 9:
			c -= '0'
		case (c|0x20)-'a' <= 5:
			c = (c | 0x20) - 'a' + 10
		default:
			return v, n, over
		}
		over = over || v>>60 != 0
		v = v<<4 | uint64(c)
	}
	return v, n, over
}

// Cursor walks the words and lines of a text without allocating. Spaces and tabs separate words,
// and a word never crosses the end of a line. The first error is kept for Err, so a parser reads a
// whole line and asks once. The zero Cursor is at the end of an empty text; a Cursor may be copied
// to look ahead.
type Cursor struct {
	rest []byte
	err  error
}

// Scan returns a cursor at the start of b. The cursor's words are parts of b.
func Scan(b []byte) Cursor { return Cursor{rest: b} }

// Err returns the first error: ErrSyntax (a word was not a number), ErrRange, or nil.
func (c *Cursor) Err() error { return c.err }

// Clear resets the error, for parsers that skip a bad line.
func (c *Cursor) Clear() { c.err = nil }

// Rest returns the rest of the text, with all lines.
func (c *Cursor) Rest() []byte { return c.rest }

// End reports whether no text is left.
func (c *Cursor) End() bool { return len(c.rest) == 0 }

// More reports whether the line has another word.
func (c *Cursor) More() bool {
	c.blanks()
	return len(c.rest) > 0 && c.rest[0] != '\n'
}

// NextLine goes to the start of the next line; false when there is none. For a loop over all lines:
//
//	for c := proc.Scan(b); !c.End(); c.NextLine() { ... }
func (c *Cursor) NextLine() bool {
	for i, x := range c.rest {
		if x == '\n' {
			c.rest = c.rest[i+1:]
			return len(c.rest) > 0
		}
	}
	c.rest = nil
	return false
}

// Line returns the rest of this line, without its end, and goes to the next.
func (c *Cursor) Line() []byte {
	for i, x := range c.rest {
		if x == '\n' {
			line := c.rest[:i]
			c.rest = c.rest[i+1:]
			return line
		}
	}
	line := c.rest
	c.rest = nil
	return line
}

// Word returns the next word of this line; nil at the line's end.
func (c *Cursor) Word() []byte {
	c.blanks()
	for i, x := range c.rest {
		if x == ' ' || x == '\t' || x == '\n' {
			w := c.rest[:i:i]
			c.rest = c.rest[i:]
			if i == 0 {
				return nil
			}
			return w
		}
	}
	w := c.rest
	c.rest = nil
	if len(w) == 0 {
		return nil
	}
	return w
}

// Until returns the text before the next sep in this line and goes behind sep. Where no sep follows
// it returns nil and does not move. Leading blanks are dropped: Until(':') reads "  eth0: 1 2" as
// "eth0".
func (c *Cursor) Until(sep byte) []byte {
	c.blanks()
	for i, x := range c.rest {
		if x == sep {
			w := c.rest[:i:i]
			c.rest = c.rest[i+1:]
			return w
		}
		if x == '\n' {
			break
		}
	}
	return nil
}

// Skip passes n words of this line. Fewer words are no error.
func (c *Cursor) Skip(n int) {
	for ; n > 0 && c.Word() != nil; n-- {
	}
}

// Uint returns the next word as a number. With an error in Err it returns 0, or the maximum for
// ErrRange.
func (c *Cursor) Uint() uint64 {
	c.blanks()
	v, n, over := digits(c.rest)
	return c.number(v, n, over)
}

// Hex is Uint for hexadecimal digits without 0x.
func (c *Cursor) Hex() uint64 {
	c.blanks()
	v, n, over := hexDigits(c.rest)
	return c.number(v, n, over)
}

// Int is Uint with an optional '-' in front.
func (c *Cursor) Int() int64 {
	c.blanks()
	neg := len(c.rest) > 0 && c.rest[0] == '-'
	if neg {
		c.rest = c.rest[1:]
	}
	v, n, over := digits(c.rest)
	s, err := signed(c.number(v, n, over), neg, nil)
	if err != nil && c.err == nil {
		c.err = err
	}
	return s
}

// Decimal returns the next word as ParseDecimal does; NaN with Err set when it is not a number.
func (c *Cursor) Decimal() float64 {
	v, err := ParseDecimal(c.Word())
	if err != nil && c.err == nil {
		c.err = err
	}
	return v
}

// number consumes n digits and checks that the word ends there.
func (c *Cursor) number(v uint64, n int, over bool) uint64 {
	ends := n == len(c.rest) || c.rest[n] == ' ' || c.rest[n] == '\n' || c.rest[n] == '\t'
	if n == 0 || !ends {
		if c.err == nil {
			c.err = ErrSyntax
		}
		c.Word() // skip the whole word, so that columns stay aligned
		return 0
	}
	c.rest = c.rest[n:]
	if over {
		if c.err == nil {
			c.err = ErrRange
		}
		return math.MaxUint64
	}
	return v
}

func (c *Cursor) blanks() {
	for i, x := range c.rest {
		if x != ' ' && x != '\t' {
			c.rest = c.rest[i:]
			return
		}
	}
	c.rest = nil
}

// AppendUnescaped appends b to dst and decodes the kernel's octal escapes (\040 for a space, as in
// mountinfo). Any other backslash stays.
func AppendUnescaped(dst, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		if b[i] == '\\' && i+3 < len(b) {
			x, y, z := b[i+1]-'0', b[i+2]-'0', b[i+3]-'0'
			if x <= 3 && y <= 7 && z <= 7 {
				dst = append(dst, x<<6|y<<3|z)
				i += 3
				continue
			}
		}
		dst = append(dst, b[i])
	}
	return dst
}
