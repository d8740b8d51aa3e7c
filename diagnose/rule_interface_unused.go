package diagnose

import (
	"fmt"
	"math"
	"strings"

	"culprit/measure"
)

// When an interface that receives counts as receiving for nothing.
const (
	// unusedRate: packets a second. Broadcasts and discovery on an office network stay below a hundred.
	unusedRate = 200.0
	// unusedAnswer: whoever uses an interface sends at least an acknowledgement for every hundred packets, or ARP answers.
	unusedAnswer = 0.01
	// unusedDropped: share of its packets that must be seen to be dropped to accuse an interface that has an address.
	unusedDropped = 0.7
	// unusedTwin: how far the rate of the interface and that of its twin on the same hub may differ, as a factor.
	unusedTwin = 1.5
	// unusedHeavy: share of a CPU's time that receiving for nothing takes, from where on it is felt.
	unusedHeavy = 0.05
)

// interfaceUnused finds interfaces whose packets the machine receives only to throw them away.
func interfaceUnused() Rule {
	return Rule{
		ID: "interface-unused", Checks: "unused interfaces",
		Needs:  []string{devicePackets, deviceInfo},
		Finds:  []string{deviceUses, deviceAddress},
		Uses:   []string{deviceDetail, deviceBytes, protocolEvents, cpuTime, softnetPackets},
		Traced: []string{softirqTime, softirqTimeCost},
		Check: func(l *Look) {
			n := networkOf(l.Table(deviceInfo))
			for _, d := range n.all {
				if u := suspect(l, n, d); u != nil && u.guilty() {
					u.accuse()
				}
			}
		},
	}
}

// unused is an interface under suspicion.
type unused struct {
	l      *Look
	n      network
	d      *device
	s      spell
	rx, tx *Row
	rate   float64 // packets/s received

	bare      bool    // it has no address by which anybody could reach it
	routed    bool    // somebody added a route out of it, or a host was found on it: unnumbered links and those of containers
	address   string  // one that it has
	twin      *device // another device with its MAC and its rate
	otherhost float64 // packets/s that were for another host, by the device's own counter
	dropped   float64 // packets/s that the namespace's IP refused for reasons that such an interface gives
	reason    *Row    // the counter that saw most of dropped
	forwards  float64 // packets/s that the namespace forwards
}

// suspect gives the interface when it receives and sends nothing, lasting, and nobody is known who uses it.
func suspect(l *Look, n network, d *device) *unused {
	switch d.kind {
	case "ethernet", "veth", "tap", "wireless", "macvtap", "":
	default:
		// A bridge, bond or tunnel receives what its ports or its peer give it; loopback and ifb receive what was sent here.
		return nil
	}
	if d.loopback() || d.master != "" {
		return nil
	}
	for _, o := range n.all {
		if o.netns == d.netns && o.stands() == d.name {
			return nil
		}
	}
	for _, use := range []string{"master", "upper", "packet-socket", "bound-socket", "xdp", "tc"} {
		if l.Table(deviceUses).One("netns", d.netns, "device", d.name, "use", use).Max() > 0 {
			return nil
		}
	}
	p := l.Table(devicePackets)
	u := &unused{l: l, n: n, d: d, rx: p.One("netns", d.netns, "device", d.name, "direction", "rx"), tx: p.One("netns", d.netns, "device", d.name, "direction", "tx")}
	var ok bool
	u.s, ok = lasting(p, func(c int) bool { return u.rx.At(c) == u.rx.At(c) && u.tx.At(c) == u.tx.At(c) }, func(c int) bool {
		return u.rx.At(c) >= unusedRate && u.tx.At(c) <= unusedAnswer*u.rx.At(c)
	})
	if !ok {
		return nil
	}
	// Nor may anybody have answered in between: a receiver that acknowledges once in a while is one.
	u.rate = u.rx.Mean(u.s.mask)
	if u.tx.Mean(nil) > unusedAnswer*u.rx.Mean(nil) {
		return nil
	}
	u.learn()
	return u
}

