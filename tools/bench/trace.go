package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A question is a program for culprit trace and the same one for bpftrace.
type question struct {
	What      string
	Culprit   string // D
	Bpftrace  string
	Event     bool   // what it costs an event is compared too
	Workload  string // what makes the events: reads, or spin
	MustEvent uint64 // fewer runs than that, and the figure is worth nothing
	Watch     string // what is watched for the time from start to end; "": /bin/true
}

// called is a function of a process that is watched.
//
//go:noinline
func called(n int) int { return n + 1 }

// library is where the C library is; "": it is not found.
func library() string {
	for _, pattern := range []string{"/lib/*/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"} {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// processQuestions are those about functions of processes.
func processQuestions() []question {
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	list := []question{{
		What: "calls of a function", Culprit: `pid$target:a.out:main.called:entry { @ = count(); }`, Bpftrace: `uprobe:` + self + `:"main.called" { @ = count(); }`,
		Event: true, Workload: "calls", MustEvent: 100000, Watch: self + " work nothing",
	}}
	if libc := library(); libc != "" {
		list = append(
			list,
			question{
				What:     "malloc's sizes",
				Culprit:  `pid$target:libc:malloc:entry { @ = quantize(arg0); }`,
				Bpftrace: `uprobe:` + libc + `:malloc { @ = hist(arg0); }`,
			},
			question{
				What:     "the C library's functions that begin with mb",
				Culprit:  `pid$target:libc:mb*:entry { @[probefunc] = count(); }`,
				Bpftrace: `uprobe:` + libc + `:mb* { @[func] = count(); }`,
			},
		)
	}
	return list
}

// questions are those of the goals.
func questions() []question {
	return append([]question{
		{What: "BEGIN { exit(0) }", Culprit: `BEGIN { exit(0); }`, Bpftrace: `BEGIN { exit(); }`},
		{
			What:      "system calls by execname",
			Culprit:   `syscall:::entry { @[execname] = count(); }`,
			Bpftrace:  `tracepoint:raw_syscalls:sys_enter { @[comm] = count(); }`,
			Event:     true,
			Workload:  "reads",
			MustEvent: 100000,
		},
		{
			What:      "profile-97 of kernel stacks",
			Culprit:   `profile-97 { @[stack()] = count(); }`,
			Bpftrace:  `profile:hz:97 { @[kstack] = count(); }`,
			Event:     true,
			Workload:  "spin",
			MustEvent: 100,
		},
		{
			What:      "stacks at every read",
			Culprit:   `syscall::read:entry { @[stack()] = count(); }`,
			Bpftrace:  `tracepoint:syscalls:sys_enter_read { @[kstack] = count(); }`,
			Event:     true,
			Workload:  "reads",
			MustEvent: 100000,
		},
		{What: "quantize of the time of reads",
			Culprit:  `syscall::read:entry { self->t = timestamp; } syscall::read:return /self->t/ { @ = quantize(timestamp - self->t); self->t = 0; }`,
			Bpftrace: `tracepoint:syscalls:sys_enter_read { @t[tid] = nsecs; } tracepoint:syscalls:sys_exit_read /@t[tid]/ { @ = hist(nsecs - @t[tid]); delete(@t[tid]); }`,
			Event:    true, Workload: "reads", MustEvent: 100000},
	}, processQuestions()...)
}

// An asking is the cost of a tool for one question.
type asking struct {
	Start    time.Duration // from its start to its end, with a command that ends at once
	Resident int64         // bytes, most
	Event    float64       // ns a run, as the kernel counts
}

// compareTracing prints how culprit trace and bpftrace compare, both in turn, several times, at the
// questions that have a text in their names.
func compareTracing(culprit, only string, out io.Writer) error {
	if os.Geteuid() != 0 {
		fmt.Fprintln(out, "skipped the comparison with bpftrace: it needs root")
		return nil
	}
	if _, err := exec.LookPath("bpftrace"); err != nil {
		fmt.Fprintln(out, "skipped the comparison with bpftrace: it is not installed")
		return nil
	}
	fmt.Fprint(
		out,
		"\n### Tracing\n\n"+
			"From start to end of a program that watches `/bin/true`; medians of five.\n\n",
	)
	fmt.Fprint(
		out,
		"| query | culprit ms | bpftrace ms | culprit MB | bpftrace MB | culprit ns per event "+
			"| bpftrace ns per event | culprit ns per turn | bpftrace ns per turn |\n"+
			"|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
	)
	for _, q := range questions() {
		if !strings.Contains(q.What, only) {
			continue
		}
		ours := func(watch string) []string {
			return []string{culprit, "trace", "-q", "-n", q.Culprit, "-c", watch}
		}
		theirs := func(watch string) []string {
			return []string{"bpftrace", "-q", "-e", q.Bpftrace, "-c", watch}
		}
		var a, b []asking
		for range 5 {
			for _, side := range []struct {
				line func(string) []string
				to   *[]asking
			}{{ours, &a}, {theirs, &b}} {
				x, err := ask(side.line(cmp.Or(q.Watch, "/bin/true")))
				if err != nil {
					return fmt.Errorf("%s: %w", q.What, err)
				}
				*side.to = append(*side.to, x)
			}
		}
		var events, turns [2]float64
		if q.Event {
			var all, loops [2][]float64
			for range 5 { // in turn, so that what else the machine does is the same for both
				for i, line := range []func(string) []string{ours, theirs} {
					n, loop, err := eventCost(line, q)
					if err != nil {
						return fmt.Errorf("%s: %w", q.What, err)
					}
					all[i], loops[i] = append(all[i], n), append(loops[i], loop)
				}
			}
			for i := range all {
				slices.Sort(all[i])
				slices.Sort(loops[i])
				// Of a turn the least: all that the machine does beside is in it.
				events[i], turns[i] = all[i][len(all[i])/2], loops[i][0]
			}
		}
		mid := func(all []asking) (time.Duration, int64) {
			var t []time.Duration
			var m []int64
			for _, x := range all {
				t, m = append(t, x.Start), append(m, x.Resident)
			}
			return median(t), median(m)
		}
		at, am := mid(a)
		bt, bm := mid(b)
		fmt.Fprintf(
			out, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", q.What, number(ms(at), 0),
			number(ms(bt), 0), number(float64(am)/1e6, 1), number(float64(bm)/1e6, 1),
			number(events[0], 0), number(events[1], 0), number(turns[0], 0), number(turns[1], 0),
		)
	}
	return nil
}

// ask runs a tool to its end.
func ask(line []string) (asking, error) {
	c := exec.Command(line[0], line[1:]...)
	var said bytes.Buffer
	c.Stderr = &said
	start := time.Now()
	if err := c.Run(); err != nil {
		return asking{}, fmt.Errorf("%v: %w: %s", line, err, said.Bytes())
	}
	use, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return asking{}, fmt.Errorf("%v: no resource usage", line)
	}
	return asking{Start: time.Since(start), Resident: use.Maxrss * 1024}, nil
}

// eventCost returns the run time per event of the BPF programs that the tool has open, as the
// kernel counts it, and the CPU time of the workload per turn. turn is 0 if the workload counts no
// turns.
func eventCost(line func(string) []string, q question) (event, turn float64, err error) {
	counting, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME, for as long as this is open
	if err != nil {
		return 0, 0, err
	}
	defer counting.Close()
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	words := line(self + " work " + q.Workload)
	c := exec.Command(words[0], words[1:]...)
	c.Stdout = io.Discard
	turns, err := os.CreateTemp("", "culprit-bench-turn-")
	if err != nil {
		return 0, 0, err
	}
	defer os.Remove(turns.Name())
	defer turns.Close()
	c.Env = append(os.Environ(), turnFile+"="+turns.Name())
	if err := c.Start(); err != nil {
		return 0, 0, err
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	var runs, took uint64
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(100 * time.Millisecond):
			if r, t := programsOf(c.Process.Pid); r >= runs {
				runs, took = r, t
			}
		}
	}
	if runs < q.MustEvent {
		return 0, 0, fmt.Errorf("%v: only %d events", words, runs)
	}
	if text, err := io.ReadAll(turns); err == nil && len(text) > 0 {
		if turn, err = strconv.ParseFloat(string(text), 64); err != nil {
			return 0, 0, err
		}
	}
	return float64(took) / float64(runs), turn, nil
}

