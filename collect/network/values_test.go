package network

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unsafe"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// TestColumnsOfDev: each column of /proc/net/dev goes to its own counter.
func TestColumnsOfDev(t *testing.T) {
	const line = "eth0: 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116\n"
	want := [linkCounters]uint64{
		rxBytes: 101, rxPackets: 102, rxErrors: 103, rxDropped: 104, rxFIFOErrors: 105,
		rxFrameErrors: 106, rxCompressed: 107, multicast: 108, txBytes: 109, txPackets: 110,
		txErrors: 111, txDropped: 112, txFIFOErrors: 113, collisions: 114, txCarrierErrors: 115,
		txCompressed: 116,
	}
	lines := 0
	parseDev([]byte(line), func(name []byte, stats *[linkCounters]uint64) {
		lines++
		if string(name) != "eth0" || *stats != want {
			t.Errorf("%s has\n%v, want\n%v", name, *stats, want)
		}
	})
}

// TestQdiscGrowth: each counter of a queueing discipline grows by another prime. Nothing is
// compared across a reading that failed, or that did not have the discipline.
func TestQdiscGrowth(t *testing.T) {
	last := qdiscCounters{bytes: 1000, packets: 2000, drops: 1<<32 - 3, requeues: 40, overlimit: 50}
	now := qdiscCounters{bytes: 1101, packets: 2103, drops: 104, requeues: 149, overlimit: 163,
		queue: 5, backlog: 6}
	grown := [5]float64{101, 103, 107, 113, 109} // drops wrapped
	again := now
	again.bytes = 7
	unknown := [5]float64{measure.NaN, measure.NaN, measure.NaN, measure.NaN, measure.NaN}
	for _, tt := range []struct {
		name           string
		compared, read uint32
		seen, boot     bool
		now            qdiscCounters
		fresh          bool
		want           [5]float64
	}{
		{"of the previous reading", 6, 7, true, false, now, true, grown},
		{"of the one before", 5, 7, true, false, now, false, [5]float64{}},
		{"never read, first reading", 0, 1, true, false, now, false, [5]float64{}},
		{"not in this dump", 6, 7, false, false, now, false, [5]float64{}},
		{"since boot", 0, 1, true, true, now, true, grown},
		{"made again", 6, 7, true, false, again, true, unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := collect.NewOut(nil, collect.NewDictionary(), tt.boot)
			o.Start(tt.boot, time.Now())
			q := &qdisc{last: last, now: tt.now, compared: tt.compared}
			q.difference(o, tt.seen, tt.read)
			if q.fresh != tt.fresh {
				t.Errorf("fresh %t, want %t", q.fresh, tt.fresh)
			}
			d := q.delta
			got := [5]float64{d.bytes, d.packets, d.drops, d.overlimits, d.requeues}
			for i := range got {
				if !collecttest.Near(got[i], tt.want[i]) {
					t.Errorf("bytes, packets, drops, overlimits, requeues %v, want %v", got, tt.want)
					break
				}
			}
			wantLast, wantRead := tt.now, tt.read
			if !tt.seen {
				wantLast, wantRead = last, tt.compared
			}
			if q.last != wantLast || q.compared != wantRead {
				t.Errorf("the next reading compares with %+v of reading %d", q.last, q.compared)
			}
		})
	}
}

// TestQdiscRows: each number of a queueing discipline is in its own statistic. Disciplines that
// were not in the dump, or whose device was not counted, have no rows.
func TestQdiscRows(t *testing.T) {
	o := collect.NewOut(Devices{}.Stats(), collect.NewDictionary(), false)
	o.Start(false, time.Now())
	eth0, eth1 := &link{}, &link{}
	eth0.ns, eth0.device, eth0.counted = o.Label("blue"), o.Label("eth0"), 9
	eth1.ns, eth1.device, eth1.counted = o.Label("blue"), o.Label("eth1"), 8
	one := func(kind string, handle, parent uint32, l *link) *qdisc {
		q := &qdisc{kind: kind, link: l, round: 3, epoch: -1, fresh: true,
			key: qdiscKey{index: 4, handle: handle, parent: parent}}
		q.delta.bytes, q.delta.packets, q.delta.drops = 101, 103, 107
		q.delta.overlimits, q.delta.requeues = 109, 113
		q.now.backlog, q.now.queue = 127, 131
		return q
	}
	root := one("htb", 0x10000, tcRoot, eth0)
	root.rate, root.ceil = 137, 139
	class := one("htb", 0x10010, 0x10000, eth0)
	class.key.class, class.fresh, class.rate = true, false, 149
	missing := one("fq", 0x20000, 0x10001, eth0)
	missing.round = 2
	s := qdiscs{round: 3, order: []*qdisc{root, class, missing, one("fq", 0x30000, tcRoot, eth1),
		one("fq", 0x40000, tcRoot, nil)}}
	tables := qdiscTablesOf(o)
	s.emit(&tables, o, 9)
	const first, second = "|blue|eth0|htb|1:|root", "|blue|eth0|htb|1:10|1:"
	collecttest.Expect(t, collecttest.RowsOf(t, o), "net.qdisc", map[string]float64{
		"net.qdisc.bytes" + first: 101, "net.qdisc.packets" + first: 103,
		"net.qdisc.drops" + first: 107, "net.qdisc.overlimits" + first: 109,
		"net.qdisc.requeues" + first: 113, "net.qdisc.backlog" + first: 127,
		"net.qdisc.queue" + first: 131, "net.qdisc.rate" + first: 139,
		"net.qdisc.backlog" + second: 127, "net.qdisc.queue" + second: 131,
		"net.qdisc.rate" + second: 149,
	})
}

