package diagnose

import (
	"fmt"
	"strings"

	"culprit/measure"
)

// When a link counts as full.
const (
	// linkFull: a sender paced by TCP keeps a line at 94-100 % of its wire rate, preambles and gaps counted (943 Mbit/s of
	// payload on 1 Gbit/s are 99.9 %); below nine tenths there is room for whoever wants more.
	linkFull = 0.90
	// linkBeyond: what carries a seventh more than its limit for seconds is not limited by it. Bursts of a shaper and the
	// estimate of headers stay below.
	linkBeyond = 1.15
	// linkOwner: whose share makes a process the one who fills the link.
	linkOwner = 0.5
	// linkWorthwhile: below this an unknown capacity is not worth a word, bit/s.
	linkWorthwhile = 1e6
	// linkResidual: the rest that flows don't explain is told from here on; estimates of headers are good to some percent.
	linkResidual = 0.08
)

// linkSaturated finds interfaces at the limit of their line or shaper, and who fills them with what.
func linkSaturated() Rule {
	return Rule{
		ID: "link-saturated", Checks: "network", Resource: "network",
		Needs: []string{deviceWire, deviceInfo},
		Uses: []string{deviceCapacity, deviceModes, flowBytes, deviceAddress, flowLimited, flowUnsent, flowMSS, flowRTT, flowMinRTT, qdiscBacklog, qdiscDrops, qdiscRate, qdiscBytes, deviceBytes, devicePackets,
			protocolEvents},
		Sampled: []string{stackSamples, stackRate},
		Check: func(l *Look) {
			n := networkOf(l.Table(deviceInfo))
			if t := l.Table(deviceCapacity); !t.Have() {
				l.Unchecked("%s is missing: %s", deviceCapacity, t.why)
				return
			}
			var full []*fullLink
			var unknown unknownLimits
			best, bestName := measure.NaN, ""
			for _, d := range n.all {
				var worst *fullLink
				for _, direction := range []string{"tx", "rx"} {
					wire := bothWays(l, d, direction, onLine(l, d, direction))
					if d.loopback() || wire == nil {
						continue
					}
					lim := limitOf(l, d, direction)
					if lim.bits == 0 {
						if rate := wire.Mean(nil) * 8; rate >= linkWorthwhile {
							unknown.add(lim.why, rate, fmt.Sprintf("%s %s %s", at(d.netns, d.name), direction, bitRate(rate)))
						}
						continue
					}
					use := wire.Mean(nil) * 8 / lim.bits
					if use > best || best != best {
						best, bestName = use, fmt.Sprintf("%s at %s of %s", at(d.netns, d.name), percent(use), linkRate(lim.bits))
					}
					s, ok := lasting(wire.table, known(wire), func(c int) bool { return wire.At(c)*8 >= linkFull*lim.bits })
					if !ok {
						continue
					}
					if rate := wire.Mean(s.mask) * 8; rate > linkBeyond*lim.bits {
						unknown.add("it carries more than the speed that it reports", rate, fmt.Sprintf("%s %s %s, reported %s", at(d.netns, d.name), direction, bitRate(rate), linkRate(lim.bits)))
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
			unknown.tell(l)
			l.unchecked = l.unchecked || best != best && len(unknown) > 0
			switch {
			case len(full) > 0 || len(l.findings) > 0 || len(unknown) > 0:
			case best == best:
				l.Fine("busiest link %s", bestName)
			default:
				l.Fine("no link carries anything worth a word")
			}
		},
	}
}

// unknownLimits gathers the links that carry something and whose capacity is not known, by the reason.
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

// tell says it: a machine of containers has hundreds of such links, so one line a reason.
func (u unknownLimits) tell(l *Look) {
	for _, one := range u {
		words := one.words
		if one.n > 1 {
			words = fmt.Sprintf("%s, the busiest: %s", plural(one.n, "direction of links", "directions of links"), words)
		}
		l.Skipped("capacity unknown of %s (%s)", words, one.why)
	}
}

// Headers of the segments of a super-frame that the device counts once: 6 % of full segments of 1,448 B; and preamble, gap
// and FCS of each frame it counts, in bytes. What a line carries can't be more.
const lineSlack, lineFrame = 1.25, 24.0

// onLine gives the row of what the device carries on its line. The estimate of net.device.wire may count what the driver was
// given and threw away; where it contradicts the device's own count of bytes and packets, those count.
func onLine(l *Look, d *device, direction string) *Row {
	wire := l.Table(deviceWire).One("netns", d.netns, "device", d.name, "direction", direction)
	b := l.Table(deviceBytes).One("netns", d.netns, "device", d.name, "direction", direction)
	p := l.Table(devicePackets).One("netns", d.netns, "device", d.name, "direction", direction)
	if wire == nil || b == nil {
		return wire
	}
	out := &Row{table: wire.table, key: wire.key, Values: append([]float64(nil), wire.Values...)}
	for c, v := range out.Values {
		if most := b.At(c) + lineFrame*or(p.At(c), 0); v > lineSlack*most {
			out.Values[c] = most
		}
	}
	return out
}

// bothWays adds the other direction to a row of a half-duplex device, whose line carries one at a time.
func bothWays(l *Look, d *device, direction string, row *Row) *Row {
	if d.duplex != "half" || row == nil {
		return row
	}
	other := onLine(l, d, map[string]string{"tx": "rx", "rx": "tx"}[direction])
	out := &Row{table: row.table, key: row.key, Values: append([]float64(nil), row.Values...)}
	for c := range out.Values {
		out.Values[c] += or(other.At(c), 0)
	}
	return out
}

// known says in which cells a row has a value.
func known(r *Row) func(int) bool {
	return func(c int) bool { return r.At(c) == r.At(c) }
}

// limitOf gives the tightest limit of a device's direction that is to be believed, else why there is none.
func limitOf(l *Look, d *device, direction string) limit {
	lim := limit{why: "its speed is unknown"}
	set := l.Table(deviceModes).One("netns", d.netns, "device", d.name, "list", "supported").Max() > 0
	for _, r := range l.Table(deviceCapacity).Where("netns", d.netns, "device", d.name, "direction", direction) {
		one := d.limit(r.Last(), r.Word("from"), set)
		if one.bits > 0 && (lim.bits == 0 || one.bits < lim.bits) || lim.bits == 0 && one.why != "" && r.Word("from") != "unknown" {
			lim = one
		}
	}
	return lim
}

// fullLink is a device that is full in one direction.
type fullLink struct {
	d         *device
	direction string
	wire      *Row
	lim       limit
	s         spell
	also      *fullLink // the other direction, when that is full too
}

func (f *fullLink) use() float64 { return f.wire.Mean(f.s.mask) * 8 / f.lim.bits }

// carriedByOther says whether another full device is the same frames seen a second time: what stands on a full device is
// full because of it, and a member of a full bond is full with its master.
func carriedByOther(n network, f *fullLink, full []*fullLink) bool {
	for _, o := range full {
		if o != f && o.d.netns == f.d.netns && o.direction == f.direction && (f.d.stands() == o.d.name || f.d.master == o.d.name) && f.lim.from != "its shaper lets" {
			return true
		}
	}
	return false
}

func (f *fullLink) accuse(l *Look, n network) {
	d, s, t := f.d, f.s, f.wire.table
	rate := f.wire.Mean(s.mask)
	share, flows := f.carried(l, n)
	type program struct {
		name string
		pid  int
	}
	byProcess := groups(flows, func(x *flow) program { return program{x.process, x.pid} })
	total := 0.0
	for _, x := range flows {
		total += share(x)
	}
	of := func(g group) float64 {
		part := 0.0
		for _, x := range g.flows {
			part += share(x)
		}
		return clamp(part, 0, 1)
	}
	culprit, who, explained := Culprit{Kind: "interface", Name: d.name, NetNS: d.netns, Interface: d.name}, "", measure.NaN
	var top *group
	var pairs []group
	if len(byProcess) > 0 {
		top = &byProcess[0]
		pairs = groups(top.flows, func(x *flow) [2]string { a, b := x.pair(); return [2]string{a, b} })
		explained = of(*top)
	}
	verb, way := "sends", "to"
	if f.direction == "rx" {
		verb, way = "receives", "from"
	}
	switch {
	case top != nil && explained >= linkOwner:
		x := top.flows[0]
		local, peer := pairs[0].flows[0].pair()
		if x.process != "" {
			culprit = Culprit{Kind: "process", Name: x.process, PID: x.pid, NetNS: d.netns, Interface: d.name, Local: local, Peer: peer}
		} else {
			culprit.Local, culprit.Peer = local, peer
		}
		who = fmt.Sprintf("%s %s %s of it %s %s", named(x.process, x.pid), verb, percent(explained), way, clean(peer))
		if len(pairs) > 1 && of(pairs[0]) < 0.8*explained {
			who = fmt.Sprintf("%s %s %s of it, most of that %s %s (%s)", named(x.process, x.pid), verb, percent(explained), way, clean(peer), percent(of(pairs[0])))
		}
	case top != nil && total >= linkOwner:
		who = fmt.Sprintf("no single process fills it: %s %s the most, %s", named(top.flows[0].process, top.flows[0].pid), verb, percent(explained))
	default:
		who = "no TCP connection of this machine carries it"
		if l.Table(flowBytes).Have() {
			who += forwarded(l, f)
		} else {
			who = "who fills it could not be told"
		}
		explained = measure.NaN
	}
	what := f.direction
	if d.duplex == "half" {
		what = "both directions together, half duplex,"
	}
	claim := fmt.Sprintf("%s is full: %s %s for %s; %s.", at(d.netns, d.name), what, outOf(rate*8, f.lim.bits), s, who)
	confidence := 0.97
	if !f.lim.firm() {
		confidence = 0.7
	}
	fd := l.Found(slot(d.netns, d.name), High, confidence, culprit, claim)
	fd.loses(f.s.share()) // whoever sends waits while it is full
	fd.direction = f.direction
	fd.explains(explained)
	sentence := f.wire.Sentence()
	if d.duplex == "half" {
		what, sentence, f.also = "both directions:", t.Asking(nil, "netns", d.netns, "device", d.name), nil
	}
	fd.proof(t, s, sentence, rate*8, measure.BitsPerSec, fmt.Sprintf("%s %s on the wire, %s of the %s that %s", what, bitRate(rate*8), percent(rate*8/f.lim.bits), linkRate(f.lim.bits), f.source())).
		than(f.lim.bits, "capacity")
	if f.also != nil {
		o := f.also
		r := o.wire.Mean(o.s.mask) * 8
		fd.proof(t, o.s, o.wire.Sentence(), r, measure.BitsPerSec, fmt.Sprintf("%s is full too: %s%s", o.direction, outOf(r, o.lim.bits), o.owner(l, n))).than(o.lim.bits, "capacity")
	}
	f.proveFlows(l, fd, byProcess, pairs, of, total)
	if strings.Contains(who, "; UDP does") && f.direction == "tx" {
		datagramSender(l, fd, s)
	}
	f.proveWaiting(l, fd, flows)
	if f.lim.from == "the virtual card reports" {
		fd.but(0, "The speed is a virtual card's word; the host's real card may be faster or slower.")
	}
	f.advise(fd, culprit)
	f.coverSymptoms(fd, flows)
}

// owner says in a word who carries most of a direction that is full too; "" when nobody does, or it can't be told.
func (f *fullLink) owner(l *Look, n network) string {
	share, flows := f.carried(l, n)
	type program struct {
		name string
		pid  int
	}
	all := groups(flows, func(x *flow) program { return program{x.process, x.pid} })
	if len(all) == 0 {
		return ""
	}
	part := 0.0
	for _, x := range all[0].flows {
		part += share(x)
	}
	if part < linkOwner {
		return ""
	}
	verb := "sends"
	if f.direction == "rx" {
		verb = "receives"
	}
	return fmt.Sprintf("; %s %s %s of it", named(all[0].flows[0].process, all[0].flows[0].pid), verb, percent(min(part, 1)))
}

func (f *fullLink) source() string {
	switch f.lim.from {
	case "its shaper lets":
		return "its shaper lets through"
	case "negotiated":
		return "it negotiated"
	case "its speed was set to":
		return "its speed was set to"
	}
	return f.lim.from
}

// carried gives the flows that go through the link, with a function that gives each one's share of the wire.
func (f *fullLink) carried(l *Look, n network) (func(*flow) float64, []*flow) {
	own := map[string]bool{}
	for _, d := range n.over(f.d) {
		own[d.name] = true
	}
	where := addresses(l.Table(deviceAddress))
	flows := flowsOf(l.Table(flowBytes), f.direction, f.s.mask, func(x *flow) bool {
		if x.netns != f.d.netns {
			return false
		}
		local, peer := x.pair()
		if len(where[place{x.netns, peer}]) > 0 {
			return false // both ends are here: it goes over loopback whatever its addresses are
		}
		for _, dev := range where[place{x.netns, local}] {
			if own[dev] {
				return true
			}
		}
		return false
	})
	rate := f.wire.Mean(f.s.mask)
	mss := l.Table(flowMSS)
	sum := 0.0
	for _, x := range flows {
		sum += x.onWire(mss)
	}
	rate = max(rate, sum) // an estimate of headers must not make more than all of it
	return func(x *flow) float64 { return x.onWire(mss) / rate }, flows
}

func (f *fullLink) proveFlows(l *Look, fd *Finding, byProcess, pairs []group, of func(group) float64, total float64) {
	t := l.Table(flowBytes)
	if len(byProcess) == 0 {
		return
	}
	for i, g := range byProcess {
		if i >= 3 || of(g) < 0.03 {
			break
		}
		x := g.flows[0]
		fd.proof(t, f.s, t.Asking(nil, "netns", x.netns, "pid", pidWord(x.pid), "direction", f.direction), g.rate*8, measure.BitsPerSec,
			fmt.Sprintf("%s: %s of payload, %s of what is on the wire, %s", named(x.process, x.pid), bitRate(g.rate*8), percent(of(g)), plural(len(g.flows), "connection", "connections")))
	}
	if local, peer := pairs[0].flows[0].pair(); of(pairs[0]) >= 0.03 {
		fd.proof(t, f.s, t.Asking(nil, "netns", f.d.netns, "local", pairs[0].flows[0].local, "peer", pairs[0].flows[0].peer, "direction", f.direction), pairs[0].rate*8, measure.BitsPerSec,
			fmt.Sprintf("between %s and %s: %s of payload", clean(local), clean(peer), bitRate(pairs[0].rate*8)))
	}
	if rest := 1 - total; rest >= linkResidual {
		fd.but(0, "%s of what is on the wire belongs to no TCP connection of this machine: other protocols, forwarded packets, headers of small packets.", percent(rest))
	}
}

// proveWaiting shows that more wants to go than can: unsent bytes, a queue before the device, senders that were busy.
func (f *fullLink) proveWaiting(l *Look, fd *Finding, flows []*flow) {
	if q := l.Table(qdiscBacklog); q.Have() && f.direction == "tx" {
		if rows := q.Where("netns", f.d.netns, "device", f.d.name); len(rows) > 0 {
			if b := q.mean(q.Sum(rows), f.s.mask); b >= 1 {
				fd.proof(q, f.s, q.Asking(nil, "netns", f.d.netns, "device", f.d.name), b, measure.Bytes, fmt.Sprintf("%s wait in the queue before %s", bytes(b), clean(f.d.name)))
			}
		}
	}
	if f.direction != "tx" || len(flows) == 0 {
		return
	}
	big := flows[0]
	if u := big.same(l.Table(flowUnsent)); u != nil && u.Mean(f.s.mask) > 0 {
		fd.proof(u.table, f.s, u.Sentence(), u.Mean(f.s.mask), measure.Bytes, fmt.Sprintf("%s wait unsent in the largest connection's socket", bytes(u.Mean(f.s.mask))))
	}
	limited := l.Table(flowLimited)
	busy := big.same(limited, "busy").Mean(f.s.mask)
	rwnd, sndbuf := or(big.same(limited, "rwnd").Mean(f.s.mask), 0), or(big.same(limited, "sndbuf").Mean(f.s.mask), 0)
	if busy == busy {
		r := big.same(limited, "busy")
		fd.proof(limited, f.s, r.Sentence(), busy, limited.Unit, fmt.Sprintf("the largest connection had data under way %s of the time, limited by the receiver's window %s, by its send buffer %s",
			percent(min(busy, 1)), percent(min(rwnd, 1)), percent(min(sndbuf, 1))))
	}
	if rwnd >= 0.5 {
		fd.but(0.1, "The largest connection is limited by its receiver's window %s of the time: the receiver is no faster than the link.", percent(min(rwnd, 1)))
	}
	if sndbuf >= 0.5 {
		fd.but(0.1, "The largest connection is limited by its send buffer %s of the time.", percent(min(sndbuf, 1)))
	}
	if rtt, least := big.same(l.Table(flowRTT)), big.same(l.Table(flowMinRTT)); rtt != nil && least != nil && rtt.Mean(f.s.mask) > 2*least.Mean(f.s.mask) && least.Mean(f.s.mask) > 0 {
		fd.proof(rtt.table, f.s, rtt.Sentence(), rtt.Mean(f.s.mask), measure.Nanoseconds, fmt.Sprintf("round trip %s, at best it was %s: the rest is waiting in queues",
			duration(rtt.Mean(f.s.mask)), duration(least.Mean(f.s.mask)))).than(least.Mean(f.s.mask), "least round trip")
	}
}

// forwarded says what else fills a link that no TCP connection of the machine explains.
func forwarded(l *Look, f *fullLink) string {
	p := l.Table(protocolEvents)
	packets := l.Table(devicePackets).One("netns", f.d.netns, "device", f.d.name, "direction", f.direction).Mean(f.s.mask)
	udp := map[string]string{"tx": "OutDatagrams", "rx": "InDatagrams"}[f.direction]
	sum := func(counter string, protocols ...string) float64 {
		v := 0.0
		for _, proto := range protocols {
			v += or(p.One("netns", f.d.netns, "protocol", proto, "counter", counter).Mean(f.s.mask), 0)
		}
		return v
	}
	u, fwd := sum(udp, "Udp", "Udp6"), sum("ForwDatagrams", "Ip")+sum("OutForwDatagrams", "Ip6")
	switch {
	case !(packets > 0):
	case u >= 0.5*packets:
		return fmt.Sprintf("; UDP does, %s datagrams/s", count(u))
	case fwd >= 0.5*packets:
		return fmt.Sprintf("; %s packets/s are forwarded through the machine", count(fwd))
	case f.d.master != "":
		return "; it is a port of " + clean(f.d.master) + " and passes on what others send"
	}
	return ""
}

func (f *fullLink) advise(fd *Finding, c Culprit) {
	ns, dev := f.d.netns, shell(f.d.name)
	verify := []string{within(ns, "sar -n DEV --iface="+dev+" 1 3")}
	if f.lim.from == "its shaper lets" {
		verify = append(verify, within(ns, "tc -s qdisc show dev "+dev))
	} else {
		verify = append(verify, within(ns, "ethtool "+dev))
	}
	if c.Peer != "" {
		verify = append(verify, within(ns, "ss -tinp dst "+shell(c.Peer)))
	}
	fd.Verify = strings.Join(verify, "; ")
	if f.direction != "tx" || f.lim.from == "its shaper lets" {
		return // what the others send can't be ordered here, and the shaper is somebody's wish
	}
	if c.Kind == "process" {
		fd.Fix = &Fix{within(ns, fmt.Sprintf("tc qdisc replace dev %s root fq", dev)), within(ns, fmt.Sprintf("tc qdisc del dev %s root", dev)),
			"low: each connection gets its turn, so the others wait less; the link stays full. It replaces a root qdisc that was set up by hand"}
	}
}

func (f *fullLink) coverSymptoms(fd *Finding, flows []*flow) {
	ns, dev := f.d.netns, f.d.name
	peers := map[string]bool{}
	for _, x := range flows {
		_, p := x.pair()
		peers[p] = true
	}
	fd.covering("tcp-retransmits", func(o *Finding) bool { return o.Culprit.NetNS == ns && (o.Culprit.Peer == "" || peers[o.Culprit.Peer]) })
	// Both ends of a cable within this machine are full together: the sender is the cause.
	if f.direction == "tx" && fd.Culprit.Peer != "" {
		fd.covering("link-saturated", func(o *Finding) bool {
			return o.Culprit.Peer == fd.Culprit.Local && o.Culprit.Local == fd.Culprit.Peer && strings.Contains(o.Claim, " rx ")
		})
	}
	// So are the two ends of a veth; whoever knows a process tells more, and the sender's end is where the queue is. What fills
	// the same direction at the far end goes the other way: another trouble.
	if far, ok := f.d.far(); ok {
		fd.covering("link-saturated", func(o *Finding) bool {
			return o.Culprit.NetNS == far.netns && o.Culprit.Interface == far.name && o.direction != f.direction && (fd.Culprit.Kind == o.Culprit.Kind && f.direction == "tx" || fd.Culprit.Kind != o.Culprit.Kind && o.Culprit.Kind == "interface")
		})
		if f.direction == "rx" {
			fd.covering("net-drops", func(o *Finding) bool {
				return o.Culprit.NetNS == far.netns && o.Culprit.Name == far.name && o.Severity != High
			})
		}
	}
	// A queue that is full drops here and there: that is how TCP learns the speed. Losing a good part is its own trouble.
	fd.covering("net-drops", func(o *Finding) bool {
		return o.Culprit.NetNS == ns && o.Culprit.Name == dev && o.Severity != High
	})
}

// pidWord is a pid as the statistics have it.
func pidWord(pid int) string {
	if pid <= 0 {
		return ""
	}
	return fmt.Sprint(pid)
}
