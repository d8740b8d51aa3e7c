package rules

import (
	"fmt"
	"math"
	"net/netip"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// dnsSilent finds name servers that do not answer: lookups wait for them, and less comes back than
// is sent.
func dnsSilent() diagnose.Rule {
	return diagnose.Rule{
		ID: "dns-silent", Checks: "name servers",
		Finds:  []string{facts.DNSWaiting, facts.ProtocolEvents},
		Uses:   []string{facts.ProcessInfo},
		Traced: []string{facts.DNSQueries, facts.DNSAnswers, facts.DNSTimes},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.DNSWaiting)
			var local, remote []silentServer
			for _, r := range t.Rows {
				s, ok := diagnose.Lasting(t, nil, func(c int) bool { return r.At(c) >= 1 })
				if !ok || !facts.DNSUnanswered(l, r.Word("netns")) {
					continue
				}
				if a, err := netip.ParseAddr(r.Word("server")); err == nil && a.IsLoopback() {
					local = append(local, silentServer{r, s})
				} else {
					remote = append(remote, silentServer{r, s})
				}
			}
			if len(remote) == 0 { // a local one waits for those behind it
				remote = local
			}
			for _, server := range remote {
				accuseServer(l, server)
			}
			if len(remote) == 0 {
				checkUnanswered(l)
			}
		},
	}
}

// checkUnanswered finds servers that answered none of the lookups that were traced: programs that
// do not connect their sockets, as those of Alpine Linux (musl), are seen in no other way.
func checkUnanswered(l *diagnose.Look) {
	t := l.Table(facts.DNSQueries)
	whole := diagnose.WholePeriod(t)
	for _, s := range facts.NameServers(l) {
		if s.IsLocal() && len(l.Findings) > 0 {
			return
		}
		before, left := 0.0, 0.0 // queries that an answer had time for
		for c := len(t.Seconds) - 1; c >= 0; c-- {
			if left >= threshold.DNSPatience {
				before += s.Queries[c] * t.Seconds[c]
			}
			left += t.Seconds[c]
		}
		programs := facts.Actors(l, t, s.QueryRows, nil)
		if before < threshold.DNSUnanswered || t.Part(s.Answers, nil) > 0 || len(programs) == 0 {
			continue
		}
		row := s.QueryRows[0]
		f := l.Found(s.Identity(), diagnose.Medium, 0.85, s.Culprit(), fmt.Sprintf(
			"Name server %s does not answer: %s queries within %s s, no answer; %s asks it.", s,
			phrase.Count(math.Round(before)), phrase.Seconds(whole.Known), programs[0]))
		f.SetEffect(1)
		f.AddEvidence(t, whole, t.QueryOf(nil, "netns", s.NetNS, "server", row.Word("server")),
			t.Part(s.Queries, nil), t.Unit, phrase.Count(t.Part(s.Queries, nil))+
				" queries per second")
		f.Verify = phrase.InNamespace(s.NetNS, "dig +time=2 +tries=1 @"+phrase.Shell(s.Address)+
			" .")
	}
}

type silentServer struct {
	row    *diagnose.Row
	period diagnose.Period
}

func accuseServer(l *diagnose.Look, server silentServer) {
	r, s := server.row, server.period
	t := r.Table
	netns, address := r.Word("netns"), r.Word("server")
	waiting := r.Mean(s.Mask)
	severity := diagnose.Medium
	if waiting >= threshold.DNSMany {
		severity = diagnose.High
	}
	f := l.Found(phrase.Identity(netns, address), severity, 0.8,
		diagnose.Culprit{Kind: "peer", Name: address, NetNS: netns, Peer: address}, fmt.Sprintf(
			"Name server %s%s does not answer: %s for more than a second at any moment, for %s.",
			phrase.Clean(address), phrase.NamespaceSuffix(netns), facts.LookupsWait(waiting), s))
	f.SetEffect(s.Share())
	f.AddEvidence(t, s, r.Query(), waiting, t.Unit, fmt.Sprintf(
		"%s, connected to port 53 for a second or longer, without an unread answer",
		phrase.Plural(max(int(waiting+0.5), 1), "UDP socket", "UDP sockets")))
	sent, received := facts.UDPBothWays(l, netns)
	events := l.Table(facts.ProtocolEvents)
	query := events.QueryOf(nil, "netns", netns, "protocol", "Udp", "counter", "OutDatagrams")
	f.AddEvidence(events, diagnose.WholePeriod(events), query, sent, events.Unit, fmt.Sprintf(
		"%s datagrams per second are sent%s, and %s received", phrase.Count(sent),
		phrase.NamespaceSuffix(netns), phrase.Count(received))).CompareTo(received, "received")
	f.AddCaveat(0.1, "A resolver that keeps unused sockets looks the same beside programs that "+
		"send datagrams without answers, as statistics and logs.")
	f.Verify = phrase.InNamespace(netns, "dig +time=2 +tries=1 @"+phrase.Shell(address)+" .") +
		"; " + phrase.InNamespace(netns, "ss -uanp dport = 53")
}
