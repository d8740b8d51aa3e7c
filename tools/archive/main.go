// Command archive holds culprit's archive against Prometheus's storage: the same ticks into both, each in a process of its own,
// and what a sample then costs in CPU time, disk and memory, and a question in time. It prints the tables of docs/PERFORMANCE.md.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"culprit/measure"
	"culprit/store"
)

// An engine keeps ticks and answers questions.
type engine interface {
	put(at measure.Time, t tick) error
	settle() error
	size() (tables, whole space) // what is written for good, and all there is; of an engine that was opened again the bytes only
	ask(from, to measure.Time, datasets int) (cells int, err error)
	close() error
}

// result is what one engine did with one feed.
type result struct {
	Engine, Feed   string
	Samples        uint64
	Seconds        float64 // of wall clock, to take all in
	CPU            float64 // seconds, to take all in and to settle
	Tables, Whole  space
	Recorded       uint64 // samples without zeros of sparse rows
	Resident, Peak int64
	Reopen         float64 // seconds, after a kill
	Questions      []question
}

// space is bytes on disk and the samples in them.
type space struct {
	Bytes   int64
	Samples uint64
}

type question struct {
	Name    string
	Seconds float64 // of three the shortest
	CPU     float64 // seconds, of the same three the least
	Cells   int
}

func main() {
	hours := flag.Float64("hours", 24, "how much time the made data covers")
	recorded := flag.String("recorded", "", "the directory of a recorded archive, to be used as real data")
	child := flag.String("engine", "", "")
	dir := flag.String("dir", "", "")
	flag.Parse()
	var err error
	if flag.Arg(0) == "day" { // for the page to show
		err = day(flag.Arg(1))
	} else if flag.Arg(0) == "latencies" { // likewise
		err = latencies(flag.Arg(1))
	} else if *child != "" {
		err = run(*child, *dir, *recorded, *hours)
	} else {
		err = compare(*recorded, *hours)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "archive:", err)
		os.Exit(1)
	}
}

func compare(recorded string, hours float64) error {
	var all []result
	feeds := []string{""}
	if recorded != "" {
		feeds = []string{recorded, ""}
	}
	for _, feed := range feeds {
		for _, name := range []string{"culprit", "prometheus"} {
			r, err := inChild(name, feed, hours)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, r)
		}
	}
	report(os.Stdout, all)
	return nil
}

// inChild runs an engine in a process of its own, so that memory and CPU time are its own; the last question is asked by a
// process that opens what the first left when it was killed.
func inChild(name, feed string, hours float64) (r result, err error) {
	dir, err := os.MkdirTemp("", "archive-bench-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return r, err
	}
	args := []string{"-engine", name, "-dir", dir, "-recorded", feed, "-hours", strconv.FormatFloat(hours, 'g', -1, 64)}
	c := exec.Command(self, args...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return r, err
	}
	if err := c.Start(); err != nil {
		return r, err
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	if err := c.Process.Kill(); err != nil { // as it stands: nothing is closed
		return r, err
	}
	_ = c.Wait()
	if readErr != nil {
		return r, fmt.Errorf("ended without a result: %w", readErr)
	}
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		return r, err
	}
	c = exec.Command(self, append(args, "reopen")...)
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		return r, fmt.Errorf("reopen: %w", err)
	}
	var after result
	if err := json.Unmarshal(text, &after); err != nil {
		return r, fmt.Errorf("reopen: %w", err)
	}
	r.Reopen, r.Tables.Bytes = after.Reopen, after.Tables.Bytes
	return r, nil
}

func run(name, dir, recorded string, hours float64) error {
	var in feed
	start := measure.Time(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	in = newNoisy(start, int(hours*3600))
	r := result{Engine: name, Feed: "noisy"}
	if recorded != "" {
		replay, err := newReplay(recorded)
		if err != nil {
			return err
		}
		in, r.Feed, start = replay, "recorded", replay.from
	}
	open := func(dir string, sets []measure.Dataset) (engine, error) {
		o := store.Options{}
		if recorded != "" {
			o.Memory = 512 << 20 // a burst of keys does not take its seconds here: what would have been out of memory by then is not
		}
		return openArchive(dir, sets, o)
	}
	if name == "prometheus" {
		open = openPrometheus
	}
	sets, again := in.datasets(), flag.Arg(0) == "reopen"
	if again {
		sets = nil // they are there
	}
	opening := time.Now()
	e, err := open(dir, sets)
	if err != nil {
		return err
	}
	if again { // what was in a log only is in tables now; nothing is closed
		r.Reopen = time.Since(opening).Seconds()
		// What is not needed any more is deleted in the background.
		r.Tables, _ = e.size()
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			before := r.Tables
			if r.Tables, _ = e.size(); r.Tables == before {
				break
			}
		}
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	before, wall := cpuSeconds(), time.Now()
	var last measure.Time
	var making float64
	for {
		// On one thread while its time is taken, and on any after: a goroutine that is bound to one is slow to be woken.
		runtime.LockOSThread()
		m := threadSeconds()
		t := in.tick()
		making += threadSeconds() - m
		runtime.UnlockOSThread()
		if t.recorded == nil {
			break
		}
		at := start
		for _, b := range t.recorded {
			if b != nil && b.Over.End > at {
				at = b.Over.End
			}
		}
		at = (at + measure.Time(measure.Second)/2) / measure.Time(measure.Second) * measure.Time(measure.Second)
		if at <= last {
			at = last.Add(measure.Second)
		}
		last = at
		if err := e.put(at, t); err != nil {
			return err
		}
		r.Samples, r.Recorded = r.Samples+uint64(t.samples()), r.Recorded+uint64(values(t.recorded))
	}
	if err := e.settle(); err != nil {
		return err
	}
	r.Seconds, r.CPU = time.Since(wall).Seconds(), cpuSeconds()-before-making
	r.Resident, r.Peak = memory("VmRSS:"), memory("VmHWM:")
	r.Tables, r.Whole = e.size()
	if r.Feed == "noisy" {
		for _, hours := range []int{1, 24} {
			for _, sets := range []int{1, 10} {
				q := question{Name: fmt.Sprintf("%d h x %d rows", hours, sets*noisyRows)}
				for n := range 3 {
					t, used := time.Now(), cpuSeconds()
					if q.Cells, err = e.ask(last.Add(-measure.Span(hours)*3600*measure.Second), last, sets); err != nil {
						return err
					}
					took, used := time.Since(t).Seconds(), cpuSeconds()-used
					if n == 0 || took < q.Seconds {
						q.Seconds = took
					}
					if n == 0 || used < q.CPU {
						q.CPU = used
					}
				}
				r.Questions = append(r.Questions, q)
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	select {} // until we are killed
}

func cpuSeconds() float64 { return used(syscall.RUSAGE_SELF) }

// threadSeconds is the CPU time of this thread.
func threadSeconds() float64 { return used(1) } // RUSAGE_THREAD

func used(who int) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		panic(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// memory reads a line of /proc/self/status, in bytes.
func memory(name string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			kB, _ := strconv.ParseInt(f[1], 10, 64)
			return kB << 10
		}
	}
	return 0
}
