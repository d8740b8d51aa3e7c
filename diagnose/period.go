package diagnose

import (
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// Period is the time in which a condition held.
type Period struct {
	Mask       []bool  // the cells in which it held
	Held       float64 // seconds in which it held
	Known      float64 // seconds in which it could be evaluated
	first, end int     // the first and the last cell in which it held
}

// Lasting returns the cells of t in which holds is true, and whether they are enough for a state:
// see threshold.LeastCells and those after it. known reports the cells in which the condition can
// be evaluated; nil: all that were measured.
func Lasting(t *Table, known func(c int) bool, holds func(c int) bool) (Period, bool) {
	s := Period{Mask: make([]bool, len(t.Seconds)), first: -1}
	run, longest, cells, evaluated := 0.0, 0.0, 0, 0
	for c, sec := range t.Seconds {
		if sec <= 0 || known != nil && !known(c) {
			run = 0
			continue
		}
		evaluated++
		s.Known += sec
		if !holds(c) {
			run = 0
			continue
		}
		s.Mask[c] = true
		s.Held += sec
		run += sec
		longest = max(longest, run)
		cells++
		if s.first < 0 {
			s.first = c
		}
		s.end = c
	}
	if cells == 0 || evaluated < threshold.LeastCells || s.Held < threshold.LeastSeconds {
		return s, false
	}
	if t.Step <= measure.Second && cells < threshold.LeastCells {
		return s, false
	}
	if s.Held >= threshold.LeastShare*s.Known {
		return s, true
	}
	return s, s.Known >= threshold.LongRange && longest >= threshold.LongRun
}

// Share returns the share of the known time in which the condition held, 0..1.
func (s Period) Share() float64 {
	if s.Known == 0 {
		return 0
	}
	return s.Held / s.Known
}

// String returns "10 of 10 s".
func (s Period) String() string {
	h, of := phrase.Seconds(s.Held), phrase.Seconds(s.Known)
	return h + " of " + of + " s"
}

// WholePeriod returns the period of all measured cells.
func WholePeriod(t *Table) Period {
	s, _ := Lasting(t, nil, func(int) bool { return true })
	return s
}

// HasValue returns a function that reports whether a row has a value in a cell.
func HasValue(r *Row) func(int) bool {
	return func(c int) bool { return r.At(c) == r.At(c) }
}
