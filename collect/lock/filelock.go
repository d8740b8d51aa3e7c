package lock

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// FileLocks reads who waits for file locks, and who holds them, from /proc/locks: locks of flock(2)
// and fcntl(2), and leases. A program that tries again and again does not wait there.
type FileLocks struct{}

// statFileLocks is the statistic of waits for file locks.
const statFileLocks = measure.StatID("file.lock.waiters")

// Stats returns file.lock.waiters.
func (FileLocks) Stats() []measure.Stat {
	return []measure.Stat{{
		ID: statFileLocks, Kind: measure.Level, Unit: measure.Count,
		Help: "threads that wait for a file lock at the moment of the reading (/proc/locks). " +
			"Programs that try again and again are not visible, nor waits at a file server",
		Fields: []measure.Field{
			{Name: "pid", Type: measure.Number, Help: "process that waits; 0: further ones"},
			word("process", "name of the program: 15 bytes, which it may change"),
			word("file", "path as the process opened it; device:inode where it may not be read"),
			word("kind", "flock posix ofd lease"),
			{Name: "holder", Type: measure.Number, Help: "process that holds the lock; 0: not " +
				"known, as in another PID namespace"},
			word("holderprocess", "name of the program that holds the lock"),
			word("wchan", "kernel functions in which threads of the holder sleep (/proc/PID/"+
				"wchan); running: its first thread runs; released: another one holds it by now; "+
				"empty: not known"),
			word("related", "siblings: both processes have the same parent; parent child: the "+
				"holder is that of the process that waits; empty: neither"),
		},
	}}
}

const (
	// mostLockBytes is how much of /proc/locks one reading reads. The kernel walks all locks
	// before each page, and holds all of them up meanwhile: with 10,000 locks 0.1 ms.
	mostLockBytes = 128 << 10
	// lockTime is the CPU time of one reading for /proc/locks, and again for names and paths.
	lockTime = 3 * measure.Millisecond
	// mostWaits is how many waits one pass over /proc/locks keeps.
	mostWaits = 4096
	// mostRows is how many waiting processes have a row, mostPerLock those of one lock.
	mostRows, mostPerLock = 256, 32
)

// Open opens /proc/locks. An error means that nothing can be measured. The caller closes the
// Reading.
func (FileLocks) Open(env *collect.Env, _ collect.Want) (collect.Reading, error) {
	file, err := openLocks(env.Root)
	if err != nil {
		return nil, err
	}
	dir, err := proc.OpenProcDir(env.Root, "")
	if err != nil {
		unix.Close(file)
		return nil, err
	}
	return &fileLockReading{file: file, page: make([]byte, 64<<10),
		look: lookup{dir: dir, paths: map[lockKey]lockPath{}}}, nil
}

func openLocks(root kernel.Root) (int, error) {
	fd, err := unix.Open(root.InProc("locks"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return -1, collect.Unsupported("this kernel has no /proc/locks (built without " +
			"CONFIG_FILE_LOCKING)")
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: "/proc/locks", Err: kernel.AsError(err)}
	}
	return fd, nil
}

// A fileWait is the threads of a process that wait for a lock.
type fileWait struct {
	kind, file  string
	pid, holder int32
	threads     float64
}

type fileLockReading struct {
	file int
	page []byte
	rest int // bytes of an unfinished line at the begin of page

	// The pass over /proc/locks, which with many locks takes several readings.
	going bool
	root  fileWait             // the lock that the next lines wait for; holder and file
	pass  map[fileWait]float64 // threads
	lost  int                  // waits beyond mostWaits
	seen  int                  // locks
	whole []fileWait           // of the latest complete pass
	more  int                  // waits that it lost
	// sleeps are the kernel functions in which the holders of locks sleep, in this reading
	sleeps map[lockKey]string
	look   lookup
}

// Close implements collect.Reading.
func (r *fileLockReading) Close() {
	unix.Close(r.file)
	r.look.close()
}

// Read implements collect.Reading.
func (r *fileLockReading) Read(out *collect.Out) error {
	t := out.Table(statFileLocks)
	if err := r.readLocks(); err != nil {
		return err
	}
	if r.going {
		t.Note("there are many file locks: one pass over them takes several intervals, and has " +
			"read " + strconv.Itoa(r.seen) + " so far")
	}
	if r.more > 0 {
		t.Note("waits for file locks that are not listed, as there are too many: " +
			strconv.Itoa(r.more))
	}
	r.look.begin()
	if err := r.findSleeps(); err != nil {
		return err
	}
	r.put(out, t)
	r.look.end(t)
	return nil
}

