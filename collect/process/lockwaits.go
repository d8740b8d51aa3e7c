package process

import (
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

const (
	// mostLockReads is how many calls of threads one reading reads, at some 20 us each.
	mostLockReads = 256
	// mostLockThreads is how many threads of a process one reading samples.
	mostLockThreads = 32
	// lockSampleTime is after how long one reading samples no further process: calls of processes
	// that hang in execve(2) are waited for.
	lockSampleTime = 50 * time.Millisecond
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
		if p.ran && p.split && !p.dead && !p.stat.kernel && p.pid != r.self && len(p.threads) > 1 {
			l.sample = append(l.sample, p)
		}
	}
	start := time.Now()
	slices.SortStableFunc(l.sample, func(a, b *process) int {
		return cmp.Compare(b.delta.voluntary, a.delta.voluntary) // NaN is last
	})
	for i, p := range l.sample {
		if l.reads >= mostLockReads || time.Since(start) > cmp.Or(l.most, lockSampleTime) {
			if p.delta.voluntary >= lockSwitches {
				t.Note("the threads of " + strconv.Itoa(len(l.sample)-i) + " of " +
					strconv.Itoa(len(l.sample)) + " processes were not sampled: there are too " +
					"many that switch often")
			}
			break
		}
		r.putLockWaitsOf(out, t, p)
	}
	clear(l.sample)
	l.turn++
	if l.denied {
		t.Note(kernel.UnreadNote("which locks the threads of some processes wait for may not be "+
			"read: that needs CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE))
	}
}

// putLockWaitsOf samples the threads of a process.
func (r *processReading) putLockWaitsOf(out *collect.Out, t *collect.Table, p *process) {
	l := &r.lockWaits
	l.waits = l.waits[:0]
	step := (len(p.threads) + mostLockThreads - 1) / mostLockThreads
	sampled, read := 0, 0
	for i := l.turn % step; i < len(p.threads); i += step {
		th := p.threads[i]
		if th.gone {
			continue
		}
		sampled++
		b, ok := r.readLocked(p.pid, th.base+"syscall", 0)
		if !ok {
			continue
		}
		read++
		call, ok := procfs.ParseSyscall(b)
		if !ok {
			continue // it runs
		}
		if f, ok := call.LockWait(); ok {
			l.add(f, th.ran)
		}
	}
	l.reads += sampled
	if read == 0 {
		p.unread++ // it may just have ended
		l.denied = l.denied || p.unread > 1
		return
	}
	p.unread = 0
	slices.SortStableFunc(l.waits, func(a, b lockWait) int { return b.all - a.all })
	for i := range l.waits[:min(len(l.waits), mostLocksShown)] {
		r.putLockWait(out, t, p, &l.waits[i], float64(len(p.threads))/float64(read))
	}
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
// represents.
func (r *processReading) putLockWait(
	out *collect.Out, t *collect.Table, p *process, w *lockWait, each float64,
) {
	holder := r.holderOf(p, w)
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
