package format

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"culprit/measure"
)

// A Style is the options of printing, by the names of dtrace's options. The zero Style prints as
// dtrace does by default, with times in UTC. Its methods append to a slice and return it; they are
// safe for concurrent use.
type Style struct {
	Quiet      bool // trace() prints the bare value
	RawText    bool // control characters of strings and names are printed as they are
	RawBytes   bool // prints everything but numbers as bytes
	FlowIndent bool
	NoColumns  bool // no columns CPU and ID: for comparing outputs

	// StackIndent is the number of blanks before a frame, when Indented is set; otherwise 14.
	StackIndent int
	Indented    bool

	SortKey    bool // sort rows by their keys
	SortRev    bool // greatest first
	SortKeyPos int  // the element of the key that is compared first
	SortPos    int  // for a printa of several aggregations: the one that is compared first
	Rows       int  // the highest number of rows of a printa, those of the greatest values; 0: all
	PerCPU     bool // print the values of the CPUs below a value

	Zoom bool // aggzoom: the longest bar of a distribution fills the line
	Hist bool // agghist: counts and sums with bars
	Pack bool // aggpack: a distribution on one line
	// Encoding is "ascii", "utf8" or "": packed distributions in UTF-8, all others in ASCII.
	Encoding string

	Zone  *time.Location // for %Y and %T; nil: UTC
	Group string         // the thousands separator of %'d; "" in the C locale
}

// Thousands returns the thousands separator of a locale, by its name in LC_ALL or LC_NUMERIC; ""
// when it has none or is unknown.
func Thousands(locale string) string {
	language, _, _ := strings.Cut(locale, "_")
	switch language {
	case "en", "ja", "ko", "th", "zh":
		return ","
	case "da", "de", "es", "id", "it", "nl", "pt", "tr":
		return "."
	case "cs", "fi", "fr", "nb", "pl", "ru", "sv", "uk":
		return "\u202f"
	}
	return ""
}

// defaultIndent is the column in which frames begin.
const defaultIndent = 14

func (s *Style) indent() int {
	if s.Indented {
		return max(0, min(s.StackIndent, MaxWidth))
	}
	return defaultIndent
}

// Header appends the line of column names. With Quiet and without FlowIndent there is none.
func (s *Style) Header(dst []byte) []byte {
	switch {
	case s.FlowIndent && s.NoColumns:
		return append(field{width: 41, left: true}.pad(dst, "FUNCTION"), '\n')
	case s.FlowIndent:
		dst = append(dst, "CPU "...)
		return append(field{width: 41, left: true}.pad(dst, "FUNCTION"), '\n')
	case s.Quiet:
		return dst
	case !s.NoColumns:
		dst = append(dst, "CPU     ID "...)
	}
	return append(field{width: 32}.pad(dst, "FUNCTION:NAME"), '\n')
}

// Probe appends the part before the output of a clause: CPU, the probe's number and its name. With
// Quiet it appends nothing. EndProbe ends the line.
func (s *Style) Probe(dst []byte, cpu int, id uint32, function, name string) []byte {
	if s.Quiet {
		return dst
	}
	if !s.NoColumns {
		dst = field{width: 3}.signed(dst, int64(cpu))
		dst = append(dst, ' ')
		dst = field{width: 6}.unsigned(dst, 'u', uint64(id))
		dst = append(dst, ' ')
	}
	dst = field{width: 32}.pad(dst, s.shown(function+":"+name))
	return append(dst, ' ')
}

// EndProbe appends the part after the output of a clause.
func (s *Style) EndProbe(dst []byte) []byte {
	if s.Quiet {
		return dst
	}
	return append(dst, '\n')
}

// A Flow follows calls and returns for the option flowindent, one per CPU. The zero Flow is outside
// of all calls.
type Flow struct {
	depth  int
	probe  uint32
	clause int
	begun  bool
}

