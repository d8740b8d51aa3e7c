package cases

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Count is what a load has done since it started.
type Count struct {
	At     time.Time `json:"at"`     // when it was counted
	Bytes  int64     `json:"bytes"`  // moved: payload of streams, of answers, of disk writes
	Ops    int64     `json:"ops"`    // completed: requests, connections, writes, bursts
	Errors int64     `json:"errors"` // refused, timed out, cut short
	// Median duration of an operation since the last count; 0 when not measured.
	P50 time.Duration `json:"p50"`
	P99 time.Duration `json:"p99"`
}

// Load is a running process of a scene, under the name in its story.
type Load struct {
	Name   string
	PID    int
	On     *Host // nil: in no namespace of the lab
	ready  chan struct{}
	gone   chan struct{} // closed when the process has ended
	ending atomic.Bool   // its end was requested: its death is no failure
	mu     sync.Mutex
	last   Count
	said   strings.Builder // its standard error
	cmd    *exec.Cmd
}

// Program says how to start a load.
type Program struct {
	Name string // what the process is called, at most 15 letters
	On   *Host  // nil: where the lab itself stands
	// One of the acts of this package (see acts), or "" for Args[0], a program of the machine.
	Act  string
	Args []string  // the act's or program's arguments
	CPUs []int     // to which it is bound; nil: to none
	Into []*Cgroup // which it enters before anything else
	// It has no precedence over the machine's other programs: who takes all CPUs would stop them.
	Plain   bool
	FIFO    int  // priority of the real-time policy FIFO; 0: none
	Patient bool // its getting ready may take a minute
}

// Start starts a load and waits until it says that it is ready (an act listening, filled,
// connected). A program of the machine is ready when it has started. On failure it returns a Load
// that never ran, and the lab holds the error.
func (l *Lab) Start(p Program) *Load {
	d := &Load{Name: p.Name, On: p.On, ready: make(chan struct{}), gone: make(chan struct{})}
	if l.err != nil {
		close(d.gone)
		return d
	}
	file, args, env := "", p.Args, l.environ(p.Act, p.Into)
	if p.Act != "" {
		// The kernel takes a process's name from the file name it was started by: a symbolic link
		// returns any name.
		self, err := os.Executable()
		file = filepath.Join(l.dir, "bin", p.Name)
		if err == nil {
			err = os.Symlink(self, file)
		}
		if err != nil && !os.IsExist(err) {
			l.fail(fmt.Errorf("name a load %s: %w", p.Name, err))
			close(d.gone)
			return d
		}
	} else {
		file, args = p.Args[0], p.Args[1:]
	}
	if p.On != nil {
		d.cmd = exec.Command(
			"ip",
			append([]string{"netns", "exec", p.On.NS, file}, args...)...) // ip becomes the program
	} else {
		d.cmd = exec.Command(file, args...)
	}
	d.cmd.Env = env
	d.cmd.SysProcAttr = &unix.SysProcAttr{
		Setpgid: true,
	} // the terminal's Ctrl-C is the lab's to handle
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		l.fail(err)
		close(d.gone)
		return d
	}
	var errs sync.WaitGroup
	said, err := d.cmd.StderrPipe()
	if err == nil {
		err = p.beforehand(d.cmd.Start)
	}
	if err != nil {
		l.fail(fmt.Errorf("start %s: %w", p.Name, err))
		close(d.gone)
		return d
	}
	d.PID = d.cmd.Process.Pid
	errs.Add(2)
	go func() { defer errs.Done(); d.listen(out) }()
	go func() {
		defer errs.Done()
		b, _ := io.ReadAll(io.LimitReader(said, 4096))
		d.mu.Lock()
		d.said.Write(b)
		d.mu.Unlock()
		io.Copy(io.Discard, said)
	}()
	go func() { errs.Wait(); d.cmd.Wait(); close(d.gone) }()
	l.loads = append(l.loads, d)
	if p.Act == "" {
		return d
	}
	timeout := 10 * time.Second
	if p.Patient {
		timeout = 90 * time.Second
	}
	select {
	case <-d.ready:
	case <-d.gone:
		l.fail(fmt.Errorf("%s ended before it was ready: %s", p.Name, d.Said()))
	case <-time.After(timeout):
		l.fail(fmt.Errorf("%s isn't ready after %v: %s", p.Name, timeout, d.Said()))
	}
	return d
}

// listen reads an act's reports: "ready", then a Count as JSON several times a second.
func (d *Load) listen(r io.Reader) {
	s := bufio.NewScanner(r)
	for s.Scan() {
		if s.Text() == "ready" {
			close(d.ready)
			continue
		}
		var c Count
		if json.Unmarshal(s.Bytes(), &c) == nil && !c.At.IsZero() {
			d.mu.Lock()
			d.last = c
			d.mu.Unlock()
		}
	}
	io.Copy(io.Discard, r)
}

// Count is the load's newest report, at most half a second old; its At is zero for a program that
// isn't an act.
func (d *Load) Count() Count {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last
}

// Said is the beginning of what the load wrote to its standard error.
func (d *Load) Said() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.TrimSpace(d.said.String())
}

// Ended reports whether the load has ended without a request.
func (d *Load) Ended() bool {
	select {
	case <-d.gone:
		return !d.ending.Load()
	default:
		return false
	}
}

// Stop ends the load and waits for its end.
func (d *Load) Stop() Count {
	d.ending.Store(true)
	if d.cmd != nil && d.cmd.Process != nil {
		d.cmd.Process.Signal(unix.SIGTERM)
		select {
		case <-d.gone:
		case <-time.After(3 * time.Second):
			d.cmd.Process.Kill()
			<-d.gone
		}
	}
	return d.Count()
}

// Rate is the speed between two counts, per second; 0 when no time passed between them.
func Rate(a, b Count) (bytes, ops float64) {
	s := b.At.Sub(a.At).Seconds()
	if s <= 0 {
		return 0, 0
	}
	return float64(b.Bytes-a.Bytes) / s, float64(b.Ops-a.Ops) / s
}
