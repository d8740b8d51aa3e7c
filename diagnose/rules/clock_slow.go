package rules

import (
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
)

// clockSlow finds a kernel on x86 that reads the time from a device: each look at the clock is a
// system call and takes a microsecond and more, 30 to 100 times as long as with the TSC. Clocks of
// hypervisors and of other processors are fast.
func clockSlow() diagnose.Rule {
	return diagnose.Rule{
		ID: "clock-slow", Checks: "clock source",
		Finds: []string{facts.Clocksource},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.Clocksource)
			for _, r := range t.Rows {
				s, ok := diagnose.Lasting(t, diagnose.HasValue(r),
					func(c int) bool { return r.At(c) > 0 })
				if ok && slices.Contains(slowClocks(), r.Word("source")) {
					accuseClock(l, r, s)
				}
			}
		},
	}
}

// slowClocks returns the clock sources that are devices, or interrupts.
func slowClocks() []string {
	return []string{"hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"}
}

func accuseClock(l *diagnose.Look, r *diagnose.Row, s diagnose.Period) {
	source := r.Word("source")
	others := strings.Split(r.Word("available"), ",")
	at := slices.IndexFunc(others, func(other string) bool {
		return other != "" && !slices.Contains(slowClocks(), other)
	})
	why := "The kernel offers no faster one: it probably found the TSC unstable."
	if at >= 0 {
		why = "The kernel also offers " + phrase.Clean(others[at]) + ", which is faster."
	}
	f := l.Found("", diagnose.Low, 0.9, diagnose.Culprit{Kind: "host", Name: source},
		fmt.Sprintf("The kernel reads the time from %s, a slow device: programs that ask for the "+
			"time often, such as databases and tracing, pay a system call each time. %s",
			phrase.Clean(source), why))
	f.AddEvidence(r.Table, s, r.Query(), 1, r.Table.Unit, fmt.Sprintf(
		"the clock source is %s; available: %s", phrase.Clean(source),
		phrase.Clean(r.Word("available"))))
	f.AddCaveat(0, "It matters where programs ask for the time thousands of times per second.")
	const file = "/sys/devices/system/clocksource/clocksource0/"
	f.Verify = "cat " + file + "*_clocksource; dmesg | grep -i -E 'clocksource|tsc'"
	if at >= 0 {
		set := func(to string) string {
			return "echo " + phrase.Shell(to) + " > " + file + "current_clocksource"
		}
		f.Fix = &diagnose.Fix{Command: set(others[at]), Undo: set(source),
			Risk: "medium: somebody may have chosen the slow clock because the other one is wrong"}
	}
}
