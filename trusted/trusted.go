// Package trusted checks that nobody but the caller and root can change a file or a directory, as
// sshd does with StrictModes. What it checks: the owner, the mode, and that no symbolic link leads
// elsewhere.
package trusted

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Error is a file that others can change.
type Error struct {
	Path string
	Why  string // "it belongs to nobody"
	Do   string // what to do about it
}

// Error returns the path, the reason and what to do, in one line.
func (e *Error) Error() string {
	return fmt.Sprintf("%s is not trusted: %s: %s", e.Path, e.Why, e.Do)
}

// writable are the bits of a mode that let other users write.
const writable = 0o022

// maxLinks limits the symbolic links in a path, as Linux does.
const maxLinks = 40

// Directory checks a directory: it and all directories above it belong to the caller, to root or
// to one of the users also, and others may not write to it. Directories above it may be writable
// when they are sticky, as /tmp is. Symbolic links in the path are followed when their owner is
// trusted. A directory that does not exist is trusted if those above it are. The error is an
// *Error, or that of the file system.
func Directory(path string, also ...int) error {
	_, err := walk(path, true, also)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is created by the caller
	}
	return err
}

// OpenFollowing opens a regular file for reading; the caller closes it. It checks the directories
// of the path as Directory does, follows symbolic links whose owner is trusted, as those of
// Kubernetes' volumes, and checks the file as Open does. The error is an *Error, or that of the
// file system.
func OpenFollowing(path string, also ...int) (*os.File, error) {
	real, err := walk(path, false, also)
	if err != nil {
		return nil, err
	}
	return Open(real, os.O_RDONLY, 0, also...)
}

// walk checks each directory of a path, and the last name too if it must be a directory. It returns
// the path without symbolic links.
func walk(path string, directory bool, also []int) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	todo := parts(path)
	at := "/"
	for links := 0; ; {
		last := len(todo) == 0
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if err := checkOwner(at, info, true, also); err != nil {
				return "", err
			}
			to, err := os.Readlink(at)
			if err != nil {
				return "", err
			}
			if links++; links > maxLinks {
				return "", &os.PathError{Op: "follow", Path: at, Err: unix.ELOOP}
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(at), to)
			}
			todo = slices.Concat(parts(filepath.Clean(to)), todo)
			at = "/"
			continue
		}
		if last && !directory {
			return at, nil // Open checks it
		}
		if err := checkDirectory(at, info, !last, also); err != nil {
			return "", err
		}
		if last {
			return at, nil
		}
		at, todo = filepath.Join(at, todo[0]), todo[1:]
	}
}

// parts returns the names in a path.
func parts(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

func checkDirectory(path string, info fs.FileInfo, above bool, also []int) error {
	if !info.IsDir() {
		return &os.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
	}
	if err := checkOwner(path, info, above, also); err != nil {
		return err
	}
	if info.Mode().Perm()&writable == 0 || above && info.Mode()&fs.ModeSticky != 0 {
		return nil
	}
	return &Error{
		Path: path,
		Why:  "other users may write to it",
		Do:   "chmod go-w " + path,
	}
}

// checkOwner checks the owner of a file; above: of a directory above the one that is meant.
func checkOwner(path string, info fs.FileInfo, above bool, also []int) error {
	uid := -1
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		uid = int(st.Uid)
	}
	me := os.Geteuid()
	if uid == 0 || uid == me || slices.Contains(also, uid) || above && unmapped(uid) {
		return nil
	}
	return &Error{
		Path: path,
		Why:  fmt.Sprintf("it belongs to %s, and culprit runs as %s", name(uid), name(me)),
		Do:   "chown it",
	}
}

// unmapped reports whether uid is what a user namespace shows of users that it does not have, as
// of the owner of / in a rootless container: user_namespaces(7).
func unmapped(uid int) bool {
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil || strings.TrimSpace(string(overflow)) != strconv.Itoa(uid) {
		return false
	}
	ids, err := os.ReadFile("/proc/self/uid_map")
	return err == nil &&
		!slices.Equal(strings.Fields(string(ids)), []string{"0", "0", "4294967295"})
}

// name returns a user's name with its number.
func name(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("%s (user %d)", u.Username, uid)
	}
	return fmt.Sprintf("user %d", uid)
}

// Tree checks a directory and everything in it: all belong to the caller, to root or to one of the
// users also, others may write to none, and there are no symbolic links. A directory that does not
// exist is trusted. It does not check the directories above. The error is an *Error, or that of
// the file system.
func Tree(path string, also ...int) error {
	return filepath.WalkDir(path, func(at string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it has gone meanwhile
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return checkEntry(at, info, also)
	})
}

// Entry checks one file or directory as Tree does, without what a directory contains. The error is
// an *Error, or that of the file system.
func Entry(path string, also ...int) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return checkEntry(path, info, also)
}

func checkEntry(path string, info fs.FileInfo, also []int) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		return &Error{
			Path: path,
			Why:  "it is a symbolic link",
			Do:   "replace it by what it leads to, or remove it",
		}
	}
	if err := checkOwner(path, info, false, also); err != nil {
		return err
	}
	if info.Mode().Perm()&writable != 0 && info.Mode()&fs.ModeSocket == 0 {
		return &Error{Path: path, Why: "other users may write to it", Do: "chmod go-w " + path}
	}
	return nil
}

// Open opens a regular file for reading, or with the flags of open(2) for more; the caller closes
// it. It opens the directory first and the file below it, follows no symbolic link, and checks the
// owner and the mode of both as Tree does, on what it has opened. The error is an *Error, or that
// of the file system.
func Open(path string, flags int, mode uint32, also ...int) (*os.File, error) {
	dir, base := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	folder := os.NewFile(uintptr(fd), dir)
	defer folder.Close() //nolint:errcheck // it is only a place to begin
	info, err := folder.Stat()
	if err != nil {
		return nil, err
	}
	if err := checkDirectory(filepath.Clean(dir), info, false, also); err != nil {
		return nil, err
	}
	fd, err = unix.Openat(fd, base,
		flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, mode)
	if errors.Is(err, unix.ELOOP) {
		return nil, &Error{
			Path: path,
			Why:  "it is a symbolic link",
			Do:   "replace it by what it leads to, or remove it",
		}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if info, err = f.Stat(); err == nil {
		if err = checkEntry(path, info, also); err == nil && !info.Mode().IsRegular() {
			err = &Error{Path: path, Why: "it is no regular file", Do: "remove it"}
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
