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

// pipeWait finds processes that wait until somebody reads the pipe or the AF_UNIX socket that they
// write to, and which process holds all of them up. The slowest stage of a pipeline always does,
// so that is a remark. It is more when nothing is read at all.
func pipeWait() diagnose.Rule {
	return diagnose.Rule{
		ID: "pipe-wait", Checks: "pipes and AF_UNIX sockets that nobody reads",
		Finds: []string{facts.PipeWaiters},
		Uses:  []string{facts.ProcessCPU},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.PipeWaiters)
			all := facts.PipeReaders(t, func(threads []float64) bool {
				_, ok := pipePeriod(t, threads)
				return ok
			})
			sort.SliceStable(all, func(i, j int) bool {
				return len(all[i].Writers) > len(all[j].Writers)
			})
			var stops []*pipeStop
			for _, x := range all {
				p := newPipeStop(l, t, x)
				if !p.stuck || !facts.WaitsForTerminal(p.wchan) {
					stops = append(stops, p)
				}
			}
			sort.SliceStable(stops, func(i, j int) bool {
				return stops[i].severity().Weight() > stops[j].severity().Weight()
			})
			named := map[string]*diagnose.Finding{}
			for _, p := range stops {
				w := p.writers[0]
				if f := named[p.identity()]; f != nil {
					f.AddEvidence(t, p.s, w.Query(t), w.Rate, t.Unit, p.claim())
				} else if len(named) < threshold.PipeMost {
					named[p.identity()] = p.accuse(l, t)
				}
			}
		},
	}
}

// pipePeriod returns when a process waits, and whether it waits nearly all of the time.
func pipePeriod(t *diagnose.Table, threads []float64) (diagnose.Period, bool) {
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		return series.AtOrZero(threads, c) >= threshold.PipeWaiting
	})
	return s, ok && s.Share() >= threshold.PipeShare
}

// pipeStop is a reader that holds writers up.
type pipeStop struct {
	*facts.PipeReader
	reader  facts.LockHolder // what it does
	wchan   string           // the kernel functions in which it sleeps, "running", "stopped"
	direct  string           // a program that writes to it
	parent  bool             // it is the parent of the writers
	writers []facts.Program
	cpu     float64 // CPUs of the reader
	stuck   bool    // nothing is read
	s       diagnose.Period
}

func newPipeStop(l *diagnose.Look, t *diagnose.Table, x *facts.PipeReader) *pipeStop {
	p := &pipeStop{PipeReader: x, writers: facts.Programs(t, x.Rows, nil)}
	p.s, _ = pipePeriod(t, t.Sum(x.Rows))
	direct := x.Direct
	if len(direct) == 0 {
		direct = x.Rows
	}
	p.direct = facts.Programs(t, direct, nil)[0].Name
	p.reader = facts.HolderOf(direct, p.s.Mask, "reader", "readerprocess")
	wchan, related := map[string]float64{}, map[string]float64{}
	for _, r := range direct {
		wchan[r.Word("wchan")] += series.Or(r.Part(p.s.Mask), 0)
		related[r.Word("related")] += series.Or(r.Part(p.s.Mask), 0)
	}
	p.wchan, p.parent = facts.Largest(wchan), facts.Largest(related) == "parent"
	p.stuck = facts.MovedShare(x.Rows) < threshold.PipeMoves
	cpu := l.Table(facts.ProcessCPU)
	p.cpu = series.Or(cpu.Mean(cpu.Sum(cpu.Where("pid", strconv.Itoa(p.reader.PID))), p.s.Mask), 0)
	return p
}

// waitsForChild reports whether the reader waits for the end of a child.
func (p *pipeStop) waitsForChild() bool { return strings.HasPrefix(p.wchan, "do_wait") }

