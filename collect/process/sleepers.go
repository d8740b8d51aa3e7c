package process

import (
	"cmp"
	"slices"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/measure"
)

// sleeperReading samples where threads sleep: those of processes that switch very often or whose
// threads together use one CPU, and those that are in uninterruptible sleep just now and ran within
// the interval. process.blocked has the ones that did not run.
type sleeperReading struct {
	sample []*process // most switches first
	counts []sleepCount
	turn   int // of the sample of threads
}

// sleepCount is how many threads of a process sleep in a kernel function.
type sleepCount struct {
	function string
	threads  int
}

const (
	// switchesOften is the voluntary switches per second from which a process is sampled.
	switchesOften = 2000
	// turnsLeast and turnsMost are the CPUs between which several threads are sampled.
	turnsLeast, turnsMost = 0.9, 1.1
	// workerLeast is the CPUs that each of them uses.
	workerLeast = 0.05
	// mostSleepers is how many processes one reading samples, the busiest ones.
	mostSleepers = 16
	// mostSleepThreads is how many threads of each.
	mostSleepThreads = 4
	// mostWaiting is how many threads in uninterruptible sleep one reading samples.
	mostWaiting = 64
)

// putSleepers puts the kernel functions in which threads of such processes sleep.
func (r *processReading) putSleepers(out *collect.Out) {
	t := out.Table("process.sleepers")
	if t == nil || out.First {
		return
	}
	s := &r.sleepers
	s.sample = s.sample[:0]
	span := float64(out.Over().Span())
	for _, p := range r.procs {
		if p.ran && !p.dead && !p.stat.kernel && sampled(p, span) {
			s.sample = append(s.sample, p)
		}
	}
	slices.SortStableFunc(s.sample, func(a, b *process) int {
		return cmp.Compare(b.delta.voluntary, a.delta.voluntary)
	})
	r.putWaiting(out, t, span)
	for _, p := range s.sample[:min(len(s.sample), mostSleepers)] {
		s.counts = s.counts[:0]
		switch {
		case !p.split:
			r.addSleeper(p, "wchan")
		case switchesMuch(p, span):
			step := (len(p.threads) + mostSleepThreads - 1) / mostSleepThreads
			for i := s.turn % step; i < len(p.threads); i += step {
				if th := p.threads[i]; th.ran && !th.gone {
					r.addSleeper(p, th.base+"wchan")
				}
			}
		default:
			r.addWorkers(p, span)
		}
		r.putCounts(out, t, p)
	}
	clear(s.sample)
	s.turn++
}

// sampled reports whether the threads of a process are sampled: it switches very often in span
// nanoseconds, or its threads use one CPU together, as those do that take turns under a lock.
func sampled(p *process, span float64) bool {
	used := p.delta.usr + p.delta.sys
	return switchesMuch(p, span) ||
		len(p.threads) > 1 && used >= turnsLeast*span && used <= turnsMost*span
}

func switchesMuch(p *process, span float64) bool {
	return p.delta.voluntary >= switchesOften*span/float64(measure.Second)
}

// addWorkers counts those of the first threads that work.
func (r *processReading) addWorkers(p *process, span float64) {
	left := mostSleepThreads
	for _, th := range p.threads {
		if th.ran && !th.gone && th.delta.usr+th.delta.sys >= workerLeast*span {
			r.addSleeper(p, th.base+"wchan")
			if left--; left == 0 {
				return
			}
		}
	}
}

// putWaiting puts threads in uninterruptible sleep of processes that are not sampled.
func (r *processReading) putWaiting(out *collect.Out, t *collect.Table, span float64) {
	s, left := &r.sleepers, mostWaiting
	for _, p := range r.procs {
		if !p.ran || p.dead || p.stat.kernel || sampled(p, span) {
			continue
		}
		s.counts = s.counts[:0]
		if !p.split && p.stat.state == 'D' && left > 0 {
			r.addSleeper(p, "wchan")
			left--
		}
		for _, th := range p.threads {
			if p.split && th.ran && !th.gone && th.stat.state == 'D' && left > 0 {
				r.addSleeper(p, th.base+"wchan")
				left--
			}
		}
		r.putCounts(out, t, p)
	}
}

// putCounts puts what was counted of a process.
func (r *processReading) putCounts(out *collect.Out, t *collect.Table, p *process) {
	if len(r.sleepers.counts) == 0 {
		return
	}
	pid, name := p.name.of(out, p.pid, p.comm)
	for _, c := range r.sleepers.counts {
		t.Put(float64(c.threads), pid, name, out.Label(c.function))
	}
}

// addSleeper counts a thread; one that runs, or may not be read, is not counted.
func (r *processReading) addSleeper(p *process, file string) {
	b, err := r.readOnce(p.pid, file)
	if err != nil {
		return
	}
	name := procfs.FunctionName(b)
	if len(name) == 0 {
		return
	}
	s := &r.sleepers
	for i := range s.counts {
		if s.counts[i].function == string(name) {
			s.counts[i].threads++
			return
		}
	}
	s.counts = append(s.counts, sleepCount{string(name), 1})
}
