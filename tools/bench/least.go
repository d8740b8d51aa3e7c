package main

import (
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"
)

// least is the smallest Go program for a table of network devices. Each second a kernel timer wakes
// it, it requests the 64-bit counters by netlink and writes a line. It has no names, no rates and
// no errors. Its cost is a lower limit for culprit's tables.
func least() error {
	runtime.GOMAXPROCS(1)
	const clockMonotonic, nonBlock, closeOnExec = 1, syscall.O_NONBLOCK, syscall.O_CLOEXEC
	fd, _, e := syscall.RawSyscall(
		syscall.SYS_TIMERFD_CREATE, clockMonotonic, nonBlock|closeOnExec, 0,
	)
	if e != 0 {
		return os.NewSyscallError("timerfd_create", e)
	}
	timer := os.NewFile(fd, "timerfd")
	wait, err := timer.SyscallConn()
	if err != nil {
		return err
	}
	spec := [4]int64{1, 0, 1, 0} // struct itimerspec: every second, in a second
	if _, _, e := syscall.RawSyscall6(
		syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0,
	); e != 0 {
		return os.NewSyscallError("timerfd_settime", e)
	}
	ask, err := syscall.Socket(
		syscall.AF_NETLINK, syscall.SOCK_RAW|closeOnExec, syscall.NETLINK_ROUTE,
	)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := syscall.Bind(ask, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	// RTM_GETSTATS, IFLA_STATS_LINK_64, nlmsghdr and if_stats_msg.
	const getStats, link64, headers = 94, 1, 16 + 12
	var request [headers]byte
	*(*uint32)(unsafe.Pointer(&request[0])) = headers
	*(*uint16)(unsafe.Pointer(&request[4])) = getStats
	*(*uint16)(unsafe.Pointer(&request[6])) = syscall.NLM_F_REQUEST | syscall.NLM_F_DUMP
	*(*uint32)(unsafe.Pointer(&request[24])) = 1 << (link64 - 1)
	answer, line := make([]byte, 64<<10), make([]byte, 0, 4096)
	var ended [8]byte
	woken := func(fd uintptr) bool {
		n, _, e := syscall.RawSyscall(
			syscall.SYS_READ, fd, uintptr(unsafe.Pointer(&ended)), uintptr(len(ended)),
		)
		return e == 0 && n > 0
	}
	for {
		if err := wait.Read(woken); err != nil {
			return err
		}
		if _, _, e := syscall.RawSyscall(
			syscall.SYS_WRITE, uintptr(ask), uintptr(unsafe.Pointer(&request)), headers,
		); e != 0 {
			return os.NewSyscallError("write", e)
		}
		n, _, e := syscall.RawSyscall(
			syscall.SYS_READ, uintptr(ask), uintptr(unsafe.Pointer(&answer[0])),
			uintptr(len(answer)),
		)
		if e != 0 {
			return os.NewSyscallError("read", e)
		}
		line = line[:0]
		// Each: the headers, an attribute, rx_packets, tx_packets, rx_bytes ...
		for b := answer[:n]; len(b) > headers+4+24; {
			line = strconv.AppendUint(line, *(*uint64)(unsafe.Pointer(&b[headers+4+16])), 10)
			line = append(line, ' ')
			b = b[min(len(b), int(*(*uint32)(unsafe.Pointer(&b[0]))+3)&^3):]
		}
		line = append(line, '\n')
		if _, _, e := syscall.RawSyscall(
			syscall.SYS_WRITE, 1, uintptr(unsafe.Pointer(&line[0])), uintptr(len(line)),
		); e != 0 {
			return os.NewSyscallError("write", e)
		}
	}
}
