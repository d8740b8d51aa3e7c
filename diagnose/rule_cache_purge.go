package diagnose

import (
	"fmt"
	"sort"
	"strings"

	"culprit/measure"
)

// When throwing a cache away counts as a trouble.
const (
	// purgeSeen: share of a CPU that a process spends on it, from where on it is told: fifteen samples in ten seconds of 99 a second.
	purgeSeen = 0.015
	// purgeFelt: from here on whoever calls waits for it: 19 ms five times a second are a tenth of a CPU.
	purgeFelt = 0.05
	// purgeHeld: a process that spends half of a CPU on it does little else while it does.
	purgeHeld = 0.5
	// purgeSize: a cache with fewer entries is gone through in no time: 40,000 took 19 ms.
	purgeSize = 1000.0
)

// cachePurge finds processes that spend their time in the kernel on throwing a large cache away.
func cachePurge() Rule {
	return Rule{
		ID: "cache-purge", Checks: "cache purges",
		Needs: []string{stackSamples, stackRate},
		Uses:  []string{cacheEntries, processCPU},
		Check: func(l *Look) {
			k := stacksOf(l)
			if !k.enough(nil) {
				l.Unchecked("CPUs were sampled for too short a time, or it is not known how often")
				return
			}
			for _, g := range purgesOf(k) {
				v := make([]float64, len(k.table.Seconds))
				for c := range v {
					for _, r := range g.rows {
						v[c] += k.part(r, r.At(c))
					}
				}
				s, ok := lasting(k.table, nil, func(c int) bool { return v[c] > 0 })
				if !ok {
					continue
				}
				if s.share() >= leastShare {
					s = whole(k.table) // of seconds without a sample of it some are chance
				}
				if g.share = k.table.mean(v, s.mask); g.share >= purgeSeen {
					g.accuse(l, k, s)
				}
			}
		},
	}
}

// purging is what one group of processes throws away by one system call, or a thread of the kernel by itself.
type purging struct {
	purge
	process string
	in      way
	rows    []*stackRow
	pids    map[string]float64 // samples a second, by process
	by      map[string]float64 // the same by function
	callers map[string]float64 // the same by who called that
	share   float64            // of a CPU
}

// purgesOf gives what is thrown away, by whom. The outermost function counts, which has called the others.
func purgesOf(k *stacks) (out []*purging) {
	known, all := purges(), map[string]*purging{}
	for _, r := range k.rows {
		switch {
		case r.in.kind == inCall && (strings.HasPrefix(r.in.name, "exit") || strings.HasPrefix(r.in.name, "wait")) || buries(r.path):
			continue // files of /proc of processes that have ended: as many as there are ends
		case r.in.kind != inCall && r.in.kind != inThread:
			continue
		}
		for i := len(r.path) - 1; i >= 0; i-- {
			p, ok := known[r.path[i]]
			if !ok {
				continue
			}
			key := r.process + "\x00" + r.in.name + "\x00" + p.what
			g := all[key]
			if g == nil {
				g = &purging{purge: p, process: r.process, in: r.in, pids: map[string]float64{}, by: map[string]float64{}, callers: map[string]float64{}}
				all[key] = g
				out = append(out, g)
			}
			n := or(r.Part(nil), 0)
			g.rows = append(g.rows, r)
			g.pids[r.pid] += n
			g.by[r.path[i]] += n
			if i+1 < len(r.path) {
				g.callers[r.path[i+1]] += n
			}
			break
		}
	}
	return out
}

// buries says whether a path takes the files of /proc away of a process that has ended. The name of the system call does not always tell:
// compilers put wait4 into its caller.
func buries(path []string) bool {
	for _, name := range path {
		switch name {
		case "release_task", "proc_flush_pid", "proc_flush_task", "proc_invalidate_siblings_dcache":
			return true
		}
	}
	return false
}

