package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// cpuSaturated finds that all CPUs together are the limit, with the culprit and the mode.
func cpuSaturated() diagnose.Rule {
	return diagnose.Rule{
		ID: "cpu-saturated", Checks: "cpu", Resource: "cpu",
		Needs: []string{facts.CPUTime, facts.Runnable},
		Finds: []string{facts.ProcessCPU},
		Uses: []string{facts.Pressure, facts.ProcessWait, facts.ProcessShort, facts.ProcessSight,
			facts.Forks, facts.ProcessSwitches, facts.ProcessInfo, facts.ThreadCPU,
			facts.ThreadWait, facts.ProcessWeights, facts.CgroupWeights},
		Sampled: []string{facts.StackSamples, facts.StackRate},
		Check: func(l *diagnose.Look) {
			m := facts.MachineOf(l.Table(facts.CPUTime))
			t := m.Table
			run := l.Table(facts.Runnable)
			wanted := t.Mean(run.Sum(run.Rows), nil)
			s, ok := diagnose.Lasting(t, m.Known, func(c int) bool {
				return m.Idle(c) < threshold.CPUNearlyIdle
			})
			if s.Known < threshold.LeastSeconds {
				l.Unchecked("the modes of the CPUs do not add up to their time")
				return
			}
			idle := m.Share(s.Mask, "idle", "iowait")
			queue := t.Mean(run.Sum(run.Rows), s.Mask)
			psi := l.Table(facts.Pressure).One("resource", "cpu", "scope", "some")
			waits := psi.Mean(s.Mask)
			queued := queue >= threshold.CPUQueue*m.CPUs || waits >= threshold.CPUPressure
			if !ok || !queued && idle >= threshold.CPUNoIdle {
				l.Fine("%s of %s idle, %s runnable", phrase.Percent(m.Share(nil, "idle", "iowait")),
					phrase.Plural(int(m.CPUs), "CPU", "CPUs"),
					phrase.Plural(int(series.Or(wanted, 0)+0.5), "task", "tasks"))
				return
			}
			accuseCPUs(l, m, s, idle, queue, queued)
		},
	}
}

