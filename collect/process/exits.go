package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/netlink"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// exit is the end of a process.
type exit struct {
	process     string
	pid, parent int32
	code        uint32  // as wait(2) returns it; 0: it succeeded
	lived       float64 // microseconds
}

// end returns how a process ended: "code 1", "SIGSEGV".
func (e *exit) end() string {
	signal := e.code & 0x7f // bit 7: it dumped core
	if signal == 0 {
		return "code " + strconv.FormatUint(uint64(e.code>>8&0xff), 10)
	}
	if name := unix.SignalName(unix.Signal(signal)); name != "" {
		return name
	}
	return "signal " + strconv.FormatUint(uint64(signal), 10)
}

// Offsets in struct taskstats of what is known of a process at its end: see tsVersion.
//
//	4   ac_exitcode u32: of the first thread of a process; 0 of other threads
//	80  ac_comm[32]
//	120 ac_uid  ac_gid  ac_pid  ac_ppid  ac_btime (u32 each)
//	144 ac_etime u64, microseconds
const (
	tsExitCode, tsComm, tsCommSize, tsPID, tsParent, tsElapsed = 4, 80, 32, 128, 132, 144
)

// parseExit parses a message about a thread that has ended: nlmsghdr, genlmsghdr, AGGR_PID { PID,
// STATS }. ok is false for other messages.
func parseExit(b []byte) (e exit, ok bool) {
	if len(b) < unix.NLMSG_HDRLEN || binary.NativeEndian.Uint16(b[4:]) < unix.NLMSG_MIN_TYPE {
		return e, false
	}
	_, attrs, ok := netlink.Generic(b[unix.NLMSG_HDRLEN:])
	if !ok {
		return e, false
	}
	for a := netlink.AttrsOf(attrs); a.Next(); {
		if a.Type() != taskstatsAggrPID {
			continue
		}
		for n := a.Nested(); n.Next(); {
			s := n.Value()
			if n.Type() != taskstatsTypeStats || len(s) < tsElapsed+8 {
				continue
			}
			u := func(at int) uint32 { return binary.NativeEndian.Uint32(s[at:]) }
			name := s[tsComm : tsComm+tsCommSize]
			for i, c := range name {
				if c == 0 {
					name = name[:i]
					break
				}
			}
			return exit{process: string(appendClean(nil, name)), pid: int32(u(tsPID)),
				parent: int32(u(tsParent)), code: u(tsExitCode),
				lived: float64(binary.NativeEndian.Uint64(s[tsElapsed:]))}, true
		}
	}
	return e, false
}

// Attributes of the command taskstatsGet that register the socket for the threads that end on some
// CPUs, and the reverse.
const (
	taskstatsRegister   = 3
	taskstatsDeregister = 4
)

// exitSocket is the exitListener of taskstats.
type exitSocket struct {
	socket *os.File
	raw    rawReader
	family netlink.Family
	cpus   string // list of all possible CPUs
}

// rawReader is syscall.RawConn for reading.
type rawReader interface {
	Read(f func(fd uintptr) (done bool)) error
	Control(f func(fd uintptr)) error
}

// exitQueue is the size of the socket's queue in bytes: 400 messages or more.
const exitQueue = 1 << 20

// listenExits opens a socket that receives the statistics of threads that end. The error is
// measure.ErrDenied without CAP_NET_ADMIN, and measure.ErrUnsupported outside of the first PID and
// user namespaces. The caller closes it.
func listenExits(env *collect.Env) (exitListener, error) {
	const path = "devices/system/cpu/possible"
	cpus, err := proc.ReadFile(env.Root.InSys(path), nil)
	if err != nil {
		return nil, err
	}
	conn, err := netlink.Dial(unix.NETLINK_GENERIC, netlink.Options{})
	if err != nil {
		return nil, err
	}
	family, err := conn.Family("TASKSTATS")
	conn.Close()
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
		unix.NETLINK_GENERIC)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", kernel.AsError(err))
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, exitQueue) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, exitQueue)
	}
	s := &exitSocket{socket: os.NewFile(uintptr(fd), "taskstats"), family: family}
	for _, c := range cpus {
		if c > ' ' {
			s.cpus += string(rune(c))
		}
	}
	if s.raw, err = s.socket.SyscallConn(); err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	if err == nil {
		err = s.Turn(true)
	}
	if err == nil {
		err = answer(fd)
	}
	if err != nil {
		s.socket.Close()
		return nil, refusedToListen(err)
	}
	s.filter(fd)
	return s, nil
}

