package family

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"culprit/kernel"
	"culprit/kernel/feature"
	"culprit/lang/check"
	"culprit/lang/gen"
	"culprit/lang/syntax"
	"culprit/measure"
	"culprit/trace"
	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// workers are what workers do, and print.
func workers() map[string]func() {
	return map[string]func(){
		"syscalls":    makeSyscalls,
		"children":    makeChildren,
		"moment":      func() { time.Sleep(20 * time.Millisecond) },
		"compete":     competeForCPU,
		"disk":        useDisk,
		"connections": makeConnections,
		"datagrams":   makeDatagrams,
		"requests":    makeRequests,
		"lookups":     makeLookups,
		"drops":       makeDrops,
		"forever": func() {
			for {
				unix.Getpgid(0) //nolint:errcheck // it is made to be counted
				time.Sleep(100 * time.Microsecond)
			}
		},
	}
}

const madeSyscalls = 3000

// makeSyscalls makes system calls with a known number of errors, and prints how long it slept in
// others.
func makeSyscalls() {
	for range madeSyscalls {
		unix.Getpgid(0)              //nolint:errcheck // it is made to be counted
		unix.Getpgid(1<<22 + 1)      //nolint:errcheck // no such process
		unix.Flock(-1, unix.LOCK_UN) //nolint:errcheck // no such file
	}
	runtime.LockOSThread()
	began, shorter := time.Now(), 0
	for n := 0; n < 20; {
		if unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &unix.Timespec{Nsec: 5e6}, nil) == nil {
			n++
		} else { // a signal, as the runtime sends where a thread is away for long
			shorter++
		}
	}
	fmt.Println(time.Since(began).Nanoseconds(), shorter)
}

// Calls of another process are counted each, by name and error, and take as long as it says itself.
func TestSyscallStatistics(t *testing.T) {
	w := startWorker(t, "syscalls")
	of := fmt.Sprintf(" where pid = %d", w.pid)
	latency, time := fmt.Sprintf(
		"syscall.latency syscall=clock_nanosleep process=%s pid=%d", w.name, w.pid,
	), fmt.Sprintf("syscall.time syscall=clock_nanosleep pid=%d", w.pid)
	got := watchFamily(
		t,
		[]string{
			"syscall.count by syscall,error" + of,
			"syscall.time by syscall" + of,
			"syscall.latency by syscall,process" + of,
		},
		func() { w.begin(t) },
		func(m *measured) bool {
			d := m.dists[latency]
			return d.Count() >= 20 && m.sums[time] >= 100e6
		},
	)
	var slept, shorter float64
	w.said(t, &slept, &shorter)
	for what, n := range map[string]float64{
		"getpgid error=none":  madeSyscalls,
		"getpgid error=ESRCH": madeSyscalls,
		"flock error=EBADF":   madeSyscalls,
		"flock error=none":    0,
	} {
		if sum := got.sums[fmt.Sprintf("syscall.count syscall=%s pid=%d", what, w.pid)]; sum != n {
			t.Errorf("%s: %.0f of %.0f", what, sum, n)
		}
	}
	sleeps := got.dists[latency]
	if sleeps.Base != 2 || sleeps.Quantile((shorter+0.5)/float64(sleeps.Count())) < 4e6 ||
		math.Abs(sleeps.Sum-got.sums[time]) > 0.125*got.sums[time] {
		t.Errorf(
			"%d sleeps of 5 ms, %.0f of them cut short, of %.0f ns together: %+v", sleeps.Count(),
			shorter, got.sums[time], sleeps,
		)
	}
	if sum := got.sums[time]; sum < 100e6 || sum > 1.1*slept {
		t.Errorf("slept %.0f ns, by itself %.0f", sum, slept)
	}
}

