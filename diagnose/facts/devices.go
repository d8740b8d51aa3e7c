package facts

import (
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/threshold"
)

// DeviceID names a device within the machine.
type DeviceID struct{ NetNS, Name string }

// Device is what is known of one network device.
type Device struct {
	DeviceID
	Kind, driver, MAC, admin, State, Duplex, Autoneg, Master, lower, flags string
	mtu                                                                    float64
}

// Network is the devices of all namespaces in sight and how they stand on each other.
type Network struct {
	All   []*Device
	byKey map[DeviceID]*Device
}

// NetworkOf reads the rows of net.device.info. A device whose description changed within the range has several rows; the
// one that holds latest counts.
func NetworkOf(t *diagnose.Table) Network {
	n := Network{byKey: map[DeviceID]*Device{}}
	latest := map[DeviceID]int{}
	for _, r := range t.Rows {
		last := -1
		for c, v := range r.Values {
			if v == v {
				last = c
			}
		}
		p := DeviceID{r.Word("netns"), r.Word("device")}
		if was, ok := latest[p]; last < 0 || p.Name == "" || ok && was >= last {
			continue
		}
		latest[p] = last
		d := n.byKey[p]
		if d == nil {
			d = &Device{}
			n.byKey[p] = d
			n.All = append(n.All, d)
		}
		mtu, _ := strconv.ParseFloat(r.Word("mtu"), 64)
		*d = Device{DeviceID: p, Kind: r.Word("kind"), driver: r.Word("driver"), MAC: strings.ToLower(r.Word("mac")), admin: r.Word("admin"), State: r.Word("state"),
			Duplex: r.Word("duplex"), Autoneg: r.Word("autoneg"), Master: r.Word("master"), lower: r.Word("lower"), flags: r.Word("flags"), mtu: mtu}
	}
	return n
}

// Get gives the device, or one of which only the name is known.
func (n Network) Get(p DeviceID) *Device {
	if d := n.byKey[p]; d != nil {
		return d
	}
	return &Device{DeviceID: p}
}

// Loopback says whether the device is the loopback of its namespace.
func (d *Device) Loopback() bool {
	return d.Kind == "loopback" || d.Name == "lo" || strings.Contains(d.flags, "loopback") || strings.Contains(d.flags, "LOOPBACK")
}

// Down says whether the device is switched off by its owner.
func (d *Device) Down() bool { return d.admin == "down" }

// LowerDevice lists the device under this one in the same namespace, for kinds that hand their frames to another device. The
// "lower" of a veth is its peer, which is another device and not one below.
func (d *Device) LowerDevice() string {
	switch d.Kind {
	case "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "dsa", "vrf", "macsec", "ipoib":
		if !strings.Contains(d.lower, "@") {
			return d.lower
		}
	}
	return ""
}

// VethPeer gives the other end of a veth, wherever it is in sight; ok is false when it is not known or the device is none.
func (d *Device) VethPeer() (p DeviceID, ok bool) {
	if d.Kind != "veth" || d.lower == "" {
		return DeviceID{}, false
	}
	name, netns, away := strings.Cut(d.lower, "@")
	if !away {
		netns = d.NetNS
	}
	return DeviceID{netns, name}, true
}

// related says whether two devices of one namespace are parts of one stack: one is master of the other, stands on it, or
// both have the same master or stand on the same device, at any depth.
func (n Network) related(a, b *Device) bool {
	if a.NetNS != b.NetNS {
		return false
	}
	seen := map[string]bool{a.Name: true}
	for todo := []*Device{a}; len(todo) > 0; todo = todo[1:] {
		for _, next := range n.neighbours(todo[0]) {
			if next == b.Name {
				return true
			}
			if !seen[next] {
				seen[next] = true
				todo = append(todo, n.Get(DeviceID{a.NetNS, next}))
			}
		}
	}
	return false
}

func (n Network) neighbours(d *Device) []string {
	var out []string
	for _, w := range []string{d.Master, d.LowerDevice()} {
		if w != "" && !strings.Contains(w, "@") {
			out = append(out, w)
		}
	}
	for _, o := range n.All {
		if o.NetNS == d.NetNS && o != d && (o.Master == d.Name || o.LowerDevice() == d.Name) {
			out = append(out, o.Name)
		}
	}
	return out
}

