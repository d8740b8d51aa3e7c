package symbol

import (
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// openRegular opens a file by a path of ours, which may end in a link of /proc. Only what is a regular file is opened at all:
// to open a device does something to it.
func openRegular(path string) (*os.File, fileKey, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fileKey{}, err
	}
	return reopen(fd)
}

// openBelow opens a file as a process sees it whose root is dir: no link leads out of there.
func openBelow(dir, name string) (*os.File, fileKey, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fileKey{}, err
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(root, name, &how)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before 5.6, or hidden by a container's filter
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

// reopen makes a file to read from of one that was only looked up; it closes fd.
func reopen(fd int) (*os.File, fileKey, error) {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fileKey{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fileKey{}, fs.ErrInvalid
	}
	key := fileKey{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), owner: st.Uid}
	f, err := os.Open("/proc/self/fd/" + strconv.Itoa(fd))
	return f, key, err
}

// ownedBy tells whether a file belongs to who a process runs as, or to root: what others wrote is not believed.
func ownedBy(f *os.File, proc string) bool {
	var file, process unix.Stat_t
	if unix.Fstat(int(f.Fd()), &file) != nil || unix.Stat(proc, &process) != nil {
		return false
	}
	return file.Uid == 0 || file.Uid == process.Uid
}
