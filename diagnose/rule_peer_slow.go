package diagnose

import (
	"fmt"
	"math"
	"sort"

	"culprit/measure"
)

// When one peer counts as held back among equals.
const (
	// peerLeast: with fewer than four there is no telling which one is the odd one.
	peerLeast = 4
	// peerHalf: a peer below half of the others' median gets something else than they do.
	peerHalf = 0.5
	// peerNear: nearer to the median than peerHalf all signs must agree: a step of Ethernet at which its path ends, nothing
	// waiting for the others, paths of the others that deliver far more. A link of 100 Mbit/s among clients that ask
	// for 170 each shows as 56 % of them.
	peerNear = 0.85
	// peerAway: robust standard deviations from the others' median, of rates or of their logarithms. Ten equal clients of
	// a healthy server differ by less than a thousandth; clients of all kinds differ by factors, and then nobody stands out.
	peerAway = 6.0
	// peerAwayStep is enough when the peer's path delivers at a step of Ethernet and the others' paths deliver more.
	peerAwayStep = 3.5
	// peerFloor: the least spread assumed of the others, a share of their median.
	peerFloor = 0.02
	// peerBacklog: bytes that wait for the peer: two segments. Who merely asks less has nothing waiting.
	peerBacklog = 3000.0
	// peerBacklogOthers: the others' waiting bytes, as a share of the peer's. When all wait alike, the limit is common.
	peerBacklogOthers = 0.25
	// peerFaster: the others' paths deliver at least this many times as much; the other sign that the limit is the peer's own.
	peerFaster = 2.0
	// peerActive: bytes a second; who gets less than that is not a client at work.
	peerActive = 1000.0
	// stepLow and stepHigh: payload of a full line as a share of its speed: 0.94-0.95 with full frames, less with small ones.
	stepLow, stepHigh = 0.75, 1.01
	// stepBurst: what a path's last measurement may lie above a line's speed, when buffers on the way took a burst.
	stepBurst = 1.2
	// pinLow, pinHigh, pinSpread: whoever sends to us has its queue elsewhere, out of sight. Only a rate that sits at the
	// payload of a full line (0.91-0.97 of its speed by frame size and options) and does not move tells of one.
	pinLow, pinHigh, pinSpread = 0.90, 0.975, 0.03
	// peerHeaders: what a device on the way carries, as a multiple of the payload: headers of small segments too.
	peerHeaders = 1.15
	// pinShare: of the time.
	pinShare = 0.8
)

// peerSlow finds one peer among the equals of a service whose own path holds it back.
func peerSlow() Rule {
	return Rule{
		ID: "peer-slow", Checks: "peers of a service",
		Finds: []string{flowBytes, flowUnsent},
		Uses:  []string{flowUnacked, flowMSS, flowDelivery, flowRTT, flowMinRTT, flowRetransmits, flowLimited},
		Check: func(l *Look) {
			for _, direction := range []string{"tx", "rx"} {
				for _, g := range services(l, direction) {
					checkService(l, g, direction)
				}
			}
		},
	}
}

// services groups the connections whose peers want the same: those of one port, and of one program where its ports have too
// few peers each (a server for each client, as iperf3 has).
func services(l *Look, direction string) []group {
	if !enoughPeers(l.Table(flowBytes), direction) {
		return nil
	}
	all := flowsOf(l.Table(flowBytes), direction, nil, func(f *flow) bool { return f.rate > 0 })
	type service struct {
		netns, port string
		client      bool
	}
	byPort := groups(all, func(f *flow) service {
		if f.side == "client" {
			return service{f.netns, f.peerport, true}
		}
		return service{f.netns, f.localport, false}
	})
	var out []group
	var few []*flow
	for _, g := range byPort {
		if len(groups(g.flows, peerName)) >= peerLeast {
			out = append(out, g)
			continue
		}
		for _, f := range g.flows {
			if f.process != "" && f.side != "client" {
				few = append(few, f)
			}
		}
	}
	return append(out, groups(few, func(f *flow) [2]string { return [2]string{f.netns, f.process} })...)
}

