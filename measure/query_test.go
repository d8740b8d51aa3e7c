package measure

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestQueryTextParsesToTheSameQuery(t *testing.T) {
	for in, want := range map[string]string{
		`net.device.bytes`: `net.device.bytes`,
		`net.device.bytes by device,direction where device != lo`: `net.device.bytes by device,direction where device != "lo"`,
		` cpu.time   by cpu , mode where cpu<=3 and mode ~ "so*"`: `cpu.time by cpu,mode where cpu <= 3 and mode ~ "so*"`,
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
		{Less, "10", "x", false},
		{GreaterEqual, "3", "3", true},
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
		"zzz":             "",
	} {
		if got := Nearest(in, names); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func FuzzParseQuery(f *testing.F) {
	f.Add(`net.device.bytes by device where device in ("a",b) and x >= 3`)
	f.Fuzz(func(t *testing.T, text string) {
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
