// Package format prints the output of D: formats of printf and printa, values, tables of
// aggregations, pictures of distributions, stacks. It is pure: text and values in, bytes out. Its
// output equals dtrace's byte for byte, as documented in the DTrace guide ("Output Formatting",
// "Aggregations"); widths and signs follow the rules of C. It resolves no addresses and reads no
// clock. lang/check asks it for the argument types of conversions; trace passes it values.
package format

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// A Format is a parsed format of a printf or printa.
type Format struct {
	// Text is the whole format, with the escapes of the D string resolved.
	Text string

	// Conversions are the conversions between the plain texts, in order. %% is one of them: dtrace
	// counts it, too, in messages such as "conversion #2".
	Conversions []Conversion

	// Tail is the plain text after the last conversion.
	Tail string
}

// A Conversion is one %... of a format.
type Conversion struct {
	Before string // plain text between the previous conversion and this one
	At     int    // byte offset of the % in the format
	Len    int    // bytes from the % to the last letter
	Name   string // letters without flags: "d", "llx", "Y", "%"

	// Want is the required type of the argument, Prototype its name in dtrace's messages: "char []
	// or string (or use stringof)".
	Want      Want
	Prototype string

	// Size and Signed are set for Want Exact: an integer of 2 or 8 bytes is required. With AnySign,
	// Signed is ignored.
	Size            int
	Signed, AnySign bool

	// Aggregation is %@: the value of the next aggregation of a printa, not an argument.
	Aggregation bool

	// WidthArg and PrecisionArg are * and .*: an integer argument each, before the value; the
	// width's comes first.
	WidthArg, PrecisionArg bool

	Width     int // 0: none
	Precision int // 0: none, even if a 0 is written: dtrace ignores it

	Alternate, Zero, Left, Plus, Space, Group bool // # 0 - + blank '
}

// Want is the type of argument that a conversion requires.
type Want uint8

// The types, with their conversions.
const (
	Nothing Want = iota // %%: no argument
	// %d %i %o %u %x %X: an integer of any size; %d and %i print it with its own sign
	Integer
	Small // %c %C: an integer of at most 4 bytes
	// %hd %lld %lx ...: the integer of Size and Signed, or an enum of that size; typedefs count as
	// their types
	Exact
	// %e %E %f %g %G: D has no floating point; prints values of the kernel's structs
	Float
	LongDouble // %Le ...
	Pointer    // %p: a pointer or an integer
	Symbol     // %a: a pointer, an integer, or the value of sym, func and mod
	// %A: the value of usym, ufunc and umod; with a target process (-p, -c) also a pointer or an
	// integer
	UserSymbol
	Stack    // %k: the value of stack, ustack and jstack
	Time     // %Y %T: an integer of 8 bytes, nanoseconds since the epoch
	String   // %s %S: a string or an array of char
	Wide     // %ls %ws: an array of integers of 4 bytes
	WideChar // %lc %wc: an int
)