// Over lists the devices through which the device's frames reach sockets: itself, its masters, and what stands on any.
func (n Network) Over(d *Device) []*Device {
	out := []*Device{d}
	seen := map[string]bool{d.Name: true}
	for i := 0; i < len(out); i++ {
		add := func(o *Device) {
			if !seen[o.Name] {
				seen[o.Name] = true
				out = append(out, o)
			}
		}
		if m := out[i].Master; m != "" {
			add(n.Get(DeviceID{d.NetNS, m}))
		}
		for _, o := range n.All {
			if o.NetNS == d.NetNS && o.LowerDevice() == out[i].Name {
				add(o)
			}
		}
	}
	return out
}

// Addresses gives, for each namespace and address, the devices that have it.
func Addresses(t *diagnose.Table) map[DeviceID][]string {
	out := map[DeviceID][]string{}
	for _, r := range t.Rows {
		if last := r.Last(); last == last {
			p := DeviceID{r.Word("netns"), PlainAddress(r.Word("address"))}
			out[p] = append(out[p], r.Word("device"))
		}
	}
	return out
}

// PlainAddress gives the form in which addresses are compared: IPv4 within IPv6 is IPv4, no zone, no prefix length.
func PlainAddress(a string) string {
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

// Capacity says what is known of how fast a device can go in one direction.
type Capacity struct {
	Bits float64 // bit/s; 0 = not known
	From string  // "its qdisc lets", "negotiated" ...: where it comes from
	Why  string  // when it is not known or is not to be believed: why
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
func (d *Device) capacity(bits float64, from string, set bool) Capacity {
	switch {
	case d.Loopback():
		return Capacity{Why: "loopback has no speed"}
	case !(bits > 0):
		return Capacity{Why: "its speed is unknown"}
	case from == "qdisc":
		return Capacity{Bits: bits, From: "its shaper lets"}
	case from != "ethtool":
		return Capacity{Why: "its speed is unknown"}
	}
	switch d.Kind {
	case "veth", "bridge", "dummy", "ifb", "vxlan", "geneve", "gre", "ipip", "sit", "wireguard", "netkit", "nlmon", "vcan":
		return Capacity{Why: "the speed of a " + d.Kind + " is no limit, and it has no shaper"}
	case "tun", "tap":
		if bits == tunSpeed && !set {
			return Capacity{Why: "10 Mbit/s is the speed of every " + d.Kind + " until it is set"}
		}
		return Capacity{Bits: bits, From: "its speed was set to"}
	}
	switch d.driver {
	case "veth", "dummy", "bridge":
		return Capacity{Why: "the speed of a " + d.driver + " is no limit, and it has no shaper"}
	case "virtio_net", "vmxnet3", "xen_netfront", "vif", "hv_netvsc", "gve", "ena":
		// The hypervisor answers with the speed of a card that the guest's frames may never see.
		return Capacity{Bits: bits, From: "the virtual card reports"}
	}
	return Capacity{Bits: bits, From: "negotiated"}
}

// Firm says whether the limit is one that holds, and not a virtual card's word.
func (l Capacity) Firm() bool { return l.Bits > 0 && l.From != "the virtual card reports" }

// SimilarRate says whether two rates are those of devices on one hub.
func SimilarRate(a, b float64) bool { return a < threshold.UnusedTwin*b && b < threshold.UnusedTwin*a }

// SharedMAC says whether two devices have one MAC without being parts of one stack.
func SharedMAC(n Network, a, b *Device) bool {
	return realMAC(a.MAC) && a.MAC == b.MAC && !b.Loopback() && !n.related(a, b)
}

// realMAC says whether a hardware address is one by which frames are told apart. Calico gives all its veths ee:..., Xen its
// virtual interfaces fe:ff:...: each of these has one partner only and is routed.
func realMAC(mac string) bool {
	switch mac {
	case "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "ee:ee:ee:ee:ee:ee", "fe:ff:ff:ff:ff:ff":
		return false
	}
	return len(mac) >= 17
}

// OwnMAC says whether a device is of a kind that speaks with a hardware address of its own. Devices that are down don't
// speak; those below a master speak with the master's; a SLIP or tunnel has none; ipvlan shares its parent's by design.
func OwnMAC(d *Device) bool {
	switch d.Kind {
	case "ethernet", "veth", "tap", "macvlan", "vlan", "wireless", "bond", "bridge", "team", "macvtap", "vxlan":
		return !d.Down() && realMAC(d.MAC) && d.Master == ""
	}
	return false
}
