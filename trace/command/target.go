package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"culprit/symbol"
	"culprit/trace/stop"

	"golang.org/x/sys/unix"
)

// targets are the processes of -c and -p. The end of the last one is the end of the script.
type targets struct {
	first int             // process ID of the first one: $target
	all   []int           // process IDs
	over  chan struct{}   // closed when all have ended
	begin []chan struct{} // of stopped commands; closing one runs the command
	wait  sync.WaitGroup
	noted int           // number of processes that wait waits for
	mine  []*os.Process // commands
	files *symbol.Files // reads files of commands; nil: this process does
	// arrived is called in a separate goroutine when a command reaches its entry point. nil: the
	// command does not stop there. Set it before release.
	arrived func(pid int)
}

// started returns the process IDs of the commands.
func (t *targets) started() (pids []int) {
	for _, p := range t.mine {
		pids = append(pids, p.Pid)
	}
	return pids
}

// target starts the commands, which are stopped at a place, and finds the processes. The caller
// closes the result.
func (r *Request) target(when stop.Place, out, errs *os.File) (*targets, error) {
	t := &targets{over: make(chan struct{}), files: r.Files}
	for _, pid := range r.Processes {
		if err := t.watch(pid); err != nil {
			return nil, err
		}
	}
	for _, line := range r.Commands {
		if err := t.start(line, when, out, errs); err != nil {
			t.close()
			return nil, err
		}
	}
	if t.first != 0 {
		go func() {
			t.wait.Wait()
			close(t.over)
		}()
	}
	return t, nil
}

// ended returns a channel that is closed when all processes have ended, or nil without processes.
func (t *targets) ended() <-chan struct{} {
	if t.first == 0 {
		return nil
	}
	return t.over
}

func (t *targets) note(pid int) {
	if t.first == 0 {
		t.first = pid
	}
	t.all = append(t.all, pid)
	t.noted++
	t.wait.Add(1)
}

// watch waits for the end of a process of -p.
func (t *targets) watch(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("there is no process %d", pid)
		}
		return fmt.Errorf("find process %d: %w", pid, err)
	}
	t.note(pid)
	go func() {
		defer t.wait.Done()
		defer unix.Close(fd)
		for {
			n, err := unix.Poll(
				[]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Hour.Milliseconds()),
			)
			if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}()
	return nil
}

// start starts a command, which splitCommand splits, and stops it at a place.
func (t *targets) start(line string, when stop.Place, out, errs *os.File) error {
	words, err := splitCommand(line)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return errors.New("-c: the command is empty")
	}
	started := make(chan error)
	begin := make(chan struct{})
	go func() {
		runtime.LockOSThread() // ptrace belongs to the thread that started the process
		defer runtime.UnlockOSThread()
		c := exec.Command(words[0], words[1:]...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, out, errs
		c.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
		if err := c.Start(); err != nil {
			started <- fmt.Errorf("start %s: %w", words[0], err)
			return
		}
		var status unix.WaitStatus
		if _, err := unix.Wait4(c.Process.Pid, &status, 0, nil); err != nil || !status.Stopped() {
			started <- fmt.Errorf(
				"start %s: it did not stop at its first instruction (%v)", words[0], err,
			)
			return
		}
		// If culprit is killed, the kernel kills the command. Otherwise it would stay stopped, or
		// run into a breakpoint.
		err := unix.PtraceSetOptions(c.Process.Pid, unix.PTRACE_O_EXITKILL)
		if err == nil {
			err = stop.RunTo(c.Process.Pid, when, t.files)
		}
		if err != nil {
			c.Process.Kill() //nolint:errcheck // it may have ended
			c.Wait()         //nolint:errcheck // it was killed
			started <- fmt.Errorf("start %s: %w", words[0], err)
			return
		}
		t.note(c.Process.Pid)
		t.mine = append(t.mine, c.Process)
		defer t.wait.Done()
		started <- nil
		<-begin
		if t.arrived != nil && when == stop.Exec &&
			stop.RunTo(c.Process.Pid, stop.Postinit, t.files) == nil {
			t.arrived(c.Process.Pid)
		}
		unix.PtraceDetach(c.Process.Pid) //nolint:errcheck // it may have ended
		c.Wait()                         //nolint:errcheck // its exit status does not matter
	}()
	if err := <-started; err != nil {
		return err
	}
	t.begin = append(t.begin, begin)
	return nil
}

// close kills the commands, as dtrace does, and waits for their end.
func (t *targets) close() {
	for _, p := range t.mine {
		p.Kill() //nolint:errcheck // it may have ended
	}
	t.release()
	if len(t.mine) > 0 && len(t.mine) == t.noted {
		<-t.over
	}
}

// release lets the commands run.
func (t *targets) release() {
	for _, b := range t.begin {
		close(b)
	}
	t.begin = nil
}
