package heat

import (
	"strings"
	"testing"
	"unicode/utf8"

	"culprit/measure"
)

func bimodal() measure.Dist { return both(times(60_000, 300), times(11_000_000, 15)) }

func TestText(t *testing.T) {
	t.Setenv("TZ", "UTC")
	x := &Text{Width: 80, ASCII: true}
	d := bimodal()
	x.Fit(&d)
	var b []byte
	end := measure.Time(1000e9)
	for _, c := range []Column{
		{Elapsed: measure.Second, Dist: d}, {Elapsed: 0}, {Elapsed: measure.Second},
		{Elapsed: measure.Second, Dist: times(60_000, 2)},
	} {
		b = x.Append(b, end, &c, measure.Nanoseconds)
		end += 1e9
	}
	lines := strings.Split(string(b), "\n")
	for i, want := range []string{
		"", "values .+*# to 1000 events", " 315      #", "not measured", " 0 ", " 2      .",
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d has no %q:\n%s", i, want, b)
		}
	}
	if !strings.Contains(lines[0], "|100us") || !strings.Contains(lines[0], "|10ms") {
		t.Errorf("axis %q", lines[0])
	}
	if !strings.Contains(lines[2], "12.6ms") { // the end of the bucket of 11 ms
		t.Errorf("maximum: %q", lines[2])
	}
	for _, l := range lines {
		if utf8.RuneCountInString(l) > 80 {
			t.Errorf("%d columns: %q", utf8.RuneCountInString(l), l)
		}
	}
}

// TestTextOfEveryWidth: from 1 ns to 1 h, every line fits, and one event more widens the axis.
func TestTextOfEveryWidth(t *testing.T) {
	for _, width := range []int{0, 60, 61, 80, 132, 400} {
		for _, unit := range []measure.Unit{measure.Nanoseconds, measure.Bytes, measure.Count} {
			x := &Text{Width: width}
			var b []byte
			for _, v := range []uint64{1, 5_000, 3_600e9, 0, 1<<64 - 1} {
				c := Column{Elapsed: measure.Second, Dist: times(v, 1e6)}
				b = x.Append(b, 1000e9, &c, unit)
			}
			for _, l := range strings.Split(string(b), "\n") {
				if n := utf8.RuneCountInString(l); n > max(width, leastWidth) {
					t.Errorf("width %d, %s: %d columns in %q", width, unit, n, l)
				}
			}
			if n := strings.Count(string(b), "values"); n != 5 {
				t.Errorf("%d headers for five axes:\n%s", n, b)
			}
		}
	}
}

func TestTextColours(t *testing.T) {
	d := bimodal()
	for colour, want := range map[bool]bool{true: true, false: false} {
		x := &Text{Width: 80, Colour: colour}
		b := x.Append(nil, 1000e9, &Column{Elapsed: 1, Dist: d}, measure.Nanoseconds)
		if got := strings.Contains(string(b), "\x1b"); got != want {
			t.Errorf("colour %v: %q", colour, b)
		}
		if !strings.Contains(string(b), "█") && !strings.Contains(string(b), "▓") {
			t.Errorf("no blocks: %s", b)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		unit measure.Unit
		want string
	}{
		{measure.NaN, measure.Nanoseconds, "-"}, {1, measure.Nanoseconds, "1ns"},
		{1e6, measure.Nanoseconds, "1.00ms"}, {7.2e12, measure.Nanoseconds, "2h"},
		{65536, measure.Bytes, "64.0K"}, {318, measure.Count, "318"}, {2e9, measure.Count, "2e+09"},
		{3599.4e9, measure.Nanoseconds, "3599s"}, {3599.6e9, measure.Nanoseconds, "1h"},
		{999.4 * 3600e9, measure.Nanoseconds, "999h"},
		{999.6 * 3600e9, measure.Nanoseconds, "42d"},
	} {
		if got := Format(tt.v, tt.unit); got != tt.want {
			t.Errorf("%v %s: %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}
