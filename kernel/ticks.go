package kernel

import (
	"context"
	"time"

	"culprit/measure"
)

// clockPatience is how far the wall clock may be set back before a run by the wall clock stops waiting for it. Those seconds are lived
// twice and have one place in an archive: the reading after them covers both. For longer that would be blindness.
const clockPatience = 10 * measure.Second

// Ticks plans when a source reads. Used by one goroutine.
type Ticks struct {
	step  time.Duration
	sleep func(time.Duration) error // until then, or the context ends
	begun bool

	next  time.Time // of a run that counts from its start
	first time.Time // when its first reading began; zero once the second is planned

	wall measure.Time        // of a run by the wall clock: when to read next; 0 in the other
	now  func() measure.Time // the wall clock
}

// PlanTicks plans the ticks of a measure.Source that begins now (from = 0), whenever its first wait is, or when the wall clock says from.
func PlanTicks(ctx context.Context, step measure.Span, from measure.Time) *Ticks {
	return &Ticks{step: step.AsDuration(), next: time.Now(), wall: from, now: wallClock,
		sleep: func(d time.Duration) error { return sleep(ctx, d) }}
}

// mostLead is the part of a step by which readings may come before the whole steps; see Wait.
const mostLead = 20

// Wait waits for the next reading. False: the context ended. The one after it is planned when Wait is called again, so that it is
// after the time that the reading took. In a run that counts from its start the readings after the first begin so much before the whole steps as the
// first one took, at most a 20th of a step: what a look of ten seconds found is then told after ten seconds, however much there is to read.
func (t *Ticks) Wait() bool {
	if t.wall != 0 {
		return t.waitWall()
	}
	if !t.begun {
		t.begun, t.first = true, time.Now()
		return t.sleep(0) == nil
	}
	if !t.first.IsZero() {
		t.next = t.next.Add(-min(time.Since(t.first), t.step/mostLead))
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
		// The next after the tick planned, or after now when that is later. A clock that was set back is waited for.
		t.wall = max(t.wall-t.wall%step, now-now%step) + step
	}
	t.begun = true
	for {
		left := t.wall.Sub(now)
		if left <= 0 {
			return t.sleep(0) == nil
		}
		if left > measure.Span(t.step)+clockPatience {
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
