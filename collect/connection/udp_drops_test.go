package connection

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/heapbound"
)

func TestParseDrops(t *testing.T) {
	const text = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   " +
		"uid  timeout inode ref pointer drops            \n" +
		"  402: 0100007F:1FBD 0200000A:0035 01 00000003:00000005 00:00000000 00000000   997        " +
		"0 40512 2 0000000000000000 17         \n" +
		"  500: 00000000000000000000000000000000:0044 00000000000000000000000000000000:0000 07 " +
		"00000000:00000000 00:00000000 00000000     0        0 40513 2 0000000000000000 4294967295\n" +
		"  501: 0100007F:1FBD 0200000A:0035 01 cut\n"
	var got []string
	parseDrops([]byte(text), func(inode uint32, port uint16, drops uint32) {
		got = append(got, fmt.Sprint(inode, port, drops))
	})
	if s := strings.Join(got, ","); s != "40512 8125 17,40513 68 4294967295" {
		t.Error(s)
	}
}

// Beyond the greatest number of lines a file is not read, and parseDrops returns so.
func TestParseDropsOfMany(t *testing.T) {
	const line = "1: 0100007F:1FBD 0:0 01 0:0 0:0 0 997 0 40512 2 0 17\n"
	for _, tt := range []struct {
		name         string
		lines, calls int
		whole        bool
	}{
		{"as many as are read", namesMost, namesMost, true},
		{"one more", namesMost + 1, namesMost, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			whole := parseDrops([]byte(strings.Repeat(line, tt.lines)),
				func(uint32, uint16, uint32) { calls++ })
			if whole != tt.whole || calls != tt.calls {
				t.Errorf("%v after %d calls, want %v after %d", whole, calls, tt.whole, tt.calls)
			}
		})
	}
}

func FuzzParseDrops(f *testing.F) {
	f.Add([]byte("1: 0100007F:1FBD 0:0 01 0:0 0:0 0 997 0 40512 2 0 17\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		parseDrops(b, func(inode uint32, port uint16, drops uint32) {
			if inode == 0 {
				t.Error("inode 0")
			}
		})
	})
}

// Datagrams for a socket that nobody reads are lost when its buffer is full. They are counted at
// this process, and not those of before the first reading.
func TestDropsOfThisProcess(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	send, err := net.Dial("udp4", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer send.Close()
	flood := func(n int) {
		for range n {
			if _, err := send.Write(make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
	}
	flood(100) // the buffer is full
	reading, err := udpDrops{}.Open(&collect.Env{}, collecttest.WantAll(udpDrops{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(reading.Close)
	m := collecttest.OpenTicker(t, udpDrops{}, &collect.Env{})
	m.Reading = reading // with all fields
	m.Rows()
	flood(70)
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Skip("needs: kernel feature procfs")
	}
	key := fmt.Sprintf("udp.socket.drops ,%d,%d,%s", c.LocalAddr().(*net.UDPAddr).Port, os.Getpid(),
		strings.TrimSpace(string(name)))
	lost := 0.0
	collecttest.UntilRows(t, m, "lost datagrams", func(rows map[string]float64) bool {
		lost += rows[key]
		return lost >= 70
	})
	if lost != 70 {
		t.Errorf("%s is %v, want 70", key, lost)
	}
}
