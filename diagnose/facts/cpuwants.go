package facts

import (
	"cmp"
	"slices"

	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/demand"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// CPUWants is what programs would use of the CPUs if others used less.
type CPUWants struct {
	Programs []demand.Range // in the order of the programs
	Known    bool           // whether the waits for a CPU are known

	used  []float64
	tasks []wantingTask // the largest, at most mostTasks
	rest  []float64     // by program: likely use of its other tasks
}

// A wantingTask is a thread, or an equal part of a process whose threads are not known.
type wantingTask struct {
	program int
	likely  float64
}

// mostTasks is the most tasks of which it is estimated how often they are awake together.
const mostTasks = 256

// CPUWantsOf returns what each program would use of the CPUs. The tables are process.runwait,
// process.switches and, where threads are recorded, thread.cpu and thread.runwait.
func CPUWantsOf(l *diagnose.Look, programs []Program, mask []bool) *CPUWants {
	w := &CPUWants{Programs: make([]demand.Range, len(programs)),
		Known: l.Table(ProcessWait).HasNumbers(), used: make([]float64, len(programs)),
		rest: make([]float64, len(programs))}
	waits := map[string]float64{}
	for _, r := range l.Table(ProcessWait).Rows {
		if v := r.Part(mask); v > 0 {
			waits[r.Word("pid")] += v
		}
	}
	threads := threadsOf(l, mask)
	for i := range programs {
		used := map[string]float64{}
		var pids []string // in the order of the rows, for sums that are always the same
		for _, r := range programs[i].Rows {
			pid := r.Word("pid")
			if _, seen := used[pid]; !seen {
				pids = append(pids, pid)
			}
			used[pid] += series.Or(r.Part(mask), 0)
		}
		w.used[i] = programs[i].Rate
		for _, pid := range pids {
			w.add(i, used[pid], waits[pid], threads[pid], sleepless(l, pid, used[pid], mask))
		}
	}
	slices.SortFunc(w.tasks, func(a, b wantingTask) int {
		return cmp.Or(cmp.Compare(b.likely, a.likely), cmp.Compare(a.program, b.program))
	})
	for len(w.tasks) > mostTasks {
		last := w.tasks[len(w.tasks)-1]
		w.rest[last.program] += last.likely
		w.tasks = w.tasks[:len(w.tasks)-1]
	}
	return w
}

// sleepless reports whether a process uses a CPU for long between two sleeps. True: unknown too.
func sleepless(l *diagnose.Look, pid string, used float64, mask []bool) bool {
	t := l.Table(ProcessSwitches)
	sleeps := SumRows(t, t.Where("pid", pid, "type", "voluntary"), mask)
	return !(sleeps*threshold.BusySlice > used*float64(measure.Second))
}

// add adds a process to its program. threads are its threads when they are known.
func (w *CPUWants) add(program int, used, waited float64, threads []threadUse, sleepless bool) {
	all := &w.Programs[program]
	sum, waiting := 0.0, 0.0
	for _, t := range threads {
		sum += t.used
		waiting += t.waited
	}
	// Threads that ended within a reading are in the numbers of the process only.
	if len(threads) == 0 || sum < threshold.ThreadsSeen*used ||
		waiting < threshold.ThreadsSeen*waited {
		r := demand.OfProcess(used, waited, sleepless)
		all.Least, all.Likely, all.Most = all.Least+r.Least, all.Likely+r.Likely, all.Most+r.Most
		left := r.Likely
		for n := 0; left > 0 && n < mostTasks; n++ {
			w.tasks = append(w.tasks, wantingTask{program, min(left, 1)})
			left--
		}
		w.rest[program] += max(left, 0)
		return
	}
	for _, t := range threads {
		r := demand.OfThread(t.used, t.waited)
		all.Least, all.Likely, all.Most = all.Least+r.Least, all.Likely+r.Likely, all.Most+r.Most
		w.tasks = append(w.tasks, wantingTask{program, r.Likely})
	}
}

// A threadUse is the shares of the time in which a thread ran, and was ready and waited for a CPU.
type threadUse struct{ used, waited float64 }

// threadsOf returns the threads of all processes, by the word of the pid.
func threadsOf(l *diagnose.Look, mask []bool) map[string][]threadUse {
	type key struct{ pid, tid string }
	at, order := map[key]*threadUse{}, []key(nil)
	for i, query := range []string{ThreadCPU, ThreadWait} {
		for _, r := range l.Table(query).Rows {
			v, k := r.Part(mask), key{r.Word("pid"), r.Word("tid")}
			if !(v > 0) {
				continue
			}
			if at[k] == nil {
				at[k] = &threadUse{}
				order = append(order, k)
			}
			if i == 0 {
				at[k].used += v
			} else {
				at[k].waited += v
			}
		}
	}
	out := map[string][]threadUse{}
	for _, k := range order {
		out[k.pid] = append(out[k.pid], *at[k])
	}
	return out
}

// Likely returns what a program would use alone, and what it uses now when that is unknown.
func (w *CPUWants) Likely(program int) float64 {
	return max(w.used[program], w.Programs[program].Likely)
}

// Without returns how many of the CPUs would be busy without programs, and without users that are
// no programs: indices from len(Programs) on, with their CPU time in others. busy is how many are
// busy now.
func (w *CPUWants) Without(stopped map[int]bool, others []float64, cpus,
	busy float64) attribute.Estimate {
	constant := busy // what is not of the programs
	for _, used := range w.used {
		constant -= used
	}
	for i, used := range others {
		if stopped[len(w.Programs)+i] {
			constant -= used
		}
	}
	constant = max(constant, 0)
	e := attribute.Estimate{Least: constant, Most: constant}
	for i, r := range w.Programs {
		if !stopped[i] {
			e.Least += max(r.Least, w.used[i])
			e.Most += max(r.Most, w.used[i])
			constant += w.rest[i]
		}
	}
	var tasks []float64
	for _, t := range w.tasks {
		if !stopped[t.program] {
			tasks = append(tasks, t.likely)
		}
	}
	e.Likely = demand.Expected(cpus, constant, tasks)
	if !w.Known {
		e.Likely, e.Most = measure.NaN, measure.NaN
	}
	return e
}
