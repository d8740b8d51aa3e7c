package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Targets are the processes of -c and -p: their end is the end of the script.
type targets struct {
	first int   // pid of the first one: $target
	all   []int // pids
	over  chan struct{}
	begin []chan struct{} // of commands that stand before their first instruction
	wait  sync.WaitGroup
	noted int           // processes to wait for
	mine  []*os.Process // that were started here
	// arrived is called in a goroutine of its own when a command that stood before its first
	// instruction stands at its entry point; nil: it does not stop there. Set it before release.
	arrived func(pid int)
}

// started returns the processes that were started here.
func (t *targets) started() (pids []int) {
	for _, p := range t.mine {
		pids = append(pids, p.Pid)
	}
	return pids
}

// target starts the commands, which stop before their first instruction, and finds the processes.
func (r *Request) target(when stopPlace, out, errs *os.File) (*targets, error) {
	t := &targets{over: make(chan struct{})}
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

// ended returns a channel that is closed when all processes have ended; nil: there are none to wait
// for.
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

// watch waits for the end of a process that is not ours.
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

// start starts a command line, in words as a shell writes them, and holds it.
func (t *targets) start(line string, when stopPlace, out, errs *os.File) error {
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
			started <- fmt.Errorf("start %s: it did not stop at its first instruction (%v)", words[0], err)
			return
		}
		// Should we be killed while it stands, it is not to stand for ever, nor to run into a
		// breakpoint of ours.
		err := unix.PtraceSetOptions(c.Process.Pid, unix.PTRACE_O_EXITKILL)
		if err == nil && when != stopExec {
			err = runTo(c.Process.Pid, when)
		}
		if err != nil {
			c.Process.Kill() //nolint:errcheck // one that has ended needs no end
			c.Wait()         //nolint:errcheck // it was killed
			started <- fmt.Errorf("start %s: %w", words[0], err)
			return
		}
		t.note(c.Process.Pid)
		t.mine = append(t.mine, c.Process)
		defer t.wait.Done()
		started <- nil
		<-begin
		if t.arrived != nil && when == stopExec && runTo(c.Process.Pid, stopPostinit) == nil {
			t.arrived(c.Process.Pid)
		}
		unix.PtraceDetach(c.Process.Pid) //nolint:errcheck // a process that is gone needs no letting go
		c.Wait()                         //nolint:errcheck // how it ended is its own affair
	}()
	if err := <-started; err != nil {
		return err
	}
	t.begin = append(t.begin, begin)
	return nil
}

// close ends what was started, as dtrace does, and waits for its end.
func (t *targets) close() {
	for _, p := range t.mine {
		p.Kill() //nolint:errcheck // one that has ended needs no end
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
