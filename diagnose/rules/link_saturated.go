package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// linkSaturated finds interfaces at the limit of their line or shaper, and the process that fills
// them.
func linkSaturated() diagnose.Rule {
	return diagnose.Rule{
		ID: "link-saturated", Checks: "network", Resource: "network",
		Needs: []string{facts.DeviceWire, facts.DeviceInfo},
		Uses: []string{facts.DeviceCapacity, facts.DeviceModes, facts.FlowBytes,
			facts.DeviceAddress, facts.FlowLimited, facts.FlowUnsent, facts.FlowMSS, facts.FlowRTT,
			facts.FlowMinRTT, facts.FlowRetransmits,
			facts.QdiscBacklog, facts.QdiscDrops, facts.QdiscRate,
			facts.QdiscBytes, facts.DeviceBytes, facts.DevicePackets,
			facts.ProtocolEvents, facts.ProcessInfo},
		Sampled: []string{facts.StackSamples, facts.StackRate},
		Check: func(l *diagnose.Look) {
			n := facts.NetworkOf(l.Table(facts.DeviceInfo))
			if t := l.Table(facts.DeviceCapacity); !t.Have() {
				l.Unchecked("%s is missing: %s", facts.DeviceCapacity, t.Why)
				return
			}
			var full []*fullLink
			var unknown unknownLimits
			best, bestName := measure.NaN, ""
			for _, d := range n.All {
				var worst *fullLink
				for _, direction := range []string{"tx", "rx"} {
					wire := facts.BothWays(l, d, direction, facts.OnLine(l, d, direction))
					if d.Loopback() || wire == nil {
						continue
					}
					lim := facts.LimitOf(l, d, direction)
					if lim.Bits == 0 {
						if rate := wire.Mean(nil) * 8; rate >= threshold.LinkWorthwhile {
							unknown.add(lim.Why, rate,
								fmt.Sprintf("%s %s %s", phrase.DeviceName(d.NetNS, d.Name),
									direction, phrase.BitRate(rate)))
						}
						continue
					}
					use := wire.Mean(nil) * 8 / lim.Bits
					if use > best || best != best {
						best, bestName = use,
							fmt.Sprintf("%s at %s of %s", phrase.DeviceName(d.NetNS, d.Name),
								phrase.Percent(use), phrase.LinkRate(lim.Bits))
					}
					s, ok := diagnose.Lasting(wire.Table, diagnose.HasValue(wire),
						func(c int) bool {
							return wire.At(c)*8 >= threshold.LinkFull*lim.Bits
						})
					if !ok {
						continue
					}
					if rate := wire.Mean(s.Mask) * 8; rate > threshold.LinkBeyond*lim.Bits {
						unknown.add("it carries more than its reported speed", rate,
							fmt.Sprintf("%s %s %s, reported %s", phrase.DeviceName(d.NetNS, d.Name),
								direction, phrase.BitRate(rate), phrase.LinkRate(lim.Bits)))
						continue
					}
					one := &fullLink{d: d, direction: direction, wire: wire, lim: lim, s: s}
					if worst == nil || one.use() > worst.use()*1.02 {
						one.also = worst
						worst = one
					} else {
						worst.also = one
					}
				}
				if worst != nil {
					full = append(full, worst)
				}
			}
			for _, f := range full {
				if !carriedByOther(n, f, full) {
					f.accuse(l, n)
				}
			}
			fullClasses(l, n, full)
			unknown.report(l)
			if best != best && len(unknown) > 0 {
				l.MarkUnchecked()
			}
			switch {
			case len(full) > 0 || len(l.Findings) > 0 || len(unknown) > 0:
			case best == best:
				l.Fine("busiest link %s", bestName)
			default:
				l.Fine("no link carries notable traffic")
			}
		},
	}
}

// unknownLimits are links with traffic and unknown capacity, by the reason.
type unknownLimits []unknownLimit

type unknownLimit struct {
	why   string
	most  float64
	words string // of the busiest one
	n     int
}

