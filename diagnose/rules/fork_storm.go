package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// forkStorm finds machines whose CPU time is used by short-lived processes.
func forkStorm() diagnose.Rule {
	return diagnose.Rule{
		ID: "fork-storm", Checks: "short-lived processes",
		Needs: []string{facts.Forks, facts.CPUTime},
		Finds: []string{facts.ProcessCPU},
		Uses:  []string{facts.ProcessShort, facts.ProcessSight},
		Check: func(l *diagnose.Look) {
			t, m := l.Table(facts.Forks), facts.MachineOf(l.Table(facts.CPUTime))
			rate := t.Sum(t.Rows)
			s, ok := diagnose.Lasting(t, m.Known, func(c int) bool {
				return rate[c] >= threshold.ForkRate*m.CPUs && 1-m.Idle(c) >= threshold.ForkBusy
			})
			if !ok {
				return
			}
			pc := l.Table(facts.ProcessCPU)
			busy := m.CPUs * (1 - m.Share(s.Mask, "idle", "iowait"))
			seen := series.Or(facts.SumRows(pc, pc.Rows, s.Mask), 0) +
				m.CPUs*m.Share(s.Mask, "soft", "irq", "steal")
			hidden := 1 - seen/busy
			if hidden < threshold.ForkHidden || !facts.HiddenWorkOf(l, s, hidden*busy, busy).Short {
				return // long-lived processes that are not visible may use the time
			}
			v := t.Mean(rate, s.Mask)
			severity := diagnose.Medium
			if m.Share(s.Mask, "idle", "iowait") >= threshold.ForkIdle {
				// a build or a script at work; idle CPUs are left for others
				severity = diagnose.Low
			}
			culprit, identity,
				cause := diagnose.Culprit{Kind: "process", Name: "short-lived processes"}, "", ""
			parent := facts.ParentOfShort(l, s.Mask)
			if parent.Rate >= 0.5*hidden*busy {
				culprit, identity, cause = parent.Culprit(), parent.Identity(),
					", most of it children of "+parent.String()
			}
			f := l.Found(identity, severity, 0.8, culprit,
				fmt.Sprintf("%s processes and threads start per second for %s; %s of the busy CPU "+
					"time is used by short-lived ones%s.", phrase.Count(v), s,
					phrase.Percent(hidden), cause))
			f.SetExplains(hidden)
			f.AddEvidence(t, s, facts.Forks, v, t.Unit,
				fmt.Sprintf("%s starts per second",
					phrase.Count(v))).CompareTo(threshold.ForkRate*m.CPUs, "threshold")
			f.AddEvidence(m.Table, s, `cpu.time where mode !~ "i[do]*"`, busy, m.Table.Unit,
				fmt.Sprintf("%s of %d CPUs are busy, %s of that in no visible process",
					phrase.Digits(busy), int(m.CPUs), phrase.Percent(hidden)))
			if parent.Rate > 0 {
				short := l.Table(facts.ProcessShort)
				f.AddEvidence(short, s, parent.Query(short), parent.Rate, short.Unit,
					fmt.Sprintf("short-lived children of %s used %s CPUs", parent,
						phrase.Digits(parent.Rate)))
			}
			if cause == "" {
				f.AddCaveat(0, "The counters do not show the parent; the verify command does.")
			}
			f.Verify = "pidstat -u -T CHILD 1 3; ps -eo ppid= | sort | uniq -c | sort -rn | head -5"
		},
	}
}
