package symbol

import (
	"errors"
	"os"
	"runtime"
	"time"

	"culprit/kernel/proc"
)

// The kernel produces maps and stat, and opens mem and map_files, under locks of the process. A
// process that hangs in execve(2) holds one of them, and a file system that does not answer lets
// an open of a mapped file hang. So all reads of files of processes are bounded: see proc.Guard,
// which the Processes and Unwindings of a Files share.

// guarded calls do for a process; see proc.Guarded. do must not use what the lock of ps guards.
func guarded[T any](ps *Processes, pid int, do func() (T, error), drop func(T)) (T, error) {
	type timed struct {
		value T
		cost  time.Duration // CPU time
	}
	var late func(timed)
	if drop != nil {
		late = func(r timed) { drop(r.value) }
	}
	r, err := proc.Guarded(&ps.files.guard, pid, func() (timed, error) {
		runtime.LockOSThread() // whose time is counted
		defer runtime.UnlockOSThread()
		began := threadTime()
		value, err := do()
		return timed{value, threadTime() - began}, err
	}, late)
	ps.away.Add(int64(r.cost))
	return r.value, err
}

// readFile reads a file of a process.
func (ps *Processes) readFile(pid int, name string) ([]byte, error) {
	path := ps.in(pid, name)
	return guarded(ps, pid, func() ([]byte, error) { return proc.ReadFile(path, nil) }, nil)
}

// An openFile is an open file with its key.
type openFile struct {
	file *os.File
	key  fileKey
}

// openGuarded opens a file by names of a process. A file that is opened too late is closed.
func (ps *Processes) openGuarded(pid int, open func() (*os.File, fileKey, error)) (*os.File,
	fileKey, error) {
	o, err := guarded(ps, pid, func() (openFile, error) {
		f, key, err := open()
		return openFile{f, key}, err
	}, func(o openFile) {
		if o.file != nil {
			o.file.Close() //nolint:errcheck // nothing was read
		}
	})
	return o.file, o.key, err
}

// openMemory opens the memory of a process, and reads from it once: a reader that waits for the
// lock of the memory map would hang. The caller closes the file.
func (ps *Processes) openMemory(p *process) (*os.File, error) {
	path, at := ps.in(p.pid, "mem"), int64(0)
	if len(p.maps) > 0 && p.maps[0].Start < 1<<63 {
		at = int64(p.maps[0].Start)
	}
	f, _, err := ps.openGuarded(p.pid, func() (*os.File, fileKey, error) {
		f, err := os.Open(path)
		if err == nil {
			_, _ = f.ReadAt(make([]byte, 1), at) // fails where nothing is mapped
		}
		return f, fileKey{}, err
	})
	return f, err
}

// hangs counts a process whose addresses have no names because a read has not returned.
func (ps *Processes) hangs(pid int, err error) {
	if errors.Is(err, proc.ErrHangs) {
		if ps.hung == nil {
			ps.hung = map[int]bool{}
		}
		count(ps.hung, pid)
	}
}