// turnFile is the environment variable with the name of a file: the workload writes there the time
// of a turn in ns.
const turnFile = "CULPRIT_BENCH_TURN"

// turns is how many turns a workload makes that counts them.
const turns = 400000

// timed runs a workload's turns, and returns the time of one.
func timed(loop func() error) error {
	cpu := func() int64 {
		var t unix.Timespec
		unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) //nolint:errcheck // it can't fail
		return t.Nano()
	}
	before := cpu()
	if err := loop(); err != nil {
		return err
	}
	if name := os.Getenv(turnFile); name != "" {
		return os.WriteFile(name, fmt.Appendf(nil, "%.1f", float64(cpu()-before)/turns), 0o600)
	}
	return nil
}

// work makes events, then waits so that their cost can be read.
func work(kind string) error {
	switch kind {
	case "reads":
		f, err := os.Open("/dev/zero")
		if err != nil {
			return err
		}
		defer f.Close()
		one := make([]byte, 1)
		err = timed(func() error {
			for range turns {
				if _, err := f.Read(one); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	case "calls":
		sum := 0
		err := timed(func() error {
			for range turns {
				sum = called(sum)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if sum != turns {
			return fmt.Errorf("%d calls of %d", sum, turns)
		}
	case "nothing":
		return nil
	case "stacks":
		return workStacks()
	case "spin":
		for start := time.Now(); time.Since(start) < 3*time.Second; {
		}
	default:
		return fmt.Errorf("work: %q is none of reads, spin, calls and nothing", kind)
	}
	time.Sleep(time.Second)
	return nil
}

// programsOf returns how often the BPF programs that a process holds ran, and for how long, ns:
// other processes' run beside them.
func programsOf(pid int) (runs, took uint64) {
	seen := map[int]bool{}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	if err != nil {
		return 0, 0
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it is closed
		}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			id, err := strconv.Atoi(strings.TrimSpace(value))
			if name != "prog_id" || err != nil || seen[id] {
				continue
			}
			seen[id] = true
			p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
			if err != nil {
				continue // it is gone
			}
			if s, err := p.Stats(); err == nil {
				runs, took = runs+s.RunCount, took+uint64(s.Runtime)
			}
			p.Close() //nolint:errcheck // only looked at
		}
	}
	return runs, took
}

// programs returns how often the BPF programs that are not among others ran, and for how long, and
// which there are.
func programs(others map[ebpf.ProgramID]bool) (runs, took uint64, all map[ebpf.ProgramID]bool) {
	all = map[ebpf.ProgramID]bool{}
	for id, err := ebpf.ProgramGetNextID(0); err == nil; id, err = ebpf.ProgramGetNextID(id) {
		all[id] = true
		if others[id] {
			continue
		}
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // it is gone
		}
		if s, err := p.Stats(); err == nil {
			runs, took = runs+s.RunCount, took+uint64(s.Runtime)
		}
		p.Close() //nolint:errcheck // only looked at
	}
	return runs, took, all
}
