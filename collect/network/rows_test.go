package network

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// deviceRows puts the growth of a device's counters and returns the rows without namespace and
// device.
func deviceRows(t *testing.T, l *link, o *collect.Out) map[string]float64 {
	t.Helper()
	n := &netDevices{tables: tablesOf(o)}
	n.rx, n.tx = o.Label("rx"), o.Label("tx")
	l.ns, l.device = o.Label("blue"), o.Label("eth0")
	n.tables.amounts(n, o, l)
	rows := map[string]float64{}
	for row, v := range collecttest.RowsOf(t, o) {
		rows[strings.Replace(row, "|blue|eth0", "", 1)] = v
	}
	return rows
}

// TestDeviceRows grows each counter by another prime and finds each in its statistic.
func TestDeviceRows(t *testing.T) {
	primes := [linkCounters]uint64{
		2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83,
		89, 97,
	}
	words := collect.NewDictionary()
	o := collect.NewOut(Devices{}.Stats(), words, false)
	l := &link{}
	l.hasCarrier, l.carrier = true, 100
	read := func(first bool, reading uint32, growth [linkCounters]uint64) map[string]float64 {
		o.Start(first, time.Now())
		for i, v := range growth {
			l.counters[i] += v
		}
		l.counted, l.moved = reading, growth != [linkCounters]uint64{}
		l.difference(o, reading)
		return deviceRows(t, l, o)
	}
	collecttest.Expect(t, read(true, 1, primes), "", nil)
	l.carrier += 101
	want := map[string]float64{
		"bytes|rx": 5, "bytes|tx": 7, "packets|rx": 2, "packets|tx": 3, "errors|rx": 11,
		"errors|tx": 13, "drops|rx": 17 + 53, "drops|tx": 19, "fifo|rx": 47, "fifo|tx": 67,
		"nohandler": 89, "collisions": 29, "multicast": 23, "carrier": 101,
		"errors.detail|rx|length": 31, "errors.detail|rx|over": 37, "errors.detail|rx|crc": 41,
		"errors.detail|rx|frame": 43, "errors.detail|rx|fifo": 47, "errors.detail|rx|missed": 53,
		"errors.detail|rx|dropped": 17, "errors.detail|rx|nohandler": 89,
		"errors.detail|rx|otherhost": 97, "errors.detail|tx|aborted": 59,
		"errors.detail|tx|carrier": 61, "errors.detail|tx|fifo": 67,
		"errors.detail|tx|heartbeat": 71, "errors.detail|tx|window": 73,
		"errors.detail|tx|dropped": 19,
	}
	full := map[string]float64{}
	for row, v := range want {
		full["net.device."+row] = v
	}
	collecttest.Expect(t, read(false, 2, primes), "", full)
	still := map[string]float64{}
	for row := range full {
		if !strings.Contains(row, "detail") {
			still[row] = 0
		}
	}
	for reading := uint32(3); reading < 5; reading++ { // without and with the memory of an idle one
		collecttest.Expect(t, read(false, reading, [linkCounters]uint64{}), "", still)
	}
	// After a failed reading the growth is that of several intervals: unknown.
	carrier := map[string]float64{}
	collecttest.Expect(t, read(false, 6, primes), "", carrier)
	l.counters[rxBytes] = 0
	rows := read(false, 7, [linkCounters]uint64{txBytes: 1})
	if v := rows["net.device.bytes|rx"]; v == v || rows["net.device.bytes|tx"] != 1 {
		t.Errorf("a counter went back: %v", rows)
	}
}

