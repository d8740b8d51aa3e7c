package process

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// lockReading samples the threads that wait for locks of their programs.
//
// Threads of an idle pool sleep in futex(2) as those do that wait for a lock. The arguments of the
// call distinguish them: see procfs.Syscall.LockWait. A wait counts only when the thread ran within
// the interval or the lock names its holder, so that a word with the same value by chance, at which
// idle threads sleep for ever, is no lock.
//
// In some pools one idle thread waits for work and holds a lock meanwhile, for which all others
// wait. So a lock does not count whose holder waits for a condition. Where the lock does not name
// its holder, it must not be possible that a thread does so.
type lockReading struct {
	sample []*process    // those with threads, most switches first
	waits  []lockWait    // of one process
	most   time.Duration // of one reading; 0: lockSampleTime
	turn   int           // of the sample of threads
	reads  int           // in this reading
	denied bool          // calls of a process may not be read
}

// lockWait is the waits for one lock.
type lockWait struct {
	procfs.Futex
	ran, all int // sampled threads
}

// lockCall is the call of a thread.
type lockCall struct {
	procfs.Futex
	waits bool   // for the lock
	idle  bool   // it waits for a condition, a semaphore, or the end of a thread
	ready bool   // it runs, or waits for a CPU
	runs  uint64 // how often the thread had run
}

const (
	// mostLockReads is after how many calls of threads one reading samples no further process. One
	// takes 20 to 50 us.
	mostLockReads = 128
	// mostIdleReads is after how many further calls it samples no further process of those that did
	// not run, which may be deadlocked. Each of their calls is read once.
	mostIdleReads = 64
	// mostLockThreads is how many threads of a process one reading samples.
	mostLockThreads = 64
	// lockSampleTime is after how long one reading samples no further process: calls of processes
	// that hang in execve(2) are waited for, and on a loaded machine reads wait for a CPU.
	lockSampleTime = 150 * time.Millisecond
	// lockSwitches is the voluntary switches in an interval from which it is worth a note that a
	// process was not sampled.
	lockSwitches = 100
	// mostLocksShown is how many locks of a process have a row.
	mostLocksShown = 4
)

