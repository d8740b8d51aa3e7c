package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// pageFaults finds programs that spend much of their CPU time on minor page faults and on the
// system calls that cause them, while their memory does not grow: memory that is released and taken
// again, copies after a fork, files that are mapped again and again.
func pageFaults() diagnose.Rule {
	return diagnose.Rule{
		ID: "page-faults", Checks: "page faults of programs",
		Needs: []string{facts.StackSamples, facts.StackRate},
		Finds: []string{facts.ProcessMinor, facts.ProcessCPU},
		Uses:  []string{facts.ProcessRSS, facts.CPUTime, facts.Forks},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.ProcessMinor)
			k, ok := facts.EnoughSamples(l)
			if !ok {
				return
			}
			for _, p := range facts.Programs(t, t.Rows, nil) {
				if p.Rate < threshold.FaultRate*threshold.LeastShare {
					break
				}
				if m, ok := faulterOf(l, k, p); ok {
					m.accuse(l, k)
				}
			}
		},
	}
}

// A faulter is a program with many page faults.
type faulter struct {
	program facts.Program
	s       diagnose.Period
	rate    float64                     // page faults per second
	kinds   map[facts.FaultKind]float64 // CPUs, by kind
	calls   map[string]float64          // CPUs in system calls that release memory
	in      float64                     // CPUs in page faults
	cost    float64                     // CPUs in page faults and calls
	cpu     float64                     // CPUs that it uses
	first   float64                     // CPUs that its busiest process uses
	kernel  float64                     // share of its CPU time in the kernel
}

// faulterOf returns what page faults cost a program; false when they are few, or cheap, or its
// memory grows by them.
func faulterOf(l *diagnose.Look, k *facts.Samples, p facts.Program) (*faulter, bool) {
	t, pc := l.Table(facts.ProcessMinor), l.Table(facts.ProcessCPU)
	grown := facts.PagesGrown(l.Table(facts.ProcessRSS), p.PIDs())
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		all := series.AtOrZero(p.Series, c)
		renewed := all - series.AtOrZero(grown, c)
		return renewed >= threshold.FaultRate && renewed >= threshold.FaultRenewed*all
	})
	if !ok || !k.Enough(s.Mask) {
		return nil, false
	}
	m := &faulter{program: p, s: s, rate: t.Mean(p.Series, s.Mask),
		kinds: map[facts.FaultKind]float64{}, calls: map[string]float64{}}
	want := k.OfProgram(p)
	for _, r := range k.Rows {
		if !want(r) {
			continue
		}
		v := k.Share(r, s.Mask)
		if kind := facts.FaultOf(r); kind != facts.NoFault {
			m.kinds[kind] += v
			m.in += v
		} else if call := facts.ReleasingCall(r); call != "" {
			m.calls[call] += v
		}
	}
	facts.MergeWritten(m.kinds)
	if m.kinds[facts.WrittenPage] < threshold.FaultMain*m.in {
		delete(m.calls, "mprotect") // of an allocator that grows, or of a JIT compiler
		delete(m.calls, "pkey_mprotect")
	}
	for _, a := range facts.Programs(pc, pc.Where("process", p.Name), s.Mask) {
		m.cpu, m.first, m.kernel = a.Rate, a.First, facts.KernelShare(a, s.Mask)
	}
	m.cost = m.in + facts.Total(m.calls)
	return m, m.in > 0 && m.cost >= threshold.FaultCost &&
		m.cost >= threshold.FaultShare*m.cpu && !m.starts(l)
}

// starts reports whether a program copies pages because it starts processes: each start copies
// some.
func (m *faulter) starts(l *diagnose.Look) bool {
	forks := l.Table(facts.Forks)
	return m.copies() &&
		m.rate < threshold.FaultPerFork*series.Or(forks.Mean(forks.Sum(forks.Rows), m.s.Mask), 0)
}

func (m *faulter) copies() bool {
	return m.kinds[facts.CopiedPage] >= threshold.FaultMain*m.in
}

