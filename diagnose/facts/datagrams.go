package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
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

// SlowReader returns the program that lost most datagrams of a namespace, and the verb of what it
// does.
func SlowReader(l *diagnose.Look, netns string, s diagnose.Period) string {
	t := l.Table(UDPDrops)
	all := Programs(t, t.Where("netns", netns), s.Mask)
	total := 0.0
	for _, p := range all {
		total += p.Rate
	}
	if len(all) == 0 || all[0].PID() == 0 || all[0].Rate < threshold.UDPReader*total {
		return "programs read"
	}
	return all[0].String() + " reads"
}

// AddSlowReaders adds the sockets of a namespace that lost most datagrams.
func AddSlowReaders(l *diagnose.Look, f *diagnose.Finding, netns string, s diagnose.Period) {
	t := l.Table(UDPDrops)
	rows := slices.Clone(t.Where("netns", netns))
	slices.SortStableFunc(rows, func(a, b *diagnose.Row) int {
		return cmp.Compare(series.Or(b.Part(s.Mask), 0), series.Or(a.Part(s.Mask), 0))
	})
	for i, r := range rows {
		v := r.Part(s.Mask)
		if i == 3 || !(v > 0) {
			break
		}
		pid, _ := strconv.Atoi(r.Word("pid"))
		who := phrase.ProcessName(r.Word("process"), pid)
		if pid == 0 {
			who = "an unknown process"
		}
		f.AddEvidence(t, s, r.Query(), v, t.Unit, fmt.Sprintf(
			"the socket of %s at port %s lost %s datagrams/s", who,
			phrase.Clean(r.Word("localport")), phrase.Count(v)))
	}
}
