package store

import (
	"context"
	"errors"
	"slices"
	"testing"

	"culprit/measure"
)

func TestDiscard(t *testing.T) {
	dir := t.TempDir()
	s, n, w := filled(t, dir, Options{}, 11)
	w.sets = w.sets[:2]
	start := someTime - someTime%measure.Time(hour)
	end := w.run(t, s, n, start, 9000)
	s.Settle()
	for _, over := range []measure.Interval{
		{Start: start.Add(100 * measure.Second), End: start.Add(117 * measure.Second)},
		{Start: start.Add(hour - 7*measure.Second), End: start.Add(hour + 90*measure.Second)},
		{Start: end.Add(-20 * measure.Second), End: end.Add(-10 * measure.Second)},
	} {
		if err := s.Discard(1, over); err != nil {
			t.Fatal(err)
		}
		n.ticks = slices.DeleteFunc(
			n.ticks,
			func(k naiveTick) bool { return k.id == 1 && k.at > over.Start && k.at <= over.End },
		)
	}
	for _, step := range []measure.Span{measure.Second, 10 * measure.Second} {
		if err := compare(s, n, 1, measure.Query{
			Stat: n.sets[1].Stat.ID, By: []string{"device", "pid"}, Step: step,
		}); err != nil {
			t.Fatal(err)
		}
	}
	// A rollup loses each minute that the time touches and no other; an hour is computed from the
	// remaining minutes.
	whole := &naive{sets: n.sets}
	for _, k := range n.ticks {
		first := slotOf(start+1, measure.Minute)
		m := slotOf(k.at, measure.Minute) - first
		last := slotOf(end.Add(-20*measure.Second), measure.Minute) - first
		if k.id != 1 || m != 1 && m != 59 && m != 60 && m != 61 && m < last {
			whole.ticks = append(whole.ticks, k)
		}
	}
	for _, step := range []measure.Span{measure.Minute, 5 * measure.Minute, hour} {
		q := measure.Query{
			Stat: n.sets[1].Stat.ID,
			By:   []string{"device", "pid"},
			Step: step,
			Over: measure.Interval{Start: start, End: start.Add(2 * hour)},
		}
		if err := compare(s, whole, 1, q); err != nil {
			t.Fatal(err)
		}
	}
	at := w.run(t, s, n, end, 50)
	s.Close()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := compare(s, n, 1, measure.Query{
		Stat: n.sets[1].Stat.ID, Step: measure.Second,
	}); err != nil {
		t.Fatal(err)
	}
	compareAll(
		t, s, &naive{sets: map[uint32]measure.Dataset{2: n.sets[2]}, ticks: n.ticks}, w.r,
		measure.Interval{Start: start, End: at},
	)
	s.Settle()
	wellKept(t, s)
}

func TestDrop(t *testing.T) {
	dir := t.TempDir()
	s, n, w := filled(t, dir, Options{}, 12)
	at := w.run(t, s, n, someTime, 400)
	if err := s.Drop(4); err != nil {
		t.Fatal(err)
	}
	delete(n.sets, 4)
	d4 := w.sets[3]
	w.sets = w.sets[:3]
	at = w.run(t, s, n, at, 20) // the frames of the window still contain it
	for range 2 {
		if _, err := s.Ask(context.Background(), measure.Query{Stat: d4.Stat.ID}); !errors.Is(
			err, measure.ErrUnclear,
		) {
			t.Fatal(err)
		}
		if err := s.Append(at.Add(measure.Second), []uint32{4}, []*measure.Batch{{}}); !errors.Is(
			err, measure.ErrUnclear,
		) {
			t.Fatal(err)
		}
		compareAll(t, s, n, w.r, measure.Interval{Start: someTime, End: at})
		if s.Held(4).Disk != 0 || len(s.Datasets()) != 3 {
			t.Fatal(s.Held(4), s.Datasets())
		}
		s.Settle()
		wellKept(t, s)
		s.Close()
		var err error
		if s, err = Open(dir, Options{}); err != nil {
			t.Fatal(err)
		}
	}
	d4.ID = 0
	if id, err := s.Save(d4); id != 5 || err != nil {
		t.Fatal(id, err)
	}
	s.Close()
}

