package proc

import (
	"errors"
	"strconv"
	"unsafe"

	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// socketLink begins a link of /proc/PID/fd to a socket: "socket:[12345]" (sockfs_dname in
// net/socket.c).
const socketLink = "socket:["

// Sockets calls f with each open file of process pid, where d is /proc, until f returns false.
// inode is the socket's, 0 for a file that is no socket. buf receives directory entries: 4 KiB or
// more, a longer buffer saves calls. seen counts the files. It allocates nothing.
//
// errors.Is fs.ErrNotExist: the process has ended; measure.ErrDenied: other users' processes
// require CAP_DAC_READ_SEARCH for the directory and CAP_SYS_PTRACE for its links
// (proc_fd_permission and proc_fd_link in fs/proc).
func (d *Dir) Sockets(pid int32, buf []byte, f func(fd int32, inode uint64) bool) (seen int,
	err error) {
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

// Socket returns the inode of the socket that process pid has open as fd, where d is /proc; 0 when
// fd is no socket. errors.Is fs.ErrNotExist: fd is not open or the process has ended;
// measure.ErrDenied: as for Sockets.
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

// OpenFiles returns the number of open files of process pid, where d is /proc: the size of
// /proc/PID/fd (proc_fd_getattr in fs/proc/fd.c, since Linux 6.2; always 0 before). It opens
// nothing that the caller must close, and requires no capability. errors.Is fs.ErrNotExist: the
// process has ended.
func (d *Dir) OpenFiles(pid int32) (int, error) {
	var p [64]byte
	path := append(appendPID(p[:0], pid, "fd"), 0)
	var st unix.Statx_t
	_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(d.fd), uintptr(unsafe.Pointer(&path[0])), 0,
		unix.STATX_SIZE, uintptr(unsafe.Pointer(&st)), 0)
	if e != 0 {
		return 0, kernel.Errno(e)
	}
	return int(st.Size), nil
}

// socketInode parses "socket:[12345]".
func socketInode(link []byte) (uint64, bool) {
	if len(link) < len(socketLink)+2 || string(link[:len(socketLink)]) != socketLink ||
		link[len(link)-1] != ']' {
		return 0, false
	}
	inode, err := ParseUint(link[len(socketLink) : len(link)-1])
	return inode, err == nil
}
