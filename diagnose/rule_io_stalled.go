package diagnose

import (
	"fmt"
	"sort"
)

// ioStalledID is the id of the rule io-stalled.
const ioStalledID = "io-stalled"

// When waiting for I/O counts as waiting for something that is no disk here.
const (
	// ioStall: share of time in which some task stood still for I/O (PSI some).
	ioStall = 0.20
	// ioStallHigh: half of the time is felt by whoever does I/O.
	ioStallHigh = 0.50
	// ioDiskIdle: of that share. The busiest disk is busy for less of the time than this part of the
	// waiting: tasks wait for something else.
	ioDiskIdle = 0.5
	// ioMoves: bytes a second that programs read and write. Work on a network file system that goes on
	// at that pace waits for it all the time and may be well.
	ioMoves = 10e6
	// ioCgroup: part of the machine's waiting from where on one control group makes it.
	ioCgroup = 0.8
)

// ioStalled finds tasks that wait for I/O though no disk has much to do: for a limit of their cgroup
// (io.max), a network file system without a server, a frozen file system.
func ioStalled() Rule {
	return Rule{
		ID: ioStalledID, Checks: "waiting for i/o",
		Needs: []string{pressure, diskBusy},
		Uses:  []string{blocked, processStates, cgroupPressure, cgroupIO, processIO, processInfo},
		Check: func(l *Look) {
			t, disks := l.Table(pressure), l.Table(diskBusy)
			some := t.One("resource", "io", "scope", "some")
			if some.Mean(nil) != some.Mean(nil) {
				l.Unchecked("this kernel does not tell how long tasks wait for I/O")
				return
			}
			s, ok := lasting(t, known(some), func(c int) bool {
				busiest := 0.0
				for _, r := range disks.Rows {
					busiest = max(busiest, or(r.At(c), 0))
				}
				return some.At(c) >= ioStall && busiest < ioDiskIdle*some.At(c)
			})
			if ok {
				accuseStall(l, some, s)
			}
		},
	}
}

// stalledGroup returns the innermost control group that makes the machine wait for I/O; nil when none
// is known to.
func stalledGroup(l *Look, s spell, machine float64) *Row {
	rows := append([]*Row(nil), l.Table(cgroupPressure).Where("resource", "io", "scope", "some")...)
	sort.SliceStable(rows, func(i, j int) bool {
		return cgroupDepth(rows[i].Word("cgroup")) > cgroupDepth(rows[j].Word("cgroup"))
	})
	for _, r := range rows {
		if g := r.Word("cgroup"); g != "" && g != visibleRoot && r.Mean(s.mask) >= ioCgroup*machine {
			return r
		}
	}
	return nil
}

func accuseStall(l *Look, some *Row, s spell) {
	t, disks := l.Table(pressure), l.Table(diskBusy)
	share := some.Mean(s.mask)
	busiest, name := 0.0, ""
	for _, r := range disks.Rows {
		if v := r.Mean(s.mask); v > busiest || name == "" {
			busiest, name = or(v, 0), r.Word("device")
		}
	}
	severity, culprit, identity := Medium, Culprit{Kind: "host", Name: "waiting for no disk"}, ""
	io := l.Table(processIO)
	moved := or(sumRows(io, io.Rows, s.mask), 0)
	if share >= ioStallHigh && moved < ioMoves {
		severity = High
	}
	who := "Tasks stand"
	group := stalledGroup(l, s, share)
	if group != nil {
		g := group.Word("cgroup")
		culprit, identity, who = Culprit{Kind: "cgroup", Name: g}, cgroupIdentity(g), "Tasks of cgroup "+cgroupName(g)
		if programs := programsOf(io, rowsOf(l, io, g), s.mask); programs != "" {
			who += " (" + programs + ")"
		}
		who += " stand"
	}
	f := l.Found(identity, severity, 0.85, culprit, fmt.Sprintf(
		"%s still for I/O %s of the time for %s, and no disk is busy with that: the busiest, %s, is busy %s of the time.",
		who, percent(share), s, clean(name), percent(min(busiest, 1))))
	f.loses(share)
	f.proof(t, s, some.Sentence(), share, t.Unit, fmt.Sprintf("some task stands still for I/O %s of the time (PSI)", percent(share)))
	if busy := disks.One("device", name); busy.Mean(s.mask) == busy.Mean(s.mask) {
		f.proof(disks, s, busy.Sentence(), busiest, disks.Unit, fmt.Sprintf("%s, the busiest disk, is busy %s of the time", clean(name), percent(min(busiest, 1))))
	}
	if b := l.Table(blocked); b.mean(b.Sum(b.Rows), s.mask) >= 0.5 {
		v := b.mean(b.Sum(b.Rows), s.mask)
		f.proof(b, s, blocked, v, b.Unit, fmt.Sprintf("%s tasks wait for I/O at any moment", digits(v)))
	}
	if group != nil {
		f.stallOfGroup(l, group, s)
	}
	if moved >= ioMoves {
		f.but(0.2, "Programs read and write %s meanwhile: they may wait for a network file system that does what it can.", bytesRate(moved))
	}
	f.Verify = "ps -eo state,wchan:32,pid,comm | grep ^D; cat /proc/pressure/io; grep nfs /proc/mounts"
	if group != nil {
		f.Verify = fmt.Sprintf("cat /sys/fs/cgroup%[1]s/io.max /sys/fs/cgroup%[1]s/io.pressure; ps -eo state,wchan:32,pid,comm | grep ^D", shell(group.Word("cgroup")))
	}
}

// stallOfGroup adds what the control group waits for and moves.
func (f *Finding) stallOfGroup(l *Look, group *Row, s spell) {
	g, v := group.Word("cgroup"), group.Mean(s.mask)
	f.proof(group.table, s, group.Sentence(), v, group.table.Unit, fmt.Sprintf("tasks of cgroup %s stand still for I/O %s of the time (PSI)", clean(g), percent(v)))
	t := l.Table(cgroupIO)
	for _, r := range t.Where("cgroup", g) {
		if rate := r.Part(s.mask); rate > 0 {
			f.proof(t, s, r.Sentence(), rate, t.Unit, fmt.Sprintf("it moves %s (%s %s)", bytesRate(rate), clean(r.Word("device")), clean(r.Word("direction"))))
		}
	}
	f.but(0, "Whether io.max or io.latency of the cgroup holds it back, or what it waits for is slow, the counters don't tell.")
}
