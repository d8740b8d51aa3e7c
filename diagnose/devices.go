package diagnose

import (
	"strconv"
	"strings"
)

// place names a device within the machine.
type place struct{ netns, name string }

// device is what is known of one network device.
type device struct {
	place
	kind, driver, mac, admin, state, duplex, autoneg, master, lower, flags string
	mtu                                                                    float64
}

// network is the devices of all namespaces in sight and how they stand on each other.
type network struct {
	all   []*device
	byKey map[place]*device
}

// networkOf reads the rows of net.device.info. A device whose description changed within the range has several rows; the
// one that holds latest counts.
func networkOf(t *Table) network {
	n := network{byKey: map[place]*device{}}
	latest := map[place]int{}
	for _, r := range t.Rows {
		last := -1
		for c, v := range r.Values {
			if v == v {
				last = c
			}
		}
		p := place{r.Word("netns"), r.Word("device")}
		if was, ok := latest[p]; last < 0 || p.name == "" || ok && was >= last {
			continue
		}
		latest[p] = last
		d := n.byKey[p]
		if d == nil {
			d = &device{}
			n.byKey[p] = d
			n.all = append(n.all, d)
		}
		mtu, _ := strconv.ParseFloat(r.Word("mtu"), 64)
		*d = device{place: p, kind: r.Word("kind"), driver: r.Word("driver"), mac: strings.ToLower(r.Word("mac")), admin: r.Word("admin"), state: r.Word("state"),
			duplex: r.Word("duplex"), autoneg: r.Word("autoneg"), master: r.Word("master"), lower: r.Word("lower"), flags: r.Word("flags"), mtu: mtu}
	}
	return n
}

// get gives the device, or one of which only the name is known.
func (n network) get(p place) *device {
	if d := n.byKey[p]; d != nil {
		return d
	}
	return &device{place: p}
}

// loopback says whether the device is the loopback of its namespace.
func (d *device) loopback() bool {
	return d.kind == "loopback" || d.name == "lo" || strings.Contains(d.flags, "loopback") || strings.Contains(d.flags, "LOOPBACK")
}

// down says whether the device is switched off by its owner.
func (d *device) down() bool { return d.admin == "down" }

// stands lists the device under this one in the same namespace, for kinds that hand their frames to another device. The
// "lower" of a veth is its peer, which is another device and not one below.
func (d *device) stands() string {
	switch d.kind {
	case "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "dsa", "vrf", "macsec", "ipoib":
		if !strings.Contains(d.lower, "@") {
			return d.lower
		}
	}
	return ""
}

// far gives the other end of a veth, wherever it is in sight; ok is false when it is not known or the device is none.
func (d *device) far() (p place, ok bool) {
	if d.kind != "veth" || d.lower == "" {
		return place{}, false
	}
	name, netns, away := strings.Cut(d.lower, "@")
	if !away {
		netns = d.netns
	}
	return place{netns, name}, true
}

// related says whether two devices of one namespace are parts of one stack: one is master of the other, stands on it, or
// both have the same master or stand on the same device, at any depth.
func (n network) related(a, b *device) bool {
	if a.netns != b.netns {
		return false
	}
	seen := map[string]bool{a.name: true}
	for todo := []*device{a}; len(todo) > 0; todo = todo[1:] {
		for _, next := range n.neighbours(todo[0]) {
			if next == b.name {
				return true
			}
			if !seen[next] {
				seen[next] = true
				todo = append(todo, n.get(place{a.netns, next}))
			}
		}
	}
	return false
}

func (n network) neighbours(d *device) []string {
	var out []string
	for _, w := range []string{d.master, d.stands()} {
		if w != "" && !strings.Contains(w, "@") {
			out = append(out, w)
		}
	}
	for _, o := range n.all {
		if o.netns == d.netns && o != d && (o.master == d.name || o.stands() == d.name) {
			out = append(out, o.name)
		}
	}
	return out
}

