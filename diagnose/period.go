package diagnose

import (
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// Period is the time in which something held.
type Period struct {
	Mask       []bool  // the cells in which it held
	Held       float64 // seconds in which it held
	Known      float64 // seconds in which it could be told
	first, end int     // the first and the last cell in which it held
}

// Lasting finds the cells of t in which holds is true. It gives ok when they are enough to speak of a state: see the
// constants above. known says in which cells it could be told at all; nil: in all that were measured.
func Lasting(t *Table, known func(c int) bool, holds func(c int) bool) (Period, bool) {
	s := Period{Mask: make([]bool, len(t.Seconds)), first: -1}
	run, longest, cells, told := 0.0, 0.0, 0, 0
	for c, sec := range t.Seconds {
		if sec <= 0 || known != nil && !known(c) {
			run = 0
			continue
		}
		told++
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
	if cells == 0 || told < threshold.LeastCells || s.Held < threshold.LeastSeconds {
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

// Share gives the part of the time in which it held, 0..1.
func (s Period) Share() float64 {
	if s.Known == 0 {
		return 0
	}
	return s.Held / s.Known
}

// String gives "10 of 10 s".
func (s Period) String() string {
	h, of := phrase.Seconds(s.Held), phrase.Seconds(s.Known)
	return h + " of " + of + " s"
}

// WholePeriod gives the spell of all that was measured.
func WholePeriod(t *Table) Period {
	s, _ := Lasting(t, nil, func(int) bool { return true })
	return s
}

// HasValue says in which cells a row has a value.
func HasValue(r *Row) func(int) bool {
	return func(c int) bool { return r.At(c) == r.At(c) }
}
