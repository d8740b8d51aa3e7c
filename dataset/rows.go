package dataset

import (
	"culprit/measure"
)

// rows is a table of keyed rows. Keys are adjacent in memory and found by hashing. slots has a
// power of two elements and is at least half empty; a slot contains 1 + the number of a row, or 0.
type rows struct {
	width int // labels in a key
	n     int
	keys  []measure.Label
	slots []int32
}

func newRows(width int) *rows { return &rows{width: width} }

func (r *rows) len() int { return r.n }

func (r *rows) key(
	i int,
) []measure.Label {
	return r.keys[i*r.width : (i+1)*r.width : (i+1)*r.width]
}

// clear removes all rows. Keys that are used elsewhere must have been removed from r.keys before.
func (r *rows) clear() {
	r.n, r.keys = 0, r.keys[:0]
	clear(r.slots)
}

func (r *rows) slot(key []measure.Label) uint64 {
	h := uint64(14695981039346656037)
	for _, l := range key {
		h = (h ^ uint64(l)) * 1099511628211
	}
	return h ^ h>>32 // FNV mixes upwards only
}

// row returns the row of a key, and whether it was added.
func (r *rows) row(key []measure.Label) (int, bool) {
	if 2*(r.n+1) > len(r.slots) {
		r.slots = make([]int32, max(16, 2*len(r.slots)))
		for i := range r.n {
			at := r.slot(r.key(i))
			for ; r.slots[at&uint64(len(r.slots)-1)] != 0; at++ {
			}
			r.slots[at&uint64(len(r.slots)-1)] = int32(i + 1)
		}
	}
	for at := r.slot(key); ; at++ {
		s := &r.slots[at&uint64(len(r.slots)-1)]
		switch {
		case *s == 0:
			r.keys = append(r.keys, key...)
			r.n++
			*s = int32(r.n)
			return r.n - 1, true
		case equal(r.key(int(*s-1)), key):
			return int(*s - 1), false
		}
	}
}

func equal(a, b []measure.Label) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// plan describes how the rows of a table become those of a query.
type plan struct {
	columns []int // per field of the query: its column in the table
	terms   []measure.Term
	at      []int // column of each term
	plain   bool  // nothing to fold and nothing to filter
}

// planFor returns the plan for a query; ok is false when the table lacks a field of it.
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
