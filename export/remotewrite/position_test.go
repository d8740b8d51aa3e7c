package remotewrite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/measure"

	"github.com/prometheus/prometheus/prompb"
)

// TestRestartsAreNotVisible kills the server between and within rounds, while the receiver is away
// and while it is there. In the end the receiver has exactly what it would have without that.
func TestRestartsAreNotVisible(t *testing.T) {
	m := world(t)
	m.record(t, measure.Delta, measure.Nanoseconds, false, "cgroup.cpu by cgroup")
	m.record(t, measure.Dists, measure.Nanoseconds, false, "disk.latency by device,direction")
	random := rand.New(rand.NewPCG(3, 4))
	from, end := midnight.Add(-1200*measure.Second), midnight.Add(-300*measure.Second)
	for at := from.Add(measure.Second); at <= end; at = at.Add(measure.Second) {
		groups := map[string]float64{}
		for i := range 90 {
			groups[fmt.Sprintf("/g%d", i)] = float64(random.IntN(1000) * (i % 7))
		}
		m.put("cgroup.cpu", at, groups)
		d := measure.Dist{Base: 3}
		d.Add(uint64(1+random.IntN(1e7)), uint64(random.IntN(4)))
		m.ticks["disk.latency"] = append(m.ticks["disk.latency"], tick{
			at: at, elapsed: measure.Second, dists: map[string]measure.Dist{"sda|read": d},
		})
	}
	want, to := receives(t)
	through(t, m, to, 5*measure.Second, from, end)
	for seed := range uint64(6) {
		random := rand.New(rand.NewPCG(seed, 9))
		dir := filepath.Join(t.TempDir(), "positions")
		r, to := receives(t)
		r.replays = true
		var w *Writer
		kills := 0
		for now := from; w == nil || w.from < end; {
			if w == nil {
				w = m.writer(t, now, to, 5*measure.Second, func(_ *Target, s *Source) {
					s.Dir = dir
				})
			}
			ctx, cancel := context.WithCancel(t.Context())
			r.before = nil
			if random.IntN(2) == 0 { // it is killed during a request of this round
				n := random.IntN(3)
				r.before = func() {
					if n--; n < 0 {
						cancel()
					}
				}
			}
			err := w.round(ctx, now)
			if cancel(); err != nil || random.IntN(4) == 0 {
				w = nil
				kills++
			}
			if random.IntN(3) > 0 {
				now = min(now.Add(measure.Span(random.IntN(60))*measure.Second), end)
			}
		}
		if kills < 5 {
			t.Errorf("%d kills", kills)
		}
		for key, samples := range want.series {
			if fmt.Sprint(samples) != fmt.Sprint(r.series[key]) {
				t.Errorf("seed %d: %s: %d of %d samples", seed, key, len(r.series[key]), len(samples))
			}
		}
		for key, all := range want.histograms {
			same := slices.EqualFunc(all, r.histograms[key], func(a, b prompb.Histogram) bool {
				return a.String() == b.String()
			})
			if !same {
				t.Errorf("seed %d: %s: %d of %d", seed, key, len(r.histograms[key]), len(all))
			}
		}
		if len(want.histograms) != 1 || len(r.series) != len(want.series) || len(r.series) < 80 {
			t.Errorf("%d and %d series", len(r.series), len(want.series))
		}
	}
}

// TestPositionOfAnother checks when a file is not used: of another address, of a time to come, and
// a damaged one, which is reported.
func TestPositionOfAnother(t *testing.T) {
	m := world(t)
	_, to := receives(t)
	dir := t.TempDir()
	in := func(_ *Target, s *Source) { s.Dir = dir }
	at := midnight.Add(-1000 * measure.Second)
	w := m.writer(t, at, to, measure.Second, in)
	if err := w.round(t.Context(), at.Add(30*measure.Second)); err != nil {
		t.Fatal(err)
	}
	later := at.Add(10 * measure.Minute)
	if w := m.writer(t, later, to, measure.Second, in); w.from != at.Add(30*measure.Second) {
		t.Errorf("it goes on at %v", w.from)
	}
	if w := m.writer(t, later, to, 5*measure.Second, in); w.from != later {
		t.Errorf("another interval goes on at %v", w.from)
	}
	w = m.writer(t, later, to, measure.Second, in, func(t *Target, _ *Source) { t.Job = "other" })
	if w.from != later {
		t.Errorf("another job goes on at %v", w.from)
	}
	if w := m.writer(t, at, to, measure.Second, in); w.from != at {
		t.Errorf("a clock that was set back goes on at %v", w.from)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{{}, whole[:len(whole)/2], append([]byte("x"), whole...),
		append(slices.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1)} {
		if err := os.WriteFile(names[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		target := Target{URL: to, Interval: measure.Second}
		if err := target.Check(); err != nil {
			t.Fatal(err)
		}
		receiver, err := target.Open("box", "test")
		if err != nil {
			t.Fatal(err)
		}
		w := New(Source{Reader: m, Datasets: m.datasets, Dir: dir}, receiver)
		if p := w.Problems(); len(p) != 1 || !strings.HasSuffix(p[0].Key, " position") ||
			!strings.Contains(p[0].Text, "is damaged") {
			t.Errorf("%v", p)
		}
		if err := w.round(t.Context(), w.from.Add(measure.Second)); err != nil {
			t.Fatal(err)
		}
		if p := w.Problems(); len(p) != 0 {
			t.Errorf("after a new position: %v", p)
		}
	}
}

// FuzzPosition checks that no file needs much memory, and that what is read is written again.
func FuzzPosition(f *testing.F) {
	m := world(f)
	w := m.writer(f, midnight, "http://localhost/", measure.Second)
	d := measure.Dist{Base: 3}
	d.Add(1000, 7)
	w.rows["m"] = map[string]*row{"a": {
		key: []string{"a"}, sum: 3, dist: d, present: true, sent: true, seen: 5, last: 6,
		counted: []cell{{amount: 2, dist: d}},
	}}
	f.Add(w.encode()[len(fileMagic)+4:])
	heapbound.Fuzz(f, func(t *testing.T, payload []byte) {
		got, err := decode(sealed(payload), w.identity())
		if err != nil || got == nil {
			return
		}
		again := &Writer{step: w.step, to: w.to, labels: w.labels, sent: *got}
		if _, err := decode(again.encode(), w.identity()); err != nil {
			t.Errorf("what was read can't be read again: %v", err)
		}
	})
}
