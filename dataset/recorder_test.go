package dataset

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"culprit/measure"
)

// Whatever changes, a dataset that stays misses no tick and gets none twice.
func TestChangesDoNotAffectOtherDatasets(t *testing.T) {
	for _, offset := range []time.Duration{
		0, 300 * time.Millisecond, 960 * time.Millisecond, 999 * time.Millisecond,
	} {
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
				if i := slices.IndexFunc(before, func(at measure.Time) bool {
					return at.Sub(before[0]) > 6*measure.Second
				}); i > 0 {
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
									"the interval at %v begins at %v and not at %v", k.at,
									b.Over.Start, end,
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
				"from %v on the first reading is at %v and the first tick at %v", at, from, tick,
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
			"before": {4: {before: long}},
			"after":  {4: {after: long}},
			"twice":  {4: {after: long}, 5: {before: long}},
			"again":  {4: {before: long}, 6: {after: long}},
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
										"%s: dataset %d has nothing at %v: %v", what, id, k.at,
										b.Notes,
									)
									continue
								}
								switch {
								case k.at != floor(b.Over.End, measure.Second):
									t.Errorf(
										"%s: what ends at %v is the tick of %v", what, b.Over.End,
										k.at,
									)
								case at != 0 && k.at <= at,
									at != 0 && k.at != at.Add(measure.Second) && !held:
									t.Errorf("%s: %v follows on %v", what, k.at, at)
								case end != 0 && b.Over.Start != end:
									t.Errorf(
										"%s: the interval of %v begins at %v and not at %v", what,
										k.at, b.Over.Start, end,
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
				got[0].Text, "m.c and the statistics measured with it have reported nothing since",
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
		"jitter": {[]measure.Interval{
			sec(1.001, 1), sec(2.004, 1.003), sec(3.001, 0.997),
		}, "1 2 3", ""},
		"late":   {[]measure.Interval{sec(1, 1), sec(2.7, 1.7), sec(3, 0.3)}, "1 2 3", ""},
		"missed": {[]measure.Interval{sec(1, 1), sec(3.2, 2.2), sec(4, 0.8)}, "1 3 4", ""},
		"set forward": {[]measure.Interval{
			sec(1, 1), sec(101.5, 1), sec(102, 0.5),
		}, "1 101 102", "set forward"},
		"set back a bit": {[]measure.Interval{
			sec(1, 1), sec(2, 1), sec(3, 4),
		}, "1 2 3", "set back"},
		"set back": {[]measure.Interval{
			sec(101, 1), sec(102, 1), sec(3, 1), sec(4, 1),
		}, "3 4", "set back, discarded"},
		"set back, much held": {[]measure.Interval{
			sec(1, 1), sec(4000, 3999), sec(4001, 1), sec(2, 1), sec(3, 1),
		},
			"1 4000 4001 4002 4003", "set back"},
		"set back by an hour, an hour held": {[]measure.Interval{
			sec(1, 1), sec(3601, 3600), sec(1, 1), sec(2, 1),
		},
			"1 3601 3602 3603", "set back"},
		"set back by an hour, a second less held": {[]measure.Interval{
			sec(2, 1), sec(3601, 3599), sec(1, 1), sec(2, 1),
		}, "1 2", "set back, discarded"},
		"set back by hours, little held": {[]measure.Interval{
			sec(9001, 1), sec(9002, 1), sec(3, 1), sec(4, 1),
		}, "3 4", "set back, discarded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			src := &clockwork{stats: newMeters().stats[:1], over: c.over}
			a := newMemory(nil)
			live(t, src, a, []string{"m.a by x,y"}, func(s *Set) {
				var got []string
				for _, at := range a.stamps(1) {
					got = append(
						got, fmt.Sprint(int(at.Sub(measure.Time(10000*1e9))/measure.Second)),
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
			whole := math.Floor(c.at)
			base := floor(now(), measure.Second).Add(-measure.Span(whole * 1e9))
			sec := func(at float64) measure.Interval {
				end := base.Add(measure.Span(at * 1e9))
				return measure.Interval{Start: end.Add(-measure.Second), End: end}
			}
			src, a := &clockwork{
				stats: newMeters().stats[:1],
				over:  []measure.Interval{sec(9002), sec(9003)},
			}, newMemory(
				nil,
			)
			live(t, src, a, []string{"m.a by x,y"}, func(*Set) {})
			time.Sleep(time.Duration((c.at - whole) * 1e9)) // the second program runs at c.at
			src.over = []measure.Interval{sec(c.at)}
			live(t, src, a, nil, func(s *Set) {
				var got []string
				for _, at := range a.stamps(1) {
					got = append(
						got, fmt.Sprint(int(at.Sub(base)/measure.Second)),
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
