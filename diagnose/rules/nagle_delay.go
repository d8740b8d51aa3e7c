package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// nagleDelay finds programs that write a message in small pieces: TCP holds the last piece until
// those before it are acknowledged (Nagle's algorithm), and the receiver acknowledges late, because
// it waits for an answer to send with it (delayed acknowledgements, 40 ms).
func nagleDelay() diagnose.Rule {
	return diagnose.Rule{
		ID: "nagle-delay", Checks: "small writes",
		Finds: []string{facts.FlowUnsent},
		Uses: []string{facts.FlowLimited, facts.FlowBytes, facts.FlowRTT, facts.FlowMinRTT,
			facts.FlowMSS, facts.FlowUnacked, facts.FlowCwnd, facts.FlowRetransmits},
		Check: func(l *diagnose.Look) {
			var held []facts.LimitedFlow
			for _, r := range l.Table(facts.FlowUnsent).Rows {
				if !(r.Max() > 0) {
					continue
				}
				f := facts.FlowOf(r)
				if s, ok := nagleHolds(l, f); ok {
					f.Rate = f.RowIn(l.Table(facts.FlowBytes), "tx").Part(s.Mask)
					held = append(held, facts.LimitedFlow{Flow: f, Period: s})
				}
			}
			for _, g := range facts.ByProgram(held) {
				accuseNagle(l, g)
			}
		},
	}
}

// nagleHolds reports whether less than a segment waits in a connection while the congestion window
// allows more, most of the time, and acknowledgements take much longer than the path.
func nagleHolds(l *diagnose.Look, f *facts.Flow) (diagnose.Period, bool) {
	limited := l.Table(facts.FlowLimited)
	busy, window, buffer := f.RowIn(limited, "busy"), f.RowIn(limited, "rwnd"),
		f.RowIn(limited, "sndbuf")
	unsent, segment := f.RowIn(l.Table(facts.FlowUnsent)), f.RowIn(l.Table(facts.FlowMSS))
	flying, allowed := f.RowIn(l.Table(facts.FlowUnacked)), f.RowIn(l.Table(facts.FlowCwnd))
	sent, again := f.RowIn(l.Table(facts.FlowBytes), "tx"), f.RowIn(l.Table(facts.FlowRetransmits))
	trip, least := f.RowIn(l.Table(facts.FlowRTT)), f.RowIn(l.Table(facts.FlowMinRTT))
	return diagnose.Lasting(f.Row.Table, diagnose.HasValue(trip), func(c int) bool {
		few := flying.At(c) > 0 && flying.At(c) <= threshold.NagleFlying
		held := unsent.At(c) > 0 && unsent.At(c) < segment.At(c) && few &&
			flying.At(c) < allowed.At(c)
		other := window.At(c) > 0 || buffer.At(c) > 0 || again.At(c) > 0
		return held && !other && sent.At(c) > 0 && busy.At(c) >= threshold.NagleShare &&
			trip.At(c) >= threshold.NagleTrip && trip.At(c) >= threshold.NagleLonger*least.At(c)
	})
}

func accuseNagle(l *diagnose.Look, g *facts.LimitedGroup) {
	first := g.Largest()
	limited, unsents, trips := l.Table(facts.FlowLimited), l.Table(facts.FlowUnsent),
		l.Table(facts.FlowRTT)
	busy, unsent, way := first.RowIn(limited, "busy"), first.RowIn(unsents), first.RowIn(trips)
	mask := first.Period.Mask
	share, piece, trip := min(series.Or(busy.Mean(mask), 0), 1), unsent.Mean(mask), way.Mean(mask)
	least := first.RowIn(l.Table(facts.FlowMinRTT)).Mean(mask)
	_, peer := first.Pair()
	at := phrase.Clean(peer)
	f := l.Found(phrase.Identity(first.NetNS, first.Process), diagnose.Medium, 0.85,
		diagnose.Culprit{Kind: "process", Name: first.Process, PID: first.PID, NetNS: first.NetNS},
		fmt.Sprintf("%s writes small pieces to %s, and each waits until the last is acknowledged "+
			"(Nagle's algorithm): %s of the time for %s, in %s. An acknowledgement takes %s, the "+
			"path %s.", phrase.ProcessName(first.Process, first.PID), at, phrase.Percent(share),
			first.Period, phrase.Plural(len(g.Flows), "connection", "connections"),
			phrase.Duration(trip), phrase.Duration(least)))
	f.SetEffect(share)
	f.AddEvidence(limited, first.Period, busy.Query(), share, "ratio", fmt.Sprintf(
		"the connection to %s waits for acknowledgements %s of the time (tcp_info busy_time)", at,
		phrase.Percent(share)))
	f.AddEvidence(unsents, first.Period, unsent.Query(), piece, unsents.Unit, fmt.Sprintf(
		"%s are held, though the congestion window allows more (sampled)", phrase.Bytes(piece))).
		CompareTo(first.RowIn(l.Table(facts.FlowMSS)).Mean(mask), "a segment")
	f.AddEvidence(trips, first.Period, way.Query(), trip, trips.Unit, fmt.Sprintf(
		"an acknowledgement takes %s: the receiver delays it", phrase.Duration(trip))).
		CompareTo(least, "the shortest")
	f.AddCaveat(0, "The program avoids the wait with TCP_NODELAY, or when it writes each message "+
		"with one call, such as writev.")
	f.AddCaveat(0.1, "A receiver that gets no CPU acknowledges late too. nstat -az "+
		"TcpExtDelayedACKs on the receiver counts delayed acknowledgements.")
	f.Verify = phrase.InNamespace(first.NetNS, "ss -tinp dst "+phrase.Shell(peer)) +
		" # notsent below mss, rtt far above minrtt"
}
