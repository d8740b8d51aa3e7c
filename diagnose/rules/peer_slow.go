package rules

import (
	"fmt"
	"math"
	"sort"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// peerSlow finds one peer among the equals of a service that its own path limits.
func peerSlow() diagnose.Rule {
	return diagnose.Rule{
		ID: "peer-slow", Checks: "peers of a service",
		Finds: []string{facts.FlowBytes, facts.FlowUnsent},
		Uses: []string{facts.FlowUnacked, facts.FlowMSS, facts.FlowDelivery, facts.FlowRTT,
			facts.FlowMinRTT, facts.FlowRetransmits, facts.FlowLimited},
		Check: func(l *diagnose.Look) {
			for _, direction := range []string{"tx", "rx"} {
				for _, g := range services(l, direction) {
					checkService(l, g, direction)
				}
			}
		},
	}
}

// services groups connections whose peers want the same: those of one port, and those of one
// program when its ports have too few peers each (iperf3 has one server per client).
func services(l *diagnose.Look, direction string) []facts.FlowGroup {
	if !enoughPeers(l.Table(facts.FlowBytes), direction) {
		return nil
	}
	all := facts.FlowsOf(l.Table(facts.FlowBytes), direction, nil, func(f *facts.Flow) bool {
		return f.Rate > 0
	})
	type service struct {
		netns, port string
		client      bool
	}
	byPort := facts.GroupFlows(all, func(f *facts.Flow) service {
		if f.Side == "client" {
			return service{f.NetNS, f.Peerport, true}
		}
		return service{f.NetNS, f.Localport, false}
	})
	var out []facts.FlowGroup
	var few []*facts.Flow
	for _, g := range byPort {
		if len(facts.GroupFlows(g.Flows, peerName)) >= threshold.PeerLeast {
			out = append(out, g)
			continue
		}
		for _, f := range g.Flows {
			if f.Process != "" && f.Side != "client" {
				few = append(few, f)
			}
		}
	}
	return append(out, facts.GroupFlows(few, func(f *facts.Flow) [2]string {
		return [2]string{f.NetNS, f.Process}
	})...)
}

// enoughPeers reports whether enough peers are active, over all services, for one to be the odd
// one. Most machines with very many connections have them with few peers: proxies, databases,
// themselves.
func enoughPeers(t *diagnose.Table, direction string) bool {
	peer, way := t.Column("peer"), t.Column("direction")
	// by the word, and by the address that it means
	rates, merged := map[string]float64{}, map[string]float64{}
	for _, r := range t.Rows {
		if rate := r.Part(nil); rate > 0 && r.WordAt(way) == direction {
			rates[r.WordAt(peer)] += rate
		}
	}
	active := 0
	for word, rate := range rates {
		address := facts.PlainAddress(word)
		was := merged[address]
		if merged[address] = was + rate; was < threshold.PeerActive &&
			was+rate >= threshold.PeerActive {
			active++
		}
	}
	return active >= threshold.PeerLeast
}

func peerName(f *facts.Flow) string {
	_, peer := f.Pair()
	return peer
}

// peerOf is one peer of a service.
type peerOf struct {
	name    string
	flows   []*facts.Flow
	series  []float64 // B/s of payload to it or from it
	rate    float64
	waiting []float64 // bytes queued for it, see waitingFor; nil before waits is called
	ends    float64   // bit/s, see delivery; 0 before delivery is called
}

// waits returns the bytes that are queued for the peer in each cell.
func (p *peerOf) waits(l *diagnose.Look) []float64 {
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

// delivery returns the delivery rate of the peer's path, bit/s: that of its fastest connection. NaN
// when unknown.
func (p *peerOf) delivery(l *diagnose.Look) float64 {
	if p.ends == 0 {
		p.ends = measure.NaN
		for _, f := range p.flows {
			if d := f.RowIn(l.Table(facts.FlowDelivery)); d != nil {
				if m := series.Median(d.Values); m > p.ends || p.ends != p.ends {
					p.ends = m
				}
			}
		}
	}
	return p.ends
}

func checkService(l *diagnose.Look, g facts.FlowGroup, direction string) {
	t := l.Table(facts.FlowBytes)
	var peers []*peerOf
	for _, p := range facts.GroupFlows(g.Flows, peerName) {
		if p.Rate < threshold.PeerActive {
			continue
		}
		one := &peerOf{name: peerName(p.Flows[0]), flows: p.Flows, rate: p.Rate}
		var rows []*diagnose.Row
		for _, f := range p.Flows {
			rows = append(rows, f.Row)
		}
		one.series = t.Sum(rows)
		peers = append(peers, one)
	}
	if len(peers) < threshold.PeerLeast {
		return
	}
	sort.SliceStable(peers, func(i, j int) bool { return peers[i].rate < peers[j].rate })
	// At most half of the peers can be slow: the median of the others must be the normal rate.
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
			weight = series.Or(t.Part(p.waits(l), nil), 0)
			if weight < threshold.PeerBacklog*threshold.LeastShare {
				continue
			}
		} else if stepPinned(p) == 0 {
			continue
		}
		suspects = append(suspects, suspect{i, weight})
	}
	sort.SliceStable(suspects, func(i, j int) bool {
		return suspects[i].weight > suspects[j].weight
	})
	for _, x := range suspects[:min(len(suspects), threshold.PeerSuspects)] {
		rest := append(append([]*peerOf(nil), peers[:x.at]...), peers[x.at+1:]...)
		if direction == "tx" {
			checkPeer(l, g, peers[x.at], rest)
		} else {
			checkSender(l, g, peers[x.at], rest)
		}
	}
}

