package prom

import (
	"math"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// histograms are the samples of a distribution: native histograms whose custom bounds are those of
// the Dist's buckets, each the largest value of its bucket. So no count moves to another bucket.
type histograms struct {
	series *series
	metric *metric
	events []event
	at     int // the sample up to which counts and sum are gathered; -1 before the first
	base   uint8
	bounds []float64 // shared by all histograms of the series
	first  int32     // bucket of counts[0]
	counts []float64 // gathered since midnight, up to events[at]
	sum    float64
}

// event is one sample: the distributions since the sample before.
type event struct {
	of     *histograms
	index  int
	time   int64
	dists  []measure.Dist
	share  float64 // of the distributions, where a long cell becomes several samples
	newDay bool    // the first sample after midnight
	stale  bool
}

func newHistograms(s *series) *histograms {
	h := &histograms{series: s, metric: s.metric, at: -1}
	t, r := s.table, s.row
	for _, d := range r.past {
		h.setBase(d)
	}
	for _, ds := range r.dists {
		for _, d := range ds {
			h.setBase(d)
		}
	}
	h.bounds = bounds(h.base, h.metric.unit.Per)
	for _, d := range r.past {
		h.add(d, 1)
	}
	var today measure.Time
	present, first, newDay := false, true, false
	add := func(at measure.Time, e event) {
		e.time, e.of, e.index = ms(at), h, len(h.events)
		if n := len(h.events); n > 0 &&
			h.events[n-1].time >= e.time { // the row reappears at its marker
			h.events[n-1].stale = false
			return
		}
		e.newDay, newDay = newDay, false
		switch {
		case e.time < s.mint: // it is counted, but is no sample of the series
			h.advance(e)
		case e.time <= s.maxt:
			h.events = append(h.events, e)
		}
	}
	newest := t.cells(func(n, i int, from, to measure.Time, elapsed measure.Span) {
		if d := floor(to-1, day); d != today {
			newDay = !first
			today = d
		}
		if elapsed == 0 || n < 0 {
			if present {
				add(from.Add(t.cell), event{stale: true})
			}
			present, first = false, false
			return
		}
		var dists []measure.Dist
		if r.dists[n] != nil && i < len(r.dists[n]) && len(r.dists[n][i].Counts) > 0 {
			dists = r.dists[n][i : i+1]
		}
		if !present && !first {
			add(from, event{})
		}
		parts := max(int(to.Sub(from)/t.cell), 1)
		for p := 1; p <= parts; p++ {
			share := 1 / float64(parts)
			add(from.Add(t.cell*measure.Span(p)), event{dists: dists, share: share})
		}
		present, first = true, false
	})
	if present && t.ended(newest) {
		add(newest.Add(t.cell), event{stale: true})
	}
	return h
}

// setBase sets the base to that of the first distribution that is not empty.
func (h *histograms) setBase(d measure.Dist) {
	if h.bounds == nil && len(d.Counts) > 0 {
		h.base, h.bounds = d.Base, []float64{}
	}
}

// bounds returns the largest value of each bucket in the base unit.
func bounds(base uint8, per float64) []float64 {
	n := int(measure.BucketOf(base, 1<<63)) + 1<<base
	out := make([]float64, 0, n)
	for b := range n - 1 {
		v := float64(measure.BucketStart(base, int32(b)+1)-1) / per
		if len(out) > 0 && v <= out[len(out)-1] {
			break
		}
		out = append(out, v)
	}
	return out
}

// advance adds the distributions of the next sample to the counts, which begin at 0 each day.
func (h *histograms) advance(e event) {
	if e.newDay {
		clear(h.counts)
		h.sum = 0
	}
	for _, d := range e.dists {
		h.add(d, e.share)
	}
}

// add adds a share of a distribution to the counts, in buckets of the base of h.
func (h *histograms) add(d measure.Dist, share float64) {
	for i, n := range d.Counts {
		if n == 0 {
			continue
		}
		b := d.First + int32(i)
		if d.Base != h.base {
			b = measure.BucketOf(h.base, measure.BucketStart(d.Base, b))
		}
		switch {
		case len(h.counts) == 0:
			h.first, h.counts = b, append(h.counts, 0)
		case b < h.first:
			h.counts = append(make([]float64, h.first-b), h.counts...)
			h.first = b
		}
		for int(b-h.first) >= len(h.counts) {
			h.counts = append(h.counts, 0)
		}
		h.counts[b-h.first] += float64(n) * share
	}
	h.sum += d.Sum * share
}

// Len implements storage.Samples.
func (h *histograms) Len() int { return len(h.events) }

// Get implements storage.Samples.
func (h *histograms) Get(i int) chunks.Sample { return &h.events[i] }

// T implements chunks.Sample.
func (e *event) T() int64 { return e.time }

// ST implements chunks.Sample: there are no start times.
func (e *event) ST() int64 { return 0 }

// F implements chunks.Sample: a histogram has no float.
func (e *event) F() float64 { return 0 }

// H implements chunks.Sample: the counts are floats.
func (e *event) H() *histogram.Histogram { return nil }

// Type implements chunks.Sample.
func (e *event) Type() chunkenc.ValueType { return chunkenc.ValFloatHistogram }

// Copy implements chunks.Sample. Events are never changed.
func (e *event) Copy() chunks.Sample { return e }

// FH implements chunks.Sample. Samples are read in order of time: the counts already contain the
// samples before. A read of an earlier sample starts again.
func (e *event) FH() *histogram.FloatHistogram {
	h := e.of
	to := &histogram.FloatHistogram{Schema: histogram.CustomBucketsSchema, CustomValues: h.bounds}
	if e.stale {
		to.Sum = math.Float64frombits(value.StaleNaN)
		return to
	}
	if e.index < h.at {
		again := newHistograms(h.series)
		h.counts, h.first, h.sum, h.at = again.counts, again.first, again.sum, -1
	}
	for h.at < e.index {
		h.at++
		h.advance(h.events[h.at])
	}
	if e.newDay {
		to.CounterResetHint = histogram.CounterReset
	}
	for _, c := range h.counts {
		to.Count += c
	}
	to.Sum = h.sum / h.metric.unit.Per
	if len(h.counts) > 0 {
		to.PositiveSpans = []histogram.Span{{Offset: h.first, Length: uint32(len(h.counts))}}
		to.PositiveBuckets = append([]float64(nil), h.counts...)
	}
	return to
}
