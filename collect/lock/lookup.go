package lock

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// word returns a field that contains words.
func word(name, help string) measure.Field {
	return measure.Field{Name: name, Type: measure.Word, Help: help}
}

// A lockKey identifies a lock for which processes wait.
type lockKey struct {
	kind, file string
	holder     int32
}

func (w fileWait) lock() lockKey { return lockKey{w.kind, w.file, w.holder} }

func (k lockKey) compare(o lockKey) int {
	if c := strings.Compare(k.file, o.file); c != 0 {
		return c
	}
	if c := strings.Compare(k.kind, o.kind); c != 0 {
		return c
	}
	return int(k.holder) - int(o.holder)
}

// processSeen is what a reading has seen of a process. Parent 0: not known.
type processSeen struct {
	pid, parent int32
	name        string
	runs        bool // its first thread
}

// unknownProcess is one that cannot be read, or has ended.
var unknownProcess = &processSeen{} // table: only read

// lookup finds names of processes, paths of files and owners of locks. It never asks a file
// system, which may not answer.
type lookup struct {
	dir    *proc.Dir
	timed  proc.TimedReader
	buf    []byte
	link   [4096]byte
	until  measure.Span // CPU time of the thread at which this reading looks for nothing more
	denied bool         // the open files of a process may not be read

	seen  map[int32]*processSeen // in this reading
	paths map[lockKey]lockPath
	owner ownerSearch
}

// A lockPath is the path of a locked file.
type lockPath struct {
	path string // "": not found
	used bool   // in this reading
}

func (k *lookup) close() {
	k.timed.Close()
	k.dir.Close() //nolint:errcheck // only read
}

// begin begins a reading.
func (k *lookup) begin() {
	k.until, k.denied = kernel.ThreadTime()+lockTime, false
	k.seen = map[int32]*processSeen{}
}

// end ends a reading: it forgets locks that nobody waits for, and searches for owners.
func (k *lookup) end(t *collect.Table) {
	for key, p := range k.paths {
		if !p.used {
			delete(k.paths, key)
			continue
		}
		k.paths[key] = lockPath{path: p.path}
	}
	k.until = kernel.ThreadTime() + lockTime // rows may have used all of it
	k.owner.search(k)
	if k.denied {
		t.Note(kernel.UnreadNote("paths and holders of some file locks may not be read: that "+
			"needs CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE))
	}
}

// late reports whether this reading has used up its time.
func (k *lookup) late() bool { return kernel.ThreadTime() >= k.until }

// process returns a process; unknownProcess when it has ended or cannot be read.
func (k *lookup) process(pid int32) *processSeen {
	if p := k.seen[pid]; p != nil {
		return p
	}
	p := unknownProcess
	if pid > 0 {
		b, err := k.dir.ReadPIDOne(pid, "stat", k.buf)
		k.buf = b
		if s, ok := parseStat(b); err == nil && ok {
			p = &processSeen{pid: pid, parent: s.parent, name: measure.Clean(string(s.comm)),
				runs: s.state == 'R'}
		}
	}
	k.seen[pid] = p
	return p
}

// holderOf returns the process that holds the lock of a wait. The kernel names the process that
// took it. That one may have ended, and a child still have the open file.
func (k *lookup) holderOf(w fileWait) *processSeen {
	if p := k.process(w.holder); p.pid > 0 {
		return p
	}
	if p := k.process(k.owner.of(w.lock())); p.pid > 0 {
		return p
	}
	return &processSeen{pid: max(w.holder, 0)} // it has ended, or is hidden (hidepid)
}

// mostSleepers is how many threads of a holder are read.
const mostSleepers = 16

// sleepsIn returns the kernel functions in which threads of a process sleep; "running" when its
// first thread runs, and "" when that is not known.
func (k *lookup) sleepsIn(p *processSeen) string {
	if p.parent == 0 && p.name == "" || k.late() {
		return ""
	}
	tids, err := k.dir.ListTIDs(p.pid, nil)
	if err != nil {
		return ""
	}
	var all []string
	for _, tid := range tids[:min(len(tids), mostSleepers)] {
		file := "task/" + strconv.Itoa(int(tid)) + "/wchan"
		b, err := k.timed.ReadPIDAt(k.dir, p.pid, file, 0)
		if f := string(procfs.FunctionName(b)); err == nil && f != "" && !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	if len(all) == 0 && p.runs {
		return "running"
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// pathOf returns the path of the file of a wait; device:inode when it is not known.
func (k *lookup) pathOf(w fileWait, holder int32) string {
	key := w.lock()
	p := k.paths[key]
	if p.path == "" && !k.late() {
		if p.path = k.waitsFor(w); p.path == "" && holder > 0 {
			p.path = k.opened(holder, key)
		}
	}
	p.used = true
	k.paths[key] = p
	if p.path == "" {
		return w.file
	}
	return p.path
}

// waitsFor returns the path of the file that the first thread of a waiting process names in
// flock(2) or fcntl(2); "" when it waits in another call, or may not be read.
func (k *lookup) waitsFor(w fileWait) string {
	if w.pid <= 0 || w.kind == "lease" {
		return ""
	}
	b, err := k.timed.ReadPIDAt(k.dir, w.pid, "syscall", 0)
	if err != nil {
		k.denied = k.denied || errors.Is(err, measure.ErrDenied)
		return ""
	}
	call, ok := procfs.ParseSyscall(b)
	if !ok || call.Number != unix.SYS_FLOCK && call.Number != unix.SYS_FCNTL ||
		call.Args[0] > 1<<31-1 {
		return ""
	}
	return k.openFile(w.pid, int32(call.Args[0])) //nolint:gosec // compared above
}

// openFile returns the path of an open file of a process; "" when it cannot be read.
func (k *lookup) openFile(pid, fd int32) string {
	link, err := k.dir.ReadLink(pid, "fd/"+strconv.Itoa(int(fd)), k.link[:])
	if err != nil {
		return ""
	}
	return measure.Clean(string(link))
}

// mostOpenFiles is how many open files of a process are searched for a lock.
const mostOpenFiles = 4096

// opened returns the path of the open file of a process that has a lock; "" when none has.
func (k *lookup) opened(pid int32, key lockKey) string {
	fds, err := k.dir.ListFDs(pid, nil)
	if err != nil {
		k.denied = k.denied || errors.Is(err, measure.ErrDenied)
		return ""
	}
	for _, fd := range fds[:min(len(fds), mostOpenFiles)] {
		if k.late() {
			return ""
		}
		if lockedFile(k.fdinfo(pid, fd), key) {
			return k.openFile(pid, fd)
		}
	}
	return ""
}

// fdinfo returns the first page of what the kernel shows about an open file, which has its locks.
// It is valid until the next call.
func (k *lookup) fdinfo(pid, fd int32) []byte {
	b, err := k.dir.ReadPIDAt(pid, "fdinfo/"+strconv.Itoa(int(fd)), 0, k.link[:])
	if err != nil {
		return nil // the file was closed, or its process has ended
	}
	return b
}
