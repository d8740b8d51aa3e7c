package report

import (
	"strings"
	"testing"

	"culprit/diagnose"
	"culprit/measure"
	"culprit/view/viewtest"
)

func TestDiagnosisForPeople(t *testing.T) {
	r := &diagnose.Report{Start: 1767323045e9, End: 1767323055e9, Host: "box\x1b",
		Findings: []diagnose.Finding{
			{
				Severity:   diagnose.High,
				Confidence: 0.925,
				Explains:   0.8,
				Claim:      "eth0 is full: 943 of 1000 Mbit/s; iperf3[123] sends 99 % of it to 10.0.0.2.",
				Evidence: []diagnose.Evidence{
					{Text: "tx 943 Mbit/s", Statistic: `net.device.wire where device = "eth0"`},
				},
				Symptoms: []diagnose.Symptom{{Claim: "latency"}},
				Exonerated: []string{
					"cpu",
					"disk",
				},
				Against: []string{"it is short"},
				Verify:  "ip -s link",
				Fix:     &diagnose.Fix{Command: "tc x", Undo: "tc y", Risk: "low"},
			},
		},
		Checked: []string{
			"cpu",
			"disk",
		}, Fine: []diagnose.Exoneration{{Resource: "cpu", Because: "93 % idle"}},
		Missing: []diagnose.Missing{
			{Checks: "memory", Why: "gone"},
			{Checks: "cgroups", Statistic: "a.b", Why: "hidden"},
			{Checks: "cgroups", Statistic: "a.c", Why: "hidden"},
			{Checks: "limits", Statistic: "a.d", Why: "hidden"},
		},
		Notes: []string{"a note", "hidden"}}
	const want = `culprit looked at box? for 10 s, 03:04:05 to 03:04:15.

1. HIGH eth0 is full: 943 of 1000 Mbit/s; iperf3[123] sends
        99 % of it to 10.0.0.2.
   confidence 92 %, accounts for 80 % of it
   * tx 943 Mbit/s
       net.device.wire where device = "eth0"
   this explains: latency
   ruled out: cpu, disk
   but: it is short
   see it: ip -s link
   fix: tc x
   undo: tc y
   risk: low

The line below each piece of evidence is a query: culprit
stat 'QUERY' 1 shows the number live.

Ruled out
  cpu       93 % idle

Checked cpu, disk.

Not checked
  - memory: gone
  - cgroups, limits: several statistics are missing: hidden

Notes
  - a note
`
	clock := func(t measure.Time) string { return t.AsTime().Local().Format("15:04:05") }
	viewtest.Expect(
		t, Diagnosis(r, 60, false),
		strings.NewReplacer("03:04:05", clock(r.Start), "03:04:15", clock(r.End)).Replace(want),
	)
	r = &diagnose.Report{Checked: []string{"cpu", "disk"}}
	viewtest.Expect(
		t,
		Diagnosis(r, 80, false),
		"culprit looked at this machine for 0 s, "+clock(
			0,
		)+" to "+clock(
			0,
		)+".\n\nNothing is wrong here - checked 2 things:\n  cpu, disk.\n",
	)
	r.Checked = nil
	viewtest.Expect(
		t,
		Diagnosis(r, 120, false),
		"culprit looked at this machine for 0 s, "+clock(
			0,
		)+" to "+clock(
			0,
		)+".\n\nNot diagnosed: nothing could be checked. See below for what is missing.\n",
	)
}
