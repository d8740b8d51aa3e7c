package rules

import (
	"fmt"
	"sort"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// semaphoreWait finds threads that wait for a System V semaphore which one process keeps. Idle
// workers wait for work at a semaphore too: see semaphoreWaiters.keeps.
func semaphoreWait() diagnose.Rule {
	return diagnose.Rule{
		ID: "semaphore-wait", Checks: "System V semaphores",
		Finds: []string{facts.SemaphoreWaiters},
		Uses:  []string{facts.ProcessCPU},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.SemaphoreWaiters)
			type key struct{ set, number string }
			semaphores, order := map[key][]*diagnose.Row{}, []key{}
			for _, r := range t.Rows {
				k := key{r.Word("set"), r.Word("semaphore")}
				if k.set == "" || k.number == "" {
					continue
				}
				if semaphores[k] == nil {
					order = append(order, k)
				}
				semaphores[k] = append(semaphores[k], r)
			}
			var all []*semaphoreWaiters
			for _, k := range order {
				w := &semaphoreWaiters{set: k.set, number: k.number, rows: semaphores[k]}
				if w.lasts(t) && w.keeps() {
					all = append(all, w)
				}
			}
			sort.SliceStable(all, func(i, j int) bool { return all[i].waiting > all[j].waiting })
			for _, w := range all[:min(len(all), mostWaitedSemaphores)] {
				w.accuse(l)
			}
		},
	}
}

// mostWaitedSemaphores is the number of semaphores with a finding.
const mostWaitedSemaphores = 3

// semaphoreWaiters is the threads that wait for a semaphore.
type semaphoreWaiters struct {
	set, number string
	rows        []*diagnose.Row
	waiting     float64 // threads at any moment
	heldBy      facts.LockHolder
	s           diagnose.Period
}

// lasts sets the period in which threads wait, and reports whether it is long enough.
func (w *semaphoreWaiters) lasts(t *diagnose.Table) (ok bool) {
	waits := t.Sum(w.rows)
	w.s, ok = diagnose.Lasting(t, nil, func(c int) bool {
		return series.AtOrZero(waits, c) >= threshold.SemaphoreWaiting
	})
	w.waiting = t.Part(waits, w.s.Mask)
	w.heldBy = facts.HolderOf(w.rows, w.s.Mask, "last", "lastprocess")
	return ok && w.s.Held >= threshold.SemaphoreLasts
}

// keeps reports whether one process changed the semaphore last, all of the time, and does something
// else since: it took what the others wait for. A worker that waits for work was often the last one
// itself: it took the latest piece of work. Nor does it count that workers take turns to accept.
func (w *semaphoreWaiters) keeps() bool {
	if w.heldBy.Name == "" || w.heldBy.Share < threshold.SemaphoreHolder ||
		facts.TakesTurns(w.rows, w.s.Mask) {
		return false
	}
	for _, r := range w.rows {
		if r.Word("pid") == strconv.Itoa(w.heldBy.PID) && r.Part(w.s.Mask) > 0 {
			return false
		}
	}
	return true
}

func (w *semaphoreWaiters) accuse(l *diagnose.Look) {
	t, s := l.Table(facts.SemaphoreWaiters), w.s
	var known []*diagnose.Row
	for _, r := range w.rows {
		if r.Word("process") != "" {
			known = append(known, r)
		}
	}
	programs := facts.Programs(t, known, s.Mask)
	who := "threads of processes that are not known"
	identity := w.heldBy.Name
	if len(programs) > 0 {
		who, identity = "threads of "+facts.ShortNames(programs), programs[0].Identity()
	}
	claim := fmt.Sprintf("%s %s wait for semaphore %s of set %s for %s: %s changed it last",
		phrase.Digits(w.waiting), who, phrase.Clean(w.number), phrase.Clean(w.set), s, w.heldBy)
	if w.heldBy.Does != "" {
		claim += " and " + w.heldBy.Does
	}
	f := l.Found(phrase.Clean(identity), diagnose.Low, 0.9,
		diagnose.Culprit{Kind: "process", Name: w.heldBy.Name, PID: w.heldBy.PID}, claim+".")
	f.SetEffect(s.Share())
	f.AddEvidence(t, s, t.QueryOf(nil, "set", w.set, "semaphore", w.number), w.waiting, t.Unit,
		phrase.Digits(w.waiting)+" threads wait for it at any moment")
	pid, cpu := strconv.Itoa(w.heldBy.PID), l.Table(facts.ProcessCPU)
	if used := cpu.Mean(cpu.Sum(cpu.Where("pid", pid)), s.Mask); used >= 0 {
		f.AddEvidence(cpu, s, cpu.QueryOf(nil, "pid", pid), used, cpu.Unit, fmt.Sprintf(
			"%s, which changed it last, uses %s CPUs", w.heldBy, phrase.Digits(used)))
	}
	f.AddCaveat(0.3, "Idle workers that wait for work look the same while one of them works on a "+
		"long piece.")
	f.Verify = fmt.Sprintf("ipcs -s -i %s; cat /proc/%s/wchan /proc/%[2]s/stack",
		phrase.Shell(w.set), pid)
}
