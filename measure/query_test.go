package measure

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"culprit/heapbound"
)

func TestQueryTextParsesToTheSameQuery(t *testing.T) {
	for in, want := range map[string]string{
		`net.device.bytes`: `net.device.bytes`,
		`net.device.bytes by device,direction where device != lo`: `net.device.bytes by device,direction where device != "lo"`,
		` cpu.time   by cpu , mode where cpu<=3 and mode ~ "so*"`: `cpu.time by cpu,mode where cpu <= 3 and mode ~ "so*"`,
		"x by a\r\n\twhere b!=1 and c >2":                         `x by a where b != 1 and c > 2`,
		`x where a !~ z and b<3 and c>=4`:                         `x where a !~ "z" and b < 3 and c >= 4`,
		`x where a = 09`:                                          `x where a = 09`,
		`x where a = "09/:"`:                                      `x where a = "09/:"`,
		`a_.-:/*?@+%Z9é`:                                          `a_.-:/*?@+%Z9é`,
		`x by a where b in (1,"two \"2\"", three) and c == ""`:    `x by a where b in (1, "two \"2\"", "three") and c = ""`,
		`tcp.flow.rtt by peer where peer = 10.2.0.103:2049`:       `tcp.flow.rtt by peer where peer = "10.2.0.103:2049"`,
	} {
		q, err := ParseQuery(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if q.String() != want {
			t.Errorf("%s\n got %s\nwant %s", in, q.String(), want)
		}
	}
}

func TestSyntaxErrorsHavePositions(t *testing.T) {
	for in, want := range map[string]string{
		``:                        "column 1: the query ends where the name of a statistic is expected",
		`cpu.time by`:             "column 12: the query ends where the name of a field is expected",
		`cpu.time by cpu,cpu`:     "column 17: field cpu is named twice",
		`cpu.time cpu`:            "column 10: expected the end of the query, found cpu",
		`cpu.time where cpu`:      "column 19: the query ends where a comparison",
		`cpu.time where cpu = `:   "column 22: the query ends where a value is expected",
		`cpu.time where cpu ~ "[`: "column 22: this quoted text has no end",
		`cpu.time where cpu !`:    "column 20: expected a comparison",
		`cpu.time where cpu <`:    "column 21: the query ends where a value is expected",
		`cpu.time where cpu ! 3`:  "column 20: expected a comparison",
		`cpu.time where cpu in 3`: "column 23: expected (",
		`cpu.time where m ~ "["`:  "column 20: not a valid pattern",
	} {
		_, err := ParseQuery(in)
		var d *Diagnostic
		if !errors.As(err, &d) {
			t.Errorf("%q: no diagnostic but %v", in, err)
		} else if !strings.HasPrefix(d.Error(), want) {
			t.Errorf("%q\n got %s\nwant %s", in, d, want)
		}
	}
}

func TestTermsMatch(t *testing.T) {
	for _, c := range []struct {
		op    Op
		value string
		label string
		want  bool
	}{
		{Equal, "a", "a", true},
		{NotEqual, "a", "a", false},
		{Less, "10", "9", true},
		{Less, "10", "10", false},
		{Less, "10", "x", false},
		{Less, "x", "9", false},
		{LessEqual, "10", "10", true},
		{LessEqual, "10", "10.5", false},
		{LessEqual, "10", "-1", true},
		{Greater, "9", "10", true},
		{Greater, "10", "10", false},
		{Greater, "10", "9", false},
		{GreaterEqual, "3", "3", true},
		{GreaterEqual, "3", "2.9", false},
		{GreaterEqual, "3", "30", true},
		{Equal, "3", "3.0", false},
		{In, "a", "a", true},
		{In, "a", "b", false},
		{NotMatches, "eth*", "eth0", false},
		{Matches, "eth?", "eth10", false},
		{Matches, "eth*", "eth0", true},
		{Matches, "/dev/*", "/dev/a/b", true},
		{NotMatches, "eth*", "lo", true},
	} {
		if got := (Term{"f", c.op, []string{c.value}}).Match(c.label); got != c.want {
			t.Errorf("%s %s %s: %v", c.label, c.op, c.value, got)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"net.device.bytes", "net.device.packets", "cpu.time", "disk.device.bytes"}
	for in, want := range map[string]string{
		"net.device.byte": "net.device.bytes",
		"cpu.tiem":        "cpu.time",
		"packets":         "net.device.packets",
		"device":          "",         // part of three
		"pu":              "",         // too short to be taken as a part
		"tim":             "cpu.time", // part of one
		"cpu.timeeee":     "cpu.time", // three edits of eleven letters
		"cpu.timeee":      "cpu.time",
		"cp.tme":          "cpu.time",
		"ct.tme":          "",
		"zzz":             "",
	} {
		if got := Nearest(in, names); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestInMatchesAnyOfItsValues(t *testing.T) {
	term := Term{"f", In, []string{"a", "b", "c"}}
	for label, want := range map[string]bool{"a": true, "b": true, "c": true, "d": false, "": false} {
		if got := term.Match(label); got != want {
			t.Errorf("%q: %v", label, got)
		}
	}
}

// An error marks the text from its first wrong character to its last.
func TestErrorsMarkTheText(t *testing.T) {
	for in, want := range map[string]string{
		"cpu.time cpu": "  cpu.time cpu\n" +
			"           ^^^\n" +
			"expected the end of the query, found cpu\n" +
			`hint: a query is: statistic by field,field where field = "value" and ...`,
		"cpu.time by": "  cpu.time by\n" +
			"             ^\n" +
			"the query ends where the name of a field is expected",
		"x\tby é,é": "  x by é,é\n" +
			"         ^^\n" +
			"field é is named twice",
	} {
		_, err := ParseQuery(in)
		var d *Diagnostic
		if !errors.As(err, &d) {
			t.Errorf("%q: no diagnostic but %v", in, err)
		} else if got := d.Marked(); got != want {
			t.Errorf("%q\n got %s\nwant %s", in, got, want)
		}
	}
}

// A position outside of the text is moved into it.
func TestMarkedOutside(t *testing.T) {
	for pos, want := range map[int]string{-3: "  ab\n  ^\nm", 9: "  ab\n    ^\nm"} {
		if got := (&Diagnostic{Text: "ab", Pos: pos, Message: "m"}).Marked(); got != want {
			t.Errorf("position %d: %q, want %q", pos, got, want)
		}
	}
}

func TestDiagnosticError(t *testing.T) {
	d := Diagnostic{Pos: 4, Message: "unknown field"}
	if got := d.Error(); got != "column 5: unknown field" {
		t.Error(got)
	}
	d.Hint = "did you mean device?"
	if got := d.Error(); got != "column 5: unknown field (did you mean device?)" {
		t.Error(got)
	}
}

func TestDenied(t *testing.T) {
	err := error(&Denied{"read io of process 12", "CAP_SYS_PTRACE"})
	if !errors.Is(err, ErrDenied) || errors.Is(err, ErrUnsupported) {
		t.Error("a Denied is ErrDenied and nothing else")
	}
	if got := err.Error(); got != "read io of process 12: denied, needs CAP_SYS_PTRACE" {
		t.Error(got)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "a", 0}, {"a", "b", 1}, {"", "abc", 3}, {"abc", "", 3},
		{"abcd", "acbd", 1}, {"abcd", "abd", 1}, {"abd", "abcd", 1}, {"kitten", "sitting", 3},
		{"ca", "abc", 3}, {"ab", "ba", 1}, {"xab", "xba", 1}, {"abc", "bca", 2},
	} {
		if got := distance(tt.a, tt.b, 10); got != tt.want {
			t.Errorf("%q and %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if limit := max(tt.want, 1); distance(tt.a, tt.b, limit) != min(tt.want, limit) {
			t.Errorf("%q and %q: limit %d", tt.a, tt.b, limit)
		}
	}
	long := strings.Repeat("a", 200)
	if got := distance(long, long, 5); got != 0 {
		t.Errorf("two of 200 letters: %d", got)
	}
	if got := distance(long+"a", long+"a", 5); got != 5 {
		t.Errorf("two of 201 letters: %d", got)
	}
}

func FuzzParseQuery(f *testing.F) {
	f.Add(`net.device.bytes by device where device in ("a",b) and x >= 3`)
	heapbound.Fuzz(f, func(t *testing.T, text string) {
		q, err := ParseQuery(text)
		if err != nil {
			var d *Diagnostic
			if !errors.As(err, &d) || d.Pos < 0 || d.Pos > len(text) {
				t.Fatalf("%q: %#v", text, err)
			}
			_ = d.Marked()
			return
		}
		again, err := ParseQuery(q.String())
		if err != nil || !reflect.DeepEqual(q, again) {
			t.Fatalf("%q -> %q: %v", text, q.String(), err)
		}
	})
}

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		name, have, asked string
		want              bool
	}{
		{"itself", "a by x,y where z = 1", "a by x,y where z = 1", true},
		{"another statistic", "b by x", "a by x", false},
		{"fewer fields", "a by x,y", "a by y", true},
		{"more fields", "a by x", "a by x,y", false},
		{"a predicate on a field", "a by x,y", "a by y where x = 1", true},
		{"a predicate on another field", "a by x", "a by x where y = 1", false},
		{"its own predicate is left out", "a by x where y = 1", "a by x", false},
		{"its own predicate differs", "a by x where y = 1", "a by x where y = 2", false},
		{"another operator", "a by x where y = 1", "a by x where y != 1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			have, err := ParseQuery(tt.have)
			if err != nil {
				t.Fatal(err)
			}
			asked, err := ParseQuery(tt.asked)
			if err != nil {
				t.Fatal(err)
			}
			if have.Covers(asked) != tt.want {
				t.Errorf("want %v", tt.want)
			}
		})
	}
}

// A typo is corrected, a name with another meaning is not.
func TestTypo(t *testing.T) {
	names := []string{
		"pid", "ready", "strchr", "jstack", "preadv", "timestamp", "quantize", "probefunc", "tid",
	}
	for word, want := range map[string]string{
		"pdi": "pid", "uid": "", "gid": "", "strcmp": "", "kstack": "", "qantize": "quantize",
		"tiemstmp": "timestamp", "func": "", "": "", "strcrh": "strchr", "timstmp": "", "p": "",
	} {
		if got := Typo(word, names); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
