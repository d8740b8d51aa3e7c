package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// cpuSlow finds CPUs that are slower than they can be while they work: because of heat, because
// somebody has limited their frequency, or for another reason.
func cpuSlow() diagnose.Rule {
	return diagnose.Rule{
		ID: "cpu-slow", Checks: "frequency and heat of the CPUs",
		Needs: []string{facts.CPUTime},
		Uses: []string{facts.FrequencyLimits, facts.Frequencies, facts.ThrottleTime,
			facts.ThrottleCount},
		Check: func(l *diagnose.Look) {
			m := facts.MachineOf(l.Table(facts.CPUTime))
			known := 0
			for _, query := range []string{facts.FrequencyLimits, facts.ThrottleTime,
				facts.ThrottleCount} {
				known += len(l.Table(query).Rows)
			}
			if known == 0 {
				l.Unchecked("this machine shows neither limits of the frequency nor heat, as " +
					"most virtual machines")
				return
			}
			if hotCPUs(l, m) || limitedCPUs(l, m) {
				return
			}
			slowClockCPUs(l, m)
		},
	}
}

// saturatedNow reports whether next to no CPU time is left in a period.
func saturatedNow(m facts.Machine, s diagnose.Period) bool {
	return m.Share(s.Mask, "idle", "iowait") < threshold.CPUNearlyIdle
}

// hotCPUs finds the CPU that is slowed down most because of heat. Without times, before Linux 5.8,
// the number of times counts.
func hotCPUs(l *diagnose.Look, m facts.Machine) bool {
	measured := l.Table(facts.ThrottleTime)
	worst, when := worstRow(measured, threshold.ThrottleShare)
	if worst == nil && !measured.HasNumbers() {
		worst, when = worstRow(l.Table(facts.ThrottleCount), threshold.ThrottleRate)
		if worst != nil {
			f := accuseHeat(l, worst, when, diagnose.Medium, fmt.Sprintf("%s per second",
				phrase.Count(worst.Mean(when.Mask))))
			f.AddCaveat(0.1, "How long each time lasts is not measured before Linux 5.8.")
			return true
		}
	}
	if worst == nil {
		return false
	}
	share, severity := min(worst.Mean(when.Mask), 1), diagnose.Medium
	if share >= threshold.ThrottleHigh && saturatedNow(m, when) {
		severity = diagnose.High
	}
	f := accuseHeat(l, worst, when, severity, phrase.Percent(share)+" of the time")
	f.SetEffect(share)
	return true
}

// worstRow returns the row with the highest mean of those that stay above a value.
func worstRow(t *diagnose.Table, least float64) (worst *diagnose.Row, when diagnose.Period) {
	for _, r := range t.Rows {
		s, ok := diagnose.Lasting(t, diagnose.HasValue(r), func(c int) bool {
			return r.At(c) >= least
		})
		if ok && r.Word("cpu") != "" && (worst == nil || r.Mean(s.Mask) > worst.Mean(when.Mask)) {
			worst, when = r, s
		}
	}
	return worst, when
}

func accuseHeat(l *diagnose.Look, r *diagnose.Row, s diagnose.Period, severity diagnose.Severity,
	amount string) *diagnose.Finding {
	cpu := phrase.Clean(r.Word("cpu"))
	what := "The core of CPU " + cpu
	if r.Word("scope") == "package" {
		what = "The processor of CPU " + cpu
	}
	f := l.Found("heat", severity, 0.9, diagnose.Culprit{Kind: "cpu", Name: cpu}, fmt.Sprintf(
		"%s is slowed down because of heat %s, for %s.", what, amount, s))
	f.AddEvidence(r.Table, s, r.Query(), r.Mean(s.Mask), r.Table.Unit,
		fmt.Sprintf("throttled %s", amount))
	f.Verify = "grep . /sys/devices/system/cpu/cpu" + cpu + "/thermal_throttle/*; sensors; " +
		"turbostat --quiet sleep 5"
	return f
}

