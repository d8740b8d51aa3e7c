package diagnose

import "fmt"

// When starting processes counts as a load of its own.
const (
	// forkRate: a second and CPU. A fork with exec and exit costs about 0.5-1 ms of CPU time: 300 of them take a
	// fifth of a CPU or more. Builds and cron bursts reach 100.
	forkRate = 300.0
	// forkHidden: share of the busy time that none of the processes seen has used: it went to those that came and went.
	forkHidden = 0.30
	// forkBusy: and the machine has enough to do for that share to matter.
	forkBusy = 0.20
	// forkRoom: with so much idle it takes nothing from others.
	forkRoom = 0.30
)

// forkStorm finds machines whose CPU time goes into processes too short-lived to be seen.
func forkStorm() Rule {
	return Rule{
		ID: "fork-storm", Checks: "short-lived processes",
		Needs: []string{forks, cpuTime},
		Finds: []string{processCPU},
		Uses:  []string{processShort, processSight},
		Check: func(l *Look) {
			t, m := l.Table(forks), machineOf(l.Table(cpuTime))
			rate := t.Sum(t.Rows)
			s, ok := lasting(t, m.known, func(c int) bool { return rate[c] >= forkRate*m.cpus && 1-m.idle(c) >= forkBusy })
			if !ok {
				return
			}
			pc := l.Table(processCPU)
			busy := m.cpus * (1 - m.share(s.mask, "idle", "iowait"))
			seen := or(sumRows(pc, pc.Rows, s.mask), 0) + m.cpus*m.share(s.mask, "soft", "irq", "steal")
			hidden := 1 - seen/busy
			if hidden < forkHidden || !hiddenOf(l, s, hidden*busy, busy).short {
				return // processes that live on, out of sight, may be what uses the time
			}
			v := t.mean(rate, s.mask)
			severity := Medium
			if m.share(s.mask, "idle", "iowait") >= forkRoom {
				severity = Low // a build or a script at work; others find room beside it
			}
			culprit, identity, who := Culprit{Kind: "process", Name: "short-lived processes"}, "", ""
			parent := parentOf(l, s.mask)
			if parent.rate >= 0.5*hidden*busy {
				culprit, identity, who = parent.culprit(), parent.identity(), ", most of it to children of "+parent.String()
			}
			f := l.Found(identity, severity, 0.8, culprit,
				fmt.Sprintf("%s processes and threads are started each second for %s; %s of the busy CPU time goes to those that come and go%s.", count(v), s, percent(hidden), who))
			f.explains(hidden)
			f.proof(t, s, forks, v, t.Unit, fmt.Sprintf("%s starts a second", count(v))).than(forkRate*m.cpus, "much begins at")
			f.proof(m.table, s, `cpu.time where mode !~ "i[do]*"`, busy, m.table.Unit, fmt.Sprintf("%s of %d CPUs are busy, %s of that in none of the processes seen", digits(busy), int(m.cpus), percent(hidden)))
			if parent.rate > 0 {
				short := l.Table(processShort)
				f.proof(short, s, parent.sentence(short), parent.rate, short.Unit, fmt.Sprintf("children of %s that lived too shortly to be seen used %s CPUs", parent, digits(parent.rate)))
			}
			if who == "" {
				f.but(0, "Who starts them is not told by the counters; the verify command shows it.")
			}
			f.Verify = "pidstat -u -T CHILD 1 3; ps -eo ppid= | sort | uniq -c | sort -rn | head -5"
		},
	}
}
