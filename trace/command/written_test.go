package command

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/feature"

	"golang.org/x/sys/unix"
)

// The scripts of this file are those of engineers' own accounts, exactly as they wrote them but for
// FN, the function, and for the minutes that they let them run: CULPRIT_AS_WRITTEN=1 leaves those
// too.

// asWritten fills in the function, and shortens the time.
func asWritten(text string) string {
	text = strings.ReplaceAll(text, "FN", watched)
	if os.Getenv("CULPRIT_AS_WRITTEN") == "" {
		text = regexp.MustCompile(`tick-[36]0s`).ReplaceAllString(text, "tick-1s")
	}
	return text
}

// watched is a function that only calls of this file's make, by way of getpgid(2) of process 1.
const watched = "do_getpgid"

// call calls the function that is watched.
func call(n int) {
	for range n {
		unix.Getpgid(1) //nolint:errcheck // it is made to be counted
	}
}

// script is a request as culprit trace -s FILE or -n makes it.
func script(text string) Request {
	return Request{Parts: []Part{{'n', text}}, Options: []string{"quiet"}}
}

// needsFunctions skips where no function of the kernel can be watched.
func needsFunctions(t *testing.T) {
	t.Helper()
	if feature.Kprobe.Have(kernel.Root{}) != nil && feature.Fentry.Have(kernel.Root{}) != nil {
		t.Skip("needs: kernel feature kprobes or fentry")
	}
}

func TestWrittenLatency(t *testing.T) {
	needsFunctions(t)
	const calls = 1000
	_, out, errs := traced(
		t,
		script(
			asWritten(
				`fbt::FN:entry { self->t = timestamp; } fbt::FN:return /self->t/ { @["latency"] = quantize((timestamp-self->t)/1000); self->t = 0; }`,
			),
		),
		func() { call(calls) },
	)
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^ +\d+ \|@* +(\d+) *$`).FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(m[1])
		sum += n
	}
	if sum != calls || errs != "" || !strings.Contains(out, "  latency ") {
		t.Errorf("counted %d of %d calls, and said %q:\n%s", sum, calls, errs, out)
	}
}

func TestWrittenStacks(t *testing.T) {
	needsFunctions(t)
	const calls = 1000
	_, out, errs := traced(
		t, script(asWritten(`FN:entry{@[stack()]=count();}`)), func() { call(calls) },
	)
	sum := 0
	for _, m := range regexp.MustCompile("(?m)^ +vmlinux`"+watched+`(?:\+0x[0-9a-f]+)?\n(?: +vmlinux.*\n)+ +(\d+)$`).FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(m[1])
		sum += n
	}
	if sum != calls || errs != "" || !strings.Contains(out, "do_syscall_64") {
		t.Errorf("counted %d of %d calls, and said %q:\n%s", sum, calls, errs, out)
	}
}

func TestWrittenAverage(t *testing.T) {
	needsFunctions(t)
	text := asWritten(
		`FN:entry{self->t=timestamp;} FN:return/self->t/{@=avg(timestamp-self->t);} tick-30s{printa("average: %@d nsn",@);trunc(@);}`,
	)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	r := script(text)
	printed := make(chan bool)
	r.begun = func() {
		defer close(printed)
		most := 2500 * time.Millisecond
		if os.Getenv("CULPRIT_AS_WRITTEN") != "" {
			most = 65 * time.Second
		}
		for start := time.Now(); time.Since(start) < most; {
			call(100)
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}
	_, out, errs, err := session(ctx, t, r)
	<-printed
	all := regexp.MustCompile(`average: (\d+) nsn`).FindAllStringSubmatch(out, -1)
	if err != nil || errs != "" || len(all) < 2 {
		t.Fatalf("printed %q and %q: %v", out, errs, err)
	}
	for _, m := range all {
		if n, _ := strconv.Atoi(m[1]); n < 10 || n > 1e7 {
			t.Errorf("an average of %d ns", n)
		}
	}
}

// A thread that is in the kernel on CPU 1 is sampled there as often as its time comes to, in the
// functions that it calls.
func TestWrittenProfile(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs: kernel feature two CPUs")
	}
	// Where a hypervisor holds a timer back, samples are missing: never are there more, and once in
	// three times there are all.
	for range 3 {
		if profiled(t) {
			return
		}
	}
	t.Error("there are too few samples")
}

