package supervise

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Variables of the environment that say what this test binary does instead of testing.
const (
	asSupervisor = "CULPRIT_TEST_SUPERVISOR" // it supervises, and prints the process IDs
	asProcess    = "CULPRIT_TEST_AS_"        // with the name of a process: what that does
	secret       = "CULPRIT_TEST_SECRET"     // workers do not get it
)

func TestMain(m *testing.M) {
	control, err := Attach()
	switch {
	case err != nil:
		fmt.Println(err)
		os.Exit(1)
	case control != nil:
		behave(control)
	case os.Getenv(asSupervisor) != "":
		_ = os.Unsetenv(asSupervisor)
		s := newSupervisor(nil)
		s.Notify = func(text string) { fmt.Println(text) }
		_, _ = s.Run(context.Background()) // it is killed
	default:
		os.Exit(m.Run())
	}
}

// newSupervisor returns a supervisor of two processes, first and main, which has a worker.
func newSupervisor(report func(string)) *Supervisor {
	if report == nil {
		report = func(string) {}
	}
	workers := Workers{Name: "worker", Max: 2, Hide: []string{secret}}
	return New([2]Process{
		{Name: "first"}, {Name: "main", Main: true, Workers: workers},
	}, report, nil)
}

// behave does what the environment says of the process.
func behave(c *Control) {
	if c.Name == "worker" {
		fmt.Fprintf(c.Stream(), "%d %q\n", os.Getpid(), os.Getenv(secret))
		_, _ = io.Copy(c.Stream(), c.Stream()) // until the connection ends
		os.Exit(0)
	}
	kind := os.Getenv(asProcess + c.Name)
	_ = c.Notify(fmt.Sprintf("%s is %d", c.Name, os.Getpid()))
	if len(c.Files) > 0 {
		behaveByFile(c)
	}
	switch kind {
	case "dies":
		os.Exit(3)
	case "dies later":
		time.Sleep(30 * time.Millisecond)
		os.Exit(3)
	case "exits":
		_ = c.Exit(7)
		os.Exit(7)
	case "ignores signals":
		signal.Ignore(unix.SIGTERM)
		_ = c.Notify("it ignores")
		for {
			time.Sleep(time.Hour)
		}
	case "has workers":
		go haveWorkers(c)
	}
	if c.Name == "main" {
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, unix.SIGTERM)
		go func() {
			<-ended
			_ = c.Exit(5)
			os.Exit(5)
		}()
	}
	for {
		conn, err := c.Peer()
		if err != nil {
			os.Exit(0)
		}
		go func() { // the first process says its number, the main one passes it on
			if c.Name == "first" {
				fmt.Fprintf(conn, "hello of %d\n", os.Getpid())
				return
			}
			if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
				_ = c.Notify(strings.TrimSpace(line))
			}
		}()
	}
}

// haveWorkers starts workers and reports what happens.
func haveWorkers(c *Control) {
	var kills []func()
	for n := range 3 {
		conn, kill, err := c.StartWorker(context.Background())
		if err != nil {
			_ = c.Notify(fmt.Sprintf("worker %d: %v", n, err))
			continue
		}
		kills = append(kills, kill)
		in := bufio.NewReader(conn)
		line, _ := in.ReadString('\n') // else it is ""
		fmt.Fprintf(conn, "echo %d\n", n)
		echo, _ := in.ReadString('\n') // else it is ""
		_ = c.Notify(fmt.Sprintf("worker %d is %s and says %s", n, strings.TrimSpace(line),
			strings.TrimSpace(echo)))
	}
	kills[0]()
	for { // until there is a place
		conn, _, err := c.StartWorker(context.Background())
		if err == nil {
			line, _ := bufio.NewReader(conn).ReadString('\n') // else it is ""
			_ = c.Notify("another worker is " + line)
			return
		}
	}
}

// log collects texts.
type log struct {
	mu   sync.Mutex
	list []string
}

func (l *log) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, text)
}

// with returns the texts that begin with a text.
func (l *log) with(start string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.list), func(s string) bool {
		return !strings.HasPrefix(s, start)
	})
}

