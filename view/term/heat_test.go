package term

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"culprit/measure"
)

// latencies is a machine whose ticks have two bands: in each, 19 requests of 50 us by fast and one
// of 20 ms by slow. The third tick is a gap.
type latencies struct{ machine }

func newLatencies(ticks int) *latencies {
	return &latencies{machine{ticks: ticks, stats: []measure.Stat{
		{ID: "cpu.time", Kind: measure.Delta, Unit: measure.Nanoseconds},
		{
			ID: "disk.latency", Kind: measure.Dists, Unit: measure.Nanoseconds, Sparse: true,
			Fields: []measure.Field{{Name: "process", Type: measure.Word}},
		},
	}}}
}

func (m *latencies) Watch(
	_ context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	for n := range m.ticks {
		end := measure.Time(n+1) * 1e9
		a := &measure.Answer{
			Query: queries[0], Kind: measure.Dists, Unit: measure.Nanoseconds, Start: end - 1e9,
			Step: measure.Second, Elapsed: []measure.Span{measure.Second},
			Labels: []string{"fast", "slow"},
		}
		if n == 2 {
			a.Elapsed[0] = 0
		}
		for i, v := range []uint64{50_000, 20_000_000} {
			d := measure.Dist{Base: 2}
			d.Add(v, []uint64{19, 1}[i])
			s := measure.Series{}
			if len(queries[0].By) > 0 {
				s.Key = []measure.Label{measure.Label(i)}
			}
			s.SetDists([]measure.Dist{d})
			if n != 2 {
				a.Series = append(a.Series, s)
			}
		}
		over := measure.Interval{Start: end - 1e9, End: end}
		tick := &measure.Tick{Over: over, Answers: []*measure.Answer{a}}
		if err := each(tick); err != nil {
			return err
		}
	}
	return nil
}

func heatRun(t *testing.T, ticks int, args ...string) (status int, out, errs string) {
	t.Helper()
	return runMachine(t, newLatencies(ticks), args...)
}

func TestHeatShowsBothBands(t *testing.T) {
	t.Setenv("LC_ALL", "C")
	status, out, errs := heatRun(t, 4, "heat", "disk.latency", "1")
	if status != 0 || errs != "" {
		t.Fatalf("status %d: %s%s", status, out, errs)
	}
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	if len(lines) != 7 {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	for i, want := range []string{"|10us", "values .+*# to 100 events", "   20 ", "   20 ",
		"not measured", "   20 ", "In all         60 "} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d has no %q:\n%s", i, want, out)
		}
	}
	plot := strings.TrimSpace(lines[2][18:56])
	if low, high, two := strings.Cut(plot, " "); !two || len(low) != 1 ||
		len(strings.TrimSpace(high)) != 1 {
		t.Errorf("not two bands: %q", plot)
	}
	if strings.Contains(out, "\x1b") || strings.ContainsAny(out, "░▒▓█") {
		t.Errorf("colours or blocks in a file of the C locale:\n%s", out)
	}
	t.Setenv("LC_ALL", "en_US.UTF-8")
	if _, out, _ = heatRun(t, 1, "heat", "disk.latency", "1"); !strings.ContainsAny(out, "▒▓█") {
		t.Errorf("no blocks in a UTF-8 locale:\n%s", out)
	}
	if _, out, _ = heatRun(t, 1, "heat", "disk.latency", "1", "--ascii"); strings.ContainsAny(out, "▒▓█") {
		t.Errorf("blocks with --ascii:\n%s", out)
	}
}

func TestHeatQuantize(t *testing.T) {
	_, out, _ := heatRun(t, 3, "heat", "disk.latency by process", "1", "--quantize")
	slow, fast := strings.Index(out, "\n  slow\n"), strings.Index(out, "\n  fast\n")
	if slow < 0 || fast < slow || strings.Count(out, "Distribution") != 2 ||
		!strings.Contains(out, "32768 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@ 19") {
		t.Errorf("slow %d, fast %d:\n%s", slow, fast, out)
	}
}

func TestHeatJSON(t *testing.T) {
	_, out, _ := heatRun(t, 3, "heat", "disk.latency", "1", "--json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	type table struct {
		View string
		Rows []struct {
			Unit     string
			Values   float64
			P50, Max float64
			Buckets  [][3]float64
		}
	}
	var first, gap table
	for i, v := range map[int]*table{0: &first, 2: &gap} {
		if err := json.Unmarshal([]byte(lines[i]), v); err != nil {
			t.Fatal(err, lines[i])
		}
	}
	r := first.Rows[0]
	if first.View != "heat" || r.Values != 20 || r.Unit != "ns" || len(r.Buckets) != 2 ||
		r.Buckets[0] != [3]float64{49152, 57344, 19} || r.Max != 20971520 {
		t.Errorf("%s", lines[0])
	}
	if len(gap.Rows) != 0 {
		t.Errorf("a gap has rows: %s", lines[2])
	}
	_, out, _ = heatRun(t, 1, "heat", "disk.latency", "1", "--csv")
	if !strings.Contains(out, "low,high,events") || !strings.Contains(out, ",49152,57344,19\n") {
		t.Errorf("CSV:\n%s", out)
	}
}

func TestHeatRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"heat":                           "which statistic?",
		"heat cpu.time":                  "cpu.time has no distributions, its kind is delta",
		"heat disk.latancy 1":            "did you mean disk.latency?",
		"heat disk.latency 0":            "out of range",
		"heat disk.latency --json --csv": "exclude each other",
	} {
		status, out, errs := heatRun(t, 1, strings.Fields(line)...)
		if status == 0 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d, %s%s; want %q", line, status, out, errs, want)
		}
	}
}

func TestStepOfLines(t *testing.T) {
	for seconds, want := range map[measure.Span]measure.Span{
		1: 1, 24: 1, 25: 2, 600: 30, 3600: 300, 86400: 3600, 86401: 2 * 3600, 30 * 86400: 30 * 3600,
	} {
		if got := stepOfLines(seconds * measure.Second); got != want*measure.Second {
			t.Errorf("%d s: %v, want %d s", seconds, got, want)
		}
	}
}

// TestHeatOfThePast: an hour is shown in 12 lines of five minutes, with a header for them and one
// for their sum, whose shades differ. A second is one line.
func TestHeatOfThePast(t *testing.T) {
	for _, tt := range []struct {
		line         string
		lines, first int
		last         string
	}{
		{"heat disk.latency --from -1h", 17, 300, "In all       3600 "},
		{"heat disk.latency --from -1h 600", 11, 600, "In all       3600 "},
		{"heat disk.latency --at -5m", 3, 1, ""},
		{"heat disk.latency --from -1h --quantize", 5, 3600, "2097152 |"},
	} {
		status, out, errs := rewind(t, anHour(), strings.Fields(tt.line)...)
		lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
		if status != 0 || len(lines) != tt.lines {
			t.Errorf("%s: status %d, %d lines, want %d\n%s%s", tt.line, status, len(lines), tt.lines,
				out, errs)
			continue
		}
		if !strings.Contains(out, fmt.Sprintf(" %d", tt.first)) ||
			!strings.Contains(lines[len(lines)-1], tt.last) {
			t.Errorf("%s: no %d, or the last line has no %q:\n%s", tt.line, tt.first, tt.last, out)
		}
	}
}