// An Error is a mistake in a format, in dtrace's words. Its tag is D_SYNTAX.
type Error struct {
	Pos, Len   int // bytes in the format
	Conversion int // from 1
	Message    string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// MaxWidth is the widest field. A greater width in a format is an error; one from an argument is
// reduced to it.
const MaxWidth = 1 << 24

// conversion is the definition of a conversion.
type conversion struct {
	name      string
	want      Want
	prototype string
}

const (
	protoInt    = "char, short, int, long, or long long"
	protoSmall  = "char, short, or int"
	protoFloat  = "float, double, or long double"
	protoAddr   = "pointer or integer"
	protoUser   = "pointer or integer (with -p/-c) or _usymaddr (without -p/-c)"
	protoString = "char [] or string (or use stringof)"
	protoWide   = "wchar_t []"
)

// lookup returns the definition of the conversion called name; !ok: there is none.
func lookup(name string) (c conversion, ok bool) {
	for _, c := range conversions() {
		if c.name == name {
			return c, true
		}
	}
	return conversion{}, false
}

func conversions() []conversion {
	return []conversion{
		{"%", Nothing, "void"},
		{"a", Symbol, protoAddr}, {"A", UserSymbol, protoUser}, {"p", Pointer, protoAddr},
		{"c", Small, protoSmall}, {"C", Small, protoSmall},
		{"d", Integer, protoInt}, {"i", Integer, protoInt}, {"o", Integer, protoInt},
		{"u", Integer, protoInt},
		{"x", Integer, protoInt}, {"X", Integer, protoInt},
		{"e", Float, protoFloat}, {"E", Float, protoFloat}, {"f", Float, protoFloat},
		{"g", Float, protoFloat}, {"G", Float, protoFloat},
		{"hd", Exact, "short"}, {"hi", Exact, "short"}, {"ho", Exact, "unsigned short"},
		{"hu", Exact, "unsigned short"},
		{"hx", Exact, "short"}, {"hX", Exact, "short"},
		{"ld", Exact, "long"}, {"li", Exact, "long"}, {"lo", Exact, "unsigned long"},
		{"lu", Exact, "unsigned long"},
		{"lx", Exact, "long"}, {"lX", Exact, "long"},
		{"lld", Exact, "long long"}, {"lli", Exact, "long long"},
		{"llo", Exact, "unsigned long long"},
		{"llu", Exact, "unsigned long long"}, {"llx", Exact, "long long"},
		{"llX", Exact, "long long"},
		{"Le", LongDouble, "long double"}, {"LE", LongDouble, "long double"},
		{"Lf", LongDouble, "long double"},
		{"Lg", LongDouble, "long double"}, {"LG", LongDouble, "long double"},
		{"k", Stack, "stack"},
		{"lc", WideChar, "int"}, {"wc", WideChar, "int"}, {"ls", Wide, protoWide},
		{"ws", Wide, protoWide},
		{"s", String, protoString}, {"S", String, protoString},
		{"T", Time, "int64_t"}, {"Y", Time, "int64_t"},
	}
}

// Parse parses a format. It returns a Format or an Error, never both. An empty text is a Format
// without conversions; lang/check refuses it (D_PRINTF_FMT_EMPTY).
func Parse(text string) (*Format, *Error) {
	f := &Format{Text: text}
	at := 0
	for {
		i := strings.IndexByte(text[at:], '%')
		if i < 0 {
			f.Tail = text[at:]
			return f, nil
		}
		c, err := parseConversion(text, at+i, len(f.Conversions)+1)
		if err != nil {
			return nil, err
		}
		c.Before = text[at : at+i]
		f.Conversions = append(f.Conversions, c)
		at = c.At + c.Len
	}
}

// parseConversion parses the conversion whose % is at text[start]. As in dtrace, flags, width and
// precision may be in any order and repeated: the last 0 or - counts, and so does the last number.
func parseConversion(text string, start, number int) (Conversion, *Error) {
	c := Conversion{At: start}
	name := ""
	dot, digits := false, false
	p := start + 1
	fail := func(format string, args ...any) (Conversion, *Error) {
		end := min(p+1, len(text))
		return c, &Error{
			Pos:        start,
			Len:        end - start,
			Conversion: number,
			Message: fmt.Sprintf("format conversion #%d ", number) + fmt.Sprintf(
				format,
				args...),
		}
	}
	for ; p < len(text); p++ {
		switch b := text[p]; {
		case b == '0' && !dot && !digits:
			c.Zero, c.Left = true, false
		case b >= '0' && b <= '9':
			n := 0
			for ; p < len(text) && text[p] >= '0' && text[p] <= '9'; p++ {
				n = min(n*10+int(text[p]-'0'), MaxWidth+1)
			}
			p--
			if n > MaxWidth {
				return fail("has a number greater than %d", MaxWidth)
			}
			if dot {
				c.Precision = n
			} else {
				c.Width = n
			}
			digits = true
		case b == '#':
			c.Alternate = true
		case b == '+':
			c.Plus = true
		case b == '-':
			c.Left, c.Zero = true, false
		case b == ' ':
			c.Space = true
		case b == '\'':
			c.Group = true
		case b == '@':
			c.Aggregation = true
		case b == '?':
			c.Width = 16 // the width of a pointer in hexadecimal
		case b == '*':
			which, word := &c.WidthArg, "width"
			if dot {
				which, word = &c.PrecisionArg, "precision"
			}
			if *which {
				return fail("has more than one '*' specified for the output %s", word)
			}
			*which = true
		case b == '.':
			if dot {
				return fail("has more than one '.' specified")
			}
			dot, digits = true, false
		case b == '$':
			return fail("uses unsupported positional format (%%n$)")
		case b == '%' && p > start+1:
			return fail("cannot be combined with other format flags: %%%%")
		case b == 'h' || b == 'l' || b == 'L' || b == 'w':
			if len(name) < 6 { // no name is longer; dtrace ignores the rest, too
				name += text[p : p+1]
			}
		default:
			_, size := utf8.DecodeRuneInString(text[p:])
			name += text[p : p+size]
			known, ok := lookup(name)
			if !ok {
				p += size - 1
				return fail("is undefined: %%%s", name)
			}
			c.Name, c.Want, c.Prototype, c.Len = name, known.want, known.prototype, p+1-start
			if c.Want == Exact {
				c.Size, c.Signed = 8, !strings.HasPrefix(known.prototype, "unsigned")
				if name[0] == 'h' {
					c.Size = 2
				}
				c.AnySign = name[len(name)-1]|0x20 == 'x'
			}
			return c, nil
		}
	}
	p = len(text)
	return fail("name expected before end of format string")
}