// TestQdiscOrder: by device, disciplines before classes, the root first.
func TestQdiscOrder(t *testing.T) {
	want := []qdiscKey{
		{index: 2, handle: 0x10000, parent: tcRoot},
		{index: 3, handle: 0x10000, parent: tcRoot},
		{index: 3, handle: 0xffff0000, parent: tcIngress},
		{index: 3, handle: 0x30000, parent: 0x10002},
		{index: 3, handle: 0x20000, parent: 0x10001},
		{index: 3, handle: 0x10001, parent: 0x10000, class: true},
		{index: 3, handle: 0x10002, parent: 0x10000, class: true},
		{index: 4, handle: 0x10000, parent: tcRoot},
	}
	for shift := range want {
		var all []*qdisc
		for i := range want {
			all = append(all, &qdisc{key: want[(i*3+shift)%len(want)]})
		}
		slices.SortFunc(all, compareQdiscs)
		for i, q := range all {
			if q.key != want[i] {
				t.Fatalf("place %d has %+v, want %+v", i, q.key, want[i])
			}
		}
	}
}

// TestChanges: each event makes what it may have changed stale, and nothing else.
func TestChanges(t *testing.T) {
	message := func(family byte, size int) []byte {
		b := make([]byte, size)
		b[0] = family
		native.PutUint32(b[4:], 5)
		return b
	}
	links := changes{links: true, routes: true, queues: true}
	disciplines := changes{qdiscs: true, queues: true}
	for _, tt := range []struct {
		name    string
		typ     uint16
		payload []byte
		want    changes
		gone    bool
	}{
		{"a device is gone", unix.RTM_DELLINK, message(unix.AF_UNSPEC, unix.SizeofIfInfomsg), links,
			true},
		{"a port left its bridge", unix.RTM_DELLINK, message(unix.AF_BRIDGE, unix.SizeofIfInfomsg),
			links, false},
		{"cut", unix.RTM_DELLINK, message(unix.AF_UNSPEC, unix.SizeofIfInfomsg-1), links, false},
		{"a device", unix.RTM_NEWLINK, message(unix.AF_UNSPEC, unix.SizeofIfInfomsg), links, false},
		{"an address", unix.RTM_NEWADDR, nil, changes{addresses: true, routes: true}, false},
		{"no address", unix.RTM_DELADDR, nil, changes{addresses: true, routes: true}, false},
		{"a discipline", unix.RTM_NEWQDISC, nil, disciplines, false},
		{"no discipline", unix.RTM_DELQDISC, nil, disciplines, false},
		{"a class", unix.RTM_NEWTCLASS, nil, disciplines, false},
		{"no class", unix.RTM_DELTCLASS, nil, disciplines, false},
		{"a filter", unix.RTM_NEWTFILTER, nil, disciplines, false},
		{"no filter", unix.RTM_DELTFILTER, nil, disciplines, false},
		{"a neighbour", unix.RTM_NEWNEIGH, nil, changes{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &devices{linkTable: linkTable{links: map[int32]*link{5: {}, 6: {}}}}
			if err := d.takeChange(tt.typ, tt.payload); err != nil {
				t.Fatal(err)
			}
			if d.stale != tt.want {
				t.Errorf("stale %+v, want %+v", d.stale, tt.want)
			}
			if gone := d.links[5] == nil; gone != tt.gone || d.links[6] == nil {
				t.Errorf("device 5 gone %t, want %t; device 6 gone %t", gone, tt.gone,
					d.links[6] == nil)
			}
		})
	}
}

