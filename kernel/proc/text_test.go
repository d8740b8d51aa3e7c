package proc

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"culprit/heapbound"
)

func TestParseNumbers(t *testing.T) {
	for in, want := range map[string]struct {
		v   uint64
		err error
	}{
		"0": {0, nil}, "42": {42, nil}, "18446744073709551615": {math.MaxUint64, nil},
		"18446744073709551616":    {math.MaxUint64, ErrRange},
		"99999999999999999999999": {math.MaxUint64, ErrRange},
		"":                        {0, ErrSyntax}, "-1": {0, ErrSyntax}, "1 ": {0, ErrSyntax}, "x": {0, ErrSyntax},
		"00012": {12, nil},
	} {
		if v, err := ParseUint([]byte(in)); v != want.v || !errors.Is(err, want.err) {
			t.Errorf("ParseUint(%q) = %d, %v", in, v, err)
		}
	}
	for in, want := range map[string]struct {
		v   int64
		err error
	}{
		"-1": {-1, nil}, "9223372036854775807": {math.MaxInt64, nil},
		"9223372036854775808":  {math.MaxInt64, ErrRange},
		"-9223372036854775808": {math.MinInt64, nil},
		"-9223372036854775809": {math.MinInt64, ErrRange}, "-": {0, ErrSyntax},
		"-99999999999999999999999": {math.MinInt64, ErrRange},
	} {
		c := Scan([]byte(in))
		if v := c.Int(); v != want.v || !errors.Is(c.Err(), want.err) {
			t.Errorf("Int of %q: %d, %v", in, v, c.Err())
		}
	}
	for in, want := range map[string]struct {
		v   uint64
		err error
	}{
		"ff": {255, nil}, "0xDeadBeef": {0xdeadbeef, nil},
		"ffffffffffffffff":  {math.MaxUint64, nil},
		"10000000000000000": {math.MaxUint64, ErrRange}, "0x": {0, ErrSyntax}, "g": {0, ErrSyntax},
		"": {0, ErrSyntax},
	} {
		if v, err := ParseHex([]byte(in)); v != want.v || !errors.Is(err, want.err) {
			t.Errorf("ParseHex(%q) = %d, %v", in, v, err)
		}
	}
	for in, want := range map[string]float64{"0.52": 0.52, "12": 12, "-3.25": -3.25,
		"0.1234567890123456789012": 0.1234567890123456789012,
		"":                         math.NaN(), ".5": math.NaN(), "1.": math.NaN(), "1.x": math.NaN(), "1e5": math.NaN(),
		"1.1234567890123456789x": math.NaN()} {
		if v, err := ParseDecimal([]byte(in)); v != want && !(math.IsNaN(v) && math.IsNaN(want)) ||
			math.IsNaN(want) != (err != nil) {
			t.Errorf("ParseDecimal(%q) = %v, %v", in, v, err)
		}
	}
}

func TestCursor(t *testing.T) {
	c := Scan([]byte("cpu  1 2\t3\n  eth0:10 -20 zz 7\nhex ffff 99999999999999999999 2.5\n\nlast"))
	if w := c.Word(); string(w) != "cpu" {
		t.Errorf("%q", w)
	}
	if a, b, d := c.Uint(), c.Uint(), c.Uint(); a != 1 || b != 2 || d != 3 || c.Err() != nil {
		t.Error(a, b, d, c.Err())
	}
	if c.More() || c.Word() != nil {
		t.Error("a word beyond the end of the line")
	}
	if c.Uint(); !errors.Is(c.Err(), ErrSyntax) {
		t.Error("a number beyond the end of the line")
	}
	c.Clear()
	if !c.NextLine() {
		t.Fatal("no second line")
	}
	if w := c.Until(':'); string(w) != "eth0" {
		t.Errorf("%q", w)
	}
	if a, b := c.Uint(), c.Int(); a != 10 || b != -20 || c.Err() != nil {
		t.Error(a, b, c.Err())
	}
	if v := c.Uint(); v != 0 || !errors.Is(c.Err(), ErrSyntax) {
		t.Error(v, c.Err())
	}
	if v := c.Uint(); v != 7 || !errors.Is(c.Err(), ErrSyntax) {
		t.Error("columns out of step, or the error forgotten:", v, c.Err())
	}
	c.NextLine()
	c.Clear()
	if w := c.Until(':'); w != nil {
		t.Errorf("%q", w)
	}
	c.Skip(1)
	if v := c.Hex(); v != 0xffff {
		t.Error(v)
	}
	if v := c.Uint(); v != math.MaxUint64 || !errors.Is(c.Err(), ErrRange) {
		t.Error(v, c.Err())
	}
	if v := c.Decimal(); v != 2.5 {
		t.Error(v)
	}
	c.Line()
	if l := c.Line(); len(l) != 0 || c.End() {
		t.Errorf("%q", l)
	}
	if l := c.Line(); string(l) != "last" || !c.End() || c.NextLine() {
		t.Errorf("%q", l)
	}
}

