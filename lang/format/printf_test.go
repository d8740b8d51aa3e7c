package format

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/measure"
)

func i32(n int64) Value  { return IntOf(n, 4, true) }
func str(s string) Value { return TextOf(s, 256) }
func f64(x float64) Value {
	return Value{Kind: Floating, Size: 8, Num: math.Float64bits(x)}
}

// TestPrintf checks the output of C's printf, and the DTrace guide's additions to it.
func TestPrintf(t *testing.T) {
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		pacific = time.FixedZone("PDT", -7*3600) // without a zone table: at that moment it is equal
	}
	frames := StackOf([]string{"vmlinux`a+0x1", "vmlinux`b"}, []uint64{2, 1})
	for _, c := range []struct {
		format string
		args   []Value
		want   string
	}{
		{"plain", nil, "plain"},
		{"100%%", nil, "100%"},
		{"%d|%5d|%-5d|%05d|%+d|% d", []Value{i32(42), i32(42), i32(42), i32(42), i32(42), i32(42)}, "42|   42|42   |00042|+42| 42"},
		{"%d %d %u", []Value{i32(-1), IntOf(-1, 4, false), i32(-1)}, "-1 4294967295 4294967295"},
		{"%x %x %X %o", []Value{IntOf(-1, 1, true), IntOf(-1, 2, true), IntOf(-1, 8, true), i32(8)}, "ff ffff FFFFFFFFFFFFFFFF 10"},
		{"%#x %#X %#o %#x", []Value{i32(255), i32(255), i32(8), i32(0)}, "0xff 0XFF 010 0"},
		{"%.5d|%8.5d|%-8.5d|%08.5d", []Value{i32(42), i32(42), i32(-42), i32(42)}, "00042|   00042|-00042  |   00042"},
		{"%05d|%-05d|%0-5d|", []Value{i32(-42), i32(42), i32(42)}, "-0042|00042|42   |"},
		{"%.0d|%.d", []Value{i32(0), i32(7)}, "0|7"},
		{"%*d|%-*d|%*d|", []Value{i32(5), i32(1), i32(5), i32(2), i32(-5), i32(3)}, "    1|2    |3    |"},
		{"%.*s|%*.*s|", []Value{i32(2), str("hello"), i32(4), i32(3), str("hello")}, "he| hel|"},
		{"%s|%8s|%-8s|%.2s|%.0s", []Value{str("abc"), str("abc"), str("abc"), str("abc"), str("abc")}, "abc|     abc|abc     |ab|abc"},
		{"%s", []Value{BytesOf([]byte("ab\x00cd"))}, "ab"},
		{"%S", []Value{str("a\n\"b\"\\\x01\xff")}, `a\n\"b\"\\\001\377\0`},
		{"%S|%S", []Value{BytesOf([]byte("ab")), BytesOf([]byte("ab\x00cd"))}, `ab|ab\0`},
		{"%c%c%3c|%-3c|", []Value{i32('a'), IntOf('b', 1, true), i32('c'), i32('d')}, "ab  c|d  |"},
		{"%C%C%C", []Value{i32('a'), i32('\n'), i32(0x80)}, `a\n\200`},
		{"%hd %hu %hx", []Value{IntOf(-2, 2, true), IntOf(65534, 2, false), IntOf(-2, 2, true)}, "-2 65534 fffe"},
		{"%lld %llu %llx %lo", []Value{IntOf(-2, 8, true), IntOf(-2, 8, false), IntOf(-2, 8, true), IntOf(8, 8, false)}, "-2 18446744073709551614 fffffffffffffffe 10"},
		{"%lc%wc", []Value{i32('é'), i32('€')}, "é€"},
		{"%ws|%.3ls|", []Value{BytesOf([]byte{'h', 0, 0, 0, 0xe9, 0, 0, 0, 0, 0, 0, 0}), BytesOf([]byte{0xe9, 0, 0, 0, 0xe9, 0, 0, 0})}, "hé|é|"},
		{"%p %p", []Value{IntOf(0x1234, 8, false), i32(-1)}, "1234 ffffffff"},
		{"%?d|%?p", []Value{i32(1), IntOf(0xff, 8, false)}, "               1|              ff"},
		{"%a %a|%20a|%A", []Value{PlaceOf("vmlinux`tcp_sendmsg+0x1a", 1), IntOf(0x123, 8, false), PlaceOf("vmlinux`x", 1), UserPlaceOf("libc.so.6`malloc", 1, 2)}, "vmlinux`tcp_sendmsg+0x1a 0x123|           vmlinux`x|libc.so.6`malloc"},
		{"%k", []Value{frames}, "\nvmlinux`a+0x1\nvmlinux`b\n"},
		{"%-4k", []Value{frames}, "\n    vmlinux`a+0x1\n    vmlinux`b\n"},
		{"%15k", []Value{frames}, "\n  vmlinux`a+0x1\n      vmlinux`b\n"},
		{"%Y", []Value{IntOf(1062609821*1e9, 8, true)}, "2003 Sep  3 10:23:41"},
		{"%-22Y|%.4Y", []Value{IntOf(1062609821*1e9, 8, true), IntOf(1062609821*1e9, 8, true)}, "2003 Sep  3 10:23:41  |2003"},
		{"%T", []Value{IntOf(1062609821*1e9, 8, true)}, "Wed, 03 Sep 2003 10:23:41 PDT"},
		{"%'d %'d %'u", []Value{i32(123456789), i32(-1234), i32(999)}, "123,456,789 -1,234 999"},
		{"%e %E %f %.2f %g %G", []Value{f64(0), f64(12345.678), f64(1.5), f64(-2.345), f64(1e10), f64(0.0001)}, "0.000000e+00 1.234568E+04 1.500000 -2.35 1e+10 0.0001"},
		{"%8.3f|%-8.1f|%08.1f|%f", []Value{f64(1.5), f64(1.5), f64(-1.5), f64(math.Inf(-1))}, "   1.500|1.5     |-00001.5|-inf"},
	} {
		f, wrong := Parse(c.format)
		if wrong != nil {
			t.Errorf("%q: %v", c.format, wrong)
			continue
		}
		s := Style{Zone: pacific, Group: ","}
		got, err := s.Printf(nil, f, c.args)
		if err != nil || string(got) != c.want {
			t.Errorf("%q: got %q %v, want %q", c.format, got, err, c.want)
		}
	}
}

