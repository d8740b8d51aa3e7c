package diagnose

import (
	"fmt"
	"strings"

	"culprit/measure"
)

// When all CPUs count as busy.
const (
	// cpuNearlyIdle: with less than a tenth idle a queue before the CPUs forms at every small burst (M/M/c). Enough to
	// accuse when tasks are seen to wait.
	cpuNearlyIdle = 0.10
	// cpuNoIdle: less is left than a sampled account of idle time can tell from nothing (a tick in twenty).
	cpuNoIdle = 0.05
	// cpuQueue: runnable tasks a CPU, running ones included. A quarter above one is more than this tool's own reading adds.
	cpuQueue = 1.25
	// cpuPressure: share of time in which some task waited for a CPU (PSI). Idle machines show under 2 %, busy ones
	// without a queue under 10 %.
	cpuPressure = 0.15
	// cpuActor: a group of processes with less than this share of the busy time is not "who did it".
	cpuActor = 0.25
	// cpuNice, cpuSomeNice: share of the busy time that is work of low priority, from where on hardly anybody, or only some,
	// must wait.
	cpuNice, cpuSomeNice = 0.8, 0.5
	// cpuSteal: share of the CPUs' time that the hypervisor gave to others, from where on it is a cause by itself.
	cpuSteal = 0.15
)

// cpuSaturated finds that all CPUs together are the limit, by whom and in which mode.
func cpuSaturated() Rule {
	return Rule{
		ID: "cpu-saturated", Checks: "cpu", Resource: "cpu",
		Needs: []string{cpuTime, runnable},
		Finds: []string{processCPU},
		Uses:  []string{pressure, processWait, processShort, processSight, forks}, Sampled: []string{stackSamples, stackRate},
		Check: func(l *Look) {
			m := machineOf(l.Table(cpuTime))
			t := m.table
			run := l.Table(runnable)
			wanted := t.mean(run.Sum(run.Rows), nil)
			s, ok := lasting(t, m.known, func(c int) bool { return m.idle(c) < cpuNearlyIdle })
			if s.of < leastSeconds {
				l.Unchecked("the modes of the CPUs don't add up to their time")
				return
			}
			idle := m.share(s.mask, "idle", "iowait")
			queue := t.mean(run.Sum(run.Rows), s.mask)
			psi := l.Table(pressure).One("resource", "cpu", "scope", "some")
			waits := psi.Mean(s.mask)
			queued := queue >= cpuQueue*m.cpus || waits >= cpuPressure
			if !ok || !queued && idle >= cpuNoIdle {
				l.Fine("%s of %s idle, %s runnable", percent(m.share(nil, "idle", "iowait")), plural(int(m.cpus), "CPU", "CPUs"), plural(int(or(wanted, 0)+0.5), "task", "tasks"))
				return
			}
			m.accuse(l, s, idle, queue, queued)
		},
	}
}

