package prom

import (
	"math"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// grace is how long the tick after the newest may be under way: until then nobody knows that it is missing.
const grace = 15 * measure.Second

// series is one row of a table as PromQL sees it.
type series struct {
	labels     labels.Labels
	metric     *metric
	table      *table
	row        *row
	mint, maxt int64 // milliseconds, both inclusive
}

// Labels implements storage.Series.
func (s *series) Labels() labels.Labels { return s.labels }

// Iterator implements storage.Series. Each has samples of its own.
func (s *series) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	if s.metric.shape == distribution {
		return storage.NewListSeriesIteratorWithCopy(newHistograms(s))
	}
	return storage.NewListSeriesIterator(newFloats(s))
}

// cells walks over all cells of a table in order of time, also over the holes between stretches, up to the newest that was
// measured. It gives the stretch (-1 in a hole), the cell in it, and the time; and last the end of the newest measured cell.
func (t *table) cells(each func(stretch, cell int, from, to measure.Time, elapsed measure.Span)) (newest measure.Time) {
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

// ended says whether a tick after the newest that was found was looked for, and should have come.
func (t *table) ended(newest measure.Time) bool {
	n := len(t.stretches)
	return n > 0 && newest < t.stretches[n-1].end() && newest.Add(max(grace, 3*t.cell)) <= t.now
}

// ms gives Prometheus's time.
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

// newFloats writes down the samples of the series:
//   - at the end of each cell that was measured its value; in a cell longer than the others as many as those would have had,
//     the same value for a gauge, on a straight line for a counter;
//   - where the row has no value in the next cell, a stale marker there;
//   - for a counter, where the row comes (again), its value at the start of the cell, so that what the row gathered in its first
//     cell counts; and if what it gathers in its first cell after midnight would hide that it began anew, a zero after midnight.
func newFloats(s *series) floats {
	var f floats
	m, t, r := s.metric, s.table, s.row
	adds := m.shape == counter
	sum, before := r.before, 0.0
	var today measure.Time
	there, first := false, true
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
			if there {
				f.put(s, from.Add(t.cell), math.Float64frombits(value.StaleNaN))
			}
			there, first = false, false
			return
		}
		parts := max(int(to.Sub(from)/t.cell), 1)
		if !adds {
			for p := 1; p <= parts; p++ {
				f.put(s, from.Add(t.cell*measure.Span(p)), m.value(v))
			}
			there, first = true, false
			return
		}
		amount := m.amount(v, elapsed)
		switch {
		case !there && !first:
			f.put(s, from, m.value(sum))
		case there && before > 0 && amount/float64(parts) >= before:
			f.put(s, today.Add(measure.Millisecond), 0)
		}
		for p := 1; p <= parts; p++ {
			f.put(s, from.Add(t.cell*measure.Span(p)), m.value(sum+amount*float64(p)/float64(parts)))
		}
		sum += amount
		there, first = true, false
	})
	if there && t.ended(newest) {
		f.put(s, newest.Add(t.cell), math.Float64frombits(value.StaleNaN))
	}
	return f
}

// value gives a value in the base unit.
func (m *metric) value(v float64) float64 {
	if m.shape == rate { // nanoseconds per second are told as seconds per second already
		return v
	}
	return v / m.per
}

func (f *floats) put(s *series, at measure.Time, v float64) {
	t := ms(at)
	if t < s.mint || t > s.maxt {
		return
	}
	if n := len(*f); n > 0 && (*f)[n-1].time >= t { // where a row comes again at once, its marker goes
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

// ST implements chunks.Sample: start times are not told.
func (f *float) ST() int64 { return 0 }

// F implements chunks.Sample.
func (f *float) F() float64 { return f.value }

// H implements chunks.Sample; there is none.
func (f *float) H() *histogram.Histogram { return nil }

// FH implements chunks.Sample; there is none.
func (f *float) FH() *histogram.FloatHistogram { return nil }

// Type implements chunks.Sample.
func (f *float) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Copy implements chunks.Sample.
func (f *float) Copy() chunks.Sample { c := *f; return &c }