// enoughPeers says whether so many peers are at work, of all services together, that one of them could be the odd one. Most machines with very many connections
// have them with few: proxies, databases, themselves.
func enoughPeers(t *Table, direction string) bool {
	peer, way := t.column("peer"), t.column("direction")
	rates, merged := map[string]float64{}, map[string]float64{} // by the word as it stands, and by the address that it means
	for _, r := range t.Rows {
		if rate := r.Part(nil); rate > 0 && r.word(way) == direction {
			rates[r.word(peer)] += rate
		}
	}
	active := 0
	for word, rate := range rates {
		address := plainAddress(word)
		was := merged[address]
		if merged[address] = was + rate; was < peerActive && was+rate >= peerActive {
			active++
		}
	}
	return active >= peerLeast
}

func peerName(f *flow) string {
	_, peer := f.pair()
	return peer
}

// peerOf is one peer of a service.
type peerOf struct {
	name    string
	flows   []*flow
	series  []float64 // B/s of payload to it, or from it
	rate    float64
	waiting []float64 // bytes that wait for it, see waitingFor; nil until asked for, by waits
	ends    float64   // bit/s, see delivery; 0 until asked for
}

// waits gives the bytes that wait for the peer in each cell.
func (p *peerOf) waits(l *Look) []float64 {
	if p.waiting == nil {
		p.waiting = make([]float64, len(p.series))
		for _, f := range p.flows {
			for c, v := range waitingFor(l, f) {
				p.waiting[c] += v
			}
		}
	}
	return p.waiting
}

// delivery gives what the peer's path was seen to deliver, bit/s: the fastest of its connections. NaN when it is not told.
func (p *peerOf) delivery(l *Look) float64 {
	if p.ends == 0 {
		p.ends = measure.NaN
		for _, f := range p.flows {
			if d := f.same(l.Table(flowDelivery)); d != nil {
				if m := median(d.Values); m > p.ends || p.ends != p.ends {
					p.ends = m
				}
			}
		}
	}
	return p.ends
}

// peerSuspects is how many peers of a service are looked at closely, those with most data waiting: where more are slow at
// once, it is no single one's trouble. A server may have tens of thousands, and each suspect is held against all.
const peerSuspects = 8

func checkService(l *Look, g group, direction string) {
	t := l.Table(flowBytes)
	var peers []*peerOf
	for _, p := range groups(g.flows, peerName) {
		if p.rate < peerActive {
			continue
		}
		one := &peerOf{name: peerName(p.flows[0]), flows: p.flows, rate: p.rate}
		var rows []*Row
		for _, f := range p.flows {
			rows = append(rows, f.row)
		}
		one.series = t.Sum(rows)
		peers = append(peers, one)
	}
	if len(peers) < peerLeast {
		return
	}
	sort.SliceStable(peers, func(i, j int) bool { return peers[i].rate < peers[j].rate })
	// Half of them can be the odd ones at most: the others' median must still be what is normal.
	normal := peers[len(peers)/2].rate
	type suspect struct {
		at     int
		weight float64
	}
	var suspects []suspect
	for i, p := range peers[:len(peers)/2] {
		if p.rate >= normal {
			break
		}
		weight := p.rate
		if direction == "tx" {
			weight = or(t.part(p.waits(l), nil), 0)
			if weight < peerBacklog*leastShare {
				continue
			}
		} else if stepPinned(p) == 0 {
			continue
		}
		suspects = append(suspects, suspect{i, weight})
	}
	sort.SliceStable(suspects, func(i, j int) bool { return suspects[i].weight > suspects[j].weight })
	for _, x := range suspects[:min(len(suspects), peerSuspects)] {
		rest := append(append([]*peerOf(nil), peers[:x.at]...), peers[x.at+1:]...)
		if direction == "tx" {
			checkPeer(l, g, peers[x.at], rest)
		} else {
			checkSender(l, g, peers[x.at], rest)
		}
	}
}

