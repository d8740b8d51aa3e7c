package measure

// Label is an index into the Labels of the batch or answer that it stands in.
type Label uint32

// Frame is one place in a stack.
type Frame struct {
	Symbol string // function, or hexadecimal address when it has no name
	Module string // file or kernel module; "" unknown
	Offset uint64 // from the symbol's start
	Parent int32  // index of the caller's frame in Frames, or -1 at the root
}

// Loss says that something was not measured, and how much of it is known to be missing. It is data, not an error.
type Loss struct {
	Reason string `json:"reason"` // one clause: "ring buffer full"
	Events uint64 `json:"events"` // how many were lost; 0 = unknown number
}

// Batch is what a source measured of one statistic in one interval. Row i has the labels Keys[i*len(By):(i+1)*len(By)] and
// the value Values[i] (Delta: amount within Over; Level: state at Over.End) or the distribution Dists[i]. A row's value is
// NaN where it could not be measured. Keys are distinct. A batch with no rows says: looked, and there was nothing - unless
// its interval is empty (Over.Start = Over.End), which says: could not look. Notes say why.
type Batch struct {
	Stat   StatID
	By     []string
	Over   Interval
	Labels []string // a dictionary that only grows, and may be kept; may hold words that no row uses
	Frames []Frame  // of Stack fields: a label of such a field is an index into Frames. May be kept as Labels: it only grows, or another takes its place. A frame without symbol and caller is the empty stack
	Keys   []Label
	Shape  Shape // of the rows
	Values []float64
	Dists  []Dist
	Loss   []Loss
	Notes  []string // what may mislead, in one sentence each; the same text every time, so that it can be said once
}

// Rows gives the number of rows.
func (b *Batch) Rows() int { return max(len(b.Values), len(b.Dists)) }

// Key gives the labels of row i, as many as By.
func (b *Batch) Key(i int) []Label { return b.Keys[i*len(b.By) : (i+1)*len(b.By)] }

// Series is one row of an answer: its key and a value for each cell of the answer's grid. There are tens of thousands at once: it is small.
type Series struct {
	Key     []Label        // as many as Query.By
	Values  []float64      // one a cell; Delta: per second over the cell's measured time; Level: the mean over it; NaN = not measured
	details *seriesDetails // what few series have
}

type seriesDetails struct {
	least, most []float64
	dists       []Dist
}

// Min gives for each cell the least of the values that it was made of; nil when each cell is one measurement.
func (s *Series) Min() []float64 {
	if s.details == nil {
		return nil
	}
	return s.details.least
}

// Max gives the greatest, as Min the least.
func (s *Series) Max() []float64 {
	if s.details == nil {
		return nil
	}
	return s.details.most
}

// Dists gives the distribution of each cell, of a statistic of kind Dists; else nil.
func (s *Series) Dists() []Dist {
	if s.details == nil {
		return nil
	}
	return s.details.dists
}

// SetSpan sets what Min and Max give.
func (s *Series) SetRange(least, most []float64) {
	s.details = &seriesDetails{least: least, most: most}
}

// SetDists sets what Dists gives.
func (s *Series) SetDists(dists []Dist) { s.details = &seriesDetails{dists: dists} }

// Answer is a table over time: cell c covers (Start+c*Step, Start+(c+1)*Step]. Elapsed[c] is the time that was truly measured
// in the cell, the weight to average rates with; 0 means that nothing was.
type Answer struct {
	Query   Query
	Kind    Kind
	Unit    Unit // of the values: of the rate, for a Delta
	Sparse  bool // in an answer of one cell, a row that is absent reads as 0
	Start   Time
	Step    Span
	Elapsed []Span
	Labels  []string
	Frames  []Frame
	Stacks  []bool // of each field of Query.By: its labels are indices into Frames; nil: none is a stack
	Series  []Series
	Loss    []Loss
	Notes   []string
	Rest    Rest // rows that are not in Series, since Query.Top allowed that; zero: none

	shape  Shape     // see Lay
	values []float64 // see Lay
}

// Rest is what an answer holds of the rows beyond the largest ones.
type Rest struct {
	Rows   int       // how many rows; 0: none
	Values []float64 // their sum per cell; nil where a sum means nothing: a fold other than sum, distributions
}

// Label gives the text of series i in column by (an index into Query.By); of a stack as Folded has it.
func (a *Answer) Label(i, by int) string {
	if l := a.Series[i].Key[by]; by >= len(a.Stacks) || !a.Stacks[by] {
		return a.Labels[l]
	} else {
		return FoldedStack(a.Frames, l)
	}
}

// By gives the index of the named field in the answer's key, or -1.
func (a *Answer) FieldIndex(name string) int {
	for i, n := range a.Query.By {
		if n == name {
			return i
		}
	}
	return -1
}

// Word gives the text of the named field for series i, "" when the answer has no such field.
func (a *Answer) LabelOf(i int, name string) string {
	if k := a.FieldIndex(name); k >= 0 {
		return a.Label(i, k)
	}
	return ""
}

// Mean gives the mean of series i over the answer, each cell weighted by its measured time; NaN when nothing was measured.
func (a *Answer) Mean(i int) float64 {
	var sum, weight float64
	for c, v := range a.Series[i].Values {
		if v == v && c < len(a.Elapsed) && a.Elapsed[c] > 0 {
			w := float64(a.Elapsed[c])
			sum += v * w
			weight += w
		}
	}
	if weight == 0 {
		return NaN
	}
	return sum / weight
}

// Last gives the value of series i in the latest cell that has one; NaN when none has.
func (a *Answer) Last(i int) float64 {
	v := a.Series[i].Values
	for c := len(v) - 1; c >= 0; c-- {
		if v[c] == v[c] {
			return v[c]
		}
	}
	return NaN
}

// Max gives the largest value of series i; NaN when it has none.
func (a *Answer) Max(i int) float64 {
	m := NaN
	for _, v := range a.Series[i].Values {
		if v == v && !(v <= m) {
			m = v
		}
	}
	return m
}

// Over gives the time that the answer's grid spans.
func (a *Answer) Over() Interval {
	return Interval{a.Start, a.Start.Add(a.Step * Span(len(a.Elapsed)))}
}

// Tick is what a watcher is told each interval: one answer of one cell for each of its queries, all of one reading.
type Tick struct {
	Over    Interval
	Answers []*Answer // as many as the queries, none nil
}
