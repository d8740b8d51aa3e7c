package connection

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/kernel/netlink"
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

// TestFlowBytes moves known amounts over connections of all ages, in IPv4, IPv6 and IPv4 in IPv6,
// and expects them to the byte.
func TestFlowBytes(t *testing.T) {
	loop6 := [16]byte{15: 1}
	mapped := [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}
	for _, c := range []struct {
		name, local string
		listen      unix.Sockaddr
		to          func(port int) unix.Sockaddr
	}{
		{"IPv4", "127.0.0.1", tcp4(127, 0, 0, 1, 0),
			func(p int) unix.Sockaddr { return tcp4(127, 0, 0, 1, p) }},
		{"IPv6", "::1", &unix.SockaddrInet6{Addr: loop6},
			func(p int) unix.Sockaddr { return &unix.SockaddrInet6{Addr: loop6, Port: p} }},
		{"IPv4 in IPv6", "127.0.0.1", &unix.SockaddrInet6{},
			func(p int) unix.Sockaddr { return &unix.SockaddrInet6{Addr: mapped, Port: p} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			inNamespace(t, func() { flowBytes(t, Flows{}, c.local, c.listen, c.to) })
		})
		t.Run(c.name+" by a walk over sockets", func(t *testing.T) {
			walkable(t)
			inNamespace(t, func() { flowBytes(t, Flows{walk: true}, c.local, c.listen, c.to) })
		})
	}
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

func flowBytes(
	t *testing.T, flows Flows, local string, at unix.Sockaddr, to func(int) unix.Sockaddr,
) {
	listener, bound := listen(t, at)
	defer unix.Close(listener)
	old := connect(t, listener, to(port(bound)))
	defer old.close()
	send(t, old.client, old.server, 1_000_000) // before the first reading: never emitted

	r := openReadings(
		t, flows, "tcp.flow.bytes", "tcp.flow.segments", "tcp.flow.rtt", "tcp.flow.queue",
		"tcp.connections", "tcp.listen.limit",
	)
	defer r.r.Close()
	r.read()
	for id, n := range map[measure.StatID]int{"tcp.flow.bytes": 0, "tcp.flow.segments": 0} {
		if got := r.rows(id); len(got) != n {
			t.Errorf("first reading of %s: %v", id, got)
		}
	}
	r.read()
	if got := r.rows("tcp.flow.bytes"); len(got) != 0 {
		t.Errorf("nothing moved, but: %v", got)
	}
	if got := r.rows("tcp.flow.rtt"); len(got) != 0 {
		t.Errorf("idle connections have a round trip time: %v", got)
	}

	send(t, old.client, old.server, 123_457)
	send(t, old.server, old.client, 765)
	r.read()
	if flows.walk != r.walks() && !r.gaveWay() {
		t.Errorf("by a walk: %v, want %v", r.walks(), flows.walk)
	}
	equal(t, "an old connection", r.rows("tcp.flow.bytes", "side", "direction"), map[string]float64{
		"client tx": 123_457, "server rx": 123_457, "server tx": 765, "client rx": 765})
	server, client := strconv.Itoa(port(bound)), strconv.Itoa(ownPort(t, old.client))
	self, name := strconv.Itoa(os.Getpid()), processName(t)
	equal(
		t,
		"its names",
		r.rows("tcp.flow.bytes", "netns", "local", "localport", "peer", "pid", "process", "side"),
		map[string]float64{
			strings.Join([]string{"", local, server, local, self, name, "server"}, " "): 123_457 + 765,
			strings.Join([]string{"", local, client, local, self, name, "client"}, " "): 123_457 + 765,
		},
	)
	if got := r.rows("tcp.flow.rtt", "side"); !(got["client"] > 0 && got["client"] < 1e9) {
		t.Errorf("round trip times: %v", got)
	}
	equal(t, "queues", r.rows("tcp.flow.queue", "direction"), map[string]float64{"rx": 0, "tx": 0})
	equal(
		t,
		"states",
		r.rows("tcp.connections", "state"),
		map[string]float64{"established": 2, "listen": 1, "syn-sent": 0, "syn-recv": 0,
			"fin-wait-1": 0, "fin-wait-2": 0, "time-wait": 0, "close-wait": 0, "last-ack": 0, "closing": 0},
	)
	for key, limit := range r.rows("tcp.listen.limit", "localport", "pid", "process") {
		if key != server+" "+self+" "+name || limit != 128 {
			t.Errorf("listener %q has the limit %v", key, limit)
		}
	}

	born := connect(t, listener, to(port(bound)))
	send(t, born.client, born.server, 54_321)
	r.read()
	if flows.walk != r.walks() && !r.gaveWay() {
		t.Errorf("a new connection by a walk: %v, want %v", r.walks(), flows.walk)
	}
	equal(
		t, "a connection that was born", r.rows("tcp.flow.bytes", "side", "direction"),
		map[string]float64{"client tx": 54_321, "server rx": 54_321},
	)

	// What is not yet read or sent waits in a queue, whether or not it moves.
	_, err := unix.Write(born.client, make([]byte, 1000))
	must(t, err)
	until(t, "1000 bytes wait to be read", func() bool {
		n, err := unix.IoctlGetInt(born.server, unix.SIOCINQ)
		must(t, err)
		return n == 1000
	})
	r.read()
	r.read()
	equal(
		t, "queues of a reader that sleeps", r.rows("tcp.flow.queue", "side", "direction"),
		map[string]float64{"server rx": 1000, "server tx": 0},
	)
	send(t, born.server, born.client, 10)
	_, err = unix.Read(born.server, make([]byte, 2000))
	must(t, err)
	r.read()

	// The last bytes of a connection that ends, and all those of one too short for any dump. A work
	// queue announces the ends, so they may come a reading later, but never twice.
	send(t, born.client, born.server, 4_000)
	send(t, born.server, born.client, 50)
	born.close()
	short := connect(t, listener, to(port(bound)))
	send(t, short.client, short.server, 70_007)
	send(t, short.server, short.client, 9)
	short.close()
	total, names := map[string]float64{}, map[string]bool{}
	var late uint64
	read := func() {
		r.read()
		late += r.r.(*flowReading).notes.late
		for k, v := range r.rows("tcp.flow.bytes", "side", "direction") {
			total[k] += v
		}
		for k := range r.rows("tcp.flow.bytes", "process") {
			names[k] = true
		}
	}
	want := map[string]float64{
		"client tx": 74_007,
		"server rx": 74_007,
		"server tx": 59,
		"client rx": 59,
	}
	defer func() {
		if t.Failed() {
			t.Logf("total %v; %d ends announced too late", total, late)
		}
	}()
	until(
		t, "the ends are announced",
		func() bool { read(); return total["client rx"] >= 59 && total["server tx"] >= 59 },
	)
	for i := 0; i < 5; i++ {
		read()
	}
	equal(t, "connections that ended", total, want)
	if !names[name] || len(names) > 2 {
		t.Errorf(
			"connections that ended belong to %v, want %q and at most the unknown", names, name,
		)
	}
	for _, table := range r.out.Tables() {
		if len(table.Batch().Loss)+len(table.Batch().Notes) > 0 {
			t.Errorf("%s: %v %v", table.Stat().ID, table.Batch().Loss, table.Batch().Notes)
		}
	}
	if got := r.rows("tcp.connections", "state"); got["established"] != 2 ||
		got["time-wait"]+got["fin-wait-2"] != 2 {
		t.Errorf("states after two ends: %v", got)
	}
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

// TestFlowWalk compares a walk with dumps where connections have no socket, and checks that an
// incomplete walk is replaced by dumps.
func TestFlowWalk(t *testing.T) {
	walkable(t)
	inNamespace(t, func() {
		r := openReadings(t, Flows{walk: true}, "tcp.flow.bytes", "tcp.connections")
		defer r.r.Close()
		same := func(what string, walked bool) {
			t.Helper()
			until(t, what+" in all states", func() bool { // the kernel may have continued meanwhile
				before := procStates(t)
				r.read()
				states := r.rows("tcp.connections", "state")
				for state, n := range procStates(t) {
					if before[state] == n && states[state] != n && state != "time-wait" {
						t.Errorf(
							"%s: %v %s, in /proc/net/tcp %v; by a walk: %v", what, states[state],
							state, n, r.walks(),
						)
					}
				}
				return maps.Equal(before, procStates(t)) && (r.walks() == walked || r.gaveWay())
			})
		}
		listener, bound := listen(t, tcp4(127, 0, 0, 1, 0))
		defer unix.Close(listener)
		r.read()
		old := connect(t, listener, bound)
		defer old.close()
		r.read()
		same("one connection", true)

		// Until the first byte a connection remains a request: tcp(7).
		deferred, later := listen(t, tcp4(127, 0, 0, 1, 0))
		defer unix.Close(deferred)
		must(t, unix.SetsockoptInt(deferred, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 60))
		for range 3 {
			client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			must(t, err)
			defer unix.Close(client)
			must(t, unix.Connect(client, later))
		}
		same("requests", true)
		if got := r.rows("tcp.connections", "state")["syn-recv"]; got != 3 {
			t.Errorf("%v connections in SYN_RECV, want 3", got)
		}

		// After a close one end waits for the other without a socket: only a dump has that.
		gone := connect(t, listener, bound)
		send(t, gone.client, gone.server, 1000)
		same("two connections", true)
		must(t, unix.Close(gone.client))
		gone.client = -1
		until(
			t, "one end waits for the other",
			func() bool { return procStates(t)["fin-wait-2"] == 1 },
		)
		same("an end that waits", false)
		if got := r.rows("tcp.connections", "state"); got["fin-wait-2"] != 1 ||
			got["close-wait"] != 1 {
			t.Errorf("an end that waits: %v", got)
		}
		gone.close()
		until(t, "it is over", func() bool { return procStates(t)["fin-wait-2"] == 0 })
		same("it is over", true)

		// Both ways have the same bytes, each once.
		total := 0.0
		walks := r.r.(*flowReading).walks
		for i := range 6 {
			send(t, old.client, old.server, 10_000)
			r.r.(*flowReading).spaces.List[0].Data.calm = i%2 == 0
			r.read()
			if r.walks() != (i%2 == 0) && !r.gaveWay() {
				t.Errorf("reading %d by a walk: %v", i, r.walks())
			}
			for _, v := range r.rows("tcp.flow.bytes", "direction") {
				total += v
			}
		}
		if total != 2*6*10_000 {
			t.Errorf("%v bytes, want 120,000", total)
		}
		walks.close()
		same("without a walk", false)
	})
}

// TestFlowRequestsAgree compares the older request, the newer one, and the states in /proc/net/tcp.
// sockstat shows an empty namespace as empty until its first connection.
func TestFlowRequestsAgree(t *testing.T) {
	inNamespace(t, func() {
		r := openReadings(t, Flows{}, "tcp.flow.segments", "tcp.connections")
		defer r.r.Close()
		space := r.r.(*flowReading).spaces.List[0].Data
		r.read()
		if space.requests[1] != nil {
			t.Error("an empty namespace was walked")
		}
		listener, bound := listen(t, &unix.SockaddrInet6{})
		defer unix.Close(listener)
		mapped := &unix.SockaddrInet6{
			Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1},
			Port: port(bound),
		}
		old := connect(t, listener, tcp4(127, 0, 0, 1, port(bound)))
		defer old.close()
		loopback := &unix.SockaddrInet6{Addr: [16]byte{15: 1}, Port: port(bound)}
		for _, to := range []unix.Sockaddr{mapped, loopback} {
			p := connect(t, listener, to)
			defer p.close()
			must(t, unix.Shutdown(p.client, unix.SHUT_WR))
		}
		until(t, "the peers have heard of two ends", func() bool {
			states := procStates(t)
			return states["close-wait"] == 2 && states["fin-wait-2"] == 2
		})
		r.read()
		if len(r.rows("tcp.flow.segments")) == 0 {
			t.Error("nothing moved")
		}
		for _, request := range []string{"older request", "newer request"} {
			states := r.rows("tcp.connections", "state")
			for state, n := range procStates(t) {
				if states[state] != n {
					t.Errorf("%s: %v %s, in /proc/net/tcp %v", request, states[state], state, n)
				}
			}
			if states["established"] != 2 || states["listen"] != 1 {
				t.Errorf("%s: %v", request, states)
			}
			for which, mask := range []uint32{1 << tcpListen, r.r.(*flowReading).states(space)} {
				space.requests[which] = make([]netlink.Request, 2)
				diagRequest(&space.requests[which][0], unix.AF_INET, mask, true)
				diagRequest(&space.requests[which][1], unix.AF_INET6, mask, true)
			}
			r.read()
		}
		if got := r.rows("tcp.flow.segments"); len(got) != 0 {
			t.Errorf("by another request connections moved: %v", got)
		}

		// Without announcements, ends are a loss.
		space.ends.Close()
		space.ends = nil
		p := connect(t, listener, mapped)
		r.read()
		p.close()
		until(t, "the connection is gone", func() bool { return procStates(t)["established"] == 2 })
		r.read()
		if loss := r.out.Table("tcp.flow.segments").Batch().Loss; len(loss) != 1 ||
			loss[0].Events == 0 {
			t.Errorf("an end that nobody heard of: %v", loss)
		}
	})
}

// procStates counts the states in /proc/net/tcp and tcp6, which are those of
// include/net/tcp_states.h.
func procStates(t testing.TB) map[string]float64 {
	t.Helper()
	states := map[string]float64{}
	for _, name := range []string{"tcp", "tcp6"} {
		b, err := os.ReadFile("/proc/thread-self/net/" + name)
		must(t, err)
		for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
			n, err := strconv.ParseUint(strings.Fields(line)[3], 16, 8)
			must(t, err)
			states[stateWords[n]]++
		}
	}
	return states
}

