package diagnose

import (
	"fmt"

	"culprit/measure"
)

// When retransmitted segments count.
const (
	// retransmitShare of the segments sent: loss at a hundredth limits one TCP connection of 1 ms round trip and 1,448 B to
	// about 140 Mbit/s (Mathis), of 20 ms to 7.
	retransmitShare = 0.01
	// retransmitHigh: a twentieth is a crawl.
	retransmitHigh = 0.05
	// retransmitRate: segments a second, so that a machine that sends three packets is not judged by one.
	retransmitRate = 10.0
	// retransmitPeer: whose share makes a peer the one it goes wrong with.
	retransmitPeer = 0.6
)

// tcpRetransmits finds that a good part of what TCP sends must be sent again, and to whom.
func tcpRetransmits() Rule {
	return Rule{
		ID: "tcp-retransmits", Checks: "retransmits", Resource: "network",
		Needs: []string{protocolEvents},
		Uses:  []string{flowRetransmits, flowBytes, flowSegments, flowRTT, flowDelivery},
		Check: func(l *Look) {
			t := l.Table(protocolEvents)
			told, most := false, 0.0
			for _, netns := range t.Keys("netns") {
				again := t.One("netns", netns, "protocol", "Tcp", "counter", "RetransSegs")
				out := t.One("netns", netns, "protocol", "Tcp", "counter", "OutSegs")
				if again.Mean(nil) == again.Mean(nil) && out.Mean(nil) == out.Mean(nil) {
					told = true
					if out.Mean(nil) > 100 {
						most = max(most, again.Mean(nil)/out.Mean(nil))
					}
				}
				// OutSegs leaves those out that were sent again (RFC 4022, tcpOutSegs).
				s, ok := lasting(t, func(c int) bool { return again.At(c) == again.At(c) && out.At(c) == out.At(c) }, func(c int) bool {
					return again.At(c) >= retransmitRate && again.At(c) >= retransmitShare*(out.At(c)+again.At(c))
				})
				if ok {
					accuseLoss(l, netns, again, out, s)
				}
			}
			if !told {
				l.Unchecked("RetransSegs and OutSegs are not among the counters")
			} else if len(l.findings) == 0 {
				l.Fine("%s of TCP's segments sent again", percent(most))
			}
		},
	}
}

func accuseLoss(l *Look, netns string, again, out *Row, s spell) {
	t, flows := l.Table(protocolEvents), l.Table(flowRetransmits)
	share := lossOf(again, out, s.mask)
	severity := Medium
	if share >= retransmitHigh {
		severity = High
	}
	type peer struct {
		name, process string
		pid           int
		rate          float64
	}
	var peers []peer
	at, total := map[string]int{}, 0.0
	for _, f := range flowsIn(flows, netns, s.mask) {
		_, name := f.pair()
		i, ok := at[name]
		if !ok {
			i = len(peers)
			at[name] = i
			peers = append(peers, peer{name: name, process: f.process, pid: f.pid})
		}
		peers[i].rate += f.rate
		total += f.rate
	}
	best := -1
	for i := range peers {
		if best < 0 || peers[i].rate > peers[best].rate {
			best = i
		}
	}
	culprit, identity, who, explained := Culprit{Kind: "host", Name: "tcp", NetNS: netns}, slot(netns, "tcp"), "", measure.NaN
	if best >= 0 && peers[best].rate >= retransmitPeer*total {
		p := peers[best]
		explained = min(p.rate/again.Mean(s.mask), 1)
		culprit = Culprit{Kind: "peer", Name: p.name, PID: p.pid, NetNS: netns, Peer: p.name}
		identity = slot(netns, p.name)
		who = fmt.Sprintf("; %s of them go to %s, from %s", percent(p.rate/total), clean(p.name), named(p.process, p.pid))
	} else if len(peers) > 1 {
		who = fmt.Sprintf("; they go to %d peers, to none of them most", len(peers))
	}
	f := l.Found(identity, severity, 0.85, culprit,
		fmt.Sprintf("%s of TCP's segments%s must be sent again, %s/s for %s%s.", percent(share), inside(netns), count(again.Mean(s.mask)), s, who))
	f.explains(explained)
	f.loses(share)
	f.proof(t, s, again.Sentence(), again.Mean(s.mask), t.Unit, fmt.Sprintf("%s segments/s sent again", count(again.Mean(s.mask))))
	f.proof(t, s, out.Sentence(), out.Mean(s.mask), t.Unit, fmt.Sprintf("%s segments/s sent for the first time", count(out.Mean(s.mask))))
	if best >= 0 {
		p := peers[best]
		f.proof(flows, s, flows.Asking([]string{"peer"}, "netns", netns, "peer", rawPeer(flows, netns, p.name)), p.rate, flows.Unit, fmt.Sprintf("%s: %s segments/s sent again", clean(p.name), count(p.rate)))
	}
	// Sent again for nothing: the other end says by DSACK that it had them already. Then packets were late, not lost.
	if d := t.One("netns", netns, "protocol", "TcpExt", "counter", "TCPDSACKRecv"); d.Mean(s.mask) >= 0.5*again.Mean(s.mask) {
		f.proof(t, s, d.Sentence(), d.Mean(s.mask), t.Unit, fmt.Sprintf("%s/s of them had arrived already (DSACK)", count(d.Mean(s.mask))))
		f.but(0.2, "Half or more of them had arrived already: packets come late or in another order rather than being lost.")
	}
	if r := t.One("netns", netns, "protocol", "TcpExt", "counter", "TCPTimeouts"); r.Mean(s.mask) >= 0.5 {
		f.proof(t, s, r.Sentence(), r.Mean(s.mask), t.Unit, fmt.Sprintf("%s times a second a connection stood still until its timer ran out", count(r.Mean(s.mask))))
	}
	f.but(0, "Where on the way they are lost can't be seen from this end.")
	f.Verify = within(netns, "nstat -z TcpRetransSegs TcpOutSegs; sleep 3") + "; " + within(netns, "nstat TcpRetransSegs TcpOutSegs")
	if culprit.Peer != "" {
		f.Verify += "; " + within(netns, "ss -ti dst "+shell(culprit.Peer))
	}
}

// flowsIn gives the rows of a tcp.flow table without direction as flows of one namespace.
func flowsIn(t *Table, netns string, mask []bool) []*flow {
	return flowsOf(t, "", mask, func(f *flow) bool { return f.netns == netns })
}

// rawPeer gives the peer's address as the statistic has it.
func rawPeer(t *Table, netns, plain string) string {
	for _, r := range t.Where("netns", netns) {
		if plainAddress(r.Word("peer")) == plain {
			return r.Word("peer")
		}
	}
	return plain
}
