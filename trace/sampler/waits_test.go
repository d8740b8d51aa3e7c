package sampler

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// waiting is a C program that waits as its argument selects when it reads a byte. It prints how
// long it waited, and runs until its input ends.
const waiting = `
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static int rounds = 20, ends[2];
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static volatile int wanted, over;
static volatile int done;
__attribute__((noinline)) void nap(int us) { usleep(us); done++; }
__attribute__((noinline)) void longSleep(void) { nap(30000); done++; }
__attribute__((noinline)) void shortSleep(void) { nap(10000); done++; }
__attribute__((noinline)) void lockIt(void) { pthread_mutex_lock(&held); done++; }
__attribute__((noinline)) long wants(void) { long from = now(); lockIt(); from = now() - from; pthread_mutex_unlock(&held); return from; }
__attribute__((noinline)) void takeByte(void) { char c; if (read(ends[0], &c, 1) != 1) exit(1); done++; }
__attribute__((noinline)) void awaits(void) { takeByte(); done++; }
__attribute__((noinline)) void giveByte(void) { if (write(ends[1], "x", 1) != 1) exit(1); done++; }
__attribute__((noinline)) void wakes(void) { giveByte(); done++; }
static void *holder(void *unused) {
	for (;;) {
		pthread_mutex_lock(&held);
		wanted = 1;
		while (wanted == 1) usleep(100);
		if (over) return 0;
		usleep(20000);
		pthread_mutex_unlock(&held);
		while (wanted == 2) usleep(100);
	}
}
static void *waker(void *unused) {
	prctl(PR_SET_NAME, "theWaker");
	for (int i = 0; i < rounds; i++) { usleep(5000); wakes(); }
	return 0;
}
int main(int argc, char **argv) {
	pthread_t other;
	long a = 0, b = 0, t;
	if (pipe(ends) || getchar() == EOF) return 1;
	if (!strcmp(argv[1], "sleep"))
		for (int i = 0; i < rounds; i++) { t = now(); longSleep(); a += now() - t; t = now(); shortSleep(); b += now() - t; }
	if (!strcmp(argv[1], "lock")) {
		pthread_create(&other, 0, holder, 0);
		for (int i = 0; i < rounds; i++) {
			while (wanted != 1) usleep(100);
			wanted = 2;
			a += wants();
			wanted = 0;
		}
	}
	if (!strcmp(argv[1], "wake")) {
		pthread_create(&other, 0, waker, 0);
		for (int i = 0; i < rounds; i++) { t = now(); awaits(); a += now() - t; }
	}
	if (!strcmp(argv[1], "spin"))
		for (;;) done++;
	printf("%ld %ld\n", a, b);
	fflush(stdout);
	while (getchar() != EOF) ;
	return 0;
}`

// whileWaiting profiles the program while it waits, and returns the times that it prints.
func whileWaiting(t *testing.T, p Profile, how string) (got *Profiled, a, b int64) {
	t.Helper()
	tracetest.Needs(t, feature.TypedTracepoints)
	c := exec.Command(tracetest.CompileC(t, waiting, "-pthread"), how)
	in, out := tracetest.Pipe(t, c)
	defer c.Wait() //nolint:errcheck // what it said is what counts
	defer in.Close()
	p.Threads.PIDs = []int{c.Process.Pid}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var said string
	p.hooks.begun = func() {
		go func() {
			defer stop()
			if _, err := io.WriteString(in, "\n"); err == nil {
				said, _ = bufio.NewReader(out).ReadString('\n')
			}
		}()
	}
	got, err := p.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(said, "%d %d", &a, &b); err != nil {
		t.Fatalf("the program said %q: %v", said, err)
	}
	for s := range got.Stacks {
		if s.PID != c.Process.Pid {
			t.Errorf("a wait of a process that was not asked for: %+v", s)
		}
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		t.Logf("lost: %v, notes %q, %d away", got.Loss, got.Notes, got.Away)
		for s := range got.Stacks {
			t.Logf(
				"%s %d/%d %s: %d times, %d ns: %v; %v; %+v", s.Process, s.PID, s.TID, s.State,
				s.Count, s.Amount, s.User, s.Kernel, s.Waker,
			)
		}
	})
	return got, a, b
}

// through reports whether a function is in a stack.
func through(frames []string, function string) bool {
	for _, f := range frames {
		if _, rest, ok := strings.Cut(f, "`"); ok && strings.HasPrefix(rest, function+"+") {
			return true
		}
	}
	return false
}

// waited returns the sums of the waits whose stacks contain a function.
func waited(all iter.Seq[Sampled], function string) (count, nanos int64, states map[string]int64) {
	states = map[string]int64{}
	for s := range all {
		if through(s.User, function) {
			count, nanos = count+s.Count, nanos+s.Amount
			states[s.State] += s.Amount
		}
	}
	return count, nanos, states
}

