package dataset

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"culprit/measure"
)

// Window keeps a stretch of measurement in memory and answers questions from it: any query whose statistic was recorded
// with the fields that it needs. One cell a tick. It is a measure.Reader; safe for several goroutines, also while it is being filled.
type Window struct {
	catalogue *Catalogue

	mu    sync.RWMutex // guards all below
	ticks []measure.Interval
	kept  map[measure.StatID]*kept
	words map[string]measure.Label
	texts []string
}

// kept is one statistic's ticks: cells[i][t] is the value of row i in tick t.
type kept struct {
	by      []string
	rows    *rows
	cells   [][]float64
	dists   [][]measure.Dist
	elapsed []measure.Span
	loss    []measure.Loss
	notes   []string
}

// Record watches the queries for n ticks, or until the context ends, and gives what it saw, also when there was an error.
// progress, if not nil, is called after each tick with the number of ticks so far.
func (c *Catalogue) Record(ctx context.Context, queries []measure.Query, n int, progress func(tick int)) (*Window, error) {
	w := &Window{catalogue: c, kept: map[measure.StatID]*kept{}, words: map[string]measure.Label{}}
	if len(queries) == 0 {
		return w, fmt.Errorf("record: no query")
	}
	var asked []measure.Query
	for _, q := range queries {
		if err := c.Check(q); err != nil {
			return w, err
		}
		asked = merge(asked, q, queries[0].Step)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	err := c.Watch(ctx, asked, func(t *measure.Tick) error {
		w.add(t)
		if progress != nil {
			progress(len(w.ticks))
		}
		if len(w.ticks) >= n {
			stop()
		}
		return nil
	})
	return w, err
}

// Ticks gives the measured intervals, oldest first.
func (w *Window) Ticks() []measure.Interval {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.Clone(w.ticks)
}

func (w *Window) add(t *measure.Tick) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.ticks)
	w.ticks = append(w.ticks, t.Over)
	for _, a := range t.Answers {
		k := w.kept[a.Query.Stat]
		if k == nil {
			k = &kept{by: a.Query.By, rows: newRows(len(a.Query.By))}
			w.kept[a.Query.Stat] = k
		}
		k.elapsed = append(k.elapsed, a.Elapsed[0])
		for _, l := range a.Loss {
			k.loss = addLoss(k.loss, l)
		}
		for _, note := range a.Notes {
			if !slices.Contains(k.notes, note) {
				k.notes = append(k.notes, note)
			}
		}
		key := make([]measure.Label, len(k.by))
		for _, s := range a.Series {
			for j, l := range s.Key {
				key[j] = w.word(a.Labels[l])
			}
			i, fresh := k.rows.row(key)
			if fresh {
				k.cells, k.dists = append(k.cells, nil), append(k.dists, nil)
			}
			if a.Kind == measure.Dists {
				for len(k.dists[i]) < n {
					k.dists[i] = append(k.dists[i], measure.Dist{})
				}
				k.dists[i] = append(k.dists[i], s.Dists[0])
				continue
			}
			k.cells[i] = w.pad(k, k.cells[i], n, a.Sparse)
			k.cells[i] = append(k.cells[i], s.Values[0])
		}
	}
}

// pad fills the cells of a row up to tick n: with 0 where the statistic was measured and is sparse, else NaN.
func (w *Window) pad(k *kept, cells []float64, n int, sparse bool) []float64 {
	for len(cells) < n {
		v := measure.NaN
		if t := len(cells); sparse && t < len(k.elapsed) && k.elapsed[t] > 0 {
			v = 0
		}
		cells = append(cells, v)
	}
	return cells
}

func (w *Window) word(s string) measure.Label {
	l, ok := w.words[s]
	if !ok {
		l = measure.Label(len(w.texts))
		w.words[s] = l
		w.texts = append(w.texts, s)
	}
	return l
}

func addLoss(all []measure.Loss, l measure.Loss) []measure.Loss {
	for i := range all {
		if all[i].Reason == l.Reason {
			all[i].Events += l.Events
			return all
		}
	}
	return append(all, l)
}

// Ask implements measure.Reader. Query.Over may narrow the window to the ticks that end within it; Query.Step is ignored.
func (w *Window) Ask(_ context.Context, q measure.Query) (*measure.Answer, error) {
	if err := w.catalogue.Check(q); err != nil {
		return nil, err
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	st := w.catalogue.Stat(q.Stat)
	k := w.kept[q.Stat]
	if k == nil {
		return nil, fmt.Errorf("ask %s: it was not recorded: %w", q.Stat, measure.ErrUnclear)
	}
	p, ok := planFor(q, k.by)
	if !ok {
		return nil, fmt.Errorf("ask %s: it was recorded without a field of the question: %w", q, measure.ErrUnclear)
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
	a := &measure.Answer{Query: q, Kind: st.Kind, Unit: st.AnswerUnit(), Sparse: st.Sparse, Labels: slices.Clone(w.texts),
		Loss: slices.Clone(k.loss), Notes: slices.Clone(k.notes)}
	if to > from {
		a.Start = w.ticks[from].Start
		a.Step = w.ticks[to-1].End.Sub(a.Start) / measure.Span(to-from)
	}
	a.Elapsed = slices.Clone(k.elapsed[min(from, len(k.elapsed)):min(to, len(k.elapsed))])

	table := newRows(len(q.By))
	var counts [][]int
	key := make([]measure.Label, len(q.By))
	for i := range k.rows.len() {
		row := k.rows.key(i)
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
				a.Series[n].Dists = make([]measure.Dist, to-from)
			} else {
				a.Series[n].Values = slices.Repeat([]float64{measure.NaN}, to-from)
			}
		}
		if st.Kind == measure.Dists {
			for t := from; t < to && t < len(k.dists[i]); t++ {
				d := &a.Series[n].Dists[t-from]
				if len(d.Counts) == 0 {
					d.Base = k.dists[i][t].Base
				}
				d.Merge(k.dists[i][t])
			}
			continue
		}
		cells := w.pad(k, slices.Clone(k.cells[i]), len(w.ticks), st.Sparse)
		values := a.Series[n].Values
		for t := from; t < to; t++ {
			values[t-from], counts[n][t-from] = combine(st.Fold, values[t-from], counts[n][t-from], cells[t])
		}
	}
	for i := range a.Series {
		a.Series[i].Key = slices.Clone(table.key(i))
	}
	return a, nil
}
