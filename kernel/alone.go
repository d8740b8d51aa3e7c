package kernel

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ioctl is ioctl(2) with a pointer as its argument. The error is bare.
func (r Root) Ioctl(fd int, request uintptr, argument unsafe.Pointer) unix.Errno {
	var e unix.Errno
	if r.Alone {
		_, _, e = unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
	} else {
		_, _, e = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
	}
	return e
}

// Excepted says whether poll(2) has an exceptional condition to tell of the file, as /proc/self/mountinfo after a change. It never waits.
func Excepted(fd int) (bool, error) {
	ask := unix.PollFd{Fd: int32(fd), Events: unix.POLLPRI}
	var now unix.Timespec
	for {
		switch n, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&ask)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0); e {
		case 0:
			return n > 0 && ask.Revents&(unix.POLLPRI|unix.POLLERR) != 0, nil
		case unix.EINTR: // a signal came before it looked
		default:
			return false, errno(e)
		}
	}
}

// Statfs is statfs(2). quick says that the file system answers from memory, as those of disks do and those of the network don't. The
// error is bare.
func (r Root) Statfs(path string, st *unix.Statfs_t, quick bool) error {
	var room [pathBuffer]byte
	p := append(append(room[:0], path...), 0)
	// Where int has 32 bits the call has other arguments.
	if !r.Alone || !quick || strconv.IntSize != 64 || len(p) > len(room) {
		return asErr(unix.Statfs(path, st))
	}
	if _, _, e := unix.RawSyscall(unix.SYS_STATFS, uintptr(unsafe.Pointer(&room[0])), uintptr(unsafe.Pointer(st)), 0); e != 0 {
		return errno(e)
	}
	return nil
}
