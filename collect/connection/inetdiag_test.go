package connection

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"culprit/heapbound"

	"golang.org/x/sys/unix"
)

// message makes a message of inet_diag with the attributes SHUTDOWN, which all have, and INFO.
func message(family, state byte, local, peer []byte, info []byte) []byte {
	b := make([]byte, diagHeader)
	b[0], b[1] = family, state
	binary.BigEndian.PutUint16(b[4:], 40001)
	binary.BigEndian.PutUint16(b[6:], 443)
	copy(b[8:24], local)
	copy(b[24:40], peer)
	native.PutUint32(b[40:], 3)
	native.PutUint32(b[44:], 0x55667788)
	native.PutUint32(b[48:], 0x11223344)
	for i, v := range []uint32{7, 100, 200, 1000, 4242} {
		native.PutUint32(b[52+4*i:], v)
	}
	b = append(b, 5, 0, 8, 0, 3, 0, 0, 0) // INET_DIAG_SHUTDOWN, one byte and padding
	if native.Uint16([]byte{1, 0}) != 1 {
		b[diagHeader], b[diagHeader+1], b[diagHeader+2], b[diagHeader+3] = 0, 5, 0, 8
	}
	if info != nil {
		b = native.AppendUint16(b, uint16(4+len(info)))
		b = native.AppendUint16(b, diagInfo)
		b = append(b, info...)
	}
	return b
}

func TestParseDiag(t *testing.T) {
	v4, v6 := []byte{10, 0, 0, 1}, []byte{0x20, 1, 0xd, 0xb8, 15: 1}
	mapped := []byte{10: 0xff, 11: 0xff, 12: 192, 13: 168, 14: 0, 15: 9}
	any6 := make([]byte, 16)
	info := make([]byte, infoWhole)
	for _, c := range []struct {
		name        string
		b           []byte
		local, peer []byte
		state       byte
		info        int
	}{
		{"IPv4", message(unix.AF_INET, tcpEstablished, v4, []byte{10, 0, 0, 2}, info), v4, []byte{10, 0, 0, 2}, tcpEstablished, infoWhole},
		{"IPv6", message(unix.AF_INET6, tcpCloseWait, v6, v6, info), v6, v6, tcpCloseWait, infoWhole},
		{"IPv4 in IPv6", message(unix.AF_INET6, tcpEstablished, mapped, mapped, info), mapped[12:], mapped[12:], tcpEstablished, infoWhole},
		{"listener of both", message(unix.AF_INET6, tcpListen, any6, any6, info), any6, any6, tcpListen, infoWhole},
		{"listener of IPv4 in IPv6", message(unix.AF_INET6, tcpListen, mapped, any6, info), mapped, any6, tcpListen, infoWhole},
		{"no counters", message(unix.AF_INET, tcpTimeWait, v4, v4, nil), v4, v4, tcpTimeWait, 0},
		{"a request", message(unix.AF_INET, 12, v4, v4, nil), v4, v4, tcpSynRecv, 0},
		{"an older kernel", message(unix.AF_INET, tcpEstablished, v4, v4, info[:160]), v4, v4, tcpEstablished, 160},
		{"cut in the padding", message(unix.AF_INET, tcpEstablished, v4, v4, nil)[:diagHeader+5], v4, v4, tcpEstablished, 0},
	} {
		var s diagSocket
		if !parseDiag(c.b, &s) {
			t.Errorf("%s: not understood", c.name)
			continue
		}
		if !slices.Equal(s.local, c.local) || !slices.Equal(s.peer, c.peer) || s.state != c.state ||
			len(s.info) != c.info {
			t.Errorf("%s: %+v", c.name, s)
		}
		if s.localPort != 40001 || s.peerPort != 443 || s.device != 3 ||
			s.cookie != 0x1122334455667788 ||
			s.receiving != 100 ||
			s.sending != 200 ||
			s.uid != 1000 ||
			s.inode != 4242 {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	whole := message(unix.AF_INET, tcpEstablished, v4, v4, info)
	for name, b := range map[string][]byte{
		"nothing": nil, "a short one": whole[:diagHeader-1], "no state": message(unix.AF_INET, 0, v4, v4, info),
		"state 13": message(unix.AF_INET, 13, v4, v4, info), "of another family": message(unix.AF_UNIX, 1, v4, v4, info),
		"cut in tcp_info":     whole[:len(whole)-1],
		"an attribute of 0":   append(whole[:diagHeader:diagHeader], 0, 0, 0, 0),
		"an attribute of 64k": append(whole[:diagHeader:diagHeader], 0xff, 0xff, 2, 0),
	} {
		if parseDiag(b, new(diagSocket)) {
			t.Errorf("%s is understood", name)
		}
	}
}

func FuzzParseDiag(f *testing.F) {
	f.Add(
		message(
			unix.AF_INET, tcpEstablished, []byte{1, 2, 3, 4}, []byte{5, 6, 7, 8},
			make([]byte, infoWhole),
		),
	)
	f.Add(message(unix.AF_INET6, tcpListen, make([]byte, 16), make([]byte, 16), nil))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		var s diagSocket
		if !parseDiag(b, &s) {
			return
		}
		if len(s.local) != len(s.peer) || len(s.local) != 4 && len(s.local) != 16 ||
			s.state >= tcpStates {
			t.Fatalf("%+v", s)
		}
		c := s.info.counts(s.state)
		if got, none := c.since(&c), (flowCounts{}); got != none {
			t.Fatalf("nothing happened, but: %+v", got)
		}
		var v flowValues
		v.read(s.info)
		s.queues()
		appendAddress(appendAddress(nil, s.local), s.peer)
	})
}

