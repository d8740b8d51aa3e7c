package collect

import (
	"culprit/kernel"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// scene is a set of network namespaces made for one test, gone with it.
type scene struct {
	t      testing.TB
	prefix string
	sink   net.PacketConn // of send, in b
}

func newScene(t testing.TB, names ...string) *scene {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs: root")
	}
	for _, tool := range []string{"ip", "tc", "ethtool"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs: tool %s", tool)
		}
	}
	s := &scene{t: t, prefix: fmt.Sprintf("nt%d", os.Getpid())}
	for _, n := range names {
		s.add(n)
	}
	return s
}

func (s *scene) add(name string) {
	s.t.Helper()
	ns := s.prefix + name
	s.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
	s.run("ip netns add " + ns)
	// Without IPv6 nothing is sent but what the test sends.
	s.run("ip netns exec " + ns + " sh -c 'echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6'")
	s.run("ip -n " + ns + " link set lo up")
}

// run runs a command line; @ stands for the prefix of the namespaces.
func (s *scene) run(line string) {
	s.t.Helper()
	line = strings.ReplaceAll(line, "@", s.prefix)
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// cable joins a and b by a veth of fixed neighbours: va (10.77.0.1) and vb (10.77.0.2).
func (s *scene) cable() {
	s.t.Helper()
	s.run("ip link add va netns @a address 02:00:00:00:77:01 type veth peer name vb netns @b address 02:00:00:00:77:02")
	s.run("ip -n @a addr add 10.77.0.1/24 dev va && ip -n @b addr add 10.77.0.2/24 dev vb")
	s.run("ip -n @a link set va up && ip -n @b link set vb up")
	s.run("ip -n @a neigh replace 10.77.0.2 lladdr 02:00:00:00:77:02 dev va nud permanent")
	s.run("ip -n @b neigh replace 10.77.0.1 lladdr 02:00:00:00:77:01 dev vb nud permanent")
	s.carries("va")
}

// carries waits until a device of a is up: until then the kernel drops what it is given (noop_qdisc).
func (s *scene) carries(device string) {
	s.t.Helper()
	s.run("for i in $(seq 200); do ip -n @a link show " + device + " | grep -q 'state UP' && exit 0; sleep 0.05; done; exit 1")
}

func (s *scene) in(name string, f func() error) {
	s.t.Helper()
	ns, err := kernel.Root{}.FindNetNS(s.prefix + name)
	if err == nil {
		err = ns.In(f)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// send sends n datagrams of size bytes from a to b, where a socket takes them in: a refusal by ICMP would swallow the next write.
func (s *scene) send(n, size int) {
	s.t.Helper()
	if s.sink == nil {
		s.in("b", func() (err error) {
			s.sink, err = net.ListenPacket("udp4", "0.0.0.0:9")
			return err
		})
		s.t.Cleanup(func() { s.sink.Close() })
	}
	var c *net.UDPConn
	s.in("a", func() (err error) {
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

// stream sends n bytes of TCP from a to b.
func (s *scene) stream(n int64) {
	s.t.Helper()
	var l *net.TCPListener
	var c *net.TCPConn
	s.in("b", func() (err error) {
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
	s.in("a", func() (err error) {
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
