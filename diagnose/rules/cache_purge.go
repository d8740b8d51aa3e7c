package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// cachePurge finds processes that spend their kernel time on evicting a large cache.
func cachePurge() diagnose.Rule {
	return diagnose.Rule{
		ID: "cache-purge", Checks: "cache purges",
		Needs: []string{facts.StackSamples, facts.StackRate},
		Uses:  []string{facts.CacheEntries, facts.ProcessCPU},
		Check: func(l *diagnose.Look) {
			k, ok := facts.EnoughSamples(l)
			if !ok {
				return
			}
			for _, g := range purgesOf(k) {
				v := make([]float64, len(k.Table.Seconds))
				for c := range v {
					for _, r := range g.rows {
						v[c] += k.CellShare(r, r.At(c))
					}
				}
				s, ok := diagnose.Lasting(k.Table, nil, func(c int) bool { return v[c] > 0 })
				if !ok {
					continue
				}
				if s.Share() >= threshold.LeastShare {
					s = diagnose.WholePeriod(k.Table) // some seconds lack samples by chance
				}
				if g.share = k.Table.Mean(v, s.Mask); g.share >= threshold.PurgeSeen {
					g.accuse(l, k, s)
				}
			}
		},
	}
}

// purging is what one program evicts by one system call, or a kernel thread by itself.
type purging struct {
	facts.Purge
	process string
	in      facts.Entry
	rows    []*facts.Sample
	pids    map[string]float64 // samples per second, by process
	by      map[string]float64 // the same by function
	callers map[string]float64 // the same by caller of the function
	share   float64            // of a CPU
}

// purgesOf returns what is evicted, by program. The outermost function counts, which has called the
// others.
func purgesOf(k *facts.Samples) (out []*purging) {
	known, all := facts.CachePurgers(), map[string]*purging{}
	for _, r := range k.Rows {
		switch {
		case r.Entry.Kind == facts.InCall &&
			(strings.HasPrefix(r.Entry.Name, "exit") || strings.HasPrefix(r.Entry.Name, "wait")) ||
			buries(r.Path):
			continue // /proc files of ended processes: as many as there are ends
		case r.Entry.Kind != facts.InCall && r.Entry.Kind != facts.InThread:
			continue
		}
		for i := len(r.Path) - 1; i >= 0; i-- {
			p, ok := known[r.Path[i]]
			if !ok {
				continue
			}
			key := r.Process + "\x00" + r.Entry.Name + "\x00" + p.What
			g := all[key]
			if g == nil {
				g = &purging{Purge: p, process: r.Process, in: r.Entry, pids: map[string]float64{},
					by: map[string]float64{}, callers: map[string]float64{}}
				all[key] = g
				out = append(out, g)
			}
			n := series.Or(r.Part(nil), 0)
			g.rows = append(g.rows, r)
			g.pids[r.PID] += n
			g.by[r.Path[i]] += n
			if i+1 < len(r.Path) {
				g.callers[r.Path[i+1]] += n
			}
			break
		}
	}
	return out
}

// buries reports whether a path removes the /proc files of an ended process. The system call is not
// always visible: compilers inline wait4.
func buries(path []string) bool {
	for _, name := range path {
		switch name {
		case "release_task", "proc_flush_pid", "proc_flush_task", "proc_invalidate_siblings_dcache":
			return true
		}
	}
	return false
}

