package store

import (
	"context"
	"errors"
	"testing"

	"culprit/measure"
)

const someTime = measure.Time(1_700_000_000e9)

func TestAnswersEqualTheNaiveModel(t *testing.T) {
	for seed := range uint64(2) {
		s, n, w := filled(t, t.TempDir(), Options{}, seed)
		at := someTime
		for i := range 8 {
			at = w.run(t, s, n, at, []int{100, 900}[i/2%2])
			if i%3 > 0 {
				s.Settle()
			}
			compareAll(t, s, n, w.r, measure.Interval{Start: someTime, End: at})
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReopen(t *testing.T) {
	dir := t.TempDir()
	s, n, w := filled(t, dir, Options{}, 9)
	at := someTime
	for range 5 {
		at = w.run(t, s, n, at, 100)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if s, err = Open(dir, Options{}); err != nil {
			t.Fatal(err)
		}
		if trouble := s.Problems(); trouble != nil {
			t.Fatal(trouble)
		}
		compareAll(t, s, n, w.r, measure.Interval{Start: someTime, End: at})
	}
	if err := s.Log("change", at, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Log("change", at.Add(-1), []byte("b")); err != nil {
		t.Fatal(err)
	}
	var got string
	err := s.Logged(
		context.Background(),
		"change",
		measure.Interval{},
		func(_ measure.Time, d []byte) error {
			got += string(d)
			return nil
		},
	)
	if err != nil || got != "ba" {
		t.Fatal(got, err)
	}
	s.Close()
}

// An answer that exceeds memory is refused as too large, which differs from "not recorded".
func TestTooLargeIsNotUnclear(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	q := measure.Query{Stat: "memory.free", Step: measure.Second}
	if _, err := s.Save(measure.Dataset{
		Query: q, Stat: measure.Stat{ID: q.Stat, Kind: measure.Level, Unit: measure.Bytes},
		State: measure.Recording,
	}); err != nil {
		t.Fatal(err)
	}
	q.Over = measure.Interval{Start: someTime, End: someTime.Add((maxValues + 1) * measure.Second)}
	if _, err := s.Ask(context.Background(), q); !errors.Is(err, measure.ErrTooLarge) ||
		errors.Is(err, measure.ErrUnclear) {
		t.Errorf("%v", err)
	}
}

// A clock that is set back or jumps ahead loses nothing: ticks of one time share their cell, and
// the jump is a gap.
func TestTheClockIsSet(t *testing.T) {
	dir := t.TempDir()
	s, n, w := filled(t, dir, Options{}, 31)
	w.sets = w.sets[:3]
	delete(n.sets, 4)
	at := someTime
	check := func() {
		t.Helper()
		for id, d := range n.sets {
			for _, step := range []measure.Span{measure.Second, measure.Minute} {
				q := measure.Query{Stat: d.Stat.ID, By: []string{"device", "pid"}, Step: step}
				q.Over = measure.Interval{
					Start: floor(someTime, measure.Minute).Add(-5 * measure.Minute),
					End:   floor(someTime, measure.Minute).Add(40 * measure.Minute),
				}
				if err := compare(s, n, id, q); err != nil {
					t.Fatal(err)
				}
			}
			if err := compare(s, n, id, measure.Query{
				Stat: d.Stat.ID, By: []string{"device"}, Step: measure.Minute,
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, leap := range []measure.Span{
		0, -50 * measure.Second, -7 * measure.Minute, 20 * measure.Minute, -1 * measure.Second,
		-3 * measure.Second, 25 * hour, -25 * hour, 0,
	} {
		at = w.run(t, s, n, at.Add(leap), 150)
		if i%2 == 1 {
			s.Settle()
		}
		check()
	}
	s.Settle()
	check()
	s.Close()
	var err error
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	check()
	s.Close()
}

// A replay reads each tick with a separate query: from cached segments, and from memory.
func TestEachSecondEqualsTheNaiveModel(t *testing.T) {
	s, n, w := filled(t, t.TempDir(), Options{}, 12)
	end := w.run(t, s, n, someTime, 700)
	s.Settle()
	ticks := n.ticks
	for at := someTime; at < end; at = at.Add(measure.Second) {
		over := measure.Interval{Start: at, End: at.Add(measure.Second)}
		n.ticks = nil
		for len(ticks) > 0 && ticks[0].at <= over.End {
			n.ticks, ticks = append(n.ticks, ticks[0]), ticks[1:]
		}
		for id, d := range n.sets {
			for _, by := range [][]string{{"device", "pid"}, {"device"}} {
				if err := compare(s, n, id, measure.Query{
					Stat: d.Stat.ID, By: by, Step: measure.Second, Over: over,
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if len(s.cache.kept) == 0 || s.cache.bytes <= 0 || s.cache.bytes > cacheBytes {
		t.Fatalf("%d segments of %d bytes are kept unpacked", len(s.cache.kept), s.cache.bytes)
	}
	s.cache.evictIdle()
	s.cache.evictIdle()
	if len(s.cache.kept) != 0 || s.cache.bytes != 0 {
		t.Fatalf(
			"%d segments of %d bytes stay though nobody asks", len(s.cache.kept), s.cache.bytes,
		)
	}
	s.Close()
}
