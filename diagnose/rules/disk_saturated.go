package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// diskSaturated finds disks with more requests than they can serve, and the program that causes
// them.
func diskSaturated() diagnose.Rule {
	return diagnose.Rule{
		ID: "disk-saturated", Checks: "disk", Resource: "disk",
		Needs: []string{},
		Finds: []string{facts.DiskBusy, facts.DiskQueue, facts.DiskWait, facts.DiskOps},
		Uses: []string{facts.DiskInfo, facts.DiskBytes, facts.ProcessIO, facts.ProcessDelay,
			facts.Pressure, facts.MemorySwap, facts.CgroupIO, facts.Blocked, facts.DiskInflight,
			facts.DiskName, facts.ProcessSleepers, facts.ProcessInfo, facts.ProcessIOClass},
		Check: func(l *diagnose.Look) {
			busy := l.Table(facts.DiskBusy)
			io := l.Table(facts.ProcessIO)
			// In containers /proc/diskstats may be empty while programs use the disks of the host.
			if moved := series.Or(facts.SumRows(io, io.Rows, nil), 0); len(busy.Rows) == 0 &&
				moved > 0 {
				l.Unchecked("no disk is visible, but programs read and write %s",
					phrase.BytesRate(moved))
				return
			}
			tree := facts.DiskTreeOf(l.Table(facts.DiskInfo))
			full, idle := examineDisks(l, tree)
			switch {
			case len(busy.Rows) == 0 || idle.disk == nil && len(full) == 0 && idle.unknown == 0:
				l.Unchecked("no disk is visible")
				return
			case idle.disk == nil && len(full) == 0:
				l.Unchecked("the utilization of the disks is unknown")
				return
			}
			groups := tree.Groups(full, func(device string) bool {
				return facts.Uncounted(l, device)
			})
			// When a real disk is full, a full device of memory or of a file is not the limit.
			real := slices.DeleteFunc(slices.Clone(groups), func(g facts.DiskGroup) bool {
				return !slices.ContainsFunc(g.Members, func(d *facts.Disk) bool {
					return d.Kind != "virtual"
				})
			})
			if len(real) == 0 {
				real = groups // only a mapper or a RAID shows it: better than nothing
			}
			for _, g := range real {
				accuseDisks(l, g, tree, len(real) == 1)
			}
			if len(full) == 0 {
				l.Fine("%s", idle.text(l))
			}
		},
	}
}

// busiestDisk is the disk with most busy time. Virtual devices count only when no other disk is
// seen.
type busiestDisk struct {
	disk    *facts.Disk
	busy    float64
	made    bool // from other devices, a file or memory
	unknown int  // number of disks whose utilization is unknown
}

// consider includes a disk.
func (b *busiestDisk) consider(d *facts.Disk) {
	busy := d.Busy.Mean(nil)
	if busy != busy {
		b.unknown++
		return
	}
	made := d.Kind == "virtual" || strings.HasPrefix(d.Name, "loop")
	if b.disk == nil || b.made && !made || b.made == made && busy > b.busy {
		b.disk, b.busy, b.made = d, busy, made
	}
}

// text returns the numbers of the busiest disk, which show that it is not full.
func (b *busiestDisk) text(l *diagnose.Look) string {
	text := fmt.Sprintf("busiest disk %s %s busy", facts.DiskTitle(l, b.disk.Name),
		phrase.Percent(min(b.busy, 1)))
	if w := b.disk.RequestTime(nil); w == w {
		text += ", " + phrase.Duration(w) + " per request"
	}
	return text
}

// examineDisks returns the saturated devices, and the busiest disk of all. Partitions and loop
// devices are left out: their disk is in the list.
func examineDisks(l *diagnose.Look, tree facts.DiskTree) (full []*facts.Disk, most busiestDisk) {
	for _, r := range l.Table(facts.DiskBusy).Rows {
		name := r.Word("device")
		kind := tree.Kinds[name]
		if name == "" || kind == "partition" || kind == "" && strings.HasPrefix(name, "loop") {
			continue
		}
		d := facts.DiskOf(l, name, kind, r)
		if kind != "path" {
			most.consider(d)
		}
		if _, hung := facts.Hangs(l, name); !hung && saturated(d) {
			full = append(full, d)
		}
	}
	return full, most
}