func (u *unused) learn() {
	d, l, mask := u.d, u.l, u.s.mask
	u.bare = true
	for _, r := range l.Table(deviceAddress).Where("netns", d.netns, "device", d.name) {
		if sc := r.Word("scope"); sc != "link" && r.Max() > 0 {
			u.bare, u.address = false, plainAddress(r.Word("address"))
		}
	}
	if l.Table(deviceUses).One("netns", d.netns, "device", d.name, "use", "address").Max() > 0 {
		u.bare = false
	}
	for _, use := range []string{"route", "neighbour"} {
		u.routed = u.routed || l.Table(deviceUses).One("netns", d.netns, "device", d.name, "use", use).Max() > 0
	}
	for _, o := range u.n.all {
		if o == d || o.netns != d.netns || o.down() || !sharedMAC(u.n, d, o) {
			continue
		}
		p := l.Table(devicePackets)
		rx := p.One("netns", o.netns, "device", o.name, "direction", "rx").Mean(mask)
		tx := or(p.One("netns", o.netns, "device", o.name, "direction", "tx").Mean(mask), 0)
		// A hub brings what the twin receives, and perhaps what it sends too.
		if rx >= unusedRate && (near(u.rate, rx) || near(u.rate, rx+tx)) && (u.twin == nil || math.Abs(rx/u.rate-1) < 0.01) {
			u.twin = o
		}
	}
	u.otherhost = or(l.Table(deviceDetail).One("netns", d.netns, "device", d.name, "direction", "rx", "reason", "otherhost").Part(mask), 0)
	events := l.Table(protocolEvents)
	for _, x := range [][2]string{{"TcpExt", "IPReversePathFilter"}, {"Ip", "InAddrErrors"}, {"IpExt", "InNoRoutes"}, {"Ip6", "InAddrErrors"}, {"Ip6", "InNoRoutes"}, {"Ip", "InUnknownProtos"}} {
		r := events.One("netns", d.netns, "protocol", x[0], "counter", x[1])
		if v := or(r.Part(mask), 0); v > 0 {
			u.dropped += v
			if u.reason == nil || v > or(u.reason.Part(mask), 0) {
				u.reason = r
			}
		}
	}
	for _, x := range [][2]string{{"Ip", "ForwDatagrams"}, {"Ip6", "OutForwDatagrams"}} {
		u.forwards += or(events.One("netns", d.netns, "protocol", x[0], "counter", x[1]).Part(mask), 0)
	}
}

// near says whether two rates are those of devices on one hub.
func near(a, b float64) bool { return a < unusedTwin*b && b < unusedTwin*a }

