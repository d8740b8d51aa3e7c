package lock

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Semaphores reads who waits for System V semaphores of culprit's IPC namespace. semctl(2) counts
// the waiters of each semaphore and returns the process that changed it last; it changes nothing.
// The processes that wait are those that sleep in semop(2).
type Semaphores struct{}

// statSemaphores is the statistic of waits for semaphores.
const statSemaphores = measure.StatID("semaphore.waiters")

// Stats returns semaphore.waiters.
func (Semaphores) Stats() []measure.Stat {
	return []measure.Stat{{
		ID: statSemaphores, Kind: measure.Level, Unit: measure.Count,
		Help: "threads that wait for a System V semaphore at the moment of the reading, in " +
			"culprit's IPC namespace (semctl, /proc/PID/syscall)",
		Fields: []measure.Field{
			{Name: "pid", Type: measure.Number, Help: "process that waits; 0: not found yet"},
			word("process", "name of the program: 15 bytes, which it may change"),
			{Name: "set", Type: measure.Number, Help: "identifier of the set, as in ipcs -s"},
			{Name: "semaphore", Type: measure.Number, Help: "number within the set"},
			{Name: "last", Type: measure.Number, Help: "process that changed it last: for a " +
				"lock, the one that holds it; 0: none, or in another PID namespace"},
			word("lastprocess", "name of that program"),
			word("wchan", "kernel functions in which threads of the process last sleep "+
				"(/proc/PID/wchan); running: its first thread runs; empty: not known"),
			word("related", "siblings: both processes have the same parent; parent child: the "+
				"process last is that of the one that waits; empty: neither"),
		},
	}}
}

const (
	// mostSets is how many sets of semaphores are read.
	mostSets = 1024
	// mostSemaphores is how many semaphores one reading asks for their waiters, in two calls of
	// some 0.3 us each.
	mostSemaphores = 4096
	// mostTasks is how many threads of a process are looked at.
	mostTasks = 16
)

// Commands of semctl(2), include/uapi/linux/sem.h.
const (
	semPID    = 11 // GETPID: the process of the last operation
	semWaits  = 14 // GETNCNT: threads that wait until the value grows
	semZeroes = 15 // GETZCNT: threads that wait until it is 0
)

// Open opens /proc. An error means that nothing can be measured. The caller closes the Reading.
func (Semaphores) Open(env *collect.Env, _ collect.Want) (collect.Reading, error) {
	dir, err := proc.OpenProcDir(env.Root, "")
	if err != nil {
		return nil, err
	}
	return &semaphoreReading{look: lookup{dir: dir}}, nil
}

// A semaphore is one that has waiters.
type semaphore struct {
	set, number int32
	waiters     float64
	last        int32
}

// A semaphoreWait is the threads of a process that wait for a semaphore.
type semaphoreWait struct{ pid, set, number int32 }

type semaphoreReading struct {
	look   lookup
	buf    []byte
	turn   int // of the sets to begin with
	closed int // sets that this user may not read
	busy   []semaphore

	waits map[semaphoreWait]float64 // threads that were found in this reading
	known []int32                   // processes that waited in the latest reading
	pids  []int32                   // that are still to be looked at in this pass
}

// Close implements collect.Reading.
func (r *semaphoreReading) Close() { r.look.close() }

