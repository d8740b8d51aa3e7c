package dataset

import (
	"culprit/measure"
)

// rows is a table of keyed values, each of some number of cells.
type rows struct {
	width int // labels in a key
	keys  []measure.Label
	heads map[uint64]int32 // hash of a key -> its first row
	next  []int32          // row -> the next row of equal hash, or -1
}

func newRows(width int) *rows { return &rows{width: width, heads: map[uint64]int32{}} }

func (r *rows) len() int { return len(r.next) }

func (r *rows) key(i int) []measure.Label { return r.keys[i*r.width : (i+1)*r.width] }

// row gives the row of a key, and whether it has just been made.
func (r *rows) row(key []measure.Label) (int, bool) {
	h := uint64(14695981039346656037)
	for _, l := range key {
		h = (h ^ uint64(l)) * 1099511628211
	}
	head, ok := r.heads[h]
	if !ok {
		head = -1
	}
	for i := head; i >= 0; i = r.next[i] {
		if equal(r.key(int(i)), key) {
			return int(i), false
		}
	}
	r.keys = append(r.keys, key...)
	r.next = append(r.next, head)
	n := len(r.next) - 1
	r.heads[h] = int32(n)
	return n, true
}

func equal(a, b []measure.Label) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// combine folds v into the value so far, which stands for n values already. NaN counts as no value.
func combine(fold measure.Fold, sofar float64, n int, v float64) (float64, int) {
	switch {
	case v != v:
		return sofar, n
	case n == 0:
		return v, 1
	}
	switch fold {
	case measure.Max:
		return max(sofar, v), n + 1
	case measure.Min:
		return min(sofar, v), n + 1
	case measure.Mean:
		return sofar + (v-sofar)/float64(n+1), n + 1
	}
	return sofar + v, n + 1
}

// plan is how the rows of a table with the fields have become those of a query.
type plan struct {
	columns []int // of the table, for each field of the query
	terms   []measure.Term
	at      []int // column of each term
	plain   bool  // nothing to fold and nothing to filter
}

// planFor gives ok false when the table lacks a field that the query needs.
func planFor(q measure.Query, have []string) (p plan, ok bool) {
	find := func(name string) int {
		for i, h := range have {
			if h == name {
				return i
			}
		}
		return -1
	}
	p.plain = len(q.By) == len(have) && len(q.Where) == 0
	for i, f := range q.By {
		c := find(f)
		if c < 0 {
			return p, false
		}
		p.columns = append(p.columns, c)
		p.plain = p.plain && c == i
	}
	for _, t := range q.Where {
		c := find(t.Field)
		if c < 0 {
			return p, false
		}
		p.terms, p.at = append(p.terms, t), append(p.at, c)
	}
	return p, true
}

func (p *plan) wants(key []measure.Label, labels []string) bool {
	for i, t := range p.terms {
		if !t.Match(labels[key[p.at[i]]]) {
			return false
		}
	}
	return true
}

// answer makes an answer of one cell from the batches of one statistic that one reading gave.
func answer(q measure.Query, st *measure.Stat, batches []*measure.Batch) *measure.Answer {
	a := &measure.Answer{Query: q, Kind: st.Kind, Unit: st.AnswerUnit(), Sparse: st.Sparse, Elapsed: []measure.Span{0}}
	table := newRows(len(q.By))
	var values []float64
	var counts []int
	var dists []measure.Dist
	key := make([]measure.Label, len(q.By))
	for n, b := range batches {
		// Several collectors may share a statistic; the interval of one that could not look is empty.
		if n == 0 || b.Over.Span() > a.Step {
			a.Start, a.Step = b.Over.Start, b.Over.Span()
			a.Elapsed[0] = a.Step
		}
		a.Labels = b.Labels
		a.Frames = append(a.Frames, b.Frames...)
		a.Loss = append(a.Loss, b.Loss...)
		a.Notes = append(a.Notes, b.Notes...)
		p, ok := planFor(q, b.By)
		if !ok {
			a.Notes = append(a.Notes, string(q.Stat)+" was measured without a field that was asked for")
			continue
		}
		for i := range b.Rows() {
			from := b.Key(i)
			if !p.plain {
				if !p.wants(from, b.Labels) {
					continue
				}
				for j, c := range p.columns {
					key[j] = from[c]
				}
				from = key
			}
			n, fresh := table.row(from)
			if st.Kind == measure.Dists {
				if fresh {
					dists = append(dists, measure.Dist{Base: b.Dists[i].Base})
				}
				dists[n].Merge(b.Dists[i])
				continue
			}
			v := b.Values[i]
			if st.Kind == measure.Delta {
				v = st.Unit.Rate(v, b.Over.Span())
			}
			if fresh {
				values, counts = append(values, measure.NaN), append(counts, 0)
			}
			values[n], counts[n] = combine(st.Fold, values[n], counts[n], v)
		}
	}
	a.Series = make([]measure.Series, table.len())
	for i := range a.Series {
		a.Series[i].Key = table.key(i)
		if st.Kind == measure.Dists {
			a.Series[i].Dists = dists[i : i+1 : i+1]
		} else {
			a.Series[i].Values = values[i : i+1 : i+1]
		}
	}
	return a
}
