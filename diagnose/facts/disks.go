package facts

import (
	"slices"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// Hangs returns the period in which a device had requests in flight and completed none, and whether
// it lasted long enough.
func Hangs(l *diagnose.Look, device string) (diagnose.Period, bool) {
	ops := l.Table(DiskOps)
	under := l.Table(DiskInflight).One("device", device)
	if under == nil {
		return diagnose.Period{}, false
	}
	done := ops.Sum(ops.Where("device", device))
	s, ok := diagnose.Lasting(under.Table, func(c int) bool {
		return under.At(c) == under.At(c) && done[c] == done[c]
	},
		func(c int) bool { return under.At(c) >= 1 && done[c] == 0 })
	return s, ok && s.Held >= threshold.HangLeast
}

// Disk is a block device with the rows of its statistics.
type Disk struct {
	Name, Kind  string
	Rotating    bool
	Busy, Queue *diagnose.Row
	Wait, Ops   []*diagnose.Row
	bytes       []*diagnose.Row
	Stall       *diagnose.Row
	Bandwidth   bool // it serves requests quickly, and they are large
	Period      diagnose.Period
	Title       string // its name in claims
	Shown       string // the device that the finding is about, if it is another
}

// DiskOf returns a block device with its rows; busy is its row of disk.busy.
func DiskOf(l *diagnose.Look, name, kind string, busy *diagnose.Row) *Disk {
	return &Disk{Name: name, Kind: kind, Busy: busy, Queue: l.Table(DiskQueue).One("device", name),
		Wait:     l.Table(DiskWait).Where("device", name),
		Ops:      l.Table(DiskOps).Where("device", name),
		bytes:    l.Table(DiskBytes).Where("device", name),
		Stall:    l.Table(Pressure).One("resource", "io", "scope", "some"),
		Rotating: l.Table(DiskInfo).One("device", name, "rotational", "1") != nil}
}

// SaturatedDisk is the subject of a finding about a disk that is full, whose busy time was divided
// among programs by an estimate.
type SaturatedDisk struct {
	Device, Title string
	Least         float64   // the least share of its traffic for which a program is named
	Programs      []Program // those that read and write
}

// WrittenTo is the subject of a finding about programs that wait until a device has written; it is
// the name of the device.
type WrittenTo string

// CoverWrites covers findings of programs that wait until one of the devices has written.
func CoverWrites(f *diagnose.Finding, devices ...string) {
	f.Cover("writeback-throttled", func(o *diagnose.Finding) bool {
		device, ok := o.Subject.(WrittenTo)
		return ok && slices.Contains(devices, string(device))
	})
}

// DiskTitle returns the name of a block device for people: "vg-root (dm-3)" of one that device
// mapper made, else the kernel's name.
func DiskTitle(l *diagnose.Look, device string) string {
	if r := l.Table(DiskName).One("device", device); r != nil && r.Word("name") != "" {
		return phrase.Clean(r.Word("name")) + " (" + phrase.Clean(device) + ")"
	}
	return phrase.Clean(device)
}

// RequestTime returns the mean time of a request in ns over the cells in mask, discards and flushes
// included. NaN when no request completed, or waits are unknown.
func (d *Disk) RequestTime(mask []bool, directions ...string) float64 {
	var wait, ops float64
	sum := func(rows []*diagnose.Row) float64 {
		v := 0.0
		for _, r := range rows {
			if len(directions) > 0 && r.Word("direction") != directions[0] {
				continue
			}
			v += series.Or(r.Part(mask), 0)
		}
		return v
	}
	wait, ops = sum(d.Wait), sum(d.Ops)
	if ops == 0 || !slices.ContainsFunc(d.Wait, func(r *diagnose.Row) bool {
		return r.Mean(mask) >= 0
	}) {
		return measure.NaN // unknown waits are not 0
	}
	return wait / ops * 1e9 // wait is a ratio: seconds per second
}

// Moved returns the bytes per second that the disk reads and writes.
func (d *Disk) Moved() float64 {
	if len(d.bytes) == 0 {
		return 0
	}
	return series.Or(SumRows(d.bytes[0].Table, d.bytes, d.Period.Mask), 0)
}

// TimeByDirection returns ", reads 4 ms, writes 7 ms"; "" where one of the two is not known.
func (d *Disk) TimeByDirection(mask []bool) string {
	r, w := d.RequestTime(mask, "read"), d.RequestTime(mask, "write")
	if r != r || w != w {
		return ""
	}
	return ", reads " + phrase.Duration(r) + ", writes " + phrase.Duration(w)
}

// Uncounted reports whether a device does not count the time of the requests that it serves: md
// before Linux 5.10, and multipath disks on some kernels.
func Uncounted(l *diagnose.Look, device string) bool {
	busy, bytes := l.Table(DiskBusy).One("device", device).Mean(nil), l.Table(DiskBytes)
	return !(busy > 0) && SumRows(bytes, bytes.Where("device", device), nil) > 0
}