// eventually waits until check is true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// running reports whether a process runs.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// numbers returns the last words of texts as numbers.
func numbers(t *testing.T, texts []string) (all []int) {
	t.Helper()
	for _, text := range texts {
		n, err := strconv.Atoi(text[strings.LastIndexByte(text, ' ')+1:])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// supervised is a running supervisor.
type supervised struct {
	*Supervisor
	reports, notes log
	stop           context.CancelFunc
	ended          chan struct{}
	status         int
	err            error
}

// supervise runs a supervisor whose processes do what is said, with times changed by change.
func supervise(t *testing.T, first, main string, change func(*Supervisor)) *supervised {
	t.Helper()
	t.Setenv(asProcess+"first", first)
	t.Setenv(asProcess+"main", main)
	out := &supervised{ended: make(chan struct{})}
	out.Supervisor = newSupervisor(out.reports.add)
	out.Notify = out.notes.add
	if change != nil {
		change(out.Supervisor)
	}
	var ctx context.Context
	ctx, out.stop = context.WithCancel(t.Context())
	go func() {
		out.status, out.err = out.Run(ctx)
		close(out.ended)
	}()
	t.Cleanup(func() {
		out.stop()
		<-out.ended
	})
	return out
}

// end stops the supervisor and returns the exit status.
func (s *supervised) end(t *testing.T) int {
	t.Helper()
	s.stop()
	<-s.ended
	if s.err != nil {
		t.Error(s.err)
	}
	return s.status
}

// The processes are connected, and the main one gets SIGTERM when the context ends.
func TestProcessesAreConnected(t *testing.T) {
	s := supervise(t, "", "", nil)
	eventually(t, "the first process speaks", func() bool { return len(s.notes.with("hello")) > 0 })
	main := numbers(t, s.notes.with("main is"))
	if status := s.end(t); status != 5 {
		t.Errorf("the exit status is %d, want that of the main process", status)
	}
	if running(main[0]) || running(numbers(t, s.notes.with("hello"))[0]) {
		t.Error("a process still runs")
	}
	if all := s.reports.with(""); len(all) > 0 {
		t.Errorf("reports %q", all)
	}
}

// A process that is killed is started again and connected again, the other one stays.
func TestKilledProcessIsStartedAgain(t *testing.T) {
	s := supervise(t, "", "", nil)
	for n := 1; n < 3; n++ {
		eventually(t, "they are connected", func() bool { return len(s.notes.with("hello")) == n })
		first := numbers(t, s.notes.with("hello"))
		if err := syscall.Kill(first[n-1], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "again", func() bool { return len(s.notes.with("hello")) == 3 })
	if pids := numbers(t, s.notes.with("hello")); pids[0] == pids[1] || pids[1] == pids[2] {
		t.Errorf("the processes are %d", pids)
	}
	if main := s.notes.with("main is"); len(main) != 1 {
		t.Errorf("the main process was started %d times", len(main))
	}
	if all := s.reports.with("the first ended (signal: killed, process "); len(all) != 2 {
		t.Errorf("reports %q", s.reports.with(""))
	}
}

// The delay doubles for a process that dies at once again and again, up to a limit, and begins anew
// for one that was healthy.
func TestBackOff(t *testing.T) {
	for _, tt := range []struct {
		name, does string
		change     func(*Supervisor)
		want       []string
	}{
		{"it dies at once", "dies", nil, []string{"100ms", "200ms", "400ms"}},
		{"up to a limit", "dies", func(s *Supervisor) { s.times.maxDelay = 150 * time.Millisecond },
			[]string{"100ms", "150ms", "150ms"}},
		{"it was healthy", "dies later",
			func(s *Supervisor) { s.times.healthy = time.Millisecond },
			[]string{"100ms", "100ms", "100ms"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := supervise(t, tt.does, "", tt.change)
			eventually(t, "it died three times", func() bool { return len(s.reports.with("the first")) >= 3 })
			for i, want := range tt.want {
				text := s.reports.with("the first ended (exit status 3, process ")[i]
				if !strings.HasSuffix(text, "is started again in "+want) {
					t.Errorf("report %d is %q, want %s", i, text, want)
				}
			}
			if main := s.notes.with("main is"); len(main) != 1 {
				t.Errorf("the main process was started %d times", len(main))
			}
		})
	}
}

// A main process that ends on purpose ends all, with its status.
func TestMainProcessExits(t *testing.T) {
	s := supervise(t, "", "exits", nil)
	<-s.ended
	if s.status != 7 || s.err != nil {
		t.Errorf("status %d, %v", s.status, s.err)
	}
	if all := s.reports.with(""); len(all) > 0 {
		t.Errorf("reports %q", all)
	}
}

// A main process that dies otherwise is started again.
func TestMainProcessDies(t *testing.T) {
	s := supervise(t, "", "dies", nil)
	eventually(t, "it died twice", func() bool { return len(s.reports.with("the main ended")) >= 2 })
	if status := s.end(t); status > 1 {
		t.Errorf("status %d", status)
	}
}

// Processes that ignore SIGTERM and the end of their parent are killed.
func TestIgnoredSignals(t *testing.T) {
	short := func(s *Supervisor) { s.times.end = 200 * time.Millisecond }
	s := supervise(t, "ignores signals", "ignores signals", short)
	eventually(t, "the main process runs", func() bool { return len(s.notes.with("it ignores")) > 0 })
	pid := numbers(t, s.notes.with("main is"))[0]
	if status := s.end(t); status != 1 {
		t.Errorf("status %d of a killed process", status)
	}
	for _, k := range s.kids {
		if running(k.cmd.Process.Pid) {
			t.Errorf("process %d runs", k.cmd.Process.Pid)
		}
	}
	if running(pid) {
		t.Errorf("process %d runs", pid)
	}
}

// The main process starts workers up to their number. They get no secret, can be killed, and end
// with the main process.
func TestWorkers(t *testing.T) {
	t.Setenv(secret, "secret")
	s := supervise(t, "", "has workers", nil)
	eventually(t, "there is another worker", func() bool { return len(s.notes.with("another")) > 0 })
	var pids []int
	for n, text := range s.notes.with("worker ")[:2] {
		var number, pid int
		var hidden string
		_, err := fmt.Sscanf(text, "worker %d is %d %q and says echo", &number, &pid, &hidden)
		if err != nil || hidden != "" || !strings.HasSuffix(text, fmt.Sprint("echo ", n)) {
			t.Errorf("%q, %v", text, err)
		}
		pids = append(pids, pid)
	}
	if all := s.notes.with("worker 2: there are 2 already"); len(all) != 1 {
		t.Errorf("one more: %q", s.notes.with("worker"))
	}
	if running(pids[0]) || !running(pids[1]) {
		t.Errorf("the killed worker runs: %v, the other one: %v", running(pids[0]), running(pids[1]))
	}
	if all := s.reports.with(""); len(all) > 0 {
		t.Errorf("reports %q", all)
	}
	if err := syscall.Kill(pids[1], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its death is reported", func() bool {
		return len(s.reports.with("a worker ended (signal: killed)")) == 1
	})
	var pid int
	if _, err := fmt.Sscanf(s.notes.with("another")[0], "another worker is %d", &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(numbers(t, s.notes.with("main is"))[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker ends with the main process", func() bool { return !running(pid) })
}

// All processes end when the supervisor is killed.
func TestKilledSupervisor(t *testing.T) {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), asSupervisor+"=1", asProcess+"main=has workers")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait() //nolint:errcheck // it is killed
	var lines log
	read := make(chan struct{})
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			lines.add(s.Text())
		}
		close(read)
	}()
	eventually(t, "all run", func() bool {
		return len(lines.with("hello")) > 0 && len(lines.with("another")) > 0
	})
	pids := append(numbers(t, lines.with("hello")), numbers(t, lines.with("main is"))...)
	for _, text := range append(lines.with("worker 1"), lines.with("another")...) {
		_, after, _ := strings.Cut(text, " is ")
		pid, err := strconv.Atoi(strings.Fields(after)[0])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 4 {
		t.Fatalf("the processes are %d", pids)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-read
	eventually(t, "all end", func() bool { return !slices.ContainsFunc(pids, running) })
}

// Without a supervisor there is no control, and a variable that no supervisor has set is an error.
func TestAttach(t *testing.T) {
	if c, err := Attach(); c != nil || err != nil {
		t.Errorf("without a supervisor: %v, %v", c, err)
	}
	t.Setenv(variable, "x:y")
	if _, err := Attach(); err == nil {
		t.Error("a number that is none is no error")
	}
}

func TestFirstLine(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		writes     []string
	}{
		{"nothing", "", nil},
		{"one line", "abc", []string{"abc\n"}},
		{"two lines in parts", "abcd", []string{"ab", "cd\nef", "gh\n"}},
		{"control characters", "a?[31mb?", []string{"a\x1b[31mb\u009b"}},
		{"a long line", strings.Repeat("x", 200), []string{strings.Repeat("x", 150), strings.Repeat("x", 150)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f firstLine
			for _, w := range tt.writes {
				if n, err := f.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			}
			if f.String() != tt.want {
				t.Errorf("%q, want %q", f.String(), tt.want)
			}
		})
	}
}