// makeChildren says of its children in turn which they were, and how long each was there; the last
// is killed.
func makeChildren() {
	me, err := os.Executable()
	if err != nil {
		return
	}
	signal.Ignore(unix.SIGUSR1)
	for n := range 4 {
		c := exec.Command(me, "-test.run", "^TestWorker$")
		c.Env = append(os.Environ(), workFor+"=moment")
		if c.Stdin = strings.NewReader("\n\n"); n == 3 {
			c.Stdin = os.Stdin // it waits
		}
		began := time.Now()
		if c.Start() != nil {
			return
		}
		if n == 3 {
			unix.Kill(
				c.Process.Pid, unix.SIGKILL,
			) //nolint:errcheck // it is missing in what is said, then
		}
		c.Wait() //nolint:errcheck // it may be killed
		fmt.Print(c.Process.Pid, " ", time.Since(began).Nanoseconds(), " ")
	}
	unix.Kill(os.Getpid(), unix.SIGUSR1) //nolint:errcheck // nobody would get it
	fmt.Println()
}

// Executed programs, processes that end, even short-lived ones, and signals are counted each with
// the right process.
func TestProcessStatistics(t *testing.T) {
	w := startWorker(t, "children")
	of := fmt.Sprintf(" where parent = %d", w.pid)
	var pids [4]int
	var lived [4]float64
	said := false
	key := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	got := watchFamily(
		t,
		[]string{
			"process.exec.count by process,pid,parentprocess" + of,
			"process.exit.count by pid,reason",
			"process.lifetime by pid",
			`process.signal.count by pid,sender where signal = SIGKILL`,
		},
		func() { w.begin(t) },
		func(m *measured) bool {
			if !said {
				w.said(
					t, &pids[0], &lived[0], &pids[1], &lived[1], &pids[2], &lived[2], &pids[3],
					&lived[3],
				)
				said = true
				return false // the next tick has the last of them
			}
			return m.sums[key("process.exit.count pid=%d reason=killed", pids[3])] > 0
		},
	)
	for i, pid := range pids {
		reason := "exited"
		if i == 3 {
			reason = "killed"
		}
		life := got.dists[key("process.lifetime pid=%d", pid)]
		if n := got.sums[key("process.exit.count pid=%d reason=%s", pid, reason)]; n != 1 ||
			life.Count() != 1 ||
			life.Quantile(0) > lived[i] ||
			i < 3 && life.Quantile(1) < 20e6 {
			t.Errorf("child %d: ended %.0f times, lived %+v of %.0f ns", i, n, life, lived[i])
		}
		if n := got.sums[key("process.exec.count process=%s pid=%d parentprocess=%s parent=%d", w.name, pid, w.name, w.pid)]; i < 3 &&
			n != 1 {
			t.Errorf("child %d executed %.0f programs", i, n)
		}
	}
	if n := got.sums[key("process.signal.count pid=%d sender=%s signal=SIGKILL", pids[3], w.name)]; n != 1 {
		t.Errorf("%.0f signals: %v", n, got.sums)
	}
}

// runWait returns how long the threads of this process have waited for a CPU, by the kernel's own
// count.
func runWait() (all float64) {
	files, _ := filepath.Glob("/proc/self/task/*/schedstat")
	for _, f := range files {
		b, err := os.ReadFile(f)
		var ran, wait float64
		if _, e := fmt.Sscan(string(b), &ran, &wait); err == nil && e == nil {
			all += wait
		}
	}
	return all
}

// competeForCPU runs four threads on one CPU. By the kernel's count it prints how long they waited,
// and how long this process has waited since it began.
func competeForCPU() {
	before := runWait()
	var threads sync.WaitGroup
	until := time.Now().Add(200 * time.Millisecond)
	ready, over := make(chan bool), make(chan bool)
	for range 4 {
		threads.Go(func() {
			runtime.LockOSThread()
			var one unix.CPUSet
			one.Set(0)
			unix.SchedSetaffinity(0, &one) //nolint:errcheck // they wait less, then
			for time.Now().Before(until) {
			}
			ready <- true
			<-over // the thread's count is read before it is gone
		})
	}
	for range 4 {
		<-ready
	}
	all := runWait()
	fmt.Println(all-before, all)
	close(over)
	threads.Wait()
}

