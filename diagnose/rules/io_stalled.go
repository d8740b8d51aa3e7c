package rules

import (
	"fmt"
	"sort"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// ioStalled finds tasks that wait for I/O although no disk has much to do: because of a limit of
// their cgroup (io.max), a network file system without a server, or a frozen file system.
func ioStalled() diagnose.Rule {
	return diagnose.Rule{
		ID: "io-stalled", Checks: "waiting for i/o",
		Needs: []string{facts.Pressure, facts.DiskBusy},
		Uses: []string{facts.Blocked, facts.ProcessStates, facts.CgroupPressure, facts.CgroupIO,
			facts.CgroupIOLimit, facts.CgroupOpsLimit, facts.ProcessIO, facts.ProcessInfo,
			facts.ProcessDelay, facts.ProcessSleepers},
		Check: func(l *diagnose.Look) {
			t, disks := l.Table(facts.Pressure), l.Table(facts.DiskBusy)
			some := t.One("resource", "io", "scope", "some")
			if some.Mean(nil) != some.Mean(nil) {
				l.Unchecked("this kernel has no pressure information (PSI) for I/O")
				return
			}
			s, ok := diagnose.Lasting(t, diagnose.HasValue(some), func(c int) bool {
				busiest := 0.0
				for _, r := range disks.Rows {
					busiest = max(busiest, series.Or(r.At(c), 0))
				}
				return some.At(c) >= threshold.IOStall && busiest < threshold.IODiskIdle*some.At(c)
			})
			if ok {
				accuseStall(l, some, s)
			}
		},
	}
}

// stalledGroup returns the innermost control group that causes the stalls of the machine; nil when
// none is known.
func stalledGroup(l *diagnose.Look, s diagnose.Period, machine float64) *diagnose.Row {
	rows := append([]*diagnose.Row(nil), l.Table(facts.CgroupPressure).Where("resource", "io",
		"scope", "some")...)
	sort.SliceStable(rows, func(i, j int) bool {
		return facts.CgroupDepth(rows[i].Word("cgroup")) > facts.CgroupDepth(rows[j].Word("cgroup"))
	})
	for _, r := range rows {
		if g := r.Word("cgroup"); g != "" && g != facts.VisibleRoot &&
			r.Mean(s.Mask) >= threshold.IOCgroup*machine {
			return r
		}
	}
	return nil
}

func accuseStall(l *diagnose.Look, some *diagnose.Row, s diagnose.Period) {
	t, disks := l.Table(facts.Pressure), l.Table(facts.DiskBusy)
	share := some.Mean(s.Mask)
	busiest, name := 0.0, ""
	for _, r := range disks.Rows {
		if v := r.Mean(s.Mask); v > busiest || name == "" {
			busiest, name = series.Or(v, 0), r.Word("device")
		}
	}
	severity, culprit, identity := diagnose.Medium,
		diagnose.Culprit{Kind: "host", Name: "waiting for no disk"}, ""
	io := l.Table(facts.ProcessIO)
	moved := series.Or(facts.SumRows(io, io.Rows, s.Mask), 0)
	if share >= threshold.IOStallHigh && moved < threshold.IOMoves {
		severity = diagnose.High
	}
	tasks := "Tasks are"
	group := stalledGroup(l, s, share)
	if group != nil {
		g := group.Word("cgroup")
		culprit, identity, tasks = diagnose.Culprit{Kind: "cgroup", Name: g},
			facts.CgroupIdentity(g),
			"Tasks of cgroup "+facts.CgroupName(g)
		if programs := facts.ProgramNames(io, facts.RowsInCgroup(l, io, g),
			s.Mask); programs != "" {
			tasks += " (" + programs + ")"
		}
		tasks += " are"
	}
	f := l.Found(identity, severity, 0.85, culprit, fmt.Sprintf(
		"%s stalled on I/O %s of the time for %s, and no disk explains it: the busiest, %s, is "+
			"busy %s of the time.",
		tasks, phrase.Percent(share), s, phrase.Clean(name), phrase.Percent(min(busiest, 1))))
	f.SetEffect(share)
	f.Subject = facts.Waiters{PIDs: stalledProcesses(l, s, group), On: facts.WaitsOnDevice}
	f.AddEvidence(t, s, some.Query(), share, t.Unit,
		fmt.Sprintf("some task is stalled on I/O %s of the time (PSI)", phrase.Percent(share)))
	if busy := disks.One("device", name); busy.Mean(s.Mask) == busy.Mean(s.Mask) {
		f.AddEvidence(disks, s, busy.Query(), busiest, disks.Unit,
			fmt.Sprintf("%s, the busiest disk, is busy %s of the time", phrase.Clean(name),
				phrase.Percent(min(busiest, 1))))
	}
	if b := l.Table(facts.Blocked); b.Mean(b.Sum(b.Rows), s.Mask) >= 0.5 {
		v := b.Mean(b.Sum(b.Rows), s.Mask)
		f.AddEvidence(b, s, facts.Blocked, v, b.Unit,
			fmt.Sprintf("%s tasks wait for I/O at any moment", phrase.Digits(v)))
	}
	if group != nil {
		proveStallOfGroup(f, l, group, s)
	}
	if moved >= threshold.IOMoves {
		f.AddCaveat(0.2, "Programs read and write %s meanwhile: they may wait for a network file "+
			"system that is at its limit.", phrase.BytesRate(moved))
	}
	f.Verify = "ps -eo state,wchan:32,pid,comm | grep ^D; cat /proc/pressure/io; grep nfs " +
		"/proc/mounts"
	f.Cover("tasks-blocked", facts.BlockedOnDevice)
	if group != nil {
		f.Verify = fmt.Sprintf("cat /sys/fs/cgroup%[1]s/io.max /sys/fs/cgroup%[1]s/io.pressure; "+
			"ps -eo state,wchan:32,pid,comm | grep ^D", phrase.Shell(group.Word("cgroup")))
	}
}

// stalledProcesses returns the processes that wait for I/O most, in a control group if it is known:
// by delay accounting, or else those with threads that sleep uninterruptibly.
func stalledProcesses(l *diagnose.Look, s diagnose.Period, group *diagnose.Row) []int {
	for _, query := range []string{facts.ProcessDelay, facts.ProcessSleepers} {
		t := l.Table(query)
		all := t.Rows
		if group != nil {
			all = facts.RowsInCgroup(l, t, group.Word("cgroup"))
		}
		var rows []*diagnose.Row
		for _, r := range all {
			kind := facts.BlockedKind(r.Word("wchan"), "", "", "")
			if r.Word("reason") == "blkio" || query == facts.ProcessSleepers && kind.OnDevice() {
				rows = append(rows, r)
			}
		}
		var pids []int
		for _, p := range facts.Programs(t, rows, s.Mask) {
			if pids = append(pids, p.PID()); len(pids) == mostStalled {
				break
			}
		}
		if len(pids) > 0 {
			return pids
		}
	}
	return nil
}

// mostStalled is the most programs whose waits an experiment measures for one finding.
const mostStalled = 8

// proveStallOfGroup adds the stalls and the traffic of the control group.
func proveStallOfGroup(f *diagnose.Finding, l *diagnose.Look, group *diagnose.Row,
	s diagnose.Period) {
	g, v := group.Word("cgroup"), group.Mean(s.Mask)
	f.AddEvidence(group.Table, s, group.Query(), v, group.Table.Unit,
		fmt.Sprintf("tasks of cgroup %s are stalled on I/O %s of the time (PSI)", phrase.Clean(g),
			phrase.Percent(v)))
	t := l.Table(facts.CgroupIO)
	for _, r := range t.Where("cgroup", g) {
		if rate := r.Part(s.Mask); rate > 0 {
			f.AddEvidence(t, s, r.Query(), rate, t.Unit,
				fmt.Sprintf("it moves %s (%s %s)", phrase.BytesRate(rate),
					phrase.Clean(r.Word("device")), phrase.Clean(r.Word("direction"))))
		}
	}
	limited := false
	for _, query := range []string{facts.CgroupIOLimit, facts.CgroupOpsLimit} {
		limits := l.Table(query)
		for _, r := range limits.Where("cgroup", g) {
			if !(r.Last() > 0) {
				continue
			}
			limited = true
			limit := phrase.Count(r.Last()) + " operations/s"
			if query == facts.CgroupIOLimit {
				limit = phrase.BytesRate(r.Last() / 8)
			}
			f.AddEvidence(limits, s, r.Query(), r.Last(), limits.Unit, fmt.Sprintf(
				"its limit is %s (%s %s)", limit, phrase.Clean(r.Word("device")),
				phrase.Clean(r.Word("direction"))))
		}
	}
	if limited {
		f.AddCaveat(0, "On average it stays below its limit: bursts reach it, or its storage is "+
			"slow.")
		return
	}
	f.AddCaveat(0, "The counters do not show whether io.latency or the limit of a group above it "+
		"holds it back, or its storage is slow.")
}