// Read implements collect.Reading.
func (r *semaphoreReading) Read(out *collect.Out) error {
	t := out.Table(statSemaphores)
	b, err := r.look.dir.ReadFile("sysvipc/sem", r.buf)
	if err != nil {
		return collect.Unsupported("this kernel has no System V semaphores (built without " +
			"CONFIG_SYSVIPC)")
	}
	r.buf = b
	r.look.begin()
	sets := parseSets(b)
	r.count(sets)
	if len(sets) == mostSets {
		t.Note("of more than " + strconv.Itoa(mostSets) + " sets of semaphores the others are " +
			"not read")
	}
	if r.closed > 0 {
		t.Note("this user may not read " + strconv.Itoa(r.closed) + " sets of semaphores")
	}
	r.find()
	r.look.until = kernel.ThreadTime() + lockTime // the search may have used all of it
	r.put(out, t)
	if r.look.denied {
		t.Note(kernel.UnreadNote("which processes wait for some semaphores may not be read: "+
			"that needs CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE))
	}
	return nil
}

// A semaphoreSet is a line of /proc/sysvipc/sem.
type semaphoreSet struct{ id, size int32 }

// parseSets parses /proc/sysvipc/sem (sysvipc_sem_proc_show, ipc/sem.c), up to mostSets.
//
//	key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
//	  0          3   600         17     0     0     0     0 1764348000 1764340000
func parseSets(b []byte) (sets []semaphoreSet) {
	for len(b) > 0 && len(sets) < mostSets {
		var line []byte
		line, b = procfs.CutLine(b)
		c := proc.Scan(line)
		c.Int() // a key may be negative
		id := c.Uint()
		c.Word()
		size := c.Uint()
		if c.Err() == nil && id <= 1<<31-1 && size <= 1<<16 {
			sets = append(sets, semaphoreSet{int32(id), int32(size)}) //nolint:gosec // compared
		}
	}
	return sets
}

// semctl asks for a number of a semaphore.
func semctl(set, number int32, command uintptr) (float64, error) {
	v, _, err := unix.Syscall6(unix.SYS_SEMCTL, uintptr(set), uintptr(number), command, 0, 0, 0)
	if err != 0 {
		return 0, err
	}
	return float64(int32(v)), nil //nolint:gosec // an int
}

// count finds the semaphores that have waiters.
func (r *semaphoreReading) count(sets []semaphoreSet) {
	r.busy, r.closed = r.busy[:0], 0
	asked := int32(0)
	for i := range sets {
		s := sets[(i+r.turn)%len(sets)]
		if asked >= mostSemaphores || r.look.late() {
			r.turn += i // the next reading begins with this one
			break
		}
		for n := range min(s.size, mostSemaphores) {
			asked++
			waits, err := semctl(s.id, n, semWaits)
			if errors.Is(err, unix.EACCES) {
				r.closed++
			}
			if err != nil {
				break // or the set was removed
			}
			zeroes, _ := semctl(s.id, n, semZeroes)
			if waits+zeroes > 0 {
				last, _ := semctl(s.id, n, semPID)
				r.busy = append(r.busy, semaphore{s.id, n, waits + zeroes, int32(last)})
			}
		}
	}
}

// find looks for the processes that wait: those of the latest reading, and some others.
func (r *semaphoreReading) find() {
	r.waits = map[semaphoreWait]float64{}
	if len(r.busy) == 0 {
		r.known, r.pids = r.known[:0], r.pids[:0]
		return
	}
	looked, left := r.known, 0.0
	for _, s := range r.busy {
		left += s.waiters
	}
	for _, pid := range looked {
		left -= r.lookAt(pid)
	}
	if len(r.pids) == 0 && left > 0 {
		r.pids, _ = r.look.dir.ListPIDs(r.pids) // without them no more are found
	}
	for len(r.pids) > 0 && left > 0 && !r.look.late() {
		pid := r.pids[len(r.pids)-1]
		r.pids = r.pids[:len(r.pids)-1]
		if !slices.Contains(looked, pid) {
			left -= r.lookAt(pid)
		}
	}
	r.known = nil
	for w := range r.waits {
		if !slices.Contains(r.known, w.pid) && len(r.known) < mostRows {
			r.known = append(r.known, w.pid)
		}
	}
}

// lookAt adds the threads of a process that wait for semaphores, and returns their number.
func (r *semaphoreReading) lookAt(pid int32) (found float64) {
	tids, err := r.look.dir.ListTIDs(pid, nil)
	if err != nil {
		return 0 // it has ended
	}
	for _, tid := range tids[:min(len(tids), mostTasks)] {
		file := "task/" + strconv.Itoa(int(tid)) + "/syscall"
		b, err := r.look.timed.ReadPIDAt(r.look.dir, pid, file, 0)
		if err != nil {
			r.look.denied = r.look.denied || errors.Is(err, measure.ErrDenied)
			return found
		}
		call, ok := procfs.ParseSyscall(b)
		if !ok || call.Number != unix.SYS_SEMOP && call.Number != unix.SYS_SEMTIMEDOP {
			continue
		}
		i := slices.IndexFunc(r.busy, func(s semaphore) bool {
			return uint64(s.set) == call.Args[0]
		})
		if i < 0 {
			continue
		}
		number := r.busy[i].number
		if n, ok := r.operand(pid, call.Args[1]); ok {
			number = n
		}
		r.waits[semaphoreWait{pid, r.busy[i].set, number}]++
		found++
	}
	return found
}

// operand returns the semaphore of the first operation in memory of a process; false when it
// cannot be read.
//
//	struct sembuf { unsigned short sem_num; short sem_op; short sem_flg; }
func (r *semaphoreReading) operand(pid int32, at uint64) (int32, bool) {
	if at > 1<<63-1-proc.MostTimed {
		return 0, false
	}
	b, err := r.look.timed.ReadPIDAt(r.look.dir, pid, "mem", int64(at))
	if err != nil || len(b) < 2 {
		return 0, false
	}
	return int32(b[0]) | int32(b[1])<<8, true
}

// put puts a row for each process that waits for a semaphore, and one for those not found.
func (r *semaphoreReading) put(out *collect.Out, t *collect.Table) {
	all := make([]semaphoreWait, 0, len(r.waits))
	for w := range r.waits {
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b semaphoreWait) int {
		return cmp.Or(cmp.Compare(a.set, b.set), cmp.Compare(a.number, b.number),
			cmp.Compare(a.pid, b.pid))
	})
	rows := 0
	for _, s := range r.busy {
		if rows >= mostRows {
			t.Note("waits for some semaphores are not listed, as there are too many")
			return
		}
		last := r.look.process(s.last)
		if last == unknownProcess {
			last = &processSeen{pid: max(s.last, 0)} // it has ended, or is hidden
		}
		set, number := out.Number(int64(s.set)), out.Number(int64(s.number))
		pid, name := out.Number(int64(last.pid)), out.Label(last.name)
		wchan := out.Label(r.look.sleepsIn(last))
		left := s.waiters
		for _, w := range all {
			if w.set != s.set || w.number != s.number || rows >= mostRows {
				continue
			}
			threads := r.waits[w]
			left -= threads
			waiter := r.look.process(w.pid)
			t.Put(threads, out.Number(int64(w.pid)), out.Label(waiter.name), set, number, pid,
				name, wchan, out.Label(relation(waiter, last)))
			rows++
		}
		if left > 0 {
			t.Put(left, out.Number(0), out.Label(""), set, number, pid, name, wchan,
				out.Label(""))
			rows++
		}
	}
}
