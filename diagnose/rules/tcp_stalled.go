package rules

import (
	"fmt"
	"sort"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// tcpStalled finds TCP connections whose data wait: the receiver does not read them (its window is
// closed), or it acknowledges nothing that is sent.
func tcpStalled() diagnose.Rule {
	return diagnose.Rule{
		ID: "tcp-stalled", Checks: "stalled connections",
		Finds: []string{facts.FlowLimited, facts.FlowRetransmits},
		Uses: []string{facts.FlowUnsent, facts.FlowUnacked, facts.FlowBytes, facts.FlowRTT,
			facts.FlowMSS, facts.FlowQueue},
		Check: func(l *diagnose.Look) {
			closed := stalledFlows(l.Table(facts.FlowLimited).Where("by", "rwnd"),
				func(f *facts.Flow) (diagnose.Period, bool) { return windowClosed(l, f) })
			for _, g := range byReceiver(l, closed) {
				accuseReader(l, g)
			}
			silent := stalledFlows(l.Table(facts.FlowRetransmits).Rows,
				func(f *facts.Flow) (diagnose.Period, bool) { return flowUnanswered(l, f) })
			for _, g := range byReceiver(l, silent) {
				accuseSilence(l, g)
			}
		},
	}
}

// A stalledFlow is a connection whose data wait, and when.
type stalledFlow struct {
	*facts.Flow
	period diagnose.Period
}

// stalledFlows returns the connections of rows for which holds is true.
func stalledFlows(
	rows []*diagnose.Row, holds func(*facts.Flow) (diagnose.Period, bool),
) []stalledFlow {
	var out []stalledFlow
	for _, r := range rows {
		if !(r.Part(nil) > 0) {
			continue
		}
		f := facts.FlowOf(r)
		if s, ok := holds(f); ok {
			out = append(out, stalledFlow{f, s})
		}
	}
	return out
}

// windowClosed reports whether the receiver of a connection does not read: its window stops the
// sender, data wait, and less than a segment passes in a round trip. A window that is merely small
// passes whole segments.
func windowClosed(l *diagnose.Look, f *facts.Flow) (diagnose.Period, bool) {
	unsent := f.RowIn(l.Table(facts.FlowUnsent))
	sent := f.RowIn(l.Table(facts.FlowBytes), "tx")
	mss, rtt := f.RowIn(l.Table(facts.FlowMSS)).Max(), f.RowIn(l.Table(facts.FlowRTT))
	return diagnose.Lasting(f.Row.Table, nil, func(c int) bool {
		perTrip := series.Or(sent.At(c), 0) * series.Or(rtt.At(c), 0) / 1e9
		return f.Row.At(c) >= threshold.WindowClosed &&
			series.Or(unsent.At(c), 0) >= threshold.StallWaits && perTrip < series.Or(mss, 1)
	})
}

// flowUnanswered reports whether a connection has segments in flight, sends them again, and gets
// nothing acknowledged.
func flowUnanswered(l *diagnose.Look, f *facts.Flow) (diagnose.Period, bool) {
	unacked := f.RowIn(l.Table(facts.FlowUnacked))
	sent := f.RowIn(l.Table(facts.FlowBytes), "tx")
	s, ok := diagnose.Lasting(l.Table(facts.FlowUnacked), diagnose.HasValue(unacked),
		func(c int) bool { return unacked.At(c) > 0 && !(sent.At(c) > 0) })
	return s, ok && f.Row.Part(s.Mask) > 0
}

// A stallGroup has the connections that one end stalls.
type stallGroup struct {
	stalls  []stalledFlow
	peer    string // its address
	process string // the program that should read, if it runs on this machine; "": unknown
	pid     int
}

// byReceiver groups stalls by the process that should read, or by the peer where that is on another
// machine. The largest group is first.
func byReceiver(l *diagnose.Look, all []stalledFlow) []*stallGroup {
	type key struct {
		netns, peer, process string
		pid                  int
	}
	at := map[key]*stallGroup{}
	var out []*stallGroup
	for _, s := range all {
		_, peer := s.Pair()
		r := &stallGroup{peer: peer}
		if other := otherEnd(l, s.Flow); other != nil {
			r.process = other.Word("process")
			r.pid, _ = strconv.Atoi(other.Word("pid"))
		}
		k := key{s.NetNS, peer, r.process, r.pid}
		if at[k] == nil {
			at[k] = r
			out = append(out, r)
		}
		at[k].stalls = append(at[k].stalls, s)
	}
	sort.SliceStable(out, func(i, j int) bool { return len(out[i].stalls) > len(out[j].stalls) })
	return out
}

// otherEnd returns the row of the receive queue of a connection's other end; nil: that is on
// another machine.
func otherEnd(l *diagnose.Look, f *facts.Flow) *diagnose.Row {
	local, peer := f.Pair()
	for _, r := range l.Table(facts.FlowQueue).Where("localport", f.Peerport, "peerport",
		f.Localport, "direction", "rx") {
		if facts.PlainAddress(r.Word("local")) == peer &&
			facts.PlainAddress(r.Word("peer")) == local {
			return r
		}
	}
	return nil
}

// culprit returns the process or peer that stalls the connections, and the identity of the finding.
func (r *stallGroup) culprit() (diagnose.Culprit, string) {
	netns := r.stalls[0].NetNS
	if r.process != "" {
		return diagnose.Culprit{Kind: "process", Name: r.process, PID: r.pid},
			phrase.Clean(r.process)
	}
	return diagnose.Culprit{Kind: "peer", Name: r.peer, PID: r.stalls[0].PID, NetNS: netns,
		Peer: r.peer}, phrase.Identity(netns, r.peer)
}

// name returns the receiver as the subject of a sentence.
func (r *stallGroup) name() string {
	if r.process != "" {
		return phrase.ProcessName(r.process, r.pid)
	}
	return phrase.Clean(r.peer)
}

// total returns the sum over the connections of their means in another table.
func (r *stallGroup) total(t *diagnose.Table, more ...string) float64 {
	sum := 0.0
	for _, s := range r.stalls {
		sum += series.Or(s.RowIn(t, more...).Mean(s.period.Mask), 0)
	}
	return sum
}

// accuseReader reports a receiver that does not read.
func accuseReader(l *diagnose.Look, r *stallGroup) {
	first := r.stalls[0]
	limited, unsent := l.Table(facts.FlowLimited), l.Table(facts.FlowUnsent)
	share, waiting := min(first.Row.Mean(first.period.Mask), 1), r.total(unsent)
	culprit, identity := r.culprit()
	f := l.Found(identity, diagnose.Medium, 0.9, culprit, fmt.Sprintf(
		"%s does not read what %s sends: its receive window is closed %s of the time, and %s wait "+
			"in %s for %s.", r.name(), phrase.ProcessName(first.Process, first.PID),
		phrase.Percent(share), phrase.Bytes(waiting),
		phrase.Plural(len(r.stalls), "connection", "connections"), first.period))
	f.SetEffect(share)
	f.AddEvidence(limited, first.period, first.Row.Query(), share, "ratio",
		fmt.Sprintf("the receive window of %s stops the sender %s of the time (tcp_info "+
			"rwnd_limited)", phrase.Clean(r.peer), phrase.Percent(share)))
	if row := first.RowIn(unsent); row != nil {
		v := row.Mean(first.period.Mask)
		f.AddEvidence(unsent, first.period, row.Query(), v, unsent.Unit,
			phrase.Bytes(v)+" are written and not sent")
	}
	if other := otherEnd(l, first.Flow); other != nil {
		v := other.Mean(first.period.Mask)
		f.AddEvidence(other.Table, first.period, other.Query(), v, other.Table.Unit,
			fmt.Sprintf("%s are received and not read by %s", phrase.Bytes(v), r.name()))
	}
	f.AddCaveat(0.1, "A receiver that is paused on purpose, as a player of videos, looks the "+
		"same.")
	f.Verify = phrase.InNamespace(first.NetNS, "ss -tinp dst "+phrase.Shell(r.peer)) +
		" # rwnd_limited, Send-Q"
	f.Cover("peer-slow", func(o *diagnose.Finding) bool { return o.Culprit.Peer == r.peer })
}

// accuseSilence reports a peer that acknowledges nothing.
func accuseSilence(l *diagnose.Look, r *stallGroup) {
	first := r.stalls[0]
	again, unacked := l.Table(facts.FlowRetransmits), l.Table(facts.FlowUnacked)
	resent, waiting := 0.0, r.total(unacked)
	severity := diagnose.Low // a client that has left
	for _, s := range r.stalls {
		resent += s.Row.Part(s.period.Mask) * s.period.Held
		if s.Side == "client" { // this machine depends on the peer
			severity = diagnose.High
		}
	}
	culprit := diagnose.Culprit{Kind: "peer", Name: r.peer, PID: first.PID, NetNS: first.NetNS,
		Peer: r.peer}
	f := l.Found(phrase.Identity(first.NetNS, r.peer), severity, 0.85, culprit, fmt.Sprintf(
		"%s acknowledges nothing that %s sends for %s: %s in %s, and %s had no answer.",
		phrase.Clean(r.peer), phrase.ProcessName(first.Process, first.PID), first.period,
		phrase.Plural(int(waiting+0.5), "segment", "segments"),
		phrase.Plural(len(r.stalls), "connection", "connections"),
		phrase.Plural(int(resent+0.5), "retransmission", "retransmissions")))
	silent := facts.SilentPeer{NetNS: first.NetNS, Peer: r.peer}
	for _, s := range r.stalls {
		silent.Ports = append(silent.Ports, s.Peerport)
	}
	f.Subject = silent
	f.SetEffect(first.period.Share())
	f.AddEvidence(again, first.period, first.Row.Query(), first.Row.Part(first.period.Mask),
		again.Unit, fmt.Sprintf("%s retransmissions per second", phrase.Count(
			first.Row.Part(first.period.Mask))))
	row := first.RowIn(unacked)
	f.AddEvidence(unacked, first.period, row.Query(), row.Mean(first.period.Mask), unacked.Unit,
		"segments are sent and not acknowledged")
	if mss := first.RowIn(l.Table(facts.FlowMSS)).Max(); mss >= threshold.StallSegment {
		f.AddCaveat(0, "If small packets reach it (ping), the path drops large ones: its MTU is "+
			"below that of this machine, and no ICMP message says so.")
	}
	f.Verify = phrase.InNamespace(first.NetNS, "ss -tinp dst "+phrase.Shell(r.peer)) + "; " +
		phrase.InNamespace(first.NetNS, "ping -c 3 -M do -s 1400 "+phrase.Shell(r.peer))
	f.Cover("tcp-retransmits", func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == first.NetNS && o.Culprit.Peer == r.peer
	})
}
