package bpf

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/kernel/netlink"

	"golang.org/x/sys/unix"
)

func openConnections(tb testing.TB) *Connections {
	tb.Helper()
	c, err := OpenConnections(kernel.Root{})
	opened(tb, err, "iterators over marked sockets")
	tb.Cleanup(c.Close)
	return c
}

// sockets returns what inet_diag reports of a namespace, by cookie.
func sockets(t *testing.T, ns netlink.Namespace, states uint32) map[uint64][]byte {
	t.Helper()
	c, err := ns.Dial(unix.NETLINK_SOCK_DIAG, netlink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all := map[uint64][]byte{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		var q netlink.Request
		q.Begin(unix.SOCK_DIAG_BY_FAMILY, 0)
		h := q.Extend(56) // struct inet_diag_req_v2
		h[0], h[1], h[2] = family, unix.IPPROTO_TCP, 1<<(2-1)
		native.PutUint32(h[4:], states)
		if err := c.Dump(&q, func(_ uint16, b []byte) error {
			all[native.Uint64(b[44:])] = slices.Clone(b)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// walked returns what Each reports of a namespace, by cookie, and the requests of its listeners.
func walked(t *testing.T, c *Connections, ns netlink.Namespace) (all map[uint64][]byte,
	listeners int, requests uint32) {
	t.Helper()
	all = map[uint64][]byte{}
	if err := c.Each(func(k *Connection) bool {
		if k.Net != ns.Inode {
			return true
		}
		if k.State == tcpListen {
			listeners++
			requests += k.Requests
			return true
		}
		if _, twice := all[native.Uint64(k.Message[44:])]; twice {
			t.Errorf("%x is there twice", k.Message)
		}
		all[native.Uint64(k.Message[44:])] = slices.Clone(k.Message)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return all, listeners, requests
}

// common returns the part of a message of inet_diag that Each reports too: the header without timer
// and expiry, and members of tcp_info.
func common(t *testing.T, b []byte) (head []byte, info map[int]uint64) {
	t.Helper()
	head = slices.Clone(b[:72])
	head[2], head[3] = 0, 0
	clear(head[52:56])
	info = map[int]uint64{}
	for a := netlink.AttrsOf(b[72:]); a.Next(); {
		if a.Type() != 2 {
			continue
		}
		i := a.Value()
		if len(i) < 216 {
			t.Skipf("needs: kernel feature struct tcp_info of 216 bytes, here %d", len(i))
		}
		info[0] = uint64(i[0])
		for _, at := range []int{16, 24, 68, 80, 100, 136, 140, 144, 148} {
			info[at] = uint64(native.Uint32(i[at:]))
		}
		for _, at := range []int{104, 120, 128, 160, 168, 176, 184, 200, 208} {
			info[at] = native.Uint64(i[at:])
		}
	}
	return head, info
}

// loopbackSpace is a network namespace of its own with lo up.
func loopbackSpace(t *testing.T) netlink.Namespace {
	t.Helper()
	ns := namespace(t)
	if err := loopbackUp(ns); err != nil {
		t.Fatal(err)
	}
	return ns
}

// Each reports the same as inet_diag: for both families, for sockets older than the programs,
// accepted or not, waiting for the other end, without an owner, and in another namespace.
func TestConnectionsAreInetDiags(t *testing.T) {
	// Sockets of the whole machine are marked, and one is missed where an interrupt that is about
	// another comes meanwhile, which is counted.
	for range 3 {
		if areInetDiags(t) {
			return
		}
	}
	t.Error("each of three times a socket could not be marked")
}

// areInetDiags says whether all sockets could be marked.
func areInetDiags(t *testing.T) bool {
	walk := openConnections(t)
	ns := loopbackSpace(t)
	var open []io.Closer
	t.Cleanup(func() {
		for _, c := range open {
			c.Close()
		}
	})
	pair := func(network, address, to string) (near, far *net.TCPConn, listener *net.TCPListener) {
		t.Helper()
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", net.JoinHostPort(to, port))
		if err != nil {
			t.Fatal(err)
		}
		o, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, l, c, o)
		return c.(*net.TCPConn), o.(*net.TCPConn), l.(*net.TCPListener)
	}
	move := func(from, to *net.TCPConn, n int) {
		t.Helper()
		if _, err := from.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
		if to == nil {
			return
		}
		if _, err := io.ReadFull(to, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ns.In(func() error {
		a, b, _ := pair("tcp4", "127.0.0.1:0", "127.0.0.1") // before
		move(a, b, 100_000)
		move(b, a, 7)
		if net, err := walk.Adopt(); err != nil || net != ns.Inode {
			t.Fatalf("namespace %d, want %d: %v", net, ns.Inode, err)
		}
		move(a, nil, 5000) // not read
		a, b, _ = pair("tcp", "[::]:0", "127.0.0.1")
		move(b, a, 1_000_000)
		a, b, _ = pair("tcp6", "[::1]:0", "::1")
		move(a, b, 30)
		// CLOSE_WAIT and FIN_WAIT2, which somebody has
		a, _, _ = pair("tcp4", "127.0.0.1:0", "127.0.0.1")
		if err := a.CloseWrite(); err != nil {
			return err
		}
		a, b, l := pair("tcp4", "127.0.0.1:0", "127.0.0.1") // the reader is slow: a window of 0
		if err := errors.Join(a.SetReadBuffer(64<<10), b.SetWriteBuffer(64<<10)); err != nil {
			return err
		}
		// which alone takes an emulated machine longer
		much := make([]byte, 16<<20)
		deadline := time.Now().Add(200 * time.Millisecond)
		b.SetWriteDeadline(deadline) //nolint:errcheck // the write reports it
		if _, err := b.Write(much); err == nil {
			t.Error("16 MB went nowhere")
		}
		b.Close()
		c, err := net.Dial("tcp", l.Addr().String()) // not accepted
		if err != nil {
			return err
		}
		open = append(open, c)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	const states = 1<<12 - 2 - 1<<tcpListen - 1<<unix.BPF_TCP_CLOSE - 1<<unix.BPF_TCP_TIME_WAIT
	deadline := time.Now().Add(20 * time.Second)
	for {
		// What goes on meanwhile - a window's probe, a clock - must have stood still to be
		// compared.
		before := sockets(t, ns, states)
		got, listeners, requests := walked(t, walk, ns)
		after := sockets(t, ns, states)
		bad, same := "", 0
		for cookie, b := range before {
			headB, infoB := common(t, b)
			if after[cookie] == nil {
				continue
			}
			headA, infoA := common(t, after[cookie])
			w := got[cookie]
			if w == nil {
				bad = fmt.Sprintf("a socket is not there: %x", b[:72])
				continue
			}
			head, info := common(t, w)
			if !bytes.Equal(headA, headB) {
				continue
			}
			same++
			if !bytes.Equal(head, headA) {
				t.Fatalf("the walk says\n%x, inet_diag\n%x", head, headA)
			}
			for at := range infoA {
				if info[at] < min(infoA[at], infoB[at]) || info[at] > max(infoA[at], infoB[at]) {
					t.Fatalf("tcp_info at %d: %d by the walk, %d and %d by inet_diag: %x", at,
						info[at], infoB[at], infoA[at], w)
				}
			}
		}
		for cookie, w := range got {
			if before[cookie] == nil && after[cookie] == nil {
				bad = "a socket is there that inet_diag has not"
				t.Logf("%x", w)
			}
		}
		if failed, _ := walk.Counted(); failed != 0 {
			t.Logf("%d sockets could not be marked", failed)
			return false
		}
		if bad == "" && len(got) == 12 && same == 12 && listeners == 5 && requests == 0 {
			return true
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %d sockets and %d listeners with %d requests by the walk, %d and %d by "+
				"inet_diag", bad, len(got), listeners, requests, len(before), same)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// What is in no socket is counted: requests whose handshake goes on, and connections that wait for
// the other end's FIN in the kernel alone.
func TestConnectionsWithoutSocket(t *testing.T) {
	walk := openConnections(t)
	ns := loopbackSpace(t)
	var open []io.Closer
	t.Cleanup(func() {
		for _, c := range open {
			c.Close()
		}
	})
	_, before := walk.Counted()
	if err := ns.In(func() error {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		open = append(open, l)
		raw, err := l.(*net.TCPListener).SyscallConn()
		if err != nil {
			return err
		}
		if err := raw.Control(func(fd uintptr) { // until the first byte it stays a request: tcp(7)
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 60)
		}); err != nil {
			return err
		}
		for range 3 {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				return err
			}
			open = append(open, c)
		}
		other, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		open = append(open, other)
		for range 2 {
			c, err := net.Dial("tcp", other.Addr().String())
			if err != nil {
				return err
			}
			o, err := other.Accept()
			if err != nil {
				return err
			}
			open = append(open, o)
			c.Close()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got, listeners, requests := walked(t, walk, ns)
		_, short := walk.Counted()
		// Of two ends that were closed the others are in CLOSE_WAIT; three have one end so far.
		kept := 0
		for _, b := range sockets(t, ns, 1<<unix.BPF_TCP_FIN_WAIT2) {
			if _, info := common(t, b); len(info) == 0 {
				kept++
			}
		}
		if len(got) == 5 && listeners == 2 && requests == 3 && short-before >= 2 && kept == 2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d sockets, %d listeners with %d requests, %d left to the kernel of %d "+
				"that it has", len(got), listeners, requests, short-before, kept)
		}
	}
}

// A second Close does nothing, and what was closed before it was opened neither.
func TestConnectionsClosed(t *testing.T) {
	c := openConnections(t)
	c.Close()
	c.Close()
	(*Connections)(nil).Close()
}

// A walk that nobody wants to the end ends.
func TestConnectionsEnough(t *testing.T) {
	walk := openConnections(t)
	ns := namespace(t)
	if err := loopbackUp(ns); err != nil {
		t.Fatal(err)
	}
	fds, err := connections(ns, 200)
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	for _, most := range []int{1, 3, 150} {
		n := 0
		if err := walk.Each(func(*Connection) bool { n++; return n < most }); err != nil ||
			n != most {
			t.Errorf("%d of %d, %v", n, most, err)
		}
	}
	all, _, _ := walked(t, walk, ns)
	if len(all) != 400 {
		t.Errorf("after that %d sockets, want 400", len(all))
	}
}

// A socket that stays is reported once by each walk, however many come and go meanwhile.
func TestConnectionsBesideOthers(t *testing.T) {
	walk := openConnections(t)
	ns, other := namespace(t), namespace(t)
	if err := errors.Join(loopbackUp(ns), loopbackUp(other)); err != nil {
		t.Fatal(err)
	}
	closeAll := func(fds []int) {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	fds, err := connections(ns, 300) // six times as many as fit one read
	defer func() { closeAll(fds) }()
	if err != nil {
		t.Fatal(err)
	}
	var over, turns atomic.Int64
	ended := make(chan error, 1)
	go func() {
		for over.Load() == 0 {
			fds, err := connections(other, 100)
			closeAll(fds)
			if err != nil {
				ended <- err
				return
			}
			turns.Add(1)
		}
		ended <- nil
	}()
	deadline := time.Now().Add(20 * time.Second)
	for n := 0; (n < 100 || turns.Load() < 20) && time.Now().Before(deadline) && !t.Failed(); n++ {
		if all, _, _ := walked(t, walk, ns); len(all) != 600 {
			t.Errorf("%d sockets, want 600", len(all))
		}
	}
	over.Store(1)
	if err := <-ended; err != nil || turns.Load() == 0 {
		t.Errorf("%d times others came and went: %v", turns.Load(), err)
	}
}

// BenchmarkConnections walks loopback connections as BenchmarkInetDiag dumps them.
func BenchmarkConnections(b *testing.B) {
	walk := openConnections(b)
	ns := namespace(b)
	if err := loopbackUp(ns); err != nil {
		b.Fatal(err)
	}
	fds, err := connections(ns, 100)
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n = 0
		if err := walk.Each(func(k *Connection) bool {
			n += b2i(k.Net == ns.Inode &&
				k.State == 1)
			return true
		}); err != nil {
			b.Fatal(err)
		}
	}
	if n != 200 {
		b.Fatalf("%d connections, want 200", n)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/socket")
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}
