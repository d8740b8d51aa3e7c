package sampler

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"culprit/symbol"
	"culprit/trace/stop"

	"golang.org/x/sys/unix"
)

// A started is a command that is stopped before it runs.
type started struct {
	process *os.Process
	release chan struct{} // closed: the command runs
	freed   bool          // release is closed
	ended   chan struct{} // closed when the command has ended
}

// start starts a command, which has the standard files of this process, and stops it at a place.
// The kernel kills it if this process ends before release is closed. files reads its files; nil:
// this process does.
func start(words []string, at stop.Place, files *symbol.Files) (*started, error) {
	s := &started{release: make(chan struct{}), ended: make(chan struct{})}
	result := make(chan error)
	go func() {
		defer close(s.ended)
		runtime.LockOSThread() // ptrace belongs to the thread that started the process
		defer runtime.UnlockOSThread()
		c := exec.Command(words[0], words[1:]...)
		c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
		c.SysProcAttr = &unix.SysProcAttr{Ptrace: true}
		if err := c.Start(); err != nil {
			result <- fmt.Errorf("start %s: %w", words[0], err)
			return
		}
		var status unix.WaitStatus
		_, err := unix.Wait4(c.Process.Pid, &status, 0, nil)
		if err == nil && !status.Stopped() {
			err = fmt.Errorf("it did not stop at its first instruction")
		}
		if err == nil {
			err = unix.PtraceSetOptions(c.Process.Pid, unix.PTRACE_O_EXITKILL)
		}
		if err == nil {
			err = stop.RunTo(c.Process.Pid, at, files)
		}
		if err != nil {
			c.Process.Kill() //nolint:errcheck // it may have ended
			c.Wait()         //nolint:errcheck // it was killed
			result <- fmt.Errorf("start %s: %w", words[0], err)
			return
		}
		s.process = c.Process
		result <- nil
		<-s.release
		unix.PtraceDetach(c.Process.Pid) //nolint:errcheck // it may have ended
		c.Wait()                         //nolint:errcheck // its exit status does not matter
	}()
	if err := <-result; err != nil {
		return nil, err
	}
	return s, nil
}

// run lets the command run, and calls over at its end. s may be nil.
func (s *started) run(over func()) {
	if s == nil || s.freed {
		return
	}
	s.freed = true
	close(s.release)
	go func() {
		<-s.ended
		over()
	}()
}

// close kills the command if it never ran. s may be nil.
func (s *started) close() {
	if s == nil || s.freed {
		return
	}
	s.process.Kill() //nolint:errcheck // it may have ended
	s.freed = true
	close(s.release)
	<-s.ended
}

// begin starts the command of the profile, if it has one. The profile is then of this process and
// of those that it starts, and ends with it.
func (p *Profile) begin(ctx context.Context) (of *Profile, s *started, err error) {
	if len(p.Command) == 0 || ctx.Err() != nil {
		return p, nil, nil
	}
	at := stop.Exec
	if p.Of == OnEvent && strings.HasPrefix(p.Event.Name, "pid") {
		at = stop.Postinit // probes in libraries need them mapped
	}
	if s, err = start(p.Command, at, p.Files); err != nil {
		return nil, nil, err
	}
	own := *p
	own.Threads.PIDs, own.Threads.Children = []int{s.process.Pid}, true
	return &own, s, nil
}