// TestForwardingEntries: a bridge's entries count, the address lists of devices do not.
func TestForwardingEntries(t *testing.T) {
	var x tables
	for _, m := range []struct {
		typ   uint16
		size  int
		flags byte
	}{
		{unix.RTM_NEWNEIGH, unix.SizeofNdMsg, 0}, {unix.RTM_NEWNEIGH, unix.SizeofNdMsg + 8, 0},
		{unix.RTM_NEWNEIGH, unix.SizeofNdMsg, unix.NTF_MASTER},
		{unix.RTM_NEWNEIGH, unix.SizeofNdMsg, unix.NTF_SELF},
		{unix.RTM_NEWNEIGH, unix.SizeofNdMsg - 1, 0}, {unix.RTM_DELNEIGH, unix.SizeofNdMsg, 0},
	} {
		b := make([]byte, m.size)
		b[10] = m.flags
		if err := x.takeFDB(m.typ, b); err != nil {
			t.Fatal(err)
		}
	}
	if x.fdbEntries != 3 {
		t.Errorf("%d entries, want 3", x.fdbEntries)
	}
}

// TestNeighbourTables: the tables of IPv4 and IPv6 are distinguished by name.
func TestNeighbourTables(t *testing.T) {
	var x tables
	message := func(name string, entries uint32) []byte {
		config := make([]byte, 24)
		native.PutUint32(config[4:], entries)
		return join(make([]byte, sizeofNeighbourTable), attr(1, append([]byte(name), 0)...),
			attr(5, config...))
	}
	for _, b := range [][]byte{message("arp_cache", 7), message("ndisc_cache", 11),
		message("dn_neigh", 13), attr(1, []byte("arp_cache\x00")...)} {
		if err := x.takeNeighbours(0, b); err != nil {
			t.Fatal(err)
		}
	}
	if four, six := x.answered[0].entries, x.answered[1].entries; four != 7 || six != 11 {
		t.Errorf("%d entries of IPv4, %d of IPv6, want 7 and 11", four, six)
	}
}

