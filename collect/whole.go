package collect

import (
	"slices"
	"strings"

	"culprit/measure"
)

// wholes says of the statistics what their rows add up to: which fields have values that overlap, and what is the whole of rows that are not all of it.
// Here and not at each statistic, for it is seen best side by side.
func wholes(stats []measure.Stat) {
	overlaps := []struct {
		begins string // the statistics: the first that fits
		fields string
	}{
		{"memory.size", "kind"},
		{"filesystem.", "kind"},
		{"disk.", "device"}, // partitions and their disk, what is made of devices and those
		{"cgroup.memory.events", "cgroup"},
		{"cgroup.memory", "kind cgroup"},
		{"cgroup.", "cgroup scope kind"},
		{"pressure.time", "scope"},
		{"net.qdisc.", "kind handle parent"},
		{"net.device.modes", "list mode"},
		{"net.device.errors.detail", "reason"},
		{"sched.load", "window"},
		{"net.protocol.", "counter"},
		{"cache.", "cache"},
		{"irq.affinity", "affinity effective"},
		{"tcp.flow.limited", "by"}, // busy includes rwnd and sndbuf
		{"net.ring.size", "bound"},
		{"net.sockets.memory", ""},
		{"net.sockets", "protocol state"}, // used: those of all protocols; alloc includes inuse and orphan
	}
	for i := range stats {
		st := &stats[i]
		for _, o := range overlaps {
			if strings.HasPrefix(string(st.ID), o.begins) {
				st.Fields = slices.Clone(st.Fields) // collectors share them among statistics
				for k := range st.Fields {
					st.Fields[k].Overlaps = slices.Contains(strings.Fields(o.fields), st.Fields[k].Name)
				}
				break
			}
		}
		if st.ID == "process.cpu" || st.ID == "thread.cpu" {
			st.Whole = measure.Whole{Query: `cpu.time where mode in ("usr", "nice", "sys")`, Rest: "in no row: ended or not seen"}
		}
	}
}
