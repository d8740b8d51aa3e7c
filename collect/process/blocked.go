package process

import (
	"bytes"
	"cmp"
	"path"
	"strconv"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// blockedWait is what a thread in uninterruptible sleep waits for. It cannot change until the
// thread runs, so it is read once.
type blockedWait struct {
	wchan, caller       string // kernel functions; "": not known
	mount, kind, source string // of the file system that its system call names; "": not known
}

// blockedReading is what readings of blocked threads keep.
type blockedReading struct {
	mountinfo []byte // the latest, and its mounts
	mounts    []procfs.Mount
	rows      []blockedRow
	until     measure.Span // CPU time of the thread at which no further wait is read
	most      measure.Span // CPU time of one reading for it; 0: blockedTime
	late      int          // waits that were not read for lack of time, in this reading
}

type blockedRow struct {
	wait    blockedWait
	threads float64
}

// blockedTime is the CPU time in which one reading may find out what threads wait for. A wait takes
// some 60 us; the next readings continue.
const blockedTime = 5 * measure.Millisecond

// putBlocked puts the threads that were in uninterruptible sleep for all of the interval. A thread
// that did not run in it still waits for the same.
func (r *processReading) putBlocked(out *collect.Out) {
	t := out.Table("process.blocked")
	if t == nil || out.First {
		return
	}
	if r.taskstats == nil && !r.sched {
		t.Unmeasured("this kernel does not show which threads ran (built without " +
			"CONFIG_SCHED_INFO)")
		return
	}
	b := &r.blocked
	b.until, b.late = kernel.ThreadTime()+cmp.Or(b.most, blockedTime), 0
	for _, p := range r.procs {
		if p.dead || p.stat.kernel {
			continue
		}
		b.rows = b.rows[:0]
		if !p.split {
			r.blockedThread(p, p.pid, !p.ran && p.stat.state == 'D', &p.blocked)
		}
		for _, th := range p.threads {
			if p.split && !th.gone {
				r.blockedThread(p, th.tid, th.stat.state == 'D' && !(p.ran && th.ran), &th.blocked)
			}
		}
		if len(b.rows) == 0 {
			continue
		}
		pid, name := p.name.of(out, p.pid, p.comm)
		for i := range b.rows {
			w := &b.rows[i].wait
			t.Put(b.rows[i].threads, pid, name, out.Label(w.wchan), out.Label(w.caller),
				out.Label(w.mount), out.Label(w.kind), out.Label(w.source))
		}
	}
	if b.late > 0 {
		t.Note("what " + strconv.Itoa(b.late) + " blocked threads wait for is not read yet: " +
			"there are many of them")
	}
}

// blockedThread adds a thread to the rows of its process if it is blocked. known is the wait that
// was read earlier.
func (r *processReading) blockedThread(p *process, tid int32, blocked bool, known **blockedWait) {
	if !blocked {
		*known = nil
		return
	}
	wait := blockedWait{}
	switch {
	case *known != nil:
		wait = **known
	case kernel.ThreadTime() >= r.blocked.until:
		r.blocked.late++
	default:
		w := r.readWait(p.pid, tid)
		if wait = *w; !r.locked.Hangs(p.pid) { // otherwise the next reading may have more
			*known = w
		}
	}
	for i := range r.blocked.rows {
		if r.blocked.rows[i].wait == wait {
			r.blocked.rows[i].threads++
			return
		}
	}
	r.blocked.rows = append(r.blocked.rows, blockedRow{wait, 1})
}

// readWait reads what a thread waits for. What cannot be read is "".
func (r *processReading) readWait(pid, tid int32) *blockedWait {
	w := &blockedWait{}
	task := "task/" + strconv.Itoa(int(tid)) + "/"
	if b, ok := r.readLocked(pid, task+"wchan", 0); ok {
		w.wchan = string(procfs.FunctionName(b)) // "0" when it may not be shown
	}
	if b, ok := r.readLocked(pid, task+"stack", 0); ok {
		w.caller = string(procfs.StackFunction(b))
	}
	b, ok := r.readLocked(pid, task+"syscall", 0)
	if !ok {
		return w
	}
	if call, ok := procfs.ParseSyscall(b); ok {
		switch m := r.mountOf(pid, call); {
		case m == nil:
		case ofDevices(m): // the thread waits for the device, not for the file system of its node
			w.source = cleaned(r.openedBy(pid, call))
		default:
			w.mount, w.kind, w.source = cleaned(m.Path), cleaned(m.Type), cleaned(m.Source)
		}
	}
	return w
}

// ofDevices reports whether a file system is one of device nodes: devtmpfs, or the tmpfs of a
// container.
func ofDevices(m *procfs.Mount) bool {
	return m.Type == "devtmpfs" || m.Type == "tmpfs" && m.Path == "/dev"
}

// openedBy returns the path of the open file that a system call names; "" when it names none.
func (r *processReading) openedBy(pid int32, call procfs.Syscall) string {
	args, ok := call.FileArgs()
	if !ok || args.FD < 0 || args.Path >= 0 && call.Args[args.Path] != 0 {
		return ""
	}
	fd := strconv.Itoa(int(int32(call.Args[args.FD]))) //nolint:gosec // descriptors are ints
	link, err := r.dir.ReadLink(pid, "fd/"+fd, make([]byte, 4096))
	if err != nil {
		return ""
	}
	return string(link)
}

// readLocked reads up to a page of a file of a process from an offset: see proc.TimedReader.
func (r *processReading) readLocked(pid int32, name string, at int64) ([]byte, bool) {
	b, err := r.locked.ReadPIDAt(r.dir, pid, name, at)
	return b, err == nil
}

// textOf returns the text at an address of a process, up to a NUL; "" when it cannot be read now.
func (r *processReading) textOf(pid int32, at uint64) string {
	if at > 1<<63-1-proc.MostTimed {
		return ""
	}
	b, _ := r.readLocked(pid, "mem", int64(at)) // less where the next page is not mapped
	if end := bytes.IndexByte(b, 0); end >= 0 {
		return string(b[:end])
	}
	return ""
}

func cleaned(text string) string { return string(appendClean(nil, []byte(text))) }

// mountOf returns the mount of the file that a system call of a process names; nil when it names
// none, or it cannot be found out. It never asks the file system, which may not answer.
func (r *processReading) mountOf(pid int32, call procfs.Syscall) *procfs.Mount {
	args, ok := call.FileArgs()
	if !ok {
		return nil
	}
	fd := int32(-1)
	if args.FD >= 0 {
		fd = int32(call.Args[args.FD]) //nolint:gosec // AT_FDCWD is -100
	}
	if args.Path < 0 {
		return r.mountOfFD(pid, fd)
	}
	at := call.Args[args.Path]
	if at == 0 && fd >= 0 { // statx and utimensat of an open file
		return r.mountOfFD(pid, fd)
	}
	file := r.textOf(pid, at)
	switch {
	case file == "" && fd >= 0:
		return r.mountOfFD(pid, fd)
	case file == "":
		return nil
	case file[0] != '/':
		from := "cwd"
		if fd >= 0 {
			from = "fd/" + strconv.Itoa(int(fd))
		}
		link, err := r.dir.ReadLink(pid, from, make([]byte, 4096))
		if err != nil || len(link) == 0 || link[0] != '/' {
			return nil
		}
		file = string(link) + "/" + file
	}
	return r.mountOfPath(pid, path.Clean(file))
}

func (r *processReading) mountOfFD(pid, fd int32) *procfs.Mount {
	b, err := r.readOnce(pid, "fdinfo/"+strconv.Itoa(int(fd)))
	if err != nil {
		return nil
	}
	_, after, ok := bytes.Cut(b, []byte("mnt_id:"))
	if !ok {
		return nil // before Linux 3.15
	}
	line, _ := procfs.CutLine(after)
	id := string(bytes.TrimSpace(line))
	for i, m := range r.mountsOf(pid) {
		if m.ID == id {
			return &r.blocked.mounts[i]
		}
	}
	return nil
}

// mountOfPath returns the mount that a path leads to. It does not follow symbolic links, so it
// returns nil for a path that seems to be in the root file system.
func (r *processReading) mountOfPath(pid int32, file string) *procfs.Mount {
	best := -1
	for i, m := range r.mountsOf(pid) {
		if m.Path == "/" || file != m.Path && !strings.HasPrefix(file, m.Path+"/") {
			continue
		}
		// a later mount at the same path covers an earlier one
		if best < 0 || len(m.Path) >= len(r.blocked.mounts[best].Path) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return &r.blocked.mounts[best]
}

// mountsOf returns the mounts that a process sees. Most processes see the same.
func (r *processReading) mountsOf(pid int32) []procfs.Mount {
	b, err := r.dir.ReadPID(pid, "mountinfo", r.buf)
	if cap(b) > cap(r.buf) {
		r.buf = b[:cap(b)]
	}
	if err != nil {
		return nil
	}
	if !bytes.Equal(b, r.blocked.mountinfo) {
		r.blocked.mountinfo = append(r.blocked.mountinfo[:0], b...)
		r.blocked.mounts = procfs.ParseMounts(b)
	}
	return r.blocked.mounts
}