// The time off the CPU in two functions is at least what the program sleeps there, and at most what
// the program itself measures.
func TestOffCPUTimes(t *testing.T) {
	got, a, b := whileWaiting(t, Profile{Of: OffCPU}, "sleep")
	for _, want := range []struct {
		function    string
		least, most int64
	}{{"longSleep", 20 * 30e6, a}, {"shortSleep", 20 * 10e6, b}} {
		count, nanos, states := waited(got.Stacks, want.function)
		if lost := lostTimes(got); count < 20-lost || nanos < want.least*(20-lost)/20 ||
			nanos > want.most ||
			states["sleeping"] < want.least*(20-lost)/20 {
			t.Errorf(
				"%s: %d times, %d ns off the CPU, %v; it slept for %d ns at least, and says that it took %d; lost: %v",
				want.function, count, nanos, states, want.least, want.most, got.Loss,
			)
		}
	}
	for s := range got.Stacks {
		if through(s.User, "nap") && s.State == "sleeping" &&
			!strings.Contains(strings.Join(s.Kernel, " "), "nanosleep") {
			t.Errorf("it sleeps in the kernel at %v", s.Kernel)
		}
	}
}

// lostTimes returns how many of 20 waits may be missing: those that were lost, and some for
// switches that a kernel does not report. Measured: up to 4 of 1000, with any tool.
func lostTimes(p *Profiled) (n int64) {
	n = 3
	for _, l := range p.Loss {
		n += int64(l.Events)
	}
	return n
}

// Waits shorter than Least are left out, and profiles with only user stacks have no kernel frames.
func TestOffCPULeast(t *testing.T) {
	got, _, _ := whileWaiting(
		t, Profile{Of: OffCPU, User: true, ByThread: true, Least: 20 * measure.Millisecond},
		"sleep",
	)
	if count, _, _ := waited(got.Stacks, "longSleep"); count+lostTimes(got) < 20 {
		t.Errorf("%d waits of 30 ms", count)
	}
	for s := range got.Stacks {
		if s.Amount < s.Count*int64(20*measure.Millisecond) || len(s.Kernel) > 0 || s.TID != s.PID {
			t.Errorf("%+v", s)
		}
	}
}

// The waker of a thread that waits for a pipe is the thread that writes, with its stack.
func TestOffCPUWakers(t *testing.T) {
	got, a, _ := whileWaiting(t, Profile{Of: OffCPU, Wakers: true}, "wake")
	var known, all int64
	for s := range got.Stacks {
		if !through(s.User, "awaits") || s.State != "sleeping" {
			continue
		}
		all += s.Amount
		if s.Waker != nil && s.Waker.Process == "theWaker" && s.Waker.PID == s.PID &&
			through(s.Waker.User, "wakes") &&
			strings.Contains(strings.Join(s.Waker.Kernel, " "), "write") {
			known += s.Amount
		}
	}
	if all == 0 || known*10 < all*9 || all > a {
		t.Errorf("of %d ns that it waited, by itself %d, the waker is known of %d", all, a, known)
	}
}

// A thread that waits for a mutex waits for as long as another thread holds it.
func TestLocksOfPrograms(t *testing.T) {
	got, a, _ := whileWaiting(t, Profile{Of: Locks, User: true}, "lock")
	count, nanos, states := waited(got.Stacks, "wants")
	if lost := lostTimes(got); count+lost < 20 || nanos < (20-lost)*10e6 || nanos > a ||
		len(states) != 1 ||
		states[stateFutex] == 0 {
		t.Errorf(
			"%d waits of %d ns, %v, in the function that wants the mutex; by itself it waited %d ns",
			count, nanos, states, a,
		)
	}
}

// Threads that share a CPU wait for as long as the kernel itself counts.
func TestRunQueueTimes(t *testing.T) {
	tracetest.Needs(t, feature.TypedTracepoints)
	if err := feature.SchedInfo.Have(kernel.Root{}); err != nil {
		t.Skip("needs: kernel feature sched_info")
	}
	work := tracetest.CompileC(t, waiting, "-pthread")
	cpus, err := proc.OnlineCPUs(kernel.Root{})
	if err != nil {
		t.Fatal(err)
	}
	var one unix.CPUSet
	one.Set(int(cpus[0]))
	var pids []int
	for range 2 {
		c := exec.Command(work, "spin")
		c.Stdin = strings.NewReader("\n")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		defer c.Wait()         //nolint:errcheck // it was killed
		defer c.Process.Kill() //nolint:errcheck // nothing else ends it
		if err := unix.SchedSetaffinity(c.Process.Pid, &one); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, c.Process.Pid)
	}
	delay := func() (sum int64) {
		for _, pid := range pids {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum
	}
	var before int64
	var start time.Time
	p := Profile{Of: RunQueue, Threads: ThreadFilter{PIDs: pids}, For: 2 * measure.Second}
	p.hooks.begun = func() { before, start = delay(), time.Now() }
	got, err := p.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	whole, kernels := time.Since(start), delay()-before
	var nanos, put int64
	for s := range got.Stacks {
		nanos += s.Amount
		if s.State == "preempted" {
			put += s.Amount
		}
	}
	ours, theirs := float64(nanos)/float64(got.Took), float64(kernels)/float64(whole)
	if ours < 0.6*theirs || ours > 1.6*theirs || theirs == 0 || float64(put) < 0.8*float64(nanos) {
		t.Errorf(
			"%.2f threads waited for the CPU, by the kernel's own count %.2f; %d of %d ns put aside; lost %v",
			ours, theirs, put, nanos, got.Loss,
		)
	}
}