func TestAddresses(t *testing.T) {
	f, wrong := Parse("%d %a %% %*A %@d %-*.*a %s %A")
	if wrong != nil {
		t.Fatal(wrong)
	}
	kernel, user := f.Addresses()
	if fmt.Sprint(kernel, user) != "[1 6] [3 8]" {
		t.Errorf("%v %v", kernel, user)
	}
	for locale, want := range map[string]string{"": "", "C": "", "POSIX": "", "C.UTF-8": "",
		"en_US.UTF-8": ",", "de_DE": ".", "fr_FR.UTF-8": "\u202f", "xx_YY": ""} {
		if got := Thousands(locale); got != want {
			t.Errorf("%s: %q, want %q", locale, got, want)
		}
	}
}

// TestPrintfRefuses checks that a value of the wrong type for a conversion is an error, never a
// panic or silently nothing.
func TestPrintfRefuses(t *testing.T) {
	for _, c := range []struct {
		format string
		args   []Value
		want   string
	}{
		{"%d", nil, "no value for the conversion %d"},
		{"%*d", []Value{str("x"), i32(1)}, "the width of the conversion %d is no integer"},
		{"%*d", []Value{i32(1)}, "no value"},
		{"%.*d", nil, "no precision"},
		{"%d", []Value{str("x")}, "wants an integer"},
		{"%s", []Value{i32(1)}, "wants a string"},
		{"%k", []Value{i32(1)}, "wants a stack"},
		{"%a", []Value{str("x")}, "wants an address"},
		{"%f", []Value{i32(1)}, "with a fraction"},
		{"%ws", []Value{i32(1)}, "array of characters"},
		{"%@d", []Value{i32(1)}, "no aggregation"},
	} {
		f, wrong := Parse(c.format)
		if wrong != nil {
			t.Fatal(wrong)
		}
		if _, err := (&Style{}).Printf(nil, f, c.args); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.format, err, c.want)
		}
	}
}

