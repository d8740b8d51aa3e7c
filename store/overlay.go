package store

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// overlay is a file system in which one directory can be changed while its files stay as they are:
// changes are in memory only. A damaged archive is mended in it to be read without write
// permission.
type overlay struct {
	vfs.FS // the one below
	dir    string
	memory vfs.FS

	mu   sync.Mutex // guards the field below
	gone map[string]bool
}

func newOverlay(on vfs.FS, dir string) (*overlay, error) {
	o := &overlay{FS: on, dir: dir, memory: vfs.NewMem(), gone: map[string]bool{}}
	return o, o.memory.MkdirAll(dir, 0o700)
}

// hides reports whether a file was removed or replaced here.
func (o *overlay) hides(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone[name]
}

func (o *overlay) hide(name string, hidden bool) {
	o.mu.Lock()
	o.gone[name] = hidden
	o.mu.Unlock()
}

// of returns the file system that has a file.
func (o *overlay) of(name string) (vfs.FS, error) {
	if _, err := o.memory.Stat(name); err == nil {
		return o.memory, nil
	}
	if o.hides(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return o.FS, nil
}

// Unwrap returns the file system below.
func (o *overlay) Unwrap() vfs.FS { return o.FS }

// Lock does nothing, because the store holds the lock. The error is nil.
func (*overlay) Lock(string) (io.Closer, error) { return noLock{}, nil }

// MkdirAll makes a directory in memory.
func (o *overlay) MkdirAll(name string, mode fs.FileMode) error {
	return o.memory.MkdirAll(name, mode)
}

// Create creates a file in memory; the caller closes it.
func (o *overlay) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return o.memory.Create(name, c)
}

// Open opens a file; the caller closes it. The error is that of the file system, fs.ErrNotExist for
// a file that was removed here.
func (o *overlay) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	on, err := o.of(name)
	if err != nil {
		return nil, err
	}
	return on.Open(name, options...)
}

// OpenDir opens a directory in memory; the caller closes it.
func (o *overlay) OpenDir(name string) (vfs.File, error) { return o.memory.OpenDir(name) }

// Stat describes a file. The error is as for Open.
func (o *overlay) Stat(name string) (vfs.FileInfo, error) {
	on, err := o.of(name)
	if err != nil {
		return nil, err
	}
	return on.Stat(name)
}

// Remove removes a file from view.
func (o *overlay) Remove(name string) error {
	on, err := o.of(name)
	if err != nil {
		return err
	}
	if on != o.memory {
		if _, err := on.Stat(name); err != nil {
			return err
		}
	} else if err := on.Remove(name); err != nil {
		return err
	}
	o.hide(name, true)
	return nil
}

// Rename renames a file. One of the directory below that leaves the directory is only removed from
// view.
func (o *overlay) Rename(old, name string) error {
	on, err := o.of(old)
	if err != nil {
		return err
	}
	if on == o.memory {
		err = on.Rename(old, name)
	} else if o.PathDir(name) == o.dir {
		var b []byte
		if b, err = readFile(on, old); err == nil {
			err = writeFile(o.memory, name, func(w io.Writer) error {
				_, err := w.Write(b)
				return err
			})
		}
	}
	if err == nil {
		o.hide(old, true)
	}
	return err
}

// errOverlay is the error of calls that mending and reading do not need.
var errOverlay = errors.New("the archive was opened to read only")

// OpenReadWrite fails.
func (*overlay) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, errOverlay
}

// ReuseForWrite fails.
func (*overlay) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, errOverlay
}

// Link fails.
func (*overlay) Link(string, string) error { return errOverlay }

// RemoveAll fails.
func (*overlay) RemoveAll(string) error { return errOverlay }

// List lists the names in a directory. The error is that of the file system.
func (o *overlay) List(dir string) ([]string, error) {
	names, err := o.FS.List(dir)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return o.hides(o.PathJoin(dir, n)) })
	more, err := o.memory.List(dir)
	if err != nil {
		return nil, err
	}
	names = append(names, more...)
	slices.SortFunc(names, strings.Compare)
	return slices.Compact(names), nil
}