// limitedCPUs finds CPUs whose frequency somebody has limited, while they are in use.
func limitedCPUs(l *diagnose.Look, m facts.Machine) bool {
	t := l.Table(facts.FrequencyLimits)
	var set, all, lowest float64
	limited := 0
	var row *diagnose.Row
	for _, r := range t.Where("kind", "set") {
		hardware := t.One("cpu", r.Word("cpu"), "kind", "hardware").Last()
		if v := r.Last(); v == v && hardware == hardware {
			set, all = set+v, all+hardware
			if v < threshold.SlowLimit*hardware {
				if limited++; row == nil || v < lowest {
					row, lowest = r, v
				}
			}
		}
	}
	if row == nil || set >= threshold.SlowLimit*all {
		return false
	}
	s, ok := diagnose.Lasting(m.Table, m.Known, func(c int) bool {
		return m.Idle(c) <= 1-threshold.SlowBusy
	})
	if !ok {
		return false
	}
	severity := diagnose.Low
	if saturatedNow(m, s) {
		severity = diagnose.Medium
	}
	hardware := t.One("cpu", row.Word("cpu"), "kind", "hardware")
	f := l.Found("limit", severity, 0.85, diagnose.Culprit{Kind: "host", Name: "frequency limit"},
		fmt.Sprintf("%s may not run faster than %s, %s of what they reach, while they are in use "+
			"(%s), for %s.", phrase.Plural(limited, "CPU", "CPUs"), hertz(row.Last()),
			phrase.Percent(row.Last()/hardware.Last()),
			phrase.Percent(1-m.Share(s.Mask, "idle", "iowait")), s))
	f.SetEffect(1 - set/all)
	f.AddEvidence(t, s, row.Query(), row.Last(), t.Unit, "limited to "+hertz(row.Last())).
		CompareTo(hardware.Last(), "what the CPU reaches")
	f.AddCaveat(0, "A profile for low power or little noise sets such a limit on purpose.")
	const files = "/sys/devices/system/cpu/cpu*/cpufreq/"
	f.Verify = "grep . " + files + "scaling_max_freq " + files + "cpuinfo_max_freq"
	write := func(from string) string {
		return "for f in " + files + "scaling_max_freq; do " + from + " > $f; done"
	}
	f.Fix = &diagnose.Fix{Command: write("cat ${f%scaling_max_freq}cpuinfo_max_freq"),
		Undo: write(fmt.Sprintf("echo %.0f", row.Last()/1e3)),
		Risk: "low: more power and heat; a power service may set the limit again"}
	return true
}

// slowClockCPUs finds busy CPUs that run much slower than their limit.
func slowClockCPUs(l *diagnose.Look, m facts.Machine) {
	t, limits := l.Table(facts.Frequencies), l.Table(facts.FrequencyLimits)
	var worst *diagnose.Row
	var when diagnose.Period
	share, slow := 1.0, 0
	for _, r := range t.Rows {
		cpu := r.Word("cpu")
		limit := limits.One("cpu", cpu, "kind", "set").Last()
		busy := func(c int) bool {
			return m.Of(cpu, c, "idle", "iowait") <= threshold.CPUNearlyIdle
		}
		s, ok := diagnose.Lasting(t, diagnose.HasValue(r), func(c int) bool {
			return busy(c) && r.At(c) < threshold.SlowClock*limit
		})
		if !ok || cpu == "" {
			continue
		}
		slow++
		if v := r.Mean(s.Mask) / limit; v < share {
			worst, when, share = r, s, v
		}
	}
	if worst == nil {
		return
	}
	f := l.Found("frequency", diagnose.Medium, 0.75, diagnose.Culprit{Kind: "cpu",
		Name: worst.Word("cpu")}, fmt.Sprintf("%s while busy: CPU %s at %s, %s of its limit, for %s.",
		phrase.Plural(slow, "CPU is slow", "CPUs are slow"), phrase.Clean(worst.Word("cpu")),
		hertz(worst.Mean(when.Mask)), phrase.Percent(share), when))
	f.SetEffect(1 - share)
	f.AddEvidence(t, when, worst.Query(), worst.Mean(when.Mask), t.Unit,
		hertz(worst.Mean(when.Mask))+" while busy").
		CompareTo(series.Or(worst.Mean(when.Mask)/share, 0), "its limit")
	f.AddCaveat(0, "The governor powersave, a limit of power, the firmware, or heat do this.")
	f.Verify = "grep . /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; " +
		"turbostat --quiet sleep 5"
}

func hertz(v float64) string { return fmt.Sprintf("%.3g GHz", v/1e9) }
