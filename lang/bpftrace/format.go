package bpftrace

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Value is a value as it is printed: a number, a text, or a list of values.
type Value struct {
	Number   int64
	Unsigned bool     // the bits of Number are those of a number without sign
	Text     string   // when IsText is set
	IsText   bool     // otherwise it is a number, or a list
	Buffer   bool     // Text is the bytes of a buffer
	Parts    []Value  // of a tuple, an array or a struct; nil: it is none
	List     bool     // Parts are those of an array
	Names    []string // of a struct: the names of Parts; nil: it is none
}

// TextOf returns a text as a value.
func TextOf(s string) Value { return Value{Text: s, IsText: true} }

// BufferOf returns bytes as the value of a buffer.
func BufferOf(b []byte) Value { return Value{Text: string(b), IsText: true, Buffer: true} }

// escaped returns bytes with those that are not printable, or with all of them, as \x1b.
func escaped(s string, all bool) string {
	var out strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c < 0x7f && !all {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "\\x%02x", c)
		}
	}
	return out.String()
}

// KeyString returns the value as it is printed in a key of a map, where structs have no blanks.
func (v Value) KeyString() string { return v.text("{", ".", "=", ",", "}") }

// String returns the value as print() prints it.
func (v Value) String() string { return v.text("{ ", ".", " = ", ", ", " }") }

// text returns the value. The arguments are what is around and between the members of a struct.
func (v Value) text(open, before, is, between, end string) string {
	switch {
	case v.Buffer:
		return escaped(v.Text, false)
	case v.IsText:
		return v.Text
	case v.Parts != nil:
		all := make([]string, len(v.Parts))
		for i, p := range v.Parts {
			all[i] = p.text(open, before, is, between, end)
			if v.Names != nil {
				all[i] = before + v.Names[i] + is + all[i]
			}
		}
		switch {
		case v.Names != nil:
			return open + strings.Join(all, between) + end
		case v.List:
			return "[" + strings.Join(all, ",") + "]"
		}
		return "(" + strings.Join(all, ", ") + ")"
	case v.Unsigned:
		return strconv.FormatUint(uint64(v.Number), 10)
	}
	return strconv.FormatInt(v.Number, 10)
}

// A Format is the format of printf: texts between conversions.
type Format struct {
	Texts       []string // one more than Conversions
	Conversions []Conversion
}

// A Conversion prints one value.
type Conversion struct {
	Text      string // as written: %-10s
	Flags     string // of - + 0 # and blank
	Width     int    // 0: none
	Precision int    // -1: none
	Length    string // l, ll, h, hh, j, z, t or ""
	Verb      byte   // d i u x X o c p s r
}

// mostWidth is the highest width and precision of a conversion.
const mostWidth = 1024

// ParseFormat parses the format of printf. It fails when a conversion is not one of bpftrace's.
func ParseFormat(s string) (*Format, error) {
	f := &Format{}
	var text strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '%' {
			text.WriteByte(s[i])
			i++
			continue
		}
		if strings.HasPrefix(s[i:], "%%") {
			text.WriteByte('%')
			i += 2
			continue
		}
		c := Conversion{Precision: -1}
		end := i + 1
		for end < len(s) && strings.IndexByte("-+ 0#", s[end]) >= 0 {
			c.Flags += s[end : end+1]
			end++
		}
		c.Width, end = digits(s, end)
		if end < len(s) && s[end] == '.' {
			c.Precision, end = digits(s, end+1)
		}
		for end < len(s) && strings.IndexByte("hljzt", s[end]) >= 0 {
			c.Length += s[end : end+1]
			end++
		}
		if end >= len(s) || strings.IndexByte("diuxXocpsr", s[end]) < 0 {
			return nil, fmt.Errorf("%s is no conversion; bpftrace has "+
				"%%d %%u %%x %%o %%c %%p %%s %%r", shown(s[i:min(end+1, len(s))]))
		}
		c.Verb = s[end]
		end++
		if c.Verb == 'r' && end < len(s) && (s[end] == 'x' || s[end] == 'h') {
			c.Length = s[end : end+1]
			end++
		}
		if c.Width > mostWidth || c.Precision > mostWidth {
			return nil, fmt.Errorf("%s is wider than %d characters", s[i:end], mostWidth)
		}
		c.Text = s[i:end]
		f.Texts = append(f.Texts, text.String())
		text.Reset()
		f.Conversions = append(f.Conversions, c)
		i = end
	}
	f.Texts = append(f.Texts, text.String())
	return f, nil
}

