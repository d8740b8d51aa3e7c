package report

import (
	"fmt"
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/measure"
	"culprit/view/viewtest"
)

// hostOf makes a host with one interface that sends so many bytes a second, and so much of its CPUs
// used.
func hostOf(t *testing.T, name string, tx, cpu float64) Host {
	t.Helper()
	return Host{Name: name, Address: "https://" + name + ":7410/", Frame: viewtest.Frame(
		viewtest.Answer(
			t, "cpu.time by cpu,mode", measure.Delta, false, fmt.Sprintf("0 usr %g", cpu),
			fmt.Sprintf("0 idle %g", 1-cpu),
		),
		viewtest.Answer(
			t, "net.device.info by netns,device,kind,duplex", measure.Level, false,
			"'' eth0 ethernet full 1", "'' lo loopback '' 1",
		),
		viewtest.Answer(
			t, "net.device.bytes by netns,device,direction", measure.Delta, false,
			fmt.Sprintf("'' eth0 tx %g", tx), "'' eth0 rx 1000", "'' lo tx 9e9",
		),
	)}
}

// notables returns the differences of hosts, one per line.
func notables(all []Host) string {
	var b strings.Builder
	for _, n := range HostDifferences(all) {
		fmt.Fprintf(&b, "%s %s\n", all[n.Host].Name, n.Text)
	}
	return b.String()
}

// TestNotables: one of ten that is far from the others is named; noise, few hosts, and hosts of all
// kinds are nothing.
func TestNotables(t *testing.T) {
	ten := func(third float64, others ...float64) (all []Host) {
		for i := range 10 {
			tx := 52e6 + 1e5*float64(i)
			if len(others) > 0 {
				tx = others[i%len(others)]
			}
			if i == 2 {
				tx = third
			}
			all = append(all, hostOf(t, fmt.Sprintf("h%d", i), tx, 0.3))
		}
		return all
	}
	viewtest.Expect(
		t, notables(ten(11.7e6)),
		"h2 its busiest interface sends 11.7 MB/s, 78 % less than the median of the 9 others, 52.5 MB/s\n",
	)
	viewtest.Expect(
		t, notables(ten(200e6)),
		"h2 its busiest interface sends 200 MB/s, 3.81 times the median of the 9 others, 52.5 MB/s\n",
	)
	for what, all := range map[string][]Host{
		"equal":           ten(52e6),
		"near":            ten(40e6),
		"of all kinds":    ten(11.7e6, 1e6, 5e6, 20e6, 80e6, 300e6),
		"too few":         ten(11.7e6)[:3],
		"all but nothing": ten(0, 1000, 1010, 1020),
	} {
		if got := notables(all); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
	busy := ten(52e6)
	busy[7] = hostOf(t, "h7", 52e6, 0.99)
	viewtest.Expect(
		t, notables(busy), "h7 CPU utilization 99 %, 3.3 times the median of the 9 others, 30 %\n",
	)
	silent := ten(11.7e6)
	silent[4].Frame = nil
	if got := notables(silent); !strings.HasPrefix(got, "h2 ") ||
		!strings.Contains(got, "8 others") {
		t.Errorf("with one that is silent: %s", got)
	}
}

// TestHosts: a row each, also for who is silent; what is wrong below it.
func TestHosts(t *testing.T) {
	a, b := hostOf(t, "web", 1e6, 0.5), hostOf(t, "web", 2e6, 0.25)
	a.Address, b.ClockAhead = "https://10.0.0.1:7410/", 3*measure.Second
	a.Findings = []diagnose.Finding{
		{
			Severity: diagnose.High,
			Claim:    "eth0 is full: it sends more than a line of this width holds.",
		},
		{Severity: diagnose.Low},
	}
	b.NoDiagnosis = "it has made no diagnosis yet"
	gone := Host{Address: "https://c:7410/", Failure: "connection refused"}
	tab := Hosts([]Host{a, b, gone}, 40)
	viewtest.Expect(t, tab.Title, "2 of 3 hosts reported")
	viewtest.Expect(
		t,
		viewtest.Text(tab, "host", "address", "cpu_util", "findings"),
		`web at 10.0.0.1:7410 https://10.0.0.1:7410/ 50 2
web at web:7410 https://web:7410/ 25 -
c:7410 https://c:7410/ - -`,
	)
	viewtest.Expect(t, tab.Rows[0].Details, `    HIGH eth0 is full: it sends more
      than a line of this width holds.
      (and 1 more)
`)
	viewtest.Expect(
		t, tab.Rows[1].Details, "    not diagnosed: it has made no\n      diagnosis yet\n",
	)
	viewtest.Expect(t, tab.Rows[2].Details, "    no answer: connection refused\n")
	viewtest.Expect(
		t, strings.Join(tab.Notes, "\n"), "the clock of web at web:7410 is 3s ahead of this one",
	)
}