// TestSocketCounts: each count of sockstat has its own place; UDP-Lite has one for both families.
func TestSocketCounts(t *testing.T) {
	var c socketCounts
	for i, name := range []string{"TCP inuse", "TCP6 inuse", "TCP tw", "TCP orphan", "TCP alloc",
		"UDP inuse", "UDP6 inuse", "UDPLITE inuse", "UDPLITE6 inuse", "RAW inuse", "TCP mem"} {
		var protocol, state string
		if _, err := fmt.Sscan(name, &protocol, &state); err != nil {
			t.Fatal(err)
		}
		c.take([]byte(protocol), []byte(state), uint64(1)<<i)
	}
	got := fmt.Sprint(c.tcp, c.tcp6, c.tw, c.orphan, c.alloc, c.udp, c.udp6, c.lite)
	const want = "{1 true} {2 true} {4 true} {8 true} {16 true} {32 true} {64 true} {384 true}"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestShareOfGrowth: a table that was counted more than one and a half intervals ago has grown by
// the interval's share.
func TestShareOfGrowth(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		name string
		took time.Duration
		want float64
	}{
		{"one interval", time.Second, 300},
		{"one and a half", 1500 * time.Millisecond, 300},
		{"a little more", 1600 * time.Millisecond, 300 / 1.6},
		{"four", 4 * time.Second, 75},
	} {
		var s tableState
		s.count(1000, now)
		s.count(1300, now.Add(tt.took))
		if got := s.growth(measure.Second); !collecttest.Near(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	s := tableState{entries: 7, counted: true, at: now}
	if s.countIf(false, 9, now); s.entries == s.entries || s.counted || !s.at.IsZero() {
		t.Errorf("unknown entries are %v", s.entries)
	}
	if s.countIf(true, 9, now); s.entries != 9 || !s.counted || s.at != now {
		t.Errorf("known entries are %v", s.entries)
	}
}

// TestEdgesOfPace: work of 0.5 ms needs no pause, a pause of 2 s is worth a note, and none is
// longer than 10 minutes.
func TestEdgesOfPace(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		cost, pause time.Duration
		rests       bool
	}{
		{500 * time.Microsecond, 0, false},
		{501 * time.Microsecond, 501 * time.Millisecond, false},
		{2 * time.Millisecond, 2 * time.Second, false},
		{2001 * time.Microsecond, 2001 * time.Millisecond, true},
		{599 * time.Millisecond, 599 * time.Second, true},
		{time.Second, 10 * time.Minute, true},
	} {
		for _, twice := range [][2]time.Duration{{tt.cost, tt.cost}, {tt.cost, time.Hour},
			{time.Hour, tt.cost}} {
			var p pace
			p.spent(now, twice[0])
			p.spent(now, twice[1])
			if got := p.next.Sub(now); got != tt.pause || p.rests != tt.rests {
				t.Errorf("after %v and %v: a pause of %v, a note %t, want %v, %t", twice[0], twice[1],
					got, p.rests, tt.pause, tt.rests)
			}
		}
	}
}

// TestRowsOfTables: each table of the kernel and each of its numbers has its own row. A number that
// is not known has none.
func TestRowsOfTables(t *testing.T) {
	o := collect.NewOut(collect.CacheStats(), collect.NewDictionary(), false)
	now := time.Unix(1e9, 0)
	var x tables
	fill := func() {
		for i, s := range x.states() {
			n := float64(i)
			*s = tableState{name: fmt.Sprint("t", i), entries: 10 + n, last: 5, buckets: 100 + n,
				limit: 1000 + n, counted: true, lastAt: now, at: now.Add(time.Second), epoch: -1,
				refused:   sinceBoot{now: uint64(50 + 2*i), last: 7, counted: 2, fresh: true},
				collected: sinceBoot{now: uint64(90 + 3*i), last: 11, counted: 2, fresh: true}}
		}
	}
	rows := func(first bool) map[string]float64 {
		o.Start(first, now)
		now = now.Add(time.Second)
		r := cacheRows{entries: o.Table("cache.entries"), buckets: o.Table("cache.buckets"),
			limit: o.Table("cache.limit"), growth: o.Table("cache.growth"),
			refused: o.Table("cache.refusals"), collected: o.Table("cache.collections")}
		r.put(o, o.Label("blue"), &x)
		return collecttest.RowsOf(t, o)
	}
	fill()
	want := map[string]float64{}
	for i := range x.states() {
		name, n := fmt.Sprint("|blue|t", i), float64(i)
		want["cache.entries"+name], want["cache.buckets"+name] = 10+n, 100+n
		want["cache.limit"+name] = 1000 + n
	}
	collecttest.Expect(t, rows(true), "", want)
	fill()
	for i := range x.states() {
		name, n := fmt.Sprint("|blue|t", i), float64(i)
		want["cache.growth"+name] = 5 + n
		want["cache.refusals"+name], want["cache.collections"+name] = 43+2*n, 79+3*n
	}
	x.sockets.entries = measure.NaN // t3
	for _, id := range []string{"entries", "buckets", "limit", "growth", "refusals", "collections"} {
		delete(want, "cache."+id+"|blue|t3")
	}
	x.udp.buckets, x.track.limit = 0, measure.NaN // t4, t5
	delete(want, "cache.buckets|blue|t4")
	delete(want, "cache.limit|blue|t5")
	x.neighbour.refused.counted, x.neighbour6.collected.counted = 0, 0 // t6, t7
	delete(want, "cache.refusals|blue|t6")
	delete(want, "cache.collections|blue|t7")
	collecttest.Expect(t, rows(false), "", want)
}

// TestRingsAndModes: each size of a ring and each list of modes has its own row; a size that is 0
// is unknown.
func TestRingsAndModes(t *testing.T) {
	rings := parseRings(join(attr(unix.ETHTOOL_A_RINGS_RX_MAX, u32(4096)...),
		attr(unix.ETHTOOL_A_RINGS_TX_MAX, u32(2048)...), attr(unix.ETHTOOL_A_RINGS_RX, u32(512)...),
		attr(unix.ETHTOOL_A_RINGS_TX, u32(256)...), attr(unix.ETHTOOL_A_RINGS_RX_MINI, u32(7)...)))
	if want := (ringSizes{rx: 512, rxMax: 4096, tx: 256, txMax: 2048}); rings != want {
		t.Fatalf("rings %+v, want %+v", rings, want)
	}
	o := collect.NewOut(Devices{}.Stats(), collect.NewDictionary(), false)
	o.Start(false, time.Now())
	tables := tablesOf(o)
	l := &link{}
	l.ns, l.device = o.Label("blue"), o.Label("eth0")
	tool := &ethtool{rings: rings, modes: []linkMode{{supported, "1000baseT/Full", 1e9},
		{advertised, "100baseT/Half", 1e8}, {partner, "10baseT/Full", 1e7}}}
	tool.emit(&tables, o, l)
	l.device = o.Label("eth1")
	(&ethtool{rings: ringSizes{txMax: 64}}).emit(&tables, o, l)
	rows := collecttest.RowsOf(t, o)
	collecttest.Expect(t, rows, "net.ring.size", map[string]float64{
		"net.ring.size|blue|eth0|rx|current": 512, "net.ring.size|blue|eth0|rx|max": 4096,
		"net.ring.size|blue|eth0|tx|current": 256, "net.ring.size|blue|eth0|tx|max": 2048,
		"net.ring.size|blue|eth1|tx|max": 64})
	collecttest.Expect(t, rows, "net.device.modes", map[string]float64{
		"net.device.modes|blue|eth0|supported|1000baseT/Full": 1e9,
		"net.device.modes|blue|eth0|advertised|100baseT/Half": 1e8,
		"net.device.modes|blue|eth0|partner|10baseT/Full":     1e7})
}

// TestNameOfEthtoolCall: a name of a device has at most 15 bytes; a longer one is not cut.
func TestNameOfEthtoolCall(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for name, refused := range map[string]bool{"nodevice": false, "fifteen-bytes-0": false,
		"sixteen-bytes-00": true} {
		d := ethtoolDriverInfo{cmd: unix.ETHTOOL_GDRVINFO}
		if got := ethtoolCall(fd, name, unsafe.Pointer(&d)); (got == unix.EINVAL) != refused {
			t.Errorf("%s: %v, refused before the call: %t", name, got, refused)
		}
	}
}

// TestEdgesOfAgreement: up to 2 % of bytes and packets are between the two counters, and 118 bytes
// of headers for each segment that only the discipline counts; 1 % may be dropped.
func TestEdgesOfAgreement(t *testing.T) {
	const bytes, packets = 1_000_000, 1000
	for _, tt := range []struct {
		name                      string
		qBytes, qPackets, dropped float64
		want                      bool
	}{
		{"as many headers as there can be", 1.02*bytes + 118*10, packets + 10, 0, true},
		{"a byte more", 1.02*bytes + 118*10 + 1, packets + 10, 0, false},
		{"fewer segments, no headers", 1.02 * bytes, packets - 10, 0, true},
		{"fewer segments, a byte more", 1.02*bytes + 1, packets - 10, 0, false},
		{"2 % of the bytes are missing", 0.98 * bytes, packets, 0, true},
		{"a byte more is missing", 0.98*bytes - 1, packets, 0, false},
		{"2 % of the packets are missing", bytes, 0.98 * packets, 0, true},
		{"a packet more is missing", bytes, 0.98*packets - 1, 0, false},
		{"1 % is dropped", bytes, packets, 10, true},
		{"more is dropped", bytes, packets, 11, false},
		{"the device does not say what it drops", bytes, packets, measure.NaN, true},
	} {
		if got := agree(tt.qBytes, tt.qPackets, bytes, packets, tt.dropped); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// TestFilesThatComeLater: a file that is missing at first, as that of a module, is tried again at
// each 16th reading, whichever it is.
func TestFilesThatComeLater(t *testing.T) {
	sockstat6 := map[string]string{"proc/net/sockstat6": "TCP6: inuse 7\n"}
	for _, tt := range []struct{ file, text, row string }{
		{"net/snmp6", "Ip6InReceives \t1\nIp6OutRequests \t2\n",
			"net.protocol.events||Ip6|InReceives"},
		{"net/stat/nf_conntrack", trackHeader + "0000000b 1 2 3 4\n",
			"net.protocol.events||Conntrack|found"},
		{"net/sockstat", "TCP: inuse 11 orphan 2 tw 3 alloc 4 mem 5\n", "net.sockets||TCP|inuse"},
		{"net/sockstat6", "TCP6: inuse 13\n", "net.sockets||TCP6|inuse"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			m := protocolMachine(t, sockstat6)
			path := filepath.Join(m.Dir, "proc", tt.file)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			if _, has := m.Read(true)[tt.row]; has {
				t.Fatalf("%s is there before its file", tt.row)
			}
			m.Put(map[string]string{"proc/" + tt.file: tt.text})
			for reading := 2; reading <= lateEvery; reading++ {
				if _, has := m.Read(false)[tt.row]; has {
					t.Fatalf("%s is there at reading %d", tt.row, reading)
				}
			}
			m.Read(false)
			if _, has := m.Read(false)[tt.row]; !has { // the growth needs two readings
				t.Errorf("%s is missing after %d readings", tt.row, lateEvery+2)
			}
		})
	}
}
