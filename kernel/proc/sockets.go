package proc

import (
	"errors"
	"strconv"
	"unsafe"

	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// socketLink is how /proc/PID/fd shows a socket: "socket:[12345]" (sockfs_dname in net/socket.c).
const socketLink = "socket:["

// Sockets calls f with each open file of process pid and the inode of the socket that it is, 0 when it is something else, where d is
// /proc. buf is room for directory entries, 4 KiB or more (a fuller buffer saves calls); seen counts the open files looked at. It
// allocates nothing. errors.Is fs.ErrNotExist when the process has ended, measure.ErrDenied when its files may not be
// seen: other users' processes take CAP_DAC_READ_SEARCH for the directory and CAP_SYS_PTRACE for the links in it
// (proc_fd_permission and proc_fd_link in fs/proc). f says whether to go on.
func (d *Dir) Sockets(pid int32, buf []byte, f func(fd int32, inode uint64) bool) (seen int, err error) {
	var p [pathBuffer]byte
	dir, err := openAt(d.fd, appendPID(p[:0], pid, "fd"), unix.O_DIRECTORY)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	var link [64]byte
	var denied error
	for {
		n, err := getdents(dir, buf)
		if err != nil {
			return seen, err
		}
		if n == 0 {
			return seen, denied
		}
		for b := buf[:n]; ; {
			var e dirent
			if e, b = nextDirent(b); e.name == nil {
				break
			}
			fd, err := ParseUint(e.name)
			if err != nil || fd > 1<<31-1 { // "." and ".."
				continue
			}
			seen++
			target, err := readLinkAt(dir, e.name[:len(e.name)+1], link[:]) // with its NUL
			switch {
			case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
				denied = err
			case err != nil: // closed meanwhile
			default:
				if inode, _ := socketInode(target); !f(int32(fd), inode) {
					return seen, denied
				}
			}
		}
	}
}

// Socket gives the inode of the socket that process pid has open as fd, where d is /proc; 0 when fd is something else.
// errors.Is fs.ErrNotExist when fd is not open or the process has ended; measure.ErrDenied as for Sockets.
func (d *Dir) Socket(pid, fd int32) (inode uint64, err error) {
	var p, link [64]byte
	path := append(strconv.AppendInt(appendPID(p[:0], pid, "fd/"), int64(fd), 10), 0)
	target, err := readLinkAt(d.fd, path, link[:])
	if err != nil {
		return 0, err
	}
	inode, _ = socketInode(target)
	return inode, nil
}

// OpenFiles tells how many files process pid has open, where d is /proc: the size of /proc/PID/fd (proc_fd_getattr in fs/proc/fd.c, since
// Linux 6.2; always 0 before). It takes no right and costs as much as one link. errors.Is fs.ErrNotExist when the process has ended.
func (d *Dir) OpenFiles(pid int32) (int, error) {
	var p [64]byte
	path := append(appendPID(p[:0], pid, "fd"), 0)
	var st unix.Statx_t
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(d.fd), uintptr(unsafe.Pointer(&path[0])), 0, unix.STATX_SIZE, uintptr(unsafe.Pointer(&st)), 0)
	if e != 0 {
		return 0, kernel.Errno(e)
	}
	return int(st.Size), nil
}

// socketInode reads "socket:[12345]".
func socketInode(link []byte) (uint64, bool) {
	if len(link) < len(socketLink)+2 || string(link[:len(socketLink)]) != socketLink || link[len(link)-1] != ']' {
		return 0, false
	}
	inode, err := ParseUint(link[len(socketLink) : len(link)-1])
	return inode, err == nil
}
