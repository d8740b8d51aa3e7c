package prom

import (
	"math"

	"culprit/export"
	"culprit/measure"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// grace is how long a tick may be late before it counts as missing.
const grace = 15 * measure.Second

// series is one row of a table. It implements storage.Series.
type series struct {
	labels     labels.Labels
	metric     *metric
	table      *table
	row        *row
	mint, maxt int64 // milliseconds, both inclusive
}

// Labels implements storage.Series.
func (s *series) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series. It ignores the iterator that it could reuse.
func (s *series) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	if s.metric.shape == export.Histogram {
		return storage.NewListSeriesIteratorWithCopy(newHistograms(s))
	}
	return storage.NewListSeriesIterator(newFloats(s))
}

// cells calls each for all cells of a table in order of time, up to the newest measured cell, and
// for the holes between stretches, whose stretch is -1. It returns the end of the newest measured
// cell.
func (t *table) cells(
	each func(stretch, cell int, from, to measure.Time, elapsed measure.Span),
) (newest measure.Time) {
	for _, s := range t.stretches {
		for i, e := range s.elapsed {
			if e > 0 {
				newest = s.start.Add(s.step * measure.Span(i+1))
			}
		}
	}
	var at measure.Time
	for n := range t.stretches {
		s := &t.stretches[n]
		if len(s.elapsed) == 0 {
			continue
		}
		if at != 0 && s.start > at && at < newest {
			each(-1, 0, at, s.start, 0)
		}
		for i, e := range s.elapsed {
			from := s.start.Add(s.step * measure.Span(i))
			if from >= newest {
				return newest
			}
			each(n, i, from, from.Add(s.step), e)
		}
		at = max(at, s.end())
	}
	return newest
}

// ended reports whether the tick after the newest is missing: it was queried, and grace has passed.
func (t *table) ended(newest measure.Time) bool {
	n := len(t.stretches)
	return n > 0 && newest < t.stretches[n-1].end() && newest.Add(max(grace, 3*t.cell)) <= t.now
}

// ms returns a time in Prometheus's milliseconds, rounded down.
func ms(t measure.Time) int64 {
	if t < 0 && t%1e6 != 0 {
		return int64(t)/1e6 - 1
	}
	return int64(t) / 1e6
}

// float is one sample.
type float struct {
	time  int64
	value float64
}

// floats are the samples of a gauge, a rate or a counter.
type floats []float

// newFloats returns the samples of the series:
//   - one at the end of each measured cell. A cell longer than the others has as many samples as
//     those would have: the same value for a gauge, a straight line for a counter;
//   - a stale marker in the first cell without a value;
//   - for a counter, its value at the start of the cell in which the row (re)appears, so that the
//     amount of the first cell counts. When the first amount after midnight would hide the
//     counter's reset, a zero after midnight is added.
func newFloats(s *series) floats {
	var f floats
	m, t, r := s.metric, s.table, s.row
	adds := m.shape == export.Counter
	sum, before := r.before, 0.0
	var today measure.Time
	present, first := false, true
	newest := t.cells(func(n, i int, from, to measure.Time, elapsed measure.Span) {
		v := measure.NaN
		if n >= 0 {
			switch {
			case r.values[n] != nil:
				if i < len(r.values[n]) {
					v = r.values[n][i]
				}
			case m.stat.Sparse && elapsed > 0:
				v = 0
			}
		}
		if d := floor(to-1, day); d != today {
			if !first {
				before, sum = sum, 0
			}
			today = d
		} else {
			before = 0
		}
		if v != v {
			if present {
				f.put(s, from.Add(t.cell), math.Float64frombits(value.StaleNaN))
			}
			present, first = false, false
			return
		}
		parts := max(int(to.Sub(from)/t.cell), 1)
		if !adds {
			for p := 1; p <= parts; p++ {
				f.put(s, from.Add(t.cell*measure.Span(p)), m.value(v))
			}
			present, first = true, false
			return
		}
		amount := m.amount(v, elapsed)
		switch {
		case !present && !first:
			f.put(s, from, m.value(sum))
		case present && before > 0 && amount/float64(parts) >= before:
			f.put(s, today.Add(measure.Millisecond), 0)
		}
		for p := 1; p <= parts; p++ {
			part := amount * float64(p) / float64(parts)
			f.put(s, from.Add(t.cell*measure.Span(p)), m.value(sum+part))
		}
		sum += amount
		present, first = true, false
	})
	if present && t.ended(newest) {
		f.put(s, newest.Add(t.cell), math.Float64frombits(value.StaleNaN))
	}
	return f
}

// value converts a value to the metric's base unit.
func (m *metric) value(v float64) float64 {
	if m.shape == export.Rate { // rates of nanoseconds are already in seconds per second
		return v
	}
	return v / m.unit.Per
}

// put appends a sample, if it is in the time of the series.
func (f *floats) put(s *series, at measure.Time, v float64) {
	t := ms(at)
	if t < s.mint || t > s.maxt {
		return
	}
	if n := len(*f); n > 0 && (*f)[n-1].time >= t { // the row reappears at the time of its marker
		(*f)[n-1].value = v
		return
	}
	*f = append(*f, float{t, v})
}

// Len implements storage.Samples.
func (f floats) Len() int { return len(f) }

// Get implements storage.Samples.
func (f floats) Get(i int) chunks.Sample { return &f[i] }

// T implements chunks.Sample.
func (f *float) T() int64 { return f.time }

// ST implements chunks.Sample: there are no start times.
func (f *float) ST() int64 { return 0 }

// F implements chunks.Sample.
func (f *float) F() float64 { return f.value }

// H implements chunks.Sample: a float has no histogram.
func (f *float) H() *histogram.Histogram { return nil }

// FH implements chunks.Sample: a float has no histogram.
func (f *float) FH() *histogram.FloatHistogram { return nil }

// Type implements chunks.Sample.
func (f *float) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy implements chunks.Sample.
func (f *float) Copy() chunks.Sample { c := *f; return &c }
