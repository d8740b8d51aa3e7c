package facts

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// CPUTakers are the processes that use the CPUs for which a process waits.
type CPUTakers struct {
	CPUs     []string  // that the process may use
	Programs []Program // most CPU time first
	Used     float64   // CPUs
	// Precedence reports whether they have a real-time policy, or three times its weight or more.
	// Mine and Theirs are these weights; Policy is the real-time policy of the first one.
	Precedence   bool
	Mine, Theirs Weight
	Policy       string
}

// CPUTakersOf returns who uses the CPUs for which a process waits, in the cells of mask: those with
// precedence if they use half of the CPUs, or else all that do. Nil: the CPUs are not full, or
// nobody is known to use half of them. The tables are those of WeighedOf and process.placement.
func CPUTakersOf(l *diagnose.Look, m Machine, w *Weighed, mask []bool) *CPUTakers {
	t := &CPUTakers{CPUs: m.Names}
	if w.Allowed != "" {
		t.CPUs, _ = w.Allowed.Of(m.Names)
	}
	n := float64(len(t.CPUs))
	idle := 0.0
	for _, cpu := range t.CPUs {
		idle += SumRows(m.Table, m.Table.Where("cpu", cpu, "mode", "idle"), mask) +
			series.Or(SumRows(m.Table, m.Table.Where("cpu", cpu, "mode", "iowait"), mask), 0)
	}
	if n == 0 || !(idle <= threshold.StarvedIdle*n) {
		return nil
	}
	all := weighedOf(l, mask)
	all = slices.DeleteFunc(all, func(o *Weighed) bool {
		return o.PID == w.PID || !w.Allowed.Overlaps(o.Allowed, m.Names) ||
			!runsOn(l.Table(Placement), o.PID, t.CPUs, mask)
	})
	sort.SliceStable(all, func(i, j int) bool { return all[i].Used > all[j].Used })
	first := func(o *Weighed) bool {
		mine, other, ok := w.Against(o)
		return o.realtime() || ok && other.Value >= threshold.StarvedRatio*mine.Value
	}
	if before := slices.DeleteFunc(slices.Clone(all), func(o *Weighed) bool {
		return !first(o)
	}); usedBy(before) >= threshold.StarvedTakers*n {
		all, t.Precedence = before, true
		t.Mine, t.Theirs, _ = w.Against(before[0])
		if before[0].realtime() {
			t.Policy, t.Mine = before[0].Row.Word("policy"), w.Path[len(w.Path)-1]
		}
	}
	if t.Used = usedBy(all); t.Used < threshold.StarvedTakers*n {
		return nil
	}
	var rows []*diagnose.Row
	for i, o := range all {
		if i == 0 || o.Used >= 0.1*n {
			rows = append(rows, o.CPU...)
		}
	}
	t.Programs = Programs(l.Table(ProcessCPU), rows, mask)
	return t
}

func usedBy(all []*Weighed) (sum float64) {
	for _, o := range all {
		sum += o.Used
	}
	return sum
}

// runsOn reports whether a process is on some CPUs most of the time, or where it runs is unknown.
func runsOn(t *diagnose.Table, pid string, cpus []string, mask []bool) bool {
	in, out := 0.0, 0.0
	for _, r := range t.Where("pid", pid) {
		n := 0.0
		for c := range r.Values {
			if (mask == nil || mask[c]) && r.At(c) > 0 {
				n++
			}
		}
		if slices.Contains(cpus, r.Word("cpu")) {
			in += n
		} else {
			out += n
		}
	}
	return in >= out
}

// realtime reports whether the process has a real-time policy.
func (w *Weighed) realtime() bool { return !(w.Row.Max() > 0) }

// Throttled reports whether a quota stops the groups of a process. The table is
// cgroup.throttled.time.
func (w *Weighed) Throttled(l *diagnose.Look, mask []bool) bool {
	for _, p := range w.Path {
		if p.File != "" && l.Table(CgroupThrottledTime).One("cgroup", p.ID).Part(mask) >=
			threshold.ThrottledTime {
			return true
		}
	}
	return false
}

// RaiseGroup proposes to raise the weight of a control group to that of others.
func RaiseGroup(mine, theirs Weight, risk string) *diagnose.Fix {
	value, raw := fmt.Sprintf("%.0f", theirs.Raw), fmt.Sprintf("%.0f", mine.Raw)
	path := "/sys/fs/cgroup/cpu" + phrase.Shell(mine.ID) + "/cpu.shares"
	if mine.File == "cpu.weight" {
		path = "/sys/fs/cgroup" + phrase.Shell(mine.ID) + "/cpu.weight"
	}
	if mine.Idle && mine.Raw == 0 {
		path, value, raw = strings.Replace(path, "cpu.weight", "cpu.idle", 1), "0", "1"
	} else if theirs.File != mine.File {
		value = map[bool]string{true: "100", false: "1024"}[mine.File == "cpu.weight"]
	}
	return &diagnose.Fix{Command: "echo " + value + " > " + path,
		Undo: "echo " + raw + " > " + path,
		Risk: risk + "; a container manager or systemd may reset it"}
}
