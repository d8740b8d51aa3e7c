package facts

import (
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/threshold"
)

// DeviceID identifies a network device within the machine.
type DeviceID struct{ NetNS, Name string }

// Device is one network device, as net.device.info describes it.
type Device struct {
	DeviceID
	Kind, driver, MAC, admin, State, Duplex, Autoneg, Master, lower, flags string
	mtu                                                                    float64
}

// Network is the devices of all visible namespaces, and how they are stacked.
type Network struct {
	All   []*Device
	byKey map[DeviceID]*Device
}

// NetworkOf reads the rows of net.device.info. A device whose description changed has several rows;
// the latest one counts.
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
		*d = Device{DeviceID: p, Kind: r.Word("kind"), driver: r.Word("driver"),
			MAC: strings.ToLower(r.Word("mac")), admin: r.Word("admin"), State: r.Word("state"),
			Duplex: r.Word("duplex"), Autoneg: r.Word("autoneg"), Master: r.Word("master"),
			lower: r.Word("lower"), flags: r.Word("flags"), mtu: mtu}
	}
	return n
}

// Get returns a device; an unknown one has only its name.
func (n Network) Get(p DeviceID) *Device {
	if d := n.byKey[p]; d != nil {
		return d
	}
	return &Device{DeviceID: p}
}

// Loopback reports whether the device is the loopback of its namespace.
func (d *Device) Loopback() bool {
	return d.Kind == "loopback" || d.Name == "lo" || strings.Contains(d.flags, "loopback") ||
		strings.Contains(d.flags, "LOOPBACK")
}

// Down reports whether the device is set down.
func (d *Device) Down() bool { return d.admin == "down" }

// LowerDevice returns the name of the device below this one in the same namespace, "" when there is
// none. The field "lower" of a veth is its peer, which is not below it.
func (d *Device) LowerDevice() string {
	switch d.Kind {
	case "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "dsa", "vrf", "macsec", "ipoib":
		if !strings.Contains(d.lower, "@") {
			return d.lower
		}
	}
	return ""
}

// VethPeer returns the other end of a veth; ok is false when it is unknown, or the device is no
// veth.
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

// related reports whether two devices of one namespace belong to one stack: one is master of the
// other or above it, or both share a master or a lower device, at any depth.
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

// Over returns the devices through which the frames of a device reach sockets: itself, its masters,
// and the devices above any of them.
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

// Addresses returns the devices that have an address, by namespace and address.
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

// PlainAddress returns an address in the form for comparisons: IPv4-mapped IPv6 as IPv4, without
// zone and prefix length.
func PlainAddress(a string) string {
	if strings.Trim(a, "0123456789.") == "" { // most are plain IPv4
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

// Capacity is the capacity of a device in one direction.
type Capacity struct {
	Bits float64 // bit/s; 0: unknown
	From CapacityOrigin
	Why  string // why it is unknown or no limit
}

// CapacityOrigin is the origin of a capacity; 0 where the capacity is unknown.
type CapacityOrigin uint8

// The origins.
const (
	FromShaper      CapacityOrigin = iota + 1 // the rate of the root qdisc or of a class
	FromSetting                               // the speed that somebody set
	FromVirtualCard                           // the report of a hypervisor, which is no limit
	FromNegotiation                           // of both ends of the link
)

// Speeds that drivers report as constants, without a real limit.
const (
	vethSpeed = 10e9 // drivers/net/veth.c veth_get_link_ksettings: SPEED_10000
	tunSpeed  = 10e6 // drivers/net/tun.c: SPEED_10 until it is set (tun_set_link_ksettings)
)

// capacity returns what a reported speed means. The speed of a bridge, a veth or a tunnel is a
// constant of the driver and no limit.
//
// set reports that the device was given modes. A tap has none by itself: with modes its 10 Mbit/s
// are a real limit.
func (d *Device) capacity(bits float64, from string, set bool) Capacity {
	switch {
	case d.Loopback():
		return Capacity{Why: "loopback has no speed"}
	case !(bits > 0):
		return Capacity{Why: "its speed is unknown"}
	case from == "qdisc":
		return Capacity{Bits: bits, From: FromShaper}
	case from != "ethtool":
		return Capacity{Why: "its speed is unknown"}
	}
	switch d.Kind {
	case "veth", "bridge", "dummy", "ifb", "vxlan", "geneve", "gre", "ipip", "sit", "wireguard",
		"netkit", "nlmon", "vcan":
		return Capacity{Why: "the speed of a " + d.Kind + " is no limit, and it has no shaper"}
	case "tun", "tap":
		if bits == tunSpeed && !set {
			return Capacity{Why: "10 Mbit/s is the speed of every " + d.Kind + " until it is set"}
		}
		return Capacity{Bits: bits, From: FromSetting}
	}
	switch d.driver {
	case "veth", "dummy", "bridge":
		return Capacity{Why: "the speed of a " + d.driver + " is no limit, and it has no shaper"}
	case "virtio_net", "vmxnet3", "xen_netfront", "vif", "hv_netvsc", "gve", "ena":
		// The hypervisor reports the speed of a card that the frames of the guest may never use.
		return Capacity{Bits: bits, From: FromVirtualCard}
	}
	return Capacity{Bits: bits, From: FromNegotiation}
}

// Firm reports whether the limit is real, and not the report of a virtual card.
func (l Capacity) Firm() bool { return l.Bits > 0 && l.From != FromVirtualCard }

// SimilarRate reports whether two rates may be those of devices on one hub.
func SimilarRate(a, b float64) bool {
	return a < threshold.UnusedTwin*b &&
		b < threshold.UnusedTwin*a
}

// SharedMAC reports whether two devices have the same MAC and do not belong to one stack.
func SharedMAC(n Network, a, b *Device) bool {
	return realMAC(a.MAC) && a.MAC == b.MAC && !b.Loopback() && !n.related(a, b)
}

// realMAC reports whether a hardware address distinguishes devices. Calico sets all its veths to
// ee:..., Xen its virtual interfaces to fe:ff:...: each of these has one partner and is routed.
func realMAC(mac string) bool {
	switch mac {
	case "00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "ee:ee:ee:ee:ee:ee", "fe:ff:ff:ff:ff:ff":
		return false
	}
	return len(mac) >= 17
}

// OwnMAC reports whether a device sends frames with its own hardware address. Devices that are down
// do not; those below a master send with the address of the master; SLIP and tunnels have none;
// ipvlan shares that of its parent by design.
func OwnMAC(d *Device) bool {
	switch d.Kind {
	case "ethernet", "veth", "tap", "macvlan", "vlan", "wireless", "bond", "bridge", "team",
		"macvtap", "vxlan":
		return !d.Down() && realMAC(d.MAC) && d.Master == ""
	}
	return false
}
