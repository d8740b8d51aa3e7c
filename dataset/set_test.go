package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"culprit/measure"
)

// meters is a source that reads like collect: at Over.Start, then at whole steps, with adjacent
// intervals. Each second adds one to each counter. Used with fake time (testing/synctest).
type meters struct {
	stats []measure.Stat
	slow  time.Duration
	holds map[int]stall // by the number of the reading
	fails atomic.Bool   // Run
	runs  atomic.Int64
	cost  atomic.Int64
}

// stall is how a busy machine delays a reading.
type stall struct{ before, after time.Duration }

func (m *meters) Stats() []measure.Stat { return m.stats }

func (m *meters) Cost(measure.StatID) measure.Span { return measure.Span(m.cost.Load()) }

func (m *meters) Run(ctx context.Context, queries []measure.Query, sink measure.Sink) error {
	m.runs.Add(1)
	if m.fails.Load() {
		return errors.New("the file is gone")
	}
	step := queries[0].Step
	at := queries[0].Over.Start
	before := measure.Time(0)
	for n := 0; ; n++ {
		time.Sleep(at.Sub(now()).AsDuration() + m.slow + m.holds[n].before)
		if ctx.Err() != nil {
			return nil
		}
		end := now()
		if before != 0 {
			var batches []*measure.Batch
			for _, q := range queries {
				i := slices.IndexFunc(m.stats, func(s measure.Stat) bool { return s.ID == q.Stat })
				b := &measure.Batch{Stat: q.Stat, Over: measure.Interval{Start: before, End: end}}
				for _, f := range m.stats[i].Fields {
					b.By = append(b.By, f.Name)
				}
				for n := range 4 {
					for j := range b.By {
						b.Keys = append(b.Keys, measure.Label(n>>j&1))
					}
					b.Values = append(b.Values, b.Over.Seconds()*float64(n+1))
				}
				b.Labels = []string{"a", "b"}
				batches = append(batches, b)
			}
			time.Sleep(m.holds[n].after)
			if err := sink.Accept(batches); err != nil {
				return err
			}
		}
		before = end
		at = floor(now(), step).Add(step)
	}
}

func two(id measure.StatID, kind measure.Kind) measure.Stat {
	return measure.Stat{
		ID:     id,
		Kind:   kind,
		Unit:   measure.Bytes,
		Fields: []measure.Field{{Name: "x", Type: measure.Word}, {Name: "y", Type: measure.Word}},
	}
}

func newMeters() *meters {
	return &meters{
		stats: []measure.Stat{
			two("m.a", measure.Delta),
			two("m.b", measure.Level),
			two("m.c", measure.Delta),
		},
	}
}

// live runs f with a set that records in fake time.
func live(t *testing.T, src measure.Source, a *memory, defaults []string, f func(*Set)) {
	t.Helper()
	c := New(src)
	if a.catalogue == nil {
		a.catalogue = c
	}
	s, err := NewSet(c, a, defaults)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	synctest.Wait()
	f(s)
	stop()
	<-done
}

func enable(t *testing.T, s *Set, sentence string) uint32 {
	t.Helper()
	q, err := s.Parse(sentence)
	if err != nil {
		t.Fatal(err)
	}
	id, err := s.Enable("page", q)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// unbroken fails unless the stamps are one step apart, each a multiple of it.
func unbroken(t *testing.T, what string, stamps []measure.Time, step measure.Span, least int) {
	t.Helper()
	if len(stamps) < least {
		t.Errorf("%s: %d ticks, want at least %d", what, len(stamps), least)
	}
	for i, at := range stamps {
		if at%measure.Time(step) != 0 {
			t.Errorf("%s: %v is no multiple of %v", what, at, step)
		}
		if i > 0 && at.Sub(stamps[i-1]) != step {
			t.Errorf("%s: %v follows on %v", what, at, stamps[i-1])
		}
	}
}

func TestPredicateEqualsFilteredWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMemory(nil)
		live(t, newMeters(), a, []string{"m.a by x,y"}, func(s *Set) {
			part := `m.a by x where y = "b"`
			q, err := s.Parse(part)
			if err != nil {
				t.Fatal(err)
			}
			q.Step = measure.Second
			id, err := s.create("page", q) // Enable would return the dataset that covers it
			if err != nil {
				t.Fatal(err)
			}
			s.apply()
			time.Sleep(4500 * time.Millisecond)
			whole, err := s.Ask(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			a.mu.Lock()
			a.sets = slices.DeleteFunc(a.sets, func(d measure.Dataset) bool { return d.ID != id })
			a.mu.Unlock()
			own, err := s.Ask(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := show(own), show(whole); got != want || len(own.Elapsed) < 3 ||
				!strings.HasPrefix(got, "a ") ||
				!strings.Contains(got, " 3 3;") {
				t.Errorf("recorded with the predicate: %s, filtered from the whole: %s", got, want)
			}
		})
	})
}

func TestEqualAndCoveredQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live(t, newMeters(), newMemory(nil), nil, func(s *Set) {
			wide := enable(t, s, `m.a by x,y where x != "c"`)
			for _, same := range []string{
				`m.a by y,x where x != "c"`,
				`m.a by x where x != "c"`,
				`m.a where x != "c" and y = "a"`,
			} {
				if id := enable(t, s, same); id != wide {
					t.Errorf("%s is dataset %d, want %d", same, id, wide)
				}
			}
			other := enable(t, s, "m.a by x")
			if other == wide {
				t.Error("a query without the predicate is not covered")
			}
			if err := s.Suspend("page", wide); err != nil {
				t.Fatal(err)
			}
			if id := enable(t, s, `m.a by x,y where x != "c"`); id != wide ||
				s.Datasets()[0].State != measure.Recording {
				t.Errorf("an equal query resumes: %d, %v", id, s.Datasets()[0].State)
			}
			var d *measure.Diagnostic
			if _, err := s.Enable("page", measure.Query{Stat: "m.d"}); !errors.As(err, &d) {
				t.Errorf("unknown statistic: %v", err)
			}
			if _, err := s.Enable("page", measure.Query{
				Stat: "m.a", Step: 1500 * measure.Millisecond,
			}); err == nil {
				t.Error("a step of 1.5 s is no whole number of seconds")
			}
			for _, err := range []error{
				s.Suspend("page", 99), s.Resume("page", 99), s.Destroy("page", 99),
				s.Discard("page", 99, measure.Interval{End: 1}),
			} {
				if err == nil || !strings.Contains(err.Error(), "no dataset 99") {
					t.Errorf("unknown dataset: %v", err)
				}
			}
		})
	})
}

// Changes persist over a restart, and defaults are created once.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMemory(nil)
		defaults := []string{"m.a by x", `m.a where y = "a"`, "m.b by y,x"}
		var extra uint32
		live(t, newMeters(), a, defaults, func(s *Set) {
			if got := sentences(s); got != "m.a by x,y recording; m.b by x,y recording" {
				t.Errorf("on a new archive: %s", got)
			}
			extra = enable(t, s, `m.c by x where y = "b"`)
			if err := s.Suspend("command line", extra); err != nil {
				t.Error(err)
			}
			if err := s.Destroy("page", 1); err != nil {
				t.Error(err)
			}
			time.Sleep(3500 * time.Millisecond)
		})
		held := len(a.stamps(2))
		// A second program of the same version, with the first one's archive.
		live(t, newMeters(), a, defaults, func(s *Set) {
			if got := sentences(s); got != `m.b by x,y recording; m.c by x where y = "b" suspended` {
				t.Errorf("after a restart: %s", got)
			}
			time.Sleep(3500 * time.Millisecond)
			if n := len(a.stamps(2)); n < held+2 {
				t.Errorf("%d ticks after a restart with %d", n, held)
			}
			stamps := a.stamps(2)
			if !slices.IsSorted(stamps) ||
				len(slices.Compact(slices.Clone(stamps))) != len(stamps) {
				t.Errorf("stamps %v", stamps)
			}
		})
		// A new version has a further statistic, one default query with more fields, and no m.c any
		// more.
		src := newMeters()
		src.stats = []measure.Stat{
			src.stats[0],
			two("m.b", measure.Level),
			two("m.n", measure.Level),
		}
		src.stats[1].Fields = append(
			src.stats[1].Fields, measure.Field{Name: "z", Type: measure.Word},
		)
		live(t, src, a, append(defaults, "m.b by z", "m.n"), func(s *Set) {
			if got := sentences(s); got != `m.b by x,y suspended; `+
				`m.c by x where y = "b" suspended; m.b by x,y,z recording; m.n recording` {
				t.Errorf("of a new version: %s", got)
			}
			if err := s.Resume("page", extra); !errors.Is(err, measure.ErrUnsupported) {
				t.Errorf("resume of what is no longer measured: %v", err)
			}
			if _, err := s.Parse("m.a by x,w"); err == nil {
				t.Error("a field that nobody measures is known")
			}
			q, err := s.Parse("m.c by x")
			if err != nil {
				t.Errorf("what was recorded stays readable: %v", err)
			}
			if _, err := s.Enable("page", q); !errors.Is(err, measure.ErrUnsupported) {
				t.Errorf("record what is no longer measured: %v", err)
			}
			if _, err := s.Parse("m.b by z"); err != nil {
				t.Errorf("a new field: %v", err)
			}
			changes, err := s.Changes(t.Context(), measure.Interval{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range changes {
				got = append(got, fmt.Sprint(c.Actor, " ", c.Action, " ", c.Dataset))
			}
			want := "default made 1, default made 2, page made 3, command line suspended 3, " +
				"page destroyed 1, culprit recorded nothing 0, default made 4, default suspended 2, " +
				"default made 5"
			if text := strings.Join(got, ", "); text != want {
				t.Errorf("changes: %s\nwant     %s", text, want)
			}
		})
		// The previous version returns: it does not measure the field, and the dataset with the
		// field can be queried.
		live(t, newMeters(), a, defaults, func(s *Set) {
			q, err := s.Parse("m.b by z")
			if err != nil {
				t.Fatalf("a field that was recorded stays readable: %v", err)
			}
			if _, err := s.Enable("page", q); err == nil {
				t.Error("a field that is no longer measured is recorded")
			}
		})
	})
}

