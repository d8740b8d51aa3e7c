package engine

import (
	"cmp"
	"math"
	"slices"

	"culprit/measure"

	"github.com/prometheus/common/model"
)

// maxHole is the distance of two samples, in sample intervals, above which the time between them
// was not measured: a sample that is late is closer, a missing one is farther.
const maxHole = 1.6

// defaultInterval is that of remote write, assumed if an answer has too few samples to measure it.
const defaultInterval = 15 * measure.Second

// grid is the cells of an answer. Cell c covers (start+c*step, start+(c+1)*step].
type grid struct {
	start measure.Time
	step  measure.Span
	cells int
}

// spread calls each for the parts of (from, to] in the cells.
func (g *grid) spread(from, to measure.Time, each func(cell int, part measure.Span)) {
	end := g.start.Add(g.step * measure.Span(g.cells))
	from, to = max(from, g.start), min(to, end)
	if from >= to {
		return
	}
	for c := int(from.Sub(g.start) / g.step); from < to; c++ {
		next := min(g.start.Add(g.step*measure.Span(c+1)), to)
		each(c, next.Sub(from))
		from = next
	}
}

// row is one series in the cells: the sum of what was measured, and the time in which it was.
type row struct {
	sum     []float64 // counter: amounts; else values multiplied by seconds
	covered []measure.Span
}

func newRow(cells int) *row {
	return &row{make([]float64, cells), make([]measure.Span, cells)}
}

// counter reads the samples of a counter. The amount between two samples is spread evenly over the
// time between them. A sample below the one before is a reset; a reset to 0 begins a new row, and
// the time before it was not measured.
func (g *grid) counter(samples []model.SamplePair, interval measure.Span) *row {
	r := newRow(g.cells)
	for i := 1; i < len(samples); i++ {
		from, to := timeOf(samples[i-1]), timeOf(samples[i])
		old, v := float64(samples[i-1].Value), float64(samples[i].Value)
		amount := v - old
		if v < old {
			amount = v
		}
		began := v < old && v == 0
		if began || !isNumber(amount) || isHole(to.Sub(from), interval) {
			continue
		}
		perSpan := amount / float64(to.Sub(from))
		g.spread(from, to, func(c int, part measure.Span) {
			r.sum[c] += perSpan * float64(part)
			r.covered[c] += part
		})
	}
	return r
}

// gauge reads the samples of a gauge. A sample is the value of the interval that ends then.
func (g *grid) gauge(samples []model.SamplePair, interval measure.Span) *row {
	r := newRow(g.cells)
	for i, s := range samples {
		to := timeOf(s)
		from := to.Add(-interval)
		if i > 0 {
			if last := timeOf(samples[i-1]); !isHole(to.Sub(last), interval) {
				from = last
			} else {
				from = max(from, last)
			}
		}
		v := float64(s.Value)
		if !isNumber(v) {
			continue
		}
		g.spread(from, to, func(c int, part measure.Span) {
			r.sum[c] += v * part.Seconds()
			r.covered[c] += part
		})
	}
	return r
}

func isNumber(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func isHole(gap, interval measure.Span) bool {
	return gap <= 0 || float64(gap) > maxHole*float64(interval)
}

func timeOf(s model.SamplePair) measure.Time { return measure.Time(int64(s.Timestamp) * 1e6) }

// intervalOf returns the time between two samples: the median of all series, which a few missing or
// additional samples do not change. Without two samples it is otherwise; 0 is defaultInterval.
func intervalOf(all model.Matrix, otherwise measure.Span) measure.Span {
	var gaps []measure.Span
	for _, s := range all {
		for i := 1; i < len(s.Values); i++ {
			gaps = append(gaps, timeOf(s.Values[i]).Sub(timeOf(s.Values[i-1])))
		}
		for i := 1; i < len(s.Histograms); i++ {
			ms := s.Histograms[i].Timestamp - s.Histograms[i-1].Timestamp
			gaps = append(gaps, measure.Span(ms)*measure.Millisecond)
		}
		if len(gaps) > maxGaps {
			break
		}
	}
	if len(gaps) == 0 {
		return cmp.Or(otherwise, defaultInterval)
	}
	slices.Sort(gaps)
	// A scraper's times vary by milliseconds.
	const digit = 100 * measure.Millisecond
	return max((gaps[len(gaps)/2]+digit/2)/digit*digit, measure.Second)
}

// maxGaps is the number of distances between samples that intervalOf looks at.
const maxGaps = 2000
