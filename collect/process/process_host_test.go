package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/proc"
	"culprit/kernel/proc/proctest"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// TestMain lets the test binary also run as the processes that tests observe.
func TestMain(m *testing.M) {
	if work := os.Getenv("COLLECT_TEST_WORK"); work != "" {
		burn(work)
		os.Exit(0)
	}
	proctest.Main()
	os.Exit(m.Run())
}

// burn uses the given CPU time by getrusage.
func burn(work string) {
	d, err := time.ParseDuration(work)
	if err != nil {
		panic(err)
	}
	var x uint64
	for {
		for range 1 << 16 {
			x = x*6364136223846793005 + 1
		}
		var u unix.Rusage
		if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil ||
			time.Duration(u.Utime.Nano()+u.Stime.Nano()) >= d {
			return
		}
	}
}

// live is a Processes collector on the running kernel.
type live struct {
	t       testing.TB
	out     *collect.Out
	reading *processReading
}

func newLive(t testing.TB, c Processes) *live {
	t.Helper()
	l := &live{t: t, out: collect.NewOut(c.Stats(), collect.NewDictionary(), false)}
	r, err := c.Open(&collect.Env{}, collecttest.WantAll(c))
	if err != nil {
		t.Fatal(err)
	}
	l.reading = r.(*processReading)
	t.Cleanup(r.Close)
	l.read(true)
	return l
}

func (l *live) read(first bool) map[string]float64 {
	l.t.Helper()
	l.out.Start(first, time.Now())
	if err := l.reading.Read(l.out); err != nil {
		l.t.Fatal(err)
	}
	return collecttest.RowsOf(l.t, l.out)
}

// sumOf returns the sum of the rows of a statistic of a process.
func sumOf(rows map[string]float64, stat string, pid int) float64 {
	sum := 0.0
	for k, v := range rows {
		if strings.HasPrefix(k, fmt.Sprintf("%s|%d|", stat, pid)) {
			sum += v
		}
	}
	return sum
}

// pulseSources returns all ways to read pulses that this user may use.
func pulseSources(t *testing.T) map[string]Processes {
	t.Helper()
	all := map[string]Processes{"files": {files: true}}
	conn, err := openTaskstats(int32(os.Getpid()))
	if err == nil {
		conn.close()
		all["taskstats"] = Processes{}
		if tasks, err := bpf.OpenTasks(kernel.Root{}); err == nil {
			tasks.Close()
			all["walk"] = Processes{walk: true}
		} else if !errors.Is(err, measure.ErrDenied) && !errors.Is(err, measure.ErrUnsupported) {
			t.Error(err)
		}
	} else if !errors.Is(err, measure.ErrDenied) && !errors.Is(err, measure.ErrUnsupported) {
		t.Error(err)
	}
	return all
}

// A child burns 0.3 s and ends. Before it is waited for, its row agrees with getrusage. Afterwards
// nothing of it is counted again.
func TestCPUOfChildAgreesWithGetrusage(t *testing.T) {
	for name, c := range pulseSources(t) {
		t.Run(name, func(t *testing.T) {
			l := newLive(t, c)
			pid := start(t, "300ms")
			var info unix.Siginfo
			err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
			if err != nil {
				t.Fatal(err)
			}
			rows := l.read(false)
			var usage syscall.Rusage
			if _, err := syscall.Wait4(pid, nil, 0, &usage); err != nil {
				t.Fatal(err)
			}
			want := float64(usage.Utime.Nano() + usage.Stime.Nano())
			if got := sumOf(rows, "process.cpu", pid); math.Abs(
				got-want,
			) > 2*procfs.TickNanoseconds {
				t.Errorf("its row has %v ms, getrusage %v ms", got/1e6, want/1e6)
			}
			if short := sumOf(rows, "process.short", os.Getpid()); short > 2*procfs.TickNanoseconds {
				t.Errorf("%v ms of short-lived children, before anybody waited", short/1e6)
			}
			rows = l.read(false)
			if short := sumOf(rows, "process.short", os.Getpid()); short > 2*procfs.TickNanoseconds {
				t.Errorf("%v ms came a second time", short/1e6)
			}
		})
	}
}

// A child that lives between two readings is in process.short, and its I/O is not lost.
func TestChildThatNobodySaw(t *testing.T) {
	for name, c := range pulseSources(t) {
		t.Run(name, func(t *testing.T) {
			l := newLive(t, c)
			pid := start(t, "200ms")
			var usage syscall.Rusage
			if _, err := syscall.Wait4(pid, nil, 0, &usage); err != nil {
				t.Fatal(err)
			}
			want := float64(usage.Utime.Nano() + usage.Stime.Nano())
			if got := sumOf(l.read(false), "process.short", os.Getpid()); math.Abs(
				got-want,
			) > 2*procfs.TickNanoseconds {
				t.Errorf("short-lived: %v ms, getrusage %v ms", got/1e6, want/1e6)
			}
		})
	}
}

