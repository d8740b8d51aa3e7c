package facts

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
)

// A Weighed process is one that used a CPU or waited for one, with its place in the tree by which
// the scheduler divides CPU time: groups divide the time of their parent by weight, and so do the
// tasks in a group.
type Weighed struct {
	Row          *diagnose.Row // of process.weight
	PID          string
	Wait         *diagnose.Row   // of process.runwait; nil: it did not wait
	CPU          []*diagnose.Row // of process.cpu
	Used, Waited float64         // tasks, in the period of WeighedOf
	Path         []Weight        // the groups from the top, and the task itself
	Allowed      CPUSet          // "": unknown
}

// A Weight is a group, or the tasks of a process, among those of the same parent.
type Weight struct {
	ID    string  // path of a group, "autogroup 25", or "task 7"
	Value float64 // on the scale on which a task of nice 0 has 1024
	Raw   float64 // of a group: as in its file
	File  string  // of a group: cpu.shares, cpu.weight; "": it is none
	Nice  int     // of a session, of a task
	Idle  bool    // SCHED_IDLE, or a group that is idle
	Task  bool
}

// idleWeight is the weight of SCHED_IDLE, and of idle groups: WEIGHT_IDLEPRIO of the kernel.
const idleWeight = 3

// String describes the weight: "control group /batch has cpu.shares 2".
func (w Weight) String() string {
	switch {
	case w.File != "" && w.Raw == 0:
		return fmt.Sprintf("control group %s is idle (cpu.idle)", CgroupName(w.ID))
	case w.File != "":
		return fmt.Sprintf("control group %s has %s %s", CgroupName(w.ID), w.File,
			phrase.Digits(w.Raw))
	case w.Idle:
		return "it has policy SCHED_IDLE (weight 3)"
	case w.Task:
		return fmt.Sprintf("it has nice %d (weight %.0f)", w.Nice, w.Value)
	}
	return fmt.Sprintf("its session (%s) has nice %d", phrase.Clean(w.ID), w.Nice)
}

// Beside describes the weight as that of others: "in /web with cpu.shares 1024".
func (w Weight) Beside() string {
	switch {
	case w.File != "":
		return fmt.Sprintf("in %s with %s %s", CgroupName(w.ID), w.File, phrase.Digits(w.Raw))
	case w.Task:
		return fmt.Sprintf("with nice %d (weight %.0f)", w.Nice, w.Value)
	}
	return fmt.Sprintf("in another session (%s) with nice %d", phrase.Clean(w.ID), w.Nice)
}

// WeighedOf returns the processes of process.weight with a normal policy. Their use is that of the
// cells in mask; nil: of all.
func WeighedOf(l *diagnose.Look, mask []bool) []*Weighed {
	return slices.DeleteFunc(weighedOf(l, mask), (*Weighed).realtime)
}

// weighedOf returns all processes of process.weight.
func weighedOf(l *diagnose.Look, mask []bool) []*Weighed {
	t, cpu, wait := l.Table(ProcessWeights), l.Table(ProcessCPU), l.Table(ProcessWait)
	groups := l.Table(CgroupWeights)
	latest := map[string]*diagnose.Row{} // a process may change its group or its nice value
	var order []string
	for _, r := range t.Rows {
		pid := r.Word("pid")
		if latest[pid] == nil {
			order = append(order, pid)
		}
		if old := latest[pid]; old == nil || cellsOf(r) > cellsOf(old) {
			latest[pid] = r
		}
	}
	var all []*Weighed
	for _, pid := range order {
		r := latest[pid]
		w := &Weighed{Row: r, PID: pid, Wait: wait.One("pid", pid), CPU: cpu.Where("pid", pid),
			Path: pathOf(groups, r), Allowed: CPUSet(r.Word("allowed"))}
		w.Used = series.Or(SumRows(cpu, w.CPU, mask), 0)
		w.Waited = series.Or(w.Wait.Part(mask), 0)
		all = append(all, w)
	}
	return all
}

// Yields reports whether somebody made a process give way to others: by a nice value above 0, of
// its own or of its session, by SCHED_IDLE or an idle group.
func (w *Weighed) Yields() bool {
	for _, p := range w.Path {
		if p.Idle || p.File == "" && p.Nice > 0 {
			return true
		}
	}
	return false
}

// WaitsYield returns the share of the waits for a CPU that are of processes made to give way, 0 to
// 1; 0 when nothing waits, or it is not known.
func WaitsYield(l *diagnose.Look, mask []bool) float64 {
	t := l.Table(ProcessWait)
	all := series.Or(SumRows(t, t.Rows, mask), 0)
	if all <= 0 {
		return 0
	}
	yielding := 0.0
	for _, w := range WeighedOf(l, mask) {
		if w.Yields() {
			yielding += w.Waited
		}
	}
	return min(yielding/all, 1)
}

// cellsOf returns the number of cells in which a row has a value.
func cellsOf(r *diagnose.Row) (n int) {
	for _, v := range r.Values {
		if v == v {
			n++
		}
	}
	return n
}

// pathOf returns the place of a process in the tree. A group without a weight is no group for the
// scheduler: version 2 divides CPU time down to the groups for which the controller cpu is on. Nil
// when the weights of groups are unknown, and it is not in the top group.
func pathOf(groups *diagnose.Table, r *diagnose.Row) (path []Weight) {
	group := r.Word("group")
	if group != VisibleRoot && (group == "" || !groups.Have()) {
		return nil
	}
	at := ""
	for part := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
		at += "/" + part
		w := groups.One("cgroup", at)
		raw := w.Last()
		if part == "" || raw != raw {
			break
		}
		g := Weight{ID: at, Raw: raw, File: w.Word("file"), Value: raw}
		switch {
		case raw == 0 || raw == idleWeight && g.File == "cpu.shares":
			g.Value, g.Idle = idleWeight, true
		case g.File == "cpu.weight":
			g.Value = raw * 1024 / 100
		}
		path = append(path, g)
	}
	if number, nice, ok := strings.Cut(r.Word("autogroup"), ":"); ok && len(path) == 0 {
		n, _ := strconv.Atoi(nice)
		path = append(path, Weight{ID: "autogroup " + number, Nice: n, Value: niceWeight(n)})
	}
	nice, _ := strconv.Atoi(r.Word("nice"))
	return append(path, Weight{ID: "task " + r.Word("pid"), Value: r.Max(), Nice: nice,
		Idle: r.Word("policy") == "IDLE", Task: true})
}

// niceWeight returns the weight of a nice value: a step is a factor of 1.25.
func niceWeight(nice int) float64 { return math.Round(1024 * math.Pow(1.25, -float64(nice))) }

// Against returns the weights by which two processes compete: those of the groups or tasks below
// the last group that both are in. False when that is unknown.
func (w *Weighed) Against(o *Weighed) (mine, other Weight, ok bool) {
	for i := range min(len(w.Path), len(o.Path)) {
		if w.Path[i].ID != o.Path[i].ID {
			return w.Path[i], o.Path[i], true
		}
	}
	return mine, other, false
}

// Overlaps reports whether two lists of CPUs have one in common. Unknown lists have all.
func (s CPUSet) Overlaps(o CPUSet, cpus []string) bool {
	for _, cpu := range cpus {
		if (s == "" || s.Has(cpu)) && (o == "" || o.Has(cpu)) {
			return true
		}
	}
	return false
}
