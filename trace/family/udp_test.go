package family

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/kernel"
	"culprit/lang/syntax"
	"culprit/trace/probe"

	"golang.org/x/sys/unix"
)

const (
	madeDatagrams = 2000
	datagramBytes = 700
	// headerBytes is what the loopback counts of a datagram beside its payload: IPv4, UDP.
	headerBytes = 20 + 8
)

// makeDatagrams sends datagrams within a network namespace of its own, and prints what its loopback
// has counted: packets and bytes. Then it sends a call of five datagrams (UDP_SEGMENT), looks at
// them without taking them, and takes them.
func makeDatagrams() {
	runtime.LockOSThread()
	if err := loopbackAlone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	in, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return
	}
	out, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return
	}
	at := &unix.SockaddrInet4{Port: 4242, Addr: [4]byte{127, 0, 0, 1}}
	from := &unix.SockaddrInet4{Port: 2424, Addr: [4]byte{127, 0, 0, 1}}
	if unix.Bind(in, at) != nil || unix.Bind(out, from) != nil || unix.Connect(out, at) != nil {
		return
	}
	buf := make([]byte, 8*datagramBytes)
	for range madeDatagrams {
		if _, err := unix.Write(out, buf[:datagramBytes]); err != nil {
			return
		}
		unix.Read(in, buf) //nolint:errcheck // it is made to be counted
	}
	text, _ := os.ReadFile("/proc/thread-self/net/dev")
	var bytes, packets float64
	for line := range strings.Lines(string(text)) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), ":"); ok && name == "lo" {
			fmt.Sscan(rest, &bytes, &packets) //nolint:errcheck // they stay 0
		}
	}
	fmt.Println(packets, bytes)
	if unix.SetsockoptInt(out, unix.IPPROTO_UDP, unix.UDP_SEGMENT, datagramBytes) != nil {
		return
	}
	unix.Write(out, buf[:5*datagramBytes])    //nolint:errcheck // it is made to be counted
	unix.Recvfrom(in, buf[:1], unix.MSG_PEEK) //nolint:errcheck // the same
	for range 5 {
		unix.Read(in, buf) //nolint:errcheck // the same
	}
}

// loopbackAlone moves the thread into a network namespace of its own, whose loopback is up.
func loopbackAlone() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, up)
}

// needSockEvents skips a test on kernels without the tracepoints of udp.d.
func needSockEvents(t *testing.T) {
	t.Helper()
	env := probe.NewEnv(kernel.Root{})
	defer env.Close() //nolint:errcheck // only read
	tree, _ := syntax.Parse("sdt:sock::sock_send_length {}", syntax.Mode{})
	if _, err := env.Probes(clausesOf(tree)[0].Probes[0]); err != nil {
		t.Skipf("needs: kernel feature sock:sock_send_length, of Linux 6.3 (%v)", err)
	}
}

// Datagrams and bytes of a program are those that the loopback counts, each way, and a call of
// several datagrams counts each.
func TestUDPStatistics(t *testing.T) {
	needSockEvents(t)
	w := startWorker(t, "datagrams")
	key := func(what, local, peer, direction string) string {
		return fmt.Sprintf("udp.flow.%s localport=%s peer=%s direction=%s pid=%d", what, local, peer,
			direction, w.pid)
	}
	rx := key("packets", "4242", "0.0.0.0", "rx")
	of := fmt.Sprintf(" by localport,peer,direction where pid = %d", w.pid)
	got := watchFamily(t, []string{"udp.flow.bytes" + of, "udp.flow.packets" + of},
		func() { w.begin(t) },
		func(m *measured) bool { return m.sums[rx] >= madeDatagrams+5 })
	var packets, bytes float64
	w.said(t, &packets, &bytes)
	if packets != madeDatagrams || bytes != madeDatagrams*(datagramBytes+headerBytes) {
		t.Fatalf("the loopback counts %.0f packets and %.0f bytes", packets, bytes)
	}
	for name, want := range map[string]float64{
		rx: packets + 5,
		key("packets", "2424", "127.0.0.1", "tx"): packets + 5,
		key("bytes", "4242", "0.0.0.0", "rx"):     bytes - headerBytes*packets + 5*datagramBytes,
		key("bytes", "2424", "127.0.0.1", "tx"):   bytes - headerBytes*packets + 5*datagramBytes,
	} {
		if n := got.sums[name]; math.Abs(n-want) > 0.5 {
			t.Errorf("%s is %.0f, want %.0f of %v", name, n, want, got.sums)
		}
	}
}

// Sockets are named by their network namespace.
func TestUDPNamespace(t *testing.T) {
	needSockEvents(t)
	w := startWorker(t, "datagrams")
	query := fmt.Sprintf("udp.flow.packets by netns where pid = %d", w.pid)
	name := ""
	watchFamily(t, []string{query}, func() { w.begin(t) }, func(m *measured) bool {
		for key := range m.sums {
			name = key
		}
		return name != ""
	})
	// The thread is not the first of its process: nobody else can name its namespace.
	if !strings.Contains(name, "netns=net:") && !strings.Contains(name, "netns=pid:") {
		t.Errorf("datagrams of another namespace: %q", name)
	}
	n := netnsNames{listed: time.Now(), names: map[uint64]string{7: "blue"}}
	if a, b := n.name(7), n.name(8); a != "blue" || b != "net:8" {
		t.Errorf("namespaces %q and %q, want blue and net:8", a, b)
	}
	var own unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &own); err != nil {
		t.Fatal(err)
	}
	if got := (&netnsNames{}).name(int64(own.Ino)); got != "" {
		t.Errorf("the own namespace is %q", got)
	}
}
