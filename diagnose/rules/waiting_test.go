package rules

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"culprit/diagnose"
)

// TestWhoWaitsForTheLink: beside one transfer that fills the link, any number of connections may
// be idle, and one that waits makes it high, whatever makes it wait. Unknown is not "nobody".
func TestWhoWaitsForTheLink(t *testing.T) {
	const base = "testdata/link-saturated/fires-alone.txt"
	connection := func(i int) string {
		return fmt.Sprintf(`  "" 10.0.0.1 %d 10.0.0.9 22 900 sshd server`, 60000+i)
	}
	waits := map[string]func(c string) []string{
		"a long round trip": func(c string) []string {
			return []string{"tcp.flow.rtt +", c + " | 9e6", "tcp.flow.minrtt +", c + " | 300e3"}
		},
		"unsent data": func(c string) []string { return []string{"tcp.flow.unsent +", c + " | 40e3"} },
		"retransmits": func(c string) []string { return []string{"tcp.flow.retransmits +", c + " | 2"} },
		"an unknown round trip": func(c string) []string {
			return []string{"tcp.flow.minrtt +", c + " | nan"}
		},
		"": nil,
	}
	random := rand.New(rand.NewPCG(7, 24))
	for name, waiting := range waits {
		for range 5 {
			n := 1 + random.IntN(6)
			order := random.Perm(n)
			lines := []string{"tcp.flow.bytes +"}
			for _, i := range order {
				lines = append(lines, connection(i)+" tx | 2e3")
			}
			for _, table := range []string{"tcp.flow.rtt +", "tcp.flow.minrtt +"} {
				lines = append(lines, table)
				for _, i := range order {
					lines = append(lines, connection(i)+" | 400e3")
				}
			}
			want := diagnose.Medium
			if waiting != nil {
				lines, want = append(lines, waiting(connection(random.IntN(n)))...), diagnose.High
			}
			c := readLines(t, base, lines, readCanned(t, base, nil))
			rep, err := diagnose.Run(context.Background(), c, Set(), c.over(), c.step)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(rep.Findings, func(f diagnose.Finding) bool {
				return f.ID == "link-saturated/eth0"
			})
			if i < 0 || rep.Findings[i].Severity != want {
				t.Fatalf("%q beside %d connections: %+v, want %s", name, n, rep.Findings, want)
			}
			if f := rep.Findings[i]; f.Waits.Nobody() != (want == diagnose.Medium) {
				t.Errorf("%q: %+v", name, f.Waits)
			}
		}
	}
}
