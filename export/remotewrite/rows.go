package remotewrite

import (
	"context"
	"math"
	"slices"
	"strings"

	"culprit/export"
	"culprit/measure"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
)

// row is what was sent of a row of a metric. Its counter is sum, and dist for a distribution.
type row struct {
	key     []string
	sum     float64
	dist    measure.Dist // Sum is unused: sum has it
	present bool         // in the newest cell
	// sent is set while the series exist at the receiver. Counters that never moved are not sent.
	sent bool
	seen measure.Time // end of the newest cell that had a value
	last measure.Time // of the newest sample

	// counted are the newest cells that the counter contains, oldest first. When a part of a tick
	// is recorded after its cell was written, the difference is added to the next sample.
	counted []cell
	until   measure.Time   // the end of the newest answer that had the row
	labels  []prompb.Label // nil: not made yet
}

// cell is what a row had in one cell: an amount, or a distribution.
type cell struct {
	amount float64
	dist   measure.Dist
}

// clone returns a copy that keeps no answer in memory.
func (c cell) clone() cell {
	c.dist.Counts = slices.Clone(c.dist.Counts)
	return c
}

// metric appends the samples of a metric over an interval, and returns the number of its series at
// the end. The error is the context's or the reader's.
func (w *Writer) metric(ctx context.Context, m *metric, over measure.Interval) (int, error) {
	step := max(w.step, m.step)
	over.Start, over.End = floor(over.Start, step), floor(over.End, step)
	rows := w.rows[m.name]
	if rows == nil {
		rows = map[string]*row{}
		w.rows[m.name] = rows
	}
	if over.Start >= over.End { // no cell of a longer step ends here
		return w.seriesOf(m, rows), nil
	}
	asked := over
	if m.accumulates() {
		asked.Start = over.Start.Add(-step * measure.Span(lateCells(step)))
	}
	a, err := w.source.Reader.Ask(ctx, m.ask(asked, step))
	if err != nil {
		return w.seriesOf(m, rows), err
	}
	if len(a.Elapsed) > 0 && a.Step != step {
		return w.seriesOf(m, rows), nil // the archive has longer cells only
	}
	if n := w.seriesIn(m, a); w.omitted[m.name] || n > m.Bound {
		return n, w.end(ctx, m, rows, over.Start)
	}
	for text, r := range rows {
		if len(r.key) != len(m.Labels) { // kept by another version
			delete(rows, text)
		}
	}
	key := make([]string, len(a.Query.By))
	for i := range a.Series {
		s := &a.Series[i]
		for j, l := range s.Key {
			key[j] = a.Labels[l]
		}
		text := strings.Join(key, "\xff")
		r := rows[text]
		if r == nil {
			r = &row{key: slices.Clone(key)}
			rows[text] = r
		}
		r.until = over.End
		if err := w.row(ctx, m, r, a, s, over.Start); err != nil {
			return 0, err
		}
	}
	for _, r := range rows { // rows without a series in the answer were absent in all cells
		if r.present && r.until != over.End {
			if err := w.row(ctx, m, r, a, &measure.Series{}, over.Start); err != nil {
				return 0, err
			}
		}
	}
	return w.seriesOf(m, rows), nil
}

// accumulates reports whether the samples of the metric are sums since its rows appeared.
func (m *metric) accumulates() bool {
	return m.shape == export.Counter || m.shape == export.Histogram
}

// seriesOf returns how many series the rows have at the receiver.
func (w *Writer) seriesOf(m *metric, rows map[string]*row) (n int) {
	for _, r := range rows {
		if r.sent {
			n += w.seriesPerRow(m)
		}
	}
	return n
}

// seriesIn returns how many series an answer would add: those with a value, and of counters only
// those that move.
func (w *Writer) seriesIn(m *metric, a *measure.Answer) (n int) {
	for i := range a.Series {
		s := &a.Series[i]
		moves := slices.ContainsFunc(s.Values, func(v float64) bool {
			return v == v && (v != 0 || !m.accumulates())
		}) || slices.ContainsFunc(s.Dists(), func(d measure.Dist) bool { return len(d.Counts) > 0 })
		if moves {
			n += w.seriesPerRow(m)
		}
	}
	return n
}

