package process

import (
	"errors"
	"io/fs"
	"strconv"

	"culprit/kernel/proc"
	"culprit/measure"
)

// thread is one thread of a process. Threads are followed if thread.* is wanted and there are
// several, or if the process has no other source of its numbers (no taskstats).
type thread struct {
	tid     int32
	known   bool
	ran     bool
	gone    bool
	seen    bool   // in the latest listing
	base    string // "task/TID/"
	stat    procStat
	comm    string
	name    labelPair // tid, name
	clock   cpuClock
	delta   threadDelta
	blocked *blockedWait // nil: not blocked, or not read yet
	lock    *lockCall    // nil: not read yet
	pipe    *pipeWait    // nil: not read since it ran
	threadPulse
	switches
}

// threadPulse shows whether a thread ran.
type threadPulse struct {
	now   pulse
	last  pulse      // the values that delta was counted from
	reset bool       // another thread took its place: its counters start again
	file  *proc.File // schedstat
}

// switches are the voluntary and involuntary context switches so far.
type switches struct{ vol, inv uint64 }

type threadDelta struct{ usr, sys, wait, voluntary, involuntary, minor, major float64 }

func newThread(tid int32) *thread {
	return &thread{tid: tid, base: "task/" + strconv.Itoa(int(tid)) + "/"}
}

// needThreads reports whether the pulses of all threads of a process must be read if taskstats are
// not available. CPU time alone is in stat.
func (r *processReading) needThreads() bool {
	w := &r.wants
	return w.runwait || w.switches || w.io || w.calls || w.thread
}

// pulseByFiles finds out whether p ran from the schedstat of each of its threads.
//
// If a process of one thread has an unchanged schedstat, it has not run, so it has not created a
// thread. With several threads, reading fails for one that ended, and a new one shows by the thread
// that created it.
func (r *processReading) pulseByFiles(p *process) {
	if !r.sched || p.known && len(p.threads) == 0 {
		p.ran = true // nothing shows it
		for _, t := range p.threads {
			t.ran = true
		}
		return
	}
	if len(p.threads) == 0 {
		p.threads = append(p.threads, newThread(p.pid))
	}
	for _, t := range p.threads {
		r.readThreadPulse(p, t)
		p.ran = p.ran || t.ran || t.gone
	}
}

// readThreadPulse reads a thread's schedstat.
func (r *processReading) readThreadPulse(p *process, t *thread) {
	t.ran = !t.known
	if !r.sched {
		return
	}
	name := "schedstat"
	if t.tid != p.pid {
		name = t.base + name
	}
	b, err := r.read(p, name, &t.file, true)
	now, ok := parseSched(b)
	switch {
	case err == nil && ok && now.run >= t.last.run:
		t.ran = t.ran || now != t.now || p.missed
		t.now = now
	// its place was taken by the thread that called execve, or its id was reused
	case err == nil && ok:
		t.now, t.last, t.ran, t.reset = now, now, true, true
	case err == nil, errors.Is(err, fs.ErrNotExist):
		t.gone = true
	default:
		r.hidden = true
		t.gone = true
	}
}

// lookThreads updates the threads of p, which has run, and adds up what taskstats would have.
func (r *processReading) lookThreads(p *process, before *procStat, compare bool) {
	byFiles := r.taskstats == nil || !p.pulsed
	switch {
	case byFiles && r.needThreads(), r.wants.thread && (p.split || p.stat.threads > 1):
	case byFiles && r.sched && p.stat.threads == 1: // its only thread has the exact run time
	default:
		r.dropThreads(p)
		return
	}
	if r.wants.thread && p.stat.threads > 1 && !p.split {
		r.split(p, before)
	}
	changed := uint64(len(p.threads)) != p.stat.threads || !byFiles
	for _, t := range p.threads {
		changed = changed || t.gone
	}
	if changed && !r.listThreads(p, byFiles) {
		return
	}
	if !byFiles {
		r.readPulsesByTaskstats(p)
	}
	d := p.delta
	for _, t := range p.threads {
		if !t.ran {
			continue
		}
		r.lookThread(p, t, compare, byFiles)
		if byFiles {
			d.wait += t.delta.wait
			d.voluntary += t.delta.voluntary
			d.involuntary += t.delta.involuntary
		}
	}
}

// split begins to follow the threads of a process that had only one until now. What the process did
// so far was done by its first thread.
func (r *processReading) split(p *process, before *procStat) {
	p.split = true
	if before.threads != 1 {
		return
	}
	if len(p.threads) == 0 {
		t := newThread(p.pid)
		t.known, t.now, t.last = true, p.last.pulse, p.last.pulse
		t.vol, t.inv = p.last.voluntary, p.last.involuntary
		p.threads = append(p.threads, t)
	}
	if t := p.threads[0]; t.tid == p.pid {
		t.clock, t.stat = p.clock, *before
	}
}

