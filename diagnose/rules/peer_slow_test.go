package rules

import (
	"context"
	"fmt"
	"testing"

	"culprit/diagnose"
	"culprit/diagnose/facts"
)

// Peers are counted by their total rate, with an IPv4-mapped address as the same peer. None may be
// missed when a slow one could be found.
func TestEnoughPeers(t *testing.T) {
	for _, x := range []struct {
		name  string
		peers []string // each with two connections
		rate  string
		want  bool
	}{
		{"one peer", []string{"10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1"}, "2000",
			false},
		{"four", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fe80::1"}, "2000", true},
		{"three of which one has two addresses",
			[]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "::ffff:10.0.0.3"}, "2000", false},
		{"four that are too slow", []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"},
			"400", false},
		{"four whose connections are fast enough together",
			[]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}, "600", true},
	} {
		c := readCanned(t, "testdata/quiet.txt", nil)
		c.stats["tcp.flow.bytes"].rows = nil
		for i, peer := range x.peers {
			for j := range 2 {
				c.stats["tcp.flow.bytes"].rows = append(c.stats["tcp.flow.bytes"].rows, cannedRow{
					words: []string{"", "10.0.0.9", "443", peer, fmt.Sprint(30000 + 2*i + j),
						"800", "nginx", "server", "tx"},
					values: []string{x.rate}})
			}
		}
		found := false
		rule := diagnose.Rule{ID: "r", Finds: []string{facts.FlowBytes},
			Check: func(l *diagnose.Look) { found = enoughPeers(l.Table(facts.FlowBytes), "tx") }}
		if _, err := diagnose.Run(context.Background(), c,
			diagnose.RuleSet{Rules: []diagnose.Rule{rule}}, c.over(), c.step); err != nil {
			t.Fatal(err)
		}
		if found != x.want {
			t.Errorf("%s: %v, want %v", x.name, found, x.want)
		}
	}
}