// seriesPerRow returns the number of series of a row.
func (w *Writer) seriesPerRow(m *metric) int {
	if m.shape == export.Histogram && w.to.target.Histograms == Classic {
		return len(classicBounds(m.Unit)) + 3
	}
	return 1
}

// end ends all rows of a metric that is left out.
func (w *Writer) end(ctx context.Context, m *metric, rows map[string]*row, at measure.Time) error {
	for text, r := range rows {
		if r.sent {
			b := w.builder(m, r)
			b.stale(at.Add(max(w.step, m.step)))
			if err := b.flush(ctx, w); err != nil {
				return err
			}
		}
		delete(rows, text)
	}
	return nil
}

// lateCells returns how many written cells are read again for parts of ticks that were late.
func lateCells(step measure.Span) int { return int((maxLateness + step - 1) / step) }

// cellOf returns what a series has in cell c of an answer; ok is false if that is nothing.
func (m *metric) cellOf(a *measure.Answer, s *measure.Series, c int) (got cell, ok bool) {
	if c < 0 || c >= len(a.Elapsed) || a.Elapsed[c] <= 0 {
		return cell{}, false
	}
	if m.shape == export.Histogram {
		dists := s.Dists()
		if c >= len(dists) || len(dists[c].Counts) == 0 {
			return cell{}, false
		}
		return cell{amount: dists[c].Sum, dist: dists[c]}, true
	}
	if c >= len(s.Values) || s.Values[c] != s.Values[c] {
		return cell{}, false
	}
	if m.shape == export.Counter {
		return cell{amount: m.amount(s.Values[c], a.Elapsed[c])}, true
	}
	return cell{amount: s.Values[c]}, true
}

// late returns what was recorded of counted cells after they were written. The first n cells of the
// answer are written.
func (r *row) late(m *metric, a *measure.Answer, s *measure.Series, n int) (more cell) {
	if !r.present {
		return more
	}
	for i := range r.counted {
		before := &r.counted[i]
		got, ok := m.cellOf(a, s, n-len(r.counted)+i)
		if !ok {
			continue
		}
		grown := got.amount > before.amount
		if m.shape == export.Histogram { // the sum of zeros does not grow
			grown = got.dist.Count() > before.dist.Count()
		}
		if grown {
			more.amount += got.amount - before.amount
			more.dist.Base = got.dist.Base
			more.dist.Merge(difference(got.dist, before.dist))
			*before = got.clone()
		}
	}
	return more
}

// count adds a cell to the counter.
func (r *row) count(got cell, step measure.Span) {
	r.add(got)
	if r.counted = append(r.counted, got.clone()); len(r.counted) > lateCells(step) {
		r.counted = slices.Delete(r.counted, 0, 1)
	}
}

func (r *row) add(got cell) {
	r.sum += got.amount
	if len(r.dist.Counts) == 0 {
		r.dist.Base = got.dist.Base
	}
	r.dist.Merge(got.dist)
}

// moves reports whether a cell changes a counter.
func moves(c cell) bool { return c.amount != 0 || len(c.dist.Counts) > 0 }

// reset forgets a row that ended, but the times.
func (r *row) reset() {
	r.present, r.sent, r.sum, r.dist, r.counted = false, false, 0, measure.Dist{}, nil
}

