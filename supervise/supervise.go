package supervise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Process is one of the processes.
type Process struct {
	Name  string
	Files []*os.File // it gets them as Control.Files; the caller closes its own
	Main  bool       // its end ends all; it gets the signals
	// OOM is added to the process's oom_score_adj: proc_pid_oom_score_adj(5).
	OOM int
	// Workers are started when the process asks for them.
	Workers Workers
}

// firstDelay is the delay before a dead process is started again for the first time.
const firstDelay = 100 * time.Millisecond

// times are the times of a supervisor.
type times struct {
	// The delay before a dead process is started again doubles each time, up to maxDelay. A process
	// that has run for healthy starts with the first delay again.
	maxDelay, healthy time.Duration
	end               time.Duration // how long a process may take to end after it was asked to
}

// usualTimes are the times of New.
func usualTimes() times {
	return times{maxDelay: 30 * time.Second, healthy: time.Minute, end: 20 * time.Second}
}

// Supervisor runs two processes that are connected with each other. Make it with New.
type Supervisor struct {
	Processes [2]Process
	// Report gets one line for each death.
	Report func(string)
	// Notify gets the texts that the main process passes on; nil: they are dropped.
	Notify    func(string)
	workers   workers
	events    chan event
	kids      [2]*child
	connected time.Time // when connect was called last
	times     times
}

// New returns a supervisor of two processes. report gets one line for each death, notify the texts
// that the main process passes on.
func New(processes [2]Process, report, notify func(string)) *Supervisor {
	return &Supervisor{
		Processes: processes, Report: report, Notify: notify, events: make(chan event, 16),
		times: usualTimes(),
	}
}

// child is a running process.
type child struct {
	index   int
	cmd     *exec.Cmd
	control *net.UnixConn
	started time.Time
	delay   time.Duration // before it is started again
	exiting bool          // it said that it ends on purpose
	dead    bool
	status  int      // the exit status that it said
	renewed *renewal // nil: Renew does not apply to it
}

// event is what a child does.
type event struct {
	of    *child
	kind  byte // of a message; 0: it has died; 's': it is time to start it again
	text  string
	index int
	file  *os.File // of msgFile
}

// Run runs the processes until the context ends or the main process ends on purpose, and returns
// its exit status. The error means that a process could not be started at all.
func (s *Supervisor) Run(ctx context.Context) (status int, err error) {
	// What this process has inherited is not for its children. Linux 5.11; before, they get it.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	defer s.killAll()
	for i := range s.kids {
		if s.kids[i], err = s.start(i, firstDelay); err != nil {
			return 0, err
		}
	}
	if err := s.connect(); err != nil {
		return 0, err
	}
	done := ctx.Done()
	for {
		select {
		case <-done:
			done = nil
			s.stopMain()
		case e := <-s.events:
			if end, status, err := s.handle(e, done == nil); end || err != nil {
				return status, err
			}
		}
	}
}

// stopMain asks the main process to end, and kills it when that takes too long.
func (s *Supervisor) stopMain() {
	for _, k := range s.kids {
		if !k.dead && s.Processes[k.index].Main {
			_ = k.cmd.Process.Signal(unix.SIGTERM) // it may have ended
			time.AfterFunc(s.times.end, func() { _ = k.cmd.Process.Kill() })
			return
		}
	}
	go func() { s.events <- event{kind: msgExit} }() // it is being started again: nothing runs
}

// handle handles an event. end: nothing is to run any more.
func (s *Supervisor) handle(e event, stopping bool) (end bool, status int, err error) {
	switch e.kind {
	case renewMain:
		s.renew(e)
	case msgNotify:
		if e.of.renewed.hides(e.text) {
			return false, 0, nil
		}
		if s.Notify != nil && s.Processes[e.of.index].Main {
			s.Notify(e.text)
		}
	case msgAgain:
		if time.Since(s.connected) < firstDelay {
			return false, 0, nil // the processes wait longer: see Reconnect
		}
		return false, 0, s.connect()
	case msgExit:
		if e.of == nil {
			return true, 0, nil
		}
		e.of.exiting = true
		e.of.status, err = strconv.Atoi(e.text)
		return false, 0, err
	case msgWorker, msgKill:
		s.handleWorker(e)
	case workerDied:
		s.buryWorker(e.of, e.text)
	case 0:
		return s.died(e.of, stopping)
	case msgFile:
		s.replace(e)
	case 's':
		if stopping {
			return false, 0, nil
		}
		delay := min(2*s.kids[e.index].delay, s.times.maxDelay)
		if s.kids[e.index], err = s.start(e.index, delay); err != nil {
			return false, 0, err
		}
		return false, 0, s.connect()
	}
	return false, 0, nil
}

