package rules

import (
	"fmt"
	"slices"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// A starvedHolder is a thread that holds a lock and waits for a CPU.
type starvedHolder struct {
	row    *diagnose.Row // of thread.runwait
	waits  float64       // share of the time
	takers *facts.CPUTakers
	s      diagnose.Period
}

// starvedHolderOf returns the thread that holds a lock in most of the samples; nil when it sleeps,
// is not known, or waits for a CPU less than half of the time.
func starvedHolderOf(l *diagnose.Look, c *convoy, lock string) *starvedHolder {
	holds, all := map[string]float64{}, 0.0
	for _, r := range c.rows {
		if r.Word("lock") != lock {
			continue
		}
		n := series.Or(r.Part(c.s.Mask), 0)
		all += n
		if r.Word("wchan") == "" && r.Word("holder") != "0" {
			holds[r.Word("holder")] += n
		}
	}
	tid, wait := facts.Largest(holds), l.Table(facts.ThreadWait)
	if tid == "" || holds[tid] < threshold.LockHolderSame*all {
		return nil
	}
	pid := c.rows[0].Word("pid")
	h := &starvedHolder{row: wait.One("pid", pid, "tid", tid), s: c.s}
	if h.waits = min(h.row.Part(c.s.Mask), 1); !(h.waits >= threshold.LockHolderWaits) {
		return nil
	}
	cpu, ready := l.Table(facts.ProcessCPU), l.Table(facts.ProcessWait)
	weighed := facts.WeighedOf(l, c.s.Mask)
	i := slices.IndexFunc(weighed, func(w *facts.Weighed) bool { return w.PID == pid })
	whole := series.Or(facts.SumRows(cpu, cpu.Where("pid", pid), c.s.Mask), 0) +
		series.Or(facts.SumRows(ready, ready.Where("pid", pid), c.s.Mask), 0)
	// The weight is that of the thread that used a CPU or waited for one longest.
	if i < 0 || h.waits < threshold.LockHolderMost*whole || weighed[i].Throttled(l, c.s.Mask) {
		return h
	}
	h.takers = facts.CPUTakersOf(l, facts.MachineOf(l.Table(facts.CPUTime)), weighed[i], c.s.Mask)
	return h
}

// name returns the thread: "writer[7]".
func (h *starvedHolder) name() string {
	tid, _ := strconv.Atoi(h.row.Word("tid"))
	return phrase.ProcessName(h.row.Word("thread"), tid)
}

// inverted reports whether those that use the CPUs have precedence over the holder.
func (h *starvedHolder) inverted() bool { return h.takers != nil && h.takers.Precedence }

// claim states how long the holder waits for a CPU, and who uses it.
func (h *starvedHolder) claim() string {
	text := fmt.Sprintf("%s, which holds the lock, waits for a CPU %s of the time", h.name(),
		phrase.Percent(h.waits))
	if h.takers == nil {
		return "Thread " + text + "."
	}
	cpus, uses, rank := fmt.Sprintf("%d CPUs", len(h.takers.CPUs)), "uses", ""
	if len(h.takers.CPUs) == 1 {
		cpus = "CPU " + phrase.Clean(h.takers.CPUs[0])
	}
	if len(h.takers.Programs) > 1 {
		uses = "use"
	}
	switch {
	case !h.inverted():
		return fmt.Sprintf("Thread %s: %s %s %s of %s.", text, facts.ShortNames(h.takers.Programs),
			uses, phrase.Digits(h.takers.Used), cpus)
	case h.takers.Policy != "":
		rank = "with policy " + phrase.Clean(h.takers.Policy)
	default:
		rank = h.takers.Theirs.Beside()
	}
	return fmt.Sprintf("Priority inversion: thread %s: %s. %s, %s, %s %s of %s.", text,
		h.takers.Mine, facts.ShortNames(h.takers.Programs), rank, uses,
		phrase.Digits(h.takers.Used), cpus)
}

// explain adds evidence, and what to change.
func (h *starvedHolder) explain(l *diagnose.Look, f *diagnose.Finding) {
	if h == nil {
		return
	}
	wait, cpu := l.Table(facts.ThreadWait), l.Table(facts.ProcessCPU)
	query := wait.QueryOf(nil, "pid", h.row.Word("pid"), "tid", h.row.Word("tid"))
	f.AddEvidence(wait, h.s, query, h.waits, wait.Unit, fmt.Sprintf(
		"thread %s, which holds it, waits for a CPU %s of the time", h.name(),
		phrase.Percent(h.waits)))
	worse := func(o *diagnose.Finding) bool { return o.Severity.Weight() > f.Severity.Weight() }
	for _, rule := range []string{"cpu-starved", "cpus-confined"} {
		f.Cover(rule, func(o *diagnose.Finding) bool {
			return !worse(o) && facts.SameProgram(f, o)
		})
	}
	if h.takers == nil {
		return
	}
	for _, p := range h.takers.Programs[:min(len(h.takers.Programs), 3)] {
		f.AddEvidence(cpu, h.s, p.Query(cpu), p.Rate, cpu.Unit, fmt.Sprintf("%s uses %s CPUs", p,
			phrase.Digits(p.Rate)))
	}
	f.Cover("cpu-one-saturated", func(o *diagnose.Finding) bool {
		taker := slices.ContainsFunc(h.takers.Programs, func(p facts.Program) bool {
			return o.Culprit.Kind == "process" && o.Culprit.Name == p.Name
		})
		return !worse(o) && (taker || o.Culprit.Kind == "cpu" &&
			slices.Contains(h.takers.CPUs, o.Culprit.Name))
	})
	if h.inverted() {
		h.addAdvice(f)
	}
}

// addAdvice proposes to raise the holder. The kernel lends a holder the priority of those that wait
// only where they have a real-time policy and the mutex has the protocol:
// pthread_mutexattr_setprotocol(3).
func (h *starvedHolder) addAdvice(f *diagnose.Finding) {
	mine, theirs, tid := h.takers.Mine, h.takers.Theirs, phrase.Clean(h.row.Word("tid"))
	f.AddCaveat(0, "Where those that wait have a real-time policy, a mutex with "+
		"PTHREAD_PRIO_INHERIT lends its holder their priority.")
	risk := "low: it takes CPU time from the others; it may have little weight on purpose"
	nice := max(theirs.Nice, 0)
	switch {
	case h.takers.Policy != "":
	case mine.File != "":
		f.Fix = facts.RaiseGroup(mine, theirs, risk)
	case mine.Task && mine.Idle:
		f.Fix = &diagnose.Fix{Command: "chrt --other -p 0 " + tid, Undo: "chrt --idle -p 0 " + tid,
			Risk: risk}
	case mine.Task && mine.Nice > nice:
		f.Fix = &diagnose.Fix{Command: fmt.Sprintf("renice -n %d -p %s", nice, tid),
			Undo: fmt.Sprintf("renice -n %d -p %s", mine.Nice, tid), Risk: risk}
	}
}
