package command

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"culprit/trace/tracetest"

	"golang.org/x/sys/unix"
)

// answers parses lines of "name number", and returns the numbers by name.
func answers(t *testing.T, out string) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		var n int64
		if _, err := fmt.Sscan(words[len(words)-1], &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[strings.Join(words[:len(words)-1], " ")] = n
	}
	return all
}

// expect compares some of the answers.
func expect(t *testing.T, got, want map[string]int64) {
	t.Helper()
	for name, n := range want {
		if got[name] != n {
			t.Errorf("%s: %d, want %d", name, got[name], n)
		}
	}
}

// repeated returns how many bytes a connection sent more than once.
func repeated(t *testing.T, c net.Conn) (n int64) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Error(err)
		return 0
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n = int64(info.Bytes_retrans)
		}
	})
	if err != nil {
		t.Error(err)
	}
	return n
}

// talk opens a connection over which each end sends data to the other. It returns the bytes that
// were retransmitted.
func talk(t *testing.T, address string, l net.Listener, there, back int) int64 {
	client, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return 0
	}
	server, err := l.Accept()
	if err != nil {
		t.Error(err)
		return 0
	}
	carry := func(from, to net.Conn, n int) {
		if _, err := from.Write(make([]byte, n)); err != nil {
			t.Error(err)
		}
		if _, err := io.CopyN(io.Discard, to, int64(n)); err != nil {
			t.Error(err)
		}
	}
	carry(client, server, there)
	carry(server, client, back)
	again := repeated(t, client) + repeated(t, server)
	client.Close()
	io.Copy(io.Discard, server) //nolint:errcheck // until the other end has said that it is over
	server.Close()
	return again
}

// TCP probes count each request, establishment and refusal of a connection, and all bytes.
func TestTCPProbes(t *testing.T) {
	for _, c := range []struct{ name, listen, address string }{
		{"IPv4", "127.83.12.9:0", "127.83.12.9"},
		{"IPv6", "[::1]:0", "::1"},
		{"IPv4 at a socket of IPv6", "[::]:0", "127.83.12.10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := net.Listen("tcp", c.listen)
			if err != nil {
				t.Skip("needs: kernel feature IPv6 on the loopback device")
			}
			defer l.Close()
			// Bound, and nobody listens.
			family, at := unix.AF_INET, unix.Sockaddr(nil)
			if strings.Contains(c.address, ":") {
				family, at = unix.AF_INET6, &unix.SockaddrInet6{
					Addr: netip.MustParseAddr(c.address).As16(),
				}
			} else {
				at = &unix.SockaddrInet4{Addr: netip.MustParseAddr(c.address).As4()}
			}
			shut, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(shut)
			if err := unix.Bind(shut, at); err != nil {
				t.Fatal(err)
			}
			bound, err := unix.Getsockname(shut)
			if err != nil {
				t.Fatal(err)
			}
			closed := 0
			switch b := bound.(type) {
			case *unix.SockaddrInet4:
				closed = b.Port
			case *unix.SockaddrInet6:
				closed = b.Port
			}
			open := tracetest.Port(t, l.Addr())
			const connections, refused, there, back = 20, 7, 3000, 500
			var again int64
			_, out, errs := traced(t, program(`
				tcp:::connect-request /args[2]->ip_daddr == "%[3]s" && args[4]->tcp_dport == %[1]d && args[3]->tcps_state == 2 && args[3]->tcps_active && pid == $pid/ { @["requests"] = sum(1); }
				tcp:::connect-request /args[4]->tcp_dport == %[2]d/ { @["requests in vain"] = sum(1); }
				tcp:::connect-established /args[3]->tcps_raddr == "%[3]s" && args[3]->tcps_rport == %[1]d && args[3]->tcps_state == 1 && args[4]->tcp_sport == %[1]d/ { @["established"] = sum(1); }
				tcp:::accept-established /args[3]->tcps_laddr == "%[3]s" && args[3]->tcps_lport == %[1]d && args[2]->ip_daddr == "%[3]s" && args[4]->tcp_dport == %[1]d/ { @["accepted"] = sum(1); }
				tcp:::connect-refused /args[3]->tcps_rport == %[2]d && args[2]->ip_saddr == "%[3]s"/ { @["refused"] = sum(1); }
				tcp:::accept-refused /args[4]->tcp_sport == %[2]d && args[2]->ip_saddr == "%[3]s" && args[3]->tcps_laddr == "%[3]s"/ { @["refusals"] = sum(1); }
				tcp:::send, tcp:::receive /args[4]->tcp_dport == %[1]d/ { @[strjoin(probename, " there")] = sum(args[2]->ip_plength - args[4]->tcp_offset); }
				tcp:::send, tcp:::receive /args[4]->tcp_sport == %[1]d/ { @[strjoin(probename, " back")] = sum(args[2]->ip_plength - args[4]->tcp_offset); }
				tcp:::send, tcp:::receive /args[4]->tcp_sport == %[1]d || args[4]->tcp_dport == %[1]d/ { @[strjoin(probename, " segments")] = sum(1); }
				tcp:::send /args[4]->tcp_sport == %[1]d || args[4]->tcp_dport == %[1]d/ { @["opened"] = sum((args[4]->tcp_flags & (TH_SYN | TH_ACK)) == TH_SYN); }
				tcp:::send /args[3]->tcps_lport == %[1]d && args[3]->tcps_laddr == "%[3]s"/ { @["send by the server"] = sum(args[2]->ip_plength - args[4]->tcp_offset); }
				tcp:::receive /args[3]->tcps_lport == %[1]d && args[3]->tcps_raddr == "%[3]s" && args[3]->tcps_local/ { @["receive by the server"] = sum(args[2]->ip_plength - args[4]->tcp_offset); }
				tcp:::state-change /args[3]->tcps_rport == %[1]d || args[3]->tcps_lport == %[1]d || args[3]->tcps_rport == %[2]d/ { @s[args[5]->tcps_state, args[3]->tcps_state] = sum(1); }
				END { printa("%%s %%@d\n", @); printa("state %%d %%d %%@d\n", @s); }`, open, closed, c.address), func() {
				for range connections {
					again += talk(t, net.JoinHostPort(c.address, fmt.Sprint(open)), l, there, back)
				}
				for range refused {
					refusing := net.JoinHostPort(c.address, fmt.Sprint(closed))
					if _, err := net.Dial("tcp", refusing); err == nil {
						t.Error("nobody listens, and somebody answered")
					}
				}
			})
			if errs != "" {
				t.Error(errs)
			}
			got := answers(t, out)
			local := int64(there)
			// an address of its own for the client
			if c.name != "IPv6" && got["receive by the server"] == 0 {
				local = 0
			}
			expect(t, got, map[string]int64{
				"requests": connections, "established": connections, "accepted": connections, "opened": connections, "requests in vain": refused, "refused": refused, "refusals": refused,
				"receive by the server": connections * local,
				"state 7 2":             connections + refused,
				"state 2 1":             connections,
				"state 10 3":            connections,
				"state 3 1":             connections,
				"state 2 7":             refused,
				"state 5 6":             connections,
				"state 9 7":             connections,
				"receive segments":      got["send segments"],
				"receive there":         got["send there"],
				"receive back":          got["send back"],
				"send by the server":    got["send back"],
			})
			for name, n := range map[string]int64{"send there": there, "send back": back} {
				if got[name] < connections*n || got[name] > connections*n+again {
					t.Errorf(
						"%s: %d bytes, want %d and at most %d more", name, got[name], connections*n,
						again,
					)
				}
			}
		})
	}
}

