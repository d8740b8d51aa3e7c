package rules

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// cpuOneSaturated finds a thread that saturates a CPU, or a CPU saturated by several threads, while
// other CPUs idle: more CPUs would not make that work faster.
func cpuOneSaturated() diagnose.Rule {
	return diagnose.Rule{
		ID: "cpu-one-saturated", Checks: "single cpus and threads", Resource: "cpu",
		Needs: []string{facts.CPUTime},
		Finds: []string{facts.ProcessCPU},
		Uses: []string{facts.ThreadCPU, facts.ProcessThreads, facts.ProcessWait,
			facts.ProcessSleepers},
		Traced:  []string{facts.SoftirqTimes, facts.SoftirqTimeCost},
		Sampled: []string{facts.StackSamples, facts.StackRate},
		Check: func(l *diagnose.Look) {
			m := facts.MachineOf(l.Table(facts.CPUTime))
			if len(m.Names) < 2 {
				if len(m.Names) == 1 {
					l.Fine("the only CPU")
				} else {
					l.Unchecked("the CPUs cannot be distinguished")
				}
				return
			}
			othersIdle := func(c int) bool { return m.Idle(c)*m.CPUs >= threshold.OneIdle }
			hot := append(hotThreads(l, othersIdle), turns(l, othersIdle)...)
			// Three compressors are one culprit: the first process of a name represents all.
			ofName := map[string]int{}
			for _, h := range hot {
				ofName[h.process]++
			}
			for _, h := range hot {
				if n := ofName[h.process]; n > 0 && len(l.Findings) < 3 {
					h.accuse(l, m, n-1)
					ofName[h.process] = 0
				}
			}
			if len(hot) > 0 {
				return
			}
			if !hotCPU(l, m, othersIdle) {
				text := busiestTasks(l)
				if text == "" {
					l.Unchecked("no process with CPU time was seen")
					return
				}
				l.Fine("%s", text)
			}
		},
	}
}

// hotThread is a thread that needs a whole CPU.
type hotThread struct {
	process, thread string
	pid, tid        int
	row             *diagnose.Row // its CPU time over all modes
	values          []float64
	table           *diagnose.Table
	s               diagnose.Period
	sure            bool // one thread, not a process of several
	turns           int  // threads that take turns; 0: it is one
}

// hotThreads returns the threads that saturate a CPU, the busiest first.
func hotThreads(l *diagnose.Look, othersIdle func(int) bool) []hotThread {
	var hot []hotThread
	pids := map[string]bool{}
	consider := func(h hotThread, widest float64) bool {
		if strings.HasPrefix(h.process, "ksoftirqd/") || strings.HasPrefix(h.process, "swapper") {
			return false // interrupt work, which has its own rule; idle work
		}
		s, ok := diagnose.Lasting(h.table, nil, func(c int) bool {
			return h.values[c] >= threshold.OneFull && h.values[c] <= widest && othersIdle(c)
		})
		if !ok {
			return false
		}
		h.s = s
		hot = append(hot, h)
		return true
	}
	threads := l.Table(facts.ThreadCPU)
	for _, r := range threads.Rows {
		pid, _ := strconv.Atoi(r.Word("pid"))
		tid, _ := strconv.Atoi(r.Word("tid"))
		if consider(hotThread{process: r.Word("process"), thread: r.Word("thread"), pid: pid,
			tid: tid, row: r, values: r.Values, table: threads, sure: true}, threshold.OneWide) {
			pids[r.Word("pid")] = true
		}
	}
	// Without threads a process shows it, when it has one thread or uses exactly one CPU.
	t := l.Table(facts.ProcessCPU)
	byPID := map[string][]*diagnose.Row{}
	var order []string
	for _, r := range t.Rows {
		k := r.Word("pid")
		if byPID[k] == nil {
			order = append(order, k)
		}
		byPID[k] = append(byPID[k], r)
	}
	for _, k := range order {
		n := l.Table(facts.ProcessThreads).One("pid", k).Mean(nil)
		if pids[k] || n > 1.5 && threads.Have() && threads.HasNumbers() {
			continue
		}
		pid, _ := strconv.Atoi(k)
		consider(hotThread{process: byPID[k][0].Word("process"), pid: pid, values: t.Sum(byPID[k]),
			table: t, sure: n < 1.5}, threshold.OneWide)
	}
	sort.SliceStable(hot, func(i, j int) bool {
		a, b := hot[i].table.Mean(hot[i].values, hot[i].s.Mask),
			hot[j].table.Mean(hot[j].values, hot[j].s.Mask)
		if a > b+0.01 || b > a+0.01 {
			return a > b
		}
		return hot[i].pid < hot[j].pid
	})
	return hot
}

// busiestTasks returns the process and the thread that use most CPU time, each with its share of
// one CPU: a process of several threads may use more than one. "" when no process was measured.
func busiestTasks(l *diagnose.Look) string {
	process := busiestRow(l.Table(facts.ProcessCPU), "pid")
	if process.row == nil {
		return ""
	}
	text := fmt.Sprintf("busiest process %s %s of a CPU", process.name("process", "pid"),
		phrase.Percent(process.share))
	if thread := busiestRow(l.Table(facts.ThreadCPU), "tid"); thread.row != nil {
		text += fmt.Sprintf(", busiest thread %s %s", thread.name("thread", "tid"),
			phrase.Percent(thread.share))
	}
	return text
}