// Threads that wait for a CPU wait as long as the kernel says for each of them.
func TestRunQueueStatistics(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("needs: kernel feature SCHED_INFO")
	}
	w := startWorker(t, "compete")
	var said, life float64
	of := fmt.Sprintf(" where pid = %d", w.pid)
	got := watchFamily(
		t,
		[]string{"runqueue.latency by process" + of, "runqueue.time by cpu" + of},
		func() { w.begin(t) },
		func(m *measured) bool {
			if said == 0 {
				w.said(t, &said, &life)
				return false
			}
			return true
		},
	)
	all, dist := 0.0, got.dists[fmt.Sprintf("runqueue.latency process=%s pid=%d", w.name, w.pid)]
	for _, v := range got.sums {
		all += v
	}
	// Moving a thread to another CPU ends a wait and begins another for the kernel, whose clocks of
	// two CPUs differ on some machines.
	if said < 50e6 || all < 0.9*said || all > 1.1*life+20e6 || math.Abs(dist.Sum-all) > 0.125*all {
		t.Errorf(
			"%.0f ns by CPU, %.0f by distribution; the kernel says %.0f, in all its life %.0f", all,
			dist.Sum, said, life,
		)
	}
}

const diskWrites, diskSize = 50, 32 << 10

// useDisk writes to a file that is there already, past all caches, and says how many bytes the
// kernel counts.
func useDisk() {
	counted := func() (n int64) {
		b, _ := os.ReadFile("/proc/self/io")
		_, rest, _ := strings.Cut(string(b), "\nwrite_bytes: ")
		fmt.Sscan(rest, &n) //nolint:errcheck // 0 is not what is wanted
		return n
	}
	path := os.Getenv("CULPRIT_TEST_FILE")
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	buffer := make([]byte, diskSize+4096)
	at := 4096 - int(uintptr(unsafe.Pointer(&buffer[0]))%4096)
	before := counted()
	for range diskWrites {
		if n, err := unix.Pwrite(fd, buffer[at:at+diskSize], 0); err != nil || n != diskSize {
			return
		}
	}
	fmt.Println(counted() - before)
}

// Disk requests are counted for the process that submitted them, with the bytes that the kernel
// counts.
func TestDiskStatistics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Skip("needs: kernel feature O_DIRECT")
	}
	unix.Close(fd)
	if err := os.WriteFile(path, bytes.Repeat([]byte("x"), diskSize), 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || unix.Major(st.Dev) == 0 {
		t.Skip("needs: kernel feature block_device (below the folder of temporary files)")
	}
	unix.Sync() // its blocks are where they will be
	t.Setenv("CULPRIT_TEST_FILE", path)
	w := startWorker(t, "disk")
	var said float64
	of := fmt.Sprintf(" where pid = %d and direction = write", w.pid)
	count, sum, dist := 0.0, 0.0, measure.Dist{}
	watchFamily(
		t,
		[]string{"disk.latency by device,process" + of, "disk.io.count" + of, "disk.io.bytes" + of},
		func() { w.begin(t) },
		func(m *measured) bool {
			if said == 0 {
				w.said(t, &said)
				return false
			}
			ends := fmt.Sprintf("pid=%d direction=write", w.pid)
			for k, d := range m.dists {
				if strings.HasPrefix(k, "disk.latency device=") &&
					strings.HasSuffix(k, "process="+w.name+" "+ends) {
					dist = d
				}
			}
			count, sum = m.sums["disk.io.count "+ends], m.sums["disk.io.bytes "+ends]
			return true
		},
	)
	// The kernel counts pages that are made dirty meanwhile, as of what is known of the file.
	if sum != diskWrites*diskSize || said < sum || said > sum+16*4096 || count < diskWrites ||
		float64(dist.Count()) != count ||
		dist.Quantile(0) < 100 ||
		dist.Quantile(1) > float64(time.Minute) {
		t.Errorf("%.0f bytes in %.0f requests, the kernel says %.0f; %+v", sum, count, said, dist)
	}
}

