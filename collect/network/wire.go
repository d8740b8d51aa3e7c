package network

import (
	"math"

	"culprit/collect"
	"culprit/measure"
)

// Bytes of an Ethernet frame on the wire besides those that the kernel counts (IEEE 802.3: preamble
// and start 8, FCS 4, gap 12), and the least that it counts of one (64 with FCS).
const (
	wireOverhead = 24
	wireLeast    = 60
)

// Headers before the payload of a TCP segment: Ethernet 14, IPv4 20, TCP 20 and its timestamps 12.
const (
	etherHeader   = 14
	vlanHeader    = 4
	tcpHeaders    = 52
	segmentHeader = etherHeader + tcpHeaders
)

// tapDefault is the speed of a tap that was not set (tun_default_link_ksettings), on kernels where
// it is not 10 Mbit/s.
const tapDefault = 10e9

const wireHelp = "estimated bytes on the wire. Sent through a queueing discipline that counts: " +
	"its bytes (headers of every segment of a GSO super-frame) + 24 for each segment; else " +
	"bytes + 24 for each frame, at least 84 for each frame; if the mean frame is longer than " +
	"MTU + 18, the frames are super-frames of (bytes - 66*packets)/(MTU - 52) segments, each " +
	"with 66 B of headers and 24 B (preamble, FCS, gap). If a queueing discipline sets the " +
	"capacity, 24 and 84 are left out, as it does. Loopback and tunnels: bytes"

// wireBytes estimates the bytes on the wire of frames that the device counted, by the formula of
// wireHelp. It is at most 6 % too low if small packets hide super-frames in the mean.
//
//	65,226 B in 1 packet, MTU 1500: 45 segments of 1,448 + 66 + 24 = 69,210 B
func wireBytes(bytes, packets float64, mtu uint32, overhead, least float64) float64 {
	if math.IsNaN(bytes) || math.IsNaN(packets) {
		return measure.NaN
	}
	if packets <= 0 {
		return bytes
	}
	if mtu > tcpHeaders && bytes > packets*float64(mtu+etherHeader+vlanHeader) {
		segments := (bytes - packets*segmentHeader) / float64(mtu-tcpHeaders)
		return bytes + (segments-packets)*segmentHeader + segments*overhead
	}
	return math.Max(bytes, least*packets) + overhead*packets
}

// speed returns the negotiated bit/s of a device, 0 if unknown.
//
// Drivers of virtual devices invent a speed. veth always reports 10 Gbit/s, a bridge the highest of
// its ports. tap reports 10 Mbit/s (10 Gbit/s on newer kernels) until another speed is set by
// ethtool -s. The same speed could have been set, so 10 Mbit/s counts as unknown, and 10 Gbit/s
// counts with a note.
//
// A VLAN or similar repeats the speed of the device below, a VXLAN that of the device that it sends
// over (vxlan_get_link_ksettings), and a bond adds up its ports. Their speed is known if that of
// those devices is. A device that carried more than its speed has none.
func (d *devices) speed(l *link) float64 { return d.speedAt(l, 8) }

func (d *devices) speedAt(l *link, depth int) float64 {
	mbps := d.tools.of(l).mbps
	if mbps == 0 || depth == 0 || l.exceededSpeed {
		return 0
	}
	switch l.kind {
	case "veth", "netkit", "bridge", "dummy", "ifb", "openvswitch", "vrf":
		return 0
	case "tun":
		if mbps == 10 {
			return 0
		}
	case "bond", "team":
		for _, p := range d.order {
			if p.master == l.index && d.speedAt(p, depth-1) == 0 && d.tools.of(p).mbps != 0 {
				return 0
			}
		}
	default:
		if l.lower == 0 && l.over == 0 {
			break
		}
		// A VLAN, macvlan or VXLAN over a device whose speed is not known here has no speed either.
		if l.below == nil || l.belowIn.speedAt(l.below, depth-1) == 0 {
			return 0
		}
	}
	return float64(mbps) * 1e6
}

// limit is the lowest bound of one direction of a device, and its source.
type limit struct {
	bps  float64 // NaN: unknown
	from int     // index in boundWords
}

// boundWords are the sources of a capacity.
var boundWords = [...]string{"unknown", "ethtool", "qdisc"}

