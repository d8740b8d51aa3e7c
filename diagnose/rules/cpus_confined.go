package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// cpusConfined finds processes that wait for the CPUs that their affinity or cpuset allows, while
// other CPUs idle.
func cpusConfined() diagnose.Rule {
	return diagnose.Rule{
		ID: "cpus-confined", Checks: "affinity and cpusets",
		Needs: []string{facts.CPUTime},
		Finds: []string{facts.Placement, facts.ProcessWait},
		Check: func(l *diagnose.Look) {
			m := facts.MachineOf(l.Table(facts.CPUTime))
			if len(m.Names) < 2 {
				return
			}
			for _, allowed := range l.Table(facts.Placement).Keys("allowed") {
				set := facts.CPUSet(allowed)
				if in, out := set.Of(m.Names); len(in) > 0 && len(out) > 0 {
					g := confined{set: set, in: in, out: out}
					if g.waits(l, m) {
						g.accuse(l, m)
					}
				}
			}
		},
	}
}

// A confined group is the processes that may use the same CPUs only.
type confined struct {
	set     facts.CPUSet
	in, out []string        // CPUs that they may use, and the others
	rows    []*diagnose.Row // of process.runwait
	waited  []float64       // tasks that wait, by cell
	s       diagnose.Period
}

// waits reports whether the processes wait while their CPUs are full and others idle.
func (g *confined) waits(l *diagnose.Look, m facts.Machine) bool {
	place, wait := l.Table(facts.Placement), l.Table(facts.ProcessWait)
	g.waited = make([]float64, len(wait.Seconds))
	seen := map[string]bool{}
	for _, p := range place.Where("allowed", string(g.set)) {
		pid := p.Word("pid")
		row := wait.One("pid", pid)
		for c := range g.waited {
			if p.At(c) > 0 {
				g.waited[c] += series.Or(row.At(c), 0)
			}
		}
		if row != nil && !seen[pid] {
			seen[pid] = true
			g.rows = append(g.rows, row)
		}
	}
	var ok bool
	g.s, ok = diagnose.Lasting(wait, m.Known, func(c int) bool {
		return g.waited[c] >= threshold.ConfinedWait &&
			m.IdleOf(g.in, c) <= threshold.ConfinedIdle*float64(len(g.in)) &&
			m.IdleOf(g.out, c) >= threshold.ConfinedOthers
	})
	return ok
}

// mean returns the mean number of idle CPUs among some in the period.
func (g *confined) mean(m facts.Machine, cpus []string) float64 {
	v := make([]float64, len(m.Table.Seconds))
	for c := range v {
		v[c] = m.IdleOf(cpus, c)
	}
	return series.Or(m.Table.Mean(v, g.s.Mask), measure.NaN)
}

func (g *confined) accuse(l *diagnose.Look, m facts.Machine) {
	t, wait, s := l.Table(facts.CPUTime), l.Table(facts.ProcessWait), g.s
	all := facts.Programs(wait, g.rows, s.Mask)
	if len(all) == 0 {
		return
	}
	waited, top := wait.Mean(g.waited, s.Mask), all[0]
	busy := 1 - g.mean(m, g.in)/float64(len(g.in))
	idle := g.mean(m, g.out)
	which, is := "CPU "+phrase.Clean(string(g.set)), "is"
	if len(g.in) > 1 {
		which, is = "CPUs "+phrase.Clean(string(g.set)), "are"
	}
	severity := diagnose.Medium
	if waited >= threshold.ConfinedMany {
		severity = diagnose.High
	}
	f := l.Found(top.Identity(), severity, 0.9, top.Culprit(), fmt.Sprintf(
		"%s may use %s only, which %s %s busy: %s tasks wait there for %s, while %s of the other "+
			"%s idle.", facts.ShortNames(all), which, is, phrase.Percent(busy),
		phrase.Digits(waited), s, phrase.Digits(idle), phrase.Plural(len(g.out), "CPU", "CPUs")))
	f.Subject = g.set
	f.SetEffect(waited / (waited + float64(len(g.in))))
	facts.AddWaits(f, wait, s, all)
	f.AddEvidence(t, s, `cpu.time by cpu where mode in ("idle", "iowait")`, idle, t.Unit,
		fmt.Sprintf("%s of %s that it may not use idle", phrase.Digits(idle),
			phrase.Plural(len(g.out), "CPU", "CPUs"))).CompareTo(float64(len(g.out)), "CPUs")
	f.AddCaveat(0, "CPUs may be kept free on purpose, for interrupts or another program.")
	pid := top.PID()
	f.Verify = fmt.Sprintf("taskset -cp %d; cat /proc/%d/cpuset; mpstat -P ALL 1 3", pid, pid)
	if pid > 0 {
		f.Fix = &diagnose.Fix{
			Command: fmt.Sprintf("taskset -acp %s-%s %d", m.Names[0], m.Names[len(m.Names)-1], pid),
			Undo:    fmt.Sprintf("taskset -acp %s %d", phrase.Shell(string(g.set)), pid),
			Risk: "low: where a cpuset is the limit, it remains; change cpuset.cpus of the " +
				"control group",
		}
	}
	f.Cover("cpu-one-saturated", func(o *diagnose.Finding) bool {
		return facts.SameProgram(f, o) || o.Culprit.Kind == "cpu" && g.set.Has(o.Culprit.Name)
	})
}