const madeConnections = 20

// makeConnections asks for connections, and says how long that took.
func makeConnections() {
	began := time.Now()
	for range madeConnections {
		if c, err := net.Dial("tcp", os.Getenv("CULPRIT_TEST_PEER")); err == nil {
			c.Close()
		}
	}
	took := time.Since(began)
	if c, err := net.Dial("tcp", "127.83.77.1:1"); err == nil { // nobody listens
		c.Close()
	}
	fmt.Println(took.Nanoseconds())
}

// Connection attempts are counted with their process and result, and at the accepting end.
func TestTCPStatistics(t *testing.T) {
	l, err := net.Listen("tcp", "127.83.77.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, c) //nolint:errcheck // until it ends
				c.Close()
			}()
		}
	}()
	at := tracetest.Port(t, l.Addr())
	t.Setenv("CULPRIT_TEST_PEER", l.Addr().String())
	w := startWorker(t, "connections")
	var said float64
	of := fmt.Sprintf(" where pid = %d", w.pid)
	got := watchFamily(
		t,
		[]string{
			"tcp.connect.latency by peer,process" + of + " and error = none",
			"tcp.connect.count by peer,peerport,error" + of,
			fmt.Sprintf("tcp.accept.count by peer where localport = %d", at),
			"tcp.retransmit.count by peer,peerport,localport",
		},
		func() { w.begin(t) },
		func(m *measured) bool {
			if said == 0 {
				w.said(t, &said)
				return false
			}
			return true
		},
	)
	dist := got.dists[fmt.Sprintf("tcp.connect.latency peer=127.83.77.2 process=%s pid=%d error=none", w.name, w.pid)]
	if dist.Count() != madeConnections || dist.Sum*0.875 > said || dist.Sum <= 0 {
		t.Errorf("%d connections %+v, which took %.0f ns", dist.Count(), dist, said)
	}
	for what, n := range map[string]float64{
		fmt.Sprintf("tcp.connect.count peer=127.83.77.2 peerport=%d error=none pid=%d", at, w.pid):    madeConnections,
		fmt.Sprintf("tcp.connect.count peer=127.83.77.1 peerport=1 error=ECONNREFUSED pid=%d", w.pid): 1,
		fmt.Sprintf("tcp.accept.count peer=127.0.0.1 localport=%d", at):                               madeConnections,
	} {
		if got.sums[what] != n {
			t.Errorf("%s: %.0f of %.0f in %v", what, got.sums[what], n, got.sums)
		}
	}
}