func TestTrace(t *testing.T) {
	for _, c := range []struct {
		v            Value
		loud, silent string
	}{
		{IntOf(-1, 1, true), "  -1", "-1"},
		{IntOf(-1, 1, false), " 255", "255"},
		{IntOf(-1, 2, true), "    -1", "-1"},
		{IntOf(7, 4, true), "          7", "7"},
		{IntOf(-1, 8, true), "                  -1", "-1"},
		{IntOf(-1, 8, false), " 18446744073709551615", "18446744073709551615"},
		{str("a"), "  a                                ", "a"},
		{str(""), "                                   ", ""},
		{PlaceOf("vmlinux`f", 1), "  vmlinux`f" + strings.Repeat(" ", 41), "  vmlinux`f" + strings.Repeat(" ", 41)},
		{StackOf([]string{"vmlinux`f"}, []uint64{1}), "\n              vmlinux`f\n", "\n              vmlinux`f\n"},
		{BytesOf([]byte("dtrace\x00\x00")), "  dtrace                           ", "dtrace"},
		{BytesOf([]byte{0x64, 0x74, 0x05}),
			"\n             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef\n         0: 64 74 05                                         dt.\n",
			"\n             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef\n         0: 64 74 05                                         dt.\n"},
	} {
		if got := (&Style{}).Trace(nil, c.v); string(got) != c.loud {
			t.Errorf("%+v: got %q, want %q", c.v, got, c.loud)
		}
		if got := (&Style{Quiet: true}).Trace(nil, c.v); string(got) != c.silent {
			t.Errorf("%+v quiet: got %q, want %q", c.v, got, c.silent)
		}
	}
	got := string((&Style{}).Tracemem(nil, []byte("Linux version 6.1")))
	want := `
             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef
         0: 4c 69 6e 75 78 20 76 65 72 73 69 6f 6e 20 36 2e  Linux version 6.
        10: 31                                               1
`
	if got != want {
		t.Errorf("tracemem: got %q\nwant %q", got, want)
	}
}