func (m machine) accuse(l *Look, s spell, idle, queue float64, queued bool) {
	t, pc := m.table, l.Table(processCPU)
	busy := m.cpus * (1 - idle)
	all := actors(pc, pc.Rows, s.mask)
	steal, soft := m.share(s.mask, "steal"), m.share(s.mask, "soft", "irq")
	nice := m.share(s.mask, "nice") * m.cpus / busy
	seen := 0.0
	for _, a := range all {
		seen += a.rate
	}
	hidden := 1 - (seen+m.cpus*(steal+soft))/busy // of the busy time: neither processes, nor interrupts, nor the hypervisor
	unseen := hiddenOf(l, s, hidden*busy, busy)
	perhaps := false // the most active program may be niced, which is not proven
	if len(all) > 0 {
		a := all[0]
		proven, low := a.niced(m, all, s.mask), m.cpus*m.share(s.mask, "nice", "guest_nice")
		nice = max(nice, proven/busy)
		perhaps = proven < cpuNice*a.rate && low >= 0.5*a.rate*(1-kernelShare(a, s.mask)) && low > 0
	}

	severity, confidence := High, 0.95
	who, culprit, identity, share := "no single program stands out", Culprit{Kind: "cpu", Name: "all"}, "", measure.NaN
	if len(all) > 0 && all[0].rate >= 0.05*busy {
		who += fmt.Sprintf(", the most goes to %s, %s", all[0], percent(all[0].rate/busy))
	}
	switch {
	case steal >= cpuSteal && (len(all) == 0 || steal*m.cpus > all[0].rate):
		share = steal * m.cpus / busy
		who, culprit, identity = "the hypervisor gives "+percent(steal)+" of their time to other guests", Culprit{Kind: "host", Name: "hypervisor"}, "steal"
	case len(all) > 0 && all[0].rate/busy >= cpuActor && all[0].rate/busy >= hidden:
		a := all[0]
		share = a.rate / busy
		who, culprit, identity = fmt.Sprintf("%s takes %s of their busy time, %s", a, percent(share), modeOf(a, s.mask)), a.culprit(), a.identity()
	case hidden >= cpuActor:
		share = hidden
		who, culprit, identity = unseen.accused()
	case soft*m.cpus/busy >= cpuActor:
		share = soft * m.cpus / busy
		who, culprit, identity = percent(share)+" of their busy time is interrupt work", Culprit{Kind: "cpu", Name: "interrupts"}, "interrupts"
	}
	claim := fmt.Sprintf("All %d CPUs are busy: %s idle for %s; %s", int(m.cpus), percent(idle), s, who)
	if m.cpus == 1 {
		claim = fmt.Sprintf("The CPU is busy: %s idle for %s; %s", percent(idle), s, who)
	}
	switch {
	case nice >= cpuNice:
		// All of it runs at low priority by its owner's wish: whoever needs a CPU gets it.
		severity, confidence = Low, 0.9
	case nice >= cpuSomeNice:
		severity = Medium
	case !queued:
		severity, confidence = Medium, 0.8
	}
	f := l.Found(identity, severity, confidence, culprit, claim+".")
	f.proof(t, s, `cpu.time where mode in ("idle", "iowait")`, idle*m.cpus, t.Unit, fmt.Sprintf("idle %s of %d CPUs: usr %s, sys %s, nice %s, soft+irq %s, steal %s, iowait %s", percent(idle), int(m.cpus),
		percent(m.share(s.mask, "usr")), percent(m.share(s.mask, "sys")), percent(m.share(s.mask, "nice")), percent(soft), percent(steal), percent(m.share(s.mask, "iowait")))).
		than(m.cpus, "CPUs")
	run := l.Table(runnable)
	f.proof(run, s, runnable, queue, run.Unit, fmt.Sprintf("%s tasks are runnable for %d CPUs", digits(queue), int(m.cpus))).than(m.cpus, "CPUs")
	if len(all) > 0 && all[0].rate >= 0.1*busy {
		a := all[0]
		f.proof(pc, s, a.sentence(pc), a.rate, pc.Unit, fmt.Sprintf("%s uses %s CPUs, %s", a, digits(a.rate), modeOf(a, s.mask))).than(busy, "busy CPUs")
		if more := others(all, busy, 3); more != "" {
			f.proof(pc, s, `process.cpu by process`, seen-a.rate, pc.Unit, "all others together "+digits(seen-a.rate)+" CPUs, most by "+more)
		}
	}
	if psi := l.Table(pressure).One("resource", "cpu", "scope", "some"); psi != nil && psi.Mean(s.mask) == psi.Mean(s.mask) {
		f.proof(l.Table(pressure), s, psi.Sentence(), psi.Mean(s.mask), l.Table(pressure).Unit, fmt.Sprintf("some task waits for a CPU %s of the time (PSI)", percent(psi.Mean(s.mask))))
	}
	if w := l.Table(processWait); w.numbers() {
		waiting := actors(w, w.Rows, s.mask)
		total := 0.0
		for _, a := range waiting {
			total += a.rate
		}
		if len(waiting) > 0 && total >= 0.1 {
			f.proof(w, s, `process.runwait by process`, total, w.Unit, fmt.Sprintf("%s tasks wait for a CPU at any moment, most of them of %s", digits(total), waiting[0]))
		}
	}
	if hidden >= cpuActor {
		unseen.proofs(l, f, s)
	}
	named := kernelProof(l, f, s, all, culprit)
	f.explains(share)
	if psi := l.Table(pressure).One("resource", "cpu", "scope", "some").Mean(s.mask); psi == psi {
		f.loses(psi)
	}
	if !queued {
		f.but(0, "No more tasks want to run than there are CPUs: the work is done as fast as %d CPUs can, and nothing is seen to wait for it.", int(m.cpus))
	}
	if nice >= cpuSomeNice {
		f.but(0, "%s of the busy time is work of low priority (nice), which gives way to any other.", percent(nice))
	}
	perhaps = perhaps && culprit.PID > 0 && culprit.PID == all[0].pid() && nice < cpuSomeNice
	if perhaps {
		f.but(0.1, "%s of the busy time is work of low priority (nice), and whose that is the counters don't tell: if it is %s, others don't wait for it.", percent(nice), clean(culprit.Name))
	}
	if culprit.Name == "culprit" {
		f.but(0, "That is this tool, or another run of it: what it looks at is large here.")
	}
	if culprit.Name == outOfSight {
		unseen.caveats(f)
	} else if hidden >= 0.15 && !strings.HasPrefix(identity, "short-lived") {
		f.but(0.1, "%s of the busy time is in none of the processes seen.", percent(hidden))
	}
	f.Verify = "mpstat -P ALL 1 3; pidstat -u 1 3"
	if named {
		f.Verify += "; " + profileOf("")
	}
	if perhaps {
		f.Verify += fmt.Sprintf("; ps -o ni,pid,comm -p %d", culprit.PID)
	}
	// What is of low priority already gives way no more for being told to.
	if culprit.PID > 0 && !strings.HasPrefix(identity, "short-lived") && nice < 0.8*share && !perhaps {
		f.Fix = &Fix{fmt.Sprintf("renice -n 10 -p %d", culprit.PID), fmt.Sprintf("renice -n 0 -p %d", culprit.PID),
			"low: it gives way to others and takes longer itself; if it had a nice value of its own, restore that"}
	}
	f.coveringFunction()
	f.covering("fork-storm", func(*Finding) bool { return strings.HasPrefix(identity, "short-lived") })
}

