package diagnose

import "culprit/measure"

// How long something must last to be a state and not a moment.
const (
	// leastCells: two measurements can agree by chance; three in which the same holds are a state.
	leastCells = 3
	// leastSeconds is what CASES asks of a saturated link (3 s), less what ticks jitter.
	leastSeconds = 2.7
	// leastShare: in a short look most of the time must be so. Bursts that fill less than this leave room for more work.
	leastShare = 0.6
	// longRange is from where on a range holds many states, each of which counts if it lasted longRun by itself: an hour
	// with three saturated minutes is worth a finding about these minutes.
	longRange = 60.0
	longRun   = 10.0
)

// spell is the time in which something held.
type spell struct {
	mask       []bool  // the cells in which it held
	held       float64 // seconds in which it held
	of         float64 // seconds in which it could be told
	first, end int     // the first and the last cell in which it held
}

// lasting finds the cells of t in which holds is true. It gives ok when they are enough to speak of a state: see the
// constants above. known says in which cells it could be told at all; nil: in all that were measured.
func lasting(t *Table, known func(c int) bool, holds func(c int) bool) (spell, bool) {
	s := spell{mask: make([]bool, len(t.Seconds)), first: -1}
	run, longest, cells, told := 0.0, 0.0, 0, 0
	for c, sec := range t.Seconds {
		if sec <= 0 || known != nil && !known(c) {
			run = 0
			continue
		}
		told++
		s.of += sec
		if !holds(c) {
			run = 0
			continue
		}
		s.mask[c] = true
		s.held += sec
		run += sec
		longest = max(longest, run)
		cells++
		if s.first < 0 {
			s.first = c
		}
		s.end = c
	}
	if cells == 0 || told < leastCells || s.held < leastSeconds {
		return s, false
	}
	if t.step <= measure.Second && cells < leastCells {
		return s, false
	}
	if s.held >= leastShare*s.of {
		return s, true
	}
	return s, s.of >= longRange && longest >= longRun
}

// share gives the part of the time in which it held, 0..1.
func (s spell) share() float64 {
	if s.of == 0 {
		return 0
	}
	return s.held / s.of
}

// String gives "10 of 10 s".
func (s spell) String() string {
	h, of := seconds(s.held), seconds(s.of)
	return h + " of " + of + " s"
}

// whole gives the spell of all that was measured.
func whole(t *Table) spell {
	s, _ := lasting(t, nil, func(int) bool { return true })
	return s
}
