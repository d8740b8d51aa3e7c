package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// tcpRetransmits finds that a large share of TCP segments is retransmitted, and to which peer.
func tcpRetransmits() diagnose.Rule {
	return diagnose.Rule{
		ID: "tcp-retransmits", Checks: "retransmits", Resource: "network",
		Needs: []string{facts.ProtocolEvents},
		Uses: []string{facts.FlowRetransmits, facts.FlowBytes, facts.FlowSegments, facts.FlowRTT,
			facts.FlowDelivery},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.ProtocolEvents)
			counted, most := false, 0.0
			for _, netns := range t.Keys("netns") {
				again := t.One("netns", netns, "protocol", "Tcp", "counter", "RetransSegs")
				out := t.One("netns", netns, "protocol", "Tcp", "counter", "OutSegs")
				if again.Mean(nil) == again.Mean(nil) && out.Mean(nil) == out.Mean(nil) {
					counted = true
					if out.Mean(nil) > 100 {
						most = max(most, again.Mean(nil)/out.Mean(nil))
					}
				}
				// OutSegs does not include retransmits (RFC 4022, tcpOutSegs).
				s, ok := diagnose.Lasting(t,
					func(c int) bool {
						return again.At(c) == again.At(c) &&
							out.At(c) == out.At(c)
					}, func(c int) bool {
						return again.At(c) >= threshold.RetransmitRate &&
							again.At(c) >= threshold.RetransmitShare*(out.At(c)+again.At(c))
					})
				if ok {
					accuseLoss(l, netns, again, out, s)
				}
			}
			if !counted {
				l.Unchecked("the counters RetransSegs and OutSegs are missing")
			} else if len(l.Findings) == 0 {
				l.Fine("%s of the TCP segments retransmitted", phrase.Percent(most))
			}
		},
	}
}

func accuseLoss(l *diagnose.Look, netns string, again, out *diagnose.Row, s diagnose.Period) {
	t, flows := l.Table(facts.ProtocolEvents), l.Table(facts.FlowRetransmits)
	share := lossOf(again, out, s.Mask)
	severity := diagnose.Medium
	if share >= threshold.RetransmitHigh {
		severity = diagnose.High
	}
	type peer struct {
		name, process string
		pid           int
		rate          float64
	}
	var peers []peer
	at, total := map[string]int{}, 0.0
	for _, f := range flowsIn(flows, netns, s.Mask) {
		_, name := f.Pair()
		i, ok := at[name]
		if !ok {
			i = len(peers)
			at[name] = i
			peers = append(peers, peer{name: name, process: f.Process, pid: f.PID})
		}
		peers[i].rate += f.Rate
		total += f.Rate
	}
	best := -1
	for i := range peers {
		if best < 0 || peers[i].rate > peers[best].rate {
			best = i
		}
	}
	culprit, identity, cause, explained := diagnose.Culprit{Kind: "host", Name: "tcp",
		NetNS: netns},
		phrase.Identity(netns, "tcp"), "", measure.NaN
	if best >= 0 && peers[best].rate >= threshold.RetransmitPeer*total {
		p := peers[best]
		explained = min(p.rate/again.Mean(s.Mask), 1)
		culprit = diagnose.Culprit{Kind: "peer", Name: p.name, PID: p.pid, NetNS: netns,
			Peer: p.name}
		identity = phrase.Identity(netns, p.name)
		cause = fmt.Sprintf("; %s of them go to %s, from %s", phrase.Percent(p.rate/total),
			phrase.Clean(p.name), phrase.ProcessName(p.process, p.pid))
	} else if len(peers) > 1 {
		cause = fmt.Sprintf("; they go to %d peers, none of which has most of them", len(peers))
	}
	f := l.Found(identity, severity, 0.85, culprit,
		fmt.Sprintf("%s of the TCP segments%s are retransmitted, %s/s for %s%s.",
			phrase.Percent(share), phrase.NamespaceSuffix(netns), phrase.Count(again.Mean(s.Mask)),
			s, cause))
	f.SetExplains(explained)
	f.SetEffect(share)
	f.Subject = facts.DroppedPackets{At: facts.DropsOfTCP, NetNS: netns}
	f.AddEvidence(t, s, again.Query(), again.Mean(s.Mask), t.Unit,
		fmt.Sprintf("%s segments/s retransmitted", phrase.Count(again.Mean(s.Mask))))
	f.AddEvidence(t, s, out.Query(), out.Mean(s.Mask), t.Unit,
		fmt.Sprintf("%s segments/s sent first", phrase.Count(out.Mean(s.Mask))))
	if best >= 0 {
		p := peers[best]
		f.AddEvidence(flows, s, flows.QueryOf([]string{"peer"}, "netns", netns, "peer",
			rawPeer(flows, netns, p.name)), p.rate, flows.Unit,
			fmt.Sprintf("%s: %s segments/s retransmitted", phrase.Clean(p.name),
				phrase.Count(p.rate)))
	}
	// Spurious retransmits: the other end reports by DSACK that it had them already. The packets
	// were late, not lost.
	if d := t.One("netns", netns, "protocol", "TcpExt", "counter",
		"TCPDSACKRecv"); d.Mean(s.Mask) >= 0.5*again.Mean(s.Mask) {
		f.AddEvidence(t, s, d.Query(), d.Mean(s.Mask), t.Unit,
			fmt.Sprintf("%s/s of them had arrived already (DSACK)", phrase.Count(d.Mean(s.Mask))))
		f.AddCaveat(0.2, "Half or more of them had arrived already: packets are late or "+
			"reordered, not lost.")
	}
	if r := t.One("netns", netns, "protocol", "TcpExt", "counter",
		"TCPTimeouts"); r.Mean(s.Mask) >= 0.5 {
		f.AddEvidence(t, s, r.Query(), r.Mean(s.Mask), t.Unit,
			fmt.Sprintf("%s times per second a connection paused until its retransmission timeout",
				phrase.Count(r.Mean(s.Mask))))
	}
	f.AddCaveat(0, "The place of the loss on the path is not visible from this end.")
	f.Verify = phrase.InNamespace(netns, "nstat -z TcpRetransSegs TcpOutSegs; sleep 3") + "; " +
		phrase.InNamespace(netns, "nstat TcpRetransSegs TcpOutSegs")
	if culprit.Peer != "" {
		f.Verify += "; " + phrase.InNamespace(netns, "ss -ti dst "+phrase.Shell(culprit.Peer))
	}
}

// flowsIn returns the rows of a tcp.flow table without direction as flows of one namespace.
func flowsIn(t *diagnose.Table, netns string, mask []bool) []*facts.Flow {
	return facts.FlowsOf(t, "", mask, func(f *facts.Flow) bool { return f.NetNS == netns })
}

// rawPeer returns the address of a peer as a word of the statistic.
func rawPeer(t *diagnose.Table, netns, plain string) string {
	for _, r := range t.Where("netns", netns) {
		if facts.PlainAddress(r.Word("peer")) == plain {
			return r.Word("peer")
		}
	}
	return plain
}

// lossOf returns the mean of lost / (handled + lost).
func lossOf(lost, handled *diagnose.Row, mask []bool) float64 {
	a, b := lost.Mean(mask), handled.Mean(mask)
	if !(a+b > 0) {
		return measure.NaN
	}
	return a / (a + b)
}
