package view

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"culprit/measure"
)

// randomAnswer returns an answer by some fields.
func randomAnswer(rnd *rand.Rand, labels []string, by ...string) *measure.Answer {
	a := &measure.Answer{
		Query:   measure.Query{By: by},
		Sparse:  rnd.IntN(2) == 0,
		Elapsed: []measure.Span{measure.Second},
		Labels:  labels,
	}
	for range rnd.IntN(60) {
		s := measure.Series{Values: []float64{float64(rnd.IntN(9))}}
		if rnd.IntN(8) == 0 {
			s.Values[0] = measure.NaN
		}
		for range by {
			s.Key = append(s.Key, measure.Label(rnd.IntN(len(labels))))
		}
		a.Series = append(a.Series, s)
	}
	return a
}

// TestPivotAndMeanAgreeWithMaps compares pivots and means with maps by joined texts.
func TestPivotAndMeanAgreeWithMaps(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	same := func(a, b float64) bool { return a == b || a != a && b != b }
	for range 300 {
		labels := []string{"a", "b", "c", "eth2", "eth10", ""}
		p := NewPivot("x", "y")
		var m Mean
		sum, weight := map[string]float64{}, map[string]float64{}
		want, rows := make([]map[string]float64, 4), map[string]bool{}
		for col := range want {
			if rnd.IntN(3) == 0 { // another dictionary, or the same one grown
				labels = append([]string{fmt.Sprint("w", rnd.IntN(5))}, labels...)
			} else {
				labels = append(labels, fmt.Sprint("w", rnd.IntN(5)))
			}
			by := [][]string{{"x", "y"}, {"y", "x", "z"}, {"x"}}[rnd.IntN(3)]
			a := randomAnswer(rnd, labels, by...)
			where := [][]string{nil, {"x", "a"}, {"z", ""}}[rnd.IntN(3)]
			if got := p.Add(a, where...); got != col {
				t.Fatalf("column %d, want %d", got, col)
			}
			want[col] = map[string]float64{}
			for i, s := range a.Series {
				if len(where) > 0 && a.LabelOf(i, where[0]) != where[1] {
					continue
				}
				id := a.LabelOf(i, "x") + " " + a.LabelOf(i, "y")
				rows[id] = true
				v := s.Values[0]
				if old, ok := want[col][id]; ok && old == old {
					if v == v {
						v += old
					} else {
						v = old
					}
				}
				want[col][id] = v
			}
			for id := range rows {
				if _, ok := want[col][id]; !ok && a.Sparse {
					want[col][id] = 0
				}
			}
			if len(by) == 2 {
				m.Add(&Frame{Answers: []*measure.Answer{a}})
				for i, s := range a.Series {
					id := a.LabelOf(i, "x") + " " + a.LabelOf(i, "y")
					if v := s.Values[0]; v == v {
						sum[id] += v
						weight[id]++
					}
				}
			}
			p.Sort()
		}
		if p.Len() != len(rows) {
			t.Fatalf("%d rows, want %d", p.Len(), len(rows))
		}
		for r := range p.Len() {
			for col := range want {
				v, ok := want[col][p.ID(r)]
				if !ok {
					v = p.empty[col]
				}
				if got := p.At(r, col); !same(got, v) {
					t.Fatalf("row %q column %d: %v, want %v", p.ID(r), col, got, v)
				}
			}
			if p.Key(r, "x")+" "+p.Key(r, "y") != p.ID(r) {
				t.Fatalf("row %q has keys %q and %q", p.ID(r), p.Key(r, "x"), p.Key(r, "y"))
			}
		}
		if m.Len() > 0 {
			a := m.Frame().Answers[0]
			for i := range a.Series {
				id := a.LabelOf(i, "x") + " " + a.LabelOf(i, "y")
				v := measure.NaN
				if weight[id] > 0 {
					v = sum[id] / weight[id]
				}
				if got := a.Series[i].Values[0]; weight[id] > 0 && math.Abs(got-v) > 1e-9 &&
					!a.Sparse {
					t.Fatalf("mean of %q: %v, want %v", id, got, v)
				}
			}
		}
	}
}

