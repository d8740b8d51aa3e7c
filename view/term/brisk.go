package term

import (
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// brisk writes to a pipe or a terminal that has room without telling Go's scheduler: that would
// wake the runtime's monitor thread, each interval, on another CPU. What does not go in at once is
// written in the ordinary way, which may wait for long. The file stays open as long as anybody
// writes.
type brisk struct {
	f    *os.File
	fd   uintptr
	asks bool // the file knows nothing of writing what goes in without waiting: poll(2) is asked before
}

// newBrisk gives the file itself where it is neither: a write to a disk's file may wait although
// poll(2) says ready.
func newBrisk(f *os.File) io.Writer {
	if f == nil {
		return f
	}
	var st unix.Stat_t
	fd := f.Fd()
	if unix.Fstat(int(fd), &st) != nil {
		return f
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFCHR:
		return &brisk{f: f, fd: fd}
	}
	return f
}

// Write implements io.Writer.
func (w *brisk) Write(b []byte) (int, error) {
	n := w.atOnce(b)
	if n == len(b) {
		return n, nil
	}
	m, err := w.f.Write(b[n:])
	return n + m, err
}

// atOnce writes what surely goes in and gives how much. A pipe that may not wait takes as much as
// it has room for, and one that is ready takes PIPE_BUF bytes without waiting: pipe(7). A terminal
// that is ready takes some, and a signal ends its wait for room for more.
func (w *brisk) atOnce(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	if !w.asks {
		// pwritev2(2) with RWF_NOWAIT: pipes of newer kernels have it, terminals have not, nor has
		// a kernel before 4.14.
		const here = ^uintptr(0) // at the file's own position
		part := unix.Iovec{Base: &b[0]}
		part.SetLen(len(b))
		n, _, e := unix.RawSyscall6(
			unix.SYS_PWRITEV2, w.fd, uintptr(unsafe.Pointer(&part)), 1, here, here, unix.RWF_NOWAIT,
		)
		switch e {
		case 0:
			return int(n)
		case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL:
			w.asks = true
		default:
			return 0
		}
	}
	const pipeBuffer = 4096 // PIPE_BUF
	if len(b) > pipeBuffer {
		return 0
	}
	ask := unix.PollFd{Fd: int32(w.fd), Events: unix.POLLOUT}
	var now unix.Timespec
	n, _, e := unix.RawSyscall6(
		unix.SYS_PPOLL, uintptr(unsafe.Pointer(&ask)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0,
	)
	if e != 0 || n != 1 || ask.Revents != unix.POLLOUT {
		return 0
	}
	n, _, e = unix.RawSyscall(unix.SYS_WRITE, w.fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	if e != 0 {
		return 0 // the ordinary way meets the same error and knows what to do with it
	}
	return int(n)
}
