package heat

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// answer returns an answer with a row per name and the distributions of its cells.
func answer(elapsed []measure.Span, rows map[string][]measure.Dist) *measure.Answer {
	a := &measure.Answer{
		Query: measure.Query{Stat: "syscall.latency", By: []string{"process"}},
		Kind:  measure.Dists, Unit: measure.Nanoseconds, Sparse: true,
		Start: 1000e9, Step: measure.Second, Elapsed: elapsed,
	}
	names := make([]string, 0, len(rows))
	for n := range rows {
		names = append(names, n)
	}
	slices.Sort(names)
	for i, n := range names {
		a.Labels = append(a.Labels, n)
		s := measure.Series{Key: []measure.Label{measure.Label(i)}}
		s.SetDists(rows[n])
		a.Series = append(a.Series, s)
	}
	return a
}

func dist(base uint8, values ...uint64) measure.Dist {
	d := measure.Dist{Base: base}
	for _, v := range values {
		d.Add(v, 1)
	}
	return d
}

// TestMergingCellsKeepsEveryEvent merges cells at random: events, their sum, and measured time
// stay.
func TestMergingCellsKeepsEveryEvent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		cells := 1 + r.IntN(300)
		elapsed := make([]measure.Span, cells)
		rows := map[string][]measure.Dist{}
		all, measured := measure.Dist{Base: 2}, measure.Span(0)
		for c := range elapsed {
			if r.IntN(5) > 0 {
				elapsed[c] = measure.Span(1 + r.IntN(1e9))
				measured += elapsed[c]
			}
		}
		for _, name := range []string{"a", "b", "c"}[:1+r.IntN(3)] {
			dists := make([]measure.Dist, cells)
			for c := range dists {
				dists[c].Base = 2
				for range r.IntN(4) {
					if elapsed[c] > 0 {
						v, n := uint64(1)<<r.IntN(45)+r.Uint64N(1000), 1+r.Uint64N(1e6)
						dists[c].Add(v, n)
						all.Add(v, n)
					}
				}
			}
			rows[name] = dists
		}
		columns := r.IntN(cells + 5)
		m, err := New(answer(elapsed, rows), columns)
		if err != nil {
			t.Fatal(err)
		}
		if columns > 0 && len(m.Columns) > columns {
			t.Fatalf("%d columns, at most %d", len(m.Columns), columns)
		}
		whole, span := m.Whole(), measure.Span(0)
		for _, c := range m.Columns {
			span += c.Elapsed
		}
		if whole.Count() != all.Count() || span != measured ||
			math.Abs(whole.Sum-all.Sum) > 1e-9*all.Sum {
			t.Fatalf("%d events of %d, %v measured of %v", whole.Count(), all.Count(), span, measured)
		}
		for b := range all.Counts { // each bucket on its own
			i := all.First + int32(b) - whole.First
			got := uint64(0)
			if i >= 0 && int(i) < len(whole.Counts) {
				got = whole.Counts[i]
			}
			if got != all.Counts[b] {
				t.Fatalf("bucket %d has %d events, want %d", b, got, all.Counts[b])
			}
		}
	}
}

func TestGapsStayGaps(t *testing.T) {
	second := measure.Second
	m, err := New(answer([]measure.Span{second, second, 0, 0, second, 0},
		map[string][]measure.Dist{"a": {dist(2, 5), {}, {}, {}, dist(2, 9), {}}}), 3)
	if err != nil {
		t.Fatal(err)
	}
	want := []measure.Span{2 * second, 0, second}
	for c, w := range want {
		if m.Columns[c].Elapsed != w {
			t.Errorf("column %d has %v measured, want %v", c, m.Columns[c].Elapsed, w)
		}
	}
	if l := m.Columns[1].Lines(); l.P50 == l.P50 || l.Max == l.Max {
		t.Errorf("a gap has percentiles %v", l)
	}
	if m.Step != 2*second || m.Start != 1000e9 {
		t.Errorf("grid %v %v", m.Start, m.Step)
	}
}