func TestAppendUnescaped(t *testing.T) {
	for in, want := range map[string]string{`/a\040b`: "/a b", `\134`: `\`, `\9`: `\9`,
		`\04`: `\04`, `a\`: `a\`, `\400`: `\400`} {
		if got := AppendUnescaped(nil, []byte(in)); string(got) != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestCursorDoesNotAllocate(t *testing.T) {
	b := []byte(strings.Repeat("cpu0 1 22 333 4444 55555 666666\n", 10))
	var sum uint64
	if n := testing.AllocsPerRun(10, func() {
		for c := Scan(b); !c.End(); c.NextLine() {
			for c.Word(); c.More(); {
				sum += c.Uint()
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add([]byte("cpu 1 -2 ff\n\n a:b 18446744073709551616\n"), []byte{0, 1, 2, 3, 4, 5, 6, 7})
	heapbound.Fuzz(f, func(t *testing.T, b, ops []byte) {
		c := Scan(b)
		for _, op := range ops {
			before := len(c.Rest())
			switch op % 9 {
			case 0:
				if w := c.Word(); bytes.ContainsAny(w, " \t\n") {
					t.Fatalf("word %q", w)
				}
			case 1:
				c.Uint()
			case 2:
				c.Int()
			case 3:
				c.Hex()
			case 4:
				c.Decimal()
			case 5:
				c.Until(':')
			case 6:
				c.NextLine()
			case 7:
				if l := c.Line(); bytes.IndexByte(l, '\n') >= 0 {
					t.Fatalf("line %q", l)
				}
			case 8:
				c.Skip(3)
			}
			if len(c.Rest()) > before {
				t.Fatal("went back")
			}
		}
	})
}

func FuzzParseNumbers(f *testing.F) {
	for _, s := range []string{"0", "18446744073709551616", "-9223372036854775808", "1.5", "0x1f",
		"00000000000000000000001"} {
		f.Add(s)
	}
	heapbound.Fuzz(f, func(t *testing.T, s string) {
		plain := s != "" && strings.Trim(s, "0123456789") == ""
		v, err := ParseUint([]byte(s))
		if n, ok := new(big.Int).SetString(s, 10); plain && ok {
			if n.IsUint64() != (err == nil) || n.IsUint64() && n.Uint64() != v {
				t.Fatalf("%q: %d, %v", s, v, err)
			}
		} else if !errors.Is(err, ErrSyntax) || v != 0 {
			t.Fatalf("%q: %d, %v", s, v, err)
		}
		if d, err := ParseDecimal([]byte(s)); err == nil {
			w, werr := strconv.ParseFloat(s, 64)
			// digits after the 18th of a fraction are dropped
			if werr != nil || math.Abs(w-d) > 1e-14*math.Abs(w)+1e-18 {
				t.Fatalf("%q: %v, want %v, %v", s, d, w, werr)
			}
		}
		ParseHex([]byte(s))
		AppendUnescaped(nil, []byte(s))
	})
}

func BenchmarkCursor(b *testing.B) {
	text := []byte("1234 (some name) S 1 1234 1234 0 -1 4194560 12345 678901 2 3 456 789 1011 " +
		"1213 20 0 1 0 123456 12345678 1234 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 " +
		"0 0 0 0 0 0 0 0 0 0 0 0 0\n")
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		c := Scan(text)
		c.Skip(4)
		for c.More() {
			c.Int()
		}
	}
}
