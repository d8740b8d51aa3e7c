package format

import "testing"

func TestParse(t *testing.T) {
	f, err := Parse("a %-5d|%5.*s%% %@8u %*lld %08llx tail")
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Conversions) != 6 || f.Tail != " tail" {
		t.Fatalf("%d conversions, tail %q", len(f.Conversions), f.Tail)
	}
	d, s, p, u, lld, x := f.Conversions[0], f.Conversions[1], f.Conversions[2], f.Conversions[3],
		f.Conversions[4], f.Conversions[5]
	if d.Before != "a " || d.At != 2 || d.Len != 4 || !d.Left || d.Width != 5 || d.Want != Integer {
		t.Errorf("%%-5d: %+v", d)
	}
	if s.Before != "|" || s.Width != 5 || !s.PrecisionArg || s.WidthArg || s.Want != String {
		t.Errorf("%%5.*s: %+v", s)
	}
	if p.Want != Nothing || p.Name != "%" {
		t.Errorf("%%%%: %+v", p)
	}
	if !u.Aggregation || u.Width != 8 {
		t.Errorf("%%@8u: %+v", u)
	}
	if !lld.WidthArg || lld.Want != Exact || lld.Size != 8 || !lld.Signed || lld.AnySign {
		t.Errorf("%%*lld: %+v", lld)
	}
	if !x.Zero || x.Width != 8 || !x.AnySign || x.Name != "llx" {
		t.Errorf("%%08llx: %+v", x)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		text     string
		pos, len int
		message  string
	}{
		{"%3$d", 0, 3, "format conversion #1 uses unsupported positional format (%n$)"},
		{"%3", 0, 2, "format conversion #1 name expected before end of format string"},
		{"x%d %Z", 4, 2, "format conversion #2 is undefined: %Z"},
		{"%**d", 0, 3, "format conversion #1 has more than one '*' specified for the output width"},
		{"%.*.d", 0, 4, "format conversion #1 has more than one '.' specified"},
		{"%.**d", 0, 4, "format conversion #1 has more than one '*' specified for the output precision"},
		{"%%%5%", 2, 3, "format conversion #2 cannot be combined with other format flags: %%"},
		{"%hs", 0, 3, "format conversion #1 is undefined: %hs"},
		{"%n", 0, 2, "format conversion #1 is undefined: %n"},
		{"%99999999999d", 0, 12, "format conversion #1 has a number greater than 16777216"},
	} {
		f, err := Parse(c.text)
		if err == nil || f != nil {
			t.Errorf("%q was not refused", c.text)
			continue
		}
		if err.Message != c.message || err.Pos != c.pos || err.Len != c.len {
			t.Errorf(
				"%q: %d+%d %q, want %d+%d %q", c.text, err.Pos, err.Len, err.Message, c.pos, c.len,
				c.message,
			)
		}
	}
}