// FlowProbe appends the part before the output of a clause with flowindent: an arrow in or out for
// a probe called entry or return, or ...-entry or ...-return, otherwise a bar before the name. A
// second clause at the same entry does not indent further.
func (s *Style) FlowProbe(
	dst []byte, f *Flow, cpu int, id uint32, clause int, provider, function, name string,
) []byte {
	in, out := ends(name, "entry"), ends(name, "return")
	if in && f.begun && f.probe == id && f.clause != clause {
		in = false
	}
	if out && f.depth > 0 {
		f.depth -= 2
	}
	arrow := "| "
	switch system := provider == "syscall"; {
	case in && system:
		arrow = " => "
	case in:
		arrow = " -> "
	case out && system:
		arrow = " <= "
	case out:
		arrow = " <- "
	}
	text := strings.Repeat(" ", min(f.depth, 1<<12)) + arrow + function
	if !in && !out {
		text += ":" + name
	}
	if in {
		f.depth += 2
	}
	f.begun, f.probe, f.clause = true, id, clause
	if !s.NoColumns {
		dst = field{width: 3}.signed(dst, int64(cpu))
		dst = append(dst, ' ')
	}
	dst = field{width: 41, left: true}.pad(dst, s.shown(text))
	return append(dst, ' ')
}

func ends(name, word string) bool {
	return name == word || strings.HasSuffix(name, "-"+word)
}

// Trace appends the output of trace().
func (s *Style) Trace(dst []byte, v Value) []byte {
	switch v.Kind {
	case Frames:
		return s.Stack(dst, v)
	case Place:
		return s.Symbol(dst, v)
	case Floating:
		return s.bytes(dst, v, 33, s.Quiet)
	case Chars:
		switch {
		case s.RawBytes:
			return hexDump(dst, pad(v.Text, v.Size))
		case s.Quiet:
			return append(dst, s.shown(v.Text)...)
		}
		return field{width: 33, left: true}.pad(append(dst, "  "...), s.shown(v.Text))
	case Raw:
		return s.bytes(dst, v, 33, s.Quiet)
	}
	if s.RawBytes {
		return hexDump(dst, memory(v))
	}
	// dtrace's widths: the digits of the greatest number of the size, and the sign; for 64 bits 20,
	// or 19 when signed.
	var f field
	if !s.Quiet {
		dst = append(dst, ' ')
		f.width = map[int]int{1: 3, 2: 5, 4: 10, 8: 20}[v.Size]
		if v.Signed && v.Size == 8 {
			f.width = 19
		}
	}
	if v.Signed {
		return f.signed(dst, v.signed())
	}
	return f.unsigned(dst, 'u', v.unsigned())
}

// shown returns a text of the machine without control characters, which others choose: a process
// can call itself ESC]0;x. Unless RawText is set, they become C's escapes, as %S prints them.
func (s *Style) shown(text string) string {
	if s.RawText {
		return text
	}
	return measure.Escape(text)
}

// memory returns an integer as its bytes in memory, lowest byte first.
func memory(v Value) string {
	var b []byte
	for i := range v.Size {
		b = append(b, byte(v.Num>>(8*i)))
	}
	return string(b)
}

// pad returns s padded with zeroes to size bytes.
func pad(s string, size int) string {
	if len(s) >= size {
		return s
	}
	return s + strings.Repeat("\x00", min(size, MaxWidth)-len(s))
}

// bytes appends a value of raw bytes: as text when it looks like text, otherwise as a table of
// bytes. With bare set a value that ends with a 0 has no field around it.
func (s *Style) bytes(dst []byte, v Value, width int, bare bool) []byte {
	if v.Kind == Floating {
		v = Value{Kind: Raw, Size: 8, Text: memory(Value{Size: 8, Num: v.Num})}
	}
	if v.Text == "" && v.Kind == Raw {
		return dst
	}
	if s.RawBytes {
		return hexDump(dst, pad(v.Text, v.Size))
	}
	text := strings.TrimRight(v.Text, "\x00")
	if v.Kind == Raw && (text == "" || !asciiText(text)) || v.Kind == Chars && !printable(text) {
		return hexDump(dst, pad(v.Text, v.Size))
	}
	if bare && len(text) < len(v.Text) {
		return append(dst, s.shown(text)...)
	}
	return field{width: width, left: true}.pad(append(dst, "  "...), s.shown(text))
}

