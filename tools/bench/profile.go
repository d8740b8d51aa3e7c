package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
)

// A sampling is the cost of one run of culprit profile.
type sampling struct {
	What     string
	Args     []string
	Goal     string
	Seconds  float64       // looked at, while it samples
	Process  time.Duration // CPU time of the program meanwhile
	Programs time.Duration // and of its BPF programs, by the kernel's own count
	Whole    time.Duration // CPU time of the program from start to end
	Resident int64         // bytes, most
	Said     string        // how many samples, of how many stacks
}

// compareProfile prints the cost of sampling while two processes keep two CPUs busy, each with
// 32,768 different stacks.
func compareProfile(culprit string, out io.Writer) error {
	if os.Geteuid() != 0 {
		fmt.Fprintln(out, "skipped the cost of profiles: it needs root")
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for range 2 {
		c := exec.Command(self, "work", "stacks")
		if err := c.Start(); err != nil {
			return err
		}
		defer c.Wait()         //nolint:errcheck // it was killed
		defer c.Process.Kill() //nolint:errcheck // nothing else ends it
	}
	counting, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME, for as long as this is open
	if err != nil {
		return err
	}
	defer counting.Close()
	fmt.Fprint(
		out,
		"\n### Profiles\n\nWhile two processes keep two CPUs busy; "+
			"CPU time over the stretch that is sampled, and in all from start to end.\n\n",
	)
	fmt.Fprint(
		out,
		"| culprit profile | seconds | process, % of a CPU | programs, % | together, % "+
			"| goal, % | start and end, ms | resident, MB | samples |\n"+
			"|---|--:|--:|--:|--:|--:|--:|--:|---|\n",
	)
	for _, s := range []sampling{
		{What: "--hz 49", Args: []string{"--hz", "49", "--for", "24"}, Goal: "0.25"},
		{What: "--hz 99", Args: []string{"--hz", "99", "--for", "24"}, Goal: "0.5"},
		{What: "--hz 4999, 20,000 stacks", Args: []string{"--hz", "4999", "--for", "10"}, Goal: "60 MB"},
		{What: "--off-cpu --min 1ms", Args: []string{"--off-cpu", "--min", "1ms", "--for", "12"}, Goal: "-"},
	} {
		if err := s.run(culprit); err != nil {
			return fmt.Errorf("profile %s: %w", s.What, err)
		}
		share := func(d time.Duration) float64 { return 100 * d.Seconds() / s.Seconds }
		fmt.Fprintf(
			out, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", s.What, number(s.Seconds, 0),
			number(share(s.Process), 2), number(share(s.Programs), 2),
			number(share(s.Process+s.Programs), 2), s.Goal, number(ms(s.Whole-s.Process), 0),
			number(float64(s.Resident)/1e6, 1), s.Said,
		)
	}
	return nil
}

// run profiles once. The stretch begins when a second was sampled, and ends a second before the
// end.
func (s *sampling) run(culprit string) error {
	file, err := os.CreateTemp("", "culprit-bench-*.folded")
	if err != nil {
		return err
	}
	file.Close()                 //nolint:errcheck // it is written by another
	defer os.Remove(file.Name()) //nolint:errcheck // it may be gone
	_, _, others := programs(nil)
	var said strings.Builder
	c := exec.Command(culprit, append(append([]string{"profile"}, s.Args...), "-o", file.Name())...)
	c.Stderr = &said
	if err := c.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait() }()
	length, err := strconv.Atoi(s.Args[len(s.Args)-1])
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if runs, _, _ := programs(others); runs > 0 {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("it samples nothing")
		}
	}
	time.Sleep(2 * time.Second)
	start := time.Now()
	own := tree(c.Process.Pid)
	_, took, _ := programs(others)
	var most int64
	for time.Since(start) < time.Duration(length-4)*time.Second {
		time.Sleep(500 * time.Millisecond)
		most = max(most, resident(c.Process.Pid))
	}
	s.Seconds = time.Since(start).Seconds()
	s.Process = tree(c.Process.Pid) - own
	_, after, _ := programs(others)
	s.Programs = time.Duration(after - took)
	for over := false; !over; {
		select {
		case err = <-done:
			over = true
		case <-time.After(5 * time.Millisecond):
			most = max(most, resident(c.Process.Pid))
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, said.String())
	}
	s.Resident = most
	s.Whole = c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	b, err := os.ReadFile(file.Name())
	if err != nil {
		return err
	}
	sum := 0.0
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		sum += n
	}
	s.Said = fmt.Sprintf(
		"%s in %s stacks", number(sum, 0), number(float64(strings.Count(string(b), "\n")), 0),
	)
	for line := range strings.Lines(said.String()) { // what other programs made it do besides
		if _, took, ok := strings.Cut(line, "met while it sampled took "); ok {
			s.Said += "; unwind tables " + strings.TrimSpace(took)
		}
	}
	return nil
}

// left and right call each other by the bits of which, lowest first, so that each value is another
// stack. They return the result of the loop, so that the compiler keeps it.
//
//go:noinline
func left(which, depth int) uint64 {
	if depth == 0 {
		return spinALittle(uint64(which))
	}
	if which&1 == 0 {
		return left(which>>1, depth-1) + 1
	}
	return right(which>>1, depth-1) + 1
}

//go:noinline
func right(which, depth int) uint64 {
	if depth == 0 {
		return spinALittle(uint64(which))
	}
	if which&1 == 0 {
		return left(which>>1, depth-1) + 1
	}
	return right(which>>1, depth-1) + 1
}

//go:noinline
func spinALittle(x uint64) uint64 {
	for i := range uint64(20000) {
		x = x*6364136223846793005 + i
	}
	return x
}

// workStacks keeps a CPU busy in as many stacks as there are numbers of 15 bits, until it is ended.
func workStacks() error {
	sum := uint64(0)
	for n := 0; ; n++ {
		if sum += left(n*12345&(1<<15-1), 15); sum == 1 {
			fmt.Println(sum) // it may be: what is used must be worked out
		}
	}
}
