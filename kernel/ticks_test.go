package kernel

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

// A run by the wall clock reads at whole steps of it, whatever the reading takes and the clock
// does.
func TestTicksOfTheWallClock(t *testing.T) {
	const ms = measure.Millisecond
	for _, c := range []struct {
		name string
		step measure.Span
		acts string // what happens after each reading: time passes, or the clock is set by +n or -n
		want string // milliseconds of the wall clock, beginning at 10,400
	}{
		{"quick readings", 1000, "3 3 3", "11000 12000 13000 14000"},
		{"a slow reading", 1000, "300 1200 1 1", "11000 12000 14000 15000 16000"},
		{"timers that fire early", 1000, "early early 1", "11000 12000 13000 14000"},
		{"a step of 10 s", 10000, "1 1", "11000 20000 30000"},
		{"set forward", 1000, "1 +5500 1", "11000 12000 18500 19000"},
		{"set back a little", 1000, "1 -2500 1", "11000 12000 13000 14000"},
		{"set back for long", 1000, "1 -3600000 1", "11000 12000 -3586000 -3585000"},
	} {
		base := measure.Time(1e6 * measure.Second) // the times below are after it
		wall, early := base+measure.Time(10400*ms), false
		var got []string
		p := &Ticks{step: (c.step * ms).AsDuration(), wall: base + measure.Time(11000*ms),
			now: func() measure.Time { return wall }}
		acts := strings.Fields(c.acts)
		set := measure.Time(0)
		ended := errors.New("ended")
		p.sleep = func(d time.Duration) error {
			if len(got) > len(strings.Fields(c.acts)) {
				return ended
			}
			wall, set = wall+measure.Time(d)+set, 0
			if early && d > time.Millisecond {
				wall -= measure.Time(200 * measure.Microsecond)
			}
			return nil
		}
		for p.Wait() {
			if early {
				wall = wall / measure.Time(ms) * measure.Time(ms)
			}
			got = append(got, fmt.Sprint(int64(wall-base)/int64(ms)))
			if len(acts) == 0 {
				break
			}
			act := acts[0]
			acts = acts[1:]
			n := int64(0)
			if act == "early" {
				early = true
			} else if _, err := fmt.Sscan(strings.TrimPrefix(act, "+"), &n); err != nil {
				t.Fatal(err)
			}
			if act[0] == '+' || act[0] == '-' {
				set = measure.Time(n) * measure.Time(ms) // while it sleeps
			} else {
				wall += measure.Time(n) * measure.Time(ms)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: read at %s, want %s", c.name, text, c.want)
		}
	}
}

// A run that counts from its start reads so much before the whole steps as its first reading took,
// but no more than a 20th of a step.
func TestTicksLead(t *testing.T) {
	const step = 400 * time.Millisecond
	for _, took := range []time.Duration{0, 3 * time.Millisecond, time.Second} {
		start := time.Now()
		p := &Ticks{step: step, next: start, sleep: func(time.Duration) error { return nil }}
		p.Wait()
		p.first = p.first.Add(-took)
		p.Wait()
		lead := start.Add(step).Sub(p.next)
		if lead < min(took, step/leadShare) || lead > step/leadShare {
			t.Errorf("the first reading took %v, and the second is %v before the step", took, lead)
		}
		before := p.next
		if p.Wait(); p.next.Sub(before) != step {
			t.Errorf("%v from the second to the third", p.next.Sub(before))
		}
	}
}