// Replace replaces a file of the main process: from now on it starts with the file, and the running
// one gets it with the text, by Control.Replaced. A nil file passes the text on only. The caller
// must not close the file. It waits for Run.
func (s *Supervisor) Replace(index int, file *os.File, text string) {
	s.events <- event{kind: msgFile, index: index, file: file, text: text}
}

// replace passes a file and a text on to the main process.
func (s *Supervisor) replace(e event) {
	for i, k := range s.kids {
		if !s.Processes[i].Main {
			continue
		}
		if e.file != nil {
			old := s.Processes[i].Files[e.index]
			s.Processes[i].Files[e.index] = e.file
			_ = old.Close() // the running process has its own
		}
		if k != nil && !k.dead {
			_ = send(k.control, msgFile, e.text, e.file) // a dead one starts with it
		}
	}
}

// died starts a process again after its delay, unless it is the main one and ended on purpose.
func (s *Supervisor) died(k *child, stopping bool) (end bool, status int, err error) {
	k.dead = true
	_ = k.control.Close() // the peer has gone
	s.killWorkers(k)
	p := &s.Processes[k.index]
	if p.Main && !stopping && k.renewed != nil {
		if again, err := s.renewed(k); again || err != nil {
			return false, 0, err
		}
	}
	switch {
	case k.exiting && p.Main:
		return true, k.status, nil
	case stopping && p.Main:
		return true, 1, nil // it was killed, or failed, as it ended
	case stopping:
		return false, 0, nil
	}
	if time.Since(k.started) >= s.times.healthy {
		k.delay = firstDelay
	}
	s.Report(fmt.Sprintf("the %s ended (%v, process %d) and is started again in %v",
		p.Name, k.cmd.ProcessState, k.cmd.Process.Pid, k.delay))
	index := k.index
	time.AfterFunc(k.delay, func() { s.events <- event{kind: 's', index: index} })
	return false, 0, nil
}

// start starts a process from the executable of this one.
func (s *Supervisor) start(index int, delay time.Duration) (*child, error) {
	p := &s.Processes[index]
	mine, its, err := pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	defer its.Close() //nolint:errcheck // the child has its own
	defer mine.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, fmt.Errorf("connect to the %s: %w", p.Name, err)
	}
	k := &child{index: index, control: conn.(*net.UnixConn), started: time.Now(), delay: delay}
	k.cmd = exec.Command("/proc/self/exe", os.Args[1:]...)
	k.cmd.Args[0] = os.Args[0]
	k.cmd.Env = append(os.Environ(), variable+"="+p.Name+":"+strconv.Itoa(len(p.Files)))
	k.cmd.Stdin, k.cmd.Stdout, k.cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	k.cmd.ExtraFiles = append([]*os.File{its}, p.Files...)
	if err := k.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the %s: %w", p.Name, err), conn.Close())
	}
	if p.OOM != 0 {
		addOOM(k.cmd.Process.Pid, p.OOM)
	}
	go s.follow(k)
	return k, nil
}

// addOOM adds to the oom_score_adj of a process. A failure leaves it as it is.
func addOOM(pid, add int) {
	path := "/proc/" + strconv.Itoa(pid) + "/oom_score_adj"
	b, err := os.ReadFile(path)
	if err != nil {
		return
	}
	now, err := strconv.Atoi(string(b[:max(0, len(b)-1)])) // without the newline
	if err == nil {
		_ = os.WriteFile(path, []byte(strconv.Itoa(min(1000, now+add))), 0) // the doc comment
	}
}

// follow passes the messages of a process on, and its death.
func (s *Supervisor) follow(k *child) {
	for {
		kind, text, fds, err := receive(k.control)
		for _, fd := range fds {
			_ = unix.Close(fd) // no message to the parent has one
		}
		if err != nil {
			break
		}
		s.events <- event{of: k, kind: kind, text: text}
	}
	_ = k.cmd.Wait() // ProcessState says how it ended
	s.events <- event{of: k}
}

// connect connects the two processes with a new pair of sockets, if both run.
func (s *Supervisor) connect() error {
	s.connected = time.Now()
	a, b, err := pair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer a.Close() //nolint:errcheck // the processes have their own
	defer b.Close()
	for i, f := range []*os.File{a, b} {
		if s.kids[i] != nil {
			_ = send(s.kids[i].control, msgPeer, "", f) // it has died: another pair follows
		}
	}
	return nil
}

// killAll ends all processes and waits for them. That of the main process was waited for.
func (s *Supervisor) killAll() {
	s.killWorkers(nil)
	for _, k := range s.kids {
		if k == nil {
			continue
		}
		_ = k.control.Close() // it ends by itself then
		time.AfterFunc(s.times.end/4, func() { _ = k.cmd.Process.Kill() })
	}
	for _, k := range s.kids {
		for k != nil && !k.dead {
			if e := <-s.events; e.kind == 0 && e.of != nil {
				e.of.dead = true
			}
		}
	}
}