func (u *unknownLimits) add(why string, rate float64, words string) {
	for i := range *u {
		if one := &(*u)[i]; one.why == why {
			one.n++
			if rate > one.most {
				one.most, one.words = rate, words
			}
			return
		}
	}
	*u = append(*u, unknownLimit{why, rate, words, 1})
}

// report records one line per reason: a machine with containers has hundreds of such links.
func (u unknownLimits) report(l *diagnose.Look) {
	for _, one := range u {
		words := one.words
		if one.n > 1 {
			words = fmt.Sprintf("%s, the busiest: %s",
				phrase.Plural(one.n, "direction of links", "directions of links"), words)
		}
		l.Skipped("capacity unknown of %s (%s)", words, one.why)
	}
}

// fullLink is a device that is full in one direction.
type fullLink struct {
	d         *facts.Device
	direction string
	wire      *diagnose.Row
	lim       facts.Capacity
	s         diagnose.Period
	also      *fullLink // the other direction, if it is full too
}

func (f *fullLink) use() float64 { return f.wire.Mean(f.s.Mask) * 8 / f.lim.Bits }

// carriedByOther reports whether another full device carries the same frames: a device above a full
// one is full because of it, and a member of a full bond is full with its master.
func carriedByOther(n facts.Network, f *fullLink, full []*fullLink) bool {
	for _, o := range full {
		if o != f && o.d.NetNS == f.d.NetNS && o.direction == f.direction &&
			(f.d.LowerDevice() == o.d.Name || f.d.Master == o.d.Name) &&
			f.lim.From != facts.FromShaper {
			return true
		}
	}
	return false
}