func TestLines(t *testing.T) {
	s := &Style{}
	got := string(s.EndProbe(s.Probe(s.Header(nil), 1, 1234, "read", "entry")))
	want := "CPU     ID                    FUNCTION:NAME\n  1   1234                       read:entry \n"
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := string((&Style{Quiet: true}).Header(nil)); got != "" {
		t.Errorf("quiet header %q", got)
	}
	s = &Style{FlowIndent: true}
	var f Flow
	out := s.Header(nil)
	for _, p := range []struct {
		id                       uint32
		clause                   int
		provider, function, name string
	}{
		{1, 0, "syscall", "read", "entry"}, {2, 1, "fbt", "vfs_read", "entry"},
		{2, 2, "fbt", "vfs_read", "entry"}, {3, 1, "sdt", "x", "probe"},
		{4, 1, "fbt", "vfs_read", "return"}, {5, 1, "syscall", "read", "return"},
	} {
		out = append(s.FlowProbe(out, &f, 0, p.id, p.clause, p.provider, p.function, p.name), '\n')
	}
	want = "CPU FUNCTION                                 \n"
	for _, text := range []string{" => read", "   -> vfs_read", "    | vfs_read:entry",
		"    | x:probe", "   <- vfs_read", " <= read"} {
		want += fmt.Sprintf("  0 %-41s \n", text)
	}
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestMessages(t *testing.T) {
	for _, c := range [][2]string{
		{FaultBadAddress.Message(0, 1, "dtrace:::BEGIN", 0x10, 42), "error in dt_clause_0 for probe ID 1 (dtrace:::BEGIN): invalid address (0x10) at BPF pc 42"},
		{FaultBadAddress.Message(0, 1, "dtrace:::BEGIN", math.MaxUint64, -1), "error in dt_clause_0 for probe ID 1 (dtrace:::BEGIN): invalid address"},
		{FaultDivideByZero.Message(3, 1, "dtrace:::BEGIN", 0, 7), "error in dt_clause_3 for probe ID 1 (dtrace:::BEGIN): divide-by-zero at BPF pc 7"},
		{FaultBadIndex.Message(0, 1, "dtrace:::BEGIN", 8, 7), "error in dt_clause_0 for probe ID 1 (dtrace:::BEGIN): index out of bounds (8) at BPF pc 7"},
		{LibraryMessage(0, 1, "dtrace:::BEGIN", "x"), "error in dt_clause_0 for probe ID 1 (dtrace:::BEGIN): x"},
	} {
		if c[0] != c[1] {
			t.Errorf("got %q, want %q", c[0], c[1])
		}
	}
}

// FuzzPrintf checks that any format is parsed or refused at a position within it, and that a parsed
// one prints or returns an error, whatever its arguments are.
func FuzzPrintf(f *testing.F) {
	for _, s := range []string{"%d %s\n", "%-10.5lld|%@u%%", "%*.*s %k %a %Y %T", "%'+ #0-?wc",
		"%3$d", "%é", "%hhhhhhhhhhd", "%.%", "%0.0.0"} {
		f.Add(s, int64(12), "text\x00more")
	}
	heapbound.Fuzz(f, func(t *testing.T, text string, n int64, s string) {
		format, wrong := Parse(text)
		if (format == nil) == (wrong == nil) {
			t.Fatal("both or neither")
		}
		if wrong != nil {
			if wrong.Pos < 0 || wrong.Len <= 0 || wrong.Pos+wrong.Len > len(text) ||
				wrong.Message == "" {
				t.Fatalf("%+v of %q", wrong, text)
			}
			return
		}
		again := ""
		wide := 0
		for _, c := range format.Conversions {
			again += c.Before + text[c.At:c.At+c.Len]
			wide = max(wide, c.Width, c.Precision)
		}
		if again+format.Tail != text {
			t.Fatalf("%q came out as %q", text, again+format.Tail)
		}
		if wide > 1<<12 || len(format.Conversions) > 20 || len(s) > 1<<12 || n > 1<<12 {
			return // wide fields are as wide as requested
		}
		var args []Value
		for _, c := range format.Conversions {
			if c.WidthArg {
				args = append(args, IntOf(n, 8, true))
			}
			if c.PrecisionArg {
				args = append(args, IntOf(n, 4, true))
			}
			switch c.Want {
			case Float, LongDouble, String, Stack, Wide:
				if c.Aggregation {
					return // lang/check refuses these
				}
			}
			if c.Aggregation {
				continue
			}
			switch c.Want {
			case Nothing:
			case String:
				args = append(args, TextOf(s, 256))
			case Stack:
				args = append(args, StackOf(strings.Split(s, "\n"), nil))
			case Wide:
				args = append(args, BytesOf([]byte(s)))
			case Float, LongDouble:
				args = append(args, Value{Kind: Floating, Num: uint64(n)})
			default:
				args = append(args, IntOf(n, 8, n%2 == 0))
			}
		}
		a := &Aggregation{Func: Avg, Rows: []AggregationRow{{Key: args, Data: []int64{n, n}}}}
		out, err := (&Style{Group: ","}).Printa(nil, format, a)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if len(out) > (len(text)+len(s)*8+1<<13)*(len(format.Conversions)+1)*16 {
			t.Fatalf("%d bytes of %q", len(out), text)
		}
	})
}

// Names that control a terminal are printed with C's escapes, on every way, unless RawText is set.
// The script's own text stays as it is.
func TestControlCharacters(t *testing.T) {
	const name, shown = "\x1b[31m\u009bé\n\u202e", `\033[31m\302\233é\n\342\200\256`
	text, place := TextOf(name, 256), PlaceOf(name, 1)
	f, wrong := Parse("\x1b[1m%s %a %c\n")
	if wrong != nil {
		t.Fatal(wrong)
	}
	print := func(s *Style) string {
		out, err := s.Printf(nil, f, []Value{text, place, IntOf(0x1b, 4, true)})
		if err != nil {
			t.Fatal(err)
		}
		out = s.Trace(out, text)
		out = (&Style{Quiet: true, RawText: s.RawText}).Trace(out, text)
		out = s.Stack(out, StackOf([]string{name}, []uint64{1}))
		out = s.Symbol(out, place)
		out = s.Probe(out, 0, 1, name, "entry")
		return string(s.FlowProbe(out, &Flow{}, 0, 1, 0, "fbt", name, "entry"))
	}
	got := print(&Style{})
	want, ok := strings.CutPrefix(got, "\x1b[1m")
	if !ok || strings.Count(want, shown) != 8 || !strings.Contains(want, ` \033`+"\n") {
		t.Errorf("%q", got)
	}
	for _, r := range want {
		if !measure.IsShown(r) && r != '\n' {
			t.Errorf("%q has %q", got, r)
			break
		}
	}
	if got := print(&Style{RawText: true}); strings.Count(got, name) != 8 {
		t.Errorf("with RawText: %q", got)
	}
}
