package connection

import (
	"encoding/binary"
	"net"
	"os"
	"strings"
	"testing"

	"culprit/collect/collecttest"
	"culprit/heapbound"
	"culprit/kernel"
)

func TestPortRange(t *testing.T) {
	for _, tt := range []struct {
		name, ports, reserved string
		size                  float64
		has, lacks            []uint16
	}{
		{"usual", "32768\t60999\n", "\n", 28232, []uint16{32768, 60999}, []uint16{32767, 61000}},
		{"reserved", "1000 1100", "5,1050,1099-1200", 98, []uint16{1049, 1098},
			[]uint16{1050, 1099, 1100}},
		{"all reserved", "1000 1001", "1-65535", 0, nil, []uint16{1000}},
		{"one", "7 7", "", 1, []uint16{7}, []uint16{8}},
		{"malformed reserved", "7 8", "x,9-8,-", 2, []uint16{7, 8}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := parsePortRange([]byte(tt.ports), []byte(tt.reserved))
			if err != nil || r.size != tt.size {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, p := range tt.has {
				if !r.has(p) {
					t.Errorf("lacks %d", p)
				}
			}
			for _, p := range tt.lacks {
				if r.has(p) {
					t.Errorf("has %d", p)
				}
			}
		})
	}
	for _, text := range []string{"", "9 8", "1", "1 99999", "a b"} {
		if r, err := parsePortRange([]byte(text), nil); err == nil {
			t.Errorf("%q is %+v", text, r)
		}
	}
}

func TestSocketsOfSockstat(t *testing.T) {
	if n := tcpSockets([]byte("sockets: used 199\nTCP: inuse 5 orphan 1 tw 20 alloc 80 mem 17\n" +
		"UDP: inuse 300 mem 29\n")); n != 25 {
		t.Error(n)
	}
	if n := tcpSockets([]byte("TCP6: inuse 7\nUDP6: inuse 300\n")); n != 7 {
		t.Error(n)
	}
}

// portMessage is a socket as inet_diag dumps it.
func portMessage(state byte, local, peer [4]byte, localPort, peerPort uint16) []byte {
	b := make([]byte, diagHeader)
	b[0], b[1] = 2, state
	binary.BigEndian.PutUint16(b[4:], localPort)
	binary.BigEndian.PutUint16(b[6:], peerPort)
	copy(b[8:], local[:])
	copy(b[24:], peer[:])
	return b
}

// TestPortsByDestination: only ports of the range count, each for its own destination.
func TestPortsByDestination(t *testing.T) {
	p := &portSpace{counts: map[destination]*portCount{}}
	var err error
	if p.ports, err = parsePortRange([]byte("1000 1019"), nil); err != nil {
		t.Fatal(err)
	}
	me, a, b := [4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, [4]byte{10, 0, 0, 3}
	for _, m := range [][]byte{
		portMessage(tcpEstablished, me, a, 1000, 80), portMessage(tcpTimeWait, me, a, 1001, 80),
		portMessage(tcpTimeWait, me, a, 1002, 80), portMessage(tcpSynSent, me, a, 1003, 81),
		portMessage(tcpEstablished, me, b, 1000, 80), portMessage(tcpEstablished, me, a, 999, 80),
		portMessage(tcpEstablished, me, a, 80, 1005), nil, {1},
	} {
		if err := p.take(0, m); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]portCount{}
	for d, c := range p.counts {
		got[d.local.String()+" "+d.peer.String()+" "+string(rune('0'+d.port-80))] = *c
	}
	want := map[string]portCount{"10.0.0.1 10.0.0.2 0": {1, 2}, "10.0.0.1 10.0.0.2 1": {1, 0},
		"10.0.0.1 10.0.0.3 0": {1, 0}}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: %v, want %v", k, got[k], v)
		}
	}
}

// TestPortsOfThisMachine connects through half of a small range of ports in a network namespace of
// its own.
func TestPortsOfThisMachine(t *testing.T) {
	const most = 40
	inNamespace(t, func() {
		if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("40000 40039"),
			0); err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:7000")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for range 3 * most / 4 {
			c, err := net.Dial("tcp", "127.0.0.1:7000")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		m := collecttest.EmptyMachine(t)
		m.Env.Root = kernel.Root{}
		m.Open(Ports{})
		collecttest.Expect(t, m.Read(true), "", map[string]float64{
			"tcp.ports.limit||40000-40039":                       most,
			"tcp.ports.used||127.0.0.1|127.0.0.1|7000|open":      30,
			"tcp.ports.used||127.0.0.1|127.0.0.1|7000|time-wait": 0,
		})
	})
}

func FuzzPortRange(f *testing.F) {
	f.Add([]byte("32768\t60999\n"), []byte("8080,9148-9150"))
	heapbound.Fuzz(f, func(t *testing.T, ports, reserved []byte) {
		r, err := parsePortRange(ports, reserved)
		if err == nil && (r.size < 0 || r.size > 65536 || !strings.Contains(r.word, "-")) {
			t.Errorf("%+v", r)
		}
	})
}