func (r *processReading) dropThreads(p *process) {
	for _, t := range p.threads {
		r.closeFile(&t.file)
	}
	p.threads = nil
}

// listThreads updates p.threads from /proc/PID/task.
func (r *processReading) listThreads(p *process, feel bool) bool {
	var err error
	if r.tids, err = r.dir.ListTIDs(p.pid, r.tids[:0]); err != nil {
		return false
	}
	for _, t := range p.threads {
		t.seen = false
	}
	has := len(p.threads)
	for k, tid := range r.tids {
		var t *thread
		if k < has && p.threads[k].tid == tid { // most often nothing has changed
			t = p.threads[k]
		} else {
			for _, other := range p.threads[:has] {
				if other.tid == tid {
					t = other
					break
				}
			}
		}
		if t == nil || t.gone {
			if t != nil {
				t.seen = false
			}
			t = newThread(tid)
			if feel {
				r.readThreadPulse(p, t)
			}
			t.ran = true
			p.threads = append(p.threads, t)
		}
		t.seen = true
	}
	live := p.threads[:0]
	for _, t := range p.threads {
		if t.seen && !t.gone {
			live = append(live, t)
			continue
		}
		r.closeFile(&t.file)
	}
	clear(p.threads[len(live):])
	p.threads = live
	return true
}

// readPulsesByTaskstats reads the pulses of all threads of p at once.
func (r *processReading) readPulsesByTaskstats(p *process) {
	r.tids = r.tids[:0]
	for _, t := range p.threads {
		r.tids = append(r.tids, t.tid)
	}
	err := r.taskstats.get(taskstatsPID, r.tids, func(i int, s *taskStats, err error) {
		t := p.threads[i]
		if err != nil {
			t.ran = false
			return
		}
		t.ran = !t.known || s.pulse != t.now
		t.now = s.pulse
		if !t.known {
			return
		}
		if s.run < t.last.run { // see readThreadPulse
			t.last, t.reset = s.pulse, true
			t.vol, t.inv = s.voluntary, s.involuntary
		}
		t.delta.voluntary = growth(s.voluntary, t.vol)
		t.delta.involuntary = growth(s.involuntary, t.inv)
		t.vol, t.inv = s.voluntary, s.involuntary
	})
	if err != nil {
		r.failed = err
	}
}

// lookThread sets the delta of a thread that ran. A new thread began at zero, if its process has
// something to compare with.
func (r *processReading) lookThread(p *process, t *thread, compare, byFiles bool) {
	vol, inv := t.delta.voluntary, t.delta.involuntary
	fresh := !t.known
	t.delta = threadDelta{wait: growth(t.now.wait, t.last.wait)}
	t.last, t.known = t.now, true
	if byFiles && r.wants.switches || r.wants.threadSwitches && (byFiles || fresh) {
		name := "status"
		if t.tid != p.pid {
			name = t.base + name
		}
		b, err := r.readOnce(p.pid, name)
		v, i, ok := parseSwitches(b)
		if err != nil || !ok {
			if !errors.Is(err, fs.ErrNotExist) {
				t.delta.voluntary, t.delta.involuntary = measure.NaN, measure.NaN
				r.noSwitches = true
			}
		} else {
			if !t.reset {
				t.delta.voluntary, t.delta.involuntary = growth(v, t.vol), growth(i, t.inv)
			}
			t.vol, t.inv = v, i
		}
	} else if !byFiles {
		t.delta.voluntary, t.delta.involuntary = vol, inv
	}
	if p.split && r.wants.thread {
		r.lookThreadStat(p, t, fresh, compare)
	}
	t.reset = false
	if !compare {
		t.delta = threadDelta{}
	}
}

// lookThreadStat reads what only the thread's stat line has: name, faults, user and system time.
func (r *processReading) lookThreadStat(p *process, t *thread, fresh, compare bool) {
	b, err := r.readOnce(p.pid, t.base+"stat")
	if err != nil || !r.line.parseStat(b) {
		t.gone = true
		return
	}
	s := &r.line
	r.text = appendClean(r.text[:0], s.comm)
	if t.comm != string(r.text) {
		t.comm, t.name = string(r.text), labelPair{}
	}
	u, y := s.usr*r.tick, s.sys*r.tick
	if fresh && !compare || t.reset {
		t.clock.start(t.now.run, r.sched || r.taskstats != nil, u, y)
	} else {
		usr, sys := t.clock.advance(t.now.run, r.sched || r.taskstats != nil, u, y)
		t.delta.usr, t.delta.sys = float64(usr), float64(sys)
	}
	if !t.reset {
		t.delta.minor, t.delta.major = growth(s.minor, t.stat.minor), growth(s.major, t.stat.major)
	}
	t.stat = *s
	t.stat.comm = nil
}
