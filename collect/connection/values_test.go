package connection

import (
	"fmt"
	"math"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/measure"
)

// TestFlowRows puts values of which every one is different, and finds each in its statistic.
func TestFlowRows(t *testing.T) {
	stats := Flows{}.Stats()
	rows := func(server bool, v *flowValues) map[string]float64 {
		t.Helper()
		out := collect.NewOut(stats, collect.NewDictionary(), false)
		out.Start(false, time.Now())
		r := &flowReading{}
		r.out = out
		r.setTables(out)
		r.w = r.words.Of(out, flowWords[:])
		labels := flowLabels{
			out.Label("10.0.0.1"), out.Label("22"), out.Label("10.0.0.2"), out.Label("999"),
		}
		who := [2]measure.Label{out.Label("7"), out.Label("sshd")}
		r.put(out.Label("blue"), &labels, who, server, v)
		return collecttest.RowsOf(t, out)
	}
	values := flowValues{
		delta: flowCounts{
			tx: 101, rx: 103, busy: 107, rwnd: 109, sndbuf: 113, segsOut: 127, segsIn: 131,
			resent: 137,
		},
		levels: true, receiving: 139, sending: 149, rtt: 151, minrtt: 157, cwnd: 163, mss: 167,
		unsent: 173, unacked: 179, hasUnsent: true, delivery: 181, pacing: 191,
		bufferSize: 197, bufferUsed: 193,
	}
	const key = "|blue|10.0.0.1|22|10.0.0.2|999|7|sshd|"
	want := func(side string) map[string]float64 {
		out := map[string]float64{}
		for row, v := range map[string]float64{
			"bytes rx": 103, "bytes tx": 101, "segments rx": 131, "segments tx": 127,
			"retransmits": 137, "limited busy": 107e3, "limited rwnd": 109e3,
			"limited sndbuf": 113e3, "rtt": 151e3, "minrtt": 157e3, "delivery": 8 * 181,
			"pacing": 8 * 191, "cwnd": 163, "mss": 167, "unsent": 173, "unacked": 179,
			"queue rx": 139, "queue tx": 149, "buffer size": 197, "buffer used": 193,
		} {
			var stat, word string
			if n, _ := fmt.Sscan(row, &stat, &word); n == 2 {
				word = "|" + word
			}
			out["tcp.flow."+stat+key+side+word] = v
		}
		return out
	}
	collecttest.Expect(t, rows(true, &values), "", want("server"))
	collecttest.Expect(t, rows(false, &values), "", want("client"))
	collecttest.Expect(t, rows(true, &flowValues{}), "", nil)
	// Unknown levels have no row; queues and what is unacknowledged may be empty.
	collecttest.Expect(t, rows(true, &flowValues{levels: true}), "", map[string]float64{
		"tcp.flow.unacked" + key + "server": 0, "tcp.flow.queue" + key + "server|rx": 0,
		"tcp.flow.queue" + key + "server|tx": 0,
	})
	collecttest.Expect(t, rows(true, &flowValues{levels: true, hasUnsent: true}), "tcp.flow.unsent",
		map[string]float64{
			"tcp.flow.unacked" + key + "server": 0, "tcp.flow.queue" + key + "server|rx": 0,
			"tcp.flow.queue" + key + "server|tx": 0, "tcp.flow.unsent" + key + "server": 0,
		})
}

// info returns a tcp_info in which each number of four bytes is its offset plus one.
func info(length int) tcpInfo {
	i := make(tcpInfo, length)
	for at := 0; at+4 <= length; at += 4 {
		native.PutUint32(i[at:], uint32(at+1))
	}
	return i
}

