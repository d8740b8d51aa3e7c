package collect

import (
	"math"

	"culprit/measure"
)

// What a frame of Ethernet takes on the wire beside the bytes that the kernel counts (IEEE 802.3: preamble and start 8, FCS 4, gap 12),
// and the least that it counts of one (64 with FCS).
const (
	wireOverhead = 24
	wireLeast    = 60
)

// What stands in front of the payload of a TCP segment: Ethernet 14, IPv4 20, TCP 20 and its timestamps 12.
const (
	etherHeader   = 14
	vlanHeader    = 4
	tcpHeaders    = 52
	segmentHeader = etherHeader + tcpHeaders
)

const wireHelp = "estimated bytes on the wire. Sent through a queueing discipline that counts: its bytes (headers of every segment of a GSO super-frame) " +
	"+ 24 a segment; else bytes + 24 a frame, at least 84 a frame; where the mean frame is longer than MTU + 18, the frames are " +
	"super-frames of (bytes - 66*packets)/(MTU - 52) segments, each with 66 B of headers and 24 B (preamble, FCS, gap). Where a queueing discipline " +
	"sets the capacity, the 24 and 84 are left out, as it counts. Loopback and tunnels: bytes"

// wireBytes estimates the bytes on the wire of frames that the device counted; the formula is wireHelp's. It is a little low (at most 6 %)
// where small packets hide super-frames in the mean.
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

// speed gives the negotiated bit/s of a device, 0 when it is unknown. Drivers of virtual devices make one up: veth always says
// 10 Gbit/s, tap 10 Mbit/s until somebody sets another by ethtool -s, a bridge its ports' greatest. A VLAN and its like
// repeat what the device below says, a bond adds up its ports: they are worth what those are worth.
func (d *devices) speed(l *link) float64 { return d.speedAt(l, 8) }

func (d *devices) speedAt(l *link, depth int) float64 {
	mbps := d.tools.of(l.index).mbps
	if mbps == 0 || depth == 0 {
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
			if p.master == l.index && d.speedAt(p, depth-1) == 0 && d.tools.of(p.index).mbps != 0 {
				return 0
			}
		}
	default:
		if l.lower == 0 {
			break
		}
		if l.lowerNS != -1 {
			return 0 // a VLAN or macvlan over a device that can't be judged from here
		}
		if p := d.links[l.lower]; p == nil || d.speedAt(p, depth-1) == 0 {
			return 0
		}
	}
	return float64(mbps) * 1e6
}

// limit is the least that bounds one direction of a device, and where that is known from.
type limit struct {
	bps  float64 // NaN unknown
	from string  // ethtool qdisc unknown
}

func (d *devices) limits(l *link) (rx, tx limit) {
	rx = limit{measure.NaN, "unknown"}
	if s := d.speed(l); s > 0 {
		rx = limit{s, "ethtool"}
	}
	tx = rx
	if l.shaped > 0 && !(tx.bps <= l.shaped) {
		tx = limit{l.shaped, "qdisc"}
	}
	return rx, tx
}

// emitWire puts what depends on the speed of the device.
func (d *devices) emitWire(n *netDevices, o *Out, l *link) {
	t := &n.tables
	if t.speed == nil && t.capacity == nil && t.wire == nil {
		return
	}
	if s := d.speed(l); s > 0 {
		t.speed.Put(s, l.ns, l.device)
	}
	rx, tx := d.limits(l)
	if t.capacity != nil {
		t.capacity.Put(rx.bps, l.ns, l.device, n.rx, o.Label(rx.from))
		t.capacity.Put(tx.bps, l.ns, l.device, n.tx, o.Label(tx.from))
	}
	if t.wire != nil && l.fresh {
		v := &l.delta
		t.both(t.wire, n, l, d.wire(l, rx, v[rxBytes], v[rxPackets]), d.wireSent(l, tx, v[txBytes], v[txPackets]))
	}
}

// wireSent is wire for the sending side, where the root discipline counts each segment of a super-frame with its headers
// (qdisc_pkt_len_init in net/core/dev.c). It is believed unless a size table falsifies it or much passed it by (XDP, AF_XDP).
func (d *devices) wireSent(l *link, by limit, bytes, packets float64) float64 {
	q := l.root
	if q == nil || !q.fresh || q.resized || !l.ethernet() || !(q.delta.packets > 0) || !(q.delta.bytes >= 0.98*bytes) {
		return d.wire(l, by, bytes, packets)
	}
	return d.wire(l, by, q.delta.bytes, q.delta.packets)
}

func (d *devices) wire(l *link, by limit, bytes, packets float64) float64 {
	switch {
	case !l.ethernet():
		return bytes
	case by.from == "qdisc":
		return wireBytes(bytes, packets, l.mtu, 0, 0)
	}
	return wireBytes(bytes, packets, l.mtu, wireOverhead, wireLeast)
}
