package dataset

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"culprit/measure"
)

// keeper is a source whose runs outlive the program: a run begins with the ticks since kept. If
// fails is set, its first run ends after that many ticks, as when its process is restarted.
type keeper struct {
	meters
	kept  measure.Time
	late  time.Duration // before its first tick
	fails int
	runs  int
}

// again is the error of a process that was started again.
type again struct{}

func (again) Error() string   { return "the process was started again" }
func (again) Restarted() bool { return true }

func (k *keeper) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	k.runs++
	time.Sleep(k.late)
	tick := func(end measure.Time) error {
		var all []*measure.Batch
		for _, q := range queries {
			over := measure.Interval{Start: end.Add(-measure.Second), End: end}
			all = append(all, &measure.Batch{Stat: q.Stat, Over: over, Values: []float64{1}})
		}
		return sink.Accept(all)
	}
	at := k.kept
	if at == 0 {
		at = floor(now(), measure.Second)
	}
	for n := 1; ; n++ {
		at = at.Add(measure.Second)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(at.Sub(now()).AsDuration()):
		}
		if err := tick(at); err != nil {
			return err
		}
		if n == k.fails {
			k.fails, k.kept = 0, 0
			return again{}
		}
	}
}

func recordKeepers(t *testing.T, m *memory, a, b *keeper) (s *Set, stop func()) {
	t.Helper()
	s, err := NewSet(New(a, b), m, []string{"m.a", "m.c"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return s, func() { end(); <-done }
}

func keepers() (a, b *keeper) {
	a, b = &keeper{
		meters: meters{stats: newMeters().stats},
	}, &keeper{
		meters: meters{stats: newMeters().stats},
	}
	a.stats, b.stats = a.stats[:1], b.stats[2:]
	return a, b
}

// A program that starts after another one gets the ticks that sources have kept, each once, also
// when one source is slower than the other, and when one has kept fewer.
func TestKeptTicksAreRecorded(t *testing.T) {
	const ms = time.Millisecond
	for _, late := range []time.Duration{0, 100 * ms, 800 * ms, 2000 * ms} {
		for _, missing := range []measure.Span{0, 3 * measure.Second} {
			t.Run(late.String()+" "+missing.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newMemory(nil)
					a, b := keepers()
					_, stop := recordKeepers(t, m, a, b)
					time.Sleep(10 * time.Second)
					stop()
					newest := m.stamps(1)[len(m.stamps(1))-1]
					time.Sleep(20 * time.Second) // it does not run
					a, b = keepers()
					a.kept, b.kept, b.late = newest, newest.Add(missing), late
					s, stop := recordKeepers(t, m, a, b)
					time.Sleep(10 * time.Second)
					stop()
					unbroken(t, "m.a", m.stamps(1), measure.Second, 35)
					for _, c := range must(s.Changes(context.Background(), measure.Interval{})) {
						if c.Actor == "clock" {
							t.Errorf("%+v", c)
						}
					}
					all := m.stamps(2)
					if missing == 0 {
						unbroken(t, "m.c", all, measure.Second, 35)
						return
					}
					n := len(slices.Compact(slices.Clone(all)))
					if n != len(all) || n < 32 || !slices.IsSorted(all) {
						t.Errorf("m.c has %v", all)
					}
				})
			})
		}
	}
}

// A program that ends at any moment leaves datasets of different lengths. The next one gets from
// each source ticks that are stored and ticks that are not: each dataset then has each tick once,
// and nothing that was stored is discarded.
func TestTicksThatAreSentAgain(t *testing.T) {
	const second = measure.Second
	for _, down := range []time.Duration{200 * time.Millisecond, 3 * time.Second} {
		for lost := range 4 { // ticks of m.c
			for again := lost; again < 8; again += 3 { // ticks of m.a and m.c that come again
				t.Run(fmt.Sprintf("%v down, %d of %d", down, lost, again), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						m := newMemory(nil)
						a, b := keepers()
						_, stop := recordKeepers(t, m, a, b)
						time.Sleep(20 * time.Second)
						stop()
						newest := m.stamps(1)[len(m.stamps(1))-1]
						m.forget(2, newest.Add(-measure.Span(lost)*second))
						time.Sleep(down)
						a, b = keepers()
						a.kept = newest.Add(-measure.Span(again) * second)
						b.kept = newest.Add(-measure.Span(lost) * second)
						_, stop = recordKeepers(t, m, a, b)
						time.Sleep(10 * time.Second)
						stop()
						unbroken(t, "m.a", m.stamps(1), second, 28)
						all := m.stamps(2)
						slices.Sort(all) // some follow on newer ones of m.a
						unbroken(t, "m.c", all, second, 28)
					})
				})
			}
		}
	}
}

// forget removes what is newer than a time from a dataset.
func (m *memory) forget(id uint32, after measure.Time) {
	for n := range m.ticks {
		k := &m.ticks[n]
		if i := slices.Index(k.ids, id); i >= 0 && k.at > after {
			k.ids = slices.Delete(slices.Clone(k.ids), i, i+1)
			k.batches = slices.Delete(slices.Clone(k.batches), i, i+1)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A source whose process was started again is run again at once, and is no problem.
func TestRestartedSourceContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(nil)
		a, b := keepers()
		a.fails = 5
		s, stop := recordKeepers(t, m, a, b)
		time.Sleep(12 * time.Second)
		if p := s.Health().Problems; len(p) > 0 {
			t.Errorf("the problems are %v", p)
		}
		stop()
		for id := range uint32(2) {
			unbroken(t, "each", m.stamps(id+1), measure.Second, 11)
		}
		if a.runs != 2 || b.runs != 2 {
			t.Errorf("%d and %d runs", a.runs, b.runs)
		}
	})
}
