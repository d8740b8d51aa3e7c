package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// A cost is the resource usage of one tool in one world. Zero: not measured.
type cost struct {
	Tool     tool
	CPU      time.Duration // of an interval, user and system, of all its threads and children
	Syscalls float64       // of an interval
	Resident int64         // most bytes at once, shared pages of its program included
	// Of a run of one interval: from the start until culprit's first line is out, or until another
	// tool has ended, less the interval.
	First   time.Duration
	Numbers float64 // that it prints per interval
	Failed  string  // why there is nothing
}

// A result has the costs of one world.
type result struct {
	World  world
	Costs  []cost
	Server []stage
}

// A running is a running tool.
type running struct {
	cmd    *exec.Cmd
	output *os.File // the terminal's other end
	loop   chan time.Duration
	stop   chan struct{}
	cost   *cost
	at     []time.Duration // CPU time so far at each mark
}

// measure runs all tools of the world beside each other, spread over the second so that they seldom
// meet.
func (s *settings) measure() (result, error) {
	r := result{World: s.World, Costs: make([]cost, len(s.World.Tools))}
	var all []*running
	for i, t := range s.World.Tools {
		c := &r.Costs[i]
		c.Tool = t
		run, err := s.start(t)
		if err != nil {
			c.Failed = err.Error()
			continue
		}
		run.cost = c
		all = append(all, run)
		time.Sleep(time.Second / time.Duration(len(s.World.Tools)+1))
	}
	// The start is not measured: first readings, and programs that adapt their sizes.
	time.Sleep(3 * time.Second)
	for n := range s.Windows + 1 {
		if n > 0 {
			time.Sleep(s.Window)
		}
		for _, run := range all {
			run.at = append(run.at, run.cpu())
		}
	}
	for _, run := range all {
		run.settle(s.Window)
	}
	var counting sync.WaitGroup
	for _, run := range all {
		if run.cmd != nil {
			counting.Go(func() { run.cost.Syscalls = syscalls(run.cmd.Process.Pid) })
		}
	}
	counting.Wait()
	for _, run := range all {
		if run.cmd != nil && run.cost.Tool.Over < 5 {
			run.cost.Resident = resident(run.cmd.Process.Pid)
		}
		run.end()
	}
	for i := range r.Costs {
		if c := &r.Costs[i]; c.Failed == "" {
			c.Numbers = s.numbers(c.Tool)
		}
	}
	if s.World.Starts {
		for i := range r.Costs {
			if c := &r.Costs[i]; c.Failed == "" && len(c.Tool.First) > 0 {
				s.first(c)
			}
		}
	}
	return r, nil
}

// program puts the paths of our programs in.
func (s *settings) program(args []string) *exec.Cmd {
	switch args[0] {
	case "culprit":
		return exec.Command(s.Culprit, args[1:]...)
	case "everything":
		return exec.Command(s.Everything, args[1:]...)
	case "least":
		return exec.Command("/proc/self/exe", args...)
	}
	return exec.Command(args[0], args[1:]...)
}

func (s *settings) start(t tool) (*running, error) {
	if _, err := exec.LookPath(s.program(t.Args).Path); err != nil {
		return nil, errNoTool
	}
	run := &running{}
	if t.Loop {
		run.loop, run.stop = make(chan time.Duration, 1000), make(chan struct{})
		go func() {
			for {
				cmd := s.program(t.Args)
				if cmd.Run() == nil {
					run.loop <- cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				}
				select {
				case <-run.stop:
					return
				case <-time.After(time.Second):
				}
			}
		}()
		return run, nil
	}
	run.cmd = s.program(t.Args)
	if t.TTY {
		ours, theirs, err := terminal()
		if err != nil {
			return nil, fmt.Errorf("open a terminal: %w", err)
		}
		run.output = ours
		run.cmd.Stdin, run.cmd.Stdout, run.cmd.Stderr = theirs, theirs, theirs
		run.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
		run.cmd.Env = append(os.Environ(), "TERM=xterm-256color")
		defer theirs.Close()
		go io.Copy(io.Discard, ours) //nolint:errcheck // the end of a terminal is an error
	}
	return run, run.cmd.Start()
}

