package rules

import (
	"fmt"
	"math"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// interfaceUnused finds interfaces whose received packets the machine drops without use.
func interfaceUnused() diagnose.Rule {
	return diagnose.Rule{
		ID: "interface-unused", Checks: "unused interfaces",
		Needs: []string{facts.DevicePackets, facts.DeviceInfo},
		Finds: []string{facts.DeviceUses, facts.DeviceAddress},
		Uses: []string{facts.DeviceDetail, facts.DeviceBytes, facts.ProtocolEvents, facts.CPUTime,
			facts.SoftnetPackets},
		Traced: []string{facts.SoftirqTimes, facts.SoftirqTimeCost},
		Check: func(l *diagnose.Look) {
			n := facts.NetworkOf(l.Table(facts.DeviceInfo))
			for _, d := range n.All {
				if u := unusedSuspect(l, n, d); u != nil && u.isUnused() {
					u.accuse()
				}
			}
		},
	}
}

// unused is an interface that may be unused.
type unused struct {
	l      *diagnose.Look
	n      facts.Network
	d      *facts.Device
	s      diagnose.Period
	rx, tx *diagnose.Row
	rate   float64 // packets/s received

	bare bool // it has no address at which it could be reached
	// it has a route that was added, or a known neighbour: unnumbered links and those of containers
	routed    bool
	address   string        // one that it has
	twin      *facts.Device // another device with its MAC and its rate
	otherhost float64       // packets/s for other hosts, by the counter of the device
	// packets/s that IP of the namespace drops for reasons that such an interface causes
	dropped  float64
	reason   *diagnose.Row // the counter with most of dropped
	forwards float64       // packets/s that the namespace forwards
}

// unusedSuspect returns d if it receives packets, sends none for the time of a lasting state, and
// has no known user; else nil.
func unusedSuspect(l *diagnose.Look, n facts.Network, d *facts.Device) *unused {
	switch d.Kind {
	case "ethernet", "veth", "tap", "wireless", "macvtap", "":
	default:
		// A bridge, bond or tunnel receives from its ports or its peer; loopback and ifb receive
		// what was sent here.
		return nil
	}
	if d.Loopback() || d.Master != "" {
		return nil
	}
	for _, o := range n.All {
		if o.NetNS == d.NetNS && o.LowerDevice() == d.Name {
			return nil
		}
	}
	for _, use := range []string{"master", "upper", "packet-socket", "bound-socket", "xdp", "tc"} {
		if l.Table(facts.DeviceUses).One("netns", d.NetNS, "device", d.Name, "use", use).Max() > 0 {
			return nil
		}
	}
	p := l.Table(facts.DevicePackets)
	u := &unused{l: l, n: n, d: d, rx: p.One("netns", d.NetNS, "device", d.Name, "direction", "rx"),
		tx: p.One("netns", d.NetNS, "device", d.Name, "direction", "tx")}
	var ok bool
	u.s, ok = diagnose.Lasting(p,
		func(c int) bool { return u.rx.At(c) == u.rx.At(c) && u.tx.At(c) == u.tx.At(c) },
		func(c int) bool {
			return u.rx.At(c) >= threshold.UnusedRate &&
				u.tx.At(c) <= threshold.UnusedAnswer*u.rx.At(c)
		})
	if !ok {
		return nil
	}
	// A receiver that acknowledges from time to time is a user: consider the whole time range.
	u.rate = u.rx.Mean(u.s.Mask)
	if u.tx.Mean(nil) > threshold.UnusedAnswer*u.rx.Mean(nil) {
		return nil
	}
	u.learn()
	return u
}

func (u *unused) learn() {
	d, l, mask := u.d, u.l, u.s.Mask
	u.bare = true
	for _, r := range l.Table(facts.DeviceAddress).Where("netns", d.NetNS, "device", d.Name) {
		if sc := r.Word("scope"); sc != "link" && r.Max() > 0 {
			u.bare, u.address = false, facts.PlainAddress(r.Word("address"))
		}
	}
	if l.Table(facts.DeviceUses).One("netns", d.NetNS, "device", d.Name, "use",
		"address").Max() > 0 {
		u.bare = false
	}
	for _, use := range []string{"route", "neighbour"} {
		u.routed = u.routed || l.Table(facts.DeviceUses).One("netns", d.NetNS, "device", d.Name,
			"use", use).Max() > 0
	}
	for _, o := range u.n.All {
		if o == d || o.NetNS != d.NetNS || o.Down() || !facts.SharedMAC(u.n, d, o) {
			continue
		}
		p := l.Table(facts.DevicePackets)
		rx := p.One("netns", o.NetNS, "device", o.Name, "direction", "rx").Mean(mask)
		tx := series.Or(p.One("netns", o.NetNS, "device", o.Name, "direction", "tx").Mean(mask), 0)
		// A hub repeats what the twin receives, and perhaps what it sends.
		if rx >= threshold.UnusedRate &&
			(facts.SimilarRate(u.rate, rx) || facts.SimilarRate(u.rate, rx+tx)) &&
			(u.twin == nil || math.Abs(rx/u.rate-1) < 0.01) {
			u.twin = o
		}
	}
	u.otherhost = series.Or(l.Table(facts.DeviceDetail).One("netns", d.NetNS, "device", d.Name,
		"direction", "rx", "reason", "otherhost").Part(mask), 0)
	events := l.Table(facts.ProtocolEvents)
	for _, x := range [][2]string{{"TcpExt", "IPReversePathFilter"}, {"Ip", "InAddrErrors"},
		{"IpExt", "InNoRoutes"}, {"Ip6", "InAddrErrors"}, {"Ip6", "InNoRoutes"},
		{"Ip", "InUnknownProtos"}} {
		r := events.One("netns", d.NetNS, "protocol", x[0], "counter", x[1])
		if v := series.Or(r.Part(mask), 0); v > 0 {
			u.dropped += v
			if u.reason == nil || v > series.Or(u.reason.Part(mask), 0) {
				u.reason = r
			}
		}
	}
	for _, x := range [][2]string{{"Ip", "ForwDatagrams"}, {"Ip6", "OutForwDatagrams"}} {
		u.forwards += series.Or(events.One("netns", d.NetNS, "protocol", x[0], "counter",
			x[1]).Part(mask), 0)
	}
}

// guilty decides. Receivers of datagrams or multicast, and ports of a router whose answers leave
// elsewhere, receive without sending and are in use. So an interface with an address must be seen
// to drop what it receives.
func (u *unused) isUnused() bool {
	switch {
	case u.forwards >= 0.5*u.rate:
		return false
	case u.d.Down():
		return true
	case u.twin != nil:
		return true
	case u.otherhost >= threshold.UnusedDropped*u.rate:
		return true
	case u.bare && !u.routed:
		return true
	}
	return u.dropped >= threshold.UnusedDropped*u.rate
}

func (u *unused) accuse() {
	d, l, s := u.d, u.l, u.s
	h := facts.SoftirqTimeOf(l)
	taken := h.Device(s.Mask, "", d.DeviceID)
	total, allTaken := 0.0, 0.0
	p := l.Table(facts.DevicePackets)
	for _, r := range p.Where("netns", d.NetNS, "direction", "rx") {
		if o := u.n.Get(facts.DeviceID{NetNS: d.NetNS, Name: r.Word("device")}); !o.Loopback() &&
			o.LowerDevice() == "" && o.Kind != "bridge" && o.Kind != "bond" {
			rate := series.Or(r.Mean(s.Mask), 0)
			total += rate
			switch t := h.Device(s.Mask, "", o.DeviceID); {
			case t == t:
				allTaken += t
			case rate >= threshold.UnusedRate:
				allTaken = measure.NaN // its packets are processed where it is not measured
			}
		}
	}
	share := series.Clamp(u.rate/total, 0, 1)
	why := "nothing uses it"
	confidence := 0.9
	switch {
	case d.Down():
		why = "it is down"
	case u.twin != nil:
		why = fmt.Sprintf("it has the MAC of %s, %s, and receives the same frames a second time",
			phrase.Clean(u.twin.Name), phrase.Clean(d.MAC))
		confidence = 0.95
	case u.otherhost >= threshold.UnusedDropped*u.rate:
		why = phrase.Percent(min(u.otherhost/u.rate, 1)) + " of them are for other hosts"
		confidence = 0.95
	case u.bare:
		why = "it has no address and nothing uses it"
	case u.reason != nil:
		why = "IP drops them (" + phrase.Clean(u.reason.Word("counter")) + ")"
		confidence = 0.85
	}
	cost, packets := u.cost()
	heavy, which := cost*u.rate, ""
	if taken == taken {
		heavy, which = taken-h.MeanOwnCost(s.Mask),
			", which take "+phrase.Percent(taken)+" of a CPU,"
	}
	severity := diagnose.Medium
	if heavy >= threshold.UnusedHeavy {
		severity = diagnose.High
	}
	unseen := u.bare && u.twin == nil && !d.Down() &&
		u.otherhost+u.dropped < threshold.UnusedDropped*u.rate
	if unseen {
		severity, confidence = diagnose.Low, 0.7
	}
	f := l.Found(phrase.Identity(d.NetNS, d.Name), severity, confidence,
		diagnose.Culprit{Kind: "interface", Name: d.Name, NetNS: d.NetNS, Interface: d.Name},
		fmt.Sprintf("%s receives %s unused packets/s%s and sends %s: %s.",
			phrase.DeviceName(d.NetNS, d.Name), phrase.Count(u.rate), which,
			none(u.tx.Mean(s.Mask)), why))
	f.SetExplains(share)
	if taken/allTaken >= 0 {
		f.SetExplains(taken / allTaken) // dropped packets cost less than delivered ones
	}
	f.AddEvidence(p, s, u.rx.Query(), u.rate, p.Unit,
		fmt.Sprintf("receives %s packets/s, %s of what all interfaces receive, for %s",
			phrase.Count(u.rate), phrase.Percent(share), s)).CompareTo(total, "all interfaces")
	f.AddEvidence(p, s, u.tx.Query(), u.tx.Mean(s.Mask), p.Unit,
		fmt.Sprintf("sends %s packets/s", phrase.Count(u.tx.Mean(s.Mask))))
	if b := l.Table(facts.DeviceBytes).One("netns", d.NetNS, "device", d.Name, "direction",
		"rx"); b.Mean(s.Mask) > 0 {
		f.AddEvidence(b.Table, s, b.Query(), b.Mean(s.Mask), b.Table.Unit,
			"receives "+phrase.BytesRate(b.Mean(s.Mask)))
	}
	if u.twin != nil {
		other := p.One("netns", d.NetNS, "device", u.twin.Name, "direction", "rx")
		text := fmt.Sprintf("%s, with the same MAC %s, receives %s packets/s",
			phrase.Clean(u.twin.Name), phrase.Clean(d.MAC), phrase.Count(other.Mean(s.Mask)))
		if c := series.Correlation(u.rx.Values, other.Values); c >= 0.5 {
			text += fmt.Sprintf("; the two rates are correlated (%s)", phrase.Digits(c))
		}
		f.AddEvidence(p, s, other.Query(), other.Mean(s.Mask), p.Unit, text).CompareTo(u.rate,
			d.Name)
	}
	if u.otherhost > 0.01*u.rate {
		r := l.Table(facts.DeviceDetail).One("netns", d.NetNS, "device", d.Name, "direction", "rx",
			"reason", "otherhost")
		f.AddEvidence(r.Table, s, r.Query(), u.otherhost, r.Table.Unit,
			fmt.Sprintf("%s packets/s are dropped: they are for other hosts",
				phrase.Count(u.otherhost)))
	}
	if u.reason != nil && u.dropped > 0.01*u.rate {
		v := series.Or(u.reason.Part(s.Mask), 0)
		f.AddEvidence(u.reason.Table, s, u.reason.Query(), v, u.reason.Table.Unit,
			fmt.Sprintf("IP drops %s packets/s (%s)", phrase.Count(v),
				phrase.Clean(u.reason.Word("counter"))))
	}
	switch {
	case taken == taken:
		text := fmt.Sprintf("its packets take %s of a CPU, %s each (measured)",
			phrase.Percent(taken), phrase.Duration(taken/u.rate*1e9))
		if allTaken > taken {
			text += ", " + phrase.Percent(taken/allTaken) + " of the time of all interfaces"
		}
		e := f.AddEvidence(h.Table, s,
			h.Table.QueryOf(nil, "vector", "NET_RX", "device", d.Label()), taken, h.Table.Unit,
			text)
		if allTaken > taken {
			e.CompareTo(allTaken, "all interfaces")
		}
	case packets != nil:
		f.AddEvidence(packets, s, facts.SoftnetPackets,
			packets.Mean(packets.Sum(packets.Rows), s.Mask), packets.Unit,
			fmt.Sprintf("at the mean of %s softirq time per packet, that is about %s of a CPU "+
				"(estimated)", phrase.Duration(cost*1e9), phrase.Percent(cost*u.rate)))
	}
	if unseen {
		f.AddCaveat(0.1, "The receiver may be out of sight: a macvlan in another namespace would "+
			"take the packets.")
	}
	if !u.bare && u.address != "" {
		f.AddCaveat(0, "It has the address %s, at which others may reach this machine.",
			phrase.Clean(u.address))
	}
	u.advise(f)
}

// cost estimates the CPU time of receiving a packet, in seconds: the softirq time of the machine
// divided by its received packets.
func (u *unused) cost() (float64, *diagnose.Table) {
	m := facts.MachineOf(u.l.Table(facts.CPUTime))
	packets := u.l.Table(facts.SoftnetPackets)
	rate := packets.Mean(packets.Sum(packets.Rows), u.s.Mask)
	soft := m.Share(u.s.Mask, "soft") * m.CPUs
	if !(rate >= u.rate) || soft != soft {
		return 0, nil
	}
	if v := soft / rate; v < 1e-3 {
		return v, packets
	}
	// no packet of a healthy machine takes a millisecond: the softirq time is of something else
	return 0, nil
}

func (u *unused) advise(f *diagnose.Finding) {
	d := u.d
	f.Verify = phrase.InNamespace(d.NetNS, "ip -s -s link show dev "+phrase.Shell(d.Name)) + "; " +
		phrase.InNamespace(d.NetNS, "ip -br link") + "; culprit irq 1 5"
	risk := "low: no user of it is known"
	if !u.bare && u.address != "" {
		risk = "medium: the machine becomes unreachable at " + phrase.Clean(u.address)
	}
	if !d.Down() {
		set := func(state string) string {
			command := "link set dev " + phrase.Shell(d.Name) + " " + state
			if d.NetNS == "" || strings.HasPrefix(d.NetNS, "pid:") {
				return phrase.InNamespace(d.NetNS, "ip "+command)
			}
			return "ip -n " + phrase.Shell(d.NetNS) + " " + command
		}
		f.Fix = &diagnose.Fix{Command: set("down"), Undo: set("up"), Risk: risk}
	}
	slots := map[string]bool{phrase.Identity(d.NetNS, d.Name): true}
	f.Cover("mac-shared", func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == d.NetNS &&
			(o.Culprit.Interface == d.Name || u.twin != nil && o.Culprit.Interface == u.twin.Name)
	})
	f.Cover("net-drops", func(o *diagnose.Finding) bool {
		return slots[phrase.Identity(o.Culprit.NetNS, o.Culprit.Name)]
	})
	f.Cover("cpu-softirq", func(*diagnose.Finding) bool { return f.Explains >= 0.4 })
}

// none returns "none" for less than 0.05, else the rate.
func none(v float64) string {
	if !(v >= 0.05) {
		return "none"
	}
	return phrase.Count(v) + "/s"
}
