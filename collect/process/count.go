package process

import (
	"culprit/collect"
	"culprit/measure"
)

// look updates p.
func (r *processReading) look(p *process, out *collect.Out) {
	p.missed = p.ran && p.head == nil // the read may hang
	if p.ran = p.ran && !p.missed; !p.ran {
		return
	}
	p.ran = r.readStat(p)
	if p.ran && p.known && r.line.start != p.stat.start {
		r.replace(p)
		if r.taskstats == nil {
			r.pulseByFiles(p)
			p.ran = r.readStat(p) // the pulse overwrote r.line
		}
	}
	if !p.ran {
		return
	}
	before, fresh := p.stat, !p.known
	r.takeStat(p)
	p.statStale, p.ranSinceInfo = false, true
	if fresh {
		before = procStat{}
	}
	// A new process was born after the previous listing, or it would be in it; its start is cut to
	// a tick. It counts from zero. If its start is older, it was hidden before, or was restored
	// from a checkpoint under an old pid. Then there is nothing to compare with.
	born := fresh && !r.base && (out.First || measure.Span((p.stat.start+1)*r.tick) >= r.listed)
	compare := !fresh || born
	p.known, p.delta = true, r.blank()
	r.lookThreads(p, &before, compare)
	r.count(p, &before, compare)
	r.lookIO(p, fresh, compare)
	if !compare {
		p.ran, p.delta, p.kids = false, nil, children{}
		r.used--
	}
}

// blank returns a delta of zeros, which the next reading reuses: few of many processes run.
func (r *processReading) blank() *processDelta {
	if r.used == len(r.deltas) {
		r.deltas = append(r.deltas, new(processDelta))
	}
	d := r.deltas[r.used]
	*d = processDelta{}
	r.used++
	return d
}

// takeStat stores the line that was read.
func (r *processReading) takeStat(p *process) {
	r.text = appendClean(r.text[:0], stableName(&r.line))
	p.stat = r.line
	p.stat.comm = nil
	if p.comm != string(r.text) {
		p.comm = string(r.text)
		p.name = labelPair{}
		if p.info != nil {
			p.info.stale = true // most likely another program
		}
	}
}

// replace replaces an ended process by the one that has its pid now.
func (r *processReading) replace(p *process) {
	dead := *p
	r.markEnded(&dead)
	read := processPulse{task: p.task, pulsed: p.pulsed, walked: p.walked}
	*p = process{pid: p.pid, ran: true, head: p.head, processPulse: read}
}

// countedTwice is a run time, above what the ticks allow, from which on taskstats have counted a
// thread twice. A thread that ends is among the ended ones (fill_tgid_exit in kernel/taskstats.c)
// before it is no longer among the others (exit_notify). A busy machine can preempt it in between.
// Such waits and switches are unknown, in this interval and the next.
//
// The ticks are read after taskstats: milliseconds later, or much later if the recorder had to wait
// for a CPU. What the process ran in between must not be taken for a thread counted twice: see
// leads.
const countedTwice = 20e6

// leads returns by how many ns the ticks may be ahead of the run time. lead is the value before
// this reading, in which the run time was corrected by moved to agree with the ticks. A correction
// counts up to most: what the process can have run between the two reads.
func leads(lead, moved, most int64) int64 {
	return max(0, lead+min(moved, most))
}

// between returns the CPU time in ns that p can have used since taskstats were read.
func (r *processReading) between(p *process) int64 {
	return int64(r.now()-r.pulsedAt) * int64(p.stat.threads)
}

