package measure

// Label is an index into the Labels of a Batch or an Answer.
type Label uint32

// Frame is one function in a stack.
type Frame struct {
	Symbol string // function; its hexadecimal address when it has no name
	Module string // file or kernel module; "" when unknown
	Offset uint64 // in bytes, from the start of the symbol
	Parent int32  // index of the caller's frame in Frames; -1 at the root
}

// Loss is one reason why data is missing, and how much is known to be missing. It is data, not an
// error.
type Loss struct {
	Reason string `json:"reason"` // one clause: "ring buffer full"
	Events uint64 `json:"events"` // number of events lost; 0 when the number is unknown
	// Kind is set by the source that counts the loss. It is neither stored nor transferred: a loss
	// of an archive or of another process has LostEvents.
	Kind LossKind `json:"-"`
}

// LossKind is what a batch lacks of the events of a Loss.
type LossKind uint8

// The kinds of losses.
const (
	LostEvents LossKind = iota // the events are in no row
	LostStacks                 // the events are in rows, without their stacks
)

// Batch contains the values of one statistic for one interval. Row i has the labels
// Keys[i*len(By):(i+1)*len(By)]. Its value is Values[i] (Delta: the amount within Over; Level: the
// state at Over.End) or its distribution is Dists[i]. A value is NaN when it could not be measured.
// Keys are distinct.
//
// A batch without rows means that the source looked and found nothing. If its interval is empty as
// well (Over.Start = Over.End), the source could not look; Notes say why.
type Batch struct {
	Stat StatID
	By   []string
	Over Interval
	// append-only, so a sink may keep the slice; may contain labels that no row uses
	Labels []string
	// Frames are the frames of Stack fields: a label of such a field is an index into Frames. The
	// slice is append-only or replaced as a whole, so a sink may keep it. A frame without symbol
	// and caller is the empty stack.
	Frames []Frame
	Keys   []Label
	Shape  Shape // identifies the rows; 0 when unknown
	Values []float64
	Dists  []Dist
	Loss   []Loss
	Notes  []string // caveats; each keeps its text from batch to batch
}

// Rows returns the number of rows.
func (b *Batch) Rows() int { return max(len(b.Values), len(b.Dists)) }

// Key returns the labels of row i, one per field of By.
func (b *Batch) Key(i int) []Label { return b.Keys[i*len(b.By) : (i+1)*len(b.By)] }

// Series is one row of an answer: its key and one value per cell of the answer's time grid. An
// answer may have tens of thousands, so it is small.
type Series struct {
	Key []Label // one per field of Query.By
	// Values has one value per cell. Delta: the rate per second of measured time; Level: the mean.
	// NaN: not measured.
	Values  []float64
	details *seriesDetails // nil for most series
}

type seriesDetails struct {
	least, most []float64
	dists       []Dist
}

// Min returns the smallest measurement of each cell; nil when each cell is one measurement.
func (s *Series) Min() []float64 {
	if s.details == nil {
		return nil
	}
	return s.details.least
}

// Max returns the largest measurement of each cell; nil when each cell is one measurement.
func (s *Series) Max() []float64 {
	if s.details == nil {
		return nil
	}
	return s.details.most
}

// Dists returns the distribution of each cell; nil unless the statistic's kind is Dists.
func (s *Series) Dists() []Dist {
	if s.details == nil {
		return nil
	}
	return s.details.dists
}

// SetRange sets the results of Min and Max.
func (s *Series) SetRange(least, most []float64) {
	s.details = &seriesDetails{least: least, most: most}
}

// SetDists sets the result of Dists.
func (s *Series) SetDists(dists []Dist) { s.details = &seriesDetails{dists: dists} }

// Answer is the result of a query: rows over a time grid. Cell c covers (Start+c*Step,
// Start+(c+1)*Step]. Elapsed[c] is the measured time within the cell, the weight for averages of
// rates; 0 when nothing was measured.
type Answer struct {
	Query   Query
	Kind    Kind
	Unit    Unit // of the values: the unit of the rate for a Delta
	Sparse  bool // in an answer of one cell, an absent row means 0
	Start   Time
	Step    Span
	Elapsed []Span
	Labels  []string
	Frames  []Frame
	// per field of Query.By: its labels are indices into Frames; nil: no field is a stack
	Stacks []bool
	Series []Series
	Loss   []Loss
	Notes  []string
	Rest   Rest // the rows that Query.Top left out; zero when there are none

	shape  Shape     // set by SetColumn
	values []float64 // set by SetColumn
}

// Rest summarizes the rows that an answer leaves out.
type Rest struct {
	Rows   int       // number of rows; 0: none
	Values []float64 // their sum per cell; nil when they cannot be summed
}

// Label returns the text of series i in column by, an index into Query.By. A stack is formatted by
// FoldedStack.
func (a *Answer) Label(i, by int) string {
	if l := a.Series[i].Key[by]; by >= len(a.Stacks) || !a.Stacks[by] {
		return a.Labels[l]
	} else {
		return FoldedStack(a.Frames, l)
	}
}

// FieldIndex returns the index of the named field in the answer's key, or -1.
func (a *Answer) FieldIndex(name string) int {
	for i, n := range a.Query.By {
		if n == name {
			return i
		}
	}
	return -1
}

// LabelOf returns the text of the named field for series i; "" when the answer lacks that field.
func (a *Answer) LabelOf(i int, name string) string {
	if k := a.FieldIndex(name); k >= 0 {
		return a.Label(i, k)
	}
	return ""
}

// Mean returns the mean of series i, each cell weighted by its measured time; NaN when nothing was
// measured.
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

// Last returns the value of series i in its latest cell that has one; NaN when none has.
func (a *Answer) Last(i int) float64 {
	v := a.Series[i].Values
	for c := len(v) - 1; c >= 0; c-- {
		if v[c] == v[c] {
			return v[c]
		}
	}
	return NaN
}

// Max returns the largest value of series i; NaN when it has no value.
func (a *Answer) Max(i int) float64 {
	m := NaN
	for _, v := range a.Series[i].Values {
		if v == v && !(v <= m) {
			m = v
		}
	}
	return m
}

// Over returns the time that the answer's grid spans.
func (a *Answer) Over() Interval {
	return Interval{a.Start, a.Start.Add(a.Step * Span(len(a.Elapsed)))}
}

// Tick is what a watcher receives each interval: one answer of one cell for each of its queries,
// all of one reading.
type Tick struct {
	Over    Interval
	Answers []*Answer // one per query, in their order; none is nil
}
