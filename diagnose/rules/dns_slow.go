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

// dnsSlow finds name servers that answer late: where lookups are traced, after a fifth of a second
// on average; else after a second or more. Rule dns-silent finds those that do not answer.
func dnsSlow() diagnose.Rule {
	return diagnose.Rule{
		ID: "dns-slow", Checks: "speed of name servers",
		Finds:  []string{facts.DNSSlow, facts.DNSWaiting, facts.ProtocolEvents},
		Uses:   []string{facts.ProcessInfo},
		Traced: []string{facts.DNSQueries, facts.DNSAnswers, facts.DNSTimes},
		Check: func(l *diagnose.Look) {
			checkTimedServers(l)
			if len(l.Findings) > 0 {
				return
			}
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

// checkTimedServers looks at the times of answers. A resolver of this machine waits for those that
// it asks.
func checkTimedServers(l *diagnose.Look) {
	t := l.Table(facts.DNSAnswers)
	for _, s := range facts.NameServers(l) {
		if s.IsLocal() && len(l.Findings) > 0 {
			return
		}
		p, ok := diagnose.Lasting(t, func(c int) bool { return s.Answers[c] > 0 },
			func(c int) bool { return s.Time[c] >= threshold.DNSLate*s.Answers[c] })
		if ok && t.Part(s.Answers, p.Mask)*p.Held >= threshold.DNSSlow {
			accuseTimed(l, s, p)
		}
	}
}

func accuseTimed(l *diagnose.Look, s *facts.NameServer, p diagnose.Period) {
	t, took := l.Table(facts.DNSAnswers), l.Table(facts.DNSTimes)
	programs := facts.Actors(l, took, s.TimeRows, p.Mask)
	if len(programs) == 0 {
		return
	}
	answers, waiting := t.Part(s.Answers, p.Mask), t.Part(s.Time, p.Mask)
	severity := diagnose.Low
	if waiting >= threshold.DNSWaits {
		severity = diagnose.Medium
	}
	f := l.Found(s.Identity(), severity, 0.85, s.Culprit(), fmt.Sprintf(
		"Name server %s answers slowly: lookups take %s on average for %s; %s asks it.", s,
		phrase.Duration(1e9*waiting/answers), p, programs[0]))
	f.SetEffect(min(waiting, 1))
	row := s.TimeRows[0]
	query := took.QueryOf(nil, "netns", s.NetNS, "server", row.Word("server"))
	f.AddEvidence(took, p, query, waiting, took.Unit, fmt.Sprintf(
		"%s answers per second; %s lookups wait at any moment", phrase.Count(answers),
		phrase.Digits(waiting)))
	if s.IsLocal() {
		f.AddCaveat(0, "It is a resolver of this machine: a name server that it asks may be slow.")
	}
	f.AddCaveat(0.05, "A name server that is far away takes as long.")
	f.Verify = phrase.InNamespace(s.NetNS, "dig +tries=1 @"+phrase.Shell(s.Address)+
		" . | grep 'Query time'")
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
