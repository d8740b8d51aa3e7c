package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/measure"
)

// busy returns a store with segments on disk and many more rows in memory.
func busy(tb testing.TB) (*Store, measure.Query, uint32) {
	tb.Helper()
	s, err := Open(tb.TempDir(), Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	q := measure.Query{Stat: "flow.bytes", By: []string{"name"}, Step: measure.Second}
	st := measure.Stat{ID: q.Stat, Kind: measure.Level, Fields: []measure.Field{{Name: "name"}}}
	id, err := s.Save(measure.Dataset{Stat: st, Query: q})
	if err != nil {
		tb.Fatal(err)
	}
	at, next := someTime, 0
	tick := func(rows int) {
		at = at.Add(measure.Second)
		b := &measure.Batch{
			Stat: q.Stat,
			By:   q.By,
			Over: measure.Interval{Start: at.Add(-measure.Second), End: at},
		}
		for j := range rows {
			next++
			b.Labels = append(b.Labels, strconv.Itoa(next))
			b.Keys, b.Values = append(b.Keys, measure.Label(j)), append(b.Values, float64(next))
		}
		if err := s.Append(at, []uint32{id}, []*measure.Batch{b}); err != nil {
			tb.Fatal(err)
		}
	}
	for range 20 {
		for range 60 {
			tick(50)
		}
		s.Settle()
	}
	for range 6 {
		tick(4000)
	}
	q.Over = measure.Interval{Start: someTime, End: at}
	return s, q, id
}

// A query with too many rows in memory is refused before a segment is read.
func TestTooLargeInMemoryWithSegments(t *testing.T) {
	s, q, _ := busy(t)
	for range 5 {
		if _, err := s.Ask(context.Background(), q); !errors.Is(err, measure.ErrTooLarge) {
			t.Fatalf("%v, want %v", err, measure.ErrTooLarge)
		}
	}
}

// A panic in a goroutine that reads or folds, or in the caller's, is an error of the query.
func TestPanicsOfReadersAreErrors(t *testing.T) {
	var fault *measure.Fault
	next, stop := readInBackground(3, func(i int, _ *block) (*block, error) {
		if i == 1 {
			panic("at the second segment")
		}
		return &block{}, nil
	})
	for i := range 3 {
		_, err := next(i)
		if errors.As(err, &fault) != (i == 1) {
			t.Errorf("segment %d: %v", i, err)
		}
	}
	stop()
	g := &gather{gatherBuffers: &gatherBuffers{}}
	join := g.foldInBackground()
	for range 2 * chunks { // more than are in transit: none may block
		g.submit(g.chunk(nil)) // a chunk without a block panics
	}
	g.drain()
	if err := join(); !errors.As(err, &fault) {
		t.Errorf("adding up: %v, want a fault", err)
	}
	s, q, id := busy(t)
	q.Step = measure.Minute
	s.mu.Lock()
	whole := s.datasets.byID[id].stack
	s.datasets.byID[id].stack = nil
	s.mu.Unlock()
	if _, err := s.Ask(context.Background(), q); !errors.As(err, &fault) {
		t.Errorf("asking: %v, want a fault", err)
	}
	s.mu.Lock() // no lock is still held
	s.datasets.byID[id].stack = whole
	s.mu.Unlock()
	if _, err := s.Ask(context.Background(), q); err != nil {
		t.Errorf("after the fault: %v", err)
	}
}

// mixedArchive returns an archive of all kinds and folds, with segments, rollups and rows in
// memory.
func mixedArchive(tb testing.TB, ticks int) (*Store, *world, measure.Time) {
	tb.Helper()
	w := newWorld(33)
	s, err := Open(tb.TempDir(), Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	for i := range w.sets {
		if w.sets[i].ID, err = s.Save(w.sets[i]); err != nil {
			tb.Fatal(err)
		}
	}
	at := someTime
	for i := range ticks {
		at = at.Add(measure.Second)
		ids, batches := w.batches(at)
		if err := s.Append(at, ids, batches); err != nil {
			tb.Fatal(err)
		}
		if i == ticks*3/4 {
			s.Settle()
		}
	}
	return s, w, at
}

// keyOf returns the labels of a row.
func keyOf(a *measure.Answer, i int) string {
	var all []string
	for k := range a.Query.By {
		all = append(all, a.Label(i, k))
	}
	return strings.Join(all, " ")
}

// sameColumn reports whether two columns are equal except for rounding.
func sameColumn(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool {
		return math.IsNaN(x) && math.IsNaN(y) ||
			math.Abs(x-y) <= 1e-9*max(1, math.Abs(x), math.Abs(y))
	})
}

// The largest rows of an answer that is too large are those of the whole answer, and together with
// the rest they add up to it.
func TestTopRows(t *testing.T) {
	s, w, at := mixedArchive(t, 1500)
	for _, d := range w.sets {
		for _, by := range [][]string{{"device", "pid"}, {"pid"}, {"device"}} {
			for _, step := range []measure.Span{
				measure.Second, 7 * measure.Second, measure.Minute,
			} {
				q := measure.Query{
					Stat: d.Stat.ID,
					By:   by,
					Step: step,
					Over: measure.Interval{Start: someTime, End: at},
				}
				s.limits = limits{maxValuesBeforeTop, maxValues}
				whole, err := s.Ask(context.Background(), q)
				if err != nil {
					t.Fatal(err)
				}
				q.Top = 3
				s.limits.beforeTop = 1
				largest, err := s.Ask(context.Background(), q)
				if err != nil {
					t.Fatal(err)
				}
				t.Run(
					fmt.Sprintf("%s by %v step %s", d.Stat.ID, by, step),
					func(t *testing.T) { compareLargest(t, whole, largest) },
				)
			}
		}
	}
}

func compareLargest(t *testing.T, whole, largest *measure.Answer) {
	n := min(3, len(whole.Series))
	if len(largest.Series) != n || len(largest.Series)+largest.Rest.Rows != len(whole.Series) {
		t.Fatalf(
			"%d rows and %d more, want %d of %d", len(largest.Series), largest.Rest.Rows, n,
			len(whole.Series),
		)
	}
	if more := len(whole.Series) > n; more != slices.ContainsFunc(
		largest.Notes,
		func(s string) bool {
			return strings.HasPrefix(s, fmt.Sprintf("3 of %s rows", thousands(len(whole.Series))))
		},
	) {
		t.Errorf("notes: %q", largest.Notes)
	}
	at := map[string]int{}
	for i := range whole.Series {
		at[keyOf(whole, i)] = i
	}
	for i := range largest.Series {
		o, found := at[keyOf(largest, i)]
		if !found || !sameColumn(largest.Series[i].Values, whole.Series[o].Values) ||
			!sameColumn(largest.Series[i].Max(), whole.Series[o].Max()) {
			t.Errorf("%s: not the row of the whole answer", keyOf(largest, i))
		}
		delete(at, keyOf(largest, i))
	}
	if largest.Rest.Values == nil || whole.Kind != measure.Delta {
		return
	}
	// Of amounts: nothing is lost, and no other row has a larger total.
	amount := func(v []float64) (sum float64) {
		for c, x := range v {
			if x == x {
				sum += x * float64(whole.Elapsed[c])
			}
		}
		return sum
	}
	rest, most, least := 0.0, math.Inf(-1), math.Inf(1)
	for _, o := range at {
		rest += amount(whole.Series[o].Values)
		most = max(most, amount(whole.Series[o].Values))
	}
	for i := range largest.Series {
		least = min(least, amount(largest.Series[i].Values))
	}
	// In longer cells each row counts its own unknown ticks, and the rest, like any sum, those of
	// all its rows.
	tolerance := 0.05
	if whole.Step == measure.Second {
		tolerance = 1e-9
	}
	if got := amount(largest.Rest.Values); math.Abs(got-rest) > tolerance*math.Abs(rest) {
		t.Errorf("the rest is %v, want %v", got, rest)
	}
	if len(at) > 0 && most > least+tolerance*math.Abs(least) {
		t.Errorf("a row of %v is left out, one of %v is in", most, least)
	}
}

// Any query under any limit is answered or refused as too large, and takes memory in proportion to
// the limit.
func FuzzAskLimits(f *testing.F) {
	s, w, at := mixedArchive(f, 900)
	f.Add(uint8(0), uint16(1), uint16(900), uint16(1), uint8(3), uint32(1), uint32(1000))
	f.Add(uint8(1), uint16(0), uint16(0), uint16(60), uint8(0), uint32(0), uint32(0))
	f.Add(uint8(3), uint16(300), uint16(800), uint16(7), uint8(200), uint32(100), uint32(70000))
	heapbound.Fuzz(f, func(t *testing.T, n uint8, from, to, step uint16, top uint8, whole,
		values uint32) {
		s.limits = limits{int(whole % maxValuesBeforeTop), int(values % maxValuesBeforeTop)}
		q := measure.Query{
			Stat: w.sets[int(n)%len(w.sets)].Stat.ID,
			By:   []string{"device", "pid"}[int(n>>4)%2:],
			Step: measure.Span(step) * measure.Second,
			Top: int(
				top,
			),
			Over: measure.Interval{
				Start: someTime.Add(measure.Span(from) * measure.Second),
				End:   someTime.Add(measure.Span(to) * measure.Second),
			},
		}
		if from == 0 && to == 0 {
			q.Over.End = at
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a, err := s.Ask(context.Background(), q)
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 32<<20+64*uint64(
			s.limits.beforeTop+s.limits.values,
		) {
			t.Errorf("%d bytes were allocated", grown)
		}
		if err != nil && !errors.Is(err, measure.ErrTooLarge) {
			t.Fatal(err)
		}
		if err == nil && len(a.Series)*len(a.Elapsed) > max(s.limits.beforeTop, s.limits.values) {
			t.Errorf("%d rows of %d cells", len(a.Series), len(a.Elapsed))
		}
	})
}