// TestNarrowStats reads the counters of kernels whose structure ends earlier.
func TestNarrowStats(t *testing.T) {
	var b []byte
	for n := range linkCounters + 2 {
		b = append(b, u64(uint64(100+n))...)
	}
	for _, count := range []int{
		0, 1, rxNoHandler, rxNoHandler + 1, linkCounters, linkCounters + 2,
	} {
		var stats [linkCounters]uint64
		for i := range stats {
			stats[i] = 7
		}
		var l linkGrowth
		l.counters[linkCounters-1] = 7
		copyStats(&stats, b[:8*count])
		l.follow(b[:8*count])
		for i := range stats {
			want := uint64(100 + i)
			if i >= count {
				want = 0
			}
			if stats[i] != want || l.counters[i] != want {
				t.Errorf("of %d counters number %d is %d and %d, want %d", count, i, stats[i],
					l.counters[i], want)
			}
		}
		if l.narrow != (count <= rxNoHandler) || !l.moved {
			t.Errorf("with %d counters: narrow %v, moved %v", count, l.narrow, l.moved)
		}
		l.moved = false
		if l.follow(b[:8*count]); l.moved {
			t.Errorf("%d unchanged counters have moved", count)
		}
	}
	if index, ok := parseLinkStats(nil, nil); ok {
		t.Errorf("an empty message is of device %d", index)
	}
}

// TestSinceBoot: the growth before the first reading counts only if it is wanted.
func TestDevicesSinceBoot(t *testing.T) {
	for _, since := range []bool{false, true} {
		o := collect.NewOut(Devices{}.Stats(), collect.NewDictionary(), since)
		o.Start(true, time.Now())
		l := &link{}
		l.counters[txBytes], l.moved, l.counted = 7, true, 1
		l.hasCarrier, l.carrier, l.narrow = true, 5, true
		l.difference(o, 1)
		rows := deviceRows(t, l, o)
		if got := fmt.Sprint(rows["net.device.bytes|tx"], rows["net.device.carrier"]); since &&
			got != "7 5" || !since && len(rows) != 0 {
			t.Errorf("since boot %v: %v", since, rows)
		}
		if _, ok := rows["net.device.nohandler"]; ok {
			t.Error("a kernel without the counter has a row of it")
		}
	}
}

func TestGrown(t *testing.T) {
	o := collect.NewOut(nil, collect.NewDictionary(), false)
	o.Start(false, time.Now())
	for _, tt := range []struct {
		last, now uint64
		want      float64
	}{{5, 5, 0}, {5, 12, 7}, {5, 4, measure.NaN}, {1<<32 - 1, 3, measure.NaN}} {
		if got := grown(o, tt.last, tt.now); !collecttest.Near(got, tt.want) {
			t.Errorf("from %d to %d is %v, want %v", tt.last, tt.now, got, tt.want)
		}
	}
	for _, tt := range []struct {
		last, now uint32
		want      float64
	}{
		{5, 5, 0}, {5, 12, 7}, {1<<32 - 1, 3, 4}, {0, 1<<31 - 1, 1<<31 - 1},
		{0, 1 << 31, measure.NaN}, {5, 4, measure.NaN},
	} {
		if got := grown32(o, tt.last, tt.now); !collecttest.Near(got, tt.want) {
			t.Errorf("from %d to %d is %v, want %v", tt.last, tt.now, got, tt.want)
		}
	}
}

