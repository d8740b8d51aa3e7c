package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// clockSteps finds that the wall clock was set while the monotonic clock went on. A time service
// steps the clock once after the start, and then adjusts its speed.
func clockSteps() diagnose.Rule {
	return diagnose.Rule{
		ID: "clock-steps", Checks: "steps of the wall clock",
		Needs: []string{facts.ClockStepped},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.ClockStepped)
			forward, back := t.One("direction", "forward"), t.One("direction", "back")
			s, _ := diagnose.Lasting(t, diagnose.HasValue(forward),
				func(int) bool { return true })
			if s.Known < threshold.LeastSeconds {
				l.Unchecked("the clocks were compared for too short a time")
				return
			}
			var steps, moved, all float64
			for c, seconds := range t.Seconds {
				// a delta of time is a ratio: seconds per second
				f := series.Or(forward.At(c), 0) * seconds
				b := series.Or(back.At(c), 0) * seconds
				if f+b >= threshold.ClockStep {
					steps++
					moved, all = moved+f-b, all+f+b
				}
			}
			if steps > 0 {
				accuseSteps(l, t, s, steps, moved, all)
			}
		},
	}
}

// accuseSteps reports steps: all is the sum of their sizes, moved that of forward less back.
func accuseSteps(l *diagnose.Look, t *diagnose.Table, s diagnose.Period,
	steps, moved, all float64) {
	severity, why := diagnose.Low, "a time service or a person set it"
	switch {
	case steps >= threshold.ClockSteps && s.Known <= threshold.ClockEvery*steps:
		severity = diagnose.Medium
		why = "two time services may set it in turn, as one here and one of the hypervisor"
	case all >= threshold.ClockStepFelt:
		severity = diagnose.Medium
	}
	way := "forward"
	if moved < 0 {
		way, moved = "back", -moved
	}
	f := l.Found("", severity, 0.95, diagnose.Culprit{Kind: "host", Name: "wall clock"},
		fmt.Sprintf("The wall clock was set %s within %s s, by %s in all and %s %s in the end: %s.",
			times(int(steps)), phrase.Seconds(s.Known), phrase.Duration(all*1e9),
			phrase.Duration(moved*1e9), way, why))
	f.AddEvidence(t, s, facts.ClockStepped, all/s.Known, t.Unit, fmt.Sprintf(
		"it left the monotonic clock by %s, in %s", phrase.Duration(all*1e9),
		phrase.Plural(int(steps), "step", "steps")))
	f.AddCaveat(0, "Programs that measure time with the wall clock are off by as much: timeouts, "+
		"leases, rates, the order of log lines.")
	f.AddCaveat(0.05, "One step after the start, or after a virtual machine was paused, is usual.")
	f.Verify = "timedatectl; chronyc tracking; journalctl -b | grep -i -E 'time.*(step|jump|set)'"
}

// times returns "once" or "3 times".
func times(n int) string {
	if n == 1 {
		return "once"
	}
	return phrase.Plural(n, "time", "times")
}
