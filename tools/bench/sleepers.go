package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startSleepers starts a process with n children that sleep. They are forks without exec: to start
// 10,000 programs would take a minute.
func startSleepers(n int) error {
	cmd := exec.Command("/proc/self/exe", "sleep", strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the parent of sleeping processes: %w", err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		return fmt.Errorf("wait for %d sleeping processes: %w", n, err)
	}
	return nil
}

// sleepers forks children that sleep, writes a byte when all are there, and sleeps too.
func sleepers(count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	names := sleeperNames()
	for i := range n {
		if err := forkSleeper(&names[i%len(names)]); err != nil {
			return fmt.Errorf("fork sleeping process %d of %d: %w", i+1, n, err)
		}
	}
	if _, err := os.Stdout.Write([]byte{'.'}); err != nil {
		return err
	}
	for {
		unix.Pause() //nolint:errcheck // it returns after a signal, with EINTR
	}
}

// sleeperNames returns 200 names of processes: a large machine runs many processes of few programs.
func sleeperNames() []threadName {
	names := make([]threadName, 200)
	for i := range names {
		copy(names[i][:], fmt.Sprint("sleeper-", i))
	}
	return names
}

// threadName is a name as prctl(2) takes it, with a zero byte at its end.
type threadName [16]byte

// forkSleeper forks a child that has the name and only sleeps.
func forkSleeper(name *threadName) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, errno := forkAndPause(name)
	if errno != 0 {
		return errno
	}
	if pid <= 0 {
		return errors.New("fork returned no process")
	}
	return nil
}

// forkAndPause is a fork whose child never returns. The child has one thread and a copy of the Go
// runtime that no longer works, so it makes system calls only and grows no stack.
//
//go:nosplit
//go:norace
func forkAndPause(name *threadName) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	syscall.RawSyscall(syscall.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)), 0)
	for {
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