func start(t *testing.T, work string) int {
	t.Helper()
	pid, err := syscall.ForkExec(
		"/proc/self/exe", []string{"burn"},
		&syscall.ProcAttr{Env: []string{"COLLECT_TEST_WORK=" + work, "GOMAXPROCS=1"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// Taskstats of a thread are between its schedstat before and after. Taskstats of a process are
// between its stat line before and after, including ended threads.
func TestTaskstatsAgreeWithFiles(t *testing.T) {
	conn, err := openTaskstats(int32(os.Getpid()))
	if errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: cap:CAP_NET_ADMIN:", err)
	}
	if errors.Is(err, measure.ErrUnsupported) {
		t.Skip("needs: kernel feature taskstats:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	dir, err := proc.OpenProcDir(kernel.Root{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	pids, err := dir.ListPIDs(nil)
	if err != nil {
		t.Fatal(err)
	}
	type seen struct {
		pulse
		low uint64
	}
	look := func(pid int32) (s seen, ok bool) {
		var st procStat
		b, err := dir.ReadPIDOne(pid, "schedstat", nil)
		if s.pulse, ok = parseSched(b); err != nil || !ok {
			return s, false
		}
		b, err = dir.ReadPIDOne(pid, "stat", nil)
		if err != nil || !st.parseStat(b) || st.state == 'Z' {
			return s, false
		}
		s.low = (st.usr + st.sys) * procfs.TickNanoseconds
		return s, true
	}
	before := map[int32]seen{}
	for _, pid := range pids {
		if s, ok := look(pid); ok {
			before[pid] = s
		}
	}
	get := func(attr uint16) map[int32]taskStats {
		got := map[int32]taskStats{}
		if err := conn.get(attr, pids, func(i int, s *taskStats, err error) {
			if err == nil {
				got[pids[i]] = *s
			}
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	threads, processes := get(taskstatsPID), get(taskstatsTGID)
	compared, doubts := 0, 0
	for pid, b := range before {
		s, hasThread := threads[pid]
		g, hasProcess := processes[pid]
		after, ok := look(pid)
		if !ok || !hasThread || !hasProcess {
			continue // it ended
		}
		compared++
		if s.run < b.run || s.run > after.run || s.wait < b.wait || s.wait > after.wait ||
			s.count < b.count ||
			s.count > after.count {
			t.Errorf(
				"thread %d: taskstats %+v, not between schedstat %+v and %+v", pid, s.pulse,
				b.pulse, after.pulse,
			)
		}
		// else it had threads that ended: taskstats lack their last part, which cpuClock corrects
		whole := g.run == s.run
		if whole && g.run < b.low || g.run > after.low+slack+countedTwice {
			doubts++
			if doubts == 1 {
				continue // of threads that end, one may be counted twice
			}
			t.Errorf(
				"process %d: taskstats %d ns, not between stat %d and %d", pid, g.run, b.low,
				after.low+slack,
			)
		}
	}
	if compared == 0 {
		t.Error("nothing to compare")
	}
}

// A thread of this process yields many times. Both ways count that, with its name.
func TestThreadsOfThisProcess(t *testing.T) {
	for name, c := range pulseSources(t) {
		t.Run(name, func(t *testing.T) {
			l := newLive(t, c)
			// To read is work of this process too, and threads are read after their process. If the
			// first reading of an interval takes longer than the last, threads lack the difference.
			// The very first one takes 10 ms more than the others.
			for range 2 {
				l.read(false)
			}
			for range 300 {
				unix.Nanosleep(&unix.Timespec{Nsec: 1000}, nil)
			}
			rows := l.read(false)
			self := os.Getpid()
			if got := sumOf(rows, "process.switches", self); got < 300 {
				t.Errorf("%v switches of this process, made 300 at least", got)
			}
			if got := sumOf(rows, "thread.switches", self); got < 300 {
				t.Errorf("%v switches of its threads, made 300 at least", got)
			}
			cpu, threads := sumOf(rows, "process.cpu", self), sumOf(rows, "thread.cpu", self)
			if cpu == 0 || math.Abs(cpu-threads) > 2*procfs.TickNanoseconds {
				t.Errorf("CPU of the process %v ms, of its threads %v ms", cpu/1e6, threads/1e6)
			}
		})
	}
}

// startSleepers starts n processes that sleep. The end of the test ends them.
func startSleepers(tb testing.TB, n int) {
	tb.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		tb.Skip("needs: tool sleep")
	}
	var pids []int
	tb.Cleanup(func() {
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		for _, pid := range pids {
			syscall.Wait4(pid, nil, 0, nil)
		}
	})
	for range n {
		// 300 s: they end by themselves if the test is killed
		pid, err := syscall.ForkExec(
			path, []string{"sleep", strconv.Itoa(300)}, &syscall.ProcAttr{Env: []string{"PATH=/"}},
		)
		if err != nil {
			tb.Fatal(err)
		}
		pids = append(pids, pid)
	}
}

// psStats are the statistics of the tool ps.
func psStats() []measure.StatID {
	return []measure.StatID{
		"process.cpu",
		"process.runwait",
		"process.delay",
		"process.switches",
		"process.faults",
		"process.io",
		"process.rss",
		"process.threads",
		"process.info",
	}
}

func BenchmarkProcessRead60(b *testing.B)   { benchmarkSleepers(b, 0) }
func BenchmarkProcessRead500(b *testing.B)  { benchmarkSleepers(b, 440) }
func BenchmarkProcessRead5000(b *testing.B) { benchmarkSleepers(b, 4940) }

// benchmarkSleepers also reports cpu-ns/op, since elapsed time means little on a busy machine.
func benchmarkSleepers(b *testing.B, n int) {
	startSleepers(b, n)
	run := func(name string, c Processes, stats ...measure.StatID) {
		b.Run(name, func(b *testing.B) {
			before := ownCPU()
			collecttest.BenchmarkRead(b, c, stats...)
			// includes the first reading
			b.ReportMetric(float64(ownCPU()-before)/float64(b.N+1), "cpu-ns/op")
		})
	}
	run("ps", Processes{}, psStats()...)
	run("files", Processes{files: true}, psStats()...)
	run("walk", Processes{walk: true}, psStats()...)
	if n < 1000 {
		run("all", Processes{})
		run("cpu", Processes{}, "process.cpu")
	}
}

func ownCPU() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
