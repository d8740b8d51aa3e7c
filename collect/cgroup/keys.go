package cgroup

import (
	"slices"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/measure"
)

// cgroupKey is one thing that files of control groups count. Which of them a kernel has depends on
// its release and on its controllers. Rows of these statistics are sparse: a missing row means 0.
// So a note must say what no group counts.
type cgroupKey uint8

const (
	ckTime cgroupKey = iota
	ckPeriods
	ckThrottledPeriods
	ckThrottledTime
	ckHigh
	ckMax
	ckOOM
	ckOOMKill
	ckRead
	ckWrite
	ckDiscard
	ckPressure    // and the next ones: some and full of cpu, memory, io, irq
	ckQuota       = ckPressure + 8
	ckPidsLimit   = ckQuota + 1
	ckPidsRefused = ckQuota + 2
	ckIOLimit     = ckQuota + 3
	ckWeight      = ckQuota + 4
	ckServed      = ckQuota + 5 // and the next ones: reads, writes, discards
	cgroupKeys    = ckQuota + 8
)

// cgroupKeyNames returns the statistic of each key and its name in notes.
func cgroupKeyNames() [cgroupKeys]struct {
	stat measure.StatID
	what string
} {
	names := [cgroupKeys]struct {
		stat measure.StatID
		what string
	}{
		ckTime:             {"cgroup.cpu", "CPU time"},
		ckPeriods:          {"cgroup.periods", "periods of a quota"},
		ckThrottledPeriods: {"cgroup.periods", "throttled periods"},
		ckThrottledTime:    {"cgroup.throttled", "throttled time"},
		ckHigh:             {"cgroup.memory.events", "high"},
		ckMax:              {"cgroup.memory.events", "max"},
		ckOOM:              {"cgroup.memory.events", "oom"},
		ckOOMKill:          {"cgroup.memory.events", "oom_kill"},
		ckRead:             {"cgroup.io", "bytes read"},
		ckWrite:            {"cgroup.io", "bytes written"},
		ckDiscard:          {"cgroup.io", "bytes discarded"},
		ckQuota:            {"cgroup.quota", "the quota"},
		ckPidsLimit:        {"cgroup.pids.limit", "the limit"},
		ckIOLimit:          {"cgroup.io.limit", "the limit"},
		ckServed:           {"cgroup.io.operations", "reads"},
		ckServed + 1:       {"cgroup.io.operations", "writes"},
		ckServed + 2:       {"cgroup.io.operations", "discards"},
		ckWeight:           {"cgroup.weight", "the weight"},
		ckPidsRefused:      {"cgroup.pids.refusals", "refused processes"},
	}
	for i, resource := range procfs.PressureResources() {
		some, full := &names[int(ckPressure)+2*i], &names[int(ckPressure)+2*i+1]
		some.stat, some.what = "cgroup.pressure.time", resource+" some"
		full.stat, full.what = "cgroup.pressure.time", resource+" full"
	}
	return names
}

// keyedBy records whether a group's file has the key. This does not change while a kernel runs.
func (r *cgroupReading) keyedBy(k cgroupKey, has bool) {
	if has {
		r.keysSeen |= 1 << k
	} else {
		r.keysMissed |= 1 << k
	}
}

// lookForKeys records which files no visible group of a hierarchy has. A hierarchy in which nothing
// can be opened is not visible: another mount covers it, as in a container.
func (r *cgroupReading) lookForKeys(t *cgroupTree) {
	if !t.seen {
		return
	}
	r.sawV2 = r.sawV2 || t.v2
	r.sawPids = r.sawPids || t.v2 || t.controller == "pids"
	for i := range t.files {
		known := true
		for _, k := range t.files[i].keys {
			known = known && (r.keysSeen|r.keysMissed)&(1<<k) != 0
		}
		// The top of the machine has no limit of processes, and no file of it.
		alone := len(t.order) == 1 &&
			(strings.HasPrefix(t.files[i].name, "pids.") || t.files[i].name == "io.max")
		if known || alone ||
			slices.ContainsFunc(
				t.order, func(n *cgroupNode) bool { return !n.gone && n.absent&(1<<i) == 0 },
			) {
			continue
		}
		for _, k := range t.files[i].keys {
			r.keyedBy(k, false)
		}
	}
}

// noteMissingKeys notes what no group counts. A statistic that nothing counts is unmeasured.
// Without the controller cpu no group of version 2 has a quota or a weight or is throttled, so
// these are known.
func (r *cgroupReading) noteMissingKeys(out *collect.Out) {
	for _, t := range r.trees {
		r.lookForKeys(t)
	}
	lacks := map[measure.StatID][]string{}
	counted := map[measure.StatID]bool{}
	for k, name := range cgroupKeyNames() {
		switch bit := uint32(1) << k; {
		case r.keysSeen&bit != 0:
			counted[name.stat] = true
		case r.keysMissed&bit != 0:
			lacks[name.stat] = append(lacks[name.stat], name.what)
		case r.sawV2 && slices.Contains(
			[]measure.StatID{"cgroup.quota", "cgroup.periods", "cgroup.throttled",
				"cgroup.weight"}, name.stat,
		):
			counted[name.stat] = true
		// there is no group below the top
		case r.sawPids && (k == int(ckPidsLimit) || k == int(ckPidsRefused)):
			counted[name.stat] = true
		case r.sawV2 && k == int(ckIOLimit): // or the controller io is off
			counted[name.stat] = true
		// no device was used: which keys there are is unknown
		case (name.stat == "cgroup.io" || name.stat == "cgroup.io.operations") && r.ioThere:
			counted[name.stat] = true
		}
	}
	counted["cgroup.io.operations.limit"] = counted["cgroup.io.limit"] // the same files
	for _, t := range out.Tables() {
		id := t.Batch().Stat
		what := strings.Join(lacks[id], ", ")
		switch {
		case id == "cgroup.top":
		case !t.Stat().Sparse && id != "cgroup.quota" && id != "cgroup.pids.limit" &&
			id != "cgroup.io.limit" && id != "cgroup.io.operations.limit" &&
			id != "cgroup.weight":
			if len(t.Batch().Values) == 0 {
				t.Unmeasured(noFile(id))
			}
		case !counted[id] && what == "":
			t.Unmeasured(noFile(id))
		case !counted[id]:
			t.Unmeasured("control groups of this kernel do not count it: " + what)
		case what != "":
			t.Note("control groups of this kernel do not count: " + what)
		}
	}
}

// noFile returns the note of a statistic that no control group has.
func noFile(id measure.StatID) string {
	return "no visible control group has a file with " + string(id) +
		": its controller is off, or this kernel does not have it"
}