func sentences(s *Set) string {
	var all []string
	for _, d := range s.Datasets() {
		all = append(all, d.Query.String()+" "+d.State.String())
	}
	return strings.Join(all, "; ")
}

// A slow caller misses ticks and delays nothing; each reported tick can be queried.
func TestTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMemory(nil)
		var set *Set
		live(t, newMeters(), a, []string{"m.a by x,y"}, func(s *Set) {
			set = s
			ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer stop()
			if _, err := s.Tick(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("before the first tick: %v", err)
			}
			var last measure.Time
			for range 3 {
				at, err := s.Tick(t.Context(), last)
				if err != nil || at <= last || at%measure.Time(measure.Second) != 0 {
					t.Errorf("tick %v after %v, %v", at, last, err)
				}
				if stamps := a.stamps(1); stamps[len(stamps)-1] != at {
					t.Errorf("reported %v, recorded %v", at, stamps)
				}
				last = at
				time.Sleep(3300 * time.Millisecond) // longer than a tick
			}
			unbroken(t, "recorded beside a slow listener", a.stamps(1), measure.Second, 9)
		})
		if _, err := set.Tick(context.Background(), set.newest); !errors.Is(err, errEnded) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// A source that fails is a problem and is restarted; so is a failing archive.
func TestProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src, a := newMeters(), newMemory(nil)
		src.fails.Store(true)
		live(t, src, a, []string{"m.a"}, func(s *Set) {
			time.Sleep(time.Second)
			if got := s.Health().Problems; len(got) != 1 ||
				!strings.Contains(got[0].Text, "the file is gone") {
				t.Errorf("trouble %q", got)
			}
			src.fails.Store(false)
			time.Sleep(10 * time.Second)
			if got := s.Health().Problems; len(got) != 0 || len(a.stamps(1)) < 2 {
				t.Errorf("trouble %q, %d ticks", got, len(a.stamps(1)))
			}
			a.mu.Lock()
			a.refuse = errors.New("no space left")
			a.mu.Unlock()
			time.Sleep(2 * time.Second)
			if got := s.Health().Problems; len(got) != 1 ||
				!strings.Contains(got[0].Text, "no space left") {
				t.Errorf("trouble %q", got)
			}
		})
	})
}

// script of readings, each with its end and its length.
type clockwork struct {
	stats []measure.Stat
	over  []measure.Interval
}

func (c *clockwork) Stats() []measure.Stat { return c.stats }

func (c *clockwork) Run(ctx context.Context, q []measure.Query, sink measure.Sink) error {
	for _, over := range c.over {
		b := &measure.Batch{Stat: q[0].Stat, By: []string{"x", "y"}, Over: over}
		if err := sink.Accept([]*measure.Batch{b}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}
