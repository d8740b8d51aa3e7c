package kernel

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Quiet tells of several sockets at once whether any of them has something to receive: epoll(7), which sees a list that is empty, where
// asking each takes a system call and a lock a socket. The zero value watches nothing and is never quiet.
type Quiet struct {
	made bool
	fd   int
}

// Watch makes it watch the sockets; nil ones and those closed later are left out. Where the kernel can't, it stays as it was: never quiet. Who calls it
// calls Close.
func (q *Quiet) Watch(conns ...*Conn) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return
	}
	for _, c := range conns {
		if c == nil {
			continue
		}
		if unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: unix.EPOLLIN}) != nil {
			unix.Close(fd)
			return
		}
	}
	q.Close()
	q.made, q.fd = true, fd
}

// Now says whether none of the sockets has anything to receive, neither events nor an error. It never waits.
func (q *Quiet) Now() bool {
	if !q.made {
		return false
	}
	var found unix.EpollEvent
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(q.fd), uintptr(unsafe.Pointer(&found)), 1, 0, 0, 0)
	return e == 0 && n == 0
}

// Close ends it; a second Close does nothing.
func (q *Quiet) Close() {
	if q.made {
		unix.Close(q.fd)
		q.made = false
	}
}