// terminal opens a pair of pseudo terminals of 200 by 60: pts(4).
func terminal() (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	ioctl := func(request uintptr, p unsafe.Pointer) error {
		if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), request, uintptr(p)); e != 0 {
			return e
		}
		return nil
	}
	var number, unlocked int32
	size := [4]uint16{60, 200}
	err = errors.Join(
		ioctl(syscall.TIOCGPTN, unsafe.Pointer(&number)),
		ioctl(syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked)),
		ioctl(syscall.TIOCSWINSZ, unsafe.Pointer(&size)),
	)
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	return ours, theirs, err
}

// cpu returns the CPU time so far of the process and all below it: /proc/PID/schedstat of each
// thread, in nanoseconds (sched_stat in Documentation/scheduler). None of these tools ends a thread
// or a child while it works.
func (run *running) cpu() time.Duration {
	if run.loop != nil {
		return 0
	}
	return tree(run.cmd.Process.Pid)
}

func tree(pid int) (sum time.Duration) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, t := range tasks {
		stat, _ := os.ReadFile(t + "/schedstat")
		if f := strings.Fields(string(stat)); len(f) > 0 {
			n, _ := strconv.ParseInt(f[0], 10, 64)
			sum += time.Duration(n)
		}
		children, _ := os.ReadFile(t + "/children")
		for _, c := range strings.Fields(string(children)) {
			if child, err := strconv.Atoi(c); err == nil {
				sum += tree(child)
			}
		}
	}
	return sum
}

func (run *running) settle(window time.Duration) {
	var each []time.Duration
	if run.loop != nil {
		for len(run.loop) > 0 {
			each = append(each, <-run.loop)
		}
	} else {
		for i := 1; i < len(run.at); i++ {
			each = append(each, time.Duration(float64(run.at[i]-run.at[i-1])/window.Seconds()))
		}
	}
	run.cost.CPU = median(each)
	if run.cmd != nil && run.cmd.Process.Signal(syscall.Signal(0)) != nil || run.cost.CPU == 0 {
		run.cost.Failed = "ended early"
	}
}

func (run *running) end() {
	if run.loop != nil {
		close(run.stop)
		return
	}
	run.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
	done := time.AfterFunc(2*time.Second, func() { run.cmd.Process.Kill() })
	run.cmd.Wait() //nolint:errcheck // it was ended by a signal
	done.Stop()
	if run.output != nil {
		run.output.Close()
	}
}

// resident returns the largest resident memory of a process so far, in bytes.
func resident(pid int) int64 { return memory(pid, "VmHWM") }

// memory returns a line of /proc/PID/status in bytes: proc_pid_status(5).
func memory(pid int, line string) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for l := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(l, line+":"); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}

// syscalls returns the system calls per second of a process, counted by perf over four seconds; 0
// if perf cannot count them.
func syscalls(pid int) float64 {
	out, err := exec.Command(
		"perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p", strconv.Itoa(pid),
		"--", "sleep", "4",
	).CombinedOutput()
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "raw_syscalls:sys_enter") {
			n, _ := strconv.ParseFloat(strings.Split(line, ",")[0], 64)
			return n / 4
		}
	}
	return 0
}

// first runs the tool for one interval several times and stores the median of the additional time.
// A slow tool runs once; its largest resident memory is stored too, since the end of a run is not
// in the measured windows.
func (s *settings) first(c *cost) {
	var each []time.Duration
	runs := 5
	switch {
	case c.Tool.Over >= 5:
		runs = 1
	case c.Tool.Over >= 1:
		runs = 3
	}
	for range runs {
		start := time.Now()
		cmd := s.program(c.Tool.First)
		var out io.ReadCloser
		if c.Tool.Args[0] == "culprit" { // others print a head at once
			var err error
			if out, err = cmd.StdoutPipe(); err != nil {
				return
			}
		}
		if cmd.Start() != nil {
			return
		}
		var line time.Duration
		ended := make(chan error, 1)
		go func() {
			if out != nil {
				_, err := out.Read(make([]byte, 1))
				line = time.Since(start)
				_, _ = io.Copy(io.Discard, out) // what is wrong with it the end says
				if err != nil {
					line = 0
				}
			}
			ended <- cmd.Wait()
		}()
		poll := time.NewTicker(5 * time.Millisecond)
		for running := true; running; {
			select {
			case err := <-ended:
				running = false
				if out == nil {
					line = time.Since(start)
				}
				if err == nil && line > 0 {
					each = append(each, line-time.Duration(c.Tool.Over*1e9))
				}
			case <-poll.C:
				if runs == 1 {
					c.Resident = max(c.Resident, resident(cmd.Process.Pid))
				}
			}
		}
		poll.Stop()
	}
	c.First = median(each)
}
