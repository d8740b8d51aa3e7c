package load

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socket carries traffic: a TCP connection whose calls block, so that a thread that waits for it is woken by the kernel itself. Go's poller knows nothing of it: what is
// registered there wakes another thread at each packet, which halves the transactions a second.
type socket struct {
	fd   int
	once sync.Once // closes it
}

// socketOf takes the connection over, also when that fails.
func socketOf(c *net.TCPConn) (*socket, error) {
	defer c.Close() // and so it leaves the poller; an os.File of it would be in it again
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("take the connection over: %w", err)
	}
	s := &socket{fd: -1}
	var e error
	err = raw.Control(func(fd uintptr) { s.fd, e = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, e); err == nil {
		err = unix.SetNonblock(s.fd, false)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("take the connection over: %w", err)
	}
	return s, nil
}

// arrange sets what the test says of a connection that this end sends on, or not.
func (s *socket) arrange(t *Test, sends bool) error {
	set := func(what string, err error) error {
		if err != nil {
			return fmt.Errorf("set %s: %w", what, err)
		}
		return nil
	}
	var err error
	if t.NoDelay || t.Kind == Exchange {
		err = set("TCP_NODELAY", unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	} else {
		err = set("TCP_NODELAY", unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 0)) // Go sets it on all
	}
	if t.Window > 0 {
		err = errors.Join(err, set("SO_SNDBUF", unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, t.Window)),
			set("SO_RCVBUF", unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, t.Window)))
	}
	if t.Congestion != "" && sends {
		if e := unix.SetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, t.Congestion); e != nil {
			err = errors.Join(err, &congestionError{t.Congestion, e})
		}
	}
	return err
}

// congestionError says that the kernel has no such algorithm, or not for this user.
type congestionError struct {
	name string
	err  error
}

// Error names the algorithm and, where it can be told, those that there are.
func (e *congestionError) Error() string {
	const file = "/proc/sys/net/ipv4/tcp_available_congestion_control"
	if b, err := os.ReadFile(file); err == nil && errors.Is(e.err, unix.ENOENT) {
		return fmt.Sprintf("there is no congestion control %q; this kernel has now: %s", e.name, printable(string(b)))
	}
	return fmt.Sprintf("set congestion control %s: %v", e.name, e.err)
}

func (e *congestionError) Unwrap() error { return e.err }

// congestion gives the algorithm that the socket has; "" when it can't be told.
func (s *socket) congestion() string {
	name, err := unix.GetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return ""
	}
	return name
}

// end makes threads that wait for the connection return, here and at the other end.
func (s *socket) end() { _ = unix.Shutdown(s.fd, unix.SHUT_RDWR) } // it may be over

// close lets go of it. No thread may use it any more.
func (s *socket) close() {
	s.once.Do(func() {
		if s.fd >= 0 {
			unix.Close(s.fd) //nolint:errcheck // what it held is gone either way
		}
	})
}

// send writes all of b.
func (s *socket) send(b []byte) error {
	for len(b) > 0 {
		n, _, e := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
		if e != 0 {
			if e == unix.EINTR {
				continue
			}
			return e
		}
		b = b[n:]
	}
	return nil
}

// sendNow is send for what the kernel has room for: it does not wait, so the runtime is not told that it might. It does wait where there is no room.
func (s *socket) sendNow(b []byte) error {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	if e == 0 && int(n) == len(b) {
		return nil
	}
	switch e {
	case 0:
		b = b[n:]
	case unix.EAGAIN, unix.EINTR:
	default:
		return e
	}
	return s.send(b)
}

// receive reads at most len(b) bytes; 0 at the end. With MSG_TRUNC among the flags TCP throws them away and copies nothing (since 2.4, tcp(7)).
func (s *socket) receive(b []byte, flags int) (int, error) {
	for {
		n, _, e := unix.Syscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// tcpInfo is what the kernel tells of a connection (struct tcp_info, include/uapi/linux/tcp.h), and how much of it it knows.
type tcpInfo struct {
	unix.TCPInfo
	size uint32
}

// The first byte behind members that not every kernel has.
const (
	infoRetransmits = 104 // tcpi_total_retrans, since 2.6
	infoLimits      = 192 // tcpi_busy_time, _rwnd_limited, _sndbuf_limited: since 4.10
)

func (s *socket) info() (i tcpInfo, err error) {
	i.size = unix.SizeofTCPInfo
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.IPPROTO_TCP, unix.TCP_INFO, uintptr(unsafe.Pointer(&i.TCPInfo)), uintptr(unsafe.Pointer(&i.size)), 0)
	if e != 0 {
		return i, e
	}
	return i, nil
}

// threadClock gives the clock of a thread of this process: its CPU time (clock_getcpuclockid(3), MAKE_THREAD_CPUCLOCK of
// include/linux/posix-timers_types.h).
func threadClock(tid int) int32 { return ^int32(tid)<<3 | 4 | 2 }

// clockTime gives what a clock says, in ns; false when it has none: the thread has ended.
func clockTime(clock int32) (int64, bool) {
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0, false
	}
	return t.Nano(), true
}

// lockThread keeps the goroutine on a thread of its own from now on, and gives that one's number.
func lockThread() int {
	runtime.LockOSThread()
	return unix.Gettid()
}
