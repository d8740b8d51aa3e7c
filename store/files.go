package store

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gate is the file system of one opening of Pebble. After Pebble gave up, the gate is shut: its
// goroutines must not touch files that another opening uses by then. The archive's lock is taken
// once for all openings.
type gate struct {
	vfs.FS
	shut atomic.Bool
}

var errShut = errors.New("this opening of the archive has ended")

func (g *gate) check() error {
	if g.shut.Load() {
		return errShut
	}
	return nil
}

type noLock struct{}

func (noLock) Close() error { return nil }

// Lock does nothing, because the store holds the lock. The error is nil.
func (g *gate) Lock(string) (io.Closer, error) { return noLock{}, nil }

// Unwrap returns the wrapped file system.
func (g *gate) Unwrap() vfs.FS { return g.FS }

// Create creates a file; the caller closes it. It fails with errShut when the gate is shut.
func (g *gate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.file(g.FS.Create(name, c))
}

// OpenReadWrite opens a file; the caller closes it. It fails with errShut when the gate is shut.
func (g *gate) OpenReadWrite(
	name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption,
) (vfs.File, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.file(g.FS.OpenReadWrite(name, c, o...))
}

// ReuseForWrite renames a file and opens it. It fails with errShut when the gate is shut.
func (g *gate) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	return g.file(g.FS.ReuseForWrite(old, name, c))
}

func (g *gate) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &gatedFile{f, g}, nil
}

// Link creates a second name. It fails with errShut when the gate is shut.
func (g *gate) Link(old, name string) error {
	return g.unless(func() error { return g.FS.Link(old, name) })
}

// Remove removes a file. It fails with errShut when the gate is shut.
func (g *gate) Remove(
	name string,
) error {
	return g.unless(func() error { return g.FS.Remove(name) })
}

// RemoveAll removes a directory. It fails with errShut when the gate is shut.
func (g *gate) RemoveAll(name string) error {
	return g.unless(func() error { return g.FS.RemoveAll(name) })
}

// Rename renames a file. It fails with errShut when the gate is shut.
func (g *gate) Rename(old, name string) error {
	return g.unless(func() error { return g.FS.Rename(old, name) })
}

func (g *gate) unless(f func() error) error {
	if err := g.check(); err != nil {
		return err
	}
	return f()
}

type gatedFile struct {
	vfs.File
	gate *gate
}

func (f *gatedFile) Write(b []byte) (int, error) {
	if err := f.gate.check(); err != nil {
		return 0, err
	}
	return f.File.Write(b)
}

func (f *gatedFile) WriteAt(b []byte, at int64) (int, error) {
	if err := f.gate.check(); err != nil {
		return 0, err
	}
	return f.File.WriteAt(b, at)
}

// lock takes the archive's lock: exclusive for writing, shared for reading. The shared lock needs
// no write permission and works on a read-only file system. The caller closes it.
func lock(fs vfs.FS, name string, readOnly bool) (io.Closer, error) {
	if !readOnly || fs != vfs.Default {
		return fs.Lock(name)
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
