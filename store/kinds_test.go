package store

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

func chain(frames []measure.Frame, l measure.Label) string {
	var names []string
	for at := int32(l); at >= 0; at = frames[at].Parent {
		names = append(names, frames[at].Symbol)
	}
	return strings.Join(names, "<")
}

// Frames, segments and rollups return the stacks and distributions that were appended.
func TestStacksAndDistributions(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	profile := measure.Stat{
		ID:     "cpu.stack",
		Kind:   measure.Delta,
		Unit:   measure.Events,
		Sparse: true,
		Fields: []measure.Field{{Name: "process"}, {Name: "stack", Type: measure.Stack}},
	}
	latency := measure.Stat{
		ID:     "disk.latency",
		Kind:   measure.Dists,
		Unit:   measure.Nanoseconds,
		Fields: []measure.Field{{Name: "device"}},
	}
	var ids []uint32
	for _, st := range []measure.Stat{profile, latency} {
		id, err := s.Save(
			measure.Dataset{
				Stat: st,
				Query: measure.Query{
					Stat: st.ID,
					By: []string{
						st.Fields[0].Name, st.Fields[len(st.Fields)-1].Name,
					}[:len(st.Fields)],
					Step: measure.Second,
				},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	r := rand.New(rand.NewPCG(4, 4))
	counts := map[string]float64{}
	var all measure.Dist
	all.Base = 3
	at := someTime - someTime%measure.Time(hour)
	start := at
	for range 4500 {
		at += 1e9
		over := measure.Interval{Start: at - 1e9, End: at}
		p := &measure.Batch{
			Stat:   profile.ID,
			By:     []string{"process", "stack"},
			Over:   over,
			Labels: []string{"nginx"},
		}
		seen := map[string]bool{}
		for range r.IntN(3) {
			parent := int32(-1)
			for _, name := range []string{
				"main", string(rune('a' + r.IntN(3))), string(rune('x' + r.IntN(3))),
			} {
				p.Frames = append(
					p.Frames, measure.Frame{Symbol: name, Module: "nginx", Parent: parent},
				)
				parent = int32(len(p.Frames) - 1)
			}
			if c := chain(p.Frames, measure.Label(parent)); !seen[c] {
				seen[c] = true
				counts[c] += 2
				p.Keys, p.Values = append(p.Keys, 0, measure.Label(parent)), append(p.Values, 2)
			}
		}
		d := measure.Dist{Base: 3}
		for range r.IntN(20) {
			d.Add(uint64(r.ExpFloat64()*1e6), 1)
		}
		all.Merge(d)
		l := &measure.Batch{
			Stat:   latency.ID,
			By:     []string{"device"},
			Over:   over,
			Labels: []string{"sda"},
			Keys:   []measure.Label{0},
			Dists:  []measure.Dist{d},
		}
		if err := s.Append(at, ids, []*measure.Batch{p, l}); err != nil {
			t.Fatal(err)
		}
	}
	look := func() {
		t.Helper()
		for _, step := range []measure.Span{measure.Second, measure.Minute, hour} {
			over := measure.Interval{Start: start, End: at}
			a, err := s.Ask(
				t.Context(),
				measure.Query{Stat: profile.ID, By: []string{"stack"}, Over: over, Step: step},
			)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for i, series := range a.Series {
				for c, v := range series.Values {
					got[chain(a.Frames, a.Series[i].Key[0])] += v * a.Elapsed[c].Seconds()
				}
			}
			for c, n := range counts {
				if !alike(got[c], n) || len(got) != len(counts) {
					t.Fatalf("step %s: %s has %v, want %v", step, c, got[c], n)
				}
			}
			if a, err = s.Ask(t.Context(), measure.Query{
				Stat: latency.ID, By: []string{"device"}, Over: over, Step: step,
			}); err != nil ||
				len(a.Series) != 1 {
				t.Fatal(err)
			}
			sum := measure.Dist{Base: 3}
			for _, d := range a.Series[0].Dists() {
				sum.Merge(d)
			}
			if !alike(sum.Sum, all.Sum) || sum.First != all.First ||
				!slices.Equal(sum.Counts, all.Counts) {
				t.Fatalf(
					"step %s: %d values of sum %v, want %d of %v", step, sum.Count(), sum.Sum,
					all.Count(), all.Sum,
				)
			}
		}
	}
	look()
	s.Settle()
	look()
	s.Close()
	if s, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	look()
	s.Close()
}

// Rows of stacks, folded to fewer fields, have the sums of the appended values, from memory,
// segments and rollups, whatever happens to the frames between batches.
func TestStacksFolded(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := newProfiler(300)
	id, err := s.Save(
		measure.Dataset{
			Stat: g.stat,
			Query: measure.Query{
				Stat: g.stat.ID,
				By:   []string{"process", "pid", "cpu", "kernel", "user"},
				Step: measure.Second,
			},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	start := someTime - someTime%measure.Time(hour)
	at := start
	type cell struct {
		process, kernel, user string
		half                  int
	}
	want := map[cell]float64{}
	const from, to = 900, 925 // a short range, whose segment is unpacked for later queries
	short := map[cell]float64{}
	whole := map[measure.Label]string{}
	for n := range 4000 {
		at += 1e9
		b := g.tick(at, 30, 4)
		if n%500 == 499 { // another forest, with other numbers for all nodes
			var turned []measure.Frame
			place := make([]int32, len(b.Frames))
			turned = append(turned, measure.Frame{Symbol: "new", Parent: -1})
			for i, f := range b.Frames {
				if f.Parent >= 0 {
					f.Parent = place[f.Parent]
				}
				place[i] = int32(len(turned))
				turned = append(turned, f)
			}
			for i := range g.stacks {
				g.stacks[i] = measure.Label(place[g.stacks[i]])
			}
			for i := range b.Rows() {
				for k := 3; k < 5; k++ {
					b.Keys[5*i+k] = measure.Label(place[b.Keys[5*i+k]])
				}
			}
			g.frames, b.Frames = turned, turned
			clear(whole)
		}
		text := func(l measure.Label) string {
			if whole[l] == "" {
				whole[l] = measure.FoldedStack(b.Frames, l)
			}
			return whole[l]
		}
		for i := range b.Rows() {
			k := b.Key(i)
			want[cell{b.Labels[k[0]], text(k[3]), text(k[4]), n / 2000}] += b.Values[i]
			if n >= from && n < to {
				short[cell{b.Labels[k[0]], text(k[3]), text(k[4]), 0}] += b.Values[i]
			}
		}
		if err := s.Append(at, []uint32{id}, []*measure.Batch{b}); err != nil {
			t.Fatal(err)
		}
		if n == 2500 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(dir, Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer s.Close()
	s.Settle()
	for range 2 {
		a, err := s.Ask(
			t.Context(),
			measure.Query{
				Stat: g.stat.ID,
				By:   []string{"process", "kernel", "user"},
				Step: (to - from) * measure.Second,
				Over: measure.Interval{
					Start: start.Add(from * measure.Second),
					End:   start.Add(to * measure.Second),
				},
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range a.Series {
			key := cell{a.Label(i, 0), a.Label(i, 1), a.Label(i, 2), 0}
			if is := r.Values[0] * a.Elapsed[0].Seconds(); math.Abs(is-short[key]) > 1e-6 {
				t.Errorf("of %v there are %g in the stretch, want %g", key, is, short[key])
			}
		}
		if len(a.Series) != len(short) {
			t.Errorf("%d rows in the stretch, want %d", len(a.Series), len(short))
		}
	}
	for _, over := range []measure.Interval{
		{Start: start, End: at}, {Start: start.Add(2000 * measure.Second), End: at},
	} {
		step := 2000 * measure.Second
		a, err := s.Ask(
			t.Context(),
			measure.Query{
				Stat: g.stat.ID,
				By:   []string{"process", "kernel", "user"},
				Over: over,
				Step: step,
			},
		)
		if err != nil {
			t.Fatal(err)
		}
		got := map[cell]float64{}
		for i, r := range a.Series {
			if r.Min() != nil || r.Max() != nil {
				t.Fatal("extremes of stacks are nobody's business")
			}
			for c, v := range r.Values {
				if v > 0 {
					got[cell{
						a.Label(i, 0), a.Label(i, 1), a.Label(i, 2),
						c + int(over.Start.Sub(start)/step),
					}] += v * a.Elapsed[c].Seconds()
				}
			}
		}
		some := 0
		for k, v := range want {
			if k.half < int(over.Start.Sub(start)/step) {
				continue
			}
			if some++; math.Abs(got[k]-v) > 1e-6 {
				t.Fatalf("%v: %g samples, want %g", k, got[k], v)
			}
		}
		if len(got) != some {
			t.Errorf("%d rows, want %d", len(got), some)
		}
	}
	// By the minute, from rollups: the same total.
	a, err := s.Ask(
		t.Context(),
		measure.Query{
			Stat: g.stat.ID,
			By:   []string{"cpu"},
			Over: measure.Interval{Start: start, End: start.Add(hour)},
			Step: 10 * measure.Minute,
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, r := range a.Series {
		for c, v := range r.Values {
			sum += v * a.Elapsed[c].Seconds()
		}
	}
	if math.Abs(sum-3600*30) > 1e-3 {
		t.Errorf("%g samples in an hour, want %d", sum, 3600*30)
	}
}

// Samples by stack are equal however they are queried: short and long ranges, repeatedly, of
// windows, segments and rollups.
func TestStackAnswersAgree(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	g := newProfiler(60)
	fields := []string{"process", "pid", "cpu", "kernel", "user"}
	d := measure.Dataset{
		Stat:  g.stat,
		Query: measure.Query{Stat: g.stat.ID, By: fields, Step: measure.Second},
	}
	if d.ID, err = s.Save(d); err != nil {
		t.Fatal(err)
	}
	n, r := &naive{sets: map[uint32]measure.Dataset{d.ID: d}}, rand.New(rand.NewPCG(3, 4))
	at := someTime
	for tick := range 1300 {
		at = at.Add(measure.Second)
		if r.IntN(100) == 0 {
			at = at.Add(measure.Span(r.IntN(5)) * measure.Second)
		}
		b := g.tick(at, 10, 2)
		switch r.IntN(40) {
		case 0:
			b.Over.Start = b.Over.End // could not look
			b.Keys, b.Values = nil, nil
		case 1:
			b.Over.Start = at.Add(-2 * measure.Second)
		case 2:
			b.Keys, b.Values = nil, nil // nothing ran
		}
		n.append(at, []uint32{d.ID}, []*measure.Batch{b})
		if err := s.Append(at, []uint32{d.ID}, []*measure.Batch{b}); err != nil {
			t.Fatal(err)
		}
		if tick == 700 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s, err = Open(dir, Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Settle()
	for range 250 {
		q := measure.Query{
			Stat: d.Stat.ID,
			Step: []measure.Span{1, 1, 5, 10, 60, 120, 600}[r.IntN(7)] * measure.Second,
		}
		for _, f := range fields {
			if r.IntN(2) == 0 {
				q.By = append(q.By, f)
			}
		}
		r.Shuffle(len(q.By), func(i, j int) { q.By[i], q.By[j] = q.By[j], q.By[i] })
		if r.IntN(3) == 0 {
			q.Where = []measure.Term{{Field: "cpu", Op: measure.Equal, Values: []string{"1"}}}
		}
		q.Over.Start = someTime.Add(measure.Span(r.IntN(1300)) * measure.Second)
		if r.IntN(2) == 0 {
			q.Over.Start = floor(q.Over.Start, q.Step)
		}
		q.Over.End = q.Over.Start.Add(
			measure.Span([]int{1, 10, 30, 100, 1000}[r.IntN(5)]) * measure.Second,
		)
		if err := compare(s, n, d.ID, q); err != nil {
			t.Fatalf("over %s..%s: %v", q.Over.Start, q.Over.End, err)
		}
	}
}
