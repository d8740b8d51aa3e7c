package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestLatenciesAgainstSorting checks that each quantile is within 0.8 % of the exact one.
func TestLatenciesAgainstSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for name, draw := range map[string]func() int64{
		"log-normal":   func() int64 { return int64(25e3 * math.Exp(r.NormFloat64())) },
		"all the same": func() int64 { return 1234567 },
		"two humps": func() int64 {
			if r.IntN(100) < 3 {
				return 40e6 + r.Int64N(1e6)
			}
			return 20e3 + r.Int64N(100)
		},
		"small": func() int64 { return r.Int64N(300) },
	} {
		c := newCounter()
		var all []int64
		sum := 0.0
		for range 50000 {
			v := draw()
			all = append(all, v)
			sum += float64(v)
			c.add(v)
		}
		slices.Sort(all)
		l := gather([]*counter{c})
		if l.Count() != uint64(len(all)) || l.Sum != sum || int64(l.Least) != all[0] ||
			int64(l.Most) != all[len(all)-1] {
			t.Errorf("%s: %d of %d, sum %v of %v, %d..%d of %d..%d", name, l.Count(), len(all),
				l.Sum, sum, l.Least, l.Most, all[0], all[len(all)-1])
		}
		trimmed := l.trimmed()
		for _, q := range []float64{0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1} {
			want := float64(all[max(0, int(math.Ceil(q*float64(len(all))))-1)])
			// Between two peaks a quantile can be any value, so the range between its neighbours
			// counts.
			if got := l.Quantile(q); math.Abs(got-want) > 0.008*want+1 {
				t.Errorf("%s: quantile %g is %g, want %g", name, q, got, want)
			}
			if trimmed.Quantile(q) != l.Quantile(q) {
				t.Errorf("%s: trimmed it is %g, not %g", name, trimmed.Quantile(q), l.Quantile(q))
			}
		}
	}
}

// TestLatenciesOfParts checks the difference of two states, and the sum of all parts.
func TestLatenciesOfParts(t *testing.T) {
	a, b := newCounter(), newCounter()
	both := []*counter{a, b}
	a.add(100)
	b.add(5e6)
	first := gather(both)
	part1 := first.since(Latencies{})
	a.add(1e6)
	b.add(-1) // a clock that went back counts as 0
	b.add(maxLatency * 4)
	second := gather(both)
	part2 := second.since(first)
	if part1.Count() != 2 || part2.Count() != 3 || part2.Sum != 1e6+4*maxLatency {
		t.Fatalf("%+v %+v", part1, part2)
	}
	if p50 := part2.Quantile(0.5); math.Abs(p50-1e6) > 8e3 {
		t.Errorf("the middle one of the second part is %g", p50)
	}
	whole := part1
	whole.merge(part2)
	whole.merge(Latencies{})
	if whole.Count() != 5 || whole.Sum != second.Sum || !whole.valid() {
		t.Errorf("%+v", whole)
	}
	if second.Most != 4*maxLatency || second.Quantile(1) > float64(second.Most) {
		t.Errorf("the longest is %d, quantile 1 %g", second.Most, second.Quantile(1))
	}
	var none Latencies
	if none.Percentiles() != nil || !math.IsNaN(none.Mean()) {
		t.Error("nothing has percentiles")
	}
}

func TestCounterOfSeveralThreads(t *testing.T) {
	c := newCounter()
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range 1000 {
				c.add(int64(n*1000 + i + 7))
			}
		})
	}
	all.Wait()
	if l := gather([]*counter{c}); l.Count() != 4000 || l.Least != 7 || l.Most != 4006 {
		t.Errorf("%d times, %d to %d", l.Count(), l.Least, l.Most)
	}
	if n := testing.AllocsPerRun(100, func() { c.add(5) }); n != 0 {
		t.Errorf("counting allocates %v times", n)
	}
}
