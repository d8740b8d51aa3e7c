package rules

import (
	"fmt"
	"net"
	"sort"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// connectionsFail finds programs whose attempts to connect fail: nobody listens at the other end,
// or nothing comes back. Each attempt is traced; otherwise the counters of a network namespace show
// how many fail, and not whose.
func connectionsFail() diagnose.Rule {
	return diagnose.Rule{
		ID: "connections-fail", Checks: "connection attempts",
		Finds:  []string{facts.ProtocolEvents},
		Traced: []string{facts.Connects},
		Check: func(l *diagnose.Look) {
			if t := l.Table(facts.Connects); t.Have() {
				for _, g := range connectGroups(t) {
					checkConnects(l, g)
				}
				return
			}
			t := l.Table(facts.ProtocolEvents)
			for _, netns := range t.Keys("netns") {
				checkAttempts(l, netns)
			}
		},
	}
}

// A connectGroup is the attempts of one program at one port. A program that tries several addresses
// in turn, as IPv6 before IPv4, fails at some.
type connectGroup struct {
	process, port string
	rows          []*diagnose.Row
}

func connectGroups(t *diagnose.Table) []*connectGroup {
	type key struct{ process, port string }
	at := map[key]*connectGroup{}
	var all []*connectGroup
	for _, r := range t.Rows {
		k := key{r.Word("process"), r.Word("peerport")}
		if at[k] == nil {
			at[k] = &connectGroup{process: k.process, port: k.port}
			all = append(all, at[k])
		}
		at[k].rows = append(at[k].rows, r)
	}
	return all
}

// failed reports whether the attempts of a row failed for lack of an answer or by a refusal. A
// program that abandons an attempt has not failed.
func failed(r *diagnose.Row) bool {
	switch r.Word("error") {
	case "ECONNREFUSED", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH", "ECONNRESET":
		return true
	}
	return false
}

func checkConnects(l *diagnose.Look, g *connectGroup) {
	t := l.Table(facts.Connects)
	fails, all := make([]float64, len(t.Seconds)), make([]float64, len(t.Seconds))
	for _, r := range g.rows {
		for c := range all {
			v := series.Or(r.At(c), 0)
			all[c] += v
			if failed(r) {
				fails[c] += v
			}
		}
	}
	s, ok := diagnose.Lasting(t, nil, func(c int) bool {
		return fails[c] >= threshold.ConnectFails && fails[c] >= threshold.ConnectShare*all[c]
	})
	if !ok && timeouts(g) >= threshold.ConnectTimeouts && t.Part(all, nil) <= t.Part(fails, nil) {
		s, ok = diagnose.WholePeriod(t), true // attempts that wait are few, whatever they want
	}
	if ok {
		accuseConnects(l, g, t.Mean(fails, s.Mask), t.Mean(all, s.Mask), s)
	}
}

// timeouts returns how many attempts had no answer in the whole time.
func timeouts(g *connectGroup) (n float64) {
	for _, r := range g.rows {
		if r.Word("error") == "ETIMEDOUT" {
			n += series.Or(r.Part(nil), 0) * diagnose.WholePeriod(r.Table).Known
		}
	}
	return n
}

func accuseConnects(l *diagnose.Look, g *connectGroup, fails, all float64, s diagnose.Period) {
	t := l.Table(facts.Connects)
	var bad []*diagnose.Row
	for _, r := range g.rows {
		if failed(r) && r.Part(s.Mask) > 0 {
			bad = append(bad, r)
		}
	}
	sort.SliceStable(bad, func(i, j int) bool { return bad[i].Part(s.Mask) > bad[j].Part(s.Mask) })
	program := facts.Programs(t, bad, s.Mask)[0]
	peer := net.JoinHostPort(facts.PlainAddress(bad[0].Word("peer")), g.port)
	share := fails / all
	severity := diagnose.Medium
	if fails >= threshold.ConnectFailsMany && share >= threshold.ConnectAll {
		severity = diagnose.High
	}
	f := l.Found(phrase.Clean(g.process)+":"+phrase.Clean(peer), severity, 0.9,
		diagnose.Culprit{Kind: "peer", Name: peer, PID: program.PID(),
			Peer: facts.PlainAddress(bad[0].Word("peer"))},
		fmt.Sprintf("%s cannot connect to %s: %s of %s attempts per second fail for %s (%s).",
			program, phrase.Clean(peer), phrase.Count(fails), phrase.Count(all), s,
			failureOf(bad[0].Word("error"))))
	f.SetEffect(share * s.Share())
	f.Subject = facts.FailingConnects{Address: facts.PlainAddress(bad[0].Word("peer")),
		Port: g.port, TimedOut: bad[0].Word("error") == "ETIMEDOUT"}
	for i, r := range bad {
		if i == mostFailures {
			break
		}
		f.AddEvidence(t, s, r.Query(), r.Part(s.Mask), t.Unit, fmt.Sprintf(
			"%s at %s: %s per second", phrase.Clean(r.Word("error")),
			phrase.Clean(net.JoinHostPort(facts.PlainAddress(r.Word("peer")), g.port)),
			phrase.Count(r.Part(s.Mask))))
	}
	f.Cover("calls-fail", func(o *diagnose.Finding) bool {
		calls, ok := o.Subject.(facts.FailingCalls)
		return ok && calls.Failure.Calls != nil && calls.Failure.Calls[0] == "connect" &&
			calls.Program.Has(program.PID())
	})
	f.Verify = fmt.Sprintf("timeout 3 bash -c %s", phrase.Shell("</dev/tcp/"+
		facts.PlainAddress(bad[0].Word("peer"))+"/"+g.port)) + "; ss -tn state syn-sent"
}

// mostFailures is the number of peers that a finding lists.
const mostFailures = 3

// failureOf returns what an error of connect means.
func failureOf(error string) string {
	switch error {
	case "ECONNREFUSED":
		return "refused: nothing listens at that port, or a firewall rejects it"
	case "ETIMEDOUT":
		return "timed out: nothing answers"
	case "ECONNRESET":
		return "reset"
	}
	return "unreachable: there is no way to that network or host"
}

// checkAttempts considers the counters of a network namespace. AttemptFails also counts incoming
// attempts that the other end broke off, as port scans do. So it must fit the own attempts.
func checkAttempts(l *diagnose.Look, netns string) {
	t := l.Table(facts.ProtocolEvents)
	fails := t.One("netns", netns, "protocol", "Tcp", "counter", "AttemptFails")
	opens := t.One("netns", netns, "protocol", "Tcp", "counter", "ActiveOpens")
	s, ok := diagnose.Lasting(t, func(c int) bool {
		return fails.At(c) == fails.At(c) && opens.At(c) == opens.At(c)
	}, func(c int) bool {
		return fails.At(c) >= threshold.ConnectFails &&
			fails.At(c) >= threshold.ConnectShare*opens.At(c) &&
			fails.At(c) <= threshold.ConnectOwn*opens.At(c)
	})
	if !ok {
		return
	}
	v, all := fails.Mean(s.Mask), opens.Mean(s.Mask)
	name := "connection attempts" + phrase.NamespaceSuffix(netns)
	f := l.Found(phrase.Identity(netns, "attempts"), diagnose.Medium, 0.75,
		diagnose.Culprit{Kind: "host", Name: name, NetNS: netns}, fmt.Sprintf(
			"%s of %s connection attempts per second%s fail for %s.", phrase.Count(v),
			phrase.Count(all), phrase.NamespaceSuffix(netns), s))
	f.SetEffect(min(v/all, 1) * s.Share())
	f.AddEvidence(t, s, fails.Query(), v, t.Unit,
		phrase.Count(v)+" attempts per second fail (AttemptFails)")
	f.AddEvidence(t, s, opens.Query(), all, t.Unit,
		phrase.Count(all)+" attempts per second are made (ActiveOpens)")
	f.AddCaveat(0, "The counters show neither the program nor the peer; root can trace them: %s.",
		"culprit stat "+strconv.Quote(facts.Connects))
	f.Verify = phrase.InNamespace(netns, "nstat -az TcpAttemptFails TcpActiveOpens")
}
