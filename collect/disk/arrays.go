package disk

import (
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// arrayStats declares the states of md arrays and of devices of device mapper.
func arrayStats() []measure.Stat {
	word := func(name, help string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word, Help: help}
	}
	device := word("device", "name in /proc/diskstats")
	action := word("action", "idle; resync: after a crash; recover: onto a new member; reshape; "+
		"check, repair: somebody asked for it; frozen")
	return []measure.Stat{
		{ID: "disk.array.missing", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
			Help: "members that an md array lacks, 0 when it is complete; no row for arrays " +
				"without redundancy (/sys/block/*/md/degraded, level, raid_disks, sync_action)",
			Fields: []measure.Field{device, word("level", "raid1 raid4 raid5 raid6 raid10"),
				{Name: "members", Type: measure.Number, Help: "members of the complete array"},
				action}},
		{ID: "disk.array.sync", Kind: measure.Level, Unit: measure.Bytes, Fold: measure.Max,
			Help: "how far an md array is synchronized, of each member; no row while it is not " +
				"(/sys/block/*/md/sync_completed)",
			Fields: []measure.Field{device, action, word("kind", "done total")}},
		{ID: "disk.suspended", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
			Help: "1 for each device of device mapper that is suspended: requests to it wait; " +
				"0 for the others (/sys/block/*/dm/suspended)",
			Fields: []measure.Field{device}},
	}
}

// mostStates is how many devices' states one reading reads; the next readings continue. The states
// of others are those of their last reading.
const mostStates = 32

// diskState is the latest state of an md array or of a device of device mapper.
type diskState struct {
	suspended            string
	missing, members     string
	level, action        string
	synchronized, toSync uint64 // bytes
}

func (i *diskInfo) hasState() bool { return i.name != "" || i.array }

// readState reads the state of a device. What cannot be read is "".
func readState(root kernel.Root, name string, i *diskInfo) (s diskState) {
	dir := "class/block/" + strings.ReplaceAll(name, "/", "!")
	if !i.array {
		s.suspended = procfs.ReadSysWord(root, dir+"/dm/suspended")
		return s
	}
	s.missing = procfs.ReadSysWord(root, dir+"/md/degraded")
	s.members = procfs.ReadSysWord(root, dir+"/md/raid_disks")
	s.members, _, _ = strings.Cut(s.members, " ") // "4 (3)" while it is reshaped
	s.level = procfs.ReadSysWord(root, dir+"/md/level")
	s.action = procfs.ReadSysWord(root, dir+"/md/sync_action")
	s.synchronized, s.toSync = parseSync(procfs.ReadSysWord(root, dir+"/md/sync_completed"))
	return s
}

// parseSync parses md/sync_completed, "1234 / 5678" in sectors, and returns bytes. It returns 0 for
// "none" and "delayed", and for anything else.
func parseSync(text string) (done, total uint64) {
	a, b, _ := strings.Cut(text, " / ")
	x, err := proc.ParseUint([]byte(a))
	y, err2 := proc.ParseUint([]byte(b))
	if err != nil || err2 != nil || x > y || y > 1<<54 {
		return 0, 0
	}
	return x * 512, y * 512
}

// putStates puts the states of all devices that have one.
func (r *diskReading) putStates(out *collect.Out) {
	missing, sync := out.Table("disk.array.missing"), out.Table("disk.array.sync")
	suspended := out.Table("disk.suspended")
	if missing == nil && sync == nil && suspended == nil {
		return
	}
	var with []*disk
	for _, d := range r.order {
		if d.info.hasState() {
			with = append(with, d)
		}
	}
	for i := range min(len(with), mostStates) {
		d := with[(r.nextState+i)%len(with)]
		d.state = readState(r.root, d.name, &d.info)
	}
	r.nextState += mostStates
	for _, d := range with {
		s := &d.state
		if n, err := proc.ParseUint([]byte(s.missing)); err == nil {
			missing.Row(float64(n), d.name, s.level, s.members, s.action)
		}
		if s.toSync > 0 {
			sync.Row(float64(s.synchronized), d.name, s.action, "done")
			sync.Row(float64(s.toSync), d.name, s.action, "total")
		}
		if s.suspended == "0" || s.suspended == "1" {
			suspended.Row(float64(s.suspended[0]-'0'), d.name)
		}
	}
}