// TestCounts has the effects of SYN and FIN on the kernel's counters. The cases were seen on a 6.18
// kernel; TestFlowBytes makes them.
func TestCounts(t *testing.T) {
	info := func(acked, received, sent, resent uint64) tcpInfo {
		b := make([]byte, infoWhole)
		native.PutUint64(b[120:], acked)
		native.PutUint64(b[128:], received)
		native.PutUint64(b[200:], sent)
		native.PutUint64(b[208:], resent)
		return b
	}
	for _, c := range []struct {
		name   string
		info   tcpInfo
		state  byte
		tx, rx uint64
	}{
		{"a client that sent nothing", info(1, 0, 0, 0), tcpEstablished, 0, 0},
		{"a client, all acknowledged", info(1001, 50, 1000, 0), tcpEstablished, 1000, 50},
		{"a server, all acknowledged", info(1000, 50, 1000, 0), tcpEstablished, 1000, 50},
		{"some on its way", info(400, 50, 1000, 0), tcpEstablished, 400, 50},
		{"some sent twice", info(1001, 0, 1400, 400), tcpEstablished, 1000, 0},
		{"SYN and FIN acknowledged", info(1002, 51, 1000, 0), tcpTimeWait, 1000, 50},
		{"the peer has closed", info(1001, 51, 1000, 0), tcpCloseWait, 1000, 50},
		{"over, and never received anything", info(1002, 0, 1000, 0), tcpClose, 1000, 0},
		{"sending again failed for want of memory", info(5001, 0, 5000, 1448), tcpEstablished, 5001, 0},
		{"before 4.19", info(1001, 50, 1000, 0)[:infoLimited], tcpEstablished, 1001, 50},
		{"before 4.19, FIN acknowledged", info(1002, 50, 1000, 0)[:infoLimited], tcpFinWait2, 1001, 50},
		{"before 4.1", info(1, 1, 1, 0)[:104], tcpEstablished, 0, 0},
	} {
		if got := c.info.counts(c.state); got.tx != c.tx || got.rx != c.rx {
			t.Errorf("%s: tx %d rx %d, want %d %d", c.name, got.tx, got.rx, c.tx, c.rx)
		}
	}
	wrapped := (&flowCounts{segsOut: 5, segsIn: 1}).since(
		&flowCounts{segsOut: 1<<32 - 5, segsIn: 1},
	)
	if wrapped.segsOut != 10 || wrapped.segsIn != 0 {
		t.Errorf("over a wrap: %+v", wrapped)
	}
}

