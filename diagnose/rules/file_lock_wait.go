package rules

import (
	"fmt"
	"slices"
	"sort"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// fileLockWait finds programs that wait for file locks (flock, fcntl, leases), and who holds them.
// Workers of a pool that take turns to accept wait too, but nobody notices: see facts.WaitsForWork.
func fileLockWait() diagnose.Rule {
	return diagnose.Rule{
		ID: "file-lock-wait", Checks: "file locks",
		Finds: []string{facts.FileLockWaiters},
		Uses:  []string{facts.ProcessCPU},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.FileLockWaiters)
			var all []*fileLockWaiters
			for _, p := range facts.Programs(t, facts.WaitsForWork(t, nil), nil) {
				waits := t.Sum(p.Rows)
				s, ok := diagnose.Lasting(t, nil, func(c int) bool {
					return series.AtOrZero(waits, c) >= threshold.FileLockWaiting
				})
				if ok && s.Held >= threshold.FileLockLasts {
					all = append(all, waitersOf(t, p.Rows, s))
				}
			}
			sort.SliceStable(all, func(i, j int) bool {
				return all[i].program.Rate > all[j].program.Rate
			})
			var stuck []int
			for _, w := range all[:min(len(all), mostFileLocks)] {
				if !slices.Contains(stuck, w.program.PID()) {
					stuck = append(stuck, w.circle...)
					w.accuse(l)
				}
			}
		},
	}
}

// mostFileLocks is the number of programs with a finding.
const mostFileLocks = 5

// fileLockWaiters is a program that waits for file locks.
type fileLockWaiters struct {
	program facts.Program
	file    string // for which most of its threads wait
	kind    string
	files   int             // for which it waits
	rows    []*diagnose.Row // of the file
	heldBy  facts.LockHolder
	circle  []int // processes of a deadlock; nil: none
	s       diagnose.Period
}

func waitersOf(t *diagnose.Table, rows []*diagnose.Row, s diagnose.Period) *fileLockWaiters {
	w := &fileLockWaiters{program: facts.Programs(t, rows, s.Mask)[0], s: s}
	waits := map[string]float64{}
	for _, r := range w.program.Rows {
		waits[r.Word("file")] += series.Or(r.Part(s.Mask), 0)
	}
	w.file, w.files = facts.Largest(waits), len(waits)
	for _, r := range w.program.Rows {
		if r.Word("file") == w.file {
			w.rows, w.kind = append(w.rows, r), r.Word("kind")
		}
	}
	w.heldBy = facts.HolderOf(w.rows, s.Mask, "holder", "holderprocess")
	if w.program.PID() > 0 {
		w.circle = facts.FileLockCycle(t, w.program.PID(), s.Mask)
	}
	return w
}

func (w *fileLockWaiters) severity() diagnose.Severity {
	switch {
	case len(w.circle) > 1:
		return diagnose.High
	case w.program.Rate >= threshold.FileLockMany:
		return diagnose.Medium
	}
	return diagnose.Low
}

// claim returns who waits for which file, and who holds it.
func (w *fileLockWaiters) claim() string {
	file := "file " + phrase.Clean(w.file)
	if w.file == "" {
		file = "a file that is not known"
	}
	if len(w.circle) > 1 {
		return fmt.Sprintf("%s and %s are deadlocked: they wait for file locks for %s, and each "+
			"holds one for which another waits.", w.program, phrase.Plural(len(w.circle)-1,
			"other process", "other processes"), w.s)
	}
	claim := fmt.Sprintf("%s waits for a lock of %s for %s", w.program, file, w.s)
	if w.files > 1 {
		claim = fmt.Sprintf("%s waits for locks of %d files for %s, most for %s", w.program,
			w.files, w.s, file)
	}
	claim += ": " + w.heldBy.String() + " holds it"
	if w.heldBy.Count > 1 {
		claim = fmt.Sprintf("%s most often of %d processes in turn", claim, w.heldBy.Count)
	}
	if w.heldBy.Does != "" {
		claim += " and " + w.heldBy.Does
	}
	return claim + "."
}

// culprit returns the holder; the program that waits where the holder is not known.
func (w *fileLockWaiters) culprit() diagnose.Culprit {
	if w.heldBy.Name == "" {
		return w.program.Culprit()
	}
	return diagnose.Culprit{Kind: "process", Name: w.heldBy.Name, PID: w.heldBy.PID}
}

func (w *fileLockWaiters) accuse(l *diagnose.Look) {
	t, s := l.Table(facts.FileLockWaiters), w.s
	f := l.Found(w.program.Identity(), w.severity(), 0.9, w.culprit(), w.claim())
	f.SetEffect(s.Share())
	verb := "wait"
	if phrase.Digits(w.program.Rate) == "1" {
		verb = "waits"
	}
	f.AddEvidence(t, s, w.program.Query(t), w.program.Rate, t.Unit, fmt.Sprintf(
		"%s of its threads %s at any moment", phrase.Digits(w.program.Rate), verb))
	file := t.Sum(w.rows)
	for c, v := range file {
		file[c] = series.Or(v, 0)
	}
	f.AddEvidence(t, s, t.QueryOf(nil, "process", w.program.Name, "file", w.file),
		t.Mean(file, s.Mask), t.Unit, fmt.Sprintf("%s of them for a lock (%s) of %s",
			phrase.Digits(t.Mean(file, s.Mask)), phrase.Clean(w.kind), phrase.Clean(w.file)))
	pid := strconv.Itoa(w.heldBy.PID)
	cpu := l.Table(facts.ProcessCPU)
	if used := cpu.Mean(cpu.Sum(cpu.Where("pid", pid)), s.Mask); w.heldBy.PID > 0 && used >= 0 {
		f.AddEvidence(cpu, s, cpu.QueryOf(nil, "pid", pid), used, cpu.Unit, fmt.Sprintf(
			"%s, which holds it, uses %s CPUs", w.heldBy, phrase.Digits(used)))
	}
	switch {
	case w.severity() == diagnose.Low:
		f.AddCaveat(0.2, "A second instance that waits for the first may be as intended.")
	case w.heldBy.PID == 0:
		f.AddCaveat(0.1, "The holder may be in another PID namespace, or hidden from this user.")
	}
	f.Verify = "lslocks -o COMMAND,PID,TYPE,MODE,BLOCKER,PATH"
	if w.heldBy.PID > 0 {
		f.Verify += "; cat /proc/" + pid + "/wchan /proc/" + pid + "/stack"
	}
	// A holder that waits for a lock itself is held up by the holder of that one.
	f.Cover("file-lock-wait", func(o *diagnose.Finding) bool {
		return o.Culprit.Kind == "process" && o.Culprit.PID > 0 && w.program.Has(o.Culprit.PID)
	})
}
