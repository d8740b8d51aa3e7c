package dataset

import (
	"context"
	"fmt"
	"slices"

	"culprit/measure"
)

// windowQuery is a query that the window can answer.
type windowQuery struct {
	st       *measure.Stat
	k        *recordedStat
	p        plan
	from, to int // ticks
}

// prepare finds what answers a query. w.mu is held.
func (w *Window) prepare(q measure.Query) (*windowQuery, error) {
	if err := w.catalogue.Check(q); err != nil {
		return nil, err
	}
	k := w.stats[q.Stat]
	if k == nil {
		return nil, fmt.Errorf("ask %s: it was not recorded: %w", q.Stat, measure.ErrUnclear)
	}
	p, ok := planFor(q, k.by)
	if !ok {
		return nil, fmt.Errorf(
			"ask %s: it was recorded without a field of the query: %w", q, measure.ErrUnclear,
		)
	}
	from, to := 0, len(w.ticks)
	if q.Over != (measure.Interval{}) {
		for from < to && w.ticks[from].End <= q.Over.Start {
			from++
		}
		for to > from && w.ticks[to-1].End > q.Over.End {
			to--
		}
	}
	return &windowQuery{w.catalogue.Stat(q.Stat), k, p, from, to}, nil
}

// outline returns the answer to a query without its series. w.mu is held.
func (w *Window) outline(q measure.Query, x *windowQuery) *measure.Answer {
	a := &measure.Answer{Query: q, Kind: x.st.Kind, Unit: x.st.AnswerUnit(), Sparse: x.st.Sparse,
		Labels: w.texts[:len(w.texts):len(w.texts)], // shared: texts is append-only
		Loss:   slices.Clone(x.k.loss), Notes: slices.Clone(x.k.notes)}
	if a.Stacks = x.st.Stacks(q.By); a.Stacks != nil {
		a.Frames = w.stack.all[:len(w.stack.all):len(w.stack.all)] // shared, as texts
	}
	if x.to > x.from {
		a.Start = w.ticks[x.from].Start
		a.Step = w.ticks[x.to-1].End.Sub(a.Start) / measure.Span(x.to-x.from)
	}
	a.Elapsed = slices.Clone(x.k.elapsed[min(x.from, len(x.k.elapsed)):min(x.to, len(x.k.elapsed))])
	// a source that started later, or that another one has overtaken
	for len(a.Elapsed) < x.to-x.from {
		a.Elapsed = append(a.Elapsed, 0)
	}
	return a
}

// plain reports whether the rows are returned as they were recorded.
func (x *windowQuery) plain() bool { return x.p.plain && x.st.Kind != measure.Dists }

func finite(v float64) bool { return v-v == 0 }

// Outline implements measure.Outliner, for rows that are returned as they were recorded.
func (w *Window) Outline(
	_ context.Context, q measure.Query,
) (a *measure.Answer, rows int, numbers bool, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	x, err := w.prepare(q)
	if err != nil || !x.plain() {
		return nil, 0, false, false
	}
	rows = x.k.len()
	for i := 0; i < rows && !numbers; i++ {
		for t := x.from; t < x.to && !numbers; t++ {
			numbers = t < len(x.k.elapsed) && x.k.elapsed[t] > 0 &&
				finite(x.k.cell(i, t, x.st.Sparse))
		}
	}
	return w.outline(q, x), rows, numbers, true
}

// Ask implements measure.Reader. Query.Over may select the ticks that end within it; Query.Step is
// ignored. The error is a *measure.Diagnostic, or measure.ErrUnclear when the statistic was not
// recorded with the query's fields.
func (w *Window) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	x, err := w.prepare(q)
	if err != nil {
		return nil, err
	}
	a, st, k, p, from, to := w.outline(q, x), x.st, x.k, x.p, x.from, x.to
	if x.plain() {
		w.copyRows(a, k, st, from, to)
		return a, nil
	}
	table := newRows(len(q.By))
	var counts [][]int
	key := make([]measure.Label, len(q.By))
	for i := range k.len() {
		row := k.key(i)
		if !p.wants(row, w.texts) {
			continue
		}
		for j, c := range p.columns {
			key[j] = row[c]
		}
		n, fresh := table.row(key)
		if fresh {
			a.Series = append(a.Series, measure.Series{})
			counts = append(counts, make([]int, to-from))
			if st.Kind == measure.Dists {
				a.Series[n].SetDists(make([]measure.Dist, to-from))
			} else {
				a.Series[n].Values = slices.Repeat([]float64{measure.NaN}, to-from)
			}
		}
		if st.Kind == measure.Dists {
			for t := from; t < to && t < len(k.dists); t++ {
				if i >= len(k.dists[t]) {
					continue
				}
				d := &a.Series[n].Dists()[t-from]
				if len(d.Counts) == 0 {
					d.Base = k.dists[t][i].Base
				}
				d.Merge(k.dists[t][i])
			}
			continue
		}
		values := a.Series[n].Values
		for t := from; t < to; t++ {
			values[t-from], counts[n][t-from] = st.Fold.Combine(
				values[t-from], counts[n][t-from], k.cell(i, t, st.Sparse),
			)
		}
	}
	for i := range a.Series {
		a.Series[i].Key = slices.Clone(table.key(i))
	}
	return a, nil
}

// copyRows returns the rows of a statistic as they were recorded, in two slices. The keys are the
// window's, which are append-only.
func (w *Window) copyRows(a *measure.Answer, k *recordedStat, st *measure.Stat, from, to int) {
	n, cells := k.len(), to-from
	values := make([]float64, n*cells)
	a.Series = make([]measure.Series, n)
	for i := range a.Series {
		row := values[i*cells : (i+1)*cells : (i+1)*cells]
		for t := range row {
			row[t] = k.cell(i, from+t, st.Sparse)
		}
		a.Series[i].Key, a.Series[i].Values = k.key(i), row
	}
}
