package kernel

import (
	"context"
	"time"

	"culprit/measure"
)

// maxClockWait is how far the wall clock may be set back while Ticks still waits for it. The
// archive has one place for the seconds that come twice: the next reading covers both. After a
// larger step readings go on at once.
const maxClockWait = 10 * measure.Second

// Ticks plans when a source reads. It is used by one goroutine.
type Ticks struct {
	step  time.Duration
	sleep func(time.Duration) error // until then, or the context ends
	begun bool

	next  time.Time // of a run that counts from its start
	first time.Time // when its first reading began; zero once the second is planned

	wall measure.Time        // of a run by the wall clock: when to read next; 0 in the other
	now  func() measure.Time // the wall clock
}

// PlanTicks plans ticks of a measure.Source, one per step. from 0: the first tick is now. Otherwise
// the first tick is when the wall clock shows from. Ticks end with ctx.
func PlanTicks(ctx context.Context, step measure.Span, from measure.Time) *Ticks {
	return &Ticks{step: step.AsDuration(), next: time.Now(), wall: from, now: wallClock,
		sleep: func(d time.Duration) error { return sleep(ctx, d) }}
}

// leadShare is the part of a step by which readings may begin early; see Wait.
const leadShare = 20

// Wait waits for the next tick and returns false when the context has ended. A tick that is already
// past is left out.
//
// Ticks that count from the start begin early, by the time that the first reading took and by at
// most a 20th of a step. So ten seconds of sampling print after ten seconds, however much there is
// to read.
func (t *Ticks) Wait() bool {
	if t.wall != 0 {
		return t.waitWall()
	}
	if !t.begun {
		t.begun, t.first = true, time.Now()
		return t.sleep(0) == nil
	}
	if !t.first.IsZero() {
		t.next = t.next.Add(-min(time.Since(t.first), t.step/leadShare))
		t.first = time.Time{}
	}
	t.next = t.next.Add(t.step)
	if late := time.Since(t.next); late > 0 {
		t.next = t.next.Add((late/t.step + 1) * t.step)
	}
	return t.sleep(time.Until(t.next)) == nil
}

func (t *Ticks) waitWall() bool {
	step := measure.Time(t.step)
	now := t.now()
	if t.begun {
		// One step after the planned tick or after now, the later one. A clock that was set back is
		// waited for.
		t.wall = max(t.wall-t.wall%step, now-now%step) + step
	}
	t.begun = true
	for {
		left := t.wall.Sub(now)
		if left <= 0 {
			return t.sleep(0) == nil
		}
		if left > measure.Span(t.step)+maxClockWait {
			t.wall = now - now%step + step
			left = t.wall.Sub(now)
		}
		// Timers go by the monotonic clock: look at the wall clock when they fire.
		if t.sleep(left.AsDuration()) != nil {
			return false
		}
		now = t.now()
	}
}

func wallClock() measure.Time { return measure.Time(time.Now().UnixNano()) }

// sleep returns after d, at once when d is not positive, or with the context's error when the
// context ends.
func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
