package dataset

import (
	"slices"

	"culprit/measure"
)

// tickFolder makes the answers to the queries of one source, tick after tick. The answers of a tick
// share a few slices. These are allocated for each tick, because the watcher may keep them. Used by
// one goroutine.
type tickFolder struct {
	reuse bool // no answer is kept beyond its tick: the slices are reused
	parts []*queryFolder
	// of the previous tick's batches; while they stay the same, the assignment to queries does too
	stats []measure.StatID
	slab
}

// slab contains the answers of a tick.
type slab struct {
	answers []measure.Answer
	elapsed []measure.Span
	series  []measure.Series
	keys    []measure.Label
	values  []float64
}

// queryFolder makes the answers to one query.
type queryFolder struct {
	number  int // of the query
	query   measure.Query
	stat    *measure.Stat
	over    string // a caveat: rows count some things more than once
	unit    measure.Unit
	batches []int // those of its statistic
	plans   []foldPlan
	plain   bool  // of this tick: one batch, nothing to fold or filter
	table   *rows // for the rows of a query that is not plain
	counts  []int
	key     []measure.Label
	stacks  []bool
	// buffers of the previous tick's answer; only with tickFolder.reuse
	notes  []string
	values []float64
	series []measure.Series
}

type foldPlan struct {
	by []string // of the batch that the plan is for
	plan
	ok bool
}

func newFolder(c *Catalogue, source int, queries []measure.Query) *tickFolder {
	f := &tickFolder{}
	for n, q := range queries {
		if c.owner[q.Stat] == source {
			st := c.Stat(q.Stat)
			f.parts = append(f.parts, &queryFolder{
				number: n,
				query:  q,
				stat:   st,
				over:   st.Overcounts(q),
				unit:   st.AnswerUnit(),
				stacks: st.Stacks(q.By),
				table:  newRows(len(q.By)),
				key:    make([]measure.Label, len(q.By)),
			})
		}
	}
	return f
}

// answers makes the answers of one cell from one reading and stores them by the number of their
// query.
func (f *tickFolder) answers(batches []*measure.Batch, all []*measure.Answer) {
	if !slices.EqualFunc(
		f.stats, batches, func(id measure.StatID, b *measure.Batch) bool { return id == b.Stat },
	) {
		f.match(batches)
	}
	rows, labels := 0, 0
	for _, p := range f.parts {
		if p.prepare(batches) {
			b := batches[p.batches[0]]
			if rows += len(b.Values); !f.reuse {
				labels += len(b.Keys)
			}
		}
	}
	if !f.reuse {
		f.slab = slab{}
	}
	f.reserve(len(f.parts), rows, labels)
	for i, p := range f.parts {
		all[p.number] = f.answer(i, p, batches)
	}
}

// eachAnswer calls take for each answer, valid during the call only. If the answer's rows are those
// of a batch, take gets the batch too, and its amounts are not converted to rates yet.
func (f *tickFolder) eachAnswer(
	batches []*measure.Batch, take func(*measure.Answer, *measure.Batch),
) {
	if !slices.EqualFunc(
		f.stats, batches, func(id measure.StatID, b *measure.Batch) bool { return id == b.Stat },
	) {
		f.match(batches)
	}
	f.reserve(1, 0, 0)
	for _, p := range f.parts {
		if p.prepare(batches) {
			take(f.begin(0, p, batches), batches[p.batches[0]])
		} else {
			take(f.answer(0, p, batches), nil)
		}
	}
}

// reserve allocates the slab. With reuse, earlier answers in it become invalid.
func (f *tickFolder) reserve(answers, rows, labels int) {
	s := &f.slab
	s.answers = slices.Grow(s.answers[:0], answers)[:answers]
	s.elapsed = slices.Grow(s.elapsed[:0], answers)[:answers]
	s.series, s.values = slices.Grow(s.series[:0], rows), slices.Grow(s.values[:0], rows)
	s.keys = slices.Grow(s.keys[:0], labels)
}

// begin makes the answer of part p at index i of the slab, without its rows.
func (f *tickFolder) begin(i int, p *queryFolder, batches []*measure.Batch) *measure.Answer {
	s := &f.slab
	a := &s.answers[i]
	s.elapsed[i] = 0
	*a = measure.Answer{
		Query:   p.query,
		Kind:    p.stat.Kind,
		Unit:    p.unit,
		Sparse:  p.stat.Sparse,
		Stacks:  p.stacks,
		Elapsed: s.elapsed[i : i+1 : i+1],
	}
	if f.reuse {
		a.Notes = p.notes[:0]
	}
	p.head(a, batches)
	if f.reuse {
		p.notes = a.Notes
	}
	return a
}