// waitingFor returns the bytes that are queued for the peer of a connection in each cell: unsent
// bytes in the socket, and sent bytes in queues on the path. The latter are the unacknowledged
// bytes above what a path without queues holds, which is twice the rate times the lowest round
// trip.
func waitingFor(l *diagnose.Look, f *facts.Flow) []float64 {
	unsent, unacked := f.RowIn(l.Table(facts.FlowUnsent)), f.RowIn(l.Table(facts.FlowUnacked))
	mss, least := f.RowIn(l.Table(facts.FlowMSS)), f.RowIn(l.Table(facts.FlowMinRTT)).Mean(nil)
	v := make([]float64, len(f.Row.Values))
	for c := range v {
		v[c] = series.Or(unsent.At(c), 0)
		if path := 2 * series.Or(f.Row.At(c), 0) * least / 1e9; path == path {
			v[c] += max(0, series.Or(unacked.At(c)*mss.At(c), 0)-path)
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

// stepPinned returns the speed of Ethernet, bit/s, at whose payload the peer's rate stays constant;
// 0 when there is none.
func stepPinned(p *peerOf) float64 {
	mine := series.Median(p.series)
	for _, v := range []float64{10e6, 100e6, 1e9, 2.5e9, 10e9} {
		if mine*8 >= threshold.PinLow*v && mine*8 <= threshold.PinHigh*v &&
			series.Spread(p.series) <= threshold.PinSpread*mine {
			return v
		}
	}
	return 0
}

// checkSender finds a peer that sends to this machine through a line that is full elsewhere.
func checkSender(l *diagnose.Look, g facts.FlowGroup, p *peerOf, rest []*peerOf) {
	t := l.Table(facts.FlowBytes)
	mine, step := series.Median(p.series), stepPinned(p)
	normal := series.Median(column(rest, func(o *peerOf) float64 {
		return series.Median(o.series)
	}))
	if !(mine < threshold.PeerHalf*normal) {
		return
	}
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		v := series.AtOrZero(p.series, c) * 8
		return v >= threshold.PinLow*step && v <= threshold.PinHigh*step
	})
	others := column(rest, func(o *peerOf) float64 {
		return series.Or(t.Part(o.series, s.Mask), 0)
	})
	if z := series.Deviations(mine, others, threshold.PeerFloor); !ok ||
		s.Share() < threshold.PinShare || !(z <= -threshold.PeerAway) {
		return
	}
	first := p.flows[0]
	f := l.Found(phrase.Identity(first.NetNS, p.name), diagnose.Medium, 0.75,
		diagnose.Culprit{Kind: "peer", Name: p.name, PID: first.PID, NetNS: first.NetNS,
			Local: facts.PlainAddress(first.Local), Peer: p.name},
		fmt.Sprintf("%s sends %s to %s while its %d equals send %s: %s below their median for %s, "+
			"and constantly at the payload of a %s link.", phrase.Clean(p.name),
			phrase.BytesRate(mine), serviceOf(g),
			len(rest), phrase.BytesRate(normal), phrase.Percent(1-mine/normal), s,
			phrase.LinkRate(step)))
	f.SetExplains(1)
	f.AddEvidence(t, s, t.QueryOf(nil, "netns", first.NetNS, "peer", first.Peer, "direction", "rx"),
		mine, t.Unit,
		fmt.Sprintf("%s sends %s, %s of payload, and varies by %s", phrase.Clean(p.name),
			phrase.BytesRate(mine), phrase.BitRate(mine*8),
			phrase.Percent(series.Spread(p.series)/mine))).CompareTo(normal,
		"median of the others")
	f.AddEvidence(t, s, t.QueryOf([]string{"peer"}, "netns", first.NetNS, "direction", "rx"),
		normal, t.Unit, fmt.Sprintf("the median of the %d others is %s", len(rest),
			phrase.BytesRate(normal)))
	f.AddCaveat(0, "The queue of the sender is not visible from here: it may have no more to send.")
	f.Verify = phrase.InNamespace(first.NetNS, "ss -tin dst "+phrase.Shell(p.name))
}

// serviceOf returns what the flows have in common: "nginx (port 443)", "port 2049", "iperf3", "this
// machine on port 22".
func serviceOf(g facts.FlowGroup) string {
	first, ports, names := g.Flows[0], map[string]bool{}, map[string]bool{}
	for _, f := range g.Flows {
		names[f.Process] = true
		if f.Side == "client" {
			ports[f.Peerport] = true
		} else {
			ports[f.Localport] = true
		}
	}
	switch {
	case first.Side == "client":
		return "this machine on port " + phrase.Clean(first.Peerport)
	case len(names) > 1 || first.Process == "":
		return "port " + phrase.Clean(first.Localport)
	case len(ports) > 1:
		return phrase.Clean(first.Process)
	}
	return phrase.Clean(first.Process) + " (port " + phrase.Clean(first.Localport) + ")"
}

// checkPeer reports the peer if its own path limits it.
func checkPeer(l *diagnose.Look, g facts.FlowGroup, p *peerOf, rest []*peerOf) {
	t := l.Table(facts.FlowBytes)
	middle := func(c int) float64 {
		return series.Median(column(rest, func(o *peerOf) float64 {
			return series.AtOrZero(o.series, c)
		}))
	}
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		m := middle(c)
		return m > 0 && series.AtOrZero(p.series, c) < threshold.PeerNear*m &&
			p.waits(l)[c] >= threshold.PeerBacklog
	})
	if !ok {
		return
	}
	rate := func(o *peerOf) float64 { return series.Or(t.Part(o.series, s.Mask), 0) }
	mine, others := rate(p), column(rest, rate)
	normal := series.Median(others)
	if !(mine < threshold.PeerNear*normal) || mine <= 0 {
		return
	}
	z := series.Deviations(mine, others, threshold.PeerFloor)
	logs := make([]float64, len(others))
	for i, v := range others {
		logs[i] = math.Log(max(v, 1))
	}
	zlog := (math.Log(mine) - series.Median(logs)) / max(series.Spread(logs), threshold.PeerFloor)
	z = min(series.Or(z, 0), series.Or(zlog, 0))

	waits := series.Or(t.Part(p.waits(l), s.Mask), 0)
	waitsOthers := series.Or(series.Median(column(rest, func(o *peerOf) float64 {
		return series.Or(t.Part(o.waits(l), s.Mask), 0)
	})), 0)
	fast := series.Median(column(rest, func(o *peerOf) float64 { return o.delivery(l) }))
	alone, slower := waitsOthers <= threshold.PeerBacklogOthers*waits,
		p.delivery(l) > 0 && fast >= threshold.PeerFaster*p.delivery(l)
	step := stepOf(p.delivery(l), mine*8, fast)
	far := mine < threshold.PeerHalf*normal
	switch {
	case far && (alone || slower) &&
		(z <= -threshold.PeerAway || step > 0 && z <= -threshold.PeerAwayStep):
	case !far && alone && slower && step > 0 && z <= -threshold.PeerAway:
	default:
		return
	}
	accusePeer(l, g, p, rest, s, mine, normal, z, waits, waitsOthers, fast, step)
}

