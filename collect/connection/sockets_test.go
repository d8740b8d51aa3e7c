package connection

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// inNamespace runs f in a network namespace of its own, on a thread that ends with it, so that
// nothing is left even after a kill. Sockets that f itself makes are in it.
func inNamespace(t testing.TB, f func()) {
	t.Helper()
	done := make(chan string)
	const mainThread = "main thread"
	go func() {
		why := "the test ended its goroutine"
		defer func() { done <- why }()
		// never unlocked: the thread has changed its namespace and ends with the goroutine
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() { // /proc/self would show the new namespace
			why = mainThread
			return
		}
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			why = fmt.Sprintf("needs: cap:sys_admin to make a network namespace (%v)", err)
			return
		}
		if err := loopbackUp(); err != nil {
			t.Errorf("set lo up: %v", err)
		}
		f()
		why = ""
	}()
	if why := <-done; strings.HasPrefix(why, "needs:") {
		t.Skip(why)
	} else if why == mainThread { // it runs no other goroutine from now on
		inNamespace(t, f)
	} else if why != "" {
		t.FailNow()
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// readings runs a collector reading by reading.
type readings struct {
	t     testing.TB
	r     collect.Reading
	out   *collect.Out
	words *collect.Dictionary
	first bool
}

func openReadings(t testing.TB, c collect.Collector, ids ...measure.StatID) *readings {
	t.Helper()
	return openReadingsIn(t, &collect.Env{}, c, ids...)
}

func (r *readings) read() {
	r.t.Helper()
	r.words.StartTick()
	r.out.Start(r.first, time.Now())
	r.first = false
	if err := r.r.Read(r.out); err != nil {
		r.t.Fatal(err)
	}
	r.out.Finish(nil)
}

// rows adds up the values of a statistic in the last reading by the named fields, joined by spaces.
func (r *readings) rows(id measure.StatID, by ...string) map[string]float64 {
	r.t.Helper()
	sum, seen := map[string]float64{}, map[string]bool{}
	table := r.out.Table(id)
	for i, v := range table.Batch().Values {
		key := table.Batch().Key(i)
		if whole := fmt.Sprint(key); seen[whole] {
			r.t.Errorf("%s has the key %v twice", id, key)
		} else {
			seen[whole] = true
		}
		var words []string
		for _, b := range by {
			_, at := table.Stat().Field(b)
			words = append(words, r.words.Word(key[at]))
		}
		sum[strings.Join(words, " ")] += v
	}
	return sum
}

// pair is the two ends of a connection, and its listener.
type pair struct{ client, server, listener int }

func (p *pair) close() {
	for _, fd := range []int{p.client, p.server, p.listener} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

func listen(t testing.TB, sa unix.Sockaddr) (fd int, bound unix.Sockaddr) {
	t.Helper()
	family := unix.AF_INET
	if _, ok := sa.(*unix.SockaddrInet6); ok {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Bind(fd, sa))
	must(t, unix.Listen(fd, 128))
	bound, err = unix.Getsockname(fd)
	must(t, err)
	return fd, bound
}

func connect(t testing.TB, listener int, to unix.Sockaddr) *pair {
	t.Helper()
	family := unix.AF_INET
	if _, ok := to.(*unix.SockaddrInet6); ok {
		family = unix.AF_INET6
	}
	client, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.Connect(client, to))
	server, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	must(t, err)
	return &pair{client: client, server: server, listener: -1}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// send moves n bytes and waits until all are read and acknowledged.
func send(t testing.TB, from, to, n int) {
	t.Helper()
	buf := make([]byte, 16<<10)
	for sent, got := 0, 0; got < n; {
		if sent < n {
			m, err := unix.Write(from, buf[:min(len(buf), n-sent)])
			must(t, err)
			sent += m
		}
		m, err := unix.Read(to, buf)
		must(t, err)
		if m == 0 {
			t.Fatalf("connection ended after %d of %d bytes", got, n)
		}
		got += m
	}
	until(t, "all bytes are acknowledged", func() bool {
		left, err := unix.IoctlGetInt(from, unix.SIOCOUTQ)
		must(t, err)
		return left == 0
	})
}

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("not after a minute: %s", what)
		}
	}
}

func port(sa unix.Sockaddr) int {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return sa.Port
	case *unix.SockaddrInet6:
		return sa.Port
	}
	return 0
}

func tcp4(a, b, c, d byte, port int) unix.Sockaddr {
	return &unix.SockaddrInet4{Addr: [4]byte{a, b, c, d}, Port: port}
}

// walkable skips a test if sockets cannot be walked.
func walkable(t testing.TB) {
	t.Helper()
	c, err := bpf.OpenConnections(kernel.Root{})
	switch {
	case errors.Is(err, measure.ErrDenied):
		t.Skip("needs: cap:CAP_BPF:", err)
	case err != nil:
		t.Skip("needs: kernel feature iterators over marked sockets:", err)
	}
	c.Close()
}

// walks reports whether the last reading of a namespace came from a walk over sockets.
func (r *readings) walks() bool { return r.r.(*flowReading).walked }

// gaveWay reports whether dumps have replaced walks for good, because some socket of the machine
// could not be marked.
func (r *readings) gaveWay() bool {
	w := r.r.(*flowReading).walks
	return w != nil && w.coming == nil && w.conns == nil
}

func ownPort(t testing.TB, fd int) int {
	sa, err := unix.Getsockname(fd)
	must(t, err)
	return port(sa)
}

func processName(t testing.TB) string {
	b, err := os.ReadFile("/proc/self/comm")
	must(t, err)
	return strings.TrimSpace(string(b))
}

func equal(t testing.TB, what string, got, want map[string]float64) {
	t.Helper()
	for k, v := range want {
		if g, ok := got[k]; !ok || g != v {
			t.Errorf("%s: %q is %v, want %v", what, k, got, want)
			return
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}
