package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// sendBuffer finds programs whose TCP connections wait for the send buffer: it holds less than the
// path takes in a round trip.
func sendBuffer() diagnose.Rule {
	return diagnose.Rule{
		ID: "send-buffer", Checks: "send buffers",
		Finds: []string{facts.FlowLimited},
		Uses: []string{facts.FlowBytes, facts.FlowRTT, facts.FlowMinRTT, facts.FlowBuffer,
			facts.FlowUnsent, facts.FlowQueue},
		Check: func(l *diagnose.Look) {
			var held []facts.LimitedFlow
			limited := l.Table(facts.FlowLimited)
			seen := map[facts.Flow]bool{}
			for _, r := range limited.Rows {
				if by := r.Word("by"); by != "sndbuf" && by != "busy" || !(r.Mean(nil) > 0) {
					continue
				}
				f := facts.FlowOf(r)
				id := *f
				if id.Row = nil; seen[id] {
					continue
				}
				seen[id] = true
				s, ok := bufferLimits(l, f)
				if !ok {
					continue
				}
				f.Rate = f.RowIn(l.Table(facts.FlowBytes), "tx").Part(s.Mask)
				held = append(held, facts.LimitedFlow{Flow: f, Period: s})
			}
			for _, g := range facts.ByProgram(held) {
				accuseBuffer(l, g)
			}
		},
	}
}

// bufferLimits reports whether the send buffer limits a connection on a path that takes more. The
// time that the kernel counts is a lower bound, which may be 0: it begins only with a segment that
// is sent after the program met the full buffer (tcp_cwnd_validate in net/ipv4/tcp_output.c). A
// program whose last write fitted meets it when all is sent. So a buffer that is full of sent data
// counts too.
func bufferLimits(l *diagnose.Look, f *facts.Flow) (diagnose.Period, bool) {
	limited, full := f.RowIn(l.Table(facts.FlowLimited), "sndbuf"), fullOfSent(l, f)
	sent := f.RowIn(l.Table(facts.FlowBytes), "tx")
	trip, least := f.RowIn(l.Table(facts.FlowRTT)), f.RowIn(l.Table(facts.FlowMinRTT)).Max()
	return diagnose.Lasting(f.Row.Table, diagnose.HasValue(trip), func(c int) bool {
		return (limited.At(c) >= threshold.SendBufferShare || full(c)) && sent.At(c) > 0 &&
			trip.At(c) >= threshold.SendBufferTrip &&
			!(trip.At(c) >= threshold.SendBufferQueue*least)
	})
}

// fullOfSent returns a function that reports whether a connection's buffer was full at the end of a
// cell, with data that was sent and is not acknowledged, in whose time it always had such data.
func fullOfSent(l *diagnose.Look, f *facts.Flow) func(c int) bool {
	limited, buffer := l.Table(facts.FlowLimited), l.Table(facts.FlowBuffer)
	busy, window := f.RowIn(limited, "busy"), f.RowIn(limited, "rwnd")
	size, used := f.RowIn(buffer, "size"), f.RowIn(buffer, "used")
	queue, unsent := f.RowIn(l.Table(facts.FlowQueue), "tx"), f.RowIn(l.Table(facts.FlowUnsent))
	return func(c int) bool {
		return used.At(c) >= threshold.SendBufferFull*size.At(c) &&
			unsent.At(c) <= threshold.SendBufferSent*queue.At(c) &&
			busy.At(c) >= threshold.SendBufferShare &&
			!(window.At(c) >= threshold.SendBufferShare)
	}
}

func accuseBuffer(l *diagnose.Look, g *facts.LimitedGroup) {
	first := g.Largest()
	limited, bytes, trips := l.Table(facts.FlowLimited), l.Table(facts.FlowBytes),
		l.Table(facts.FlowRTT)
	counted := first.RowIn(limited, "sndbuf")
	share, trip := min(series.Or(counted.Mean(first.Period.Mask), 0), 1),
		first.RowIn(trips).Mean(first.Period.Mask)
	sampled := share < threshold.SendBufferShare
	waits := "waits for its send buffer"
	if sampled {
		share, waits = first.Period.Share(), "has its send buffer full of sent data"
	}
	_, peer := first.Pair()
	name := phrase.ProcessName(first.Process, first.PID)
	f := l.Found(phrase.Identity(first.NetNS, first.Process), diagnose.Medium, 0.85,
		diagnose.Culprit{Kind: "process", Name: first.Process, PID: first.PID, NetNS: first.NetNS},
		fmt.Sprintf("%s %s %s of the time for %s, in %s, and the path would take more: %s to %s, "+
			"with a round trip of %s.", name, waits, phrase.Percent(share),
			first.Period, phrase.Plural(len(g.Flows), "connection", "connections"),
			phrase.BytesRate(first.Rate), phrase.Clean(peer), phrase.Duration(trip)))
	f.SetEffect(share)
	if sampled {
		buffer := l.Table(facts.FlowBuffer)
		size, used := first.RowIn(buffer, "size"), first.RowIn(buffer, "used")
		f.AddEvidence(buffer, first.Period, used.Query(), used.Mean(first.Period.Mask), buffer.Unit,
			fmt.Sprintf("the send buffer of the connection to %s is full of data that was sent "+
				"and is not acknowledged (sampled)", phrase.Clean(peer))).
			CompareTo(size.Mean(first.Period.Mask), "its size")
	} else {
		f.AddEvidence(limited, first.Period, counted.Query(), share, "ratio", fmt.Sprintf(
			"the send buffer limits the connection to %s %s of the time (tcp_info "+
				"sndbuf_limited)", phrase.Clean(peer), phrase.Percent(share)))
	}
	sent, way := first.RowIn(bytes, "tx"), first.RowIn(trips)
	f.AddEvidence(bytes, first.Period, sent.Query(), first.Rate, bytes.Unit,
		phrase.BytesRate(first.Rate)+" are acknowledged")
	f.AddEvidence(trips, first.Period, way.Query(), trip, trips.Unit, fmt.Sprintf(
		"the round trip takes %s, in which %s are acknowledged", phrase.Duration(trip),
		phrase.Bytes(first.Rate*trip/1e9)))
	f.AddCaveat(0.1, "A program that sets SO_SNDBUF has a buffer of that size, which the kernel "+
		"does not enlarge. net.ipv4.tcp_wmem limits the others.")
	f.AddCaveat(0, "Some programs keep the buffer small on purpose, so that fresh data do not "+
		"wait behind old ones.")
	f.Verify = phrase.InNamespace(first.NetNS, "ss -tinmp dst "+phrase.Shell(peer)) +
		" # sndbuf_limited, skmem tb"
	f.Fix = &diagnose.Fix{
		Command: phrase.InNamespace(first.NetNS, "sysctl net.ipv4.tcp_wmem='4096 16384 16777216'"),
		Undo:    phrase.InNamespace(first.NetNS, "sysctl net.ipv4.tcp_wmem='4096 16384 4194304'"),
		Risk: "low: connections may use more memory; it does not help a program that sets " +
			"SO_SNDBUF, whose configuration is to be changed; the undo is the default of the " +
			"kernel, restore yours",
	}
}