func TestExpiredSegmentsAreDeleted(t *testing.T) {
	s, n, w := filled(
		t, t.TempDir(), Options{KeepTicks: 20 * measure.Minute, KeepMinutes: hour}, 13,
	)
	defer s.Close()
	start := someTime - someTime%measure.Time(hour)
	end := w.run(t, s, n, start, 9000)
	s.Settle()
	d := s.datasets.byID[1]
	for r, keep := range []measure.Span{20 * measure.Minute, hour, 90 * day} {
		first := d.index[r][0].over
		if end.Sub(first.End) > keep {
			t.Errorf("resolution %d begins %s ago", r, end.Sub(first.End))
		}
	}
	// Only minutes are older than ticks, and only hours are older than minutes: the step of the
	// answer shows that.
	a, err := s.Ask(
		context.Background(),
		measure.Query{
			Stat: d.desc.Stat.ID,
			By:   []string{"device", "pid"},
			Step: measure.Second,
			Over: measure.Interval{Start: end.Add(-50 * measure.Minute), End: end},
		},
	)
	if err != nil || a.Step != measure.Minute || len(a.Notes) == 0 {
		t.Fatal(err, a.Step, a.Notes)
	}
	if a, err = s.Ask(context.Background(), measure.Query{
		Stat: d.desc.Stat.ID, By: []string{"device", "pid"}, Step: measure.Second,
		Over: measure.Interval{Start: start, End: end},
	}); err != nil ||
		a.Step != hour {
		t.Fatal(err, a.Step)
	}
	q := measure.Query{
		Stat: d.desc.Stat.ID,
		By:   []string{"device", "pid"},
		Step: hour,
		Over: measure.Interval{Start: start, End: start.Add(2 * hour)},
	}
	if err := compare(s, n, 1, q); err != nil {
		t.Fatal(err)
	}
	if err := s.retainTo(100 << 10); err != nil {
		t.Fatal(err)
	}
	if bytes, _ := s.diskBytes(); bytes > 100<<10 {
		t.Fatal(bytes)
	}
	wellKept(t, s)
}

// Documents older than everything else are deleted, and the oldest of a kind with too many; the
// newest of a kind stays.
func TestExpiredDocumentsAreDeleted(t *testing.T) {
	dir := t.TempDir()
	o := Options{KeepTicks: hour, KeepMinutes: hour, KeepHours: 2 * hour, Size: 1 << 20}
	s, n, w := filled(t, dir, o, 4)
	limit := int(o.Size) / logShare
	log := func(kind string, at measure.Time, bytes int) {
		t.Helper()
		if err := s.Log(kind, at, make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
	}
	count := func(kind string) (times []measure.Time, bytes int) {
		t.Helper()
		err := s.Logged(
			context.Background(),
			kind,
			measure.Interval{},
			func(at measure.Time, d []byte) error {
				times, bytes = append(times, at), bytes+len(d)
				return nil
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		return times, bytes
	}
	log("once", someTime.Add(-50*day), 9)
	log("few", someTime.Add(-3*hour), 9)
	log("few", someTime.Add(-hour), 9)
	log("few", someTime, 9)
	for i := range measure.Span(500) {
		log("many", someTime.Add(i*measure.Second), 1000)
	}
	w.run(t, s, n, someTime, 2)
	s.Settle()
	if times, _ := count("once"); len(times) != 1 {
		t.Errorf("the newest of a kind is gone")
	}
	if times, _ := count("few"); len(times) != 2 || times[0] != someTime.Add(-hour) {
		t.Errorf("few: %v", times)
	}
	times, bytes := count("many")
	if bytes > limit || bytes < limit/2 || times[len(times)-1] != someTime.Add(499*measure.Second) {
		t.Errorf(
			"many: %d documents of %d bytes, up to %s; the limit is %d", len(times), bytes,
			times[len(times)-1], limit,
		)
	}
	// New documents cause a check before an hour has passed.
	for i := range measure.Span(40) {
		log("many", someTime.Add((500+i)*measure.Second), 1000)
	}
	s.Settle()
	if _, bytes := count("many"); bytes > limit {
		t.Errorf("%d bytes, the limit is %d", bytes, limit)
	}
	// A clock that jumps ahead is distrusted for an hour, for older documents too.
	at := w.run(t, s, n, someTime.Add(30*day), 2)
	s.Settle()
	if times, _ := count("few"); len(times) != 2 {
		t.Errorf("few, just after the clock leapt: %v", times)
	}
	at = w.run(t, s, n, at.Add(40*measure.Minute), 2)
	w.run(t, s, n, at.Add(40*measure.Minute), 2)
	s.Settle()
	if times, _ := count("few"); len(times) != 1 || times[0] != someTime {
		t.Errorf("few, an hour later: %v", times)
	}
	s.Close()
}