// accuseDisks reports one full disk, whichever devices show it.
func accuseDisks(l *diagnose.Look, g facts.DiskGroup, tree facts.DiskTree, only bool) {
	d := g.Representative(tree)
	d.Title = facts.DiskTitle(l, d.Name)
	head := tree.Head[d.Name]
	if head == "" {
		head = g.Joined
	}
	if head != "" { // the device that programs use shows nothing itself
		d.Title = fmt.Sprintf("%s (part %s)", facts.DiskTitle(l, head), d.Title)
		d.Shown = head
	}
	f := accuseDisk(l, d, only)
	for i, o := range g.Others(d) {
		if i == 3 {
			break
		}
		way := "on the same disk"
		switch {
		case tree.On(d.Name, o.Name):
			way = "below it"
		case tree.On(o.Name, d.Name):
			way = "above it"
		}
		busy := min(o.Busy.Mean(d.Period.Mask), 1)
		if busy == busy {
			f.AddEvidence(o.Busy.Table, d.Period, o.Busy.Query(), busy, o.Busy.Table.Unit,
				fmt.Sprintf("%s, %s, is busy %s of the time", facts.DiskTitle(l, o.Name), way,
					phrase.Percent(busy)))
		}
	}
}

// saturated reports whether a disk is saturated, and sets its period: busy with a queue in most
// cells, and either requests take long or tasks stall on it.
func saturated(d *facts.Disk) bool {
	var ok bool
	d.Period, ok = diagnose.Lasting(d.Busy.Table, diagnose.HasValue(d.Busy), func(c int) bool {
		return d.Busy.At(c) >= threshold.DiskBusyShare && d.Queue.At(c) >= threshold.DiskQueueLong
	})
	if !ok {
		return false
	}
	ops := 0.0
	for _, r := range d.Ops {
		ops += series.Or(r.Part(d.Period.Mask), 0)
	}
	if d.Rotating && (ops >= threshold.RotatingOps || d.Moved() >= threshold.RotatingBytes) {
		d.Rotating = false
	}
	slow := threshold.DiskSlow
	if d.Rotating {
		slow = threshold.DiskSlowRotating
	}
	w, stalls := d.RequestTime(d.Period.Mask), d.Stall.Mean(d.Period.Mask) >= threshold.DiskStall
	queue := d.Queue.Mean(d.Period.Mask)
	if w >= slow || !d.Rotating && w >= threshold.DiskStallSlow &&
		(stalls || queue >= threshold.DiskQueueDeep) {
		return true
	}
	d.Bandwidth = !d.Rotating &&
		(stalls && queue >= threshold.DiskLargeQueue || queue >= threshold.DiskLargeDeep) &&
		d.Moved() >= threshold.DiskLarge*ops && ops > 0
	return d.Bandwidth
}