// cause returns the cause of the faults, as the end of a sentence, and what helps.
func (m *faulter) cause() (text, helps string) {
	if m.copies() {
		return ": it writes to pages that are shared, as after a fork, and each is copied",
			"Copies end with the child that shares the pages, as the snapshot of a database. " +
				"Fewer snapshots, or smaller pages (transparent huge pages off), copy less."
	}
	call := facts.Largest(m.calls)
	if m.calls[call] < threshold.FaultCall*m.cost {
		call = ""
	}
	switch {
	case m.kinds[facts.FilePage] >= threshold.FaultMain*m.in && call != "":
		return ": it maps files and releases them again with " + phrase.Clean(call),
			"A mapping that is kept, or read() into a buffer that is kept, has no faults."
	case m.kinds[facts.FilePage] >= threshold.FaultMain*m.in:
		return ": pages of files or of shared memory, for which there was memory before",
			"MAP_POPULATE, or read() into a buffer that is kept, has fewer faults."
	case call == "madvise" || call == "process_madvise":
		return ": it takes memory that it released with " + call + " before",
			"Its allocator or garbage collector returns memory early: a longer decay (jemalloc " +
				"dirty_decay_ms and muzzy_decay_ms, tcmalloc release rate) keeps it."
	case call == "brk" || call == "munmap" || call == "mremap":
		return ": it takes memory that it released with " + call + " before",
			"Buffers that are kept have no faults; malloc of glibc keeps more with " +
				"MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ in the environment; huge " +
				"pages have fewer."
	case call != "":
		return ": it writes to memory that it protected with " + phrase.Clean(call),
			"Garbage collectors and debuggers protect pages to see which are written."
	}
	return ", for memory that it had before or released without a system call of its own",
		"Memory may also be released by another process, or by the kernel at the end of a child."
}

func (m *faulter) accuse(l *diagnose.Look, k *facts.Samples) {
	t, pc, s, p := l.Table(facts.ProcessMinor), l.Table(facts.ProcessCPU), m.s, m.program
	severity, cpus := diagnose.Low, facts.MachineOf(l.Table(facts.CPUTime))
	idle := cpus.Share(s.Mask, "idle", "iowait")
	if facts.CostFelt(cpus, m.cost, m.first, s.Mask) {
		severity = diagnose.Medium
	}
	of := phrase.Digits(m.cost) + " CPUs"
	if m.cpu > 0 {
		of = fmt.Sprintf("%s of its CPU time (%s CPUs)", phrase.Percent(min(m.cost/m.cpu, 1)),
			phrase.Digits(m.cost))
	}
	cause, helps := m.cause()
	f := l.Found(p.Identity(), severity, 0.85, p.Culprit(), fmt.Sprintf(
		"%s spends %s on page faults, %s per second for %s%s.", p, of, phrase.Count(m.rate), s,
		cause))
	f.SetEffect(min(m.cost, 1))
	f.Subject = facts.MemoryCost(m.cost)
	f.AddEvidence(t, s, p.Query(t), m.rate, t.Unit,
		phrase.Count(m.rate)+" minor page faults per second, while its memory grows by fewer pages")
	query := p.Query(k.Table, "kernel")
	f.AddEvidence(k.Table, s, query, m.in, "CPU", fmt.Sprintf(
		"page faults take %s of a CPU (sampled)%s", phrase.Percent(m.in), m.kindsText()))
	if call := facts.Largest(m.calls); m.calls[call] >= threshold.FunctionSeen {
		f.AddEvidence(k.Table, s, query, m.calls[call], "CPU", fmt.Sprintf(
			"system call %s takes %s of a CPU (sampled)", phrase.Clean(call),
			phrase.Percent(m.calls[call])))
	}
	if m.cpu > 0 {
		f.AddEvidence(pc, s, p.Query(pc), m.cpu, pc.Unit, fmt.Sprintf(
			"it uses %s of a CPU, %s of that in the kernel", phrase.Percent(m.cpu),
			phrase.Percent(m.kernel)))
	}
	f.AddCaveat(0, "%s", helps)
	if severity == diagnose.Low && idle >= threshold.CPUNearlyIdle {
		f.AddCaveat(0, "CPUs are idle: only the program itself waits for it.")
	}
	f.Verify = fmt.Sprintf("culprit profile --pid %d --kernel --for 10s; perf stat -e "+
		"minor-faults -p %[1]d sleep 3; strace -c -f -p %[1]d", p.PID())
	f.Cover("tlb-shootdowns", func(o *diagnose.Finding) bool {
		return facts.SameProgram(f, o) && facts.MemoryCostOf(o) < threshold.FaultMain*m.cost
	})
	if severity == diagnose.Medium {
		f.Cover("cpu-one-saturated", func(o *diagnose.Finding) bool {
			return m.cost >= threshold.FaultMain*m.cpu && facts.SameProgram(f, o)
		})
	}
	f.Cover("kernel-function", func(o *diagnose.Finding) bool {
		on := facts.SubjectFunction(o)
		return on.Process == p.Name &&
			(on.Entry.Kind == facts.InFault || m.calls[on.Entry.Name] > 0)
	})
}

// kindsText returns what the faults are for, as the end of a line.
func (m *faulter) kindsText() string {
	for _, k := range []struct {
		kind facts.FaultKind
		what string
	}{
		{facts.NewPage, "for new memory"}, {facts.CopiedPage, "for copies of shared pages"},
		{facts.FilePage, "for pages of files"},
		{facts.WrittenPage, "for writes to protected pages"},
	} {
		if part := m.kinds[k.kind] / m.in; part >= threshold.FaultMain {
			return ", " + phrase.Percent(part) + " of that " + k.what
		}
	}
	return ""
}