// waitingFor gives the bytes that wait for a connection's peer in each cell: those that the socket has not sent, and those sent
// that stand in a queue on the way. The latter are what is not acknowledged beyond what a path without queues would hold:
// twice the rate times the least round trip that was seen.
func waitingFor(l *Look, f *flow) []float64 {
	unsent, unacked := f.same(l.Table(flowUnsent)), f.same(l.Table(flowUnacked))
	mss, least := f.same(l.Table(flowMSS)), f.same(l.Table(flowMinRTT)).Mean(nil)
	v := make([]float64, len(f.row.Values))
	for c := range v {
		v[c] = or(unsent.At(c), 0)
		if path := 2 * or(f.row.At(c), 0) * least / 1e9; path == path {
			v[c] += max(0, or(unacked.At(c)*mss.At(c), 0)-path)
		}
	}
	return v
}

func column(peers []*peerOf, of func(*peerOf) float64) []float64 {
	v := make([]float64, len(peers))
	for i, p := range peers {
		v[i] = of(p)
	}
	return v
}

// stepPinned gives the speed of Ethernet, bit/s, at whose payload the peer's rate sits without moving; 0 when it does not.
func stepPinned(p *peerOf) float64 {
	mine := median(p.series)
	for _, v := range []float64{10e6, 100e6, 1e9, 2.5e9, 10e9} {
		if mine*8 >= pinLow*v && mine*8 <= pinHigh*v && spread(p.series) <= pinSpread*mine {
			return v
		}
	}
	return 0
}

// checkSender finds a peer that sends to us through a line that is full elsewhere.
func checkSender(l *Look, g group, p *peerOf, rest []*peerOf) {
	t := l.Table(flowBytes)
	mine, step := median(p.series), stepPinned(p)
	normal := median(column(rest, func(o *peerOf) float64 { return median(o.series) }))
	if !(mine < peerHalf*normal) {
		return
	}
	s, ok := lasting(t, nil, func(c int) bool {
		v := at0(p.series, c) * 8
		return v >= pinLow*step && v <= pinHigh*step
	})
	others := column(rest, func(o *peerOf) float64 { return or(t.part(o.series, s.mask), 0) })
	if z := away(mine, others, peerFloor); !ok || s.share() < pinShare || !(z <= -peerAway) {
		return
	}
	first := p.flows[0]
	f := l.Found(slot(first.netns, p.name), Medium, 0.75, Culprit{Kind: "peer", Name: p.name, PID: first.pid, NetNS: first.netns, Local: plainAddress(first.local), Peer: p.name},
		fmt.Sprintf("%s sends %s to %s where its %d equals send %s: %s below their median for %s, and steadily at what a link of %s carries.", clean(p.name), bytesRate(mine), serviceOf(g),
			len(rest), bytesRate(normal), percent(1-mine/normal), s, linkRate(step)))
	f.explains(1)
	f.proof(t, s, t.Asking(nil, "netns", first.netns, "peer", first.peer, "direction", "rx"), mine, t.Unit,
		fmt.Sprintf("%s sends %s, that is %s of payload, and varies by %s", clean(p.name), bytesRate(mine), bitRate(mine*8), percent(spread(p.series)/mine))).than(normal, "median of the others")
	f.proof(t, s, t.Asking([]string{"peer"}, "netns", first.netns, "direction", "rx"), normal, t.Unit, fmt.Sprintf("the median of the %d others is %s", len(rest), bytesRate(normal)))
	f.but(0, "What waits at the sender can't be seen from here: it could have no more to send than that.")
	f.Verify = within(first.netns, "ss -tin dst "+shell(p.name))
}

// serviceOf names what the flows have in common: "nginx (port 443)", "port 2049", "iperf3", "this machine on port 22".
func serviceOf(g group) string {
	first, ports, names := g.flows[0], map[string]bool{}, map[string]bool{}
	for _, f := range g.flows {
		names[f.process] = true
		if f.side == "client" {
			ports[f.peerport] = true
		} else {
			ports[f.localport] = true
		}
	}
	switch {
	case first.side == "client":
		return "this machine by port " + clean(first.peerport)
	case len(names) > 1 || first.process == "":
		return "port " + clean(first.localport)
	case len(ports) > 1:
		return clean(first.process)
	}
	return clean(first.process) + " (port " + clean(first.localport) + ")"
}

