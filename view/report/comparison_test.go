package report

import (
	"strings"
	"testing"

	"culprit/fleet"
	"culprit/measure"
)

func TestComparison(t *testing.T) {
	score := -44.6
	c := &fleet.Comparison{
		Over: 2 * measure.Minute, Host: "client4\x1b[2J", Others: 9, Compared: 9,
		Differences: []fleet.Difference{
			{
				Query: `net.device.bytes where direction = "tx"`, Unit: "B/s", Value: 1.1e6, Median: 11e6,
				Low: 10.5e6, High: 11.6e6, Others: 9, Score: &score,
			},
			{Query: "cpu.time", Unit: "ratio", Value: 0.9, Median: 0.3, Low: 0.3, High: 0.3, Others: 1},
		},
		Only:   []fleet.Finding{{Rule: "link-slow", Culprit: "eth0\n", Severity: "high"}},
		Shared: []fleet.RuleHosts{{Rule: "swap", Hosts: 2}},
		Lacks:  []fleet.RuleHosts{{Rule: "irq", Hosts: 1}, {Rule: "disk", Hosts: 1}},
		Notes:  []string{"a note"},
	}
	_, got, _ := strings.Cut(Comparison(c, 200, false), "\n\n")
	want := `Differs in 2 statistics
 1. 1.1 MB/s, 90 % less than the median of the 9 others, 11 MB/s (10.5 MB/s to 11.6 MB/s; 45 deviations)
      net.device.bytes where direction = "tx"
 2. 90 %, 3 times the median of the other host, 30 %
      cpu.time

Findings of client4?[2J alone
  - HIGH link-slow: eth0?
Findings that others have too: swap (2 of 9)
Findings of others alone: irq (1 of 9), disk (1 of 9)

The line below each difference is a query: culprit stat 'QUERY' 1 on client4?[2J shows the number live.
note: a note
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for range maxDifferences {
		c.Differences = append(c.Differences, c.Differences[0])
	}
	if got := Comparison(c, 80, false); !strings.Contains(got, "and 2 more; --json has all") ||
		strings.Contains(got, "13.") {
		t.Errorf("%s", got)
	}
	c.Differences, c.Only = nil, nil
	if got := Comparison(c, 80, false); !strings.Contains(got, "No statistic differs by") ||
		!strings.Contains(got, "has no finding that the others lack") {
		t.Errorf("%s", got)
	}
	if got := Comparison(&fleet.Comparison{Others: 3}, 80, false); !strings.HasPrefix(got,
		"None of 3 hosts differs from the others over 0s up to ") {
		t.Errorf("%s", got)
	}
}