// asciiText reports whether bytes look like text: isprint or isspace in the C locale, \a or
// \b.
func asciiText(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < ' ' || c > '~') && (c < '\a' || c > '\r') {
			return false
		}
	}
	return true
}

// printable reports whether a string of D can be printed as it is. dtrace prints a string that is
// empty or not plain ASCII as a table of bytes; here all text is text.
func printable(s string) bool {
	if asciiText(s) {
		return true
	}
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !unicode.IsPrint(r) && (r < '\a' || r > '\r') {
			return false
		}
	}
	return true
}

// Tracemem appends the output of tracemem(): bytes in rows of sixteen, in hexadecimal and as
// characters. It appends nothing for no bytes.
func (s *Style) Tracemem(dst []byte, b []byte) []byte { return hexDump(dst, string(b)) }

func hexDump(dst []byte, s string) []byte {
	if s == "" {
		return dst
	}
	dst = append(
		dst,
		"\n             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef\n"...)
	for at := 0; at < len(s); at += 16 {
		row := s[at:min(at+16, len(s))]
		dst = append(dst, "     "...)
		dst = field{width: 5}.unsigned(dst, 'x', uint64(at))
		dst = append(dst, ':')
		for i := range len(row) {
			dst = append(dst, ' ')
			dst = field{width: 2, zero: true}.unsigned(dst, 'x', uint64(row[i]))
		}
		dst = fill(dst, ' ', 3*(16-len(row))+2)
		for i := range len(row) {
			if c := row[i]; c < ' ' || c > '~' {
				dst = append(dst, '.')
			} else {
				dst = append(dst, c)
			}
		}
		dst = append(dst, '\n')
	}
	return dst
}

// Stack appends the output of stack() and ustack(): a line's end, then a line per frame.
func (s *Style) Stack(dst []byte, v Value) []byte {
	return s.stack(dst, v, s.indent(), field{})
}

func (s *Style) stack(dst []byte, v Value, indent int, f field) []byte {
	dst = append(dst, '\n')
	for _, line := range v.Frames {
		dst = fill(dst, ' ', indent)
		dst = f.text(dst, s.shown(line))
		dst = append(dst, '\n')
	}
	return dst
}

// Symbol appends the output of sym(), func(), mod() and their counterparts for processes.
func (s *Style) Symbol(dst []byte, v Value) []byte {
	return field{width: 50, left: true}.pad(append(dst, "  "...), s.shown(v.place()))
}

// place returns the symbol of an address, or the address when there is none.
func (v Value) place() string {
	if v.Text == "" {
		return "0x" + strconv.FormatUint(v.Num, 16)
	}
	return v.Text
}

// datum appends an element of a key in the table of an aggregation.
func (s *Style) datum(dst []byte, v Value, packed bool) []byte {
	switch v.Kind {
	case Frames:
		return s.Stack(dst, v)
	case Place:
		return s.Symbol(dst, v)
	case Chars, Raw, Floating:
		if packed && v.Kind == Chars && printable(v.Text) {
			return field{width: 16}.pad(append(dst, ' '), s.shown(v.Text))
		}
		return s.bytes(dst, v, 50, false)
	}
	dst = append(dst, ' ')
	switch v.Size {
	case 1:
		return field{width: 3}.unsigned(dst, 'u', v.unsigned())
	case 2:
		return field{width: 5}.unsigned(dst, 'u', v.unsigned())
	case 4:
		return field{width: 8}.signed(dst, int64(int32(v.Num)))
	}
	return field{width: 16}.signed(dst, int64(v.Num))
}

// times appends the output of %Y and %T for nanoseconds since the epoch.
func (s *Style) times(f field, dst []byte, name string, ns int64) []byte {
	zone := s.Zone
	if zone == nil {
		zone = time.UTC
	}
	at := time.Unix(ns/1e9, 0).In(zone)
	if name == "Y" {
		return f.text(dst, at.Format("2006 Jan _2 15:04:05"))
	}
	year, _ := at.ISOWeek() // dtrace uses %G of strftime
	return f.text(dst, at.Format("Mon, 02 Jan ")+strconv.Itoa(year)+at.Format(" 15:04:05 MST"))
}
