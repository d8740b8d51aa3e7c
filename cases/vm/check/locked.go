package main

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockedChecks run commands without CAP_SYS_RESOURCE, so that they can't raise the limit of locked
// memory. Linux before 5.11 counts BPF maps and programs against it.
func lockedChecks() []check {
	const script = `syscall:::entry { @[execname] = count(); } tick-1s { exit(0); }`
	return []check{
		{
			row:   "`trace`, 4 MiB of locked memory",
			alone: true,
			run:   locked(4096, "check", "trace", "-qn", script),
		},
		{
			row:   "`profile`, 4 MiB of locked memory",
			alone: true,
			run:   locked(4096, "main.spin", "profile", "--for", "1s", "--format", "folded"),
		},
		{
			row:   "`trace`, no locked memory",
			alone: true,
			run:   locked(0, "check", "trace", "-qn", script),
		},
	}
}

// locked runs a command with a limit of locked memory in KiB. It works, with a note where maps are
// smaller for it, or the message has the limit and what to do. The cell says which.
func locked(kib int, want string, args ...string) func(*scene, *Result) error {
	return func(s *scene, r *Result) error {
		out, errs, err := s.limited(kib, args)
		var failed *failure
		switch {
		case errors.As(err, &failed) && strings.Contains(failed.said, "ulimit -l unlimited") &&
			strings.Contains(failed.said, "before 5.11"):
			r.Cell = "from 5.11"
			return nil
		case err != nil:
			return err
		case !strings.Contains(string(out), want):
			return fmt.Errorf("no %q in %.1500s%.1500s", want, out, errs)
		case strings.Contains(string(errs), "of their usual size, for the limit of locked memory"):
			r.Cell = "yes; smaller maps before 5.11"
		}
		return nil
	}
}

// limited runs a command of culprit with a limit of locked memory and without the right to raise
// it.
func (s *scene) limited(kib int, args []string) (out, errs []byte, err error) {
	// The commands that this process starts inherit the limit, and it starts no others any more.
	limit := unix.Rlimit{Cur: uint64(kib) << 10, Max: uint64(kib) << 10}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return nil, nil, fmt.Errorf("limit locked memory: %w", err)
	}
	// A capability that leaves the bounding set of a thread leaves it for the programs that this
	// thread starts. The thread stays locked, and ends with this goroutine.
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_RESOURCE, 0, 0, 0); err != nil {
			err = fmt.Errorf("drop CAP_SYS_RESOURCE: %w", err)
			return
		}
		cmd := exec.Command(s.culprit, args...)
		cmd.WaitDelay = time.Second
		timer := time.AfterFunc(commandTimeout, func() {
			if cmd.Process != nil {
				cmd.Process.Kill() //nolint:errcheck // its end is reported
			}
		})
		defer timer.Stop()
		out, errs, err = run(cmd, args)
	}()
	<-done
	return out, errs, err
}
