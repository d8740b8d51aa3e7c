package trace

import (
	"time"
)

const (
	// mostBehind is the limit of late firings of one timer that are run. Without it, a process that
	// was paused for an hour would run nothing but its ticks.
	mostBehind = 1 << 16
	// ticksAtOnce is how many firings run between two reads of the ring buffer, so that it does not
	// overflow.
	ticksAtOnce = 256
	// lastTicks is how long the firings that are due at the end may take.
	lastTicks = 200 * time.Millisecond
)

// startTicks sets when each timer is due first.
func (p *programs) startTicks(now time.Time) {
	for i := range p.runs {
		p.runs[i].next = now.Add(p.runs[i].every)
	}
}

// nextTick returns the timer that is due first, or nil without timers. Of several that are due at
// the same time it returns the first in the text.
func (p *programs) nextTick() *run {
	var first *run
	for i := range p.runs {
		if r := &p.runs[i]; r.every > 0 && (first == nil || r.next.Before(first.next)) {
			first = r
		}
	}
	return first
}

// ticks fires the timers that are due, in the order of their times. A timer that is three intervals
// late fires three times. Firings beyond mostBehind are left out and counted. It returns how many
// it fired, at most ticksAtOnce.
func (s *Session) ticks(now time.Time) (fired int, err error) {
	for i := range s.programs.runs {
		if r := &s.programs.runs[i]; r.every > 0 {
			r.skip(s, now, mostBehind)
		}
	}
	for fired < ticksAtOnce && !s.programs.ended() {
		r := s.programs.nextTick()
		if r == nil || r.next.After(now) {
			break
		}
		// arg0 and arg1 of a sample: the address in the kernel and the address in the process.
		if err := s.fire(r, 0, ownPlace()); err != nil {
			return fired, err
		}
		r.next = r.next.Add(r.every)
		fired++
	}
	return fired, nil
}

// skip leaves firings of a timer out, and counts them, so that no more than most remain due.
func (r *run) skip(s *Session, now time.Time, most int64) {
	if r.next.After(now) {
		return
	}
	if due := int64(now.Sub(r.next)/r.every) + 1; due > most {
		s.losses.tooLate += uint64(due - most)
		r.next = r.next.Add(time.Duration(due-most) * r.every)
	}
}

// endTicks fires the timers that are due when the script ends from outside. After lastTicks the
// remaining firings are left out and counted.
func (s *Session) endTicks(d *delivery) error {
	now := time.Now()
	until := now.Add(lastTicks)
	for !s.programs.ended() && time.Now().Before(until) {
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
	if s.programs.ended() {
		return nil // exit() was called: later ticks would not have fired
	}
	for i := range s.programs.runs {
		if r := &s.programs.runs[i]; r.every > 0 {
			r.skip(s, now, 0)
		}
	}
	return nil
}
