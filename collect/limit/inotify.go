package limit

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Inotify counts the inotify instances and watches of each user. The kernel shows them only in the
// open files of processes, so it looks at a part of the processes in each reading, for at most
// inotifyTime. Rows appear when all have been looked at once.
//
// Those of other users' processes need CAP_SYS_PTRACE. An instance that several processes inherited
// counts for each of them.
type Inotify struct{}

// Stats returns limit.used and limit.size.
func (Inotify) Stats() []measure.Stat { return stats() }

const (
	inotifyTime = 3 * time.Millisecond // CPU time of one reading
	// mostWatchBytes is how much of an instance's watches is read: some 10,000 of them. A user with
	// more has at least as many.
	mostWatchBytes = 1 << 20
)

// Open opens /proc. An error means that nothing can be measured. The caller closes the Reading.
func (Inotify) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	dir, err := proc.OpenProcDir(env.Root, "")
	if err != nil {
		return nil, err
	}
	r := &inotifyReading{dir: dir, link: make([]byte, 64)}
	r.limits.root = env.Root
	return r, nil
}

type inotifyReading struct {
	dir    *proc.Dir
	limits limitReading
	pids   []int32 // still to be looked at in this pass
	at     inotifyProcess
	buf    []byte
	link   []byte

	pass     map[uint32]inotifyUse // by user, so far in this pass
	whole    map[uint32]inotifyUse // of the latest complete pass; nil: none yet
	denied   int                   // processes whose files may not be listed, in this pass
	unseen   int                   // the same in the latest complete pass
	resting  int                   // readings until the next pass
	readings int                   // of this pass
}

// inotifyUse is what a user has.
type inotifyUse struct{ instances, watches float64 }

// inotifyProcess is the process that is looked at: with 100,000 open files it takes several
// readings.
type inotifyProcess struct {
	pid int32
	fds []int32 // still to be looked at
	use inotifyUse
}

func (r *inotifyReading) Close() { r.dir.Close() } //nolint:errcheck // only read

// Read implements collect.Reading.
func (r *inotifyReading) Read(out *collect.Out) error {
	if err := r.look(); err != nil {
		return err
	}
	if r.whole == nil {
		if r.readings >= lateReadings {
			out.Table("limit.used").Note("the inotify instances of all processes are not counted " +
				"yet: " + r.left())
		}
		return nil
	}
	if r.unseen > 0 {
		out.Table("limit.used").Note("the inotify instances of " + strconv.Itoa(r.unseen) +
			" processes of other users cannot be counted by this user")
	}
	instances := r.limits.number("sys/fs/inotify/max_user_instances", 0)
	watches := r.limits.number("sys/fs/inotify/max_user_watches", 0)
	var users []uint32
	for u := range r.whole {
		users = append(users, u)
	}
	slices.Sort(users)
	var rows []limitRow
	for _, u := range users {
		owner := strconv.FormatUint(uint64(u), 10)
		rows = append(rows, limitRow{"inotify-instances", owner, r.whole[u].instances, instances},
			limitRow{"inotify-watches", owner, r.whole[u].watches, watches})
	}
	put(out, rows)
	return nil
}

// left says what is still to be looked at.
func (r *inotifyReading) left() string {
	if n := len(r.at.fds); n > 0 {
		return strconv.Itoa(n) + " files of process " + strconv.Itoa(int(r.at.pid)) + " and " +
			strconv.Itoa(len(r.pids)) + " processes are left"
	}
	return strconv.Itoa(len(r.pids)) + " processes are left"
}

// lateReadings is how many readings the first pass may take without a note.
const lateReadings = 5

// restReadings is how many readings pass after a complete pass, for each reading that it took.
const restReadings = 4

// look continues the pass over all processes.
func (r *inotifyReading) look() error {
	if r.resting > 0 {
		r.resting--
		return nil
	}
	if r.pass == nil {
		pids, err := r.dir.ListPIDs(r.pids[:0])
		if err != nil {
			return err
		}
		r.pids, r.pass, r.denied, r.readings = pids, map[uint32]inotifyUse{}, 0, 0
	}
	r.readings++
	until := kernel.ThreadTime() + measure.Span(inotifyTime) // a busy machine takes the CPU away
	for kernel.ThreadTime() < until && r.more() {
		r.files(min(len(r.at.fds), filesAtOnce))
	}
	if len(r.pids) == 0 && len(r.at.fds) == 0 {
		r.whole, r.unseen, r.pass = r.pass, r.denied, nil
		r.resting = restReadings * r.readings
	}
	return nil
}

// filesAtOnce is how many files are looked at before the time is: some 0.3 ms.
const filesAtOnce = 100

// more lists the files of the next process where none are left of the last one; false: that was the
// last process.
func (r *inotifyReading) more() bool {
	if len(r.at.fds) > 0 {
		return true
	}
	if len(r.pids) == 0 {
		return false
	}
	pid := r.pids[len(r.pids)-1]
	r.pids = r.pids[:len(r.pids)-1]
	fds, err := r.dir.ListFDs(pid, r.at.fds[:0])
	if errors.Is(err, measure.ErrDenied) {
		r.denied++
	}
	if err != nil {
		fds = fds[:0]
	}
	r.at = inotifyProcess{pid: pid, fds: fds}
	return true
}

// files looks at n files of the process, and adds its instances to its user after the last one.
func (r *inotifyReading) files(n int) {
	for _, fd := range r.at.fds[len(r.at.fds)-n:] {
		name := strconv.Itoa(int(fd))
		if link, err := r.dir.ReadLink(r.at.pid, "fd/"+name, r.link); err != nil ||
			string(link) != "anon_inode:inotify" {
			continue
		}
		r.at.use.instances++
		r.at.use.watches += r.watches(r.at.pid, name)
	}
	r.at.fds = r.at.fds[:len(r.at.fds)-n]
	if len(r.at.fds) > 0 || r.at.use.instances == 0 {
		return
	}
	b, err := r.dir.ReadPID(r.at.pid, "status", r.buf)
	if err != nil {
		return
	}
	r.buf = b
	if user, ok := effectiveUser(b); ok {
		sum := r.pass[user]
		sum.instances += r.at.use.instances
		sum.watches += r.at.use.watches
		r.pass[user] = sum
	}
}

// watches returns the number of watches of an instance: those in the first mostWatchBytes of its
// file in fdinfo. 0 when the process has ended.
//
//	inotify wd:1 ino:3e7 sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 ...
func (r *inotifyReading) watches(pid int32, fd string) float64 {
	f, err := os.Open(r.dir.Path() + "/" + strconv.Itoa(int(pid)) + "/fdinfo/" + fd)
	if err != nil {
		return 0
	}
	defer f.Close() //nolint:errcheck // only read
	lines, n := bufio.NewReaderSize(io.LimitReader(f, mostWatchBytes), 64<<10), 0.0
	for {
		line, err := lines.ReadSlice('\n')
		if bytes.HasPrefix(line, []byte("inotify wd:")) {
			n++
		}
		if err != nil {
			return n
		}
	}
}

// effectiveUser returns the second number of the line Uid in /proc/PID/status, to which the kernel
// charges instances.
//
//	Uid:	1000	1000	1000	1000
func effectiveUser(b []byte) (uint32, bool) {
	for len(b) > 0 {
		var line []byte
		line, b = procfs.CutLine(b)
		if rest, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			c := proc.Scan(rest)
			c.Uint()
			v := c.Uint()
			return uint32(v), c.Err() == nil && v < 1<<32
		}
	}
	return 0, false
}
