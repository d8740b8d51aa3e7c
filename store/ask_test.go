package store

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"culprit/measure"
)

// busy returns a store with segments on the disk and many more rows in memory.
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
		b := &measure.Batch{Stat: q.Stat, By: q.By, Over: measure.Interval{Start: at.Add(-measure.Second), End: at}}
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

// A query whose rows in memory alone are too many is refused before a segment is read.
func TestTooLargeInMemoryWithSegments(t *testing.T) {
	s, q, _ := busy(t)
	for range 5 {
		if _, err := s.Ask(context.Background(), q); !errors.Is(err, measure.ErrTooLarge) {
			t.Fatalf("%v, want %v", err, measure.ErrTooLarge)
		}
	}
}

// A panic of a reader's or an adder's goroutine, or of the asking one, is an error of the query.
func TestPanicsOfReadersAreErrors(t *testing.T) {
	var fault *measure.Fault
	next, stop := readAhead(3, func(i int, _ *block) (*block, error) {
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
	g := &gather{gatherRoom: &gatherRoom{}}
	join := g.fork()
	for range 2 * chunks { // more than are on their way: none may be stuck
		g.hand(g.chunk(nil)) // a chunk without a lap panics
	}
	g.drain()
	if err := join(); !errors.As(err, &fault) {
		t.Errorf("adding up: %v, want a fault", err)
	}
	s, q, id := busy(t)
	q.Step = measure.Minute
	s.mu.Lock()
	whole := s.sets[id].stack
	s.sets[id].stack = nil
	s.mu.Unlock()
	if _, err := s.Ask(context.Background(), q); !errors.As(err, &fault) {
		t.Errorf("asking: %v, want a fault", err)
	}
	s.mu.Lock() // no lock is left behind
	s.sets[id].stack = whole
	s.mu.Unlock()
	if _, err := s.Ask(context.Background(), q); err != nil {
		t.Errorf("after the fault: %v", err)
	}
}
