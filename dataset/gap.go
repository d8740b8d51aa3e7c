package dataset

import (
	"fmt"
	"slices"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// gaps explains intervals in which nothing was recorded. Each explanation is a note in the data of
// the tick after it.
type gaps struct {
	suspended func() measure.Span // since boot; see suspendedTime
	before    measure.Span        // suspended at the previous tick
}

func newGaps() gaps { return gaps{suspendedTime, suspendedTime()} }

const (
	// shortestGap is the shortest gap that is noted, together with shortestGapSteps; a busy machine
	// makes shorter ones, which Health.Late counts.
	shortestGap      = 3 * measure.Second
	shortestGapSteps = 3
	// startTime is how long after the start a first tick may be that follows on a restart.
	startTime = 10 * measure.Second
)

// suspendedTime returns how long the machine was suspended since boot: clock_gettime(2),
// CLOCK_BOOTTIME goes on meanwhile and CLOCK_MONOTONIC does not. 0 if it is unknown.
func suspendedTime() measure.Span {
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil {
		return 0
	}
	return measure.Span(boot.Nano() - mono.Nano())
}

// Continued records that the process was stopped and goes on: it has received SIGCONT.
func (s *Set) Continued() {
	select {
	case s.continued <- struct{}{}:
	default:
	}
}

// gapNote returns why nothing was recorded between the previous tick and the one of at, which was
// measured from start; "" if the gap is short. r.mu is held.
func (r *recorder) gapNote(at, start measure.Time) string {
	g := &r.gaps
	suspended := g.suspended()
	slept := suspended - g.before
	g.before = suspended
	stopped := false
	select {
	case <-r.set.continued:
		stopped = true
	default:
	}
	if r.first == 0 {
		r.set.mu.Lock()
		before := r.set.recordedBefore
		r.set.mu.Unlock()
		if before == 0 || at.Sub(r.set.started) > r.step+startTime {
			return ""
		}
		if start.Sub(before) < r.step/2 {
			return "culprit restarted here: no interval is missing"
		}
		return fmt.Sprintf(
			"culprit restarted here: nothing was recorded for %v before", lasted(start.Sub(before)),
		)
	}
	gap := at.Sub(r.last) - r.step
	if gap < max(shortestGap, shortestGapSteps*r.step) {
		return ""
	}
	switch {
	case slept >= shortestGap:
		return fmt.Sprintf("the machine was suspended for %v before this", lasted(slept))
	case stopped:
		return fmt.Sprintf(
			"culprit was stopped (SIGSTOP or Ctrl-Z) and recorded nothing for %v before this",
			lasted(gap),
		)
	}
	return fmt.Sprintf(
		"culprit recorded nothing for %v before this: it did not run (stopped, frozen, or "+
			"without CPU time), or the clock was set", lasted(gap),
	)
}

func lasted(d measure.Span) time.Duration { return d.AsDuration().Round(time.Second) }

// withNote returns copies of batches with a note. The batches belong to their sources.
func withNote(batches []*measure.Batch, note string) []*measure.Batch {
	out := make([]*measure.Batch, len(batches))
	for i, b := range batches {
		c := *b
		c.Notes = append(slices.Clip(slices.Clone(b.Notes)), note)
		out[i] = &c
	}
	return out
}
