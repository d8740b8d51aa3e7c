package load

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socket is a TCP connection with blocking calls: the kernel wakes the waiting thread directly.
// It is not registered with Go's poller, which would wake another thread for each packet and halve
// the rate of transactions.
type socket struct {
	fd   int
	once sync.Once // for close
}

// socketOf takes over the connection, even on error. The caller closes the socket.
func socketOf(c interface {
	net.Conn
	syscall.Conn
}) (*socket, error) {
	defer c.Close() // this removes it from the poller; an os.File would be added again
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	s := &socket{fd: -1}
	var e error
	err = raw.Control(func(fd uintptr) { s.fd, e = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, e); err == nil {
		err = unix.SetNonblock(s.fd, false)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	return s, nil
}

// setting returns the error of an option with its name.
func setting(what string, err error) error {
	if err != nil {
		return fmt.Errorf("set %s: %w", what, err)
	}
	return nil
}

// setBuffers sets the buffers of a socket as the test has them.
func (s *socket) setBuffers(t *Test) error {
	if t.Window == 0 {
		return nil
	}
	buffer := func(option int) error {
		return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, option, t.Window)
	}
	return errors.Join(
		setting("SO_SNDBUF", buffer(unix.SO_SNDBUF)), setting("SO_RCVBUF", buffer(unix.SO_RCVBUF)),
	)
}

func (s *socket) setNoDelay(on int) error {
	return setting("TCP_NODELAY", unix.SetsockoptInt(s.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, on))
}

// configure sets the test's options of a connection.
func (s *socket) configure(t *Test, sends bool) error {
	var err error
	if t.NoDelay || t.Kind == Exchange {
		err = s.setNoDelay(1)
	} else {
		// Go sets it on all connections.
		err = s.setNoDelay(0)
	}
	err = errors.Join(err, s.setBuffers(t))
	if t.Congestion != "" && sends {
		e := unix.SetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, t.Congestion)
		if e != nil {
			err = errors.Join(err, &congestionError{t.Congestion, e})
		}
	}
	return err
}

// congestionError means that the kernel lacks the algorithm, or does not allow it for this user.
type congestionError struct {
	name string
	err  error
}

// Error returns the name of the algorithm and, if known, the available ones.
func (e *congestionError) Error() string {
	const file = "/proc/sys/net/ipv4/tcp_available_congestion_control"
	if b, err := os.ReadFile(file); err == nil && errors.Is(e.err, unix.ENOENT) {
		return fmt.Sprintf("no congestion control %q; this kernel has: %s", e.name,
			printable(string(b)))
	}
	return fmt.Sprintf("set congestion control %s: %v", e.name, e.err)
}

func (e *congestionError) Unwrap() error { return e.err }

// congestion returns the socket's algorithm; "" when unknown.
func (s *socket) congestion() string {
	name, err := unix.GetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return ""
	}
	return name
}

// end makes threads that wait for the connection return, here and at the other end.
func (s *socket) end() { _ = unix.Shutdown(s.fd, unix.SHUT_RDWR) }

// close closes the socket. No thread may use it afterwards.
func (s *socket) close() {
	s.once.Do(func() {
		if s.fd >= 0 {
			unix.Close(s.fd) //nolint:errcheck // the descriptor is closed in any case
		}
	})
}

// send writes all of b.
func (s *socket) send(b []byte) error {
	for len(b) > 0 {
		n, _, e := unix.Syscall6(unix.SYS_SENDTO, uintptr(s.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL, 0, 0)
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

// sendNow is send without blocking: the runtime is not informed of the system call. It blocks, like
// send, when the kernel's buffer is full.
func (s *socket) sendNow(b []byte) error {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
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

// receive reads at most len(b) bytes; 0 at the end. With MSG_TRUNC in flags TCP discards the data
// without copying (since 2.4, tcp(7)).
func (s *socket) receive(b []byte, flags int) (int, error) {
	for {
		n, _, e := unix.Syscall6(unix.SYS_RECVFROM, uintptr(s.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// tcpInfo contains the kernel's numbers of a connection (struct tcp_info,
// include/uapi/linux/tcp.h), and how many bytes of it the kernel filled.
type tcpInfo struct {
	unix.TCPInfo
	size uint32
}

// The end of members that some kernels lack.
const (
	infoRetransmits = 104 // tcpi_total_retrans, since 2.6
	infoLimits      = 192 // tcpi_busy_time, _rwnd_limited, _sndbuf_limited: since 4.10
)

func (s *socket) info() (i tcpInfo, err error) {
	i.size = unix.SizeofTCPInfo
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.IPPROTO_TCP, unix.TCP_INFO,
		uintptr(unsafe.Pointer(&i.TCPInfo)), uintptr(unsafe.Pointer(&i.size)), 0)
	if e != 0 {
		return i, e
	}
	return i, nil
}

// threadClock returns the clock ID of a thread's CPU time (clock_getcpuclockid(3),
// MAKE_THREAD_CPUCLOCK of include/linux/posix-timers_types.h).
func threadClock(tid int) int32 { return ^int32(tid)<<3 | 4 | 2 }

// clockTime returns a clock's time in ns. It reports false when the thread has ended.
func clockTime(clock int32) (int64, bool) {
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0, false
	}
	return t.Nano(), true
}

// lockThread locks the goroutine to its thread and returns the thread's ID.
func lockThread() int {
	runtime.LockOSThread()
	return unix.Gettid()
}