func accuseCPUs(l *diagnose.Look, m facts.Machine, s diagnose.Period, idle, queue float64,
	queued bool) {
	t, pc := m.Table, l.Table(facts.ProcessCPU)
	busy := m.CPUs * (1 - idle)
	all := facts.Actors(l, pc, pc.Rows, s.Mask)
	steal, soft := m.Share(s.Mask, "steal"), m.Share(s.Mask, "soft", "irq")
	nice := m.Share(s.Mask, "nice") * m.CPUs / busy
	seen := 0.0
	for _, a := range all {
		seen += a.Rate
	}
	division := divideCPUs(l, m, s, all, idle)
	if division.Named > 0 {
		all = facts.InOrder(all, division)
	}
	hidden := 1 - (seen+m.CPUs*(steal+soft))/busy // in no process, interrupt or other guest
	unseen := facts.HiddenWorkOf(l, s, hidden*busy, busy)
	perhaps := false // the program may be niced, which is not proven
	if len(all) > 0 {
		a := all[0]
		proven, low := niced(a, m, all, s.Mask), m.CPUs*m.Share(s.Mask, "nice", "guest_nice")
		nice = max(nice, proven/busy)
		perhaps = proven < threshold.CPUNice*a.Rate &&
			low >= 0.5*a.Rate*(1-facts.KernelShare(a, s.Mask)) && low > 0
	}

	severity, confidence := diagnose.High, 0.95
	cause, culprit, identity, share := "no single program stands out",
		diagnose.Culprit{Kind: "cpu", Name: "all"}, "", measure.NaN
	if len(all) > 0 && all[0].Rate >= 0.05*busy {
		cause += fmt.Sprintf(", %s uses the most, %s", all[0], phrase.Percent(all[0].Rate/busy))
	}
	switch {
	case steal >= threshold.CPUSteal && (len(all) == 0 || steal*m.CPUs > all[0].Rate):
		share = steal * m.CPUs / busy
		cause = "the hypervisor takes " + phrase.Percent(steal) + " of their time for other guests"
		culprit, identity = diagnose.Culprit{Kind: "host", Name: "hypervisor"}, "steal"
	case len(all) > 0 && all[0].Rate/busy >= threshold.CPUActor && all[0].Rate/busy >= hidden &&
		(division.Named > 0 || all[0].Rate/busy >= threshold.CPUHalf):
		a := all[0]
		share = a.Rate / busy
		cause, culprit, identity = fmt.Sprintf("%s uses %s of the busy time, %s", a,
			phrase.Percent(share), facts.ModeOf(a, s.Mask)), a.Culprit(), a.Identity()
		if division.Named > 1 {
			share, cause = division.Share(division.Named), facts.Together(division)
		}
	case hidden >= threshold.CPUActor:
		share = hidden
		cause, culprit, identity = unseen.Culprit()
	case division.Named > 1 && division.Share(division.Named) >= threshold.CPUActor:
		share, cause = division.Share(division.Named), facts.Together(division)
	case soft*m.CPUs/busy >= threshold.CPUActor:
		share = soft * m.CPUs / busy
		cause, culprit, identity = phrase.Percent(share)+" of the busy time is interrupt work",
			diagnose.Culprit{Kind: "cpu", Name: "interrupts"}, "interrupts"
	}
	yielding := facts.WaitsYield(l, s.Mask)
	claim := fmt.Sprintf("All %d CPUs are busy: %s idle for %s; %s", int(m.CPUs),
		phrase.Percent(idle), s, cause)
	switch m.CPUs {
	case 2:
		claim = fmt.Sprintf("Both CPUs are busy: %s idle for %s; %s", phrase.Percent(idle), s,
			cause)
	case 1:
		claim = fmt.Sprintf("The CPU is busy: %s idle for %s; %s", phrase.Percent(idle), s, cause)
	}
	switch {
	case nice >= threshold.CPUNice:
		// All of it is low-priority work by the choice of its owner: any other task gets a CPU.
		severity, confidence = diagnose.Low, 0.9
	case nice >= threshold.CPUSomeNice, yielding >= threshold.CPUYielding:
		severity = diagnose.Medium
	case !queued:
		severity, confidence = diagnose.Medium, 0.8
	}
	f := l.Found(identity, severity, confidence, culprit, claim+".")
	f.Waits = facts.WaitsForCPU(l, s, queued)
	f.AddEvidence(t, s, `cpu.time where mode in ("idle", "iowait")`, idle*m.CPUs, t.Unit,
		fmt.Sprintf("idle %s of %d CPUs: usr %s, sys %s, nice %s, soft+irq %s, steal %s, iowait %s",
			phrase.Percent(idle), int(m.CPUs),
			phrase.Percent(m.Share(s.Mask, "usr")), phrase.Percent(m.Share(s.Mask, "sys")),
			phrase.Percent(m.Share(s.Mask, "nice")), phrase.Percent(soft), phrase.Percent(steal),
			phrase.Percent(m.Share(s.Mask, "iowait")))).
		CompareTo(m.CPUs, "CPUs")
	run := l.Table(facts.Runnable)
	f.AddEvidence(run, s, facts.Runnable, queue, run.Unit,
		fmt.Sprintf("%s tasks are runnable for %d CPUs", phrase.Digits(queue),
			int(m.CPUs))).CompareTo(m.CPUs, "CPUs")
	if len(all) > 0 && all[0].Rate >= 0.1*busy {
		a := all[0]
		f.AddEvidence(pc, s, a.Query(pc), a.Rate, pc.Unit,
			fmt.Sprintf("%s uses %s CPUs, %s", a, phrase.Digits(a.Rate),
				facts.ModeOf(a, s.Mask))).CompareTo(busy, "busy CPUs")
		if more := facts.OtherPrograms(all, busy, 3); more != "" {
			f.AddEvidence(pc, s, `process.cpu by process`, seen-a.Rate, pc.Unit,
				"all others use "+phrase.Digits(seen-a.Rate)+" CPUs; the largest: "+more)
		}
	}
	if psi := l.Table(facts.Pressure).One("resource", "cpu", "scope", "some"); psi != nil &&
		psi.Mean(s.Mask) == psi.Mean(s.Mask) {
		f.AddEvidence(l.Table(facts.Pressure), s, psi.Query(), psi.Mean(s.Mask),
			l.Table(facts.Pressure).Unit, fmt.Sprintf("some task waits for a CPU %s of the time "+
				"(PSI)", phrase.Percent(psi.Mean(s.Mask))))
	}
	if w := l.Table(facts.ProcessWait); w.HasNumbers() {
		waiting := facts.Programs(w, w.Rows, s.Mask)
		total := 0.0
		for _, a := range waiting {
			total += a.Rate
		}
		if len(waiting) > 0 && total >= 0.1 {
			f.AddEvidence(w, s, `process.runwait by process`, total, w.Unit,
				fmt.Sprintf("%s tasks wait for a CPU at any moment, most of them from %s",
					phrase.Digits(total), waiting[0]))
		}
		if yielding >= threshold.CPUYielding {
			f.AddCaveat(0, "%s of the waits are of work that was made to give way to others "+
				"(nice, SCHED_IDLE).", phrase.Percent(yielding))
		}
	}
	if hidden >= threshold.CPUActor {
		unseen.AddEvidence(l, f, s)
	}
	named := facts.AddKernelFunctions(l, f, s, all, culprit)
	f.SetExplains(share)
	f.Attribution = division.Report()
	if psi := l.Table(facts.Pressure).One("resource", "cpu", "scope",
		"some").Mean(s.Mask); psi == psi {
		f.SetEffect(psi)
	}
	if !queued {
		f.AddCaveat(0, "There are no more runnable tasks than CPUs (%d): no task is seen to wait.",
			int(m.CPUs))
	}
	if nice >= threshold.CPUSomeNice {
		f.AddCaveat(0,
			"%s of the busy time is low-priority work (nice), which yields to any other.",
			phrase.Percent(nice))
	}
	perhaps = perhaps && culprit.PID > 0 && culprit.PID == all[0].PID() &&
		nice < threshold.CPUSomeNice
	if perhaps {
		f.AddCaveat(0.1, "%s of the busy time is low-priority work (nice). If it is that of %s, "+
			"other tasks do not wait for it.", phrase.Percent(nice), phrase.Clean(culprit.Name))
	}
	if culprit.Name == "culprit" {
		f.AddCaveat(0, "This is culprit itself, or another run of it: the machine is large.")
	}
	if culprit.Name == facts.OutOfSight {
		unseen.AddCaveats(f)
	} else if hidden >= 0.15 && !strings.HasPrefix(identity, "short-lived") {
		f.AddCaveat(0.1, "%s of the busy time belongs to no visible process.",
			phrase.Percent(hidden))
	}
	f.Verify = "mpstat -P ALL 1 3; pidstat -u 1 3"
	if named {
		f.Verify += "; " + facts.ProfileCommand("")
	}
	if perhaps {
		f.Verify += fmt.Sprintf("; ps -o ni,pid,comm -p %d", culprit.PID)
	}
	// Work that has low priority already gains nothing from renice.
	if culprit.PID > 0 && !strings.HasPrefix(identity, "short-lived") && nice < 0.8*share &&
		!perhaps {
		f.Fix = &diagnose.Fix{Command: fmt.Sprintf("renice -n 10 -p %d", culprit.PID),
			Undo: fmt.Sprintf("renice -n 0 -p %d", culprit.PID),
			Risk: "low: it yields to others and takes longer itself; if it had a nice value of " +
				"its own, restore that"}
	}
	facts.CoverFunction(f)
	f.Cover("fork-storm", func(*diagnose.Finding) bool {
		return strings.HasPrefix(identity, "short-lived")
	})
}

// niced returns the CPU time of a program that is proven to be low-priority work, in CPUs; 0 when
// none is. The mode nice counts it in user mode only: its kernel time is in sys, like that of any
// task. But when a program has more user time than there is of usual priority, the rest is niced,
// and so is the same share of its kernel time.
//
// Modes are sampled by ticks, which see tasks that wake with the ticks too often. When processes
// have more user time than the modes, all processes are assumed to lack equal parts.
func niced(a facts.Program, m facts.Machine, all []facts.Program, mask []bool) float64 {
	of := func(a facts.Program) float64 {
		return a.Rate * series.Or(1-facts.KernelShare(a, mask), 0)
	}
	users := 0.0
	for _, o := range all {
		users += of(o)
	}
	usual := m.CPUs * m.Share(mask, "usr", "guest")
	if counted := usual + m.CPUs*m.Share(mask, "nice", "guest_nice"); counted > 0 {
		usual *= max(1, users/counted)
	}
	if user := of(a); user > usual {
		return a.Rate * (user - usual) / user
	}
	return 0
}