func accuseDisk(l *diagnose.Look, d *facts.Disk, only bool) *diagnose.Finding {
	s, t := d.Period, d.Busy.Table
	bytesT, io := l.Table(facts.DiskBytes), l.Table(facts.ProcessIO)
	read, write := bytesT.One("device", d.Name, "direction", "read").Mean(s.Mask),
		bytesT.One("device", d.Name, "direction", "write").Mean(s.Mask)
	moved := series.Or(read, 0) + series.Or(write, 0)
	swap := l.Table(facts.MemorySwap)
	swapped := series.Or(facts.SumRows(swap, swap.Rows, s.Mask), 0)

	identity := d.Name
	if d.Shown != "" {
		identity = d.Shown
	}
	culprit, cause, share := diagnose.Culprit{Kind: "disk", Name: identity}, "", measure.NaN
	all := facts.Actors(l, io, io.Rows, s.Mask)
	total := 0.0
	for _, a := range all {
		total += a.Rate
	}
	var division *attribute.Result
	if only && moved > 0 && swapped < 0.5*moved {
		division = divideDisk(l, d, all, moved)
		if division.Named > 0 {
			all = facts.InOrder(all, division)
		}
	}
	switch {
	case moved > 0 && swapped >= 0.5*moved:
		culprit, cause, share = diagnose.Culprit{Kind: "memory", Name: "swap"},
			"; most of it is swap", min(swapped/moved, 1)
	case len(all) > 0 && moved > 0 && all[0].Rate >= leastIO*moved &&
		(only || all[0].Rate <= 1.3*moved):
		a := all[0]
		share = min(a.Rate/moved, 1)
		culprit = a.Culprit()
		cause = fmt.Sprintf("; %s causes %s of it, %s", a, phrase.Percent(share), wayOf(a, s.Mask))
		if division != nil && division.Named > 1 {
			share, cause = division.Share(division.Named), "; "+facts.Together(division)
		}
	case len(all) > 0 && total > 0 && all[0].Rate >= 0.5*total:
		cause = fmt.Sprintf("; %s does the most I/O", all[0])
	}
	claim := fmt.Sprintf("%s is saturated: %s busy with %s requests waiting, %s each, for %s%s.",
		d.Title,
		phrase.Percent(min(d.Busy.Mean(s.Mask), 1)), phrase.Digits(d.Queue.Mean(s.Mask)),
		phrase.Duration(series.Or(d.RequestTime(s.Mask), 0)), s, cause)
	severity := diagnose.High
	if d.Bandwidth {
		severity = diagnose.Medium
		claim = fmt.Sprintf("%s is at its full bandwidth: %s, %s busy with %s large requests at "+
			"once, for %s%s.", d.Title, phrase.BytesRate(moved),
			phrase.Percent(min(d.Busy.Mean(s.Mask), 1)), phrase.Digits(d.Queue.Mean(s.Mask)), s,
			cause)
	}
	waits := facts.WaitsForDisk(d)
	if waits.Nobody() {
		severity = diagnose.Medium
	}
	f := l.Found(phrase.Clean(identity), severity, 0.93, culprit, claim)
	f.Waits = waits
	f.SetExplains(share)
	if division != nil {
		f.Attribution = division.Report()
		f.Subject = facts.SaturatedDisk{Device: d.Name, Title: facts.DiskTitle(l, d.Name),
			Least: leastIO, Programs: all}
	}
	f.AddEvidence(t, s, d.Busy.Query(), min(d.Busy.Mean(s.Mask), 1), t.Unit,
		fmt.Sprintf("%s busy %s of the time", facts.DiskTitle(l, d.Name),
			phrase.Percent(min(d.Busy.Mean(s.Mask), 1))))
	q := d.Queue.Table
	f.AddEvidence(q, s, d.Queue.Query(), d.Queue.Mean(s.Mask), q.Unit,
		fmt.Sprintf("%s requests in it or queued, on average",
			phrase.Digits(d.Queue.Mean(s.Mask)))).CompareTo(threshold.DiskQueueLong, "threshold")
	if w := d.RequestTime(s.Mask); w == w {
		wt := d.Wait[0].Table
		f.AddEvidence(wt, s, wt.QueryOf(nil, "device", d.Name), facts.SumRows(wt, d.Wait, s.Mask),
			wt.Unit, fmt.Sprintf("a request takes %s%s: per second, requests wait %s s in total "+
				"and %s complete", phrase.Duration(w), d.TimeByDirection(s.Mask),
				phrase.Digits(facts.SumRows(wt, d.Wait, s.Mask)),
				phrase.Count(facts.SumRows(d.Ops[0].Table, d.Ops, s.Mask))))
	}
	if moved > 0 {
		f.AddEvidence(bytesT, s, bytesT.QueryOf(nil, "device", d.Name), moved, bytesT.Unit,
			fmt.Sprintf("%s read, %s written", phrase.BytesRate(series.Or(read, 0)),
				phrase.BytesRate(series.Or(write, 0))))
	}
	if len(all) > 0 && total > 0 {
		a := all[0]
		f.AddEvidence(io, s, a.Query(io), a.Rate, io.Unit,
			fmt.Sprintf("%s: %s, %s", a, phrase.BytesRate(a.Rate),
				wayOf(a, s.Mask))).CompareTo(moved, "what the disk moved")
		if more := facts.OtherPrograms(all, total, 3); more != "" {
			f.AddEvidence(io, s, `process.io by process`, total-a.Rate, io.Unit, "then "+more)
		}
	}
	if v := d.Stall.Mean(s.Mask); v == v {
		f.SetEffect(v)
		f.AddEvidence(d.Stall.Table, s, d.Stall.Query(), v, d.Stall.Table.Unit,
			fmt.Sprintf("some task is stalled on I/O %s of the time (PSI)", phrase.Percent(v)))
	}
	if !io.Have() {
		f.AddCaveat(0.05, "The processes that read and write are unknown: %s.", io.Why)
	} else if moved > 0 && total < 0.5*moved && culprit.Name != "swap" {
		f.AddCaveat(0.05, "Processes account for %s of the disk's traffic; the rest is metadata "+
			"or was written back later by the kernel.", phrase.Percent(total/moved))
	}
	if w := d.RequestTime(s.Mask); d.Bandwidth && w == w {
		f.AddCaveat(0.1, "Each request still takes only %s: programs with small requests do not "+
			"notice.", phrase.Duration(w))
	}
	if waits.Nobody() {
		f.AddCaveat(0, "No task waits for it: tasks are stalled on I/O %s of the time. What it "+
			"does is asynchronous, as writing back is.", phrase.Percent(float64(waits.Share)))
	}
	f.Verify = "iostat -x -y 1 3; pidstat -d 1 3"
	f.Cover("tasks-blocked", facts.BlockedOnDevice)
	facts.CoverWrites(f, d.Name, identity)
	if culprit.Kind == "process" && culprit.PID > 0 {
		yieldDisk(l, f, s, culprit.PID)
	}
	return f
}

