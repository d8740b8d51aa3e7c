package dataset

import (
	"slices"

	"culprit/measure"
)

// folder makes the answers to some queries of one source, tick after tick. What an answer holds is new each time, being the
// watcher's to keep; what is needed on the way to it stays. Used by one goroutine.
type folder struct {
	parts []*fold
	stats []measure.StatID // of the batches of the tick before: as long as they stay, so does who reads which
}

// fold is what one query needs.
type fold struct {
	number  int // of the query
	query   measure.Query
	stat    *measure.Stat
	unit    measure.Unit
	batches []int // those of its statistic
	plans   []foldPlan
	table   *rows // for the rows of a query that is not plain
	counts  []int
	key     []measure.Label
}

type foldPlan struct {
	by []string // of the batch that the plan is for
	plan
	ok bool
}

func newFolder(c *Catalogue, source int, queries []measure.Query) *folder {
	f := &folder{}
	for n, q := range queries {
		if c.owner[q.Stat] == source {
			st := c.Stat(q.Stat)
			f.parts = append(f.parts, &fold{number: n, query: q, stat: st, unit: st.AnswerUnit(), table: newRows(len(q.By)), key: make([]measure.Label, len(q.By))})
		}
	}
	return f
}

// answers puts the answers of one cell that one reading gives at the places of their queries.
func (f *folder) answers(batches []*measure.Batch, all []*measure.Answer) {
	if !slices.EqualFunc(f.stats, batches, func(id measure.StatID, b *measure.Batch) bool { return id == b.Stat }) {
		f.stats = f.stats[:0]
		for _, b := range batches {
			f.stats = append(f.stats, b.Stat)
		}
		for _, p := range f.parts {
			p.batches, p.plans = p.batches[:0], p.plans[:0]
			for i, id := range f.stats {
				if id == p.query.Stat {
					p.batches, p.plans = append(p.batches, i), append(p.plans, foldPlan{})
				}
			}
		}
	}
	for _, p := range f.parts {
		all[p.number] = p.answer(batches)
	}
}

func (f *fold) answer(batches []*measure.Batch) *measure.Answer {
	a := &measure.Answer{Query: f.query, Kind: f.stat.Kind, Unit: f.unit, Sparse: f.stat.Sparse, Elapsed: []measure.Span{0}}
	plain := len(f.batches) == 1
	for k, i := range f.batches {
		// Several collectors may share a statistic; the interval of one that could not look is empty.
		b := batches[i]
		if k == 0 || b.Over.Span() > a.Step {
			a.Start, a.Step = b.Over.Start, b.Over.Span()
			a.Elapsed[0] = a.Step
		}
		a.Labels = b.Labels
		a.Frames = append(a.Frames, b.Frames...)
		a.Loss = append(a.Loss, b.Loss...)
		a.Notes = append(a.Notes, b.Notes...)
		p := &f.plans[k]
		if !p.ok || !slices.Equal(p.by, b.By) {
			p.by = slices.Clone(b.By)
			if p.plan, p.ok = planFor(f.query, b.By); !p.ok {
				a.Notes = append(a.Notes, string(f.query.Stat)+" was measured without a field that was asked for")
			}
		}
		plain = plain && p.ok && p.plain
	}
	if plain && f.stat.Kind != measure.Dists {
		f.copied(a, batches[f.batches[0]])
	} else {
		f.folded(a, batches)
	}
	return a
}

// copied takes the rows of a batch as they are: keys of a batch are distinct.
func (f *fold) copied(a *measure.Answer, b *measure.Batch) {
	width := len(f.query.By)
	keys, values := slices.Clone(b.Keys), slices.Clone(b.Values)
	if f.stat.Kind == measure.Delta {
		for i, v := range values {
			values[i] = f.stat.Unit.Rate(v, b.Over.Span())
		}
	}
	a.Series = make([]measure.Series, len(values))
	for i := range a.Series {
		a.Series[i].Key, a.Series[i].Values = keys[i*width:(i+1)*width:(i+1)*width], values[i:i+1:i+1]
	}
}

// folded filters the rows of the batches and folds those of one key together.
func (f *fold) folded(a *measure.Answer, batches []*measure.Batch) {
	f.table.clear()
	var values []float64
	var dists []measure.Dist
	f.counts = f.counts[:0]
	for k, i := range f.batches {
		b, p := batches[i], &f.plans[k]
		if !p.ok {
			continue
		}
		for i := range b.Rows() {
			from := b.Key(i)
			if !p.plain {
				if !p.wants(from, b.Labels) {
					continue
				}
				for j, c := range p.columns {
					f.key[j] = from[c]
				}
				from = f.key
			}
			n, fresh := f.table.row(from)
			if f.stat.Kind == measure.Dists {
				if fresh {
					dists = append(dists, measure.Dist{Base: b.Dists[i].Base})
				}
				dists[n].Merge(b.Dists[i])
				continue
			}
			v := b.Values[i]
			if f.stat.Kind == measure.Delta {
				v = f.stat.Unit.Rate(v, b.Over.Span())
			}
			if fresh {
				values, f.counts = append(values, measure.NaN), append(f.counts, 0)
			}
			values[n], f.counts[n] = combine(f.stat.Fold, values[n], f.counts[n], v)
		}
	}
	a.Series = make([]measure.Series, f.table.len())
	for i := range a.Series {
		a.Series[i].Key = f.table.key(i)
		if f.stat.Kind == measure.Dists {
			a.Series[i].Dists = dists[i : i+1 : i+1]
		} else {
			a.Series[i].Values = values[i : i+1 : i+1]
		}
	}
	f.table.keys = nil // they are the answer's now
}