// TestFlowsAllocateNothing checks that a steady reading of idle and moving connections allocates
// nothing.
func TestFlowsAllocateNothing(t *testing.T) {
	t.Run("by dumps", func(t *testing.T) { flowsAllocateNothing(t, Flows{}, 0) })
	t.Run("by a walk over sockets", func(t *testing.T) {
		walkable(t)
		// cilium/ebpf allocates to read the statistics of a program.
		flowsAllocateNothing(t, Flows{walk: true}, 12)
	})
}

func flowsAllocateNothing(t *testing.T, flows Flows, most float64) {
	inNamespace(t, func() {
		pairs := connectMany(t, 50)
		defer closeMany(pairs)
		var ids []measure.StatID
		for _, s := range (Flows{}).Stats() {
			ids = append(ids, s.ID)
		}
		r := openReadings(t, flows, ids...)
		defer r.r.Close()
		one := make([]byte, 1)
		read := func() {
			_, err := unix.Write(pairs[0].client, one)
			must(t, err)
			_, err = unix.Read(pairs[0].server, one)
			must(t, err)
			r.out.Start(r.first, time.Now())
			r.first = false
			must(t, r.r.Read(r.out))
		}
		for range 3 * ownerCheck {
			read()
		}
		if n := testing.AllocsPerRun(50, read); n > most {
			t.Errorf("%v allocations a reading", n)
		}
	})
}
