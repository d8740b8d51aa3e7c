package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// newTerminal returns a pseudo terminal: what a person holds, and what programs have. Closing the
// first one is the end of the terminal.
func newTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("needs: kernel feature devpts")
	}
	fd := int(person.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, person) //nolint:errcheck // it ends with the terminal
	return person, program
}

// newestTick returns the newest tick of the server of a directory.
func newestTick(dir string) (measure.Time, error) {
	c, err := dial(dir)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return (&serverRecord{c}).Held().End, nil
}

// TestHangup: SIGHUP ends no server, neither on a terminal nor without one, and with neither a
// certificate. A terminal that goes ends its server in order.
func TestHangup(t *testing.T) {
	t.Parallel()
	for _, on := range []string{"a terminal", "a file"} {
		t.Run(on, func(t *testing.T) {
			dir := t.TempDir()
			c := exec.Command("/proc/self/exe", "serve", "--dir", dir, "--listen", "127.0.0.1:0")
			c.Env = append(os.Environ(), asProgram+"=1")
			var person, shown *os.File
			var err error
			if on == "a terminal" {
				person, shown = newTerminal(t)
				c.Stdin = shown
				c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			} else if shown, err = os.Create(filepath.Join(dir, "..", "out")); err != nil {
				t.Fatal(err)
			}
			c.Stdout, c.Stderr = shown, shown
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			_ = shown.Close() // the program has its own
			ended := make(chan error, 1)
			go func() { ended <- c.Wait() }()
			t.Cleanup(func() { _ = c.Process.Kill() }) // it may have ended
			seconds := func(after measure.Time) (until measure.Time) {
				t.Helper()
				eventually(t, "two seconds are recorded", time.Minute, func() error {
					until, err = newestTick(dir)
					if err == nil && until < after.Add(2*measure.Second) {
						err = fmt.Errorf("recorded until %v", until)
					}
					return err
				})
				return until
			}
			before := seconds(measure.Time(0))
			processes := childList(t, c.Process.Pid)
			if err := c.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			seconds(before)
			for pid, name := range processes {
				if name == "culprit-symbols" || name == "exe" {
					continue // it may have been started since, or had no name yet
				}
				now, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
				if err != nil || strings.TrimSpace(string(now)) != name {
					t.Errorf("%s, process %d, has ended", name, pid)
				}
			}
			if person == nil {
				_ = c.Process.Signal(syscall.SIGTERM)
			} else {
				_ = person.Close()
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("it ended with %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("it goes on without its terminal")
			}
		})
	}
}
