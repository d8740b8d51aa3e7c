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
	same  []measure.Label // label of the answers' dictionary -> label of ours; looked up anew where the texts differ
}

// kept is one statistic's ticks: cells[t][i] is the value of row i in tick t. A tick holds the rows known by then; a row that
// came later, or was absent, has the statistic's value of an absent row there. So a row costs eight bytes a tick and its key.
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
	err := c.watch(ctx, asked, true, func(t *measure.Tick) error {
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
		absent := absentIn(a.Sparse, a.Elapsed[0])
		var cells []float64
		var dists []measure.Dist
		if a.Kind == measure.Dists {
			dists = make([]measure.Dist, k.rows.len(), k.rows.len()+len(a.Series))
		} else {
			cells = slices.Repeat([]float64{absent}, k.rows.len())
		}
		key := make([]measure.Label, len(k.by))
		for _, s := range a.Series {
			for j, l := range s.Key {
				key[j] = w.label(a.Labels, l)
			}
			i, fresh := k.rows.row(key)
			switch {
			case a.Kind == measure.Dists && fresh:
				dists = append(dists, s.Dists[0])
			case a.Kind == measure.Dists:
				dists[i] = s.Dists[0]
			case fresh:
				cells = append(cells, s.Values[0])
			default:
				cells[i] = s.Values[0]
			}
		}
		k.cells, k.dists = append(k.cells, cells), append(k.dists, dists)
	}
}

// absentIn is the value of a row that a tick has not: 0 where the statistic was measured and is sparse, else unknown.
func absentIn(sparse bool, elapsed measure.Span) float64 {
	if sparse && elapsed > 0 {
		return 0
	}
	return measure.NaN
}

// cell gives the value of row i in tick t.
func (k *kept) cell(i, t int, sparse bool) float64 {
	if t < len(k.cells) && i < len(k.cells[t]) {
		return k.cells[t][i]
	}
	if t < len(k.elapsed) {
		return absentIn(sparse, k.elapsed[t])
	}
	return measure.NaN
}

// label gives our label of a label of the dictionary. The dictionary is the same from tick to tick and only grows, but for
// rare times when it begins anew; so the label found before is right when its text is.
func (w *Window) label(labels []string, l measure.Label) measure.Label {
	for int(l) >= len(w.same) {
		w.same = append(w.same, noLabel)
	}
	if s := w.same[l]; s != noLabel && w.texts[s] == labels[l] {
		return s
	}
	w.same[l] = w.word(labels[l])
	return w.same[l]
}

const noLabel = ^measure.Label(0)

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
	a := &measure.Answer{Query: q, Kind: st.Kind, Unit: st.AnswerUnit(), Sparse: st.Sparse,
		Labels: w.texts[:len(w.texts):len(w.texts)], // shared: texts only grow
		Loss:   slices.Clone(k.loss), Notes: slices.Clone(k.notes)}
	if to > from {
		a.Start = w.ticks[from].Start
		a.Step = w.ticks[to-1].End.Sub(a.Start) / measure.Span(to-from)
	}
	a.Elapsed = slices.Clone(k.elapsed[min(from, len(k.elapsed)):min(to, len(k.elapsed))])

	if p.plain && st.Kind != measure.Dists {
		w.copied(a, k, st, from, to)
		return a, nil
	}
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
			for t := from; t < to && t < len(k.dists); t++ {
				if i >= len(k.dists[t]) {
					continue
				}
				d := &a.Series[n].Dists[t-from]
				if len(d.Counts) == 0 {
					d.Base = k.dists[t][i].Base
				}
				d.Merge(k.dists[t][i])
			}
			continue
		}
		values := a.Series[n].Values
		for t := from; t < to; t++ {
			values[t-from], counts[n][t-from] = combine(st.Fold, values[t-from], counts[n][t-from], k.cell(i, t, st.Sparse))
		}
	}
	for i := range a.Series {
		a.Series[i].Key = slices.Clone(table.key(i))
	}
	return a, nil
}

// copied gives the rows of a statistic as they were recorded: three slices, however many rows.
func (w *Window) copied(a *measure.Answer, k *kept, st *measure.Stat, from, to int) {
	n, width, cells := k.rows.len(), len(a.Query.By), to-from
	keys, values := slices.Clone(k.rows.keys[:n*width]), make([]float64, n*cells)
	a.Series = make([]measure.Series, n)
	for i := range a.Series {
		row := values[i*cells : (i+1)*cells : (i+1)*cells]
		for t := range row {
			row[t] = k.cell(i, from+t, st.Sparse)
		}
		a.Series[i].Key, a.Series[i].Values = keys[i*width:(i+1)*width:(i+1)*width], row
	}
}
