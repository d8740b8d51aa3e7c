package measure

import "slices"

// Allowed lists the operations that make sense for the values of a statistic. Only Kind, Fold, Unit
// and Signed decide; the catalogue passes the result to the page.
type Allowed struct {
	Sum        bool // rows add up: to a total, or to one row for the remaining ones
	Stack      bool // rows can be drawn stacked: they add up and none is negative
	Rate       bool // a value is an amount per second of measured time
	Percentile bool // a value is a distribution, which has quantiles
}

// Allowed returns the operations that make sense for values of st. Rows of distributions are shown
// by their means, and means do not add up. Neither do rows that fold to a maximum, minimum or mean,
// nor ratios of different wholes.
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

// FoldLabel returns the label of the one row that all rows of st fold to: "all", or how the row was
// chosen.
func (st *Stat) FoldLabel() string {
	if st.Kind == Dists {
		return "all"
	}
	return word(int(st.Fold), "all", "greatest of all", "mean of all", "least of all")
}

// pins reports whether q selects exactly one value of the field.
func (q Query) pins(field string) bool {
	return slices.ContainsFunc(q.Where, func(t Term) bool {
		return t.Field == field && (t.Op == Equal || t.Op == In && len(t.Values) == 1)
	})
}

// tree reports whether f is a position in a hierarchy. Rows with one position, or below one parent,
// don't overlap by any other field.
func (f Field) tree() bool { return f.Name == "parent" || f.Name == "handle" }