// checkPeer finds the peer if it is held back by its own path.
func checkPeer(l *Look, g group, p *peerOf, rest []*peerOf) {
	t := l.Table(flowBytes)
	middle := func(c int) float64 {
		return median(column(rest, func(o *peerOf) float64 { return at0(o.series, c) }))
	}
	s, ok := lasting(t, nil, func(c int) bool {
		m := middle(c)
		return m > 0 && at0(p.series, c) < peerNear*m && p.waits(l)[c] >= peerBacklog
	})
	if !ok {
		return
	}
	rate := func(o *peerOf) float64 { return or(t.part(o.series, s.mask), 0) }
	mine, others := rate(p), column(rest, rate)
	normal := median(others)
	if !(mine < peerNear*normal) || mine <= 0 {
		return
	}
	z := away(mine, others, peerFloor)
	logs := make([]float64, len(others))
	for i, v := range others {
		logs[i] = math.Log(max(v, 1))
	}
	zlog := (math.Log(mine) - median(logs)) / max(spread(logs), peerFloor)
	z = min(or(z, 0), or(zlog, 0))

	waits := or(t.part(p.waits(l), s.mask), 0)
	waitsOthers := or(median(column(rest, func(o *peerOf) float64 { return or(t.part(o.waits(l), s.mask), 0) })), 0)
	fast := median(column(rest, func(o *peerOf) float64 { return o.delivery(l) }))
	alone, slower := waitsOthers <= peerBacklogOthers*waits, p.delivery(l) > 0 && fast >= peerFaster*p.delivery(l)
	step := stepOf(p.delivery(l), mine*8, fast)
	far := mine < peerHalf*normal
	switch {
	case far && (alone || slower) && (z <= -peerAway || step > 0 && z <= -peerAwayStep):
	case !far && alone && slower && step > 0 && z <= -peerAway:
	default:
		return
	}
	accusePeer(l, g, p, rest, s, mine, normal, z, waits, waitsOthers, fast, step)
}

// stepOf gives the speed of Ethernet at which a path is seen to end, bit/s; 0 when it ends between steps or the others'
// paths end at the same.
func stepOf(delivery, goodput, others float64) float64 {
	if !(delivery > 0) {
		delivery = goodput
	}
	for _, step := range []float64{10e6, 100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 100e9} {
		// What the kernel last measured of a path may be of a burst, and stand for seconds: a little above the step what arrives is the witness.
		seen := delivery
		if seen > stepHigh*step && seen <= stepBurst*step {
			seen = goodput
		}
		if seen >= stepLow*step && seen <= stepHigh*step && !(others <= 1.25*step) {
			return step
		}
	}
	return 0
}

