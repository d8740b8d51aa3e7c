package facts

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// AddDatagramSender adds the sender of datagrams, when CPUs were sampled: the kernel does not count
// datagrams by process. Samples do not have the namespace, so the sender is evidence and not the
// culprit.
func AddDatagramSender(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period) {
	k := SamplesOf(l)
	if !k.Enough(s.Mask) {
		return
	}
	var rows []*diagnose.Row
	by, all := map[string]float64{}, 0.0
	for _, r := range k.Rows {
		for _, name := range r.Path {
			if name == "udp_sendmsg" || name == "udpv6_sendmsg" {
				v := k.Share(r, s.Mask)
				rows = append(rows, r.Row)
				by[r.Process] += v
				all += v
				break
			}
		}
	}
	programs := Programs(k.Table, rows, s.Mask)
	if len(programs) == 0 || by[programs[0].Name] < max(threshold.SenderSeldom,
		threshold.SenderMostly*all) {
		return
	}
	v := by[programs[0].Name]
	f.AddEvidence(k.Table, s, programs[0].Query(k.Table, "kernel"), v, "CPU",
		fmt.Sprintf("%s sends datagrams: %s of a CPU in the kernel, %s of the time of all senders "+
			"(sampled)", programs[0], phrase.Percent(v), phrase.Percent(v/all)))
}
