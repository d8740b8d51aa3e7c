package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// Whatever changes, a dataset that stays misses no tick and gets none twice.
func TestChangesDoNotAffectOtherDatasets(t *testing.T) {
	for _, offset := range []time.Duration{0, 300 * time.Millisecond, 960 * time.Millisecond, 999 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(offset)
			src, a := newMeters(), newMemory(nil)
			src.slow = 3 * time.Millisecond
			live(t, src, a, []string{"m.a by x,y"}, func(s *Set) {
				time.Sleep(5 * time.Second)
				b := enable(t, s, "m.b by x") // two changes in a second
				c := enable(t, s, "m.c")
				time.Sleep(5 * time.Second)
				if err := s.Suspend("page", b); err != nil {
					t.Error(err)
				}
				if err := s.Destroy("page", c); err != nil {
					t.Error(err)
				}
				time.Sleep(4 * time.Second)
				if err := s.Resume("page", b); err != nil {
					t.Error(err)
				}
				time.Sleep(20 * time.Millisecond)
				if err := s.Suspend("page", b); err != nil {
					t.Error(err)
				}
				time.Sleep(4 * time.Second)
				unbroken(t, "m.a", a.stamps(1), measure.Second, 15)
				before := a.stamps(b)
				if i := slices.IndexFunc(before, func(at measure.Time) bool { return at.Sub(before[0]) > 6*measure.Second }); i > 0 {
					t.Errorf("m.b was recorded while it was suspended: %v", before[i])
				}
				unbroken(t, "m.b", before, measure.Second, 3)
				if n := len(a.stamps(c)); n != 0 {
					t.Errorf("%d ticks of what was destroyed", n)
				}
				var amount, measured float64
				var end measure.Time
				for _, k := range a.ticks {
					for i, id := range k.ids {
						if id == 1 {
							b := k.batches[i]
							amount, measured = amount+b.Values[0], measured+b.Over.Seconds()
							if end != 0 && b.Over.Start != end {
								t.Errorf(
									"the interval at %v begins at %v and not at %v",
									k.at,
									b.Over.Start,
									end,
								)
							}
							end = b.Over.End
						}
					}
				}
				if amount != measured {
					t.Errorf("%g in %g seconds", amount, measured)
				}
				if late := s.Health().Late; late != 0 {
					t.Errorf("%d late ticks", late)
				}
				if n := src.runs.Load(); n > 6 {
					t.Errorf("%d runs", n)
				}
			})
		})
	}
}

// The first tick comes within 1.3 s of the start, whenever in a second that is.
func TestFirstTickIsSoon(t *testing.T) {
	const second = measure.Time(measure.Second)
	for ms := measure.Span(0); ms < 1000; ms++ {
		at := (1000 * second).Add(ms * measure.Millisecond)
		from := firstReading(at, measure.Second)
		tick := from - from%second + second
		if from.Sub(at) < openingTime || tick.Sub(from) < minFirstInterval ||
			tick.Sub(at) > measure.Second+minFirstInterval+openingTime {
			t.Errorf(
				"from %v on the first reading is at %v and the first tick at %v",
				at,
				from,
				tick,
			)
		}
		if from := firstReading(at, measure.Minute); from != at.Add(openingTime) {
			t.Errorf("from %v on the first reading of a minute is at %v", at, from)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(130 * time.Millisecond)
		a := newMemory(nil)
		live(t, newMeters(), a, []string{"m.a"}, func(s *Set) {
			time.Sleep(3 * time.Second)
			unbroken(t, "m.a", a.stamps(1), measure.Second, 3)
			got, err := s.Ask(t.Context(), measure.Query{Stat: "m.a"})
			if err != nil || len(got.Elapsed) == 0 || got.Elapsed[0] != 820*measure.Millisecond ||
				math.Abs(got.Series[0].Values[0]-10) > 1e-9 {
				t.Errorf("the first tick is %+v, %v; want a rate over 0.82 s", got, err)
			}
		})
	})
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
			for _, same := range []string{`m.a by y,x where x != "c"`, `m.a by x where x != "c"`, `m.a where x != "c" and y = "a"`} {
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
			if _, err := s.Enable("page", measure.Query{Stat: "m.a", Step: 1500 * measure.Millisecond}); err == nil {
				t.Error("a step of 1.5 s is no whole number of seconds")
			}
			for _, err := range []error{s.Suspend("page", 99), s.Resume("page", 99), s.Destroy("page", 99), s.Discard("page", 99, measure.Interval{End: 1})} {
				if err == nil || !strings.Contains(err.Error(), "no dataset 99") {
					t.Errorf("unknown dataset: %v", err)
				}
			}
		})
	})
}

func TestDifferentSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMemory(nil)
		live(t, newMeters(), a, []string{"m.a by x,y"}, func(s *Set) {
			q, _ := s.Parse("m.b by x")
			q.Step = 10 * measure.Second
			id, err := s.Enable("page", q)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(45 * time.Second)
			unbroken(t, "each second", a.stamps(1), measure.Second, 40)
			unbroken(t, "each 10 s", a.stamps(id), 10*measure.Second, 4)
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
			src.stats[1].Fields,
			measure.Field{Name: "z", Type: measure.Word},
		)
		live(t, src, a, append(defaults, "m.b by z", "m.n"), func(s *Set) {
			if got := sentences(s); got != `m.b by x,y suspended; m.c by x where y = "b" suspended; m.b by x,y,z recording; m.n recording` {
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
			want := "default made 1, default made 2, page made 3, command line suspended 3, page destroyed 1, default made 4, default suspended 2, default made 5"
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

// The parts of a process's CPU time add up to it, whatever the clocks say.
func TestCosts(t *testing.T) {
	s := &Set{meters: []meter{{what: "one"}, {what: "two"}}}
	at := time.Unix(1000, 0)
	a := usageSample{
		at:       at,
		process:  5e9,
		recorded: 1e9,
		meters:   []measure.Span{1e9, 2e9},
		garbage:  garbage{1, 10},
	}
	for _, c := range []struct {
		process measure.Span
		garbage garbage
		want    string
	}{
		{15e9, garbage{2, 20}, "0.1: datasets 0.03, one 0.02, two 0.01, garbage collection 0.01, other 0.03"},
		// the wall clock of a busy machine
		{15e9, garbage{5, 50}, "0.1: datasets 0.03, one 0.02, two 0.01, garbage collection 0.01, other 0.03"},
		{15e9, garbage{9, 20}, "0.1: datasets 0.03, one 0.02, two 0.01, garbage collection 0.04, other 0"},
		// none was collected
		{15e9, garbage{1, 10}, "0.1: datasets 0.03, one 0.02, two 0.01, garbage collection 0, other 0.04"},
		// a clock that ran ahead
		{10e9, garbage{2, 20}, "0.05: datasets 0.03, one 0.02, two 0.01, garbage collection 0, other 0"},
	} {
		b := usageSample{
			at:       at.Add(100 * time.Second),
			process:  c.process,
			recorded: 4e9,
			meters:   []measure.Span{3e9, 3e9},
			garbage:  c.garbage,
		}
		whole, parts := s.costs(&a, &b)
		got := fmt.Sprintf("%.3g:", whole)
		for _, p := range parts {
			what, _, _ := strings.Cut(p.Name, ":")
			got += fmt.Sprintf(" %s %.2g,", what, p.CPU)
		}
		if got = strings.TrimSuffix(got, ","); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMeters()
		live(t, src, newMemory(nil), []string{"m.a by x,y", "m.b"}, func(s *Set) {
			if u := s.Usage(1); u.CPU == u.CPU {
				t.Errorf("before the first tick: %v", u)
			}
			for range 90 {
				src.cost.Add(int64(10 * measure.Millisecond)) // each statistic takes 1 % of a CPU
				time.Sleep(time.Second)
			}
			a, b, none := s.Usage(1), s.Usage(2), s.Usage(9)
			if a.Samples != 4 || b.Samples != 1 {
				t.Errorf("samples a second: %g and %g, want 4 and 1", a.Samples, b.Samples)
			}
			// Folding and storing take real time, for which a fake minute is long.
			if a.CPU < 0.0095 || a.CPU > 0.0115 || b.CPU < 0.0095 || b.CPU > 0.0115 ||
				none.CPU == none.CPU {
				t.Errorf("CPU %g, %g and %g, want 0.01, 0.01 and NaN", a.CPU, b.CPU, none.CPU)
			}
			if h := s.Health(); !(h.CPU >= 0) || h.Started == 0 {
				t.Errorf("health %+v", h)
			}
		})
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

// One tick of two sources is recorded as one.
func TestTwoSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, m := newMeters(), newMeters(), newMemory(nil)
		a.stats, b.stats = a.stats[:1], b.stats[1:]
		b.slow = 20 * time.Millisecond
		c := New(a, b)
		s, err := NewSet(c, m, []string{"m.a by x,y", "m.b by x,y"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Run(ctx); close(done) }()
		time.Sleep(6 * time.Second)
		enable(t, s, "m.c")
		time.Sleep(6 * time.Second)
		stop()
		<-done
		unbroken(t, "m.a", m.stamps(1), measure.Second, 9)
		unbroken(t, "m.b", m.stamps(2), measure.Second, 9)
		for _, k := range m.ticks[:len(m.ticks)-1] { // the end may come between the two
			if len(k.ids) < 2 {
				t.Errorf("the tick of %v has %v", k.at, k.ids)
			}
		}
	})
}

// recordTwo records m.a of one source and m.c of another until stop, which waits for the end.
func recordTwo(t *testing.T, a, b *meters, m *memory) (s *Set, stop func()) {
	t.Helper()
	s, err := NewSet(New(a, b), m, []string{"m.a by x,y", "m.c by x,y"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Run(ctx); close(done) }()
	return s, func() { end(); <-done }
}

// A source that a busy machine delays, before it reads or after, costs no dataset a tick, loses no
// amount, and does not count as a clock change.
func TestDelayedSource(t *testing.T) {
	for _, long := range []time.Duration{400, 600, 990, 1010, 1400, 1600, 2300, 2700, 5583} {
		long *= time.Millisecond
		for name, holds := range map[string]map[int]stall{
			"before": {4: {before: long}}, "after": {4: {after: long}}, "twice": {4: {after: long}, 5: {before: long}}, "again": {4: {before: long}, 6: {after: long}},
		} {
			for which := range 3 {
				synctest.Test(t, func(t *testing.T) {
					a, b, m := newMeters(), newMeters(), newMemory(nil)
					a.stats, b.stats = a.stats[:1], b.stats[2:]
					a.slow = time.Millisecond
					if which != 0 {
						b.holds = holds
					}
					if which != 1 {
						a.holds = holds
					}
					s, stop := recordTwo(t, a, b, m)
					time.Sleep(20 * time.Second)
					stop()
					what := fmt.Sprintf("held %s by %v, %d", name, long, which)
					for id := range uint32(2) {
						held := which == 2 || which == int(id)
						id++
						var at, end measure.Time
						amount, stretch := 0.0, 0.0
						for _, k := range m.ticks {
							for i, of := range k.ids {
								b := k.batches[i]
								if of != id {
									continue
								}
								if b.Over.Span() == 0 {
									t.Errorf(
										"%s: dataset %d has nothing at %v: %v",
										what,
										id,
										k.at,
										b.Notes,
									)
									continue
								}
								switch {
								case k.at != floor(b.Over.End, measure.Second):
									t.Errorf(
										"%s: what ends at %v is the tick of %v",
										what,
										b.Over.End,
										k.at,
									)
								case at != 0 && k.at <= at,
									at != 0 && k.at != at.Add(measure.Second) && !held:
									t.Errorf("%s: %v follows on %v", what, k.at, at)
								case end != 0 && b.Over.Start != end:
									t.Errorf(
										"%s: the interval of %v begins at %v and not at %v",
										what,
										k.at,
										b.Over.Start,
										end,
									)
								}
								at, end = k.at, b.Over.End
								amount, stretch = amount+b.Values[0], stretch+b.Over.Seconds()
							}
						}
						if stretch < 17 || math.Abs(amount-stretch) > 1e-6 {
							t.Errorf("%s: dataset %d has %g in %g s", what, id, amount, stretch)
						}
					}
					changes, err := s.Changes(t.Context(), measure.Interval{})
					if err != nil {
						t.Fatal(err)
					}
					for _, c := range changes {
						if c.Actor == "clock" {
							t.Errorf("%s: the clock was %s", what, c.Action)
						}
					}
				})
			}
		}
	}
}

// A source that reports nothing any more is a problem; the others continue.
func TestSilentSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, m := newMeters(), newMeters(), newMemory(nil)
		a.stats, b.stats = a.stats[:1], b.stats[2:]
		b.holds = map[int]stall{4: {before: 30 * time.Second}}
		s, stop := recordTwo(t, a, b, m)
		time.Sleep(20 * time.Second)
		if got := s.Health().Problems; len(got) != 1 ||
			!strings.Contains(
				got[0].Text,
				"m.c and the statistics measured with it have reported nothing since",
			) {
			t.Errorf("trouble %q", got)
		}
		unbroken(t, "m.a", m.stamps(1), measure.Second, 18)
		time.Sleep(20 * time.Second)
		if got := s.Health().Problems; len(got) != 0 {
			t.Errorf("when it has come, trouble %q", got)
		}
		stop()
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

func TestClockSet(t *testing.T) {
	sec := func(at, long float64) measure.Interval {
		end := measure.Time((10000 + at) * 1e9)
		return measure.Interval{Start: end.Add(-measure.Span(long * 1e9)), End: end}
	}
	for name, c := range map[string]struct {
		over []measure.Interval
		want string // seconds since 10000
		says string
	}{
		"jitter":         {[]measure.Interval{sec(1.001, 1), sec(2.004, 1.003), sec(3.001, 0.997)}, "1 2 3", ""},
		"late":           {[]measure.Interval{sec(1, 1), sec(2.7, 1.7), sec(3, 0.3)}, "1 2 3", ""},
		"missed":         {[]measure.Interval{sec(1, 1), sec(3.2, 2.2), sec(4, 0.8)}, "1 3 4", ""},
		"set forward":    {[]measure.Interval{sec(1, 1), sec(101.5, 1), sec(102, 0.5)}, "1 101 102", "set forward"},
		"set back a bit": {[]measure.Interval{sec(1, 1), sec(2, 1), sec(3, 4)}, "1 2 3", "set back"},
		"set back":       {[]measure.Interval{sec(101, 1), sec(102, 1), sec(3, 1), sec(4, 1)}, "3 4", "set back, discarded"},
		"set back, much held": {[]measure.Interval{sec(1, 1), sec(4000, 3999), sec(4001, 1), sec(2, 1), sec(3, 1)},
			"1 4000 4001 4002 4003", "set back"},
		"set back by hours, little held": {[]measure.Interval{sec(9001, 1), sec(9002, 1), sec(3, 1), sec(4, 1)}, "3 4", "set back, discarded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := &clockwork{stats: newMeters().stats[:1], over: c.over}
			a := newMemory(nil)
			live(t, src, a, []string{"m.a by x,y"}, func(s *Set) {
				var got []string
				for _, at := range a.stamps(1) {
					got = append(
						got,
						fmt.Sprint(int(at.Sub(measure.Time(10000*1e9))/measure.Second)),
					)
				}
				changes, err := s.Changes(t.Context(), measure.Interval{})
				if err != nil {
					t.Fatal(err)
				}
				var says []string
				for _, c := range changes {
					if c.Actor == "clock" {
						says = append(says, c.Action)
					}
				}
				if strings.Join(got, " ") != c.want || strings.Join(says, ", ") != c.says {
					t.Errorf("%s: stamps %v, says %v; want %s, %s", name, got, says, c.want, c.says)
				}
			})
		})
	}
}

// Two collectors of one statistic read one after the other: the tick has the longer interval, and
// the rates are those that each measured.
func TestAmountsAreScaledToOneInterval(t *testing.T) {
	st := network().stats[0]
	q := measure.Query{Stat: st.ID, By: []string{"device", "direction"}, Step: measure.Second}
	k := newDatasetFolder(measure.Dataset{ID: 1, Query: q, Stat: st})
	labels := []string{"eth0", "rx", "eth1"}
	batches := []*measure.Batch{
		{
			Stat:   st.ID,
			By:     q.By,
			Over:   measure.Interval{Start: 0, End: 1e9},
			Labels: labels,
			Keys:   []measure.Label{0, 1},
			Values: []float64{100},
		},
		{
			Stat:   st.ID,
			By:     q.By,
			Over:   measure.Interval{Start: 0, End: 2e9},
			Labels: labels,
			Keys:   []measure.Label{2, 1},
			Values: []float64{100},
		},
	}
	got := k.batchesFor(batches, true, nil)
	if len(got) != 1 || got[0].Over.Span() != 2*measure.Second ||
		!slices.Equal(got[0].Values, []float64{200, 100}) {
		t.Errorf("%+v", got[0])
	}
	batches[1].Over.End = 1e9
	if got = k.batchesFor(batches, true, nil); len(got) != 2 || got[0] != batches[0] ||
		got[1] != batches[1] {
		t.Errorf("batches of one interval were changed: %d", len(got))
	}
}

// An archive may be ahead of the clock of the program that opens it.
func TestArchiveAheadOfTheClock(t *testing.T) {
	for _, c := range []struct {
		name    string
		at      float64 // of the first tick of the second program; the archive is at 9003
		want    string
		trouble string
	}{
		{"behind it", 9010, "9002 9003 9010", ""},
		{"at the same second", 9003.2, "9002 9003", ""},
		{"a second ahead", 9002.5, "9002", ""},
		{"hours ahead", 5, "9002 9003 9004", "2h29m59s ahead"},
	} {
		synctest.Test(t, func(t *testing.T) {
			sec := func(at float64) measure.Interval {
				end := measure.Time((10000 + at) * 1e9)
				return measure.Interval{Start: end.Add(-measure.Second), End: end}
			}
			src, a := &clockwork{
				stats: newMeters().stats[:1],
				over:  []measure.Interval{sec(9002), sec(9003)},
			}, newMemory(
				nil,
			)
			live(t, src, a, []string{"m.a by x,y"}, func(*Set) {})
			src.over = []measure.Interval{sec(c.at)}
			live(t, src, a, nil, func(s *Set) {
				var got []string
				for _, at := range a.stamps(1) {
					got = append(
						got,
						fmt.Sprint(int(at.Sub(measure.Time(10000*1e9))/measure.Second)),
					)
				}
				if text := strings.Join(got, " "); text != c.want {
					t.Errorf("%s: kept %s, want %s", c.name, text, c.want)
				}
				if said := fmt.Sprint(s.Health().Problems); (said != "[]") != (c.trouble != "") ||
					!strings.Contains(said, c.trouble) {
					t.Errorf("%s: trouble %q, want %q", c.name, said, c.trouble)
				}
			})
		})
	}
}