// usage is the CPU use of one task: a row of the task, and its share over all its rows.
type usage struct {
	row   *diagnose.Row
	share float64
}

func (u usage) name(name, number string) string {
	id, _ := strconv.Atoi(u.row.Word(number))
	return phrase.ProcessName(u.row.Word(name), id)
}

// busiestRow returns the task with most CPU time; field identifies a task. row is nil when there is
// none.
func busiestRow(t *diagnose.Table, field string) (most usage) {
	shares := map[string]float64{}
	for _, r := range t.Rows {
		share := shares[r.Word(field)] + series.Or(r.Part(nil), 0)
		shares[r.Word(field)] = share
		if share > most.share || most.row == nil {
			most = usage{r, share}
		}
	}
	return most
}

func (h hotThread) accuse(l *diagnose.Look, m facts.Machine, more int) {
	s, t := h.s, h.table
	use := t.Mean(h.values, s.Mask)
	idle := m.Share(s.Mask, "idle", "iowait")
	name := phrase.ProcessName(h.process, h.pid)
	what, verb := "One thread of "+name, "saturates"
	if h.thread != "" && h.thread != h.process {
		what = fmt.Sprintf("Thread %s of %s", phrase.ProcessName(h.thread, h.tid), name)
	}
	if !h.sure {
		what = name
	}
	if h.turns > 0 {
		what = fmt.Sprintf("%d threads of %s, which run one at a time,", h.turns, name)
		verb = "saturate"
	}
	mode, like, sampled := "", "", false
	if more > 0 {
		like = fmt.Sprintf(", as do %d others with that name", more)
		if more == 1 {
			like = ", as does another with that name"
		}
	}
	pc := l.Table(facts.ProcessCPU)
	if all := facts.Programs(pc, pc.Where("pid", facts.PIDWord(h.pid)), s.Mask); len(all) > 0 {
		mode = ", " + facts.ModeOf(all[0], s.Mask)
	}
	severity := diagnose.Medium
	if !h.sure {
		severity = diagnose.Low
	}
	f := l.Found(phrase.Clean(h.process), severity, 0.9,
		diagnose.Culprit{Kind: "process", Name: h.process, PID: h.pid},
		fmt.Sprintf("%s %s a CPU%s: %s of one CPU for %s%s, while %s of %d CPUs idle.", what, verb,
			like, phrase.Percent(min(use, 1)), s, mode, phrase.Digits(idle*m.CPUs), int(m.CPUs)))
	query := t.QueryOf(nil, "pid", facts.PIDWord(h.pid))
	if h.tid > 0 {
		query = t.QueryOf(nil, "pid", facts.PIDWord(h.pid), "tid", facts.PIDWord(h.tid))
	}
	f.AddEvidence(t, s, query, use, t.Unit,
		fmt.Sprintf("uses %s of one CPU", phrase.Percent(use))).CompareTo(1, "one CPU")
	f.AddEvidence(m.Table, s, `cpu.time where mode in ("idle", "iowait")`, idle*m.CPUs,
		m.Table.Unit, fmt.Sprintf("%s of %d CPUs are idle", phrase.Digits(idle*m.CPUs),
			int(m.CPUs))).CompareTo(m.CPUs, "CPUs")
	if cpu, share := busiestCPU(m, s.Mask); share >= 0.85 {
		f.AddEvidence(m.Table, s,
			fmt.Sprintf(`cpu.time where cpu = %q and mode in ("idle", "iowait")`, cpu), 1-share,
			m.Table.Unit,
			fmt.Sprintf("CPU %s is busy %s of the time, idle %s", phrase.Clean(cpu),
				phrase.Percent(share), phrase.Percent(1-share)))
	}
	facts.CoverFunction(f)
	if all := facts.Programs(pc, pc.Where("pid", facts.PIDWord(h.pid)), s.Mask); len(all) > 0 {
		sampled = facts.AddKernelFunctions(l, f, s, all, f.Culprit)
	}
	f.SetExplains(use / max(m.CPUs*(1-idle), use))
	f.SetEffect(use / m.CPUs)
	switch {
	case h.turns > 0:
		f.AddCaveat(0.15, "A lock makes them take turns, as that of the interpreter does (GIL) in "+
			"Python and Ruby: several processes would use several CPUs.")
	case !h.sure:
		f.AddCaveat(0.3, "The split among its threads is unknown: it may be two threads with half "+
			"a CPU each.")
	}
	f.AddCaveat(0, "A thread that spins while it waits looks the same.")
	f.Verify = fmt.Sprintf("pidstat -t -u -p %d 1 3; mpstat -P ALL 1 3", h.pid)
	if sampled {
		f.Verify += fmt.Sprintf("; culprit profile --pid %d --kernel --for 10s --table", h.pid)
	}
}

