package supervise

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Workers says how processes are started that a process asks for. They are not started again after
// their death, and end with the process that asked.
type Workers struct {
	Name string   // of each of them
	Max  int      // at the same time; 0: none
	OOM  int      // is added to the oom_score_adj: proc_pid_oom_score_adj(5)
	Hide []string // variables of the environment that they do not get
}

// reportEach is how often deaths of workers are reported.
const reportEach = time.Minute

// workers are the running workers of a Supervisor. Only Run uses them.
type workers struct {
	running  map[workerKey]*startedWorker
	reported time.Time
	silent   int // deaths since that were not reported
}

// workerKey identifies a worker: the process that requested it, and the name in that request.
type workerKey struct {
	of   *child
	name string
}

// count returns how many workers of a process run.
func (w *workers) count(of *child) (n int) {
	for key := range w.running {
		if key.of == of {
			n++
		}
	}
	return n
}

// startedWorker is a running worker.
type startedWorker struct {
	cmd    *exec.Cmd
	killed bool // on request
	said   *firstLine
}

// handleWorker handles a message about workers. The process that asks chooses their names.
func (s *Supervisor) handleWorker(e event) {
	if e.kind == msgKill {
		if w := s.workers.running[workerKey{e.of, e.text}]; w != nil {
			w.killed = true
			_ = w.cmd.Process.Kill() // it may have ended
		}
		return
	}
	file, err := s.startWorker(e.of, e.text)
	text := e.text
	if err != nil {
		text += " " + err.Error()
		text = text[:min(len(text), maxMessage-1)]
	}
	_ = send(e.of.control, msgWorker, text, file) // it has died: so does the worker
	if file != nil {
		_ = file.Close() // the process has its own
	}
}

// startWorker starts a worker and returns the socket by which a process talks to it, which the
// caller must close.
func (s *Supervisor) startWorker(of *child, name string) (*os.File, error) {
	kind, key := &s.Processes[of.index].Workers, workerKey{of, name}
	if n := s.workers.count(of); n >= kind.Max || s.workers.running[key] != nil {
		return nil, fmt.Errorf("there are %d already", n)
	}
	mine, its, err := pair(unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer its.Close() //nolint:errcheck // the worker has its own
	w := &startedWorker{said: &firstLine{}}
	w.cmd = exec.Command("/proc/self/exe", os.Args[1:]...)
	w.cmd.Args[0] = os.Args[0]
	w.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(kind.Hide, name)
	}), Environment(kind.Name))
	w.cmd.Stderr = w.said
	w.cmd.ExtraFiles = []*os.File{its}
	if err := w.cmd.Start(); err != nil {
		_ = mine.Close() // nobody uses it
		return nil, err
	}
	addOOM(w.cmd.Process.Pid, kind.OOM)
	if s.workers.running == nil {
		s.workers.running = map[workerKey]*startedWorker{}
	}
	s.workers.running[key] = w
	go func() {
		_ = w.cmd.Wait() // ProcessState says how it ended
		s.events <- event{of: of, kind: workerDied, text: name}
	}()
	return mine, nil
}

// workerDied is the kind of the event that a worker has died.
const workerDied = 'd'

// buryWorker forgets a worker that has died, and reports a death that nobody asked for.
func (s *Supervisor) buryWorker(of *child, name string) {
	w := s.workers.running[workerKey{of, name}]
	delete(s.workers.running, workerKey{of, name})
	if w == nil || w.killed || w.cmd.ProcessState.Success() {
		return
	}
	if time.Since(s.workers.reported) < reportEach {
		s.workers.silent++
		return
	}
	text := fmt.Sprintf("a %s ended (%v)", s.Processes[of.index].Workers.Name, w.cmd.ProcessState)
	if said := w.said.String(); said != "" {
		text += ": " + said
	}
	if s.workers.silent > 0 {
		text += fmt.Sprintf("; %d more since the last report", s.workers.silent)
	}
	s.workers.reported, s.workers.silent = time.Now(), 0
	s.Report(text)
}

// killWorkers kills the workers of a process, or with nil all.
func (s *Supervisor) killWorkers(of *child) {
	for key, w := range s.workers.running {
		if of == nil || key.of == of {
			w.killed = true
			_ = w.cmd.Process.Kill() // it may have ended
		}
	}
}

// firstLine is a writer that keeps the first line of what is written, at most 200 bytes.
type firstLine struct {
	b     []byte
	whole bool
}

// Write implements io.Writer. It never fails.
func (f *firstLine) Write(b []byte) (int, error) {
	if !f.whole {
		line, _, ended := bytes.Cut(b, []byte("\n"))
		f.b = append(f.b, line[:min(len(line), 200-len(f.b))]...)
		f.whole = ended || len(f.b) == 200
	}
	return len(b), nil
}

// String returns the line with ? for what is not printable ASCII.
func (f *firstLine) String() string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, string(f.b))
}

// started is the answer of the parent to a request for a worker.
type started struct {
	conn *net.UnixConn
	err  error
}

// StartWorker asks the parent for a worker and waits for its connection, which the caller must
// close. kill ends the worker at once. Peer must be waiting in another goroutine. The error is the
// context's, says why the worker could not be started, or that the parent has ended.
func (c *Control) StartWorker(ctx context.Context) (conn *net.UnixConn, kill func(), err error) {
	c.mu.Lock()
	c.last++
	name := strconv.FormatUint(c.last, 10)
	if c.waiting == nil {
		c.waiting = map[string]chan started{}
	}
	answer := make(chan started, 1)
	c.waiting[name] = answer
	c.mu.Unlock()
	kill = func() { _ = send(c.conn, msgKill, name, nil) } // else the parent has ended
	if err := send(c.conn, msgWorker, name, nil); err != nil {
		return nil, nil, err
	}
	select {
	case got := <-answer:
		return got.conn, kill, got.err
	case <-ctx.Done():
		go func() { // nobody needs it any more
			if got := <-answer; got.conn != nil {
				_ = got.conn.Close() // it ends
			}
		}()
		return nil, nil, ctx.Err()
	}
}

// takeWorker passes the answer to a request for a worker on.
func (c *Control) takeWorker(text string, fds []int) {
	name, problem, failed := strings.Cut(text, " ")
	got := started{}
	switch {
	case len(fds) == 1:
		got.conn, got.err = fileConn(fds[0])
	case failed:
		got.err = fmt.Errorf("%s", problem)
	default:
		got.err = net.ErrClosed
	}
	c.mu.Lock()
	answer := c.waiting[name]
	delete(c.waiting, name)
	c.mu.Unlock()
	if answer != nil {
		answer <- got
	} else if got.conn != nil {
		_ = got.conn.Close() // nobody has asked for it
	}
}

// Stream returns the connection of a worker to the main process.
func (c *Control) Stream() *net.UnixConn { return c.conn }
