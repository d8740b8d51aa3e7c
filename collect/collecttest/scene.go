package collecttest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/kernel/netlink"
)

// Scene is a set of network namespaces for one test, removed when it ends.
type Scene struct {
	t      testing.TB
	Prefix string
	sink   net.PacketConn // receives what Send sends, in namespace b
}

// NewScene makes the namespaces, each with a loopback device that is up. It needs root.
func NewScene(t testing.TB, names ...string) *Scene {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs: root")
	}
	for _, tool := range []string{"ip", "tc", "ethtool"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs: tool %s", tool)
		}
	}
	s := &Scene{t: t, Prefix: fmt.Sprintf("nt%d", os.Getpid())}
	for _, n := range names {
		s.Add(n)
	}
	return s
}

// Add makes one more namespace.
func (s *Scene) Add(name string) {
	s.t.Helper()
	ns := s.Prefix + name
	s.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
	s.Run("ip netns add " + ns)
	// Without IPv6 the kernel sends nothing of its own.
	s.Run("ip netns exec " + ns + " sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; " +
		"echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6'")
	s.Run("ip -n " + ns + " link set lo up")
}

// Run runs a command line in which @ means the prefix of the namespaces.
func (s *Scene) Run(line string) {
	s.t.Helper()
	line = strings.ReplaceAll(line, "@", s.Prefix)
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// Cable joins namespaces a and b by a veth pair with permanent neighbours: va is 10.77.0.1, vb is
// 10.77.0.2.
func (s *Scene) Cable() {
	s.t.Helper()
	s.Run("ip link add va netns @a address 02:00:00:00:77:01 type veth peer name vb netns @b " +
		"address 02:00:00:00:77:02")
	s.Run("ip -n @a addr add 10.77.0.1/24 dev va && ip -n @b addr add 10.77.0.2/24 dev vb")
	s.Run("ip -n @a link set va up && ip -n @b link set vb up")
	s.Run("ip -n @a neigh replace 10.77.0.2 lladdr 02:00:00:00:77:02 dev va nud permanent")
	s.Run("ip -n @b neigh replace 10.77.0.1 lladdr 02:00:00:00:77:01 dev vb nud permanent")
	s.Carries("va")
}

// Carries waits until a device of namespace a is up. Until then the kernel drops all packets
// (noop_qdisc).
func (s *Scene) Carries(device string) {
	s.t.Helper()
	s.Run("for i in $(seq 200); do ip -n @a link show " + device + " | grep -q 'state UP' && " +
		"exit 0; sleep 0.05; done; exit 1")
}

// In runs f in a namespace of the scene.
func (s *Scene) In(name string, f func() error) {
	s.t.Helper()
	ns, err := netlink.FindNamespace(kernel.Root{}, s.Prefix+name)
	if err == nil {
		err = ns.In(f)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// Send sends n datagrams of size bytes from a to b. A socket in b receives them, since an ICMP
// refusal would fail the next write.
func (s *Scene) Send(n, size int) {
	s.t.Helper()
	if s.sink == nil {
		s.In("b", func() (err error) {
			s.sink, err = net.ListenPacket("udp4", "0.0.0.0:9")
			return err
		})
		s.t.Cleanup(func() { s.sink.Close() })
	}
	var c *net.UDPConn
	s.In("a", func() (err error) {
		c, err = net.DialUDP("udp4", nil, &net.UDPAddr{IP: net.IPv4(10, 77, 0, 2), Port: 9})
		return err
	})
	defer c.Close()
	for range n {
		if _, err := c.Write(make([]byte, size)); err != nil {
			s.t.Fatal(err)
		}
	}
}

// Stream sends n bytes of TCP from a to b.
func (s *Scene) Stream(n int64) {
	s.t.Helper()
	var l *net.TCPListener
	var c *net.TCPConn
	s.In("b", func() (err error) {
		l, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(10, 77, 0, 2)})
		return err
	})
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		in, err := l.AcceptTCP()
		if err == nil {
			_, err = io.Copy(io.Discard, in)
			in.Close()
		}
		done <- err
	}()
	s.In("a", func() (err error) {
		c, err = net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
		return err
	})
	_, err := io.Copy(c, io.LimitReader(zeros{}, n))
	c.Close()
	if err == nil {
		err = <-done
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