// most gives the word with the largest number, of equal ones the first.
func most(of map[string]float64) string {
	var all []string
	for w := range of {
		all = append(all, w)
	}
	sort.Slice(all, func(i, j int) bool {
		if of[all[i]] != of[all[j]] {
			return of[all[i]] > of[all[j]]
		}
		return all[i] < all[j]
	})
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

func (g *purging) accuse(l *Look, k *stacks, s spell) {
	severity := Low
	switch {
	case g.share >= purgeHeld*float64(len(g.pids)):
		severity = High
	case g.share >= purgeFelt:
		severity = Medium
	}
	if g.purge.most == Low {
		severity = Low
	}
	pid, function, caller := 0, most(g.by), most(g.callers)
	if len(g.pids) == 1 {
		fmt.Sscan(most(g.pids), &pid) //nolint:errcheck // what is no number is no pid
	}
	who, where, identity := named(g.process, pid), "", clean(g.process)
	if len(g.pids) > 1 {
		who += " (" + plural(len(g.pids), "process", "processes") + ")"
	}
	if worker, _, ok := strings.Cut(identity, "/"); ok && worker == "kworker" {
		identity = worker // its numbers are the kernel's of the moment
	}
	proportion := ""
	if g.cache != "" {
		proportion = "; with a quarter of the entries that takes a quarter of the time"
	}
	if g.in.kind == inCall {
		where = " " + g.in.String()
	}
	below := ""
	if caller != "" {
		below = ", called by " + clean(caller)
	}
	f := l.Found(identity+"/"+clean(function), severity, 0.9, Culprit{Kind: "process", Name: g.process, PID: pid},
		fmt.Sprintf("%s spends %s of a CPU%s throwing away %s (%s%s), for %s%s.", who, percent(g.share), where, g.what, clean(function), below, s, proportion))
	f.loses(g.share)
	sentence := k.table.Asking([]string{"kernel"}, "process", g.process)
	if pid > 0 {
		sentence = k.table.Asking([]string{"kernel"}, "pid", pidWord(pid))
	}
	f.proof(k.table, s, sentence, g.share, "CPU", fmt.Sprintf("%s and what it calls take %s of a CPU%s (sampled)", clean(function), percent(g.share), where))
	pc := l.Table(processCPU)
	for _, a := range actors(pc, pc.Where("process", g.process), s.mask) {
		if a.rate >= g.share/2 {
			part := min(g.share/a.rate, 1)
			f.proof(pc, s, a.sentence(pc), a.rate, pc.Unit, fmt.Sprintf("%s uses %s of a CPU in all: %s of that goes there", a, percent(a.rate), percent(part)))
			f.explains(part)
		}
	}
	known := g.sizeProof(l, f, s)
	if g.cache != "" && !known {
		f.but(0.2, "How much there is to throw away is not known, or little: it may be many small purges.")
	}
	if severity != High && g.in.kind == inCall {
		f.but(0, "Only who calls waits for it, and tasks that want the CPU meanwhile.")
	}
	f.Verify = "culprit profile --kernel --for 10s"
	if g.process != "" {
		f.Verify = "culprit profile --process " + shell(g.process) + " --kernel --for 10s"
	}
	if g.in.kind == inCall && g.in.name != "" {
		q := measure.Query{Stat: "syscall.latency", By: []string{"syscall"}, Where: []measure.Term{{Field: "process", Op: measure.Equal, Values: []string{clean(g.process)}}, {Field: "syscall", Op: measure.Equal, Values: []string{clean(g.in.name)}}}}
		f.Verify += "; culprit stat " + shell(q.String()) + " 1 5"
	}
	f.covering("kernel-function", func(o *Finding) bool {
		return o.function != nil && (purges()[o.function.name].what == g.what || o.function.process == g.process && g.share >= purgeFelt)
	})
}

// sizeProof adds how much there is in the cache; false when that is not known, or little.
func (g *purging) sizeProof(l *Look, f *Finding, s spell) bool {
	t, told := l.Table(cacheEntries), false
	caches := []string{g.cache}
	if g.cache == "dentry" {
		caches = []string{"dentry-negative", "dentry-unused"}
	}
	for _, cache := range caches {
		rows := t.Where("cache", cache)
		if len(rows) == 0 || cache == "" {
			continue
		}
		r := rows[0]
		for _, o := range rows { // of all namespaces the largest
			if o.Max() > r.Max() {
				r = o
			}
		}
		if v := r.Mean(s.mask); v == v && r.Max() >= purgeSize {
			text := map[string]string{"dentry-negative": "names that do not exist are cached (negative dentries)", "dentry-unused": "names are cached that nobody uses"}[cache]
			if text == "" {
				text = "entries of " + tableName(r)
			}
			f.proof(t, s, r.Sentence(), v, t.Unit, fmt.Sprintf("%s %s, %s at most", count(v), text, count(r.Max())))
			told = true
		}
	}
	return told
}
