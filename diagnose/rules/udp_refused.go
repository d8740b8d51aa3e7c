package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// udpRefused finds datagrams for ports on which nobody listens, here and at other hosts. Those for
// ports here are counted. Other hosts report them by ICMP, Linux at most once a second to each
// sender.
func udpRefused() diagnose.Rule {
	return diagnose.Rule{
		ID: "udp-refused", Checks: "datagrams without a receiver",
		Finds:   []string{facts.ProtocolEvents},
		Sampled: []string{facts.StackSamples, facts.StackRate},
		Check: func(l *diagnose.Look) {
			for _, netns := range l.Table(facts.ProtocolEvents).Keys("netns") {
				u := udpCountsOf(l, netns)
				if !u.checkHere(l) {
					u.checkElsewhere(l)
				}
			}
		},
	}
}

// udpCounts are the datagrams of a network namespace per second, of both IP versions.
type udpCounts struct {
	netns                                string
	received, sent, unheard, unreachable []float64
}

func udpCountsOf(l *diagnose.Look, netns string) udpCounts {
	t := l.Table(facts.ProtocolEvents)
	of := func(protocol, counter string) []float64 {
		var rows []*diagnose.Row
		for _, p := range []string{protocol, protocol + "6"} {
			rows = append(rows, t.Where("netns", netns, "protocol", p, "counter", counter)...)
		}
		return t.Sum(rows)
	}
	return udpCounts{netns, of("Udp", "InDatagrams"), of("Udp", "OutDatagrams"),
		of("Udp", "NoPorts"), of("Icmp", "InDestUnreachs")}
}

// query returns the query of a counter in both IP versions.
func (u *udpCounts) query(t *diagnose.Table, protocol, counter string) string {
	return t.QueryOf(nil, "netns", u.netns, "counter", counter) +
		fmt.Sprintf(" and protocol in (%q, %q)", protocol, protocol+"6")
}

// checkHere finds ports of this machine without a listener, and reports whether there are any.
// Programs of this machine that send to them get an ICMP message each.
func (u *udpCounts) checkHere(l *diagnose.Look) bool {
	t := l.Table(facts.ProtocolEvents)
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		v := u.unheard[c]
		return v >= threshold.UnheardRate &&
			v >= threshold.UnheardShare*(v+series.Or(u.received[c], 0))
	})
	if !ok {
		return false
	}
	v, received := t.Mean(u.unheard, s.Mask), series.Or(t.Mean(u.received, s.Mask), 0)
	back := series.Or(t.Mean(u.unreachable, s.Mask), 0)
	severity, sender := diagnose.Low, ""
	if back >= threshold.UnheardOwn*v {
		severity, sender = diagnose.Medium, " Programs here send them."
	}
	f := l.Found(phrase.Identity(u.netns, "here"), severity, 0.9, diagnose.Culprit{Kind: "host",
		Name: "UDP ports without a listener", NetNS: u.netns}, fmt.Sprintf(
		"%s datagrams per second%s, %s of those that arrive, are for UDP ports on which nobody "+
			"listens, for %s.%s", phrase.Count(v), phrase.NamespaceSuffix(u.netns),
		phrase.Percent(v/(v+received)), s, sender))
	f.SetEffect(v / (v + received))
	f.Subject = facts.DroppedPackets{At: facts.DropsAtPort, NetNS: u.netns}
	f.AddEvidence(t, s, u.query(t, "Udp", "NoPorts"), v, t.Unit, fmt.Sprintf(
		"%s datagrams per second for a port without a listener", phrase.Count(v)))
	f.AddEvidence(t, s, u.query(t, "Udp", "InDatagrams"), received, t.Unit, fmt.Sprintf(
		"%s datagrams per second are delivered", phrase.Count(received)))
	if sender != "" {
		f.AddEvidence(t, s, u.query(t, "Icmp", "InDestUnreachs"), back, t.Unit, fmt.Sprintf(
			"ICMP reports %s per second as unreachable to senders here", phrase.Count(back)))
		facts.AddDatagramSender(l, f, s)
	} else {
		f.AddCaveat(0.2, "Port scans and late answers to programs that have given up look the "+
			"same.")
	}
	f.Verify = phrase.InNamespace(u.netns, "nstat -az UdpNoPorts Udp6NoPorts") + "; " +
		phrase.InNamespace(u.netns, "tcpdump -ni any -c 10 'icmp[icmptype] = icmp-unreach'")
	return true
}

// checkElsewhere finds datagrams that other hosts refuse or that no router can deliver.
func (u *udpCounts) checkElsewhere(l *diagnose.Look) {
	t := l.Table(facts.ProtocolEvents)
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		v := u.unreachable[c]
		return v >= threshold.UnreachRate && v >= threshold.UnreachShare*u.sent[c] &&
			series.Or(u.received[c], 0) <= threshold.UnreachAnswers*u.sent[c] &&
			series.Or(u.unheard[c], 0) < threshold.UnheardOwn*v
	})
	if !ok {
		return
	}
	v, sent := t.Mean(u.unreachable, s.Mask), t.Mean(u.sent, s.Mask)
	received := series.Or(t.Mean(u.received, s.Mask), 0)
	f := l.Found(phrase.Identity(u.netns, "elsewhere"), diagnose.Medium, 0.8, diagnose.Culprit{
		Kind: "host", Name: "unreachable UDP receivers", NetNS: u.netns}, fmt.Sprintf(
		"%s of %s datagrams per second that are sent%s come back as unreachable (ICMP), for %s: "+
			"nobody listens there, as when a name server is gone, or no router knows the way.",
		phrase.Count(v), phrase.Count(sent), phrase.NamespaceSuffix(u.netns), s))
	f.SetEffect(v / sent)
	f.AddEvidence(t, s, u.query(t, "Icmp", "InDestUnreachs"), v, t.Unit, fmt.Sprintf(
		"ICMP reports %s per second as unreachable", phrase.Count(v)))
	f.AddEvidence(t, s, u.query(t, "Udp", "OutDatagrams"), sent, t.Unit, fmt.Sprintf(
		"%s datagrams per second are sent", phrase.Count(sent)))
	f.AddEvidence(t, s, u.query(t, "Udp", "InDatagrams"), received, t.Unit, fmt.Sprintf(
		"%s datagrams per second are received", phrase.Count(received)))
	facts.AddDatagramSender(l, f, s)
	f.AddCaveat(0.1, "Attempts of TCP to connect can cause such messages too.")
	f.Verify = phrase.InNamespace(u.netns, "nstat -az IcmpInDestUnreachs UdpOutDatagrams") + "; " +
		phrase.InNamespace(u.netns, "tcpdump -ni any -c 10 'icmp[icmptype] = icmp-unreach'")
}