// readLocks continues the pass over /proc/locks.
func (r *fileLockReading) readLocks() error {
	until := kernel.ThreadTime() + lockTime
	if !r.going {
		if _, err := unix.Seek(r.file, 0, unix.SEEK_SET); err != nil {
			return kernel.AsError(err)
		}
		r.going, r.rest, r.lost, r.seen = true, 0, 0, 0
		r.root, r.pass = fileWait{}, map[fileWait]float64{}
	}
	for n := 0; n < mostLockBytes && kernel.ThreadTime() < until; {
		m, err := unix.Read(r.file, r.page[r.rest:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return kernel.AsError(err)
		}
		if m == 0 {
			r.endPass()
			return nil
		}
		n += m
		r.lines(r.page[:r.rest+m])
	}
	return nil
}

// lines parses whole lines, and keeps what is left for the next read.
func (r *fileLockReading) lines(b []byte) {
	for {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			break
		}
		if l, ok := parseLockLine(b[:end]); ok {
			r.add(l)
		}
		b = b[end+1:]
	}
	if len(b) > len(r.page)/2 {
		b = nil // no line of /proc/locks
	}
	r.rest = copy(r.page, b)
}

// add adds a line. A waiter belongs to the last lock above it that is held.
func (r *fileLockReading) add(l lockLine) {
	r.seen++
	if !l.waits {
		r.root = fileWait{holder: l.pid, kind: l.kind, file: string(l.file)}
		return
	}
	w := r.root
	w.pid = l.pid
	if _, known := r.pass[w]; !known && len(r.pass) >= mostWaits {
		r.lost++
		return
	}
	r.pass[w]++
}

// endPass sorts the waits of a complete pass: by lock, those with most waiters first.
func (r *fileLockReading) endPass() {
	r.going, r.more = false, r.lost
	r.whole = r.whole[:0]
	waiters := map[lockKey]float64{}
	for w, threads := range r.pass {
		w.threads = threads
		waiters[w.lock()] += threads
		r.whole = append(r.whole, w)
	}
	slices.SortFunc(r.whole, func(a, b fileWait) int {
		x, y := a.lock(), b.lock()
		switch {
		case waiters[x] != waiters[y]:
			return int(waiters[y] - waiters[x])
		case x != y:
			return x.compare(y)
		}
		return int(a.pid) - int(b.pid)
	})
}

// released is the text in place of kernel functions for a holder that has released its lock.
const released = "released"

// findSleeps finds in which kernel functions the holders sleep. Then it reads /proc/locks again,
// if that takes one reading: a holder that has released its lock meanwhile does something else.
func (r *fileLockReading) findSleeps() error {
	r.sleeps = map[lockKey]string{}
	for _, w := range r.whole[:min(len(r.whole), mostRows)] {
		if _, known := r.sleeps[w.lock()]; !known {
			r.sleeps[w.lock()] = r.look.sleepsIn(r.look.holderOf(w))
		}
	}
	if len(r.whole) == 0 || r.going || r.seen > mostSeenTwice {
		return nil
	}
	before := slices.Clone(r.whole)
	if err := r.readLocks(); err != nil || r.going {
		return err
	}
	held := map[lockKey]bool{}
	for _, w := range r.whole {
		held[w.lock()] = true
	}
	for key := range r.sleeps {
		if !held[key] {
			r.sleeps[key] = released
		}
	}
	r.whole = before
	return nil
}

// mostSeenTwice is up to how many locks /proc/locks is read twice when somebody waits.
const mostSeenTwice = 1000

// put puts the rows of each lock, up to mostRows in all.
func (r *fileLockReading) put(out *collect.Out, t *collect.Table) {
	for i, rows := 0, 0; i < len(r.whole); {
		end := i + 1
		for end < len(r.whole) && r.whole[end].lock() == r.whole[i].lock() {
			end++
		}
		if rows >= mostRows {
			t.Note("waits for " + strconv.Itoa(len(r.whole)-i) + " file locks are not listed")
			return
		}
		rows += r.putLock(out, t, r.whole[i:end])
		i = end
	}
}

// putLock puts a row for each process that waits for a lock, up to mostPerLock. The others, and
// those that are not known, are one row. It returns the number of rows.
func (r *fileLockReading) putLock(out *collect.Out, t *collect.Table, waits []fileWait) int {
	h := r.look.holderOf(waits[0])
	file := out.Label(r.look.pathOf(waits[0], h.pid))
	kind, holder := out.Label(waits[0].kind), out.Number(int64(h.pid))
	name, wchan := out.Label(h.name), out.Label(r.sleeps[waits[0].lock()])
	rows, others, sample := 0, 0.0, unknownProcess
	for _, w := range waits {
		if w.pid <= 0 || rows >= mostPerLock {
			others += w.threads
			continue
		}
		sample = r.look.process(w.pid)
		t.Put(w.threads, out.Number(int64(w.pid)), out.Label(sample.name), file, kind, holder,
			name, wchan, out.Label(relation(sample, h)))
		rows++
	}
	if others > 0 {
		t.Put(others, out.Number(0), out.Label(sample.name), file, kind, holder, name, wchan,
			out.Label(relation(sample, h)))
		rows++
	}
	return rows
}

// relation returns how a waiting process is related to the holder of its lock.
func relation(waiter, holder *processSeen) string {
	switch {
	case waiter.parent == 0 || holder.parent == 0:
		return ""
	case waiter.parent == holder.pid:
		return "parent"
	case holder.parent == waiter.pid:
		return "child"
	case waiter.parent == holder.parent && holder.parent != 1:
		return "siblings"
	}
	return ""
}