func (f *fullLink) accuse(l *diagnose.Look, n facts.Network) {
	d, s, t := f.d, f.s, f.wire.Table
	rate := f.wire.Mean(s.Mask)
	share, flows := f.carried(l, n)
	type program struct {
		name string
		pid  int
	}
	byProcess := facts.GroupFlows(flows, func(x *facts.Flow) program {
		return program{x.Process, x.PID}
	})
	total := 0.0
	for _, x := range flows {
		total += share(x)
	}
	of := func(g facts.FlowGroup) float64 {
		part := 0.0
		for _, x := range g.Flows {
			part += share(x)
		}
		return series.Clamp(part, 0, 1)
	}
	division := f.divide(l, byProcess, share)
	udp := false // UDP of this machine fills the link
	culprit, cause, explained := diagnose.Culprit{Kind: "interface", Name: d.Name, NetNS: d.NetNS,
		Interface: d.Name}, "", measure.NaN
	var top *facts.FlowGroup
	var pairs []facts.FlowGroup
	if len(byProcess) > 0 {
		top = &byProcess[0]
		pairs = facts.GroupFlows(top.Flows,
			func(x *facts.Flow) [2]string { a, b := x.Pair(); return [2]string{a, b} })
		explained = of(*top)
	}
	verb, way := "sends", "to"
	if f.direction == "rx" {
		verb, way = "receives", "from"
	}
	switch {
	case top != nil && explained >= threshold.LinkOwner:
		x := top.Flows[0]
		local, peer := pairs[0].Flows[0].Pair()
		if x.Process != "" {
			culprit = diagnose.Culprit{Kind: "process", Name: x.Process, PID: x.PID, NetNS: d.NetNS,
				Interface: d.Name, Local: local, Peer: peer}
		} else {
			culprit.Local, culprit.Peer = local, peer
		}
		cause = fmt.Sprintf("%s %s %s of it %s %s", phrase.ProcessName(x.Process, x.PID), verb,
			phrase.Percent(explained), way, phrase.Clean(peer))
		if len(pairs) > 1 && of(pairs[0]) < 0.8*explained {
			cause = fmt.Sprintf("%s %s %s of it, most of that %s %s (%s)",
				phrase.ProcessName(x.Process, x.PID), verb, phrase.Percent(explained), way,
				phrase.Clean(peer), phrase.Percent(of(pairs[0])))
		}
	case top != nil && total >= threshold.LinkOwner:
		cause = fmt.Sprintf("no single process fills it; %s %s the most, %s",
			phrase.ProcessName(top.Flows[0].Process, top.Flows[0].PID), verb,
			phrase.Percent(explained))
	default:
		cause = "no TCP connection of this machine explains it"
		if l.Table(facts.FlowBytes).Have() {
			var text string
			text, udp = otherTraffic(l, f)
			cause += text
		} else {
			cause = "the sender is unknown"
		}
		explained = measure.NaN
	}
	if division.Named > 1 && division.Share(division.Named) >= threshold.LinkOwner {
		explained = division.Share(division.Named)
		cause += "; " + facts.Together(division)
	}
	what := f.direction
	if d.Duplex == "half" {
		what = "both directions together, half duplex,"
	}
	claim := fmt.Sprintf("%s is full: %s %s for %s; %s.", phrase.DeviceName(d.NetNS, d.Name), what,
		phrase.OutOf(rate*8, f.lim.Bits), s, cause)
	confidence := 0.97
	if !f.lim.Firm() {
		confidence = 0.7
	}
	severity := diagnose.High
	waits := facts.WaitsForLink(l, flows, share, s.Mask)
	if waits.Nobody() {
		severity = diagnose.Medium
	}
	fd := l.Found(phrase.Identity(d.NetNS, d.Name), severity, confidence, culprit, claim)
	fd.SetEffect(f.s.Share()) // senders wait while it is full
	if fd.Waits = waits; waits.Nobody() {
		fd.AddCaveat(0, "One transfer fills it, and no other connection through it waits: if the "+
			"transfer is wanted, as a backup is, nothing is wrong.")
	}
	fd.Subject = facts.FullDirection(f.direction)
	fd.SetExplains(explained)
	fd.Attribution = division.Report()
	query := f.wire.Query()
	if d.Duplex == "half" {
		what, query, f.also = "both directions:",
			t.QueryOf(nil, "netns", d.NetNS, "device", d.Name), nil
	}
	fd.AddEvidence(t, s, query, rate*8, measure.BitsPerSec,
		fmt.Sprintf("%s %s on the wire, %s of the %s that %s", what, phrase.BitRate(rate*8),
			phrase.Percent(rate*8/f.lim.Bits), phrase.LinkRate(f.lim.Bits), f.source())).
		CompareTo(f.lim.Bits, "capacity")
	if f.also != nil {
		o := f.also
		r := o.wire.Mean(o.s.Mask) * 8
		fd.AddEvidence(t, o.s, o.wire.Query(), r, measure.BitsPerSec,
			fmt.Sprintf("%s is full too: %s%s", o.direction, phrase.OutOf(r, o.lim.Bits),
				o.owner(l, n))).CompareTo(o.lim.Bits, "capacity")
	}
	f.proveFlows(l, fd, byProcess, pairs, of, total)
	if udp && f.direction == "tx" {
		facts.AddDatagramSender(l, fd, s)
	}
	f.proveWaiting(l, fd, flows)
	if f.lim.From == facts.FromVirtualCard {
		fd.AddCaveat(0, "The speed is reported by a virtual card; the card of the host may be "+
			"faster or slower.")
	}
	f.advise(fd, culprit)
	f.coverSymptoms(fd, flows)
}

// owner returns the process with most of the traffic in its direction, as a phrase; "" when there
// is none.
func (f *fullLink) owner(l *diagnose.Look, n facts.Network) string {
	share, flows := f.carried(l, n)
	type program struct {
		name string
		pid  int
	}
	all := facts.GroupFlows(flows, func(x *facts.Flow) program { return program{x.Process, x.PID} })
	if len(all) == 0 {
		return ""
	}
	part := 0.0
	for _, x := range all[0].Flows {
		part += share(x)
	}
	if part < threshold.LinkOwner {
		return ""
	}
	verb := "sends"
	if f.direction == "rx" {
		verb = "receives"
	}
	return fmt.Sprintf("; %s %s %s of it",
		phrase.ProcessName(all[0].Flows[0].Process, all[0].Flows[0].PID), verb,
		phrase.Percent(min(part, 1)))
}

