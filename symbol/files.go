package symbol

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openRegular opens a file by a path of our own, which may end in a link of /proc. It opens regular
// files only: opening a device has effects.
func openRegular(path string) (*os.File, fileKey, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fileKey{}, err
	}
	return reopen(fd)
}

// openBelow opens a file as a process with the root dir sees it. No link leads out of dir.
func openBelow(dir, name string) (*os.File, fileKey, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fileKey{}, err
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, name, &how)
	// before 5.6, or hidden by a container's filter
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		if len(name) > 0 && name[0] == '/' {
			name = name[1:]
		}
		fd, err = unix.Openat(root, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, fileKey{}, err
	}
	return reopen(fd)
}

// reopen opens for reading a file that was only looked up, and closes fd.
func reopen(fd int) (*os.File, fileKey, error) {
	defer unix.Close(fd)
	key, err := statKey(fd)
	if err != nil {
		return nil, fileKey{}, err
	}
	f, err := os.OpenFile("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDONLY|unix.O_NONBLOCK, 0)
	return f, key, err
}

// statKey returns the key of a regular file by its descriptor.
func statKey(fd int) (fileKey, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileKey{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileKey{}, fs.ErrInvalid
	}
	return fileKey{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(),
		owner: st.Uid}, nil
}

// ownedBy reports whether a file belongs to the user of a process or to root. Files of others are
// not trusted.
func ownedBy(f *os.File, proc string) bool {
	var file, process unix.Stat_t
	if unix.Fstat(int(f.Fd()), &file) != nil || unix.Stat(proc, &process) != nil {
		return false
	}
	return file.Uid == 0 || file.Uid == process.Uid
}
