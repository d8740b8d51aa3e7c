package cpu

import (
	"cmp"
	"fmt"

	"culprit/collect"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// ClockSteps compares the wall clock with the monotonic one. Time services that adjust the speed of
// the clock change both alike; setting it changes the wall clock alone.
type ClockSteps struct {
	read func() (wall, boot measure.Span, err error) // nil: the clocks of the machine
}

// leastClockStep is the smallest step that counts. Two readings of both clocks differ by less,
// unless the reader lost the CPU between them: see clockDifference.
const leastClockStep = measure.Millisecond

// Stats returns system.clock.steps.
func (ClockSteps) Stats() []measure.Stat {
	return []measure.Stat{{
		ID: "system.clock.steps", Kind: measure.Delta, Unit: measure.Nanoseconds,
		Help: "by how much the wall clock was set, not adjusted: its difference from the clock " +
			"since boot, steps of 1 ms and more (clock_gettime)",
		Fields: []measure.Field{{Name: "direction", Type: measure.Word, Help: "forward back"}},
	}}
}

// Open reads the clocks. An error means that they cannot be read. The caller closes the Reading.
func (c ClockSteps) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	r := &clockStepReading{clocks: c.read}
	if r.clocks == nil {
		r.clocks = readClocks
	}
	if _, _, err := r.clockDifference(); err != nil {
		return nil, err
	}
	return r, nil
}

// readClocks reads CLOCK_REALTIME and CLOCK_BOOTTIME, which includes suspension.
func readClocks() (wall, boot measure.Span, err error) {
	var w, b unix.Timespec
	if err := cmp.Or(unix.ClockGettime(unix.CLOCK_REALTIME, &w),
		unix.ClockGettime(unix.CLOCK_BOOTTIME, &b)); err != nil {
		return 0, 0, fmt.Errorf("read the clocks: %w", err)
	}
	return measure.Span(w.Nano()), measure.Span(b.Nano()), nil
}

type clockStepReading struct {
	clocks  func() (wall, boot measure.Span, err error)
	known   bool
	before  measure.Span // wall clock less the clock since boot
	blurred measure.Span // how far off it may be
}

// clockDifference returns the wall clock less the clock since boot, and how far off it may be: the
// wall clock was read between two readings of the other. Of some tries the closest counts.
func (r *clockStepReading) clockDifference() (difference, blurred measure.Span, err error) {
	_, boot, err := r.clocks()
	if err != nil {
		return 0, 0, err
	}
	for try := range 5 {
		wall, next, err := r.clocks()
		if err != nil {
			return 0, 0, err
		}
		if took := next - boot; try == 0 || took < blurred {
			difference, blurred = wall-next, took
		}
		if boot = next; blurred < measure.Millisecond/10 {
			break
		}
	}
	return difference, blurred, nil
}

func (r *clockStepReading) Read(out *collect.Out) error {
	now, blurred, err := r.clockDifference()
	if err != nil {
		return err
	}
	step := now - r.before
	if !r.known || max(step, -step) < leastClockStep+blurred+r.blurred {
		step = 0
	}
	first := !r.known
	if first || step != 0 || blurred <= r.blurred {
		r.known, r.before, r.blurred = true, now, blurred
	}
	if first || out.First {
		return nil
	}
	t := out.Table("system.clock.steps")
	t.Row(float64(max(step, 0)), "forward")
	t.Row(float64(max(-step, 0)), "back")
	return nil
}

func (r *clockStepReading) Close() {}