// digits parses a number; 0 without one.
func digits(s string, at int) (n, end int) {
	for end = at; end < len(s) && digit(s[end]); end++ {
		n = min(10*n+int(s[end]-'0'), 1<<20)
	}
	return n, end
}

// wants returns what a conversion requires of the values of a shape: d a number, s a string, . any;
// 0: it does not print the shape.
func (c *Conversion) wants(s *Shape) byte {
	switch kind := s.kind(); c.Verb {
	case 'r':
		if kind == Buffer {
			return '.'
		}
	case 's':
		switch kind {
		case Plain:
			return 's'
		case Tuple, Buffer:
			return 0
		}
		return '.'
	default:
		if kind == Plain {
			return 'd'
		}
	}
	return 0
}

// hint returns which conversion prints a shape.
func (c *Conversion) hint(s *Shape) string {
	switch s.kind() {
	case Buffer:
		return "use %r"
	case Tuple:
		return "use print(), or print the elements: $t.0"
	case Plain:
		return "use %d for numbers and %s for strings"
	}
	return "use %s"
}

// Append appends the formatted values to out.
func (f *Format) Append(out []byte, values []Value) []byte {
	for i := range f.Conversions {
		out = append(out, f.Texts[i]...)
		if i < len(values) {
			out = f.Conversions[i].append(out, values[i])
		}
	}
	return append(out, f.Texts[len(f.Texts)-1]...)
}

func (c *Conversion) append(out []byte, v Value) []byte {
	switch c.Verb {
	case 's', 'r':
		s := v.String()
		switch {
		case v.Buffer && c.Length == "x":
			s = escaped(v.Text, true)
		case v.Buffer && c.Length == "h":
			s = fmt.Sprintf("% x", v.Text)
		}
		if c.Precision >= 0 && len(s) > c.Precision {
			s = s[:c.Precision]
		}
		return c.pad(out, s)
	case 'c':
		return c.pad(out, string([]byte{byte(v.Number)}))
	case 'p':
		if v.Number == 0 {
			return c.pad(out, "(nil)")
		}
		return c.pad(out, "0x"+strconv.FormatUint(uint64(v.Number), 16))
	}
	return c.pad(out, c.number(v))
}

// number returns a number without padding to Width by blanks. Without a length, numbers that fit
// into 32 bits are those of C's int; larger ones are printed whole.
func (c *Conversion) number(v Value) string {
	n := v.Number
	bits := 64
	switch c.Length {
	case "hh":
		bits = 8
	case "h":
		bits = 16
	case "":
		if n >= math.MinInt32 && n <= math.MaxUint32 && (c.Verb != 'd' && c.Verb != 'i' ||
			n <= math.MaxInt32) {
			bits = 32
		}
	}
	u := uint64(n) << (64 - bits) >> (64 - bits)
	sign, prefix, body := "", "", ""
	switch c.Verb {
	case 'd', 'i':
		n = n << (64 - bits) >> (64 - bits)
		body = strconv.FormatInt(n, 10)
		if v.Unsigned && bits == 64 {
			body = strconv.FormatUint(uint64(n), 10)
			if c.Length != "" {
				body = strconv.FormatInt(n, 10)
			}
		}
		if rest, ok := strings.CutPrefix(body, "-"); ok {
			sign, body = "-", rest
		} else if strings.Contains(c.Flags, "+") {
			sign = "+"
		} else if strings.Contains(c.Flags, " ") {
			sign = " "
		}
	case 'u':
		body = strconv.FormatUint(u, 10)
	case 'x', 'X':
		body = strconv.FormatUint(u, 16)
		if strings.Contains(c.Flags, "#") && u != 0 {
			prefix = "0x"
		}
		if c.Verb == 'X' {
			body, prefix = strings.ToUpper(body), strings.ToUpper(prefix)
		}
	case 'o':
		body = strconv.FormatUint(u, 8)
		if strings.Contains(c.Flags, "#") && u != 0 {
			prefix = "0"
		}
	}
	if missing := c.Precision - len(body); missing > 0 {
		body = strings.Repeat("0", missing) + body
	}
	if strings.Contains(c.Flags, "0") && !strings.Contains(c.Flags, "-") && c.Precision < 0 {
		if missing := c.Width - len(sign) - len(prefix) - len(body); missing > 0 {
			body = strings.Repeat("0", missing) + body
		}
	}
	return sign + prefix + body
}

// pad appends a text in at least Width bytes.
func (c *Conversion) pad(out []byte, s string) []byte {
	blanks := strings.Repeat(" ", max(0, c.Width-len(s)))
	if strings.Contains(c.Flags, "-") {
		return append(append(out, s...), blanks...)
	}
	return append(append(out, blanks...), s...)
}
