package rules

import (
	"fmt"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// realtimeHog finds threads with a real-time policy that use most of a CPU for which others wait:
// no normal task runs there before such a thread sleeps.
func realtimeHog() diagnose.Rule {
	return diagnose.Rule{
		ID: "realtime-hog", Checks: "real-time threads",
		Finds: []string{facts.Realtime, facts.ThreadCPU},
		Uses:  []string{facts.ProcessWait, facts.Placement},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.Realtime)
			accused := map[string]bool{}
			for _, tid := range t.Keys("tid") {
				rows := t.Where("tid", tid)
				h := hog{rows: rows, pid: rows[0].Word("pid"), name: rows[0].Word("process")}
				if !accused[h.name] && h.holdsUp(l, tid) {
					accused[h.name] = true
					h.accuse(l, tid)
				}
			}
		},
	}
}

// A hog is a real-time thread.
type hog struct {
	rows      []*diagnose.Row // of thread.realtime, by policy and CPU
	pid, name string
	used      []float64       // CPU time, by cell
	victims   []*diagnose.Row // of process.runwait: those that waited where the thread ran
	waited    []float64       // tasks that waited there, by cell
	s         diagnose.Period
}

// holdsUp reports whether the thread uses most of a CPU while others wait for the same.
func (h *hog) holdsUp(l *diagnose.Look, tid string) bool {
	t, wait, place := l.Table(facts.ThreadCPU), l.Table(facts.ProcessWait),
		l.Table(facts.Placement)
	h.used = t.Sum(t.Where("tid", tid))
	h.waited = make([]float64, len(t.Seconds))
	seen := map[string]bool{}
	for _, v := range place.Rows {
		pid := v.Word("pid")
		if pid == h.pid || len(l.Table(facts.Realtime).Where("pid", pid)) > 0 {
			continue
		}
		row, here := wait.One("pid", pid), false
		for c := range h.waited {
			if v.At(c) > 0 && h.cpuAt(c) == v.Word("cpu") {
				h.waited[c] += series.Or(row.At(c), 0)
				here = true
			}
		}
		if here && row != nil && !seen[pid] {
			seen[pid] = true
			h.victims = append(h.victims, row)
		}
	}
	if _, priority := h.policy(); priority != priority {
		return false
	}
	var ok bool
	h.s, ok = diagnose.Lasting(t, nil, func(c int) bool {
		return series.AtOrZero(h.used, c) >= threshold.RealtimeBusy &&
			h.waited[c] >= threshold.RealtimeWait
	})
	return ok
}

// cpuAt returns the CPU on which the thread ran last in a cell; "" when it did not run.
func (h *hog) cpuAt(c int) string {
	for _, r := range h.rows {
		if r.At(c) == r.At(c) {
			return r.Word("cpu")
		}
	}
	return ""
}

// policy returns the policy of the thread and its priority, of the first row with a value; NaN:
// none has one.
func (h *hog) policy() (policy string, priority float64) {
	for _, r := range h.rows {
		if v := r.Mean(nil); v == v {
			return r.Word("policy"), v
		}
	}
	return "", measure.NaN
}

func (h *hog) accuse(l *diagnose.Look, tid string) {
	t, rt, wait, s := l.Table(facts.ThreadCPU), l.Table(facts.Realtime),
		l.Table(facts.ProcessWait), h.s
	pid, _ := strconv.Atoi(h.pid)
	number, _ := strconv.Atoi(tid)
	used, waited := t.Mean(h.used, s.Mask), t.Mean(h.waited, s.Mask)
	policy, priority := h.policy()
	on := map[string]float64{}
	for c := range h.waited {
		if s.Mask[c] {
			on[h.cpuAt(c)] += h.waited[c]
		}
	}
	cpu, where := facts.Largest(on), "a CPU"
	if cpu != "" {
		where = "CPU " + phrase.Clean(cpu)
	}
	severity := diagnose.Medium
	if waited >= threshold.RealtimeMany {
		severity = diagnose.High
	}
	victims := facts.Programs(wait, h.victims, s.Mask)
	what := phrase.ProcessName(h.name, pid)
	if thread := h.rows[0].Word("thread"); thread != h.name {
		what = fmt.Sprintf("Thread %s of %s", phrase.ProcessName(thread, number), what)
	}
	rank := ", of policy " + phrase.Clean(policy)
	if priority > 0 {
		rank += " and priority " + phrase.Digits(priority)
	}
	f := l.Found(phrase.Clean(h.name), severity, 0.9,
		diagnose.Culprit{Kind: "process", Name: h.name, PID: pid}, fmt.Sprintf(
			"%s%s, uses %s of %s for %s, and %s tasks wait there that run only when it "+
				"sleeps: %s.", what, rank, phrase.Percent(min(used, 1)), where, s,
			phrase.Digits(waited), facts.ShortNames(victims)))
	f.SetEffect(min(waited/(waited+1), 1))
	f.AddEvidence(t, s, t.QueryOf(nil, "pid", h.pid, "tid", tid), used, t.Unit, fmt.Sprintf(
		"uses %s of one CPU", phrase.Percent(used))).CompareTo(1, "one CPU")
	f.AddEvidence(rt, s, rt.QueryOf(nil, "tid", tid), priority, rt.Unit, fmt.Sprintf(
		"has policy %s, priority %s", phrase.Clean(policy), phrase.Digits(priority)))
	facts.AddWaits(f, wait, s, victims)
	f.AddCaveat(0, "The kernel keeps 5 %% of each CPU for normal tasks, unless "+
		"kernel.sched_rt_runtime_us is changed.")
	f.Verify = fmt.Sprintf("chrt -p %d; ps -eLo cls,rtprio,psr,pcpu,tid,comm --sort=-rtprio | head",
		number)
	if policy != "DEADLINE" {
		f.Fix = &diagnose.Fix{Command: fmt.Sprintf("chrt --other -p 0 %d", number),
			Undo: fmt.Sprintf("chrt --%s -p %s %d", map[bool]string{true: "rr",
				false: "fifo"}[policy == "RR"], phrase.Digits(priority), number),
			Risk: "medium: it runs later than now, which it may not tolerate"}
	}
	for _, rule := range []string{"cpu-one-saturated", "cpu-saturated"} {
		f.Cover(rule, func(o *diagnose.Finding) bool {
			return facts.SameProgram(f, o) || o.Culprit.Kind == "cpu" && o.Culprit.Name == cpu
		})
	}
	f.Cover("cpus-confined", func(o *diagnose.Finding) bool {
		set, ok := o.Subject.(facts.CPUSet)
		return ok && set.Has(cpu)
	})
}