// source returns the words for the origin of the capacity: "1000 Mbit/s that ...".
func (f *fullLink) source() string {
	switch f.lim.From {
	case facts.FromShaper:
		return "its shaper allows"
	case facts.FromSetting:
		return "its speed was set to"
	case facts.FromVirtualCard:
		return "the virtual card reports"
	}
	return "it negotiated"
}

// carried returns the flows through the link, and a function that returns the share of each on the
// wire.
func (f *fullLink) carried(l *diagnose.Look, n facts.Network) (func(*facts.Flow) float64,
	[]*facts.Flow) {
	own := map[string]bool{}
	for _, d := range n.Over(f.d) {
		own[d.Name] = true
	}
	where := facts.Addresses(l.Table(facts.DeviceAddress))
	flows := facts.FlowsOf(l.Table(facts.FlowBytes), f.direction, f.s.Mask,
		func(x *facts.Flow) bool {
			if x.NetNS != f.d.NetNS {
				return false
			}
			local, peer := x.Pair()
			if len(where[facts.DeviceID{NetNS: x.NetNS, Name: peer}]) > 0 {
				return false // both ends are here: it goes over loopback
			}
			for _, dev := range where[facts.DeviceID{NetNS: x.NetNS, Name: local}] {
				if own[dev] {
					return true
				}
			}
			return false
		})
	rate := f.wire.Mean(f.s.Mask)
	mss := l.Table(facts.FlowMSS)
	sum := 0.0
	for _, x := range flows {
		sum += x.WireRate(mss)
	}
	rate = max(rate, sum) // the estimate of headers must not exceed the total
	return func(x *facts.Flow) float64 { return x.WireRate(mss) / rate }, flows
}

func (f *fullLink) proveFlows(l *diagnose.Look, fd *diagnose.Finding, byProcess,
	pairs []facts.FlowGroup, of func(facts.FlowGroup) float64, total float64) {
	t := l.Table(facts.FlowBytes)
	if len(byProcess) == 0 {
		return
	}
	for i, g := range byProcess {
		if i >= 3 || of(g) < 0.03 {
			break
		}
		x := g.Flows[0]
		fd.AddEvidence(t, f.s, t.QueryOf(nil, "netns", x.NetNS, "pid", facts.PIDWord(x.PID),
			"direction", f.direction), g.Rate*8, measure.BitsPerSec,
			fmt.Sprintf("%s: %s of payload, %s of the traffic, %s",
				phrase.ProcessName(x.Process, x.PID), phrase.BitRate(g.Rate*8),
				phrase.Percent(of(g)),
				phrase.Plural(len(g.Flows), "connection", "connections")))
	}
	if local, peer := pairs[0].Flows[0].Pair(); of(pairs[0]) >= 0.03 {
		fd.AddEvidence(t, f.s, t.QueryOf(nil, "netns", f.d.NetNS, "local", pairs[0].Flows[0].Local,
			"peer", pairs[0].Flows[0].Peer, "direction", f.direction), pairs[0].Rate*8,
			measure.BitsPerSec,
			fmt.Sprintf("between %s and %s: %s of payload", phrase.Clean(local), phrase.Clean(peer),
				phrase.BitRate(pairs[0].Rate*8)))
	}
	if rest := 1 - total; rest >= threshold.LinkResidual {
		fd.AddCaveat(0, "%s of the traffic belongs to no TCP connection of this machine: other "+
			"protocols, forwarded packets, headers of small packets.", phrase.Percent(rest))
	}
}