func accusePeer(l *Look, g group, p *peerOf, rest []*peerOf, s spell, mine, normal, z, waits, waitsOthers, fast, step float64) {
	t, first := l.Table(flowBytes), p.flows[0]
	below := 1 - mine/normal
	severity, confidence, why := Medium, 0.85, "; its path delivers no more"
	if p.delivery(l) > 0 {
		why = "; its path delivers " + bitRate(p.delivery(l))
	}
	if step > 0 {
		severity, confidence = High, 0.95
		seen := p.delivery(l)
		if !(seen >= stepLow*step && seen <= stepHigh*step) {
			seen = mine * 8
		}
		why = fmt.Sprintf("; its path delivers %s, as a link of %s does", bitRate(seen), linkRate(step))
	}
	f := l.Found(slot(first.netns, p.name), severity, confidence, Culprit{Kind: "peer", Name: p.name, PID: first.pid, NetNS: first.netns, Local: plainAddress(first.local), Peer: p.name},
		fmt.Sprintf("%s gets %s from %s where its %d equals get %s: %s below their median for %s%s.", clean(p.name), bytesRate(mine), serviceOf(g), len(rest), bytesRate(normal), percent(below), s, why))
	missing := 0.0
	for _, o := range append([]*peerOf{p}, rest...) {
		missing += max(0, normal-or(t.part(o.series, s.mask), 0))
	}
	f.explains((normal - mine) / max(missing, normal-mine))
	ports := []string{"netns", first.netns, "localport", first.localport, "direction", "tx"}
	switch {
	case first.side == "client":
		ports = []string{"netns", first.netns, "peerport", first.peerport, "direction", "tx"}
	case rest[0].flows[0].localport != first.localport:
		ports = []string{"netns", first.netns, "process", first.process, "direction", "tx"}
	}
	f.proof(t, s, t.Asking(nil, append(ports, "peer", first.peer)...), mine, t.Unit, fmt.Sprintf("%s gets %s", clean(p.name), bytesRate(mine))).than(normal, "median of the others")
	f.proof(t, s, t.Asking([]string{"peer"}, ports...), normal, t.Unit, fmt.Sprintf("the median of the %d others is %s; it lies %s robust deviations below", len(rest), bytesRate(normal), digits(min(-z, 999))))
	proveWaitingFor(l, f, p, s, waits, waitsOthers)
	if p.delivery(l) > 0 {
		d := l.Table(flowDelivery)
		text := "its path delivers " + bitRate(p.delivery(l))
		if fast > 0 {
			text += ", those of the others " + bitRate(fast)
		}
		e := f.proof(d, s, d.Asking(nil, "netns", first.netns, "peer", first.peer), p.delivery(l), d.Unit, text)
		if fast > 0 {
			e.than(fast, "median of the others")
		}
	}
	if rtt := first.same(l.Table(flowRTT)); rtt.Mean(s.mask) > 0 {
		text := "round trip " + duration(rtt.Mean(s.mask))
		e := f.proof(rtt.table, s, rtt.Sentence(), rtt.Mean(s.mask), rtt.table.Unit, text)
		if v := median(column(rest, func(o *peerOf) float64 { return o.flows[0].same(l.Table(flowRTT)).Mean(s.mask) })); v > 0 {
			e.Text += ", those of the others " + duration(v)
			e.than(v, "median of the others")
		}
	}
	rwnd := or(first.same(l.Table(flowLimited), "rwnd").Mean(s.mask), 0)
	if rwnd >= 0.5 {
		f.but(0.2, "Its receiver's window limits it %s of the time: the peer itself reads slowly, rather than its link.", percent(min(rwnd, 1)))
	}
	if step == 0 {
		f.but(0.1, "What its path delivers is not a speed that Ethernet has: loss, a shaper or a long way are as likely as a slow link.")
	}
	f.Verify = within(first.netns, fmt.Sprintf("ss -tin dst %s", shell(p.name)))
	f.covering("tcp-retransmits", func(o *Finding) bool { return o.Culprit.NetNS == first.netns && o.Culprit.Peer == p.name })
	// Where the peer's end is in sight too, its full link is the same trouble seen from there; and so is the port of a switch on the way to it, which
	// carries what the peer gets and headers, of connections that are none of its own.
	f.covering("link-saturated", func(o *Finding) bool {
		if o.Culprit.NetNS == first.netns || step == 0 {
			return false
		}
		if o.Culprit.Peer == "" {
			carried := float64(o.Evidence[0].Value)
			return o.Evidence[0].Unit == string(measure.BitsPerSec) && carried >= mine*8 && carried <= peerHeaders*mine*8
		}
		return o.Culprit.Local == p.name && o.Culprit.Peer == plainAddress(first.local)
	})
}

// proveWaitingFor shows that the peer asks for more than it gets.
func proveWaitingFor(l *Look, f *Finding, p *peerOf, s spell, waits, waitsOthers float64) {
	first := p.flows[0]
	text := fmt.Sprintf("%s wait for it, it asks for more than it gets; for the others %s", bytes(waits), bytes(waitsOthers))
	u := l.Table(flowUnsent)
	unsent := 0.0
	for _, x := range p.flows {
		unsent += or(x.same(u).Part(s.mask), 0)
	}
	e := f.proof(u, s, u.Asking(nil, "netns", first.netns, "peer", first.peer), unsent, u.Unit, text)
	if unsent < 0.9*waits {
		e.Text += fmt.Sprintf(" (%s of it unsent in the socket, the rest in queues on the way)", bytes(unsent))
	}
}