func TestWordsOfDevices(t *testing.T) {
	for kind, want := range map[linkFacts]string{
		{arphrd: unix.ARPHRD_LOOPBACK}: "loopback", {arphrd: unix.ARPHRD_ETHER}: "ethernet",
		{arphrd: unix.ARPHRD_INFINIBAND}: "infiniband", {arphrd: unix.ARPHRD_PPP}: "ppp",
		{arphrd: unix.ARPHRD_SIT}: "tunnel", {arphrd: unix.ARPHRD_TUNNEL6}: "tunnel",
		{arphrd: unix.ARPHRD_IEEE80211}: "wireless", {arphrd: 4242}: "type-4242",
		{kind: "veth", arphrd: unix.ARPHRD_ETHER}: "veth",
		{kind: "tun", arphrd: unix.ARPHRD_ETHER}:  "tap", {kind: "tun", arphrd: 65534}: "tun",
	} {
		if got := kind.kindWord(); got != want {
			t.Errorf("%s of type %d is %s, want %s", kind.kind, kind.arphrd, got, want)
		}
		if got := kind.ethernet(); got != (kind.arphrd == unix.ARPHRD_ETHER) {
			t.Errorf("type %d has frames of Ethernet: %v", kind.arphrd, got)
		}
	}
	for state, want := range map[uint8]string{
		0: "unknown", 1: "notpresent", 2: "down", 3: "lowerlayerdown", 4: "testing", 5: "dormant",
		6: "up", 7: "unknown", 255: "unknown",
	} {
		if got := operWord(state); got != want {
			t.Errorf("state %d is %s, want %s", state, got, want)
		}
	}
	var all []string
	for bit := range 32 {
		if word := flagWords(1 << bit); word != "" {
			all = append(all, word)
		}
	}
	slices.Sort(all)
	const flags = "ALLMULTI BROADCAST DEBUG DORMANT DYNAMIC LOOPBACK LOWER_UP MASTER MULTICAST " +
		"NOARP POINTOPOINT PROMISC SLAVE UP"
	if got := strings.Join(all, " "); got != flags {
		t.Errorf("flags %s, want %s", got, flags)
	}
	if got := flagWords(unix.IFF_UP | unix.IFF_LOOPBACK); got != "LOOPBACK,UP" {
		t.Errorf("two flags are %s", got)
	}
	for a, want := range map[address]string{
		{family: unix.AF_INET, scope: 0}:    "inet global",
		{family: unix.AF_INET6, scope: 200}: "inet6 site",
		{family: unix.AF_INET, scope: 253}:  "inet link", {family: unix.AF_INET, scope: 254}: "inet host",
		{family: unix.AF_INET, scope: 17}: "inet 17",
	} {
		if got := a.familyWord() + " " + a.scopeWord(); got != want {
			t.Errorf("%+v is %s, want %s", a, got, want)
		}
	}
}

func TestWordsOfQdiscs(t *testing.T) {
	for handle, want := range map[uint32]string{
		0x80010000: "8001:", 0x10010: "1:10", 0x1: "0:1", 0: "0:",
	} {
		if got := handleWord(handle); got != want {
			t.Errorf("handle %x is %s, want %s", handle, got, want)
		}
	}
	for _, tt := range []struct {
		key  qdiscKey
		want string
	}{
		{qdiscKey{parent: tcRoot}, "root"}, {qdiscKey{parent: tcIngress}, "ingress"},
		{qdiscKey{parent: 0x10010}, "1:10"},
		{qdiscKey{parent: tcRoot, handle: 0x10010, class: true}, "1:"},
		{qdiscKey{parent: 0x10001, handle: 0x10010, class: true}, "1:1"},
	} {
		q := &qdisc{key: tt.key}
		if got := q.parentWord(); got != tt.want {
			t.Errorf("the parent of %+v is %s, want %s", tt.key, got, tt.want)
		}
	}
}

func TestCounterNames(t *testing.T) {
	for name, want := range map[string]string{
		"Ip6InReceives": "Ip6 InReceives", "Icmp6InMsgs": "Icmp6 InMsgs", "Udp6NoPorts": "Udp6 NoPorts",
		"UdpLite6InErrors": "UdpLite6 InErrors", "Ip6": " Ip6", "TcpInSegs": " TcpInSegs", "": " ",
	} {
		protocol, counter := splitCounter(name)
		if got := protocol + " " + counter; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]bool{
		"Ip Forwarding": true, "Ip DefaultTTL": true, "Ip InReceives": false, "Tcp CurrEstab": true,
		"Tcp RtoMin": true, "Tcp InSegs": false, "MPTcpExt MPCurrEstab": true,
		"MPTcpExt MPCapableSYNRX": false, "Conntrack entries": true, "Conntrack found": false,
		"Arp entries": true, "Ndisc entries": true, "Udp entries": false,
	} {
		protocol, counter, _ := strings.Cut(name, " ")
		if got := isGauge(protocol, counter); got != want {
			t.Errorf("%s is a level: %v", name, got)
		}
	}
	for word, want := range map[string]counterColumn{
		"7": {now: 7}, "-1": {now: 1, negative: true, gauge: true},
	} {
		var c counterColumn
		if err := c.set([]byte(word)); err != nil || c.now != want.now ||
			c.negative != want.negative || c.gauge != want.gauge {
			t.Errorf("%s is %+v, %v", word, c, err)
		}
	}
	for _, word := range []string{"", "-", "x"} {
		if err := new(counterColumn).set([]byte(word)); err == nil {
			t.Errorf("%q is a number", word)
		}
	}
}
