package cpu

import (
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/measure"
)

// Clock reads which clock the kernel uses to tell the time: /sys/devices/system/clocksource.
type Clock struct{}

// Stats returns system.clocksource.
func (Clock) Stats() []measure.Stat {
	return []measure.Stat{{
		ID: "system.clocksource", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
		Help: "1: the clock that the kernel reads (clocksource0/current_clocksource)",
		Fields: []measure.Field{
			{Name: "source", Type: measure.Word, Help: "tsc, kvm-clock, hpet, acpi_pm ..."},
			{Name: "available", Type: measure.Word, Help: "those that it may use instead, the " +
				"best one first, with commas; a TSC that it found unstable is not among them"},
		},
	}}
}

// clockDir is the only directory of clock sources.
const clockDir = "devices/system/clocksource/clocksource0/"

// Open checks that the kernel shows its clock. The error is collect.Unsupported if it does not. The
// caller closes the Reading.
func (Clock) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	if procfs.ReadSysWord(env.Root, clockDir+"current_clocksource") == "" {
		return nil, collect.Unsupported("this system does not show its clock source " +
			"(/sys/" + clockDir + "current_clocksource)")
	}
	return &clockReading{root: env.Root}, nil
}

type clockReading struct{ root kernel.Root }

func (r *clockReading) Read(out *collect.Out) error {
	source := procfs.ReadSysWord(r.root, clockDir+"current_clocksource")
	others := strings.Fields(procfs.ReadSysWord(r.root, clockDir+"available_clocksource"))
	if source != "" {
		out.Table("system.clocksource").Row(1, source, strings.Join(others, ","))
	}
	return nil
}

func (r *clockReading) Close() {}