// yieldDisk sets the fix of a finding: the culprit gets the I/O class idle. One that has it already
// has no fix; evidence states the class.
func yieldDisk(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period, pid int) {
	t := l.Table(facts.ProcessIOClass)
	undo := fmt.Sprintf("ionice -c 0 -p %d", pid)
	for _, r := range t.Where("pid", strconv.Itoa(pid)) {
		level := r.Mean(s.Mask)
		if level != level {
			continue
		}
		switch class := r.Word("class"); class {
		case "idle":
			f.AddEvidence(t, s, r.Query(), level, t.Unit, fmt.Sprintf("%s has the I/O class "+
				"idle: its requests wait for those of all others, with the schedulers bfq and "+
				"mq-deadline", phrase.ProcessName(r.Word("process"), pid)))
			f.AddCaveat(0, "Its I/O class is idle already, so there is no fix by ionice. "+
				"Whether the disk's scheduler uses it: cat /sys/block/*/queue/scheduler.")
			return
		case "realtime", "best-effort":
			undo = fmt.Sprintf("ionice -c %d -n %d -p %d",
				map[string]int{"realtime": 1, "best-effort": 2}[class], int(level+0.5), pid)
			if class == "realtime" {
				f.AddEvidence(t, s, r.Query(), level, t.Unit, fmt.Sprintf("%s has the I/O class "+
					"realtime: its requests go before all others",
					phrase.ProcessName(r.Word("process"), pid)))
			}
		}
	}
	f.Fix = &diagnose.Fix{Command: fmt.Sprintf("ionice -c 3 -p %d", pid), Undo: undo,
		Risk: "low: it yields to others; effective with the schedulers bfq and mq-deadline only"}
}

// wayOf describes whether a program reads or writes.
func wayOf(a facts.Program, mask []bool) string {
	write, all := 0.0, 0.0
	for _, r := range a.Rows {
		v := series.Or(r.Part(mask), 0)
		all += v
		if r.Word("direction") == "write" {
			write += v
		}
	}
	switch {
	case all == 0:
		return "direction unknown"
	case write > 0.9*all:
		return "writing"
	case write < 0.1*all:
		return "reading"
	}
	return phrase.Percent(write/all) + " of it writing"
}