// refusedToListen returns why the kernel sends no messages.
func refusedToListen(err error) error {
	err = kernel.AsError(err)
	switch {
	case errors.Is(err, measure.ErrDenied):
		return kernel.Refused("ask the kernel for the ends of processes", "", unix.CAP_NET_ADMIN)
	case errors.Is(err, unix.EINVAL):
		return collect.Unsupported("the kernel reports the ends of processes in the first PID " +
			"and user namespaces only, not in a container")
	}
	return fmt.Errorf("ask the kernel for the ends of processes: %w", err)
}

// filter attaches a filter that drops messages of threads whose code is 0, before they use the
// queue or wake a reader. Without it parseExit does the same.
//
//	if (length < 44 || exitcode == 0) drop; else take
//
// exitcode is at 40: nlmsghdr 16, genlmsghdr 4, AGGR_PID 4, PID 8, STATS 4, version 4. Processors
// without unaligned access have a padding attribute before STATS.
func (s *exitSocket) filter(fd int) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return
	}
	const at = unix.NLMSG_HDRLEN + 4 + 4 + 8 + 4 + tsExitCode
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}, // beyond the end: drop
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 0, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
	// When it is refused, all messages come.
	_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
}

// Turn registers the socket for all CPUs, or the reverse. The filter drops the kernel's answer.
func (s *exitSocket) Turn(on bool) error {
	attr := uint16(taskstatsDeregister)
	if on {
		attr = taskstatsRegister
	}
	var q netlink.Request
	q.BeginGeneric(s.family, taskstatsGet, 0)
	q.AttrString(attr, s.cpus)
	b, err := q.Message(unix.NLM_F_REQUEST | unix.NLM_F_ACK)
	if err != nil {
		return err
	}
	var failed error
	err = s.raw.Control(func(fd uintptr) {
		failed = unix.Sendto(int(fd), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	return errors.Join(err, failed)
}

// answer returns the error of the kernel's answer to a registration. The kernel has answered when
// the request is sent, and messages may come before the answer.
func answer(fd int) error {
	b := make([]byte, 4096)
	for {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
		if err != nil {
			return err
		}
		if n < unix.NLMSG_HDRLEN+4 || binary.NativeEndian.Uint16(b[4:]) != unix.NLMSG_ERROR {
			continue
		}
		if e := -int32(binary.NativeEndian.Uint32(b[unix.NLMSG_HDRLEN:])); e != 0 {
			return unix.Errno(e)
		}
		return nil
	}
}

// Receive implements exitListener.
func (s *exitSocket) Receive(b []byte, wait bool) (n int, err error) {
	var failed error
	take := func(fd uintptr) bool {
		var from unix.Sockaddr
		n, from, failed = unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(failed, unix.EAGAIN), errors.Is(failed, unix.EINTR):
			n, failed = 0, nil
			return !wait
		case errors.Is(failed, unix.ENOBUFS):
			n, failed = 0, errExitsLost
		case failed == nil && !isKernel(from):
			n = 0
		}
		return true
	}
	if err = s.raw.Read(take); err != nil {
		return 0, err
	}
	return max(n, 0), failed
}

// isKernel reports whether a message is from the kernel, not from a process.
func isKernel(from unix.Sockaddr) bool {
	nl, ok := from.(*unix.SockaddrNetlink)
	return ok && nl.Pid == 0
}

// Close implements exitListener. The kernel ends the registration.
func (s *exitSocket) Close() error {
	_ = s.Turn(false) // the next message would end it too
	return s.socket.Close()
}