func (p *pipeStop) severity() diagnose.Severity {
	switch {
	case p.Circle:
		return diagnose.High
	case !p.stuck || p.reader.PID == 0 || p.cpu >= threshold.PipeReader ||
		p.waitsForChild() && !p.parent || facts.BlockedKind(p.wchan, "", "", "").OnDevice():
		return diagnose.Low // it goes on, or will
	}
	return diagnose.Medium
}

// culprit returns the reader; the first writer where the reader is not known.
func (p *pipeStop) culprit() diagnose.Culprit {
	if p.reader.Name == "" {
		return p.writers[0].Culprit()
	}
	return diagnose.Culprit{Kind: "process", Name: p.reader.Name, PID: p.reader.PID}
}

// identity returns the part of the finding in its ID: the reader, and who writes to it.
func (p *pipeStop) identity() string {
	return phrase.Clean(p.culprit().Name) + "/" + phrase.Clean(p.direct)
}

// claim returns who waits for whom, and what that one does.
func (p *pipeStop) claim() string {
	waiters, verb, write := facts.ShortNames(p.writers), "wait", "they write"
	if len(p.writers) == 1 && len(p.Writers) == 1 {
		verb, write = "waits", "it writes"
	}
	what := "a pipe"
	if p.Rows[0].Word("kind") == "unix" {
		what = "an AF_UNIX socket"
	}
	switch {
	case p.Circle:
		return fmt.Sprintf("%s %s for one another in a circle for %s: each writes to %s that "+
			"another one does not read, because it writes itself.", waiters, verb, p.s, what)
	case p.reader.Name == "":
		return fmt.Sprintf("%s %s for %s until somebody reads what %s to %s; who that is, is "+
			"not known.", waiters, verb, p.s, write, what)
	}
	claim := fmt.Sprintf("%s %s for %s until %s reads what %s to %s", waiters, verb, p.s,
		p.reader, write, what)
	switch {
	case p.stuck && p.waitsForChild() && p.parent:
		claim += ", and that process waits for the end of a child"
	case p.cpu >= threshold.PipeReader:
		claim += fmt.Sprintf(", and that process uses %s of a CPU", phrase.Percent(p.cpu))
	case p.reader.Does != "":
		claim += ", and that process " + p.reader.Does
	}
	if p.stuck {
		claim += "; nothing was read meanwhile"
	}
	return claim + "."
}

func (p *pipeStop) accuse(l *diagnose.Look, t *diagnose.Table) *diagnose.Finding {
	f := l.Found(p.identity(), p.severity(), 0.85, p.culprit(), p.claim())
	f.SetEffect(p.s.Share())
	for i, w := range p.writers {
		if i == mostPipeWriters {
			break
		}
		f.AddEvidence(t, p.s, w.Query(t), w.Rate, t.Unit, fmt.Sprintf(
			"threads of %s that wait at any moment: %s", w, phrase.Digits(w.Rate)))
	}
	if p.reader.PID > 0 {
		pid, cpu := strconv.Itoa(p.reader.PID), l.Table(facts.ProcessCPU)
		f.AddEvidence(cpu, p.s, cpu.QueryOf(nil, "pid", pid), p.cpu, cpu.Unit, fmt.Sprintf(
			"%s, which should read, uses %s CPUs", p.reader, phrase.Digits(p.cpu)))
		f.Verify = fmt.Sprintf("ls -l /proc/%s/fd; cat /proc/%[1]s/wchan /proc/%[1]s/stack", pid)
	} else {
		f.Verify = fmt.Sprintf("ls -l /proc/%d/fd; lsof -E", p.writers[0].PID())
	}
	if p.severity() == diagnose.Low {
		f.AddCaveat(0.2, "The slowest stage of a pipeline holds the others up, as it must. It "+
			"matters where somebody waits for the result.")
	}
	if p.waitsForChild() && p.parent {
		f.AddCaveat(0.1, "It may wait for another child, and read afterwards.")
	}
	return f
}

// mostPipeWriters is the number of programs with a line of evidence.
const mostPipeWriters = 3