// proveWaiting adds evidence for more demand than capacity: unsent bytes, a queue before the
// device, busy senders.
func (f *fullLink) proveWaiting(l *diagnose.Look, fd *diagnose.Finding, flows []*facts.Flow) {
	if q := l.Table(facts.QdiscBacklog); q.Have() && f.direction == "tx" {
		if rows := q.Where("netns", f.d.NetNS, "device", f.d.Name); len(rows) > 0 {
			if b := q.Mean(q.Sum(rows), f.s.Mask); b >= 1 {
				fd.AddEvidence(q, f.s, q.QueryOf(nil, "netns", f.d.NetNS, "device", f.d.Name), b,
					measure.Bytes,
					fmt.Sprintf("%s queued before %s", phrase.Bytes(b), phrase.Clean(f.d.Name)))
			}
		}
	}
	if f.direction != "tx" || len(flows) == 0 {
		return
	}
	big := flows[0]
	if u := big.RowIn(l.Table(facts.FlowUnsent)); u != nil && u.Mean(f.s.Mask) > 0 {
		fd.AddEvidence(u.Table, f.s, u.Query(), u.Mean(f.s.Mask), measure.Bytes,
			fmt.Sprintf("%s unsent in the socket of the largest connection",
				phrase.Bytes(u.Mean(f.s.Mask))))
	}
	limited := l.Table(facts.FlowLimited)
	busy := big.RowIn(limited, "busy").Mean(f.s.Mask)
	rwnd, sndbuf := series.Or(big.RowIn(limited, "rwnd").Mean(f.s.Mask), 0),
		series.Or(big.RowIn(limited, "sndbuf").Mean(f.s.Mask), 0)
	if busy == busy {
		r := big.RowIn(limited, "busy")
		fd.AddEvidence(limited, f.s, r.Query(), busy, limited.Unit,
			fmt.Sprintf("the largest connection had data in flight %s of the time; limited by the "+
				"receive window %s, by its send buffer %s",
				phrase.Percent(min(busy, 1)), phrase.Percent(min(rwnd, 1)),
				phrase.Percent(min(sndbuf, 1))))
	}
	if rwnd >= 0.5 {
		fd.AddCaveat(0.1, "The largest connection is limited by the receive window %s of the "+
			"time: the receiver is no faster than the link.", phrase.Percent(min(rwnd, 1)))
	}
	if sndbuf >= 0.5 {
		fd.AddCaveat(0.1, "The largest connection is limited by its send buffer %s of the time.",
			phrase.Percent(min(sndbuf, 1)))
	}
	if rtt, least := big.RowIn(l.Table(facts.FlowRTT)),
		big.RowIn(l.Table(facts.FlowMinRTT)); rtt != nil && least != nil &&
		rtt.Mean(f.s.Mask) > 2*least.Mean(f.s.Mask) && least.Mean(f.s.Mask) > 0 {
		fd.AddEvidence(rtt.Table, f.s, rtt.Query(), rtt.Mean(f.s.Mask), measure.Nanoseconds,
			fmt.Sprintf("round trip %s, lowest %s: the difference is queueing",
				phrase.Duration(rtt.Mean(f.s.Mask)),
				phrase.Duration(least.Mean(f.s.Mask)))).CompareTo(least.Mean(f.s.Mask),
			"least round trip")
	}
}

// otherTraffic returns what else fills a link, as a phrase, when no TCP connection of the machine
// explains it. udp reports that it is UDP of this machine.
func otherTraffic(l *diagnose.Look, f *fullLink) (text string, udp bool) {
	p := l.Table(facts.ProtocolEvents)
	packets := l.Table(facts.DevicePackets).One("netns", f.d.NetNS, "device", f.d.Name, "direction",
		f.direction).Mean(f.s.Mask)
	datagrams := map[string]string{"tx": "OutDatagrams", "rx": "InDatagrams"}[f.direction]
	sum := func(counter string, protocols ...string) float64 {
		v := 0.0
		for _, proto := range protocols {
			v += series.Or(p.One("netns", f.d.NetNS, "protocol", proto, "counter",
				counter).Mean(f.s.Mask), 0)
		}
		return v
	}
	u := sum(datagrams, "Udp", "Udp6")
	fwd := sum("ForwDatagrams", "Ip") + sum("OutForwDatagrams", "Ip6")
	switch {
	case !(packets > 0):
	case u >= 0.5*packets:
		return fmt.Sprintf("; UDP does, %s datagrams/s", phrase.Count(u)), true
	case fwd >= 0.5*packets:
		text = "; " + phrase.Count(fwd) + " packets/s are forwarded through the machine"
	case f.d.Master != "":
		text = "; it is a port of " + phrase.Clean(f.d.Master) +
			" and forwards the traffic of others"
	}
	return text, false
}

