package trace

import (
	"time"

	"culprit/lang/ir"
)

const (
	// mostBehind is how many firings of one timer are caught up. A process that was paused for an
	// hour would otherwise run nothing but its ticks.
	mostBehind = 1 << 16
	// ticksAtOnce is how many firings run before records are read again, so that the buffer does
	// not overflow.
	ticksAtOnce = 256
	// lastTicks is how long what is due at the end may take.
	lastTicks = 200 * time.Millisecond
)

// startTicks sets when each timer is due first.
func (s *Session) startTicks(now time.Time) {
	for i := range s.runs {
		s.runs[i].next = now.Add(s.runs[i].every)
	}
}

// nextTick returns the timer that is due first, of several the first one in the text; nil: there is
// none.
func (s *Session) nextTick() *run {
	var first *run
	for i := range s.runs {
		if r := &s.runs[i]; r.every > 0 && (first == nil || r.next.Before(first.next)) {
			first = r
		}
	}
	return first
}

// ticks fires the timers that are due, in the order of their times. What could not run in time is
// run later: a timer that is three intervals late fires three times. Firings beyond mostBehind are
// left out and counted. It returns how many it fired, ticksAtOnce at most.
func (s *Session) ticks(now time.Time) (fired int, err error) {
	for i := range s.runs {
		if r := &s.runs[i]; r.every > 0 {
			r.skip(s, now, mostBehind)
		}
	}
	for fired < ticksAtOnce && !s.ended() {
		r := s.nextTick()
		if r == nil || r.next.After(now) {
			break
		}
		// arg0 and arg1 of a sample: the place in the kernel, and that in the process.
		if err := s.fire(r, 0, ownPlace()); err != nil {
			return fired, err
		}
		r.next = r.next.Add(r.every)
		fired++
	}
	return fired, nil
}

// skip leaves firings of a timer out, so that at most so many are due, and counts them.
func (r *run) skip(s *Session, now time.Time, most int64) {
	if r.next.After(now) {
		return
	}
	if due := int64(now.Sub(r.next)/r.every) + 1; due > most {
		s.tooLate += uint64(due - most)
		r.next = r.next.Add(time.Duration(due-most) * r.every)
	}
}

// endTicks fires what is due when the script ends from outside. What takes too long is left out and
// counted.
func (s *Session) endTicks(d *delivery) error {
	now := time.Now()
	until := now.Add(lastTicks)
	for !s.ended() && time.Now().Before(until) {
		fired, err := s.ticks(now)
		if err != nil {
			return err
		}
		if fired == 0 {
			return nil
		}
		if err := s.drain(d, false); err != nil {
			return err
		}
	}
	if s.ended() {
		return nil // exit() was called: later ticks would not have fired
	}
	for i := range s.runs {
		if r := &s.runs[i]; r.every > 0 {
			r.skip(s, now, 0)
		}
	}
	return nil
}

// skipped reports the firings that were left out since the last time.
func (s *Session) skipped(d *delivery) error {
	n := s.tooLate
	s.tooLate = 0
	if n == 0 {
		return nil
	}
	return d.to.Drops(ir.DropLate, 0, n)
}