// What a kernel can't measure is said with the reason, at each tick, and nothing is measured then.
func TestFamilyThatCannotBe(t *testing.T) {
	f, err := newFamily(
		"made",
		"/*\n * statistic made.x.count delta event by what: nothing\n * field what number: nothing\n */\nsdt:made::x { @made_x_count[arg0] = count(); }\n",
	)
	if err != nil {
		t.Fatal(err)
	}
	enough, ticks := errors.New("enough"), 0
	err = f.Run(
		t.Context(),
		[]measure.Query{queryOf(t, "made.x.count by what")},
		measure.SinkFunc(func(all []*measure.Batch) error {
			if b := all[0]; len(all) != 1 || b.Over.Span() != 0 || b.Rows() > 0 ||
				len(b.Notes) != 1 ||
				!strings.Contains(b.Notes[0], "made statistics can't be measured here") {
				return fmt.Errorf("%+v", all)
			}
			if ticks++; ticks == 2 {
				return enough
			}
			return nil
		}),
	)
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

// A family that is over its budget is suspended with a note, and then started again.
func TestFamilyBudget(t *testing.T) {
	if err := feature.RawTracepoints.Have(kernel.Root{}); errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: root")
	}
	w := startWorker(t, "forever")
	w.begin(t)
	f := familyOf(t, "syscall.count")
	f.budget, f.rest = 1e-6, 200*time.Millisecond
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	enough, rested := errors.New("enough"), false
	err := f.Run(
		ctx,
		[]measure.Query{queryOf(t, fmt.Sprintf("syscall.count where pid = %d", w.pid))},
		measure.SinkFunc(func(all []*measure.Batch) error {
			switch b := all[0]; {
			case b.Over.Span() == 0 && (len(b.Notes) != 1 ||
				!strings.Contains(b.Notes[0], "syscall statistics") ||
				!strings.Contains(b.Notes[0], "suspended")):
				return fmt.Errorf("%v", b.Notes)
			case b.Over.Span() == 0:
				rested = true
			case rested && b.Rows() > 0:
				return enough
			}
			return nil
		}),
	)
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

// askNFS asks a server of NFS version 4 for nothing, so often, over one connection (RFC 5531, 9;
// RFC 7530, 15.1: program 100003, procedure 0).
func askNFS(address string, times int) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	for xid := range times {
		// one fragment; call; version of RPC; program, version, procedure; nobody, unverified
		call := []uint32{1<<31 | 40, uint32(xid), 0, 2, 100003, 4, 0, 0, 0, 0, 0}
		if err := binary.Write(c, binary.BigEndian, call); err != nil {
			return err
		}
		// fragment, xid, reply, accepted, verifier's kind and length, success
		answer := make([]uint32, 7)
		if err := binary.Read(c, binary.BigEndian, answer); err != nil ||
			answer[1] != uint32(xid) ||
			answer[6] != 0 {
			return fmt.Errorf("answer %v: %w", answer, err)
		}
	}
	return nil
}

// Requests that an NFS server answers are counted with their clients.
func TestNFSStatistics(t *testing.T) {
	const server, times = "127.0.0.1:2049", 25
	if err := askNFS(server, 1); err != nil {
		t.Skip("needs: kernel feature nfsd (a server that runs)")
	}
	got := watchFamily(
		t,
		[]string{"nfs.server.count by client,operation,version", "nfs.server.latency by client"},
		func() {
			if err := askNFS(server, times); err != nil {
				t.Error(err)
			}
		},
		func(m *measured) bool {
			return m.sums["nfs.server.count client=127.0.0.1 operation=NULL version=4"] >= times
		},
	)
	if d := got.dists["nfs.server.latency client=127.0.0.1"]; got.sums["nfs.server.count client=127.0.0.1 operation=NULL version=4"] != times ||
		d.Count() != times ||
		d.Quantile(0) < 100 ||
		d.Quantile(1) > 10e9 {
		t.Errorf("%v, %+v", got.sums, d)
	}
}

// Each statistic compiles for this kernel without a warning, as of a variable whose type is not
// that of what it is given.
func TestFamiliesCompile(t *testing.T) {
	e := tracetest.Here(t)
	for _, f := range Families(0) {
		for _, st := range f.Stats() {
			q := measure.Query{Stat: st.ID}
			for _, field := range st.Fields {
				q.By = append(q.By, field.Name)
			}
			p, err := f.program([]measure.Query{q}, 1)
			if err != nil {
				t.Fatal(err)
			}
			f.dropOptional(p.tree, e)
			if err := f.missing(p.tree, e); err != nil {
				t.Logf("%s is not compiled: %v", st.ID, err)
				continue
			}
			c, err := trace.Compile(
				trace.Script{
					Text:    syntax.Print(p.tree),
					Options: check.Options{StrSize: familyString},
				},
				e,
				gen.Limits{},
			)
			if f.file == "nfs" && err != nil { // a module that few have
				continue
			}
			if err != nil || len(c.Program.Warnings) > 0 {
				t.Errorf("%s: %v, %v", st.ID, err, c)
			}
		}
	}
}