// row appends the samples of a row from start on; earlier cells are written. A row without a value
// in a cell was absent there.
func (w *Writer) row(ctx context.Context, m *metric, r *row, a *measure.Answer, s *measure.Series,
	start measure.Time,
) error {
	b := w.builder(m, r)
	written := int(start.Sub(a.Start) / a.Step)
	late := r.late(m, a, s, written)
	holds := m.stat.Sparse || m.shape == export.Histogram
	for c := written; c < len(a.Elapsed); c++ {
		from := a.Start.Add(a.Step * measure.Span(c))
		to := from.Add(a.Step)
		got, ok := m.cellOf(a, s, c)
		if ok {
			r.seen = to
		} else if a.Elapsed[c] > 0 && holds && r.present && to.Sub(r.seen) <= sparseHold {
			ok = true // it is 0
		}
		if !ok {
			if r.sent {
				b.stale(to)
			}
			r.reset()
			continue
		}
		r.present = true
		if !m.accumulates() {
			r.sum, r.sent = got.amount, true
			b.sample(to)
			continue
		}
		if !r.sent && (moves(got) || moves(late)) {
			b.sample(w.zeroTime(r, from)) // the counter is still 0
			r.sent = true
		}
		r.add(late)
		late = cell{}
		r.count(got, a.Step)
		if r.sent {
			b.sample(to)
		}
	}
	return b.flush(ctx, w)
}

// zeroTime returns the time of the sample of 0 with which a counter begins: the start of its first
// cell. It is a millisecond later when a sample of that time may have been sent, by the round
// before or by an earlier run of the server: a receiver rejects a request that repeats a time.
func (w *Writer) zeroTime(r *row, cell measure.Time) measure.Time {
	if r.last >= cell || cell == w.first {
		return cell.Add(measure.Millisecond)
	}
	return cell
}

// builder makes the samples of one row in one round.
type builder struct {
	w      *Writer
	m      *metric
	r      *row
	series []prompb.TimeSeries
	n      int // samples
}

func (w *Writer) builder(m *metric, r *row) *builder {
	if r.labels == nil {
		r.labels = m.labels(r.key, w.labels)
	}
	return &builder{w: w, m: m, r: r}
}

// sample appends the current value of the row.
func (b *builder) sample(at measure.Time) {
	b.r.last = at
	switch {
	case b.m.shape != export.Histogram:
		b.float(0, at, b.m.value(b.r.sum))
	case b.w.to.target.Histograms == Classic:
		b.classic(at)
	default:
		b.native(at, nativeOf(b.r, b.m.unit.Per))
	}
}

// stale appends the end of the row.
func (b *builder) stale(at measure.Time) {
	b.r.last = at
	none := math.Float64frombits(value.StaleNaN)
	if b.m.shape == export.Histogram && b.w.to.target.Histograms != Classic {
		b.native(at, prompb.Histogram{Sum: none})
		return
	}
	for i := range b.w.seriesPerRow(b.m) {
		b.float(i, at, none)
	}
}

// float appends a sample to series i of the row. A row that reappears at the time of its stale
// marker replaces the marker.
func (b *builder) float(i int, at measure.Time, v float64) {
	for len(b.series) <= i {
		b.series = append(b.series, prompb.TimeSeries{Labels: b.labels(len(b.series))})
	}
	s, t := &b.series[i], ms(at)
	if n := len(s.Samples); n > 0 && s.Samples[n-1].Timestamp >= t {
		s.Samples[n-1].Value = v
		return
	}
	s.Samples = append(s.Samples, prompb.Sample{Timestamp: t, Value: v})
	b.n++
}

// native appends a native histogram, in the same way.
func (b *builder) native(at measure.Time, h prompb.Histogram) {
	if len(b.series) == 0 {
		b.series = append(b.series, prompb.TimeSeries{Labels: b.r.labels})
	}
	s := &b.series[0]
	h.Timestamp = ms(at)
	b.n += 1 + len(h.PositiveDeltas)/8
	if n := len(s.Histograms); n > 0 && s.Histograms[n-1].Timestamp >= h.Timestamp {
		s.Histograms[n-1] = h
		return
	}
	s.Histograms = append(s.Histograms, h)
}

// labels returns the labels of series i of the row.
func (b *builder) labels(i int) []prompb.Label {
	if b.m.shape != export.Histogram {
		return b.r.labels
	}
	return classicLabels(b.r.labels, b.m, i)
}

// flush moves the series to the request.
func (b *builder) flush(ctx context.Context, w *Writer) error {
	for _, s := range b.series {
		if err := w.add(ctx, s, max(1, b.n/len(b.series))); err != nil {
			return err
		}
	}
	return nil
}
