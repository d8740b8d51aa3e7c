package load

import (
	"sync/atomic"

	"culprit/measure"
)

// Latencies are counted in the buckets of measure.Dist with Base 7: each power of two has 128, so a
// quantile is off by less than 0.8 %. The last bucket, of two minutes, also contains all longer
// latencies. The maximum is exact.
const (
	latencyBase = 7
	maxLatency  = 1<<37 - 1 // ns
)

// counter counts latencies. Several threads may add while another reads.
type counter struct {
	buckets []uint64 // atomic
	sum     atomic.Uint64
	least   atomic.Uint64 // the minimum + 1; 0: none
	most    atomic.Uint64
}

func newCounter() *counter {
	return &counter{buckets: make([]uint64, measure.BucketOf(latencyBase, maxLatency)+1)}
}

// add counts a latency of ns nanoseconds.
func (c *counter) add(ns int64) {
	v := uint64(max(ns, 0))
	atomic.AddUint64(&c.buckets[measure.BucketOf(latencyBase, min(v, maxLatency))], 1)
	c.sum.Add(v)
	for m := c.most.Load(); v > m && !c.most.CompareAndSwap(m, v); m = c.most.Load() {
	}
	m := c.least.Load()
	for (m == 0 || v+1 < m) && !c.least.CompareAndSwap(m, v+1) {
		m = c.least.Load()
	}
}

// Latencies is the distribution of the latencies of transactions, in ns.
type Latencies struct {
	Least  uint64   `json:"min_ns"`
	Most   uint64   `json:"max_ns"`
	Sum    float64  `json:"sum_ns"`
	First  int32    `json:"first_bucket"` // of measure.Dist with Base 7
	Counts []uint64 `json:"counts"`
}

// gather returns the sum of counters.
func gather(all []*counter) Latencies {
	var l Latencies
	for _, c := range all {
		l.Sum += float64(c.sum.Load())
		l.Most = max(l.Most, c.most.Load())
		if m := c.least.Load(); m > 0 && (l.Least == 0 || m-1 < l.Least) {
			l.Least = m - 1
		}
		if l.Counts == nil {
			l.Counts = make([]uint64, len(c.buckets))
		}
		for i := range c.buckets {
			l.Counts[i] += atomic.LoadUint64(&c.buckets[i])
		}
	}
	return l
}

// trimmed returns l without the empty buckets at both ends.
func (l Latencies) trimmed() Latencies {
	from, to := 0, len(l.Counts)
	for from < to && l.Counts[from] == 0 {
		from++
	}
	for to > from && l.Counts[to-1] == 0 {
		to--
	}
	l.First, l.Counts = l.First+int32(from), append([]uint64(nil), l.Counts[from:to]...)
	return l
}

// since returns the latencies after an earlier state of the same counters. Least and Most are the
// bounds of its buckets: the exact values are unknown.
func (l Latencies) since(earlier Latencies) Latencies {
	out := Latencies{Sum: l.Sum - earlier.Sum, Counts: make([]uint64, len(l.Counts))}
	copy(out.Counts, l.Counts)
	for i, n := range earlier.Counts {
		out.Counts[i] -= n
	}
	out = out.trimmed()
	if n := len(out.Counts); n > 0 {
		out.Least = max(l.Least, measure.BucketStart(latencyBase, out.First))
		out.Most = min(l.Most, measure.BucketStart(latencyBase, out.First+int32(n))-1)
	}
	return out
}

// merge adds the latencies of o.
func (l *Latencies) merge(o Latencies) {
	switch {
	case o.Count() == 0:
		return
	case l.Count() == 0:
		*l = o
		l.Counts = append([]uint64(nil), o.Counts...)
		return
	}
	d := measure.Dist{Base: latencyBase, First: l.First, Counts: l.Counts, Sum: l.Sum}
	d.Merge(measure.Dist{Base: latencyBase, First: o.First, Counts: o.Counts, Sum: o.Sum})
	l.First, l.Counts, l.Sum = d.First, d.Counts, d.Sum
	l.Least, l.Most = min(l.Least, o.Least), max(l.Most, o.Most)
}

// Count returns the number of latencies.
func (l *Latencies) Count() uint64 {
	d := measure.Dist{Counts: l.Counts}
	return d.Count()
}

// Mean returns the mean, NaN when there are none.
func (l *Latencies) Mean() float64 {
	if n := l.Count(); n > 0 {
		return l.Sum / float64(n)
	}
	return measure.NaN
}

// Quantile returns the latency below which the share q lies, off by less than 0.8 %; NaN when there
// are none.
func (l *Latencies) Quantile(q float64) float64 {
	d := measure.Dist{Base: latencyBase, First: l.First, Counts: l.Counts}
	v := d.Quantile(q)
	if v != v {
		return v
	}
	return min(max(v, float64(l.Least)), float64(l.Most))
}

// maxBuckets is above the number of buckets of a counter.
const maxBuckets = 1 << 13

// valid reports whether l can come from counters.
func (l *Latencies) valid() bool {
	return l.First >= 0 && l.First < maxBuckets && len(l.Counts) <= maxBuckets && l.Sum >= 0 &&
		l.Least <= l.Most
}