// Threads that use one pipe wait for its mutex.
func TestLocksOfTheKernel(t *testing.T) {
	e := tracetest.Here(t)
	if _, err := e.Probes(tracetest.Probe(t, "sdt:lock::contention_begin")); err != nil {
		t.Skip("needs: kernel feature lock:contention_begin")
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	p := Profile{Of: Locks, Kernel: true, Threads: ThreadFilter{PIDs: []int{os.Getpid()}}}
	p.hooks.begun = func() {
		go func() {
			defer stop()
			var all sync.WaitGroup
			for range 4 { // one pipe has one mutex
				all.Go(func() {
					b := make([]byte, 1)
					for range 30000 {
						unix.Write(fds[1], b) //nolint:errcheck // it may be full
						unix.Read(fds[0], b)  //nolint:errcheck // it may be empty
					}
				})
			}
			all.Wait()
		}()
	}
	got, err := p.Run(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var count, pipes int64
	for s := range got.Stacks {
		count += s.Count
		frames := strings.Join(s.Kernel, " ")
		if s.State == "mutex" && strings.Contains(frames, "pipe_") {
			pipes += s.Count
		}
		if s.Amount < 0 || s.Amount > s.Count*int64(got.Took) || s.State == stateFutex ||
			len(s.User) > 0 {
			t.Errorf("%+v", s)
		}
	}
	if count > 50 && pipes == 0 {
		t.Errorf("of %d waits none is for a pipe's mutex", count)
		for s := range got.Stacks {
			t.Logf("%s %d %v", s.State, s.Count, s.Kernel)
		}
	}
}

// Threads are selected by ID, by name and by control group, and others are not in the profile.
func TestProfileWho(t *testing.T) {
	tracetest.Needs(t, feature.PerfPrograms)
	work := tracetest.CompileC(t, waiting, "-pthread")
	meant := filepath.Join(filepath.Dir(work), "itIsMeant")
	if err := os.Rename(work, meant); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(meant, "spin")
	c.Stdin = strings.NewReader("\n")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()         //nolint:errcheck // it was killed
	defer c.Process.Kill() //nolint:errcheck // nothing else ends it
	who := map[string]ThreadFilter{
		"thread": {TIDs: []int{c.Process.Pid}},
		"name":   {Processes: []string{"itIsMeant"}},
	}
	if dir := ownCgroup(t, c.Process.Pid); dir != "" {
		who["cgroup"] = ThreadFilter{Cgroups: []string{dir}}
	}
	for what, w := range who {
		t.Run(what, func(t *testing.T) {
			var seen int64
			for deadline := time.Now().Add(time.Minute); seen < 10; {
				if time.Now().After(deadline) {
					t.Fatalf("%d samples of a program that never stops", seen)
				}
				p := Profile{Hz: 499, Threads: w, For: 300 * measure.Millisecond}
				got, err := p.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for s := range got.Stacks {
					if s.PID != c.Process.Pid || s.Process != "itIsMeant" {
						t.Fatalf("a sample of somebody else: %+v", s)
					}
					seen += s.Amount
				}
			}
		})
	}
	p := Profile{Hz: 99, Threads: ThreadFilter{Cgroups: []string{"/no/such/group"}}}
	if _, err := p.Run(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "find cgroup /no/such/group") {
		t.Errorf("of a group that is not there it says: %v", err)
	}
}

// ownCgroup moves a process into a new control group of the first hierarchy that allows it. It
// returns the group, or "".
func ownCgroup(t *testing.T, pid int) string {
	t.Helper()
	all, err := proc.Cgroups(kernel.Root{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if !c.V2 && len(c.Controllers) == 0 {
			continue
		}
		dir := filepath.Join(c.Path, fmt.Sprintf("culprit-%d", pid))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() {
			for range 100 { // it is gone a moment after its last process
				if os.Remove(dir) == nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		if os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) == nil {
			return dir
		}
	}
	return ""
}