// over lists the devices through which the device's frames reach sockets: itself, its masters, and what stands on any.
func (n network) over(d *device) []*device {
	out := []*device{d}
	seen := map[string]bool{d.name: true}
	for i := 0; i < len(out); i++ {
		add := func(o *device) {
			if !seen[o.name] {
				seen[o.name] = true
				out = append(out, o)
			}
		}
		if m := out[i].master; m != "" {
			add(n.get(place{d.netns, m}))
		}
		for _, o := range n.all {
			if o.netns == d.netns && o.stands() == out[i].name {
				add(o)
			}
		}
	}
	return out
}

// addresses gives, for each namespace and address, the devices that have it.
func addresses(t *Table) map[place][]string {
	out := map[place][]string{}
	for _, r := range t.Rows {
		if last := r.Last(); last == last {
			p := place{r.Word("netns"), plainAddress(r.Word("address"))}
			out[p] = append(out[p], r.Word("device"))
		}
	}
	return out
}

// plainAddress gives the form in which addresses are compared: IPv4 within IPv6 is IPv4, no zone, no prefix length.
func plainAddress(a string) string {
	if strings.Trim(a, "0123456789.") == "" { // most are IPv4 as it stands
		return a
	}
	a = strings.ToLower(strings.Trim(a, "[]"))
	a, _, _ = strings.Cut(a, "%")
	a, _, _ = strings.Cut(a, "/")
	if rest, ok := strings.CutPrefix(a, "::ffff:"); ok && strings.Contains(rest, ".") {
		return rest
	}
	return a
}

// limit says what is known of how fast a device can go in one direction.
type limit struct {
	bits float64 // bit/s; 0 = not known
	from string  // "its qdisc lets", "negotiated" ...: where it comes from
	why  string  // when it is not known or is not to be believed: why
}

// Speeds that drivers report without meaning them: the driver has nothing to negotiate and answers a constant.
const (
	vethSpeed = 10e9 // drivers/net/veth.c veth_get_link_ksettings: SPEED_10000
	tunSpeed  = 10e6 // drivers/net/tun.c: SPEED_10 until someone sets it (tun_set_link_ksettings)
)

// believed lists the kinds of devices whose own speed is a real limit when ethtool reports it: cards, and what adds cards
// up or passes their speed through. A bridge's speed is that of its fastest port and limits nothing.
//
// set says that somebody has given the device modes, which a tap doesn't have by itself: then its 10 Mbit/s are meant.
func (d *device) limit(bits float64, from string, set bool) limit {
	switch {
	case d.loopback():
		return limit{why: "loopback has no line"}
	case !(bits > 0):
		return limit{why: "its speed is unknown"}
	case from == "qdisc":
		return limit{bits: bits, from: "its shaper lets"}
	case from != "ethtool":
		return limit{why: "its speed is unknown"}
	}
	switch d.kind {
	case "veth", "bridge", "dummy", "ifb", "vxlan", "geneve", "gre", "ipip", "sit", "wireguard", "netkit", "nlmon", "vcan":
		return limit{why: "the speed that a " + d.kind + " reports is no limit, and it has no shaper"}
	case "tun", "tap":
		if bits == tunSpeed && !set {
			return limit{why: "10 Mbit/s is what every " + d.kind + " reports until its speed is set"}
		}
		return limit{bits: bits, from: "its speed was set to"}
	}
	switch d.driver {
	case "veth", "dummy", "bridge":
		return limit{why: "the speed that a " + d.driver + " reports is no limit, and it has no shaper"}
	case "tun":
		if bits == tunSpeed && !set {
			return limit{why: "10 Mbit/s is what every tun device reports until its speed is set"}
		}
		return limit{bits: bits, from: "its speed was set to"}
	case "virtio_net", "vmxnet3", "xen_netfront", "vif", "hv_netvsc", "gve", "ena":
		// The hypervisor answers with the speed of a card that the guest's frames may never see.
		return limit{bits: bits, from: "the virtual card reports"}
	}
	return limit{bits: bits, from: "negotiated"}
}

// firm says whether the limit is one that holds, and not a virtual card's word.
func (l limit) firm() bool { return l.bits > 0 && l.from != "the virtual card reports" }
