package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// symbols is the name of the process that reads symbols.
const symbols = "culprit-symbols"

// stoppedSymbols stops the process that reads symbols for eight seconds, while programs run whose
// files it has not seen. Recording goes on, a note has the reason, and later it answers again.
func stoppedSymbols(b *bench) (string, error) {
	s := b.main
	busy := func(shell string) error {
		return b.helper(exec.Command(shell, "-c", "while :; do :; done"))
	}
	if err := busy("sh"); err != nil {
		return "", err
	}
	var pids []int
	if err := s.within(30*time.Second, symbols, func() error {
		if pids = s.processes()[symbols]; len(pids) == 0 {
			return errors.New("it has not started")
		}
		return nil
	}); err != nil {
		return "", err
	}
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			return "", fmt.Errorf("stop %s: %w", symbols, err)
		}
		defer func() { _ = unix.Kill(pid, unix.SIGCONT) }() // it may have been replaced
	}
	began := time.Now()
	fresh := filepath.Join(b.dir, "shell") // a file that was not read yet
	if out, err := exec.Command("cp", "/bin/sh", fresh).CombinedOutput(); err != nil {
		return "", fmt.Errorf("copy a shell: %w: %s", err, out)
	}
	if err := busy(fresh); err != nil {
		return "", err
	}
	for time.Since(began) < 8*time.Second {
		if err := s.answers(); err != nil {
			return "", fmt.Errorf("while %s is stopped: %w", symbols, err)
		}
		time.Sleep(time.Second / 2)
	}
	a, err := s.ask("cpu.stack.samples by process", began, time.Now())
	if err != nil {
		return "", err
	}
	if notes := strings.Join(a.Notes, "\n"); !strings.Contains(notes, "did not answer") {
		return "", fmt.Errorf("no note has the reason: %q", notes)
	}
	for _, pid := range pids {
		_ = unix.Kill(pid, unix.SIGCONT) // it may have been replaced
	}
	resumed := time.Now()
	err = s.within(40*time.Second, "names", func() error {
		a, err := s.ask("cpu.stack.samples by process", time.Now().Add(-2*time.Second), time.Now())
		if err != nil {
			return err
		}
		if strings.Contains(strings.Join(a.Notes, "\n"), "did not answer") {
			return errors.New("a note that it does not answer")
		}
		return nil
	})
	return fmt.Sprintf("a note; it answers %.0f s after it goes on", time.Since(resumed).Seconds()),
		err
}