func (f *fullLink) advise(fd *diagnose.Finding, c diagnose.Culprit) {
	ns, dev := f.d.NetNS, phrase.Shell(f.d.Name)
	verify := []string{phrase.InNamespace(ns, "sar -n DEV --iface="+dev+" 1 3")}
	if f.lim.From == facts.FromShaper {
		verify = append(verify, phrase.InNamespace(ns, "tc -s qdisc show dev "+dev))
	} else {
		verify = append(verify, phrase.InNamespace(ns, "ethtool "+dev))
	}
	if c.Peer != "" {
		verify = append(verify, phrase.InNamespace(ns, "ss -tinp dst "+phrase.Shell(c.Peer)))
	}
	fd.Verify = strings.Join(verify, "; ")
	if f.direction != "tx" || f.lim.From == facts.FromShaper {
		return // remote senders cannot be controlled here, and a shaper is intended
	}
	if c.Kind == "process" {
		fd.Fix = &diagnose.Fix{Command: phrase.InNamespace(ns,
			fmt.Sprintf("tc qdisc replace dev %s root fq", dev)),
			Undo: phrase.InNamespace(ns, fmt.Sprintf("tc qdisc del dev %s root", dev)),
			Risk: "low: connections take turns, so the others wait less; the link stays full. It " +
				"replaces a root qdisc that was set up by hand"}
	}
}

func (f *fullLink) coverSymptoms(fd *diagnose.Finding, flows []*facts.Flow) {
	ns, dev := f.d.NetNS, f.d.Name
	peers := map[string]bool{}
	for _, x := range flows {
		_, p := x.Pair()
		peers[p] = true
	}
	fd.Cover("tcp-retransmits", func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == ns && (o.Culprit.Peer == "" || peers[o.Culprit.Peer])
	})
	// Both ends of a cable inside this machine are full together: the sender is the cause.
	if f.direction == "tx" && fd.Culprit.Peer != "" {
		fd.Cover("link-saturated", func(o *diagnose.Finding) bool {
			return o.Culprit.Peer == fd.Culprit.Local && o.Culprit.Local == fd.Culprit.Peer &&
				o.Subject == facts.FullDirection("rx")
		})
	}
	// So are the two ends of a veth. A finding with a process covers one without; else the end of
	// the sender, which has the queue, covers the other. Traffic in the same direction at the far
	// end is another fault.
	if far, ok := f.d.VethPeer(); ok {
		fd.Cover("link-saturated", func(o *diagnose.Finding) bool {
			return o.Culprit.NetNS == far.NetNS && o.Culprit.Interface == far.Name &&
				o.Subject != facts.FullDirection(f.direction) &&
				(fd.Culprit.Kind == o.Culprit.Kind && f.direction == "tx" ||
					fd.Culprit.Kind != o.Culprit.Kind && o.Culprit.Kind == "interface")
		})
		if f.direction == "rx" {
			fd.Cover("net-drops", func(o *diagnose.Finding) bool {
				return o.Culprit.NetNS == far.NetNS && o.Culprit.Name == far.Name &&
					o.Severity != diagnose.High
			})
		}
	}
	// A full queue drops some packets: TCP learns the speed that way. Many drops are a fault of
	// their own.
	fd.Cover("net-drops", func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == ns && o.Culprit.Name == dev && o.Severity != diagnose.High
	})
}
