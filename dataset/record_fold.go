package dataset

import (
	"slices"

	"culprit/measure"
)

// datasetFolder folds a tick's batches to the breakdown of one dataset and filters them by its
// predicate. Amounts stay amounts. Used by one goroutine at a time.
type datasetFolder struct {
	dataset measure.Dataset
	plans   []foldPlan // one per batch of the statistic
	mine    []*measure.Batch

	table      *rows
	keys       []measure.Label
	key        []measure.Label
	values     []float64
	counts     []int
	dists      []measure.Dist
	losses     []measure.Loss
	notes      []string
	folded     measure.Batch
	unmeasured measure.Batch

	rows    int     // in the newest tick
	cpuTime float64 // nanoseconds of CPU time in the newest tick, for folding and storing
	total   totals  // of all ticks; guarded by Set.mu
}

func newDatasetFolder(d measure.Dataset) *datasetFolder {
	return &datasetFolder{
		dataset: d,
		table:   newRows(len(d.Query.By)),
		key:     make([]measure.Label, len(d.Query.By)),
	}
}

// batchesFor appends the dataset's batches of the tick to to. Batches that need no folding are
// appended as they are; otherwise one batch is, which the next call overwrites. If the batches lack
// a queried field, it appends a batch that means "could not look".
func (k *datasetFolder) batchesFor(
	batches []*measure.Batch, asked bool, to []*measure.Batch,
) []*measure.Batch {
	k.mine = k.mine[:0]
	plain, usable, span := true, true, measure.Span(0)
	for _, b := range batches {
		if b.Stat != k.dataset.Query.Stat {
			continue
		}
		n := len(k.mine)
		k.mine = append(k.mine, b)
		if n == len(k.plans) {
			k.plans = append(k.plans, foldPlan{})
		}
		p := &k.plans[n]
		if !p.ok || !slices.Equal(p.by, b.By) {
			p.by = slices.Clone(b.By)
			p.plan, p.ok = planFor(k.dataset.Query, b.By)
		}
		plain, usable = plain && p.ok && p.plain, usable && p.ok
		// Amounts of several collectors have different intervals, and a tick has one.
		if here := b.Over.Span(); k.dataset.Stat.Kind == measure.Delta && here > 0 {
			plain = plain && (span == 0 || span == here)
			span = here
		}
	}
	k.rows = 0
	usable = usable && len(k.mine) > 0
	switch {
	case !usable && !asked: // the dataset joins at the next run of the source
	case !usable:
		var end measure.Time
		for _, b := range batches {
			end = max(end, b.Over.End)
		}
		why := "was not measured"
		if len(k.mine) > 0 {
			why = "was measured without a field that is recorded"
		}
		k.unmeasured = measure.Batch{
			Stat:  k.dataset.Query.Stat,
			By:    k.dataset.Query.By,
			Over:  measure.Interval{Start: end, End: end},
			Notes: []string{string(k.dataset.Query.Stat) + " " + why},
		}
		return append(to, &k.unmeasured)
	case plain:
		for _, b := range k.mine {
			k.rows += b.Rows()
		}
		to = append(to, k.mine...)
	default:
		to = k.fold(to)
		k.rows = k.folded.Rows()
	}
	return to
}

// fold makes one batch from all that could look. Their intervals differ by the time of reading, so
// amounts are scaled to the longest one: then rates add up.
func (k *datasetFolder) fold(to []*measure.Batch) []*measure.Batch {
	st := &k.dataset.Stat
	out := &k.folded
	*out = measure.Batch{Stat: st.ID, By: k.dataset.Query.By}
	k.table.clear()
	k.table.keys = k.keys[:0]
	k.values, k.counts, k.dists = k.values[:0], k.counts[:0], k.dists[:0]
	k.losses, k.notes = k.losses[:0], k.notes[:0]
	blind := false
	for i, b := range k.mine {
		if i == 0 || b.Over.Span() > out.Over.Span() {
			out.Over = b.Over
		}
		if len(b.Labels) >= len(out.Labels) { // all batches of a reading share a dictionary
			out.Labels = b.Labels
		}
		if len(b.Frames) > len(out.Frames) {
			out.Frames = b.Frames
		}
		blind = blind || b.Over.Span() == 0
		k.losses, k.notes = append(k.losses, b.Loss...), append(k.notes, b.Notes...)
	}
	for i, b := range k.mine {
		p := &k.plans[i]
		scale := 1.0
		if st.Kind == measure.Delta && b.Over.Span() > 0 && b.Over.Span() != out.Over.Span() {
			scale = float64(out.Over.Span()) / float64(b.Over.Span())
		}
		for i := range b.Rows() {
			from := b.Key(i)
			if !p.wants(from, b.Labels) {
				continue
			}
			for j, c := range p.columns {
				k.key[j] = from[c]
			}
			n, fresh := k.table.row(k.key)
			if st.Kind == measure.Dists {
				if fresh {
					k.dists = append(k.dists, measure.Dist{Base: b.Dists[i].Base})
				}
				k.dists[n].Merge(b.Dists[i])
				continue
			}
			if fresh {
				k.values, k.counts = append(k.values, measure.NaN), append(k.counts, 0)
			}
			k.values[n], k.counts[n] = st.Fold.Combine(k.values[n], k.counts[n], b.Values[i]*scale)
		}
	}
	k.keys = k.table.keys
	out.Keys, out.Values, out.Dists = k.keys, k.values, k.dists
	out.Loss, out.Notes = k.losses, k.notes
	to = append(to, out)
	if blind && out.Over.Span() > 0 {
		// A part could not look: an absent row is unknown and not 0.
		k.unmeasured = measure.Batch{
			Stat: st.ID,
			By:   out.By,
			Over: measure.Interval{Start: out.Over.End, End: out.Over.End},
		}
		to = append(to, &k.unmeasured)
	}
	return to
}

// sameMeaning reports whether a source's statistic still has the meaning of the dataset's. Numbers
// of another meaning must not be added to it.
func sameMeaning(d measure.Dataset, now *measure.Stat) bool {
	if now == nil || now.Kind != d.Stat.Kind || now.Unit != d.Stat.Unit ||
		now.Fold != d.Stat.Fold ||
		now.Sparse != d.Stat.Sparse ||
		now.Program != d.Stat.Program {
		return false
	}
	for _, name := range fieldsOf(d.Query) {
		was, _ := d.Stat.Field(name)
		if is, i := now.Field(name); i < 0 || is.Type != was.Type {
			return false
		}
	}
	return true
}

// fieldsOf returns the distinct fields that a query needs.
func fieldsOf(q measure.Query) []string {
	all := slices.Clone(q.By)
	for _, t := range q.Where {
		if !slices.Contains(all, t.Field) {
			all = append(all, t.Field)
		}
	}
	return all
}
