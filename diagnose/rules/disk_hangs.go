package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// diskHangs finds disks that have requests in flight and complete none. Such a disk is busy all the
// time, and not saturated. Before Linux 5.12 it counts as idle, since busy time was counted at the
// end of a request.
func diskHangs() diagnose.Rule {
	return diagnose.Rule{
		ID: "disk-hangs", Checks: "hanging disks", About: "disk",
		Finds: []string{facts.DiskInflight, facts.DiskOps},
		Uses: []string{facts.DiskInfo, facts.DiskName, facts.DiskBusy, facts.DiskQueue, facts.DiskWait,
			facts.DiskBytes, facts.Pressure, facts.Blocked},
		Check: func(l *diagnose.Look) {
			if len(l.Table(facts.DiskInflight).Rows) == 0 {
				l.Unchecked("no disk is visible")
				return
			}
			tree := facts.DiskTreeOf(l.Table(facts.DiskInfo))
			var hung []*facts.Disk
			for _, r := range l.Table(facts.DiskInflight).Rows {
				name := r.Word("device")
				if name == "" || tree.Kinds[name] == "partition" {
					continue
				}
				d := facts.DiskOf(l, name, tree.Kinds[name],
					l.Table(facts.DiskBusy).One("device", name))
				if s, ok := facts.Hangs(l, name); ok {
					d.Period = s
					hung = append(hung, d)
				}
			}
			for _, g := range tree.Groups(hung, func(string) bool { return false }) {
				accuseHang(l, g.Representative(tree))
			}
		},
	}
}

func accuseHang(l *diagnose.Look, d *facts.Disk) {
	under := l.Table(facts.DiskInflight).One("device", d.Name)
	b, psi := l.Table(facts.Blocked), l.Table(facts.Pressure).One("resource", "io", "scope", "some")
	waiting, stall := b.Mean(b.Sum(b.Rows), d.Period.Mask), psi.Mean(d.Period.Mask)
	requests := phrase.Plural(int(under.Mean(d.Period.Mask)+0.5), "request", "requests")
	if !(waiting >= threshold.HangBlocked) && !(stall >= threshold.HangStall) {
		return // the doubts keep the disks from being ruled out
	}
	f := l.Found(phrase.Clean(d.Name), diagnose.High, 0.9,
		diagnose.Culprit{Kind: "disk", Name: d.Name},
		fmt.Sprintf("%s hangs: %s in flight, none completed for %s.",
			facts.DiskTitle(l, d.Name), requests, d.Period))
	f.SetEffect(stall)
	t := under.Table
	f.AddEvidence(t, d.Period, under.Query(), under.Mean(d.Period.Mask), t.Unit,
		requests+" in flight")
	ops := l.Table(facts.DiskOps)
	f.AddEvidence(ops, d.Period, ops.QueryOf(nil, "device", d.Name), 0, ops.Unit,
		"no request completes")
	if waiting >= threshold.HangBlocked {
		f.AddEvidence(b, d.Period, facts.Blocked, waiting, b.Unit,
			fmt.Sprintf("%s tasks wait for I/O at any moment", phrase.Digits(waiting)))
	}
	if stall == stall {
		f.AddEvidence(psi.Table, d.Period, psi.Query(), stall, psi.Table.Unit,
			fmt.Sprintf("some task is stalled on I/O %s of the time (PSI)", phrase.Percent(stall)))
	}
	f.AddCaveat(0.05, "A disk that spins up, or performs a large discard or flush, looks the same "+
		"for some seconds.")
	f.Verify = fmt.Sprintf("cat /sys/block/%s/inflight; dmesg | tail -20; ps -eo "+
		"state,wchan:32,pid,comm | grep ^D", phrase.Shell(d.Name))
	f.Cover("io-stalled", nil)
	f.Cover("tasks-blocked", facts.BlockedOnDevice)
	f.Cover("writeback-throttled", nil)
}