// TestInfoOffsets reads numbers of a tcp_info in which all are different, also where older kernels
// end.
func TestInfoOffsets(t *testing.T) {
	u64 := func(at int) uint64 { return native.Uint64(info(infoWhole)[at:]) }
	var v flowValues
	v.read(info(infoWhole))
	want := flowValues{
		rtt: 69, minrtt: 149, cwnd: 81, mss: 17, unacked: 25, unsent: 145, hasUnsent: true,
		delivery: u64(160), pacing: u64(104),
	}
	if v != want {
		t.Errorf("levels %+v, want %+v", v, want)
	}
	for length, has := range map[int]bool{infoUnsent: true, infoUnsent - 1: false} {
		var v flowValues
		if v.read(info(length)); v.hasUnsent != has || v.minrtt != 0 || v.delivery != 0 {
			t.Errorf("of %d bytes: %+v", length, v)
		}
	}
	none := info(infoWhole)
	native.PutUint32(none[148:], math.MaxUint32)
	native.PutUint64(none[104:], math.MaxUint64)
	if v.read(none); v.minrtt != 0 || v.pacing != 0 || v.rtt != 69 {
		t.Errorf("without samples: %+v", v)
	}
	c := info(infoLimited).counts(tcpEstablished)
	counts := flowCounts{
		tx: u64(120), rx: u64(128), segsOut: 137, segsIn: 141, resent: 101, busy: u64(168),
		rwnd: u64(176), sndbuf: u64(184),
	}
	if c != counts {
		t.Errorf("counters %+v, want %+v", c, counts)
	}
	for _, quietest := range []int{44, 52, 56} {
		i := info(infoWhole)
		native.PutUint32(i[quietest:], 3)
		if got := i.quiet(); got != 3 {
			t.Errorf("quiet for %d ms, want the 3 at offset %d", got, quietest)
		}
	}
	if got := info(infoWhole).quiet(); got != 45 {
		t.Errorf("quiet for %d ms, want 45", got)
	}
}

