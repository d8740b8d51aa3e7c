package rules

import (
	"fmt"
	"net/netip"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// dnsSlow finds name servers that answer after a second or more. Rule dns-silent finds those that
// do not answer.
func dnsSlow() diagnose.Rule {
	return diagnose.Rule{
		ID: "dns-slow", Checks: "speed of name servers",
		Finds: []string{facts.DNSSlow, facts.DNSWaiting, facts.ProtocolEvents},
		Check: func(l *diagnose.Look) {
			for _, local := range []bool{false, true} {
				for _, r := range l.Table(facts.DNSSlow).Rows {
					a, err := netip.ParseAddr(r.Word("server"))
					if is := err == nil && a.IsLoopback(); is == local &&
						!facts.DNSUnanswered(l, r.Word("netns")) {
						checkSlowServer(l, r, is)
					}
				}
				if len(l.Findings) > 0 { // a local resolver waits for those behind it
					return
				}
			}
		},
	}
}

func checkSlowServer(l *diagnose.Look, r *diagnose.Row, local bool) {
	t := r.Table
	netns, address := r.Word("netns"), r.Word("server")
	if address == "" {
		return
	}
	waiting := l.Table(facts.DNSWaiting).One("netns", netns, "server", address)
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		return series.AtOrZero(r.Values, c) > 0 || waiting.At(c) >= 1
	})
	rate := r.Part(nil)
	if !ok || !(rate*diagnose.WholePeriod(t).Known >= threshold.DNSSlow) {
		return
	}
	// Little's law: those that wait at any moment, over those that end in a second, is how long
	// each waits beyond the first second, in which it is not counted. Before the first one ends,
	// some wait already.
	steady := make([]bool, len(t.Seconds))
	for c := range steady {
		steady[c] = c > 0 && steady[c-1] || series.AtOrZero(r.Values, c) > 0
	}
	took := 1 + series.Or(waiting.Part(steady), 0)/r.Part(steady)
	culprit := diagnose.Culprit{Kind: "peer", Name: address, NetNS: netns, Peer: address}
	f := l.Found(phrase.Identity(netns, address), diagnose.Medium, 0.8, culprit, fmt.Sprintf(
		"Name server %s%s answers slowly: lookups wait for about %s, for %s.",
		phrase.Clean(address), phrase.NamespaceSuffix(netns), phrase.Duration(1e9*took), s))
	f.SetEffect(s.Share())
	f.AddEvidence(t, s, r.Query(), rate, t.Unit, fmt.Sprintf(
		"%s lookups per second end after they waited for longer than a second", phrase.Count(rate)))
	if waiting.Part(s.Mask) > 0 {
		f.AddEvidence(waiting.Table, s, waiting.Query(), waiting.Part(s.Mask), waiting.Table.Unit,
			facts.LookupsWait(waiting.Part(s.Mask))+" at any moment")
	}
	if local {
		f.AddCaveat(0, "It is a resolver of this machine: another name server may be the slow one.")
	}
	f.Verify = phrase.InNamespace(netns, "dig +time=5 +tries=1 @"+phrase.Shell(address)+
		" . | grep 'Query time'")
}