// sharedMAC says whether two devices have one MAC without being parts of one stack.
func sharedMAC(n network, a, b *device) bool {
	return realMAC(a.mac) && a.mac == b.mac && !b.loopback() && !n.related(a, b)
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

// guilty decides. A receiver of datagrams, of multicast, a port of a router whose answers leave elsewhere: all of them
// receive without sending and are innocent, so an interface with an address must be seen to waste what it receives.
func (u *unused) guilty() bool {
	switch {
	case u.forwards >= 0.5*u.rate:
		return false
	case u.d.down():
		return true
	case u.twin != nil:
		return true
	case u.otherhost >= unusedDropped*u.rate:
		return true
	case u.bare && !u.routed:
		return true
	}
	return u.dropped >= unusedDropped*u.rate
}

func (u *unused) accuse() {
	d, l, s := u.d, u.l, u.s
	h := handledOf(l)
	taken := h.device(s.mask, "", d.place)
	total, allTaken := 0.0, 0.0
	p := l.Table(devicePackets)
	for _, r := range p.Where("netns", d.netns, "direction", "rx") {
		if o := u.n.get(place{d.netns, r.Word("device")}); !o.loopback() && o.stands() == "" && o.kind != "bridge" && o.kind != "bond" {
			rate := or(r.Mean(s.mask), 0)
			total += rate
			switch t := h.device(s.mask, "", o.place); {
			case t == t:
				allTaken += t
			case rate >= unusedRate:
				allTaken = measure.NaN // its packets are worked on where it is not measured
			}
		}
	}
	share := clamp(u.rate/total, 0, 1)
	why := "nothing uses it"
	confidence := 0.9
	switch {
	case d.down():
		why = "it is switched off"
	case u.twin != nil:
		why = fmt.Sprintf("it has the MAC of %s, %s, and receives that one's frames a second time", clean(u.twin.name), clean(d.mac))
		confidence = 0.95
	case u.otherhost >= unusedDropped*u.rate:
		why = percent(min(u.otherhost/u.rate, 1)) + " of them are for other hosts"
		confidence = 0.95
	case u.bare:
		why = "it has no address and nothing uses it"
	case u.reason != nil:
		why = "IP refuses them (" + clean(u.reason.Word("counter")) + ")"
		confidence = 0.85
	}
	cost, packets := u.cost()
	heavy, which := cost*u.rate, ""
	if taken == taken {
		heavy, which = taken-h.owned(s.mask), ", which takes "+percent(taken)+" of a CPU,"
	}
	severity := Medium
	if heavy >= unusedHeavy {
		severity = High
	}
	unseen := u.bare && u.twin == nil && !d.down() && u.otherhost+u.dropped < unusedDropped*u.rate
	if unseen {
		severity, confidence = Low, 0.7
	}
	f := l.Found(slot(d.netns, d.name), severity, confidence, Culprit{Kind: "interface", Name: d.name, NetNS: d.netns, Interface: d.name},
		fmt.Sprintf("%s receives %s packets/s for nothing%s and sends %s: %s.", at(d.netns, d.name), count(u.rate), which, none(u.tx.Mean(s.mask)), why))
	f.explains(share)
	if taken/allTaken >= 0 {
		f.explains(taken / allTaken) // what is refused costs less than what is delivered
	}
	f.proof(p, s, u.rx.Sentence(), u.rate, p.Unit, fmt.Sprintf("receives %s packets/s, %s of what all interfaces receive, for %s", count(u.rate), percent(share), s)).than(total, "all interfaces")
	f.proof(p, s, u.tx.Sentence(), u.tx.Mean(s.mask), p.Unit, fmt.Sprintf("sends %s packets/s", count(u.tx.Mean(s.mask))))
	if b := l.Table(deviceBytes).One("netns", d.netns, "device", d.name, "direction", "rx"); b.Mean(s.mask) > 0 {
		f.proof(b.table, s, b.Sentence(), b.Mean(s.mask), b.table.Unit, "receives "+bytesRate(b.Mean(s.mask)))
	}
	if u.twin != nil {
		other := p.One("netns", d.netns, "device", u.twin.name, "direction", "rx")
		text := fmt.Sprintf("%s, with the same MAC %s, receives %s packets/s", clean(u.twin.name), clean(d.mac), count(other.Mean(s.mask)))
		if c := correlation(u.rx.Values, other.Values); c >= 0.5 {
			text += fmt.Sprintf(", the rates of the two rise and fall together (correlation %s)", digits(c))
		}
		f.proof(p, s, other.Sentence(), other.Mean(s.mask), p.Unit, text).than(u.rate, d.name)
	}
	if u.otherhost > 0.01*u.rate {
		r := l.Table(deviceDetail).One("netns", d.netns, "device", d.name, "direction", "rx", "reason", "otherhost")
		f.proof(r.table, s, r.Sentence(), u.otherhost, r.table.Unit, fmt.Sprintf("%s packets/s are dropped because they are for other hosts", count(u.otherhost)))
	}
	if u.reason != nil && u.dropped > 0.01*u.rate {
		v := or(u.reason.Part(s.mask), 0)
		f.proof(u.reason.table, s, u.reason.Sentence(), v, u.reason.table.Unit, fmt.Sprintf("IP refuses %s packets/s (%s)", count(v), clean(u.reason.Word("counter"))))
	}
	switch {
	case taken == taken:
		text := fmt.Sprintf("its packets take %s of a CPU, %s each (measured)", percent(taken), duration(taken/u.rate*1e9))
		if allTaken > taken {
			text += ", " + percent(taken/allTaken) + " of what those of all interfaces take"
		}
		e := f.proof(h.table, s, h.table.Asking(nil, "vector", "NET_RX", "device", d.word()), taken, h.table.Unit, text)
		if allTaken > taken {
			e.than(allTaken, "all interfaces")
		}
	case packets != nil:
		f.proof(packets, s, softnetPackets, packets.mean(packets.Sum(packets.Rows), s.mask), packets.Unit,
			fmt.Sprintf("at %s of softirq time a packet, as all packets take on average, that is about %s of a CPU (estimated)", duration(cost*1e9), percent(cost*u.rate)))
	}
	if unseen {
		f.but(0.1, "Where its packets end is not seen: a macvlan in a namespace out of sight would take them.")
	}
	if !u.bare && u.address != "" {
		f.but(0, "It has the address %s: whoever means that one would reach it.", clean(u.address))
	}
	u.advise(f)
}

// cost estimates what receiving a packet takes, in seconds of CPU: softirq time over packets received, of the whole machine.
func (u *unused) cost() (float64, *Table) {
	m := machineOf(u.l.Table(cpuTime))
	packets := u.l.Table(softnetPackets)
	rate := packets.mean(packets.Sum(packets.Rows), u.s.mask)
	soft := m.share(u.s.mask, "soft") * m.cpus
	if !(rate >= u.rate) || soft != soft {
		return 0, nil
	}
	if v := soft / rate; v < 1e-3 {
		return v, packets
	}
	return 0, nil // no packet of a working machine takes a millisecond: something else is in the softirq time
}

func (u *unused) advise(f *Finding) {
	d := u.d
	f.Verify = within(d.netns, "ip -s -s link show dev "+shell(d.name)) + "; " + within(d.netns, "ip -br link") + "; culprit irq 1 5"
	risk := "low: nothing is seen to use it"
	if !u.bare && u.address != "" {
		risk = "medium: the machine can't be reached any more at " + clean(u.address)
	}
	if !d.down() {
		set := func(state string) string {
			command := "link set dev " + shell(d.name) + " " + state
			if d.netns == "" || strings.HasPrefix(d.netns, "pid:") {
				return within(d.netns, "ip "+command)
			}
			return "ip -n " + shell(d.netns) + " " + command
		}
		f.Fix = &Fix{set("down"), set("up"), risk}
	}
	slots := map[string]bool{slot(d.netns, d.name): true}
	f.covering("mac-shared", func(o *Finding) bool {
		return o.Culprit.NetNS == d.netns && (o.Culprit.Interface == d.name || u.twin != nil && o.Culprit.Interface == u.twin.name)
	})
	f.covering("net-drops", func(o *Finding) bool { return slots[slot(o.Culprit.NetNS, o.Culprit.Name)] })
	f.covering("cpu-softirq", func(*Finding) bool { return f.Explains >= 0.4 })
}

// none gives "none" for nothing, else the count.
func none(v float64) string {
	if !(v >= 0.05) {
		return "none"
	}
	return count(v) + "/s"
}

// macShared finds two devices that stand in one network with one hardware address.
func macShared() Rule {
	return Rule{
		ID: "mac-shared", Checks: "mac addresses",
		Needs: []string{deviceInfo},
		Uses:  []string{devicePackets, deviceAddress},
		Check: func(l *Look) {
			n := networkOf(l.Table(deviceInfo))
			told := map[string]bool{}
			for i, a := range n.all {
				if !ownMAC(a) || told[a.netns+"\x00"+a.mac] {
					continue
				}
				var same []*device
				for _, b := range n.all[i+1:] {
					if b.netns == a.netns && ownMAC(b) && sharedMAC(n, a, b) {
						same = append(same, b)
					}
				}
				if len(same) > 0 {
					told[a.netns+"\x00"+a.mac] = true
					accuseMAC(l, a, same)
				}
			}
		},
	}
}

// ownMAC says whether a device is of a kind that speaks with a hardware address of its own. Devices that are down don't
// speak; those below a master speak with the master's; a SLIP or tunnel has none; ipvlan shares its parent's by design.
func ownMAC(d *device) bool {
	switch d.kind {
	case "ethernet", "veth", "tap", "macvlan", "vlan", "wireless", "bond", "bridge", "team", "macvtap", "vxlan":
		return !d.down() && realMAC(d.mac) && d.master == ""
	}
	return false
}

func accuseMAC(l *Look, a *device, same []*device) {
	info, p := l.Table(deviceInfo), l.Table(devicePackets)
	s := whole(info)
	names := []string{at(a.netns, a.name)}
	for _, b := range same {
		names = append(names, clean(b.name))
	}
	b := same[0]
	rate := func(d *device) *Row { return p.One("netns", d.netns, "device", d.name, "direction", "rx") }
	ra, rb := rate(a).Mean(nil), rate(b).Mean(nil)
	severity := Low
	doing := ""
	if ra >= unusedRate && rb >= unusedRate && ra < unusedTwin*rb && rb < unusedTwin*ra {
		severity = Medium
		doing = fmt.Sprintf(", and both receive about the same, %s and %s packets/s", count(ra), count(rb))
	}
	f := l.Found(slot(a.netns, a.mac), severity, 0.9, Culprit{Kind: "interface", Name: b.name, NetNS: a.netns, Interface: b.name},
		fmt.Sprintf("%s have one MAC, %s, without being parts of one device%s.", list(names), clean(a.mac), doing))
	for _, d := range append([]*device{a}, same...) {
		f.proof(info, s, info.Asking([]string{"device"}, "netns", d.netns, "device", d.name, "mac", d.mac), 1, measure.Count,
			fmt.Sprintf("%s: MAC %s, %s, state %s", clean(d.name), clean(d.mac), clean(d.kind), clean(d.state)))
		if r := rate(d); r.Mean(nil) == r.Mean(nil) {
			f.proof(p, s, r.Sentence(), r.Mean(nil), p.Unit, fmt.Sprintf("%s receives %s packets/s", clean(d.name), count(r.Mean(nil))))
		}
	}
	f.but(0, "Harmless where the two never meet on one network segment; on one segment switches send the frames of both to either.")
	f.Verify = within(a.netns, "ip -br link") + " | sort -k3"
	f.covering("mac-shared", nil)
}