// profiled reports whether most of the time that a thread was in the kernel was sampled.
func profiled(t *testing.T) bool {
	long, most := 300*time.Millisecond, 900*time.Millisecond // of the CPU's time, and of ours
	if os.Getenv("CULPRIT_AS_WRITTEN") != "" {
		long, most = 30*time.Second, 58*time.Second
	}
	// ran is how long the thread was on its CPU. stolen is the time that the hypervisor took: the
	// thread does not run then, but samples are due.
	var ran, stolen time.Duration
	worked := make(chan bool)
	r := script(
		asWritten(`profile-997 /arg0 && cpu==1/ { @[stack()] = count(); } tick-60s { exit(0); }`),
	)
	r.begun = func() {
		defer close(worked)
		runtime.LockOSThread() // and it ends with the goroutine
		var one unix.CPUSet
		one.Set(1)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Error(err)
			return
		}
		zero, err := os.Open("/dev/zero")
		if err != nil {
			t.Error(err)
			return
		}
		defer zero.Close()
		buf := make([]byte, 1<<20)
		before, took := onCPU(t), stolenOf(t, "cpu1")
		// The kernel reports stolen time in hundredths of a second.
		defer func() { stolen = stolenOf(t, "cpu1") - took + 10*time.Millisecond }()
		for start := time.Now(); ran < long && time.Since(start) < most; ran = onCPU(t) - before {
			for range 50 {
				// Not unix.Read, behind which the race detector would be for most of the time.
				unix.Syscall(
					unix.SYS_READ, zero.Fd(), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)),
				) //nolint:errcheck // it is made to be seen
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	status, out, errs, err := session(ctx, t, r)
	<-worked
	if err != nil || status != 0 || errs != "" {
		t.Fatalf("status %d, said %q: %v", status, errs, err)
	}
	sum := 0
	for _, m := range regexp.MustCompile("(?m)^((?: +\\S*`.*\n)+) +(\\d+)$").FindAllStringSubmatch(out, -1) {
		if n, _ := strconv.Atoi(m[2]); strings.Contains(m[1], "read_zero") ||
			strings.Contains(m[1], "read_iter_zero") {
			sum += n
		}
	}
	expected := ran.Seconds() * 997
	limit := (ran+stolen).Seconds()*997*1.02 + 2
	t.Logf("%d samples in %v and %v that were stolen, at most %.0f", sum, ran, stolen, limit)
	if float64(sum) > limit {
		t.Errorf(
			"%d samples in %v and %v that were stolen, want some %.0f:\n%.2000s", sum, ran, stolen,
			expected, out,
		)
	}
	if cpu, _ := os.ReadFile("/proc/cpuinfo"); strings.Contains(string(cpu), "QEMU") {
		// timers of an emulated machine are late, and missed firings are not repeated
		return float64(sum) > expected*0.05
	}
	return float64(sum) > expected*0.8
}

// onCPU returns how long this thread has run.
func onCPU(t *testing.T) time.Duration {
	b, err := os.ReadFile("/proc/thread-self/schedstat")
	if err != nil {
		t.Error(err)
		return 0
	}
	var ns int64
	fmt.Sscan(string(b), &ns) //nolint:errcheck // 0 fails the test
	return time.Duration(ns)
}

// stolenOf returns the time that the hypervisor has taken of a CPU, as /proc/stat has it, in
// hundredths of a second.
func stolenOf(t *testing.T, cpu string) time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Error(err)
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 8 && f[0] == cpu {
			ticks, err := strconv.Atoi(f[8])
			if err != nil {
				t.Error(err)
			}
			return time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	t.Errorf("/proc/stat has no %s", cpu)
	return 0
}

// Many functions at once, as others can't: what could not be attached is named, and the rest
// counts.
func TestWrittenMany(t *testing.T) {
	needsFunctions(t)
	for _, c := range []struct{ text, function string }{
		{`fbt::tcp_*:entry { @[probefunc] = count(); }`, ""},
		{`fbt::vfs_*:entry /pid == $pid && tid == $1/ { @[probefunc] = count(); }`, "vfs_fsync_range"},
	} {
		if feature.KprobeMulti.Have(kernel.Root{}) != nil && os.Getenv("CULPRIT_AS_WRITTEN") == "" {
			t.Skip(
				"needs: kernel feature kprobe.multi (one by one an emulated machine takes a minute)",
			)
		}
		const calls = 100
		ready, begin, done := make(chan int), make(chan bool), make(chan bool)
		go func() {
			defer close(done)
			runtime.LockOSThread()
			ready <- unix.Gettid()
			<-begin
			f, err := os.CreateTemp(t.TempDir(), "")
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			for range calls {
				f.Sync() //nolint:errcheck // it is made to be counted
			}
		}()
		r := script(c.text)
		if tid := <-ready; strings.Contains(c.text, "$1") {
			r.Args = []string{strconv.Itoa(tid)}
		}
		_, out, errs := traced(t, r, func() { close(begin); <-done })
		t.Logf("%s said %q", c.text, errs)
		if errs != "" &&
			!regexp.MustCompile(`^culprit: \d+ of \d+ attached; \d+ skipped because [^\n]+: fbt:\S+[^\n]*\n$`).
				MatchString(errs) {
			t.Errorf("%s said %q", c.text, errs)
		}
		if m := regexp.MustCompile(`(?m)^ +` + c.function + ` +(\d+)$`).FindStringSubmatch(out); c.function != "" &&
			(m == nil || m[1] != strconv.Itoa(calls)) {
			t.Errorf("%s printed %s, want %d of %s", c.text, out, calls, c.function)
		}
	}
}