// count sets the deltas of what stat and taskstats have.
func (r *processReading) count(p *process, before *procStat, compare bool) {
	s, d := &p.stat, p.delta
	u, y := s.usr*r.tick, s.sys*r.tick
	run, exact := r.runTime(p)
	twice := exact && compare && p.pulsed && p.clock.above(run, u, y) > countedTwice+p.lead
	shift := p.clock.shift
	if compare {
		usr, sys := p.clock.advance(run, exact, u, y)
		d.usr, d.sys = float64(usr), float64(sys)
	} else {
		p.clock.start(run, exact, u, y)
	}
	if exact {
		p.lead = leads(p.lead, p.clock.shift-shift, r.between(p))
	}
	d.minor, d.major = growth(s.minor, before.minor), growth(s.major, before.major)
	p.kids.look(s, before, r.tick)
	if r.taskstats == nil || !p.pulsed {
		r.noBlkio = r.noBlkio || !s.hasBlkio
		// of the first thread only: complete for a process of one thread
		if r.delayAcct && s.hasBlkio {
			d.kinds = commonDelays
			for i := range d.delays {
				d.delays[i] = measure.NaN
			}
			if s.threads == 1 {
				d.delays[0] = growth(s.blkio, before.blkio) * float64(r.tick)
			}
		}
		return
	}
	t, last := &p.task, &p.last
	if s.state == 'Z' {
		// Taskstats leave out ended processes. Until one is waited for, its files have its last
		// values.
		d.wait, d.voluntary, d.involuntary = r.zombie(p)
	} else {
		d.wait = growth(t.wait, last.wait)
		d.voluntary, d.involuntary = switchesGrown(t, last, s.threads)
	}
	if r.delayAcct {
		d.kinds, r.kinds = t.kinds, t.kinds
		if p.pid == 1 {
			r.lateDelays = t.delays == [delayKinds]uint64{}
		}
		for i := range t.kinds {
			if s.state != 'Z' {
				d.delays[i] = growth(t.delays[i], last.delays[i])
			}
		}
	}
	if s.state != 'Z' {
		p.last = p.task
	}
	if twice || p.twice {
		d.wait, d.voluntary, d.involuntary = measure.NaN, measure.NaN, measure.NaN
		for i := range d.delays {
			d.delays[i] = measure.NaN
		}
	}
	p.twice = twice
}

// zombie returns the last waits and switches of a process that has ended and was not waited for, if
// it had one thread; NaN otherwise. It is called once.
func (r *processReading) zombie(p *process) (wait, voluntary, involuntary float64) {
	if p.last.kinds < 0 { // called before
		return 0, 0, 0
	}
	last := p.last
	p.last = taskStats{kinds: -1}
	b, err := r.readOnce(p.pid, "schedstat")
	now, ok := parseSched(b)
	if err != nil || !ok || now.count < last.count {
		return measure.NaN, measure.NaN, measure.NaN
	}
	b, err = r.readOnce(p.pid, "status")
	v, i, ok := parseSwitches(b)
	if err != nil || !ok {
		return growth(now.wait, last.wait), measure.NaN, measure.NaN
	}
	return growth(now.wait, last.wait), growth(v, last.voluntary), growth(i, last.involuntary)
}

// runTime returns the run time of p; exact is false if it is not known.
func (r *processReading) runTime(p *process) (run uint64, exact bool) {
	if r.taskstats != nil && p.pulsed {
		return p.task.run, p.stat.state != 'Z'
	}
	for _, t := range p.threads {
		run += t.now.run
	}
	return run, r.sched && len(p.threads) > 0
}

// growth returns the growth of a counter; NaN if it decreased.
func growth(now, before uint64) float64 {
	if now < before {
		return measure.NaN
	}
	return float64(now - before)
}

// switchesGrown returns the growth of voluntary and involuntary switches of a process. The kernel
// drops those of threads that end, but keeps how often they were put on a CPU. Each time they leave
// it is a switch, and the last one of a thread is voluntary.
func switchesGrown(now, last *taskStats, threads uint64) (voluntary, involuntary float64) {
	if now.count < last.count {
		return measure.NaN, measure.NaN
	}
	v, i := int64(now.voluntary-last.voluntary), int64(now.involuntary-last.involuntary)
	if c := int64(now.count - last.count); v < 0 || i < 0 || v+i+2*int64(threads) < c {
		i = min(max(i, 0), c)
		v = c - i
	}
	return float64(v), float64(i)
}

// children is what a process received from children that it waited for.
//
// When a process is waited for, the kernel adds its CPU time and I/O, and those of its own
// children, to its parent's (wait_task_zombie in kernel/exit.c). What the child's rows had must be
// subtracted; the rest was in no row.
type children struct {
	grown    float64 // ns of CPU time within this interval
	waited   bool    // a child was waited for within this interval
	rows     float64 // ns in the rows of ended children
	rowsIO   ioBytes // bytes in the rows of ended children
	leftOver float64 // below 0: rounding of earlier intervals, still to be subtracted
}

// look stores the children's time of a stat line.
func (k *children) look(now, before *procStat, tick uint64) {
	k.grown = max(
		0, growth((now.childUsr+now.childSys)*tick, (before.childUsr+before.childSys)*tick),
	)
	k.waited = now.childMinor != before.childMinor || k.grown > 0
	k.rows, k.rowsIO = 0, ioBytes{}
}