const (
	fromNowhere = iota
	fromEthtool
	fromQdisc
)

func (d *devices) limits(l *link) (rx, tx limit) {
	rx = limit{measure.NaN, fromNowhere}
	if s := d.speed(l); s > 0 {
		rx = limit{s, fromEthtool}
	}
	tx = rx
	if l.shaped > 0 && !(tx.bps <= l.shaped) {
		tx = limit{l.shaped, fromQdisc}
	}
	if l.pair() && l.below != nil && l.below.shaped > 0 { // what the other end may send
		rx = limit{l.below.shaped, fromQdisc}
	}
	return rx, tx
}

// emitWire puts what depends on the speed of the device.
func (d *devices) emitWire(n *netDevices, o *collect.Out, l *link) {
	t := &n.tables
	if !t.bound() {
		return
	}
	s := d.speed(l)
	if seconds := o.Over().Seconds(); s > 0 && l.fresh && seconds > 0.5 &&
		8*max(l.delta[rxBytes], l.delta[txBytes]) > 1.1*s*seconds {
		l.exceededSpeed, s = true, 0
	}
	if s > 0 {
		t.speed.Put(s, l.ns, l.device)
	}
	if l.exceededSpeed {
		t.note(l.name + " carried more than the speed that its driver reports: the speed is " +
			"left out")
	}
	if l.kind == "tun" && s == tapDefault {
		t.note("the speed of " + l.name + " is a tap's default: it may not limit anything")
	}
	rx, tx := d.limits(l)
	if t.capacity != nil {
		t.capacity.Put(rx.bps, l.ns, l.device, n.rx, n.from[rx.from])
		t.capacity.Put(tx.bps, l.ns, l.device, n.tx, n.from[tx.from])
	}
	if t.wire != nil && l.fresh {
		v := &l.delta
		t.both(
			t.wire, n, l, d.wireReceived(l, rx, v[rxBytes], v[rxPackets]),
			d.wireSent(l, l, tx, v[txBytes], v[txPackets]),
		)
	}
}

// wireSent is wireBytes for the sending side. There the root discipline counts each segment of a
// super-frame with its headers (qdisc_pkt_len_init in net/core/dev.c).
func (d *devices) wireSent(l, sender *link, by limit, bytes, packets float64) float64 {
	q := sender.root
	if q == nil || !q.fresh || !sender.fresh || q.resized || !l.ethernet() ||
		!agree(q.delta.bytes, q.delta.packets, bytes, packets, sender.delta[txDropped]) {
		return d.wire(l, by, bytes, packets)
	}
	return d.wire(l, by, q.delta.bytes, q.delta.packets)
}

// agree reports whether a discipline and a device counted the same frames. Then the surplus of the
// discipline is headers of segments, one set for each segment that only it counts. A device that
// drops frames (a tap without a reader, a full veth) counts less than it received. XDP and AF_XDP
// bypass the discipline. Up to 2 % are between the two counters.
func agree(qBytes, qPackets, bytes, packets, dropped float64) bool {
	const mostHeaders = 14 + 4 + 40 + 60 // Ethernet, VLAN, IPv6, the longest of TCP
	return qPackets > 0 && !(dropped > 0.01*qPackets) && qBytes >= 0.98*bytes &&
		qBytes <= 1.02*bytes+mostHeaders*math.Max(0, qPackets-packets) &&
		qPackets >= 0.98*packets
}

// wireReceived is wireBytes for the receiving side. What comes over a veth was sent by its other
// end.
func (d *devices) wireReceived(l *link, by limit, bytes, packets float64) float64 {
	if l.pair() && l.below != nil {
		return d.wireSent(l, l.below, by, bytes, packets)
	}
	return d.wire(l, by, bytes, packets)
}

func (t *deviceTables) note(text string) {
	t.speed.Note(text)
	t.capacity.Note(text)
}

func (d *devices) wire(l *link, by limit, bytes, packets float64) float64 {
	switch {
	case !l.ethernet():
		return bytes
	case by.from == fromQdisc:
		return wireBytes(bytes, packets, l.mtu, 0, 0)
	}
	return wireBytes(bytes, packets, l.mtu, wireOverhead, wireLeast)
}
