package rules

import (
	"fmt"
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
		Finds: []string{facts.DNSWaiting, facts.ProtocolEvents},
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
		},
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