// TestPivotInBuffers compares a pivot in Buffers, which remembers texts and orders, with a fresh
// one, while dictionaries and rows change. It also compares a mean with a map.
func TestPivotInBuffers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	reused := &Frame{Buffers: &Buffers{}}
	var labels []string
	var a *measure.Answer
	var mean Mean
	sums, times := map[string]float64{}, map[string]float64{}
	for n := range 2000 {
		switch rnd.IntN(6) {
		case 0: // other words in other memory
			labels = nil
			for range 4 + rnd.IntN(8) {
				labels = append(labels, fmt.Sprint("eth", rnd.IntN(12)))
			}
			a = nil
		case 1: // one more, perhaps in the same memory
			labels = append(labels, fmt.Sprint("eth", rnd.IntN(12)))
		}
		if labels == nil {
			labels = []string{"eth2", "eth10"}
		}
		if a == nil || rnd.IntN(3) == 0 { // other rows
			a = randomAnswer(rnd, labels, "x", "y")
			a.Sparse = false
		}
		a.Labels = labels
		if len(a.Series) > 1 && rnd.IntN(3) == 0 {
			i := rnd.IntN(len(a.Series) - 1)
			a.Series[i], a.Series[i+1] = a.Series[i+1], a.Series[i]
		}
		mean.Add(&Frame{Answers: []*measure.Answer{a}})
		for i, s := range a.Series {
			if id := a.Label(i, 0) + " " + a.Label(i, 1); s.Values[0] == s.Values[0] {
				sums[id] += s.Values[0]
				times[id]++
			}
		}
		if rnd.IntN(500) == 0 {
			reused.Buffers.pivot.words.generation = math.MaxUint32
		}
		var got [2]string
		for i, p := range []*Pivot{reused.NewPivot("x", "y"), NewPivot("x", "y")} {
			p.Add(a)
			p.Sort()
			for r := range p.Len() {
				got[i] += fmt.Sprintf("%s=%v\n", p.ID(r), p.At(r, 0))
			}
		}
		if got[0] != got[1] {
			t.Fatalf("%d: reused\n%s, fresh\n%s", n, got[0], got[1])
		}
	}
	of := mean.Frame().Answers[0]
	for i := range of.Series {
		id := of.Label(i, 0) + " " + of.Label(i, 1)
		if got, want := of.Series[i].Values[0], sums[id]/times[id]; times[id] > 0 &&
			math.Abs(got-want) > 1e-9 {
			t.Errorf("mean of %q: %v, want %v", id, got, want)
		}
		delete(times, id)
	}
	if len(times) > 0 {
		t.Errorf("no means of %v", times)
	}
}

// BenchmarkPivot joins eight answers of 100 devices and adds them to a mean.
func BenchmarkPivot(b *testing.B) {
	var labels []string
	f := &Frame{}
	for i := range 100 {
		labels = append(labels, fmt.Sprint("eth", i))
	}
	labels = append(labels, "", "rx", "tx")
	for range 8 {
		a := &measure.Answer{
			Query:   measure.Query{By: []string{"netns", "device", "direction"}},
			Elapsed: []measure.Span{measure.Second},
			Labels:  labels,
		}
		for i := range measure.Label(100) {
			a.Series = append(
				a.Series, measure.Series{Key: []measure.Label{100, i, 101}, Values: []float64{1}},
				measure.Series{Key: []measure.Label{100, i, 102}, Values: []float64{2}},
			)
		}
		f.Answers = append(f.Answers, a)
	}
	var m Mean
	b.ReportAllocs()
	for b.Loop() {
		p := NewPivot("netns", "device")
		for _, a := range f.Answers {
			p.Add(a, "direction", "rx")
			p.Add(a, "direction", "tx")
		}
		p.Sort()
		m.Add(f)
	}
}

// Both ends of a connection have the same value. Their order must not depend on the order of
// measuring.
func TestSortByBreaksTiesByKey(t *testing.T) {
	for _, ports := range [][]string{{"443", "9", "80", "7"}, {"9", "443", "80", "7"}} {
		a := &measure.Answer{
			Query:   measure.Query{By: []string{"port"}},
			Elapsed: []measure.Span{measure.Second},
			Labels:  ports,
		}
		for i, port := range ports {
			v := map[string]float64{"443": 5, "9": 5, "80": 7, "7": 0}[port]
			a.Series = append(
				a.Series,
				measure.Series{Key: []measure.Label{measure.Label(i)}, Values: []float64{v}},
			)
		}
		p := NewPivot("port")
		c := p.Add(a)
		p.SortBy(func(r int) float64 { return p.At(r, c) }, 0)
		var got []string
		for r := range p.Len() {
			got = append(got, p.Key(r, "port"))
		}
		if want := []string{"80", "9", "443", "7"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestFirstRowsAreTheFirstOfAll sorts only the first rows, and compares them with a sort of all.
// The other rows must follow once each.
func TestFirstRowsAreTheFirstOfAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		labels := []string{""}
		a := &measure.Answer{
			Query:   measure.Query{By: []string{"x"}},
			Elapsed: []measure.Span{measure.Second},
		}
		n := 1 + rnd.IntN(40)
		for i := range n {
			labels = append(labels, fmt.Sprint("eth", rnd.IntN(1000), "-", i))
			v := float64(rnd.IntN(4)) // many are equal, and many are 0
			if rnd.IntN(8) == 0 {
				v = measure.NaN
			}
			a.Series = append(
				a.Series,
				measure.Series{Key: []measure.Label{measure.Label(i + 1)}, Values: []float64{v}},
			)
		}
		a.Labels = labels
		ids := func(first int) (all []string) {
			p := NewPivot("x")
			c := p.Add(a)
			p.SortBy(func(r int) float64 { return p.At(r, c) }, first)
			for r := range p.Len() {
				all = append(all, p.ID(r))
			}
			return all
		}
		whole, first := ids(0), 1+rnd.IntN(n+2)
		some := ids(first)
		if k := min(first, n); strings.Join(some[:k], " ") != strings.Join(whole[:k], " ") {
			t.Fatalf("the first %d are %v, of all %v", first, some[:k], whole[:k])
		}
		slices.Sort(some)
		slices.Sort(whole)
		if !slices.Equal(some, whole) {
			t.Fatalf("%v, and all are %v", some, whole)
		}
	}
}