// stepOf returns the speed of Ethernet at which a path ends, bit/s; 0 when it ends between two
// speeds, or the paths of the others end at the same.
func stepOf(delivery, goodput, others float64) float64 {
	if !(delivery > 0) {
		delivery = goodput
	}
	for _, step := range []float64{10e6, 100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 100e9} {
		// The last measurement of the kernel may be of a burst, and stay for seconds. Slightly
		// above the step the received rate decides.
		seen := delivery
		if seen > threshold.StepHigh*step && seen <= threshold.StepBurst*step {
			seen = goodput
		}
		if seen >= threshold.StepLow*step && seen <= threshold.StepHigh*step &&
			!(others <= 1.25*step) {
			return step
		}
	}
	return 0
}

func accusePeer(l *diagnose.Look, g facts.FlowGroup, p *peerOf, rest []*peerOf, s diagnose.Period,
	mine, normal, z, waits, waitsOthers, fast, step float64) {
	t, first := l.Table(facts.FlowBytes), p.flows[0]
	below := 1 - mine/normal
	severity, confidence, why := diagnose.Medium, 0.85, "; its path delivers no more"
	if p.delivery(l) > 0 {
		why = "; its path delivers " + phrase.BitRate(p.delivery(l))
	}
	if step > 0 {
		severity, confidence = diagnose.High, 0.95
		seen := p.delivery(l)
		if !(seen >= threshold.StepLow*step && seen <= threshold.StepHigh*step) {
			seen = mine * 8
		}
		why = fmt.Sprintf("; its path delivers %s, the payload of a %s link", phrase.BitRate(seen),
			phrase.LinkRate(step))
	}
	f := l.Found(phrase.Identity(first.NetNS, p.name), severity, confidence,
		diagnose.Culprit{Kind: "peer", Name: p.name, PID: first.PID, NetNS: first.NetNS,
			Local: facts.PlainAddress(first.Local), Peer: p.name},
		fmt.Sprintf("%s gets %s from %s while its %d equals get %s: "+
			"%s below their median for %s%s.",
			phrase.Clean(p.name), phrase.BytesRate(mine), serviceOf(g), len(rest),
			phrase.BytesRate(normal), phrase.Percent(below), s, why))
	missing := 0.0
	for _, o := range append([]*peerOf{p}, rest...) {
		missing += max(0, normal-series.Or(t.Part(o.series, s.Mask), 0))
	}
	f.SetExplains((normal - mine) / max(missing, normal-mine))
	ports := []string{"netns", first.NetNS, "localport", first.Localport, "direction", "tx"}
	switch {
	case first.Side == "client":
		ports = []string{"netns", first.NetNS, "peerport", first.Peerport, "direction", "tx"}
	case rest[0].flows[0].Localport != first.Localport:
		ports = []string{"netns", first.NetNS, "process", first.Process, "direction", "tx"}
	}
	f.AddEvidence(t, s, t.QueryOf(nil, append(ports, "peer", first.Peer)...), mine, t.Unit,
		fmt.Sprintf("%s gets %s", phrase.Clean(p.name), phrase.BytesRate(mine))).CompareTo(normal,
		"median of the others")
	f.AddEvidence(t, s, t.QueryOf([]string{"peer"}, ports...), normal, t.Unit,
		fmt.Sprintf("the median of the %d others is %s; the peer is %s robust deviations below",
			len(rest), phrase.BytesRate(normal), phrase.Digits(min(-z, 999))))
	proveWaitingFor(l, f, p, s, waits, waitsOthers)
	if p.delivery(l) > 0 {
		d := l.Table(facts.FlowDelivery)
		text := "its path delivers " + phrase.BitRate(p.delivery(l))
		if fast > 0 {
			text += ", the others " + phrase.BitRate(fast)
		}
		e := f.AddEvidence(d, s, d.QueryOf(nil, "netns", first.NetNS, "peer", first.Peer),
			p.delivery(l), d.Unit, text)
		if fast > 0 {
			e.CompareTo(fast, "median of the others")
		}
	}
	if rtt := first.RowIn(l.Table(facts.FlowRTT)); rtt.Mean(s.Mask) > 0 {
		text := "round trip " + phrase.Duration(rtt.Mean(s.Mask))
		e := f.AddEvidence(rtt.Table, s, rtt.Query(), rtt.Mean(s.Mask), rtt.Table.Unit, text)
		if v := series.Median(column(rest, func(o *peerOf) float64 {
			return o.flows[0].RowIn(l.Table(facts.FlowRTT)).Mean(s.Mask)
		})); v > 0 {
			e.Text += ", the others " + phrase.Duration(v)
			e.CompareTo(v, "median of the others")
		}
	}
	rwnd := series.Or(first.RowIn(l.Table(facts.FlowLimited), "rwnd").Mean(s.Mask), 0)
	if rwnd >= 0.5 {
		f.AddCaveat(0.2, "The receive window limits it %s of the time: the peer reads slowly, "+
			"rather than its link.", phrase.Percent(min(rwnd, 1)))
	}
	if step == 0 {
		f.AddCaveat(0.1, "The rate of its path is no speed of Ethernet: loss, a shaper or a long "+
			"path are as likely as a slow link.")
	}
	f.Verify = phrase.InNamespace(first.NetNS, fmt.Sprintf("ss -tin dst %s", phrase.Shell(p.name)))
	f.Cover("tcp-retransmits", func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == first.NetNS && o.Culprit.Peer == p.name
	})
	// When the other end is visible too, its full link is the same fault seen from there. So is the
	// port of a switch on the path, which carries the peer's data and headers, of connections that
	// are not its own.
	f.Cover("link-saturated", func(o *diagnose.Finding) bool {
		if o.Culprit.NetNS == first.NetNS || step == 0 {
			return false
		}
		if o.Culprit.Peer == "" {
			carried := float64(o.Evidence[0].Value)
			return o.Evidence[0].Unit == string(measure.BitsPerSec) && carried >= mine*8 &&
				carried <= threshold.PeerHeaders*mine*8
		}
		return o.Culprit.Local == p.name && o.Culprit.Peer == facts.PlainAddress(first.Local)
	})
}

// proveWaitingFor adds the evidence that the peer asks for more than it gets.
func proveWaitingFor(l *diagnose.Look, f *diagnose.Finding, p *peerOf, s diagnose.Period, waits,
	waitsOthers float64) {
	first := p.flows[0]
	text := fmt.Sprintf("%s queued for it: it asks for more than it gets; for the others %s",
		phrase.Bytes(waits), phrase.Bytes(waitsOthers))
	u := l.Table(facts.FlowUnsent)
	unsent := 0.0
	for _, x := range p.flows {
		unsent += series.Or(x.RowIn(u).Part(s.Mask), 0)
	}
	e := f.AddEvidence(u, s, u.QueryOf(nil, "netns", first.NetNS, "peer", first.Peer), unsent,
		u.Unit, text)
	if unsent < 0.9*waits {
		e.Text += fmt.Sprintf(" (%s of it unsent in the socket, the rest in queues on the path)",
			phrase.Bytes(unsent))
	}
}
