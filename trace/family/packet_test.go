package family

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"culprit/kernel"
	"culprit/lang/syntax"
	"culprit/trace/probe"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// Ports of the packets that makeDrops sends.
const (
	closedPort = 4301 // nobody listens
	fullPort   = 4302 // nobody reads
)

// makeDrops sends packets that the kernel drops, within a network namespace of its own, and prints
// what /proc/net counts: datagrams without a listener of IPv4 and IPv6, datagrams that found a full
// buffer, and refused connections.
func makeDrops() {
	runtime.LockOSThread()
	if err := loopbackAlone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	local := [4]byte{127, 0, 0, 1}
	local6 := unix.SockaddrInet6{Port: closedPort, Addr: [16]byte{15: 1}}
	out, _ := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	out6, _ := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)
	in, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	full := &unix.SockaddrInet4{Port: fullPort, Addr: local}
	if err != nil || unix.Bind(in, full) != nil {
		return
	}
	data := make([]byte, 500)
	closed := &unix.SockaddrInet4{Port: closedPort, Addr: local}
	for range 40 {
		unix.Sendto(out, data, 0, closed) //nolint:errcheck // it is dropped
	}
	for range 30 {
		unix.Sendto(out6, data, 0, &local6) //nolint:errcheck // the same
	}
	for range 3000 {
		unix.Sendto(out, data, 0, full) //nolint:errcheck // some are dropped
	}
	for range 20 {
		if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0); err == nil {
			unix.Connect(fd, closed) //nolint:errcheck // it is refused
			unix.Close(fd)
		}
	}
	fmt.Println(netCount("snmp", "Udp:", "NoPorts"), netCount("snmp6", "", "Udp6NoPorts"),
		netCount("snmp", "Udp:", "RcvbufErrors"), netCount("snmp", "Tcp:", "OutRsts"))
	// The sockets stay open until the test has read: datagrams in them would be dropped.
	os.Stdin.Read(make([]byte, 1)) //nolint:errcheck // it ends
}

// netCount returns a number of /proc/net/snmp, which has a line of names and one of numbers, or of
// snmp6, which has a name and a number per line. -1: it is not there.
func netCount(file, line, name string) int {
	text, _ := os.ReadFile("/proc/thread-self/net/" + file)
	var names []string
	n := -1
	for l := range strings.Lines(string(text)) {
		switch words := strings.Fields(l); {
		case line == "" && len(words) == 2 && words[0] == name:
			fmt.Sscan(words[1], &n) //nolint:errcheck // it stays -1
		case line == "" || !strings.HasPrefix(l, line):
		case names == nil:
			names = words
		default:
			if i := slices.Index(names, name); i >= 0 {
				fmt.Sscan(words[i], &n) //nolint:errcheck // the same
			}
		}
	}
	return n
}

// reasonsOf returns the words for reasons on this kernel.
func reasonsOf(t *testing.T, words ...string) []string {
	t.Helper()
	env := probe.NewEnv(kernel.Root{})
	defer env.Close() //nolint:errcheck // only read
	tree, _ := syntax.Parse("sdt:skb::kfree_skb {}", syntax.Mode{})
	probes, err := env.Probes(clausesOf(tree)[0].Probes[0])
	if err != nil || len(probes) == 0 {
		t.Skipf("needs: kernel feature skb:kfree_skb (%v)", err)
	}
	if list, _ := probes[0].Arguments(); len(list) < 3 { // before Linux 5.17
		for i := range words {
			words[i] = unknownReason
		}
	}
	return words
}

// Dropped packets are those that /proc/net counts, by reason, protocol and port.
func TestPacketStatistics(t *testing.T) {
	reasons := reasonsOf(t, "NO_SOCKET", "SOCKET_RCVBUFF")
	w := startWorker(t, "drops")
	query := fmt.Sprintf("packet.drop.count by netns,protocol,port,reason where port in (%d, %d) "+
		`and netns != ""`, closedPort, fullPort)
	got := map[string]float64{}
	watchFamily(t, []string{query}, func() { w.begin(t) }, func(m *measured) bool {
		clear(got)
		refused := 0.0
		for key, n := range m.sums {
			words := strings.Fields(key) // packet.drop.count netns= protocol= port= reason=
			key = strings.Join(words[2:5], " ")
			if got[key] += n; words[2] == "protocol=tcp" {
				refused += n
			}
		}
		return refused >= 20
	})
	var closed, closed6, full, refused float64
	w.said(t, &closed, &closed6, &full, &refused)
	if closed != 40 || closed6 != 30 || full < 1 || refused != 20 {
		t.Fatalf("/proc/net counts %.0f, %.0f, %.0f and %.0f", closed, closed6, full, refused)
	}
	want := map[string]float64{
		"protocol=udp port=4301 reason=" + reasons[0]: closed + closed6,
		"protocol=udp port=4302 reason=" + reasons[1]: full,
		"protocol=tcp port=4301 reason=" + reasons[0]: refused,
	}
	if !maps.Equal(got, want) {
		t.Errorf("dropped %v, want %v", got, want)
	}
}

// Where the kernel's probe lacks an argument, a variable is 0 instead of it.
func TestOptionalArgument(t *testing.T) {
	tree, _ := syntax.Parse("sdt:skb::kfree_skb { this->a = arg2; this->b = arg3; }", syntax.Mode{})
	withoutArgument(clausesOf(tree)[0], 3)
	text := strings.Join(strings.Fields(syntax.Print(tree)), " ")
	if text != "sdt:skb::kfree_skb { this->a = arg2; this->b = 0; }" {
		t.Error(text)
	}
}

func TestDropReasonNames(t *testing.T) {
	enum := func(name string, names ...string) *btf.Enum {
		e := &btf.Enum{Name: name, Size: 4}
		for n, v := range names {
			e.Values = append(e.Values, btf.EnumValue{Name: v, Value: uint64(n)})
		}
		return e
	}
	names := dropNames(enum("skb_drop_reason", "SKB_NOT_DROPPED_YET", "SKB_CONSUMED",
		"SKB_DROP_REASON_NOT_SPECIFIED", "SKB_DROP_REASON_NO_SOCKET", "SKB_DROP_REASON_MAX"),
		enum("skb_drop_reason_subsys", "SKB_DROP_REASON_SUBSYS_CORE",
			"SKB_DROP_REASON_SUBSYS_OPENVSWITCH"))
	for n, want := range map[int64]string{
		0: "unknown", 2: "NOT_SPECIFIED", 3: "NO_SOCKET", 4: "4", 1<<16 + 5: "openvswitch:5",
		2<<16 + 1: "subsystem-2:1", -1<<31 + 7: "subsystem-32768:7",
	} {
		if got := reasonWord(n, names); got != want {
			t.Errorf("reason %d is %q, want %q", n, got, want)
		}
	}
}

func TestPacketProtocolNames(t *testing.T) {
	n := packetProtocols()
	for number, want := range map[int64]string{
		6: "tcp", 17: "udp", 200: "ip-200", etherType + 0x0806: "arp", etherType + 4: "ethertype-0004",
	} {
		if got := n.say(number); got != want {
			t.Errorf("protocol %#x is %q, want %q", number, got, want)
		}
	}
}
