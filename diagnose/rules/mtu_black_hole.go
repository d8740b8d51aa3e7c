package rules

import (
	"fmt"
	"sort"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// mtuBlackHole finds peers to which large segments get lost and small ones do not: the path has a
// smaller MTU than this machine assumes, and the ICMP message that says so does not arrive.
func mtuBlackHole() diagnose.Rule {
	return diagnose.Rule{
		ID: "mtu-black-hole", Checks: "path MTU",
		Finds: []string{facts.FlowRetransmits},
		Uses:  []string{facts.FlowUnacked, facts.FlowBytes, facts.FlowSegments, facts.FlowMSS},
		Check: func(l *diagnose.Look) {
			type key struct{ netns, peer string }
			at := map[key]*blackHole{}
			var all []*blackHole
			for _, r := range l.Table(facts.FlowRetransmits).Rows {
				if !(r.Part(nil) > 0) {
					continue
				}
				f := facts.FlowOf(r)
				s, ok := largeLost(l, f)
				if !ok {
					continue
				}
				_, peer := f.Pair()
				k := key{f.NetNS, peer}
				if at[k] == nil {
					at[k] = &blackHole{peer: peer}
					all = append(all, at[k])
				}
				at[k].lost = append(at[k].lost, lostFlow{f, s})
			}
			sort.SliceStable(all, func(i, j int) bool {
				return len(all[i].lost) > len(all[j].lost)
			})
			for _, h := range all {
				if h.smallPass(l) {
					accuseBlackHole(l, h)
				}
			}
		},
	}
}

// A lostFlow is a connection whose segments get lost, and when.
type lostFlow struct {
	*facts.Flow
	period diagnose.Period
}

// A blackHole is a peer to which full segments get lost.
type blackHole struct {
	peer  string
	lost  []lostFlow
	alive *diagnose.Row // of tcp.flow.bytes: what passes; nil: nothing does
}

// largeLost reports whether a connection has full segments in flight, sends them again, and gets
// nothing acknowledged.
func largeLost(l *diagnose.Look, f *facts.Flow) (diagnose.Period, bool) {
	if !(f.RowIn(l.Table(facts.FlowMSS)).Max() >= threshold.BlackHoleSegment) {
		return diagnose.Period{}, false
	}
	unacked, sent := f.RowIn(l.Table(facts.FlowUnacked)), f.RowIn(l.Table(facts.FlowBytes), "tx")
	s, ok := diagnose.Lasting(l.Table(facts.FlowUnacked), diagnose.HasValue(unacked),
		func(c int) bool { return unacked.At(c) > 0 && !(sent.At(c) > 0) })
	return s, ok && f.Row.Part(s.Mask) > 0
}

// smallPass reports whether the peer takes part meanwhile: it sends on the same connection, or
// acknowledges small segments on another one. No other connection may pass full segments.
func (h *blackHole) smallPass(l *diagnose.Look) bool {
	first := h.lost[0]
	t, segments, sizes := l.Table(facts.FlowBytes), l.Table(facts.FlowSegments),
		l.Table(facts.FlowMSS)
	for _, r := range t.Rows {
		f := facts.FlowOf(r)
		_, peer := f.Pair()
		if peer != h.peer || f.NetNS != first.NetNS || !(r.Part(first.period.Mask) > 0) {
			continue
		}
		if r.Word("direction") == "tx" {
			size := first.RowIn(sizes).Max()
			each := r.Part(first.period.Mask) / f.RowIn(segments, "tx").Part(first.period.Mask)
			if !(each < threshold.BlackHoleSmall*size) { // also where it is not known
				return false
			}
		}
		if h.alive == nil && secondsWith(r, first.period.Mask) >= threshold.LeastSeconds {
			h.alive = r
		}
	}
	return h.alive != nil
}

// secondsWith returns in how many seconds of a mask a row is above 0.
func secondsWith(r *diagnose.Row, mask []bool) (seconds float64) {
	for c, held := range mask {
		if held && series.Or(r.At(c), 0) > 0 {
			seconds += r.Table.Seconds[c]
		}
	}
	return seconds
}

func accuseBlackHole(l *diagnose.Look, h *blackHole) {
	first := h.lost[0]
	again, unacked, sizes := l.Table(facts.FlowRetransmits), l.Table(facts.FlowUnacked),
		l.Table(facts.FlowMSS)
	size, send := first.RowIn(sizes).Max(), "send"
	if len(h.lost) == 1 {
		send = "sends"
	}
	f := l.Found(phrase.Identity(first.NetNS, h.peer), diagnose.High, 0.85,
		diagnose.Culprit{Kind: "peer", Name: h.peer, PID: first.PID, NetNS: first.NetNS,
			Peer: h.peer},
		fmt.Sprintf("Large packets to %s get lost and small ones arrive: %s of %s %s segments "+
			"of %s for %s, and none is acknowledged. The MTU of the path is probably smaller.",
			phrase.Clean(h.peer), phrase.Plural(len(h.lost), "connection", "connections"),
			phrase.ProcessName(first.Process, first.PID), send, phrase.Bytes(size), first.period))
	f.SetEffect(first.period.Share())
	rate := first.Row.Part(first.period.Mask)
	f.AddEvidence(again, first.period, first.Row.Query(), rate, again.Unit,
		fmt.Sprintf("%s retransmissions per second, without an answer", phrase.Count(rate)))
	row := first.RowIn(unacked)
	f.AddEvidence(unacked, first.period, row.Query(), row.Mean(first.period.Mask), unacked.Unit,
		"segments are sent and not acknowledged")
	what := "the peer sends meanwhile: it is not gone"
	if h.alive.Word("direction") == "tx" {
		what = "smaller segments to the same peer are acknowledged meanwhile"
	}
	f.AddEvidence(h.alive.Table, first.period, h.alive.Query(), h.alive.Part(first.period.Mask),
		h.alive.Table.Unit, what)
	f.AddCaveat(0.1, "A filter that drops this connection alone looks the same.")
	ping := func(size string) string {
		return phrase.InNamespace(first.NetNS, "ping -c 3 -M do -s "+size+" "+phrase.Shell(h.peer))
	}
	f.Verify = ping("100") + "; " + ping(fmt.Sprint(int(size)))
	f.Fix = &diagnose.Fix{
		Command: phrase.InNamespace(first.NetNS, "sysctl net.ipv4.tcp_mtu_probing=1"),
		Undo:    phrase.InNamespace(first.NetNS, "sysctl net.ipv4.tcp_mtu_probing=0"),
		Risk: "low: connections whose large segments get lost try smaller ones; 0 is the " +
			"default of the kernel, restore yours. The cause is a filter of ICMP " +
			"(\"fragmentation needed\"), or a tunnel",
	}
	same := func(o *diagnose.Finding) bool {
		return o.Culprit.NetNS == first.NetNS && o.Culprit.Peer == h.peer
	}
	f.Cover("tcp-stalled", same)
	f.Cover("tcp-retransmits", same)
	f.Cover("peer-slow", same)
}