// busiestCPU returns the CPU with the least idle time and its busy share.
func busiestCPU(m facts.Machine, mask []bool) (string, float64) {
	name, most := "", -1.0
	for _, cpu := range m.Names {
		if b := 1 - m.One(cpu, mask, "idle", "iowait"); b > most {
			name, most = cpu, b
		}
	}
	return name, most
}

// hotCPU finds a CPU that several tasks saturate while others idle: they are bound to it, or the
// scheduler is uneven. Interrupts count too, since tasks cannot use that time. A CPU that
// interrupts saturate is left to rule cpu-softirq.
func hotCPU(l *diagnose.Look, m facts.Machine, othersIdle func(int) bool) bool {
	work := facts.InterruptWork(m, facts.SoftirqTimeOf(l))
	for _, cpu := range m.Names {
		s, ok := diagnose.Lasting(m.Table, m.Known, func(c int) bool {
			return m.Of(cpu, c, "usr", "sys", "nice", "soft", "irq") >= threshold.OneFull &&
				othersIdle(c)
		})
		use, irq, idle := m.One(cpu, s.Mask, "usr", "sys", "nice"),
			m.One(cpu, s.Mask, "soft", "irq"), m.Share(s.Mask, "idle", "iowait")
		if !ok || use < threshold.OneTasks || use < threshold.OneFull &&
			m.Table.Mean(work[cpu], s.Mask) >= threshold.SoftirqHalf {
			continue
		}
		full := fmt.Sprintf("full of tasks, %s", phrase.Percent(use))
		if use < threshold.OneFull {
			full = fmt.Sprintf("full, %s tasks and %s interrupts,", phrase.Percent(use),
				phrase.Percent(irq))
		}
		program, part := ranOn(l, cpu, s.Mask)
		most := ""
		if part >= threshold.OneMost*use {
			most = fmt.Sprintf("; %s runs there %s of the time", program,
				phrase.Percent(min(part, 1)))
		}
		f := l.Found("cpu"+phrase.Clean(cpu), diagnose.Medium, 0.75,
			diagnose.Culprit{Kind: "cpu", Name: cpu},
			fmt.Sprintf("CPU %s is %s for %s, while %s of %d CPUs idle; no single thread "+
				"saturates it%s.", phrase.Clean(cpu), full, s, phrase.Digits(idle*m.CPUs),
				int(m.CPUs), most))
		f.AddEvidence(m.Table, s,
			fmt.Sprintf(`cpu.time where cpu = %q and mode in ("usr", "sys", "nice")`, cpu), use,
			m.Table.Unit, fmt.Sprintf("CPU %s runs tasks %s of the time", phrase.Clean(cpu),
				phrase.Percent(use)))
		if use < threshold.OneFull {
			f.AddEvidence(m.Table, s,
				fmt.Sprintf(`cpu.time where cpu = %q and mode in ("soft", "irq")`, cpu), irq,
				m.Table.Unit, fmt.Sprintf("and interrupt work %s", phrase.Percent(irq)))
		}
		f.AddEvidence(m.Table, s, `cpu.time where mode in ("idle", "iowait")`, idle*m.CPUs,
			m.Table.Unit, fmt.Sprintf("%s of %d CPUs are idle", phrase.Digits(idle*m.CPUs),
				int(m.CPUs))).CompareTo(m.CPUs, "CPUs")
		if part >= 0.1 {
			samples := l.Table(facts.StackSamples)
			f.AddEvidence(samples, s, samples.QueryOf([]string{"process"}, "cpu", cpu), part,
				m.Table.Unit, fmt.Sprintf("%s runs there %s of the time (sampled)", program,
					phrase.Percent(min(part, 1))))
		}
		w := l.Table(facts.ProcessWait)
		if waiting := facts.Programs(w, w.Rows, s.Mask); len(waiting) > 0 &&
			waiting[0].Rate >= 0.1 {
			f.AddEvidence(w, s, waiting[0].Query(w), waiting[0].Rate, w.Unit,
				fmt.Sprintf("%s waits for a CPU: %s of its tasks at any moment", waiting[0],
					phrase.Digits(waiting[0].Rate)))
		}
		f.AddCaveat(0, "Tasks may be bound to this CPU on purpose.")
		f.Verify = "mpstat -P ALL 1 3; ps -eLo psr,pid,comm,pcpu --sort=-pcpu | head"
		return true
	}
	return false
}

// ranOn returns the program that was sampled most on a CPU, with its share of the CPU; 0 when
// nothing was sampled.
func ranOn(l *diagnose.Look, cpu string, mask []bool) (facts.Program, float64) {
	k := facts.SamplesOf(l)
	if !k.Enough(mask) {
		return facts.Program{}, 0
	}
	var rows []*diagnose.Row
	share := map[string]float64{}
	for _, r := range k.Rows {
		if r.CPU == cpu && r.Entry.Kind != facts.InSoftirq && r.Entry.Kind != facts.InInterrupt {
			rows = append(rows, r.Row)
			share[r.Process] += k.Share(r, mask)
		}
	}
	all := facts.Programs(k.Table, rows, mask)
	if len(all) == 0 {
		return facts.Program{}, 0
	}
	return all[0], share[all[0].Name]
}