// putLockWaits puts the threads that wait for locks.
func (r *processReading) putLockWaits(out *collect.Out) {
	t := out.Table("process.lock.waiters")
	if t == nil || out.First {
		return
	}
	l := &r.lockWaits
	l.sample, l.reads, l.denied = l.sample[:0], 0, false
	for _, p := range r.procs {
		if p.split && !p.dead && !p.stat.kernel && p.pid != r.self && len(p.threads) > 1 &&
			(p.ran || p.unread <= 1) {
			l.sample = append(l.sample, p)
		}
	}
	slices.SortStableFunc(l.sample, func(a, b *process) int {
		return cmp.Compare(b.slept(), a.slept())
	})
	running, _ := slices.BinarySearchFunc(l.sample, false, func(p *process, _ bool) int {
		if p.ran {
			return -1
		}
		return 1
	})
	left := r.sampleLocks(out, t, l.sample[:running], mostLockReads)
	if len(left) > 0 && left[0].slept() >= lockSwitches {
		t.Note("the threads of " + strconv.Itoa(len(left)) + " of " + strconv.Itoa(running) +
			" processes were not sampled: there are too many that switch often")
	}
	r.sampleLocks(out, t, l.sample[running:], l.reads+mostIdleReads)
	clear(l.sample)
	l.turn++
	if l.denied {
		t.Note(kernel.UnreadNote("which locks the threads of some processes wait for may not be "+
			"read: that needs CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE))
	}
}

// sampleLocks samples processes until this reading has read most calls. It returns the processes
// that it did not sample.
func (r *processReading) sampleLocks(
	out *collect.Out, t *collect.Table, sample []*process, most int,
) []*process {
	l, start := &r.lockWaits, time.Now()
	for i, p := range sample {
		if l.reads >= most || time.Since(start) > cmp.Or(l.most, lockSampleTime) {
			return sample[i:]
		}
		r.putLockWaitsOf(out, t, p)
	}
	return nil
}

// slept returns how often threads of a process went to sleep within the interval; 0 when that is
// not known, -1 when none of them ran.
func (p *process) slept() float64 {
	switch {
	case !p.ran:
		return -1
	case p.delta.voluntary >= 0:
		return p.delta.voluntary
	}
	return 0
}

// putLockWaitsOf samples the threads of a process.
func (r *processReading) putLockWaitsOf(out *collect.Out, t *collect.Table, p *process) {
	l := &r.lockWaits
	l.waits = l.waits[:0]
	step := (len(p.threads) + mostLockThreads - 1) / mostLockThreads
	sampled, read, mayIdle := 0, 0, step > 1
	for i := l.turn % step; i < len(p.threads); i += step {
		th := p.threads[i]
		if th.gone {
			continue
		}
		sampled++
		if !r.readLockCall(p, th) {
			if p.unread > 0 {
				break // nor may the others be read
			}
			continue
		}
		read++
		if th.lock.waits {
			l.add(th.lock.Futex, p.ran && th.ran)
		}
		mayIdle = mayIdle || th.lock.idle && th.tid != p.pid // which often waits for the others
	}
	if read == 0 {
		p.unread++ // it may just have ended
		l.denied = l.denied || p.unread > 1
		return
	}
	p.unread = 0
	slices.SortStableFunc(l.waits, func(a, b lockWait) int { return b.all - a.all })
	for i := range l.waits[:min(len(l.waits), mostLocksShown)] {
		w := &l.waits[i]
		holder := r.holderOf(p, w)
		if holder != nil && r.readLockCall(p, holder) && holder.lock.idle {
			p.idleLock = w.Addr
		}
		if w.Addr == p.idleLock || holder == nil && mayIdle || !r.mayHold(p, holder) {
			continue
		}
		r.putLockWait(out, t, p, w, holder, float64(len(p.threads))/float64(read))
	}
}

// mayHold reports whether a thread may hold a lock for which others wait; nil is one that is not
// known. It does not when it waits for work. While no thread of the process runs, it does only when
// it waits for a lock itself, which is a deadlock, or for a CPU: everything else may be an idle
// pool.
func (r *processReading) mayHold(p *process, holder *thread) bool {
	if holder == nil || !r.readLockCall(p, holder) {
		return p.ran
	}
	return !holder.lock.idle && (p.ran || holder.lock.waits || holder.lock.ready)
}

// readLockCall sets what a thread waits for, and reports whether that is known. A thread that has
// not run since it was read still waits for the same: idle pools cost little.
func (r *processReading) readLockCall(p *process, th *thread) bool {
	if th.lock != nil && th.lock.runs == th.now.count && th.now.count > 0 && !th.lock.ready {
		return true
	}
	th.lock = nil
	r.lockWaits.reads++
	b, ok := r.readLocked(p.pid, th.base+"syscall", 0)
	if !ok {
		return false
	}
	th.lock = &lockCall{runs: th.now.count}
	if call, ok := procfs.ParseSyscall(b); ok {
		th.lock.Futex, th.lock.waits = call.LockWait()
		th.lock.idle = !th.lock.waits && call.IsFutex()
	}
	th.lock.ready = bytes.HasPrefix(b, []byte("running"))
	return true
}

// add adds a thread that waits for a lock.
func (l *lockReading) add(f procfs.Futex, ran bool) {
	i := slices.IndexFunc(l.waits, func(w lockWait) bool { return w.Addr == f.Addr })
	if i < 0 {
		i = len(l.waits)
		l.waits = append(l.waits, lockWait{Futex: f})
	}
	w := &l.waits[i]
	w.Owner, w.Sure = cmp.Or(f.Owner, w.Owner), w.Sure || f.Sure
	w.all++
	if ran {
		w.ran++
	}
}

// putLockWait puts the threads that wait for one lock. each is how many threads a sampled one
// represents; holder is nil when it is not known.
func (r *processReading) putLockWait(
	out *collect.Out, t *collect.Table, p *process, w *lockWait, holder *thread, each float64,
) {
	count := w.ran
	if holder != nil {
		count = w.all
	}
	if count == 0 || holder == nil && !w.Sure && w.all < 2 {
		return
	}
	tid, in := int64(0), ""
	if holder != nil {
		tid = int64(holder.tid)
		if b, ok := r.readLocked(p.pid, holder.base+"wchan", 0); ok {
			in = string(procfs.FunctionName(b))
		}
	}
	pid, name := p.name.of(out, p.pid, p.comm)
	t.Put(float64(count)*each, pid, name, out.Label("0x"+strconv.FormatUint(w.Addr, 16)),
		out.Number(tid), out.Label(in))
}

// holderOf returns the thread that holds a lock; nil when it is not known.
func (r *processReading) holderOf(p *process, w *lockWait) *thread {
	owner := w.Owner
	if owner == 0 && w.Addr <= 1<<63-1-lockBytes {
		b, _ := r.readLocked(p.pid, "mem", int64(w.Addr))
		owner = procfs.LockOwner(b[:min(len(b), lockBytes)])
	}
	if owner == 0 {
		return nil
	}
	i := slices.IndexFunc(p.threads, func(t *thread) bool { return t.tid == owner && !t.gone })
	if i < 0 {
		return nil
	}
	return p.threads[i]
}

// lockBytes is how much of a lock in memory shows its holder.
const lockBytes = 12