// answer makes the answer of part p at index i of the slab.
func (f *tickFolder) answer(i int, p *queryFolder, batches []*measure.Batch) *measure.Answer {
	a := f.begin(i, p, batches)
	if p.plain {
		p.copyRows(a, batches[p.batches[0]], &f.slab, f.reuse)
	} else {
		p.foldRows(a, batches, f.reuse)
	}
	return a
}

// match finds the batches of each query.
func (f *tickFolder) match(batches []*measure.Batch) {
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

// prepare plans the folding of the batches and reports whether the rows can be used unchanged.
func (f *queryFolder) prepare(batches []*measure.Batch) (plain bool) {
	f.plain = len(f.batches) == 1 && f.stat.Kind != measure.Dists
	for k, i := range f.batches {
		p := &f.plans[k]
		if by := batches[i].By; !p.ok || !slices.Equal(p.by, by) {
			p.by = slices.Clone(by)
			p.plan, p.ok = planFor(f.query, by)
		}
		f.plain = f.plain && p.ok && p.plain
	}
	return f.plain
}

// head fills in everything except the series.
func (f *queryFolder) head(a *measure.Answer, batches []*measure.Batch) {
	for k, i := range f.batches {
		// Several collectors may share a statistic; the interval of one that could not look is
		// empty.
		b := batches[i]
		if k == 0 || b.Over.Span() > a.Step {
			a.Start, a.Step = b.Over.Start, b.Over.Span()
			a.Elapsed[0] = a.Step
		}
		// All batches of a reading share their frames, and a dictionary. The labels of a batch are
		// those that it had when the batch was made: the longest have the words of all.
		if len(b.Labels) > len(a.Labels) {
			a.Labels = b.Labels
		}
		if len(b.Frames) > len(a.Frames) {
			a.Frames = slices.Clip(b.Frames)
		}
		a.Loss = append(a.Loss, b.Loss...)
		a.Notes = append(a.Notes, b.Notes...)
		if !f.plans[k].ok {
			a.Notes = append(
				a.Notes, string(f.query.Stat)+" was measured without a field of the query",
			)
		}
	}
	if f.over != "" {
		a.Notes = append(a.Notes, f.over)
	}
}

// copyRows copies the rows of a batch into the slab, which is large enough; keys in a batch are
// distinct. With reuse the keys are the batch's own, valid until the next reading.
func (f *queryFolder) copyRows(a *measure.Answer, b *measure.Batch, s *slab, reuse bool) {
	width, first := len(f.query.By), len(s.series)
	keys := b.Keys
	if !reuse {
		keys = append(s.keys[len(s.keys):], keys...)
		s.keys = s.keys[:len(s.keys)+len(keys)]
	}
	values := append(s.values[len(s.values):], b.Values...)
	s.values = s.values[:len(s.values)+len(values)]
	if f.stat.Kind == measure.Delta {
		f.stat.Unit.Rates(values, b.Over.Span())
	}
	a.SetColumn(values, b.Shape)
	s.series = s.series[:first+len(values)]
	a.Series = s.series[first:len(s.series):len(s.series)]
	for i := range values {
		a.Series[i] = measure.Series{
			Key:    keys[i*width : (i+1)*width : (i+1)*width],
			Values: values[i : i+1 : i+1],
		}
	}
}

// foldRows filters the rows of the batches and folds those with equal keys.
func (f *queryFolder) foldRows(a *measure.Answer, batches []*measure.Batch, reuse bool) {
	f.table.clear()
	values := f.values[:0]
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
			values[n], f.counts[n] = f.stat.Fold.Combine(values[n], f.counts[n], v)
		}
	}
	a.Series = slices.Grow(f.series[:0], f.table.len())[:f.table.len()]
	for i := range a.Series {
		a.Series[i] = measure.Series{Key: f.table.key(i)}
		if f.stat.Kind == measure.Dists {
			a.Series[i].SetDists(dists[i : i+1 : i+1])
		} else {
			a.Series[i].Values = values[i : i+1 : i+1]
		}
	}
	if reuse {
		f.values, f.series = values, a.Series
	} else {
		f.table.keys = nil // the answer owns them now
	}
}
