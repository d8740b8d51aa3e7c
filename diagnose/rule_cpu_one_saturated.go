package diagnose

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// When one CPU or one thread counts as at its end.
const (
	// oneFull: a thread that never waits gets all of a CPU but what interrupts and this tool take.
	oneFull = 0.93
	// oneRoom: idle CPUs that the thread could have, did it run in parallel. Half a CPU can't be an artefact of accounting.
	oneRoom = 0.5
	// oneWide: a process between oneFull and this may be one busy thread; above it there are several.
	oneWide = 1.08
	// oneMost: whose share of what a CPU runs makes a group of processes those that keep it full.
	oneMost = 0.5
	// oneTasks: with less of a full CPU for tasks it is interrupts that fill it.
	oneTasks = 0.4
)

// cpuOneSaturated finds a thread, or a CPU shared by several, that is at its end while other CPUs idle: work that more CPUs
// would not make faster.
func cpuOneSaturated() Rule {
	return Rule{
		ID: "cpu-one-saturated", Checks: "single cpus and threads", Resource: "cpu",
		Needs: []string{cpuTime},
		Finds: []string{processCPU},
		Uses:  []string{threadCPU, processThreads, processWait}, Traced: []string{softirqTime, softirqTimeCost}, Sampled: []string{stackSamples, stackRate},
		Check: func(l *Look) {
			m := machineOf(l.Table(cpuTime))
			if len(m.names) < 2 {
				if len(m.names) == 1 {
					l.Fine("the only CPU")
				} else {
					l.Unchecked("no CPU can be told from another")
				}
				return
			}
			room := func(c int) bool { return m.idle(c)*m.cpus >= oneRoom }
			hot := hotThreads(l, room)
			// Three compressors are one culprit: the first of a name speaks for all.
			told := map[string]int{}
			for _, h := range hot {
				told[h.process]++
			}
			for _, h := range hot {
				if n := told[h.process]; n > 0 && len(l.findings) < 3 {
					h.accuse(l, m, n-1)
					told[h.process] = 0
				}
			}
			if len(hot) > 0 {
				return
			}
			if !hotCPU(l, m, room) {
				text := busiestTasks(l)
				if text == "" {
					l.Unchecked("no process is seen to use a CPU")
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
	row             *Row // its CPU time, over all modes
	values          []float64
	table           *Table
	s               spell
	sure            bool // it is one thread, not a process of several
}

// hotThreads returns the threads that saturate a CPU, the busiest first.
func hotThreads(l *Look, room func(int) bool) []hotThread {
	var hot []hotThread
	pids := map[string]bool{}
	consider := func(h hotThread, widest float64) bool {
		if strings.HasPrefix(h.process, "ksoftirqd/") || strings.HasPrefix(h.process, "swapper") {
			return false // interrupt work, which has its own rule; idle work
		}
		s, ok := lasting(h.table, nil, func(c int) bool { return h.values[c] >= oneFull && h.values[c] <= widest && room(c) })
		if !ok {
			return false
		}
		h.s = s
		hot = append(hot, h)
		return true
	}
	threads := l.Table(threadCPU)
	for _, r := range threads.Rows {
		pid, _ := strconv.Atoi(r.Word("pid"))
		tid, _ := strconv.Atoi(r.Word("tid"))
		if consider(hotThread{process: r.Word("process"), thread: r.Word("thread"), pid: pid, tid: tid, row: r, values: r.Values, table: threads, sure: true}, oneWide) {
			pids[r.Word("pid")] = true
		}
	}
	// Without threads a process tells it, when it has only one or its use sits exactly at one CPU.
	t := l.Table(processCPU)
	byPID := map[string][]*Row{}
	var order []string
	for _, r := range t.Rows {
		k := r.Word("pid")
		if byPID[k] == nil {
			order = append(order, k)
		}
		byPID[k] = append(byPID[k], r)
	}
	for _, k := range order {
		n := l.Table(processThreads).One("pid", k).Mean(nil)
		if pids[k] || n > 1.5 && threads.Have() && threads.numbers() {
			continue
		}
		pid, _ := strconv.Atoi(k)
		consider(hotThread{process: byPID[k][0].Word("process"), pid: pid, values: t.Sum(byPID[k]), table: t, sure: n < 1.5}, oneWide)
	}
	sort.SliceStable(hot, func(i, j int) bool {
		a, b := hot[i].table.mean(hot[i].values, hot[i].s.mask), hot[j].table.mean(hot[j].values, hot[j].s.mask)
		if a > b+0.01 || b > a+0.01 {
			return a > b
		}
		return hot[i].pid < hot[j].pid
	})
	return hot
}

// busiestTasks names the process and the thread that use most CPU time, each with its share of one
// CPU: a process of several threads may use more than one. "" where no process was measured.
func busiestTasks(l *Look) string {
	process := busiestRow(l.Table(processCPU), "pid")
	if process.row == nil {
		return ""
	}
	text := fmt.Sprintf("busiest process %s %s of a CPU", process.name("process", "pid"), percent(process.share))
	if thread := busiestRow(l.Table(threadCPU), "tid"); thread.row != nil {
		text += fmt.Sprintf(", busiest thread %s %s", thread.name("thread", "tid"), percent(thread.share))
	}
	return text
}

// usage is what one task uses of a CPU: a row of the task, and its share over all its rows.
type usage struct {
	row   *Row
	share float64
}

func (u usage) name(name, number string) string {
	id, _ := strconv.Atoi(u.row.Word(number))
	return named(u.row.Word(name), id)
}

// busiestRow returns the task, told apart by a field, that uses most; row is nil where none was seen.
func busiestRow(t *Table, field string) (most usage) {
	shares := map[string]float64{}
	for _, r := range t.Rows {
		share := shares[r.Word(field)] + or(r.Part(nil), 0)
		shares[r.Word(field)] = share
		if share > most.share || most.row == nil {
			most = usage{r, share}
		}
	}
	return most
}

func (h hotThread) accuse(l *Look, m machine, more int) {
	s, t := h.s, h.table
	use := t.mean(h.values, s.mask)
	idle := m.share(s.mask, "idle", "iowait")
	name := named(h.process, h.pid)
	what := "One thread of " + name
	if h.thread != "" && h.thread != h.process {
		what = fmt.Sprintf("Thread %s of %s", named(h.thread, h.tid), name)
	}
	if !h.sure {
		what = name
	}
	mode, like, sampled := "", "", false
	if more > 0 {
		like = fmt.Sprintf(", as do %d others of that name", more)
		if more == 1 {
			like = ", as does another of that name"
		}
	}
	pc := l.Table(processCPU)
	if all := actors(pc, pc.Where("pid", pidWord(h.pid)), s.mask); len(all) > 0 {
		mode = ", " + modeOf(all[0], s.mask)
	}
	severity := Medium
	if !h.sure {
		severity = Low
	}
	f := l.Found(clean(h.process), severity, 0.9, Culprit{Kind: "process", Name: h.process, PID: h.pid},
		fmt.Sprintf("%s saturates a CPU%s: %s of one CPU for %s%s, while %s of %d CPUs idle.", what, like, percent(min(use, 1)), s, mode, digits(idle*m.cpus), int(m.cpus)))
	sentence := t.Asking(nil, "pid", pidWord(h.pid))
	if h.tid > 0 {
		sentence = t.Asking(nil, "pid", pidWord(h.pid), "tid", pidWord(h.tid))
	}
	f.proof(t, s, sentence, use, t.Unit, fmt.Sprintf("uses %s of one CPU", percent(use))).than(1, "one CPU")
	f.proof(m.table, s, `cpu.time where mode in ("idle", "iowait")`, idle*m.cpus, m.table.Unit, fmt.Sprintf("%s of %d CPUs have nothing to do", digits(idle*m.cpus), int(m.cpus))).than(m.cpus, "CPUs")
	if cpu, share := busiest(m, s.mask); share >= 0.85 {
		f.proof(m.table, s, fmt.Sprintf(`cpu.time where cpu = %q and mode in ("idle", "iowait")`, cpu), 1-share, m.table.Unit,
			fmt.Sprintf("CPU %s is busy %s of the time, idle %s", clean(cpu), percent(share), percent(1-share)))
	}
	f.coveringFunction()
	if all := actors(pc, pc.Where("pid", pidWord(h.pid)), s.mask); len(all) > 0 {
		sampled = kernelProof(l, f, s, all, f.Culprit)
	}
	f.explains(use / max(m.cpus*(1-idle), use))
	f.loses(use / m.cpus)
	if !h.sure {
		f.but(0.3, "How its use divides among its threads is not known: it could be two threads of half a CPU each.")
	}
	f.but(0, "A thread that polls (spins while it waits) shows the same and may have nothing to do.")
	f.Verify = fmt.Sprintf("pidstat -t -u -p %d 1 3; mpstat -P ALL 1 3", h.pid)
	if sampled {
		f.Verify += fmt.Sprintf("; culprit profile --pid %d --kernel --for 10s --table", h.pid)
	}
}

// busiest gives the CPU with the least idle time and its busy share.
func busiest(m machine, mask []bool) (string, float64) {
	name, most := "", -1.0
	for _, cpu := range m.names {
		if b := 1 - m.one(cpu, mask, "idle", "iowait"); b > most {
			name, most = cpu, b
		}
	}
	return name, most
}

// hotCPU finds a CPU that several tasks keep full while others idle: bound to it, or an uneven scheduler. What interrupts take
// beside them counts: tasks have no more of that CPU either. One that is taken by interrupts is the rule cpu-softirq's.
func hotCPU(l *Look, m machine, room func(int) bool) bool {
	work := workOf(m, handledOf(l))
	for _, cpu := range m.names {
		s, ok := lasting(m.table, m.known, func(c int) bool {
			return m.of(cpu, c, "usr", "sys", "nice", "soft", "irq") >= oneFull && room(c)
		})
		use, irq, idle := m.one(cpu, s.mask, "usr", "sys", "nice"), m.one(cpu, s.mask, "soft", "irq"), m.share(s.mask, "idle", "iowait")
		if !ok || use < oneTasks || use < oneFull && m.table.mean(work[cpu], s.mask) >= softirqHalf {
			continue
		}
		full := fmt.Sprintf("full with tasks, %s", percent(use))
		if use < oneFull {
			full = fmt.Sprintf("full, tasks take %s of it and interrupts %s,", percent(use), percent(irq))
		}
		who, part := ranOn(l, cpu, s.mask)
		most := ""
		if part >= oneMost*use {
			most = fmt.Sprintf(", %s runs there %s of the time", who, percent(min(part, 1)))
		}
		f := l.Found("cpu"+clean(cpu), Medium, 0.75, Culprit{Kind: "cpu", Name: cpu},
			fmt.Sprintf("CPU %s is %s for %s, while %s of %d CPUs idle; no single thread fills it%s.", clean(cpu), full, s, digits(idle*m.cpus), int(m.cpus), most))
		f.proof(m.table, s, fmt.Sprintf(`cpu.time where cpu = %q and mode in ("usr", "sys", "nice")`, cpu), use, m.table.Unit, fmt.Sprintf("CPU %s runs tasks %s of the time", clean(cpu), percent(use)))
		if use < oneFull {
			f.proof(m.table, s, fmt.Sprintf(`cpu.time where cpu = %q and mode in ("soft", "irq")`, cpu), irq, m.table.Unit, fmt.Sprintf("and interrupt work %s", percent(irq)))
		}
		f.proof(m.table, s, `cpu.time where mode in ("idle", "iowait")`, idle*m.cpus, m.table.Unit, fmt.Sprintf("%s of %d CPUs have nothing to do", digits(idle*m.cpus), int(m.cpus))).than(m.cpus, "CPUs")
		if part >= 0.1 {
			samples := l.Table(stackSamples)
			f.proof(samples, s, samples.Asking([]string{"process"}, "cpu", cpu), part, m.table.Unit, fmt.Sprintf("%s runs there %s of the time (sampled)", who, percent(min(part, 1))))
		}
		w := l.Table(processWait)
		if waiting := actors(w, w.Rows, s.mask); len(waiting) > 0 && waiting[0].rate >= 0.1 {
			f.proof(w, s, waiting[0].sentence(w), waiting[0].rate, w.Unit, fmt.Sprintf("%s waits for a CPU, %s tasks of it at any moment", waiting[0], digits(waiting[0].rate)))
		}
		f.but(0, "Tasks may be bound to this CPU on purpose.")
		f.Verify = "mpstat -P ALL 1 3; ps -eLo psr,pid,comm,pcpu --sort=-pcpu | head"
		return true
	}
	return false
}

// ranOn gives the processes of one name that were sampled on a CPU most, with their share of it; 0 when nothing was sampled.
func ranOn(l *Look, cpu string, mask []bool) (actor, float64) {
	k := stacksOf(l)
	if !k.enough(mask) {
		return actor{}, 0
	}
	var rows []*Row
	share := map[string]float64{}
	for _, r := range k.rows {
		if r.cpu == cpu && r.in.kind != inSoftirq && r.in.kind != inInterrupt {
			rows = append(rows, r.Row)
			share[r.process] += k.share(r, mask)
		}
	}
	all := actors(k.table, rows, mask)
	if len(all) == 0 {
		return actor{}, 0
	}
	return all[0], share[all[0].name]
}
