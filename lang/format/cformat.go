package format

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// field is the layout of one value: the parameters of a conversion of C's printf. A width or
// precision of 0 is none.
type field struct {
	alternate, zero, left, plus, space bool
	group                              string // separator of groups of three digits; "": none
	width, precision                   int
}

// pad appends s padded with blanks.
func (f field) pad(dst []byte, s string) []byte {
	n := f.width - len(s)
	if !f.left {
		dst = fill(dst, ' ', n)
	}
	dst = append(dst, s...)
	if f.left {
		dst = fill(dst, ' ', n)
	}
	return dst
}

func fill(dst []byte, b byte, n int) []byte {
	for ; n > 0; n-- {
		dst = append(dst, b)
	}
	return dst
}

// text appends a string, of which the precision limits the bytes.
func (f field) text(dst []byte, s string) []byte {
	if f.precision > 0 && len(s) > f.precision {
		s = s[:f.precision]
	}
	return f.pad(dst, s)
}

// wide appends characters as UTF-8; the precision never splits one.
func (f field) wide(dst []byte, s string) []byte {
	if f.precision > 0 && len(s) > f.precision {
		n := f.precision
		for n > 0 && !utf8.RuneStart(s[n]) {
			n--
		}
		s = s[:n]
	}
	return f.pad(dst, s)
}

// signed appends an integer as %d.
func (f field) signed(dst []byte, n int64) []byte {
	sign := ""
	switch {
	case n < 0:
		sign = "-"
	case f.plus:
		sign = "+"
	case f.space:
		sign = " "
	}
	u := uint64(n)
	if n < 0 {
		u = -u
	}
	return f.number(dst, sign, strconv.FormatUint(u, 10))
}

// unsigned appends an integer as %u, %o, %x or %X.
func (f field) unsigned(dst []byte, verb byte, n uint64) []byte {
	prefix := ""
	var digits string
	switch verb {
	case 'o':
		digits = strconv.FormatUint(n, 8)
		if f.alternate && n != 0 {
			f.precision = max(f.precision, len(digits)+1)
		}
	case 'x', 'X':
		digits = strconv.FormatUint(n, 16)
		if f.alternate && n != 0 {
			prefix = "0x"
		}
		if verb == 'X' {
			digits, prefix = upper(digits), upper(prefix)
		}
	default:
		digits = strconv.FormatUint(n, 10)
		return f.number(dst, "", digits)
	}
	f.group = ""
	return f.number(dst, prefix, digits)
}

// number appends sign or prefix and digits. The precision is the lowest number of digits; without
// one, the flag 0 fills the width with zeroes.
func (f field) number(dst []byte, sign, digits string) []byte {
	if f.group != "" {
		for i := len(digits) - 3; i > 0; i -= 3 {
			digits = digits[:i] + f.group + digits[i:]
		}
	}
	zeroes := f.precision - len(digits)
	if f.zero && !f.left && f.precision <= 0 {
		zeroes = f.width - len(sign) - len(digits)
	}
	blanks := f.width - len(sign) - max(0, zeroes) - len(digits)
	if !f.left {
		dst = fill(dst, ' ', blanks)
	}
	dst = append(dst, sign...)
	dst = fill(dst, '0', zeroes)
	dst = append(dst, digits...)
	if f.left {
		dst = fill(dst, ' ', blanks)
	}
	return dst
}

// floating appends a number as %e, %f or %g.
func (f field) floating(dst []byte, verb byte, x float64) []byte {
	precision := min(f.precision, 1<<10)
	if precision <= 0 {
		precision = 6
	}
	s := strconv.FormatFloat(math.Abs(x), verb|0x20, precision, 64)
	switch {
	case math.IsNaN(x):
		s, f.zero = "nan", false
	case math.IsInf(x, 0):
		s, f.zero = "inf", false
	}
	if verb <= 'Z' {
		s = upper(s)
	}
	sign := ""
	switch {
	case math.Signbit(x):
		sign = "-"
	case f.plus:
		sign = "+"
	case f.space:
		sign = " "
	}
	f.precision = 0
	f.group = ""
	return f.number(dst, sign, s)
}

func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'a' && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
