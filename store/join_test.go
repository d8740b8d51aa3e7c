package store

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// shortLived makes batches whose rows exist for one tick, like the threads of a build: each has a
// process of its own. With stacks its last field is a stack.
type shortLived struct {
	id     uint32
	batch  measure.Batch
	stacks bool
	long   int // additional bytes of a command's name
	next   int
}

func newShortLived(tb testing.TB, s *Store, n int, stacks bool) *shortLived {
	tb.Helper()
	fields := []measure.Field{
		{Name: "pid"},
		{Name: "tid"},
		{Name: "command"},
		{Name: "user"},
		{Name: "cgroup"},
		{Name: "mode"},
	}
	if stacks {
		fields[5] = measure.Field{Name: "stack", Type: measure.Stack}
	}
	st := measure.Stat{
		ID:     measure.StatID(fmt.Sprintf("bench.short%d", n)),
		Kind:   measure.Delta,
		Unit:   measure.Nanoseconds,
		Fields: fields,
	}
	g := &shortLived{stacks: stacks}
	q := measure.Query{Stat: st.ID, Step: 10 * measure.Second}
	for _, f := range fields {
		q.By = append(q.By, f.Name)
	}
	var err error
	if g.id, err = s.Save(measure.Dataset{Stat: st, Query: q}); err != nil {
		tb.Fatal(err)
	}
	g.batch = measure.Batch{Stat: st.ID, By: q.By}
	return g
}

// tick makes a batch of new rows.
func (g *shortLived) tick(at measure.Time, rows int) *measure.Batch {
	b := &g.batch
	b.Over = measure.Interval{Start: at.Add(-10 * measure.Second), End: at}
	b.Labels, b.Keys, b.Values, b.Frames = nil, b.Keys[:0], b.Values[:0], nil
	label := func(text string) measure.Label {
		b.Labels = append(b.Labels, text)
		return measure.Label(len(b.Labels) - 1)
	}
	user, group, mode := label(
		"1000",
	), label(
		"/user.slice/user-1000.slice/session-1.scope",
	), label(
		"user",
	)
	command := func() measure.Label {
		name := fmt.Sprintf("program%d", g.next%200)
		if g.long > 0 {
			name = fmt.Sprintf("%s %d %s", name, g.next, strings.Repeat("x", g.long))
		}
		return label(name)
	}
	for range rows {
		g.next++
		pid := label(fmt.Sprint(100_000 + g.next))
		last := mode
		if g.stacks {
			for depth := range 12 {
				parent := int32(len(b.Frames) - 1)
				if depth == 0 {
					parent = -1
				}
				b.Frames = append(b.Frames, measure.Frame{
					Parent: parent,
					Symbol: fmt.Sprintf("function_%d_%d", depth, g.next%(1<<depth)),
					Module: "program",
				})
			}
			last = measure.Label(len(b.Frames) - 1)
		}
		b.Keys = append(b.Keys, pid, pid, command(), user, group, last)
		b.Values = append(b.Values, float64(1000+g.next%5000))
	}
	return b
}

// anHour appends an hour with that many new rows each 10 s. last appends the tick that causes the
// hour to be joined, and waits.
func anHour(tb testing.TB, s *Store, sets []*shortLived, rows int) (last func()) {
	tb.Helper()
	start := measure.Time(int64(someTime) / int64(hour) * int64(hour))
	tick := func(at measure.Time, rows int) {
		var ids []uint32
		var batches []*measure.Batch
		for _, g := range sets {
			ids, batches = append(ids, g.id), append(batches, g.tick(at, rows))
		}
		if err := s.Append(at, ids, batches); err != nil {
			tb.Fatal(err)
		}
	}
	at := start.Add(10 * measure.Second)
	for ; at < start.Add(hour+windowSpan); at = at.Add(10 * measure.Second) {
		if at <= start.Add(hour) {
			tick(at, rows)
		} else {
			tick(at, 1)
		}
		if at.Sub(start)%windowSpan == 0 {
			s.Settle()
		}
	}
	return func() {
		tick(at, 1) // one window after the end of the hour
		s.Settle()
	}
}

// liveHeap calls f and returns the largest growth of the live heap meanwhile.
func liveHeap(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	read := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	runtime.GC()
	before, most := read(), uint64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			most = max(most, read())
			select {
			case <-done:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	}()
	f()
	close(done)
	<-ended
	return most - min(most, before)
}

// The data joined at a time is bounded in bytes, whatever the rows of an hour are, and no row is
// lost.
func TestJoinIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rows   int
		stacks bool
		long   int
		parts  int // at least; 0: the hour fits into one
	}{
		{"few rows", 2, false, 0, 0},
		{"many rows", 100, false, 0, 2},
		{"long texts", 15, false, 4000, 3},
		{"stacks", 150, true, 0, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Open(t.TempDir(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			g := newShortLived(t, s, 0, tt.stacks)
			g.long = tt.long
			anHour(t, s, []*shortLived{g}, tt.rows)()
			d, ends, rows := s.datasets.byID[g.id], measure.Time(0), uint32(0)
			joined := 0
			for _, e := range d.index[inMinutes] {
				if !e.done {
					continue
				}
				joined++
				rows += e.rows
				if ends > e.over.Start {
					t.Errorf("segments of %s and of a time up to %s overlap", e.over.Start, ends)
				}
				ends = e.over.End
				b, err := e.read(&s.codec, s.disk.fetch, d, nil)
				if err != nil {
					t.Fatal(err)
				}
				if cost := b.joinCost(len(d.stack)); cost > joinBytes {
					t.Errorf("%d rows joined take %d bytes", e.rows, cost)
				}
			}
			if want := uint32(360 * tt.rows); rows != want {
				t.Errorf("%d rows are in joined segments, want %d", rows, want)
			}
			if joined < tt.parts || tt.parts == 0 && joined != 1 {
				t.Errorf("joined to %d segments", joined)
			}
			hours := uint32(0)
			for _, e := range d.index[inHours] {
				hours += e.rows
			}
			if hours != rows {
				t.Errorf("%d rows are in segments of hours, %d in those of minutes", hours, rows)
			}
		})
	}
}

// BenchmarkJoinHour joins an hour of a machine that builds software, and reports the memory that it
// takes.
func BenchmarkJoinHour(b *testing.B) {
	for _, bb := range []struct {
		name   string
		rows   int // new ones each 10 s
		stacks bool
	}{{"threads", 100, false}, {"stacks", 100, true}} {
		b.Run(bb.name, func(b *testing.B) {
			var peak uint64
			for b.Loop() {
				b.StopTimer()
				s, err := Open(b.TempDir(), Options{})
				if err != nil {
					b.Fatal(err)
				}
				var sets []*shortLived
				for n := range 4 {
					sets = append(sets, newShortLived(b, s, n, bb.stacks))
				}
				last := anHour(b, s, sets, bb.rows)
				peak = max(peak, liveHeap(func() {
					b.StartTimer()
					last()
					b.StopTimer()
				}))
				joined := 0
				for _, d := range s.datasets.byID {
					for _, e := range d.index[inMinutes] {
						joined += b2i(e.joins)
					}
				}
				if joined == 0 {
					b.Fatal("nothing was joined")
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(peak)/1e6, "MB-alive")
		})
	}
}
