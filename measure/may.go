package measure

import "slices"

// May is what can be done with the values of a statistic. Kind and Fold decide it, here and nowhere
// else: the catalogue hands it to the page.
type Allowed struct {
	Sum        bool // rows add up: a total, the rows beyond the first as one, what is left of a whole
	Stack      bool // rows can be drawn on one another: they add up, and none is below zero
	Rate       bool // a value is an amount per second of the time measured
	Percentile bool // a value is a distribution, which has quantiles
}

// May returns what can be done with the values of st. Rows of distributions have no sum: a row is
// shown by its mean, and the mean of two rows is not the sum of theirs. The same holds for rows that
// fold to the greatest, the least or the mean, and for levels that are ratios of different wholes.
func (st *Stat) Allowed() Allowed {
	sum := st.Fold == Sum && (st.Kind == Delta || st.Kind == Level && st.Unit != Ratio)
	return Allowed{
		Sum:        sum,
		Stack:      sum && !st.Signed,
		Rate:       st.Kind == Delta,
		Percentile: st.Kind == Dists,
	}
}

// AddsUp reports whether the rows of an answer to q add up to a whole: values of st may be summed,
// and no two rows count the same thing.
func (st *Stat) AddsUp(q Query) bool {
	if !st.Allowed().Sum {
		return false
	}
	overlaps := false
	for _, f := range st.Fields {
		switch {
		case !f.Overlaps:
		case !q.pins(f.Name):
			overlaps = true
		case f.tree():
			return true
		}
	}
	return !overlaps
}

// Folded returns the words for one row that stands for all rows of st: "all", or which of them its value is.
func (st *Stat) FoldLabel() string {
	if st.Kind == Dists {
		return "all"
	}
	return word(int(st.Fold), "all", "greatest of all", "mean of all", "least of all")
}

// pins reports whether q asks for one value of the field.
func (q Query) pins(field string) bool {
	return slices.ContainsFunc(q.Where, func(t Term) bool {
		return t.Field == field && (t.Op == Equal || t.Op == In && len(t.Values) == 1)
	})
}

// tree reports whether f names a place in a tree of things: rows of one place, or below one parent,
// overlap by no other field.
func (f Field) tree() bool { return f.Name == "parent" || f.Name == "handle" }