// TestCountsWithoutFIN checks which bytes are SYN and FIN, by state and by what was sent.
func TestCountsWithoutFIN(t *testing.T) {
	of := func(state byte, acked, received, sent, again uint64, length int) [2]uint64 {
		i := make(tcpInfo, length)
		native.PutUint64(i[120:], acked)
		native.PutUint64(i[128:], received)
		if length == infoWhole {
			native.PutUint64(i[200:], sent)
			native.PutUint64(i[208:], again)
		}
		c := i.counts(state)
		return [2]uint64{c.tx, c.rx}
	}
	for _, tt := range []struct {
		name string
		got  [2]uint64
		want [2]uint64
	}{
		{"SYN", of(tcpEstablished, 101, 50, 105, 5, infoWhole), [2]uint64{100, 50}},
		{"SYN and FIN", of(tcpFinWait2, 102, 50, 105, 5, infoWhole), [2]uint64{100, 50}},
		{"a difference of three", of(tcpFinWait2, 103, 50, 105, 5, infoWhole), [2]uint64{103, 50}},
		{"in flight", of(tcpEstablished, 90, 50, 105, 5, infoWhole), [2]uint64{90, 50}},
		{"all acknowledged", of(tcpEstablished, 100, 50, 105, 5, infoWhole), [2]uint64{100, 50}},
		{"an older kernel", of(tcpFinWait2, 102, 50, 0, 0, infoLimited), [2]uint64{101, 50}},
		{"an older kernel, open", of(tcpEstablished, 102, 50, 0, 0, infoLimited), [2]uint64{102, 50}},
		{"nothing", of(tcpFinWait2, 0, 0, 0, 0, infoLimited), [2]uint64{0, 0}},
		{"a FIN came", of(tcpCloseWait, 0, 50, 0, 0, infoWhole), [2]uint64{0, 49}},
		{"only a reset", of(tcpClose, 0, 0, 0, 0, infoWhole), [2]uint64{0, 0}},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: sent and received %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	for state := byte(1); int(state) < tcpStates; state++ {
		s := &diagSocket{state: state, receiving: 10, sending: 20}
		receiving, sending := s.queues()
		want := [2]uint32{10, 20}
		switch state {
		case tcpCloseWait:
			want[0]--
		case tcpLastAck, tcpClosing:
			want = [2]uint32{9, 19}
		case tcpSynSent, tcpFinWait1:
			want[1]--
		}
		if receiving != want[0] || sending != want[1] {
			t.Errorf("%s: %d and %d bytes wait, want %v", stateWords[state], receiving, sending, want)
		}
		empty := &diagSocket{state: state}
		if receiving, sending := empty.queues(); receiving != 0 || sending != 0 {
			t.Errorf("%s: %d and %d bytes wait in empty queues", stateWords[state], receiving, sending)
		}
	}
}

// TestCountsGrow: bytes never shrink, and segments wrap at 32 bits.
func TestCountsGrow(t *testing.T) {
	last := flowCounts{
		tx: 10, rx: 20, busy: 30, rwnd: 40, sndbuf: 50, segsOut: math.MaxUint32, segsIn: 60, resent: 70,
	}
	now := flowCounts{
		tx: 11, rx: 22, busy: 33, rwnd: 44, sndbuf: 55, segsOut: 6, segsIn: 68, resent: 79,
	}
	want := flowCounts{tx: 1, rx: 2, busy: 3, rwnd: 4, sndbuf: 5, segsOut: 7, segsIn: 8, resent: 9}
	if got := now.since(&last); got != want {
		t.Errorf("growth %+v, want %+v", got, want)
	}
	if got := last.since(&now); got.tx != 0 || got.rx != 0 || got.busy != 0 || got.rwnd != 0 ||
		got.sndbuf != 0 {
		t.Errorf("backwards the growth is %+v", got)
	}
	sum := want
	sum.add(&flowCounts{
		tx: 100, rx: 200, busy: 300, rwnd: 400, sndbuf: 500, segsOut: 600, segsIn: 700, resent: 800,
	})
	want = flowCounts{
		tx: 101, rx: 202, busy: 303, rwnd: 404, sndbuf: 505, segsOut: 607, segsIn: 708, resent: 809,
	}
	if sum != want {
		t.Errorf("the sum is %+v, want %+v", sum, want)
	}
}

func TestSameOwner(t *testing.T) {
	var o owners
	for _, tt := range []struct {
		a, b int32
		want bool
	}{
		{ownerUnasked, ownerUnasked, true}, {ownerUnasked, ownerUnknown, true},
		{ownerUnknown, ownerKernel, false}, {ownerKernel, ownerKernel, true},
		{ownedBy, ownedBy, true}, {ownedBy, ownedBy + 1, false}, {ownerUnknown, ownedBy, false},
	} {
		if got := o.same(&ownership{who: tt.a}, &ownership{who: tt.b}); got != tt.want {
			t.Errorf("owners %d and %d are the same: %v", tt.a, tt.b, got)
		}
	}
}

// TestZones: the zone of an own address is its device; that of a peer is named only where the
// address is link-local (fe80::/10).
func TestZones(t *testing.T) {
	words := collect.NewDictionary()
	out := collect.NewOut(Flows{}.Stats(), words, false)
	out.Start(false, time.Now())
	r := &flowReading{}
	r.out = out
	own := append([]byte{0xfd}, make([]byte, 15)...)
	for _, tt := range []struct {
		peer   []byte
		device uint32
		want   string
	}{
		{[]byte{0xfe, 0x80, 15: 1}, 3, "fd00::%3 fe80::1%3"},
		{[]byte{0xfe, 0x81, 15: 1}, 3, "fd00::%3 fe81::1%3"},
		{[]byte{0xfe, 0xbf, 15: 1}, 3, "fd00::%3 febf::1%3"},
		{[]byte{0xfe, 0xc0, 15: 1}, 3, "fd00::%3 fec0::1"},
		{[]byte{0xfe, 0x40, 15: 1}, 3, "fd00::%3 fe40::1"},
		{[]byte{0xff, 0x80, 15: 1}, 3, "fd00::%3 ff80::1"},
		{[]byte{0xfe, 0x80, 15: 1}, 0, "fd00:: fe80::1"},
		{[]byte{254, 128, 0, 1}, 3, "fd00::%3 254.128.0.1"},
	} {
		l := r.labels(&diagSocket{local: own, peer: tt.peer, device: tt.device})
		if got := words.Word(l.local) + " " + words.Word(l.peer); got != tt.want {
			t.Errorf("% x on device %d: %s, want %s", tt.peer, tt.device, got, tt.want)
		}
	}
}
