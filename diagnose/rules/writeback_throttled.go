package rules

import (
	"fmt"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// writebackThrottled finds programs that the kernel pauses while they write to files, because too
// many dirty pages wait for a device (balance_dirty_pages in mm/page-writeback.c). Pauses begin
// halfway between the background limit and the limit. Both exist for the machine, and smaller ones
// for a device and, in version 2, for a control group.
func writebackThrottled() diagnose.Rule {
	return diagnose.Rule{
		ID: "writeback-throttled", Checks: "writeback throttling",
		Needs: []string{facts.MemoryDirty},
		Finds: []string{facts.ProcessSleepers},
		Uses: []string{facts.ProcessIO, facts.DiskBytes, facts.DiskInfo, facts.DiskName,
			facts.Pressure},
		Check: func(l *diagnose.Look) {
			d := dirtyPagesOf(l)
			sleepers := l.Table(facts.ProcessSleepers)
			var rows []*diagnose.Row
			for _, r := range sleepers.Rows {
				if strings.HasPrefix(r.Word("wchan"), "balance_dirty_pages") {
					rows = append(rows, r)
				}
			}
			s, atLimit := diagnose.Lasting(d.table, diagnose.HasValue(d.limit), d.full)
			if s.Known < threshold.LeastSeconds {
				l.Unchecked("the limits of dirty pages are unknown")
				return
			}
			if !atLimit { // the limit of a device or a control group is not shown anywhere
				number := sleepers.Sum(rows)
				if _, ok := diagnose.Lasting(sleepers, nil, func(c int) bool {
					return series.AtOrZero(number, c) >= threshold.WritebackPaused
				}); !ok {
					return
				}
				s = diagnose.WholePeriod(sleepers) // with the samples that met no pause
			}
			programs, paused := facts.Programs(sleepers, rows, s.Mask), 0.0
			for _, p := range programs {
				paused += p.Rate
			}
			held := d.mean(s.Mask)
			if paused >= threshold.WritebackPaused && held == held {
				d.accuse(l, programs, paused, s, atLimit)
			}
		},
	}
}

// dirtyPages are the rows of memory.dirty; nil where the kernel does not count them.
type dirtyPages struct {
	table                               *diagnose.Table
	dirty, writeback, background, limit *diagnose.Row
}

func dirtyPagesOf(l *diagnose.Look) dirtyPages {
	t := l.Table(facts.MemoryDirty)
	return dirtyPages{t, t.One("kind", "dirty"), t.One("kind", "writeback"),
		t.One("kind", "background"), t.One("kind", "limit")}
}

// held returns the pages that wait or are being written, in bytes.
func (d dirtyPages) held(c int) float64 { return d.dirty.At(c) + series.Or(d.writeback.At(c), 0) }

// full reports whether the dirty pages have reached the size at which the kernel pauses programs.
func (d dirtyPages) full(c int) bool {
	return d.held(c) >= threshold.WritebackUsed*(d.background.At(c)+d.limit.At(c))/2
}

// mean returns the mean of held.
func (d dirtyPages) mean(mask []bool) float64 {
	return d.dirty.Mean(mask) + series.Or(d.writeback.Mean(mask), 0)
}

// A writtenDisk is the disk to which most is written.
type writtenDisk struct {
	name string
	row  *diagnose.Row // of disk.bytes
	rate float64
}

// mostWritten returns the disk to which most is written; its row is nil when nothing is written.
func mostWritten(l *diagnose.Look, mask []bool) (top writtenDisk) {
	kinds := facts.DiskTreeOf(l.Table(facts.DiskInfo)).Kinds
	for _, r := range l.Table(facts.DiskBytes).Where("direction", "write") {
		device := r.Word("device")
		if kinds[device] == "partition" || kinds[device] == "path" {
			continue
		}
		if rate := r.Part(mask); rate > top.rate {
			top = writtenDisk{device, r, rate}
		}
	}
	return top
}

// accuse reports the paused programs. paused is how many threads are, at any moment.
func (d dirtyPages) accuse(l *diagnose.Look, programs []facts.Program, paused float64,
	s diagnose.Period, atLimit bool) {
	severity := diagnose.Medium
	if paused >= threshold.WritebackMany {
		severity = diagnose.High
	}
	verb := "is"
	if len(programs) > 1 {
		verb = "are"
	}
	held, limit := d.mean(s.Mask), d.limit.Mean(s.Mask)
	disk := mostWritten(l, s.Mask)
	why := fmt.Sprintf("%s of dirty pages, %s of the limit, wait to be written",
		phrase.Memory(held), phrase.Percent(held/limit))
	switch {
	case !atLimit:
		why = fmt.Sprintf("the machine has %s of dirty pages, %s of its limit, so the limit of a "+
			"device or control group counts", phrase.Memory(held), phrase.Percent(held/limit))
	case disk.row != nil:
		why += fmt.Sprintf(", and %s takes %s", facts.DiskTitle(l, disk.name),
			phrase.BytesRate(disk.rate))
	}
	f := l.Found(programs[0].Identity(), severity, 0.85, programs[0].Culprit(), fmt.Sprintf(
		"The kernel pauses %s, which %s writing to files, %s for %s: %s.",
		facts.ShortNames(programs), verb, pausedOften(paused), s, why))
	f.SetEffect(paused)
	d.prove(l, f, programs, s)
	if disk.row != nil {
		f.Subject = facts.WrittenTo(disk.name)
		f.AddEvidence(disk.row.Table, s, disk.row.Query(), disk.rate, disk.row.Table.Unit,
			fmt.Sprintf("%s are written to %s, the most of all disks",
				phrase.BytesRate(disk.rate), facts.DiskTitle(l, disk.name)))
	}
	f.Verify = "grep -E '^nr_(dirty|writeback)' /proc/vmstat; " +
		"ps -eLo state,wchan:32,pid,comm | grep balance_dirty"
	d.mend(f, disk, s, atLimit)
	f.Cover("io-stalled", func(o *diagnose.Finding) bool { return o.Culprit.Kind == "host" })
	f.Cover("tasks-blocked", facts.BlockedOnDevice)
}

// pausedOften returns how often programs pause, in words. threads is how many are paused at any
// moment, on average.
func pausedOften(threads float64) string {
	if threads > 1 {
		return phrase.Digits(threads) + " threads at any moment"
	}
	return phrase.Percent(threads) + " of the time"
}

// mostPaused is the number of programs that a finding lists.
const mostPaused = 3

// prove adds the pauses, the dirty pages with their limit, and what the programs write.
func (d dirtyPages) prove(l *diagnose.Look, f *diagnose.Finding, programs []facts.Program,
	s diagnose.Period) {
	t, io := l.Table(facts.ProcessSleepers), l.Table(facts.ProcessIO)
	for i, p := range programs {
		if i == mostPaused {
			break
		}
		wchan := p.Rows[0].Word("wchan")
		f.AddEvidence(t, s, p.Query(t)+" and wchan = "+strconv.Quote(wchan), p.Rate, t.Unit,
			fmt.Sprintf("%s pauses in kernel function %s, %s (sampled)", p, phrase.Clean(wchan),
				pausedOften(p.Rate)))
	}
	held, limit, size := d.mean(s.Mask), d.limit.Mean(s.Mask), d.table
	text := phrase.Memory(held) + " of pages are dirty or being written"
	if begin := (d.background.Mean(s.Mask) + limit) / 2; begin > 0 {
		text += "; pauses begin at " + phrase.Memory(begin)
	}
	e := f.AddEvidence(size, s, facts.MemoryDirty+` where kind in ("dirty", "writeback")`, held,
		size.Unit, text)
	if limit > 0 {
		e.CompareTo(limit, "the limit of the machine")
	}
	for _, r := range io.Where("process", programs[0].Name, "direction", "write") {
		if rate := r.Part(s.Mask); r.Word("pid") == strconv.Itoa(programs[0].PID()) && rate > 0 {
			f.AddEvidence(io, s, r.Query(), rate, io.Unit, fmt.Sprintf("%s writes %s",
				programs[0], phrase.BytesRate(rate)))
		}
	}
	some := l.Table(facts.Pressure).One("resource", "io", "scope", "some")
	if v := some.Mean(s.Mask); v == v {
		f.AddEvidence(some.Table, s, some.Query(), v, some.Table.Unit,
			fmt.Sprintf("some task is stalled on I/O %s of the time (PSI)", phrase.Percent(v)))
	}
}

// mend adds the fix of a limit that is too small, and caveats.
func (d dirtyPages) mend(f *diagnose.Finding, disk writtenDisk, s diagnose.Period, atLimit bool) {
	limit, background := d.limit.Mean(s.Mask), d.background.Mean(s.Mask)
	switch {
	case !atLimit:
		f.Verify += "; grep . /sys/block/*/bdi/{max_ratio,max_bytes,strict_limit}"
		f.AddCaveat(0.1, "Limits of devices are in /sys/block/*/bdi; FUSE has one of its own. "+
			"That of a control group is a share of its memory limit.")
	case disk.row != nil && limit < threshold.WritebackShort*disk.rate:
		f.Fix = &diagnose.Fix{
			Command: "sysctl vm.dirty_background_ratio=10 vm.dirty_ratio=20",
			Undo: fmt.Sprintf("sysctl vm.dirty_background_bytes=%.0f vm.dirty_bytes=%.0f",
				background, limit),
			Risk: "low: the numbers are the defaults of the kernel; more data get lost when the " +
				"power fails, and sync takes longer",
		}
		f.AddCaveat(0, "The limit is small: the device writes that much in %s.",
			phrase.Duration(limit/disk.rate*1e9))
	default:
		f.AddCaveat(0, "A larger limit only delays the pauses: the device writes slower than the "+
			"programs do.")
		f.AddCaveat(0.05, "A job that copies as fast as its device goes, with nobody waiting for "+
			"it, needs no mending.")
	}
}