// TestFlowTable does the same random operations on a flowTable and on a map.
func TestFlowTable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table flowTable
	model := map[uint64]uint32{}
	var keys []uint64
	for step := 0; step < 200_000; step++ {
		switch n := r.IntN(100); {
		case n < 40 && step%40_000 < 30_000, n < 10:
			key := r.Uint64N(1<<20) + 1
			i := table.find(key)
			if _, ok := model[key]; ok != (i >= 0) {
				t.Fatalf("step %d: find %d returns %d, in the map: %v", step, key, i, ok)
			}
			if i < 0 {
				i = table.add(key)
				keys = append(keys, key)
			}
			table.at(i).tick, model[key] = uint32(step), uint32(step)
		case n < 70 && len(keys) > 0:
			at := r.IntN(len(keys))
			key := keys[at]
			i := table.find(key)
			if i < 0 || table.at(i).tick != model[key] {
				t.Fatalf("step %d: %d is at %d, want tick %d", step, key, i, model[key])
			}
			table.remove(i)
			delete(model, key)
			keys[at] = keys[len(keys)-1]
			keys = keys[:len(keys)-1]
		case n < 71:
			table.shrink()
		default:
			if i := table.find(1<<40 + uint64(step)); i >= 0 {
				t.Fatalf("step %d: what was never put is at %d", step, i)
			}
		}
		if table.live != len(model) {
			t.Fatalf("step %d: %d live, want %d", step, table.live, len(model))
		}
	}
	for key, tick := range model {
		if i := table.find(key); i < 0 || table.at(i).tick != tick {
			t.Fatalf("%d is at %d at the end", key, i)
		}
	}
	for _, key := range keys {
		table.remove(table.find(key))
	}
	if table.shrink(); table.live != 0 || table.size > 16*fewFlows {
		t.Errorf("empty: %d live in %d", table.live, table.size)
	}
}

func TestParseTCPSockets(t *testing.T) {
	const text = "sockets: used 206\nTCP: inuse 5 orphan 0 tw 12 alloc 7 mem 1\nUDP: inuse 1 " +
		"mem 0\n"
	if n, ok := parseTCPSockets([]byte(text), "TCP:", "tw"); !ok || n != 12 {
		t.Errorf("%d %v", n, ok)
	}
	for _, b := range []string{"", "TCP:", "TCP: tw", "TCP: tw x", "TCP: inuse tw 12", "UDP: inuse 1 tw 3\n"} {
		if n, ok := parseTCPSockets([]byte(b), "TCP:", "tw"); ok {
			t.Errorf("%q returns %d", b, n)
		}
	}
}

func TestParseOwner(t *testing.T) {
	const rest = " S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4321 9 10\n"
	for text, want := range map[string]string{
		"12 (nginx)" + rest: "nginx", "12 (a) S (b)" + rest: "a) S (b", "12 (x y)" + rest: "x y", "12 ()" + rest: "",
	} {
		if name, start, ok := parseOwner([]byte(text)); !ok || string(name) != want ||
			start != 4321 {
			t.Errorf("%q returns %q %d %v", text, name, start, ok)
		}
	}
	for _, text := range []string{"", "12", "12 (nginx", "12 nginx)" + rest, ")(", "12 (nginx) S 1 2 3\n"} {
		if name, _, ok := parseOwner([]byte(text)); ok {
			t.Errorf("%q returns %q", text, name)
		}
	}
}

func FuzzParseOwner(f *testing.F) {
	f.Add([]byte("12 (nginx) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4321 9 10\n"))
	f.Add([]byte("TCP: inuse 5 orphan 0 tw 12 alloc 7 mem 1\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		parseOwner(b)
		parseTCPSockets(b, "TCP:", "tw")
	})
}

// Each field has its offset as its value, so that a wrong offset shows.
func TestTCPInfoOffsets(t *testing.T) {
	info := make(tcpInfo, infoWhole)
	for at := 0; at+4 <= len(info); at += 4 {
		native.PutUint32(info[at:], uint32(at))
	}
	for _, at := range []int{104, 120, 128, 160, 168, 176, 184, 200, 208} {
		native.PutUint64(info[at:], uint64(at))
	}
	got := info.counts(tcpEstablished)
	want := flowCounts{
		tx: 120, rx: 128, segsOut: 136, segsIn: 140, resent: 100,
		busy: 168, rwnd: 176, sndbuf: 184,
	}
	if got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	var v flowValues
	v.read(info)
	for name, c := range map[string][2]uint64{
		"rtt":      {uint64(v.rtt), 68},
		"minrtt":   {uint64(v.minrtt), 148},
		"cwnd":     {uint64(v.cwnd), 80},
		"mss":      {uint64(v.mss), 16},
		"unacked":  {uint64(v.unacked), 24},
		"unsent":   {uint64(v.unsent), 144},
		"delivery": {v.delivery, 160},
		"pacing":   {v.pacing, 104},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is read at %d, want %d", name, c[0], c[1])
		}
	}
}
