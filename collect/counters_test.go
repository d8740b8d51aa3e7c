package collect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

func TestDiff(t *testing.T) {
	const nan = -1 // in want
	type step struct {
		now  uint64
		born bool
		want float64
		ok   bool
	}
	for name, c := range map[string]struct {
		width32, sinceBoot bool
		steps              []step // the first is the first reading
	}{
		"growth":                           {steps: []step{{100, false, 100, false}, {130, false, 30, true}, {130, false, 0, true}}},
		"growth past what a float64 holds": {steps: []step{{1<<63 + 1, false, 1<<63 + 1, false}, {1<<63 + 4, false, 3, true}}},
		"a reset is unknown, then goes on": {steps: []step{{100, false, 100, false}, {7, false, nan, true}, {9, false, 2, true}}},
		"a 32-bit wrap is counted through": {width32: true, steps: []step{{1<<32 - 10, false, 1<<32 - 10, false}, {5, false, 15, true}}},
		"a 32-bit reset is no wrap":        {width32: true, steps: []step{{1 << 31, false, 1 << 31, false}, {5, false, nan, true}}},
		"a 64-bit counter does not wrap":   {steps: []step{{1<<32 - 10, false, 1<<32 - 10, false}, {5, false, nan, true}}},
		"since boot":                       {sinceBoot: true, steps: []step{{100, false, 100, true}, {130, false, 30, true}}},
		"born before the first reading":    {steps: []step{{100, true, 100, false}, {130, true, 30, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOut(nil, NewDictionary(), c.sinceBoot)
			counters := Counters[string]{Width32: c.width32}
			for i, s := range c.steps {
				o.Start(i == 0, time.Now())
				d, ok := counters.Diff(o, "eth0", s.born, s.now)
				counters.Sweep()
				if ok != s.ok || len(d) != 1 || s.want == nan != math.IsNaN(d[0]) ||
					s.want != nan && d[0] != s.want {
					t.Errorf("step %d: %v, %v, want %v, %v", i, d, ok, s.want, s.ok)
				}
				if wantReset := s.want == nan; o.reset != wantReset {
					t.Errorf("step %d: a reset was noticed: %v", i, o.reset)
				}
			}
		})
	}
}

func TestDiffOfObjectsThatComeAndGo(t *testing.T) {
	o := NewOut(nil, NewDictionary(), false)
	var c Counters[int]
	read := func(first bool, objects map[int]uint64, born int) map[int]string {
		o.Start(first, time.Now())
		got := map[int]string{}
		for k, v := range objects {
			d, ok := c.Diff(o, k, k == born, v)
			got[k] = fmt.Sprint(d[0], ok)
		}
		c.Sweep()
		return got
	}
	expect := func(got map[int]string, k int, want string) {
		t.Helper()
		if got[k] != want {
			t.Errorf("object %d: %s, want %s", k, got[k], want)
		}
	}
	read(true, map[int]uint64{1: 10, 2: 10}, 0)
	got := read(false, map[int]uint64{1: 11, 3: 70}, 0) // 2 went; 3 came, of unknown age
	expect(got, 1, "1 true")
	expect(got, 3, "70 false")
	got = read(
		false, map[int]uint64{1: 12, 2: 500, 3: 75, 4: 8}, 4,
	) // another 2 came; 4 was born since
	expect(got, 2, "500 false")
	expect(got, 3, "5 true")
	expect(got, 4, "8 true")
	got = read(false, map[int]uint64{2: 501}, 0)
	expect(got, 2, "1 true")
	if len(c.rows) != 1 {
		t.Errorf("%d objects remembered, want 1", len(c.rows))
	}
}

// A collector that never sweeps could not read its file once. The growth over two intervals must
// not count as that of one.
func TestDiffAfterAGap(t *testing.T) {
	o := NewOut(nil, NewDictionary(), false)
	var c Counters[string]
	o.Start(true, time.Now())
	c.Diff(o, "cpu", false, 10)
	c.Diff(o, "io", false, 10)
	o.Start(false, time.Now())
	c.Diff(o, "io", false, 20)
	o.Start(false, time.Now())
	if d, ok := c.Diff(o, "cpu", false, 30); ok {
		t.Errorf("compared across a gap: %v", d)
	}
	if d, ok := c.Diff(o, "io", false, 25); !ok || d[0] != 5 {
		t.Errorf("io: %v, %v", d, ok)
	}
	o.Start(false, time.Now())
	if d, ok := c.Diff(o, "cpu", false, 31); !ok || d[0] != 1 {
		t.Errorf("after the gap: %v, %v", d, ok)
	}
}

// Labels are valid through a tick. A dictionary full of unused words is reset between ticks.
func TestDictionaryForgets(t *testing.T) {
	d := NewDictionary()
	for i := range 3 * fewWords {
		if i%1000 == 0 {
			d.StartTick()
		}
		l := d.LabelBytes(fmt.Append(nil, i))
		if again := d.Label(fmt.Sprint(i)); again != l || d.words[l] != fmt.Sprint(i) {
			t.Fatalf("label of %d: %d and %d, which is %s", i, l, again, d.words[l])
		}
	}
	if len(d.words) > fewWords+1000 || d.epoch == 0 {
		t.Errorf("%d words in epoch %d", len(d.words), d.epoch)
	}
}

// gauge is a collector: count grows by ten at each reading, level is the number of the reading, and
// some readings fail.
type gauge struct {
	name   string
	open   error
	fails  map[int]bool
	closed *int
}

func (g gauge) Stats() []measure.Stat {
	field := []measure.Field{{Name: "thing", Type: measure.Word}}
	return []measure.Stat{
		{
			ID:     measure.StatID(g.name + ".count"),
			Kind:   measure.Delta,
			Unit:   measure.Events,
			Fields: field,
		},
		{
			ID:     measure.StatID(g.name + ".level"),
			Kind:   measure.Level,
			Unit:   measure.Count,
			Fields: field,
		},
	}
}

func (g gauge) Open(*Env, Want) (Reading, error) { return &gaugeReading{gauge: g}, g.open }

type gaugeReading struct {
	gauge
	n     int
	count Counters[int]
}

func (g *gaugeReading) Read(o *Out) error {
	g.n++
	o.Table(measure.StatID(g.name+".level")).Row(float64(g.n), "a")
	d, ok := g.count.Diff(o, 0, false, uint64(10*g.n))
	if ok {
		o.Table(measure.StatID(g.name+".count")).Row(d[0], "a")
	}
	if g.fails[g.n] {
		return errors.New("the file is gone")
	}
	return nil
}

func (g *gaugeReading) Close() { *g.closed++ }

// received is what a sink received of a batch.
type received struct {
	rows  []string
	notes []string
	empty bool // the interval
}

func run(
	t *testing.T, env Env, ticks int, ask []string, collectors ...Collector,
) []map[string]received {
	t.Helper()
	var queries []measure.Query
	for _, s := range ask {
		queries = append(queries, measure.Query{Stat: measure.StatID(s), Step: measure.Millisecond})
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var all []map[string]received
	var last measure.Time
	err := New(
		env,
		collectors...).Run(ctx, queries, measure.SinkFunc(func(batches []*measure.Batch) error {
		tick := map[string]received{}
		for _, b := range batches {
			to := received{notes: slices.Clone(b.Notes), empty: b.Over.Span() == 0}
			for i := range b.Rows() {
				to.rows = append(to.rows, fmt.Sprint(b.Labels[b.Key(i)[0]], " ", b.Values[i]))
			}
			if b.Over.Span() < 0 || b.Over.End <= last-measure.Time(time.Minute) {
				t.Errorf("%s: interval %v", b.Stat, b.Over)
			}
			last = b.Over.End
			tick[string(b.Stat)] = to
		}
		all = append(all, tick)
		if len(all) == ticks {
			stop()
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != ticks {
		t.Fatalf("%d ticks, want %d", len(all), ticks)
	}
	return all
}

func TestRun(t *testing.T) {
	closed := 0
	good, other := gauge{name: "good", closed: &closed}, gauge{name: "other", closed: &closed}
	absent := gauge{name: "absent", closed: &closed, open: errors.New("no such file")}
	ticks := run(
		t, Env{}, 2, []string{"good.count", "good.level", "absent.level"}, good, other, absent,
	)
	for i, tick := range ticks {
		if len(tick) != 3 {
			t.Errorf("tick %d returns %v, which was not asked for", i, tick)
		}
		if g := tick["good.count"]; !slices.Equal(g.rows, []string{"a 10"}) || g.empty ||
			len(g.notes) > 0 {
			t.Errorf("tick %d: good.count %+v", i, g)
		}
		if g := tick["good.level"]; !slices.Equal(g.rows, []string{fmt.Sprint("a ", i+2)}) ||
			g.empty {
			t.Errorf("tick %d: good.level %+v", i, g)
		}
		if a := tick["absent.level"]; len(a.rows) > 0 || !a.empty ||
			!slices.Equal(a.notes, []string{"no such file"}) {
			t.Errorf("tick %d: absent.level %+v", i, a)
		}
	}
	if closed != 1 {
		t.Errorf("%d readings were closed, want the one that was opened and wanted", closed)
	}
}

func TestRunSinceBoot(t *testing.T) {
	closed := 0
	ticks := run(
		t, Env{SinceBoot: true}, 2, []string{"good.count"}, gauge{name: "good", closed: &closed},
	)
	for i, tick := range ticks {
		if g := tick["good.count"]; !slices.Equal(g.rows, []string{"a 10"}) || g.empty {
			t.Errorf("tick %d: %+v", i, g)
		}
	}
}

// After a failed reading no counter may be compared with an earlier one. Its growth would be that
// of one interval or of two, depending on how far the failed reading came.
func TestRunAfterFailure(t *testing.T) {
	for name, fails := range map[string]map[int]bool{"in mid-run": {3: true}, "at the first " +
		"reading": {1: true}} {
		t.Run(name, func(t *testing.T) {
			closed := 0
			ticks := run(
				t, Env{}, 5, []string{"good.count", "good.level"},
				gauge{name: "good", closed: &closed, fails: fails},
			)
			for i, tick := range ticks {
				n := i + 2 // the number of the reading that ends the tick
				count, level := tick["good.count"], tick["good.level"]
				switch {
				case fails[n]:
					if len(count.rows)+len(level.rows) > 0 || !count.empty || !level.empty ||
						!slices.Equal(count.notes, []string{"the file is gone"}) {
						t.Errorf("failed reading %d: %+v, %+v", n, count, level)
					}
				case fails[n-1]:
					if len(count.rows) > 0 || !count.empty || len(count.notes) != 1 ||
						!strings.Contains(count.notes[0], "failed") {
						t.Errorf("reading %d, after the failed one: %+v", n, count)
					}
					if !slices.Equal(level.rows, []string{fmt.Sprint("a ", n)}) || level.empty {
						t.Errorf("reading %d, after the failed one: %+v", n, level)
					}
				default:
					if !slices.Equal(count.rows, []string{"a 10"}) || count.empty ||
						len(count.notes) > 0 {
						t.Errorf("reading %d: %+v", n, count)
					}
				}
			}
		})
	}
}

func TestRunStopsWithItsSink(t *testing.T) {
	closed := 0
	full := errors.New("disk full")
	err := New(
		Env{}, gauge{name: "good", closed: &closed},
	).Run(t.Context(), []measure.Query{{Stat: "good.level", Step: measure.Millisecond}},
		measure.SinkFunc(func([]*measure.Batch) error { return full }))
	if !errors.Is(err, full) || closed != 1 {
		t.Errorf("%v, %d closed", err, closed)
	}
}

// A statistic that was not measured is unknown, even where missing rows mean 0.
func TestUnmeasuredHasAnEmptyInterval(t *testing.T) {
	o := NewOut(
		[]measure.Stat{
			{ID: "a.b.c", Kind: measure.Delta, Sparse: true},
			{ID: "d.e.f", Kind: measure.Delta, Sparse: true},
		},
		NewDictionary(),
		false,
	)
	o.Start(true, time.Now())
	o.Finish(nil)
	o.Start(false, time.Now())
	o.Table("a.b.c").Unmeasured("it is off")
	batches := o.Finish(nil)
	if a := batches[0]; a.Over.Span() != 0 || len(a.Notes) != 1 {
		t.Errorf("unmeasured: %v %q", a.Over, a.Notes)
	}
	if d := batches[1]; d.Over.Span() <= 0 || len(d.Notes) != 0 {
		t.Errorf("measured: %v %q", d.Over, d.Notes)
	}
	o.Start(false, time.Now())
	if a := o.Finish(nil)[0]; a.Over.Span() <= 0 {
		t.Errorf("measured again: %v", a.Over)
	}
}
