package proc

import (
	"encoding/binary"
	"errors"
	"math"
)

// native is the byte order of this machine, in which the kernel writes its binary structures.
var native = binary.NativeEndian

// What can be wrong with a number in text.
var (
	ErrSyntax = errors.New("not a number")
	ErrRange  = errors.New("number out of range")
)

// ParseUint reads decimal digits and nothing else: no sign, no space. Beyond 64 bits it gives the greatest value and
// ErrRange; for anything else 0 and ErrSyntax. It never allocates.
func ParseUint(b []byte) (uint64, error) {
	v, n, over := digits(b)
	switch {
	case n == 0 || n < len(b):
		return 0, ErrSyntax
	case over:
		return math.MaxUint64, ErrRange
	}
	return v, nil
}

// ParseInt is ParseUint with an optional '-' in front; beyond 64 bits it gives the nearest value and ErrRange.
func ParseInt(b []byte) (int64, error) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	v, err := ParseUint(b)
	return signed(v, neg, err)
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

// ParseHex reads hexadecimal digits of either case, with or without 0x in front; errors as ParseUint.
func ParseHex(b []byte) (uint64, error) {
	if len(b) > 2 && b[0] == '0' && b[1]|0x20 == 'x' {
		b = b[2:]
	}
	v, n, over := hexDigits(b)
	switch {
	case n == 0 || n < len(b):
		return 0, ErrSyntax
	case over:
		return math.MaxUint64, ErrRange
	}
	return v, nil
}

// ParseDecimal reads digits with an optional fraction, as in /proc/loadavg and pressure files: "12.34". No exponent; a '-'
// in front is allowed; digits past the 18th of the fraction are checked and not counted. On an error it gives NaN.
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

var pow10 = [19]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// digits reads leading decimal digits: their value, how many, and whether they overflowed (then v means nothing).
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

// Cursor walks text of words and lines without allocating. Words are parted by spaces and tabs and never cross a line's
// end. The first thing wrong sticks and is told by Err, so a parser reads a whole line and asks once. The zero Cursor is
// at the end of nothing; Cursor{} values may be copied to look ahead.
type Cursor struct {
	rest []byte
	err  error
}

// Scan gives a cursor at the start of b. The cursor's words are parts of b.
func Scan(b []byte) Cursor { return Cursor{rest: b} }

// Err gives the first thing that was wrong: ErrSyntax (a number was expected and was not there, or was followed by
// something that parts no words), ErrRange, or nil.
func (c *Cursor) Err() error { return c.err }

// Clear forgets what was wrong, for parsers that skip a bad line and go on.
func (c *Cursor) Clear() { c.err = nil }

// Rest gives all that is left, lines and all.
func (c *Cursor) Rest() []byte { return c.rest }

// End says whether all text is used up.
func (c *Cursor) End() bool { return len(c.rest) == 0 }

// More says whether another word is left in this line.
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

// Line gives what is left of this line, without its end, and goes to the next.
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

// Word gives the next word of this line; nil at the line's end.
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

// Until gives what stands before the next sep in this line and goes behind it; the whole rest of the line stays, and nil is
// given, where sep does not follow. Leading blanks are dropped: Until(':') reads "  eth0: 1 2" as "eth0".
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

// Skip passes n words of this line; fewer are no error.
func (c *Cursor) Skip(n int) {
	for ; n > 0 && c.Word() != nil; n-- {
	}
}

// Uint gives the next word as a number; 0 (range: the greatest value) with Err set when it is not one.
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

// Decimal gives the next word as ParseDecimal does; NaN with Err set when it is not one.
func (c *Cursor) Decimal() float64 {
	v, err := ParseDecimal(c.Word())
	if err != nil && c.err == nil {
		c.err = err
	}
	return v
}

// number takes n digits off and checks that a word ends there.
func (c *Cursor) number(v uint64, n int, over bool) uint64 {
	ends := n == len(c.rest) || c.rest[n] == ' ' || c.rest[n] == '\n' || c.rest[n] == '\t'
	if n == 0 || !ends {
		if c.err == nil {
			c.err = ErrSyntax
		}
		c.Word() // a bad word is passed whole, so that columns stay in step
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

// AppendUnescaped appends b to dst with the kernel's octal escapes (\040 for a space, as in mountinfo) undone. Any other
// backslash stays as it is.
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
