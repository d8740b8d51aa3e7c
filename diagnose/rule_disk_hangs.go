package diagnose

import "fmt"

// diskHangsID is the id of the rule disk-hangs.
const diskHangsID = "disk-hangs"

// When a disk hangs.
const (
	// hangLeast: seconds for which a disk has requests under way and completes none. A disk that
	// spins up, and a large discard, take less.
	hangLeast = 5.0
	// hangBlocked: tasks that wait for I/O at any moment, on average, or hangStall, the share of
	// time in which some task stands still for it (PSI some), from where on the requests are
	// somebody's. Counters of requests under way have been wrong in some drivers, and then nobody
	// waits.
	hangBlocked, hangStall = 0.5, 0.20
)

// diskHangs finds disks that have requests under way and complete none. Such a disk is busy all the
// time, and not saturated. Before Linux 5.12 it counts as idle, since its time was counted when a
// request ended.
func diskHangs() Rule {
	return Rule{
		ID: diskHangsID, Checks: "hanging disks",
		Finds: []string{diskInflight, diskOps},
		Uses:  []string{diskInfo, diskBusy, diskQueue, diskWait, diskBytes, pressure, blocked},
		Check: func(l *Look) {
			if len(l.Table(diskInflight).Rows) == 0 {
				l.Unchecked("no disk is in sight")
				return
			}
			tree := diskTreeOf(l.Table(diskInfo))
			var hung []*fullDisk
			for _, r := range l.Table(diskInflight).Rows {
				name := r.Word("device")
				if name == "" || tree.kinds[name] == "partition" {
					continue
				}
				d := diskOf(l, name, tree.kinds[name], l.Table(diskBusy).One("device", name))
				if s, ok := hangs(l, name); ok {
					d.s = s
					hung = append(hung, d)
				}
			}
			for _, g := range tree.groups(hung, func(string) bool { return false }) {
				accuseHang(l, g.speaker(tree))
			}
		},
	}
}

// hangs returns when a device had requests under way and completed none, if that lasted.
func hangs(l *Look, device string) (spell, bool) {
	ops := l.Table(diskOps)
	under := l.Table(diskInflight).One("device", device)
	if under == nil {
		return spell{}, false
	}
	done := ops.Sum(ops.Where("device", device))
	s, ok := lasting(under.table, func(c int) bool { return under.At(c) == under.At(c) && done[c] == done[c] },
		func(c int) bool { return under.At(c) >= 1 && done[c] == 0 })
	return s, ok && s.held >= hangLeast
}

func accuseHang(l *Look, d *fullDisk) {
	under := l.Table(diskInflight).One("device", d.name)
	b, psi := l.Table(blocked), l.Table(pressure).One("resource", "io", "scope", "some")
	waiting, stall := b.mean(b.Sum(b.Rows), d.s.mask), psi.Mean(d.s.mask)
	requests := plural(int(under.Mean(d.s.mask)+0.5), "request", "requests")
	if !(waiting >= hangBlocked) && !(stall >= hangStall) {
		return // the gate doubts the disks
	}
	f := l.Found(clean(d.name), High, 0.9, Culprit{Kind: "disk", Name: d.name},
		fmt.Sprintf("%s hangs: it has %s under way and completes none for %s.", clean(d.name), requests, d.s))
	f.loses(stall)
	t := under.table
	f.proof(t, d.s, under.Sentence(), under.Mean(d.s.mask), t.Unit, requests+" under way")
	ops := l.Table(diskOps)
	f.proof(ops, d.s, ops.Asking(nil, "device", d.name), 0, ops.Unit, "no request completes")
	if waiting >= hangBlocked {
		f.proof(b, d.s, blocked, waiting, b.Unit, fmt.Sprintf("%s tasks wait for I/O at any moment", digits(waiting)))
	}
	if stall == stall {
		f.proof(psi.table, d.s, psi.Sentence(), stall, psi.table.Unit, fmt.Sprintf("some task stands still for I/O %s of the time (PSI)", percent(stall)))
	}
	f.but(0.05, "A disk that spins up or carries out a large discard or flush does the same for some seconds.")
	f.Verify = fmt.Sprintf("cat /sys/block/%s/inflight; dmesg | tail -20; ps -eo state,wchan:32,pid,comm | grep ^D", shell(d.name))
	f.covering(ioStalledID, nil)
}

// hanging holds against the disks that one has requests under way and completes none.
func (g *gate) hanging() {
	under, ops := g.table(diskInflight), g.table(diskOps)
	kinds := diskTreeOf(g.table(diskInfo)).kinds
	for _, r := range under.Rows {
		if kinds[r.Word("device")] == "partition" {
			continue // its disk is in the list
		}
		done := ops.Sum(ops.Where("device", r.Word("device")))
		held := 0.0
		for c, sec := range under.Seconds {
			if c < len(done) && r.At(c) >= 1 && done[c] == 0 {
				held += sec
			}
		}
		if held >= hangLeast {
			g.add("disk", "%s has requests under way for %s s and completes none", clean(r.Word("device")), digits(held))
			return
		}
	}
}
