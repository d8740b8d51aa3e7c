package network

import (
	"math"
	"slices"
	"strings"
	"testing"

	"culprit/heapbound"
	"culprit/kernel/netlink"

	"golang.org/x/sys/unix"
)

// attr returns a netlink attribute, padded.
func attr(typ uint16, value ...byte) []byte {
	b := make([]byte, 4, 4+len(value)+3)
	native.PutUint16(b, uint16(4+len(value)))
	native.PutUint16(b[2:], typ)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func u32(v uint32) []byte { return native.AppendUint32(nil, v) }
func u64(v uint64) []byte { return native.AppendUint64(nil, v) }

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func linkMessage(index uint32, parts ...[]byte) []byte {
	h := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint16(h[2:], unix.ARPHRD_ETHER)
	native.PutUint32(h[4:], index)
	native.PutUint32(h[8:], unix.IFF_UP|unix.IFF_BROADCAST|unix.IFF_LOWER_UP)
	return join(append([][]byte{h}, parts...)...)
}

func TestParseLink(t *testing.T) {
	var f linkFacts
	b := linkMessage(
		7,
		attr(unix.IFLA_IFNAME, 'e', 't', 'h', '0', '.', '5', 0),
		attr(unix.IFLA_ADDRESS, 8, 0, 0x20, 0xb0, 0x7a, 0x18),
		attr(
			unix.IFLA_MTU,
			u32(9000)...),
		attr(unix.IFLA_LINK, u32(3)...),
		attr(unix.IFLA_MASTER, u32(9)...),
		attr(unix.IFLA_OPERSTATE, 6),
		attr(unix.IFLA_CARRIER_CHANGES, u32(4)...),
		attr(unix.IFLA_PROMISCUITY, u32(2)...),
		attr(
			unix.IFLA_LINKINFO|unix.NLA_F_NESTED,
			join(
				attr(unix.IFLA_INFO_KIND, []byte("vlan\x00")...),
				attr(unix.IFLA_INFO_SLAVE_KIND, []byte("bridge\x00")...),
			)...),
		attr(unix.IFLA_XDP|unix.NLA_F_NESTED, attr(unix.IFLA_XDP_ATTACHED, 2)...),
	)
	if _, err := parseLink(b, &f, nil); err != nil {
		t.Fatal(err)
	}
	want := linkFacts{
		index:  7,
		arphrd: unix.ARPHRD_ETHER,
		name:   "eth0.5",
		kind:   "vlan",
		slave:  "bridge",
		mac:    "08:00:20:b0:7a:18",
		mtu:    9000,
		xdp:    true,
		linkState: linkState{
			flags:       unix.IFF_UP | unix.IFF_BROADCAST | unix.IFF_LOWER_UP,
			operstate:   6,
			promiscuity: 2,
			carrier:     4,
			hasCarrier:  true,
		},
		linkRelations: linkRelations{master: 9, lower: 3, lowerNS: -1},
	}
	if f != want {
		t.Errorf("got  %+v\nwant %+v", f, want)
	}
	if w := flagWords(f.flags); w != "BROADCAST,UP,LOWER_UP" {
		t.Error(w)
	}
	for name, b := range map[string][]byte{
		"no index":           linkMessage(0, attr(unix.IFLA_IFNAME, 'a', 0)),
		"no name":            linkMessage(1),
		"short":              make([]byte, 15),
		"a length that lies": linkMessage(1, attr(unix.IFLA_IFNAME, 'a', 0), []byte{200, 0, 3, 0, 1, 2, 3, 4}),
	} {
		f = linkFacts{}
		if _, err := parseLink(b, &f, nil); err == nil {
			t.Errorf("%s: no error, %+v", name, f)
		}
	}
}

func TestParseLinkStats(t *testing.T) {
	var values []byte
	for i := range 10 { // an old kernel's, shorter
		values = append(values, u64(uint64(i)+100)...)
	}
	h := make([]byte, sizeofStatsMsg)
	native.PutUint32(h[4:], 5)
	got := [linkCounters]uint64{rxNoHandler: 77}
	index, ok := parseLinkStats(join(h, attr(unix.IFLA_STATS_LINK_64, values...)), &got)
	if !ok || index != 5 || got[rxPackets] != 100 || got[txBytes] != 103 ||
		got[collisions] != 109 ||
		got[rxNoHandler] != 0 {
		t.Error(index, ok, got)
	}
	if _, ok := parseLinkStats(h, &got); ok {
		t.Error("counters out of nothing")
	}
}

func TestParseDev(t *testing.T) {
	const file = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
eth0.5:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16
broken: 1 2 3
`
	got := map[string][linkCounters]uint64{}
	parseDev(
		[]byte(file), func(name []byte, stats *[linkCounters]uint64) { got[string(name)] = *stats },
	)
	s := got["eth0.5"]
	if len(got) != 2 || got["lo"][txBytes] != 3193 || s[rxBytes] != 1 || s[rxDropped] != 4 ||
		s[rxFIFOErrors] != 5 ||
		s[multicast] != 8 ||
		s[txBytes] != 9 ||
		s[txDropped] != 12 ||
		s[collisions] != 14 ||
		s[txCarrierErrors] != 15 {
		t.Error(got)
	}
}

func tcMessage(index, handle, parent uint32, parts ...[]byte) []byte {
	return join(
		append(
			[][]byte{make([]byte, 4), u32(index), u32(handle), u32(parent), u32(0)},
			parts...)...)
}

func rateSpec(bytesPerSec uint32) []byte { return append(make([]byte, 8), u32(bytesPerSec)...) }

func TestParseQdisc(t *testing.T) {
	stats := attr(tcaStats2, join(
		attr(tcaStatsBasic, join(u64(5e10), u32(123), u32(0))...),
		attr(tcaStatsPackets, u64(1<<32+123)...),
		attr(tcaStatsQueue, join(u32(3), u32(4500), u32(7), u32(1), u32(9))...))...)
	for _, c := range []struct {
		kind       string
		options    []byte
		rate, ceil float64
	}{
		{"tbf", attr(tbfParms, join(rateSpec(125e6), make([]byte, 24))...), 1e9, 0},
		{"tbf", join(attr(tbfParms, join(rateSpec(math.MaxUint32), make([]byte, 24))...), attr(tbfRate64, u64(12.5e9)...)), 1e11, 0},
		{"htb", attr(htbParms, join(rateSpec(1e6), rateSpec(2e6))...), 8e6, 16e6},
		{"cake", attr(cakeBaseRate64, u64(1e6)...), 8e6, 0},
		{"cake", attr(cakeBaseRate64, u64(0)...), 0, 0},
		{"fq", attr(fqFlowMaxRate, u32(1e6)...), 8e6, 0},
		{"fq", attr(fqFlowMaxRate, u32(math.MaxUint32)...), 0, 0},
		{"netem", join(make([]byte, sizeofNetemQopt), attr(netemRate, join(u32(1e6), make([]byte, 12))...)), 8e6, 0},
		{"netem", make([]byte, 7), 0, 0},
		{"pfifo_fast", make([]byte, 24), 0, 0},
		{"tbf", attr(tbfParms, 1, 2, 3), 0, 0},
	} {
		b := tcMessage(
			2, 0x80010000, tcRoot, attr(tcaKind, append([]byte(c.kind), 0)...),
			attr(tcaOptions, c.options...), stats,
		)
		key, ok := parseQdiscKey(b, false)
		if !ok || key != (qdiscKey{2, 0x80010000, tcRoot, false}) {
			t.Fatal(key, ok)
		}
		q := qdisc{key: key}
		if err := parseQdisc(b, &q); err != nil {
			t.Errorf("%s: %v", c.kind, err)
		}
		if q.rate != c.rate || q.ceil != c.ceil || q.kind != c.kind {
			t.Errorf("%s: rate %v, ceil %v, want %v, %v", q.kind, q.rate, q.ceil, c.rate, c.ceil)
		}
		if want := (qdiscCounters{5e10, 1<<32 + 123, 3, 4500, 7, 1, 9}); q.now != want {
			t.Errorf("%+v, want %+v", q.now, want)
		}
	}
}

// A tree of disciplines is bound by what its parts let through.
func TestReach(t *testing.T) {
	const dev = 4
	q := func(kind string, handle, parent uint32, rate float64) *qdisc {
		return &qdisc{key: qdiscKey{dev, handle, parent, false}, kind: kind, rate: rate}
	}
	class := func(handle, parent uint32, ceil float64) *qdisc {
		return &qdisc{key: qdiscKey{dev, handle, parent, true}, kind: "htb", ceil: ceil}
	}
	htb := func(fallback uint32, caught bool) *qdisc {
		h := q("htb", 0x10000, tcRoot, 0)
		h.fallback, h.caught = fallback, caught
		return h
	}
	for _, c := range []struct {
		name string
		tree []*qdisc
		want float64
	}{
		{"tbf", []*qdisc{q("tbf", 0x10000, tcRoot, 1e9)}, 1e9},
		{"fq_codel", []*qdisc{q("fq_codel", 0, tcRoot, 0)}, 0},
		{"fq's maxrate is for a flow", []*qdisc{q("fq", 0x10000, tcRoot, 1e6)}, 0},
		{"netem with tbf inside", []*qdisc{q("netem", 0x10000, tcRoot, 0), q("tbf", 0x20000, 0x10001, 1e8)}, 1e8},
		{"tbf with a slower one inside", []*qdisc{q("tbf", 0x10000, tcRoot, 1e9), q("tbf", 0x20000, 0x10001, 1e8)}, 1e8},
		{"mq, each part bound", []*qdisc{q("mq", 0x10000, tcRoot, 0), q("tbf", 0x20000, 0x10001, 1e8), q("tbf", 0x30000, 0x10002, 1e8)}, 2e8},
		{"mq, one part free", []*qdisc{q("mq", 0x10000, tcRoot, 0), q("tbf", 0x20000, 0x10001, 1e8), q("fq", 0x30000, 0x10002, 0)}, 0},
		{"htb with a default class", []*qdisc{htb(0x10, false), class(0x10001, tcRoot, 1e9), class(0x10010, 0x10001, 5e8), class(0x10020, 0x10001, 7e8)}, 1e9},
		{"htb whose leaves together have less than the class above", []*qdisc{htb(0x10, false), class(0x10001, tcRoot, 1e9), class(0x10010, 0x10002, 5e8), class(0x10020, 0x10002, 1e8), class(0x10002, 0x10001, 9e8)}, 6e8},
		{"htb with tbf in its only leaf", []*qdisc{htb(0x10, false), class(0x10001, tcRoot, 1e9), class(0x10010, 0x10001, 1e9), q("tbf", 0x20000, 0x10010, 1e8)}, 1e8},
		{"htb with tbf in one of two leaves", []*qdisc{htb(0x10, false), class(0x10001, tcRoot, 1e9), class(0x10010, 0x10001, 1e9), class(0x10020, 0x10001, 1e9), q("tbf", 0x20000, 0x10010, 1e8)}, 1e9},
		{"htb without one, traffic goes past", []*qdisc{htb(0, false), class(0x10001, tcRoot, 1e9)}, 0},
		{"htb without one, all is classified", []*qdisc{htb(0, true), class(0x10001, tcRoot, 1e9), class(0x10002, tcRoot, 1e8)}, 1.1e9},
		{"ingress", []*qdisc{q("ingress", 0xffff0000, tcIngress, 0)}, 0},
	} {
		s := qdiscs{order: c.tree}
		l := &link{}
		for _, q := range c.tree {
			q.link = l
		}
		s.shape(map[int32]*link{dev: l})
		if l.shaped != c.want {
			t.Errorf("%s: %v, want %v", c.name, l.shaped, c.want)
		}
	}
}

func TestParseLinkModes(t *testing.T) {
	bit := func(name string, set bool) []byte {
		b := attr(unix.ETHTOOL_A_BITSET_BIT_NAME, append([]byte(name), 0)...)
		if set {
			b = append(b, attr(unix.ETHTOOL_A_BITSET_BIT_VALUE)...)
		}
		return attr(unix.ETHTOOL_A_BITSET_BITS_BIT|unix.NLA_F_NESTED, b...)
	}
	ours := attr(
		unix.ETHTOOL_A_BITSET_BITS|unix.NLA_F_NESTED,
		join(bit("100baseT/Full", true), bit("1000baseT/Full", false), bit("Autoneg", true))...)
	peer := join(
		attr(unix.ETHTOOL_A_BITSET_NOMASK),
		attr(unix.ETHTOOL_A_BITSET_BITS|unix.NLA_F_NESTED, bit("100baseT/Full", true)...),
	)
	b := join(
		attr(unix.ETHTOOL_A_LINKMODES_AUTONEG, 1),
		attr(unix.ETHTOOL_A_LINKMODES_SPEED, u32(100)...),
		attr(unix.ETHTOOL_A_LINKMODES_DUPLEX, 0),
		attr(
			unix.ETHTOOL_A_LINKMODES_OURS|unix.NLA_F_NESTED,
			ours...),
		attr(unix.ETHTOOL_A_LINKMODES_PEER|unix.NLA_F_NESTED, peer...),
	)
	e := ethtool{duplex: unknown8, autoneg: unknown8}
	if err := parseLinkModes(b, &e, true); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range e.modes {
		got = append(got, m.list.String()+" "+m.name)
	}
	want := "supported 100baseT/Full,advertised 100baseT/Full,supported 1000baseT/Full,partner " +
		"100baseT/Full"
	if s := strings.Join(got, ","); s != want || e.mbps != 100 || e.duplexWord() != "half" ||
		e.autonegWord() != "on" {
		t.Errorf("%s\n%+v", s, e)
	}
	e = ethtool{}
	unknown := attr(unix.ETHTOOL_A_LINKMODES_SPEED, u32(math.MaxUint32)...)
	if err := parseLinkModes(unknown, &e, true); err != nil ||
		e.mbps != 0 {
		t.Error("an unknown speed became", e.mbps, err)
	}
}

func TestParseRoute(t *testing.T) {
	message := func(protocol, kind byte, parts ...[]byte) []byte {
		return join(
			append(
				[][]byte{
					{unix.AF_INET, 8, 0, 0, unix.RT_TABLE_MAIN, protocol, 0, kind, 0, 0, 0, 0},
				},
				parts...)...)
	}
	hop := func(index uint32, extra ...byte) []byte {
		return join([]byte{byte(8 + len(extra)), 0, 0, 0}, u32(index), extra)
	}
	for _, c := range []struct {
		name string
		b    []byte
		want []int32 // negative: connected
	}{
		{"static", message(unix.RTPROT_STATIC, unix.RTN_UNICAST, attr(unix.RTA_OIF, u32(3)...)), []int32{3}},
		{"connected", message(unix.RTPROT_KERNEL, unix.RTN_UNICAST, attr(unix.RTA_OIF, u32(3)...)), []int32{-3}},
		{"local", message(unix.RTPROT_KERNEL, unix.RTN_LOCAL, attr(unix.RTA_OIF, u32(3)...)), nil},
		{"link-local", message(unix.RTPROT_KERNEL, unix.RTN_UNICAST, attr(unix.RTA_DST, append([]byte{0xfe, 0x80}, make([]byte, 14)...)...), attr(unix.RTA_OIF, u32(3)...)), nil},
		{"several ways", message(unix.RTPROT_STATIC, unix.RTN_UNICAST, attr(unix.RTA_MULTIPATH, join(hop(3, 1, 2, 3, 4), hop(5))...)), []int32{3, 5}},
		{"a way whose length lies", message(unix.RTPROT_STATIC, unix.RTN_UNICAST, attr(unix.RTA_MULTIPATH, join([]byte{2, 0, 0, 0}, u32(3), hop(5))...)), []int32{3}},
		{"blackhole", message(unix.RTPROT_STATIC, unix.RTN_BLACKHOLE), nil},
		{"short", []byte{2, 0, 0}, nil},
	} {
		var got []int32
		parseRoute(c.b, func(index int32, connected bool) {
			if connected {
				index = -index
			}
			got = append(got, index)
		})
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestParsePackets(t *testing.T) {
	const file = `sk               RefCnt Type Proto  Iface R Rmem   User   Inode
00000000f1a2b3c4 3      3    0003   2     1 0      0      1234
00000000f1a2b3c4 3      3    88cc   0     1 0      0      1235
00000000f1a2b3c4 3      3    0003   0     0 0      0      1236
00000000f1a2b3c4 3      3    0000   2     1 0      0      1237
00000000f1a2b3c4 3      3    zz     2     1 0      0      1238
`
	type socket struct {
		index int32
		all   bool
	}
	var got []socket
	parsePackets(
		[]byte(file), func(index int32, all bool) { got = append(got, socket{index, all}) },
	)
	if !slices.Equal(got, []socket{{2, true}, {0, false}}) {
		t.Error(got)
	}
}

func TestParseIGMP(t *testing.T) {
	raw := func(a, b, c, d byte) string {
		return hex32(native.Uint32([]byte{a, b, c, d}))
	}
	file := "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n" +
		"1\tlo        :     1      V3\n\t\t\t\t" + raw(224, 0, 0, 1) + "     1 0:00000000\t\t0\n" +
		"4\teth0      :     2      V3\n\t\t\t\t" + raw(239, 1, 2, 3) + "     1 " +
		"0:00000000\t\t0\n\t\t\t\t" + raw(224, 0, 0, 1) + "     1 0:00000000\t\t0\n"
	var got []int32
	parseIGMP([]byte(file), func(index int32) { got = append(got, index) })
	if !slices.Equal(got, []int32{4}) {
		t.Error(got)
	}
}

func hex32(v uint32) string {
	const digits = "0123456789ABCDEF"
	var b [8]byte
	for i := range b {
		b[i] = digits[v>>(28-4*i)&15]
	}
	return string(b[:])
}

// seeds adds messages of the running kernel.
func seeds(f *testing.F, protocol int, ask func(*netlink.Conn, *netlink.Request) error) {
	c, err := netlink.Dial(protocol, netlink.Options{})
	if err != nil {
		return
	}
	defer c.Close()
	var q netlink.Request
	if ask(c, &q) != nil {
		return
	}
	_ = c.Dump(&q, func(_ uint16, payload []byte) error {
		f.Add(slices.Clone(payload))
		return nil
	})
}

func FuzzNetlinkMessages(f *testing.F) {
	for typ, size := range map[uint16]int{
		unix.RTM_GETLINK:     unix.SizeofIfInfomsg,
		unix.RTM_GETADDR:     unix.SizeofIfAddrmsg,
		unix.RTM_GETQDISC:    sizeofTC,
		unix.RTM_GETROUTE:    unix.SizeofRtMsg,
		unix.RTM_GETNEIGHTBL: sizeofNeighbourTable,
		unix.RTM_GETNEIGH:    unix.SizeofNdMsg,
	} {
		seeds(f, unix.NETLINK_ROUTE, func(_ *netlink.Conn, q *netlink.Request) error {
			q.Begin(typ, 0)
			q.Extend(size)
			return nil
		})
	}
	seeds(f, unix.NETLINK_GENERIC, func(c *netlink.Conn, q *netlink.Request) error {
		family, err := c.Family(unix.ETHTOOL_GENL_NAME)
		q.BeginGeneric(family, unix.ETHTOOL_MSG_LINKMODES_GET, 0)
		q.EndNest(q.Nest(unix.ETHTOOL_A_LINKMODES_HEADER))
		return err
	})
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		var facts linkFacts
		var stats [linkCounters]uint64
		if _, err := parseLink(b, &facts, &stats); err == nil &&
			(facts.index <= 0 || facts.name == "") {
			t.Errorf("a link without index or name: %+v", facts)
		}
		parseLinkStats(b, &stats)
		if a, ok := parseAddress(unix.RTM_NEWADDR, b); ok && (a.index <= 0 || a.text == "") {
			t.Errorf("an address of nothing: %+v", a)
		}
		for _, kind := range []string{"", "tbf", "htb", "fq", "cake", "netem"} {
			q := qdisc{kind: kind}
			_ = parseQdisc(b, &q)
			q.kind = kind
			q.options(b)
			if q.rate < 0 || q.ceil < 0 {
				t.Errorf("rate %v, ceil %v", q.rate, q.ceil)
			}
		}
		var e ethtool
		_ = parseLinkModes(b, &e, true)
		for _, m := range e.modes {
			if !(m.bps > 0) {
				t.Errorf("%+v", m)
			}
		}
		parseRings(b)
		ethtoolIndex(b, 1)
		parseNeighbourTable(b)
		n := 0
		parseRoute(b, func(index int32, _ bool) {
			if n++; index <= 0 || n > len(b) {
				t.Errorf("route %d leaves by device %d", n, index)
			}
		})
	})
}
