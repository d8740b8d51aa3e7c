package connection

import (
	"maps"
	"net"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/heapbound"
)

const udpText = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   " +
	"uid  timeout inode ref pointer drops\n" +
	"  9: 0100007F:A3C1 0200000A:0035 01 00000000:00000000 00:00000000 00000000  1000        0 " +
	"40512 2 0000000000000000 0\n"

func TestParseLookups(t *testing.T) {
	line := func(peer, state, queues string) string {
		return " 9: 0100007F:A3C1 " + peer + " " + state + " " + queues +
			" 00:00000000 00000000 7 3 40512 2 0 1\n"
	}
	for _, tt := range []struct{ name, text, want string }{
		{"a lookup", udpText, "10.0.0.2"},
		{"IPv6", line("000080FE000000000000000009000000:0035", "01", "00000000:00000000"),
			"fe80::9"},
		{"IPv4 in IPv6", line("0000000000000000FFFF00000200000A:0035", "01", "00000000:00000000"),
			"10.0.0.2"},
		{"an answer that is not read", line("0200000A:0035", "01", "00000000:00000300"), ""},
		{"another port", line("0200000A:0135", "01", "00000000:00000000"), ""},
		{"not connected", line("0200000A:0035", "07", "00000000:00000000"), ""},
		{"not hexadecimal", line("0200000G:0035", "01", "00000000:00000000"), ""},
		{"too long", line("0200000A0A:0035", "01", "00000000:00000000"), ""},
		{"cut", " 9: 0100007F:A3C1 0200000A:0035 01 00000000:00000000 00:0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			for inode, l := range parseLookups([]byte(tt.text)) {
				if got = l.server.String(); inode != 40512 {
					t.Errorf("inode %d", inode)
				}
			}
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzLookups(f *testing.F) {
	f.Add([]byte(udpText))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		for inode, l := range parseLookups(b) {
			if inode == 0 || !l.server.IsValid() {
				t.Errorf("%d %v", inode, l)
			}
		}
	})
}

// A socket that waits for an answer is counted from the second reading on; one that is answered is
// not.
func TestLookupsOfThisMachine(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.253:53")
	if err != nil {
		t.Skip("needs: cap:net_bind_service")
	}
	defer server.Close()
	for range 2 {
		c, err := net.Dial("udp", "127.0.0.253:53")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	reading, err := nameServers{}.Open(&collect.Env{}, collecttest.WantAll(nameServers{}))
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	n := reading.(*namesReading).spaces.List[0].Data
	counts := func(at time.Time) map[string]int {
		n.due = time.Time{}
		if err := n.read(at, nil); err != nil {
			t.Fatal(err)
		}
		out := map[string]int{}
		for a, v := range n.waiting {
			if a.String() == "127.0.0.253" {
				out[a.String()] = v
			}
		}
		return out
	}
	start := time.Now()
	if got := counts(start); len(got) > 0 {
		t.Errorf("%v in the first reading", got)
	}
	if got := counts(start.Add(namesAge / 2)); len(got) > 0 {
		t.Errorf("%v, too young", got)
	}
	if got := counts(start.Add(namesAge)); !maps.Equal(got, map[string]int{"127.0.0.253": 2}) {
		t.Errorf("%v, want 2 that wait", got)
	}
}

// A lookup that waited and ended is slow, except one that is older than the first read; one that is
// answered within the interval is not.
func TestSlowLookups(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.252:53")
	if err != nil {
		t.Skip("needs: cap:net_bind_service")
	}
	defer server.Close()
	dial := func() net.Conn {
		c, err := net.Dial("udp", "127.0.0.252:53")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	old := dial()
	reading, err := nameServers{}.Open(&collect.Env{}, collecttest.WantAll(nameServers{}))
	if err != nil {
		t.Fatal(err)
	}
	defer reading.Close()
	n := reading.(*namesReading).spaces.List[0].Data
	at := time.Now()
	ended := func() (slow int) {
		n.due = time.Time{}
		if err := n.read(at, nil); err != nil {
			t.Fatal(err)
		}
		at = at.Add(namesAge)
		for a, v := range n.ended {
			if a.String() == "127.0.0.252" {
				slow += v
			}
		}
		return slow
	}
	if ended() != 0 {
		t.Error("ended in the first read")
	}
	one, two, quick := dial(), dial(), dial()
	if ended() != 0 {
		t.Error("new ones have ended")
	}
	quick.Close()
	if ended() != 0 {
		t.Error("one that never waited counts")
	}
	one.Close()
	two.Close()
	old.Close()
	if got := ended(); got != 2 {
		t.Errorf("%d are slow, want 2", got)
	}
	if n.due = time.Now().Add(time.Hour); n.read(at, nil) != nil || len(n.ended) > 0 {
		t.Errorf("%v ended, and nothing was read", n.ended)
	}
}
