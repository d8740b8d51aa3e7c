package prom

import (
	"context"
	"math"

	"culprit/measure"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"
)

// sent is what was written of a row.
type sent struct {
	labels  []prompb.Label
	sum     float64      // of a counter
	present bool         // in the newest cell
	seen    measure.Time // end of the newest cell that had a value
	last    measure.Time // of the newest sample

	// counted are the amounts of the newest cells that sum contains, oldest first. When a part of a
	// tick is recorded after its cell was written, the difference is added to the next sample.
	counted []float64
}

// metric appends the samples of a metric over an interval.
func (w *Writer) metric(ctx context.Context, m *metric, over measure.Interval) error {
	rows := w.rows[m.name]
	if rows == nil {
		rows = map[string]*sent{}
		w.rows[m.name] = rows
	}
	step := max(w.step, m.step)
	k := asker{w.api.reader, over.End, maxSamples}
	over.Start, over.End = floor(over.Start, step), floor(over.End, step)
	if over.Start >= over.End { // no cell of a longer step ends here
		return nil
	}
	asked := over
	if m.shape == counter {
		asked.Start = over.Start.Add(-step * measure.Span(lateCells(step)))
	}
	done := map[*sent]bool{}
	var last *measure.Answer
	for _, where := range m.where {
		a, err := k.ask(ctx, m, where, asked, step)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			w.readError = string(m.stat.ID) + " can't be read: " + err.Error()
			continue
		}
		last = a
		key := make([]string, len(a.Query.By))
		for i := range a.Series {
			s := &a.Series[i]
			for j, l := range s.Key {
				key[j] = a.Labels[l]
			}
			text := keyText(key)
			r := rows[text]
			if r == nil {
				r = &sent{labels: seriesLabels(m.labels(key), w.labels)}
				rows[text] = r
			}
			if done[r] { // two datasets have it
				continue
			}
			done[r] = true
			if err := w.row(ctx, m, r, a, s.Values, over.Start); err != nil {
				return err
			}
		}
	}
	for _, r := range rows { // rows without a series in the answers were absent in all cells
		if r.present && !done[r] && last != nil {
			if err := w.row(ctx, m, r, last, nil, over.Start); err != nil {
				return err
			}
		}
	}
	return nil
}

// lateCells returns how many written cells are read again for parts of ticks that were late.
func lateCells(step measure.Span) int { return int((maxLateness + step - 1) / step) }

// addLate adds to a counter the amounts that were recorded after their cells were written. The
// first n cells of the answer are written.
func (r *sent) addLate(m *metric, a *measure.Answer, values []float64, n int) {
	if !r.present || len(r.counted) == 0 {
		return
	}
	for c := max(0, n-len(r.counted)); c < min(n, len(values), len(a.Elapsed)); c++ {
		before := &r.counted[len(r.counted)-n+c]
		if v := values[c]; a.Elapsed[c] > 0 && v == v {
			if amount := m.amount(v, a.Elapsed[c]); amount > *before {
				r.sum += amount - *before
				*before = amount
			}
		}
	}
}

// count adds the amount of a cell to a counter.
func (r *sent) count(amount float64, step measure.Span) {
	r.sum += amount
	if r.counted = append(r.counted, amount); len(r.counted) > lateCells(step) {
		r.counted = r.counted[:copy(r.counted, r.counted[1:])]
	}
}

// row appends the samples of a row from start on; earlier cells are written. A row without a value
// in a cell was absent there; values may be shorter than the answer.
func (w *Writer) row(ctx context.Context, m *metric, r *sent, a *measure.Answer, values []float64,
	start measure.Time,
) error {
	var samples []prompb.Sample
	add := func(at measure.Time, v float64) {
		t := ms(at)
		r.last = at
		// A row that reappears at the time of its stale marker replaces the marker.
		if n := len(samples); n > 0 && samples[n-1].Timestamp >= t {
			samples[n-1].Value = v
			return
		}
		samples = append(samples, prompb.Sample{Timestamp: t, Value: v})
	}
	written := int(start.Sub(a.Start) / a.Step)
	r.addLate(m, a, values, written)
	for c := written; c < len(a.Elapsed); c++ {
		elapsed := a.Elapsed[c]
		from := a.Start.Add(a.Step * measure.Span(c))
		to := from.Add(a.Step)
		v := measure.NaN
		if c < len(values) && elapsed > 0 {
			v = values[c]
		}
		if v != v && elapsed > 0 && m.stat.Sparse && r.present && to.Sub(r.seen) <= sparseHold {
			v = 0
		} else if v == v {
			r.seen = to
		}
		switch {
		case v != v:
			if r.present {
				add(to, math.Float64frombits(value.StaleNaN))
			}
			r.present, r.sum, r.counted = false, 0, nil
			continue
		case m.shape == counter:
			if !r.present {
				add(w.begin(r, from), 0)
			}
			r.count(m.amount(v, elapsed), a.Step)
			add(to, m.value(r.sum))
		default:
			add(to, m.value(v))
		}
		r.present = true
	}
	if len(samples) == 0 {
		return nil
	}
	series := prompb.TimeSeries{Labels: r.labels, Samples: samples}
	w.request.Timeseries = append(w.request.Timeseries, series)
	if w.samples += len(samples); w.samples >= maxRequestSamples {
		return w.flush(ctx)
	}
	return nil
}

// begin returns the time of the sample of 0 with which a counter begins: the start of its first
// cell. It is a millisecond later when a sample of that time may have been sent, by the round
// before or by an earlier run of the server: a receiver rejects a request that repeats a time.
func (w *Writer) begin(r *sent, cell measure.Time) measure.Time {
	if r.last >= cell || cell == w.first {
		return cell.Add(measure.Millisecond)
	}
	return cell
}