func (g *purging) accuse(l *diagnose.Look, k *facts.Samples, s diagnose.Period) {
	severity := diagnose.Low
	switch {
	case g.share >= threshold.PurgeHeld*float64(len(g.pids)):
		severity = diagnose.High
	case g.share >= threshold.PurgeFelt:
		severity = diagnose.Medium
	}
	if g.Purge.Most == diagnose.Low {
		severity = diagnose.Low
	}
	pid, function, caller := 0, facts.Largest(g.by), facts.Largest(g.callers)
	if len(g.pids) == 1 {
		fmt.Sscan(facts.Largest(g.pids), &pid) //nolint:errcheck // what is no number is no pid
	}
	program, where, identity := phrase.ProcessName(g.process, pid), "", phrase.Clean(g.process)
	if len(g.pids) > 1 {
		program += " (" + phrase.Plural(len(g.pids), "process", "processes") + ")"
	}
	if worker, _, ok := strings.Cut(identity, "/"); ok && worker == "kworker" {
		identity = worker // the kernel changes its numbers
	}
	proportion := ""
	if g.Cache != "" {
		proportion = "; the time is proportional to the number of entries"
	}
	if g.in.Kind == facts.InCall {
		where = " " + g.in.String()
	}
	below := ""
	if caller != "" {
		below = ", called by " + phrase.Clean(caller)
	}
	f := l.Found(identity+"/"+phrase.Clean(function), severity, 0.9,
		diagnose.Culprit{Kind: "process", Name: g.process, PID: pid},
		fmt.Sprintf("%s spends %s of a CPU%s on evicting %s (%s%s), for %s%s.", program,
			phrase.Percent(g.share), where, g.What, phrase.Clean(function), below, s, proportion))
	f.SetEffect(g.share)
	query := k.Table.QueryOf([]string{"kernel"}, "process", g.process)
	if pid > 0 {
		query = k.Table.QueryOf([]string{"kernel"}, "pid", facts.PIDWord(pid))
	}
	f.AddEvidence(k.Table, s, query, g.share, "CPU",
		fmt.Sprintf("%s and what it calls take %s of a CPU%s (sampled)", phrase.Clean(function),
			phrase.Percent(g.share), where))
	pc := l.Table(facts.ProcessCPU)
	for _, a := range facts.Programs(pc, pc.Where("process", g.process), s.Mask) {
		if a.Rate >= g.share/2 {
			part := min(g.share/a.Rate, 1)
			f.AddEvidence(pc, s, a.Query(pc), a.Rate, pc.Unit,
				fmt.Sprintf("%s uses %s of a CPU in total, %s of it there", a,
					phrase.Percent(a.Rate), phrase.Percent(part)))
			f.SetExplains(part)
		}
	}
	known := g.sizeProof(l, f, s)
	if g.Cache != "" && !known {
		f.AddCaveat(0.2, "The size of the cache is unknown or small: these may be many small "+
			"purges.")
	}
	if severity != diagnose.High && g.in.Kind == facts.InCall {
		f.AddCaveat(0, "Only the caller and tasks on the same CPU wait for it.")
	}
	f.Verify = "culprit profile --kernel --for 10s"
	if g.process != "" {
		f.Verify = "culprit profile --process " + phrase.Shell(g.process) + " --kernel --for 10s"
	}
	if g.in.Kind == facts.InCall && g.in.Name != "" {
		q := measure.Query{Stat: "syscall.latency", By: []string{"syscall"},
			Where: []measure.Term{{Field: "process", Op: measure.Equal,
				Values: []string{phrase.Clean(g.process)}},
				{Field: "syscall", Op: measure.Equal,
					Values: []string{phrase.Clean(g.in.Name)}}}}
		f.Verify += "; culprit stat " + phrase.Shell(q.String()) + " 1 5"
	}
	f.Cover("kernel-function", func(o *diagnose.Finding) bool {
		f := facts.SubjectFunction(o)
		return f != nil && (facts.CachePurgers()[f.Name].What == g.What || f.Process == g.process &&
			g.share >= threshold.PurgeFelt)
	})
}

// sizeProof adds the size of the cache; false when it is unknown or small.
func (g *purging) sizeProof(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period) bool {
	t, found := l.Table(facts.CacheEntries), false
	caches := []string{g.Cache}
	if g.Cache == "dentry" {
		caches = []string{"dentry-negative", "dentry-unused"}
	}
	for _, cache := range caches {
		rows := t.Where("cache", cache)
		if len(rows) == 0 || cache == "" {
			continue
		}
		r := rows[0]
		for _, o := range rows { // the largest of all namespaces
			if o.Max() > r.Max() {
				r = o
			}
		}
		if v := r.Mean(s.Mask); v == v && r.Max() >= threshold.PurgeSize {
			text := map[string]string{
				"dentry-negative": "cached names of files that do not exist (negative dentries)",
				"dentry-unused":   "cached names that are not in use",
			}[cache]
			if text == "" {
				text = "entries of " + facts.TableName(r)
			}
			f.AddEvidence(t, s, r.Query(), v, t.Unit,
				fmt.Sprintf("%s %s, %s at most", phrase.Count(v), text, phrase.Count(r.Max())))
			found = true
		}
	}
	return found
}