func TestLines(t *testing.T) {
	d := measure.Dist{Base: 2}
	d.Add(1000, 900)
	d.Add(70_000, 95)
	d.Add(3_000_000, 5)
	l := (&Column{Elapsed: 1, Dist: d}).Lines()
	for name, c := range map[string]struct{ got, low, high float64 }{
		"p50": {l.P50, 896, 1024}, "p90": {l.P90, 896, 1024}, "p99": {l.P99, 65536, 81920},
		"max": {l.Max, 3145728, 3145728},
	} {
		if !(c.got >= c.low && c.got <= c.high) {
			t.Errorf("%s is %v, not from %v to %v", name, c.got, c.low, c.high)
		}
	}
}

func TestCropCutsAtMostItsShareOfEvents(t *testing.T) {
	d := measure.Dist{Base: 2}
	d.Add(1000, 9890)
	d.Add(5_000, 100)
	d.Add(1_000_000, 9)
	d.Add(1_000_000_000, 1)
	m := &Map{Base: 2, Columns: []Column{{Elapsed: 1, Dist: d}}}
	after := func(v uint64) int32 { return measure.BucketOf(2, v) + 1 }
	for _, tt := range []struct {
		name  string
		share float64
		end   int32
		cut   uint64
	}{
		{"off", 0, after(1_000_000_000), 0},
		{"just below one event", 0.99e-4, after(1_000_000_000), 0},
		{"one event", 1e-4, after(1_000_000), 1},
		{"0.1 %", 0.001, after(5_000), 10},
		{"1 %", 0.01, after(5_000), 10},
		{"5 %", 0.05, after(1_000), 110},
		{"never everything", 1, after(1_000), 110},
	} {
		end, cut := m.Crop(tt.share)
		if end != tt.end || cut != tt.cut {
			t.Errorf("%s: ends at bucket %d with %d events cut, want %d and %d",
				tt.name, end, cut, tt.end, tt.cut)
		}
	}
}

func TestOnlyDistributionsHaveAHeatMap(t *testing.T) {
	a := answer(nil, nil)
	a.Kind = measure.Delta
	if _, err := New(a, 0); !errors.Is(err, measure.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
	a.Kind = measure.Dists
	m, err := New(a, 10)
	if err != nil || len(m.Columns) != 0 {
		t.Errorf("%v, %v", m, err)
	}
	if first, end := m.Buckets(); first != 0 || end != 0 {
		t.Errorf("an empty map has buckets %d to %d", first, end)
	}
}

// TestMixedBases merges distributions of different bases in the coarser one.
func TestMixedBases(t *testing.T) {
	m, err := New(answer([]measure.Span{1}, map[string][]measure.Dist{
		"fine": {dist(4, 1000, 1010)}, "coarse": {dist(1, 1000)},
	}), 0)
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Columns[0].Dist; m.Base != 1 || d.Base != 1 || d.Count() != 3 ||
		d.Counts[measure.BucketOf(1, 1000)-d.First] != 3 {
		t.Errorf("base %d: %+v", m.Base, d)
	}
}

func TestQuantizeLooksLikeDTrace(t *testing.T) {
	d := measure.Dist{Base: 2}
	d.Add(1100, 30)
	d.Add(1900, 30)
	d.Add(9000, 20)
	want := `           value  ------------- Distribution ------------- count
             512 |                                         0
            1024 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@           60
            2048 |                                         0
            4096 |                                         0
            8192 |@@@@@@@@@@                               20
           16384 |                                         0
`
	if got := Quantize(d); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := Quantize(measure.Dist{}); got != "" {
		t.Errorf("empty: %q", got)
	}
	if got := Quantize(dist(2, 0)); !strings.Contains(got, "               0 |@@@") {
		t.Errorf("zero: %s", got)
	}
	if got := Quantize(dist(2, 1<<64-1)); strings.Count(got, "\n") != 4 {
		t.Errorf("the largest value:\n%s", got)
	}
}