// kernelProof adds the functions of the kernel that an accused group of processes spends its CPU time in.
func kernelProof(l *Look, f *Finding, s spell, all []actor, culprit Culprit) bool {
	k := stacksOf(l)
	for _, a := range all {
		if culprit.Kind == "process" && a.name == culprit.Name && a.pid() == culprit.PID {
			t := l.Table(stackSamples)
			return len(k.functionsProof(f, s, k.of(a), a.rate, "its CPU time", a.sentence(t, "kernel"))) > 0
		}
	}
	return false
}

// coveringFunction adds the function that the accused process asks the kernel for: the finding names it itself.
func (f *Finding) coveringFunction() {
	f.covering("kernel-function", func(o *Finding) bool {
		return o.function != nil && f.Culprit.Kind == "process" && o.function.process == f.Culprit.Name
	})
}

// parentOf gives who waited for the children with most CPU time that lived too shortly to be seen; rate 0 when nobody did.
func parentOf(l *Look, mask []bool) actor {
	t := l.Table(processShort)
	if all := actors(t, t.Rows, mask); len(all) > 0 {
		return all[0]
	}
	return actor{}
}

// niced gives the CPUs' worth of an actor's time that is proven to be work of low priority, 0 where nothing is. The mode nice
// has such work only while it is in user mode: what it does in the kernel is in sys, as everybody's. But where an actor has more
// user time than there is of usual priority, the rest of it is niced, and so is that share of what it does in the kernel. Modes are
// what ticks see, and tasks that wake with the ticks are seen too often: where processes have more user time than the modes have,
// all of it is taken to be missing in equal parts.
func (a actor) niced(m machine, all []actor, mask []bool) float64 {
	of := func(a actor) float64 { return a.rate * or(1-kernelShare(a, mask), 0) }
	users := 0.0
	for _, o := range all {
		users += of(o)
	}
	usual := m.cpus * m.share(mask, "usr", "guest")
	if counted := usual + m.cpus*m.share(mask, "nice", "guest_nice"); counted > 0 {
		usual *= max(1, users/counted)
	}
	if user := of(a); user > usual {
		return a.rate * (user - usual) / user
	}
	return 0
}

// modeOf says in which mode an actor spends its CPU time.
func modeOf(a actor, mask []bool) string {
	switch k := kernelShare(a, mask); {
	case k != k:
		return "mode unknown"
	case k < 0.1:
		return "in user mode"
	case k > 0.9:
		return "in the kernel"
	default:
		return percent(k) + " of it in the kernel"
	}
}

// kernelShare gives the part of an actor's CPU time that is in the kernel, NaN when it has none.
func kernelShare(a actor, mask []bool) float64 {
	sys, all := 0.0, 0.0
	for _, r := range a.rows {
		v := or(r.Part(mask), 0)
		all += v
		if r.Word("mode") == "sys" {
			sys += v
		}
	}
	if all == 0 {
		return measure.NaN
	}
	return sys / all
}
