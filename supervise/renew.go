package supervise

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// renewMain is the kind of the event of Renew.
const renewMain = 'r'

// renewal says what happens at the end of a process that Renew replaces or has started.
type renewal struct {
	replaced bool     // it was asked to end, and another one follows
	index    int      // of the file
	previous *os.File // replaces the file when the new process fails; nil: too late for that
}

// hides reports whether a text for systemd is to be dropped: the service does not stop when its
// main process is replaced.
func (r *renewal) hides(text string) bool {
	return r != nil && r.replaced && strings.HasPrefix(text, "STOPPING=")
}

// Renew ends the main process and starts it again with another file. If the new process ends on
// purpose with an error before it has run for a minute, it is started with the previous file, and
// Report gets a line. The caller must not close the file. It waits for Run.
func (s *Supervisor) Renew(index int, file *os.File) {
	s.events <- event{kind: renewMain, index: index, file: file}
}

// renew asks the main process to end.
func (s *Supervisor) renew(e event) {
	for i, k := range s.kids {
		if !s.Processes[i].Main {
			continue
		}
		files := s.Processes[i].Files
		previous := files[e.index]
		files[e.index] = e.file
		if k == nil || k.dead { // it is being started again: with the new file
			_ = previous.Close()
			return
		}
		if k.renewed == nil {
			k.renewed = &renewal{index: e.index}
		}
		if k.renewed.previous != nil { // that of a renewal before, which was to be tried
			_ = k.renewed.previous.Close()
		}
		k.renewed.previous = previous
		if !k.renewed.replaced {
			k.renewed.replaced = true
			_ = send(k.control, msgLeave, "", nil) // it may have ended
			time.AfterFunc(s.times.end, func() { _ = k.cmd.Process.Kill() })
		}
		if s.Notify != nil {
			s.Notify(reloading())
		}
	}
}

// reloading returns the text for systemd that precedes READY=1 of the new process: sd_notify(3).
func reloading() string {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it does not fail
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}

// renewed starts the main process after the death of one that Renew has replaced or started. It
// returns false for a death like any other.
func (s *Supervisor) renewed(k *child) (again bool, err error) {
	r := k.renewed
	next := &renewal{index: r.index}
	switch {
	case r.replaced:
		next.previous = r.previous
	case !k.exiting || k.status == 0 || time.Since(k.started) >= s.times.healthy:
		if r.previous != nil {
			_ = r.previous.Close()
		}
		return false, nil
	default:
		p := &s.Processes[k.index]
		if r.previous == nil {
			return false, nil
		}
		s.Report("the " + p.Name + " does not run with the new configuration: " +
			"the old one stays in use")
		_ = p.Files[r.index].Close()
		p.Files[r.index] = r.previous
	}
	if s.kids[k.index], err = s.start(k.index, firstDelay); err != nil {
		return false, err
	}
	s.kids[k.index].renewed = next
	return true, s.connect()
}
