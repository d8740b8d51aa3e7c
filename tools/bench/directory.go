package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// makeDirectory makes a directory for a world, which is gone after done is called and also when
// this process is killed: another process waits for that.
func makeDirectory() (dir string, done func(), err error) {
	if dir, err = os.MkdirTemp("", "culprit-bench-"); err != nil {
		return "", nil, err
	}
	cmd := exec.Command("/proc/self/exe", "remove", dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, fmt.Errorf("start what removes %s: %w", dir, err)
	}
	return dir, func() {
		in.Close()
		cmd.Wait() //nolint:errcheck // it has said why on standard error
	}, nil
}

// removeLater removes a directory when standard input ends. The
// processes that write there may end a little later.
func removeLater(dir string) error {
	_, _ = io.Copy(io.Discard, os.Stdin) // a read that fails is an end too
	var err error
	for range 20 {
		err = os.RemoveAll(dir)
		time.Sleep(100 * time.Millisecond)
		if _, gone := os.Stat(dir); err == nil && os.IsNotExist(gone) {
			return nil
		}
	}
	return err
}