// Each datagram fires udp and ip once, with its length.
func TestUDPAndIPProbes(t *testing.T) {
	for _, address := range []string{"127.83.12.11", "::1"} {
		t.Run(address, func(t *testing.T) {
			to, err := net.ListenPacket("udp", net.JoinHostPort(address, "0"))
			if err != nil {
				t.Skip("needs: kernel feature IPv6 on the loopback device")
			}
			defer to.Close()
			const datagrams, size = 50, 300
			version, header := 4, "args[4]->ipv4_protocol == 17 && args[4]->ipv4_daddr == args[2]->ip_daddr && args[4]->ipv4_protostr == \"UDP\" && args[5]->ipv6_ver == 0"
			if strings.Contains(address, ":") {
				version, header = 6, "args[5]->ipv6_nexthdr == 17 && args[5]->ipv6_daddr == args[2]->ip_daddr && args[5]->ipv6_nextstr == \"UDP\" && args[4]->ipv4_ver == 0"
			}
			_, out, errs := traced(t, program(`
				udp:::send /args[4]->udp_dport == %[1]d && args[3]->udps_rport == %[1]d && args[3]->udps_raddr == "%[2]s" && pid == $pid/ { @[probename] = sum(args[4]->udp_length); }
				udp:::receive /args[4]->udp_dport == %[1]d && args[3]->udps_lport == %[1]d && args[3]->udps_laddr == "%[2]s"/ { @[probename] = sum(args[4]->udp_length); }
				ip:::send, ip:::receive /args[2]->ip_daddr == "%[2]s" && args[2]->ip_ver == %[3]d && args[2]->ip_plength == %[4]d && args[3]->if_name == "lo" && args[3]->if_local && %[5]s/ { @[strjoin("ip ", probename)] = sum(1); }
				END { printa("%%s %%@d\n", @); }`, tracetest.Port(t, to.LocalAddr()), address, version, size+8, header), func() {
				from, err := net.Dial("udp", to.LocalAddr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer from.Close()
				buf := make([]byte, 2*size)
				for range datagrams {
					if _, err := from.Write(buf[:size]); err != nil {
						t.Error(err)
					}
					if n, _, err := to.ReadFrom(buf); err != nil || n != size {
						t.Error(n, err)
					}
				}
			})
			if errs != "" {
				t.Error(errs)
			}
			expect(
				t,
				answers(t, out),
				map[string]int64{
					"send":       datagrams * (size + 8),
					"receive":    datagrams * (size + 8),
					"ip send":    datagrams,
					"ip receive": datagrams,
				},
			)
		})
	}
}

// A packet that passes a device on top of another, or a bridge, fires a probe once, at the device
// with the address.
func TestPacketsCountOnce(t *testing.T) {
	tool, err := exec.LookPath("ip")
	if err != nil {
		t.Skip("needs: tool ip")
	}
	if os.Getuid() != 0 {
		t.Skip("needs: root")
	}
	near, far := fmt.Sprintf("culprit-%d-a", os.Getpid()), fmt.Sprintf("culprit-%d-b", os.Getpid())
	ip := func(args ...string) error { return exec.Command(tool, args...).Run() }
	for _, name := range []string{near, far} {
		if err := ip("netns", "add", name); err != nil {
			t.Skip("needs: kernel feature network namespaces")
		}
		defer ip("netns", "del", name) //nolint:errcheck // its devices go with it
	}
	for _, line := range []string{
		"link add va netns A type veth peer name vb netns B", "link add wa netns A type veth peer name wb netns B",
		"-n A link add bra type bridge", "-n A link set wa master bra", "-n A link add mva link va type macvlan mode bridge",
		"-n A addr add 10.99.6.1/24 dev mva", "-n A addr add 10.99.7.1/24 dev bra", "-n B addr add 10.99.6.2/24 dev vb", "-n B addr add 10.99.7.2/24 dev wb",
		"-n A link set va up", "-n A link set mva up", "-n A link set wa up", "-n A link set bra up", "-n B link set vb up", "-n B link set wb up",
		// So that nothing need be asked for, and waited for.
		"-n A neigh replace 10.99.6.2 lladdr LL:vb dev mva", "-n A neigh replace 10.99.7.2 lladdr LL:wb dev bra",
	} {
		words := strings.Fields(line)
		for i, w := range words {
			switch {
			case w == "A":
				words[i] = near
			case w == "B":
				words[i] = far
			case strings.HasPrefix(w, "LL:"):
				b, err := exec.Command(tool, "-n", far, "-o", "link", "show", w[3:]).Output()
				if err != nil {
					t.Fatal(err)
				}
				_, rest, _ := strings.Cut(string(b), "link/ether ")
				words[i], _, _ = strings.Cut(rest, " ")
			}
		}
		if err := ip(words...); err != nil {
			t.Skip("needs: kernel feature veth, bridges and macvlan")
		}
	}
	const datagrams, to = 10, 7778
	_, out, errs := traced(t, program(`
		udp:::send, udp:::receive /args[4]->udp_dport == %d/ { @[strjoin(strjoin(probename, " to "), args[2]->ip_daddr)] = sum(1); }
		ip:::send, ip:::receive /args[4]->ipv4_protocol == 17 && (args[2]->ip_daddr == "10.99.6.2" || args[2]->ip_daddr == "10.99.7.2")/ { @[strjoin(strjoin(probename, " at "), args[3]->if_name)] = sum(1); }
		END { printa("%%s %%@d\n", @); }`, to), func() {
		ready, done := make(chan bool), make(chan error)
		go func() {
			done <- inside(far, func(socket int) error {
				if err := unix.Bind(socket, &unix.SockaddrInet4{Port: to}); err != nil {
					return err
				}
				close(ready)
				for range 2 * datagrams { // all have come when all were read
					if _, _, err := unix.Recvfrom(socket, make([]byte, 200), 0); err != nil {
						return err
					}
				}
				return nil
			})
		}()
		go func() {
			done <- inside(near, func(socket int) error {
				<-ready
				for range datagrams {
					for _, a := range [][4]byte{{10, 99, 6, 2}, {10, 99, 7, 2}} {
						end := &unix.SockaddrInet4{Port: to, Addr: a}
						if err := unix.Sendto(socket, make([]byte, 100), 0, end); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
				return
			}
		}
	})
	if errs != "" {
		t.Error(errs)
	}
	got := answers(t, out)
	expect(t, got, map[string]int64{
		"send to 10.99.6.2": datagrams, "receive to 10.99.6.2": datagrams, "send to 10.99.7.2": datagrams, "receive to 10.99.7.2": datagrams,
		"send at mva": datagrams, "receive at vb": datagrams, "send at bra": datagrams, "receive at wb": datagrams, "send at va": 0, "send at wa": 0,
	})
}

// inside does something with a socket for datagrams of a network namespace, which the thread never
// leaves: it ends with the goroutine.
func inside(namespace string, do func(socket int) error) error {
	runtime.LockOSThread()
	fd, err := unix.Open("/var/run/netns/"+namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	wait := &unix.Timeval{Sec: 20}
	err = unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, wait)
	if err != nil {
		return err
	}
	return do(socket)
}
