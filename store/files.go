package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate is the file system of one opening of Pebble. Pebble holds locks while it reports a failed
// write, so its goroutine can neither end nor go on there. So a write that fails never returns to
// Pebble once it is open. It ends the opening and blocks its goroutine here, where Pebble holds no
// lock that a reader needs. After that the gate is shut and every write blocks: the goroutines of
// this opening must not touch files that another opening uses by then. Reads go on.
//
// The archive's lock is taken once for all openings.
type gate struct {
	vfs.FS
	open   atomic.Bool // Pebble is open: errors of writes no longer return
	shut   atomic.Bool
	giveUp func(error)
}

// enter is called before each write. It blocks when the gate is shut.
func (g *gate) enter() {
	if g.shut.Load() {
		select {}
	}
}

// leave is called with the result of each write.
func (g *gate) leave(err error) error {
	if err != nil && g.open.Load() {
		g.giveUp(err)
	}
	g.enter()
	return err
}

type noLock struct{}

func (noLock) Close() error { return nil }

// Lock does nothing, because the store holds the lock. The error is nil.
func (g *gate) Lock(string) (io.Closer, error) { return noLock{}, nil }

// Unwrap returns the wrapped file system.
func (g *gate) Unwrap() vfs.FS { return g.FS }

// Create creates a file; the caller closes it.
func (g *gate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	g.enter()
	return g.file(g.FS.Create(name, c))
}

// OpenReadWrite opens a file; the caller closes it.
func (g *gate) OpenReadWrite(
	name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption,
) (vfs.File, error) {
	g.enter()
	return g.file(g.FS.OpenReadWrite(name, c, o...))
}

// ReuseForWrite renames a file and opens it; the caller closes it.
func (g *gate) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	g.enter()
	return g.file(g.FS.ReuseForWrite(old, name, c))
}

// OpenDir opens a directory, which can be synced; the caller closes it.
func (g *gate) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &gatedFile{f, g}, nil
}

func (g *gate) file(f vfs.File, err error) (vfs.File, error) {
	if err = g.leave(err); err != nil {
		return nil, err
	}
	return &gatedFile{f, g}, nil
}

// Link creates a second name.
func (g *gate) Link(old, name string) error {
	g.enter()
	return g.leave(g.FS.Link(old, name))
}

// Remove removes a file. The error is that of the file system; fs.ErrNotExist is no failure.
func (g *gate) Remove(name string) error {
	g.enter()
	err := g.FS.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return g.leave(err)
}

// RemoveAll removes a directory.
func (g *gate) RemoveAll(name string) error {
	g.enter()
	return g.leave(g.FS.RemoveAll(name))
}

// Rename renames a file.
func (g *gate) Rename(old, name string) error {
	g.enter()
	return g.leave(g.FS.Rename(old, name))
}

type gatedFile struct {
	vfs.File
	gate *gate
}

func (f *gatedFile) Write(b []byte) (int, error) {
	f.gate.enter()
	n, err := f.File.Write(b)
	return n, f.gate.leave(err)
}

func (f *gatedFile) WriteAt(b []byte, at int64) (int, error) {
	f.gate.enter()
	n, err := f.File.WriteAt(b, at)
	return n, f.gate.leave(err)
}

func (f *gatedFile) Sync() error {
	f.gate.enter()
	return f.gate.leave(f.File.Sync())
}

func (f *gatedFile) SyncData() error {
	f.gate.enter()
	return f.gate.leave(f.File.SyncData())
}

func (f *gatedFile) SyncTo(length int64) (bool, error) {
	f.gate.enter()
	full, err := f.File.SyncTo(length)
	return full, f.gate.leave(err)
}

// lock takes the archive's lock: exclusive for writing, shared for reading. The shared lock needs
// no write permission and works on a read-only file system. The caller closes it.
func lock(on vfs.FS, name string, readOnly bool) (io.Closer, error) {
	if !readOnly || on != vfs.Default {
		return on.Lock(name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	// It must be an fcntl lock like Pebble's, or the two would not conflict.
	shared := syscall.Flock_t{Type: syscall.F_RDLCK, Whence: io.SeekStart}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &shared); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// inUse adds the process that holds a lock, from /proc/locks, to the error of taking it. It does
// not open the file: closing it would release the locks of this process on it (fcntl(2)).
func inUse(dir string, err error) error {
	info, stat := os.Stat(filepath.Join(dir, "LOCK"))
	locks, open := os.Open("/proc/locks")
	if stat != nil || open != nil {
		return err
	}
	defer locks.Close()
	inode, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return err
	}
	for lines := bufio.NewScanner(locks); lines.Scan(); {
		// 1: POSIX  ADVISORY  WRITE 4711 fd:01:1234567 0 EOF
		f := strings.Fields(lines.Text())
		if len(f) < 6 || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(inode.Ino, 10)) {
			continue
		}
		if pid, _ := strconv.Atoi(f[4]); pid > 0 {
			return fmt.Errorf("process %d has it open; query that process instead: %w", pid, err)
		}
	}
	return err
}

// fileSystemError returns err when it is an error of the operating system, and nil when it is about
// the content of a file.
func fileSystemError(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.ENOENT && errno != syscall.EIO {
		return err
	}
	return nil
}
