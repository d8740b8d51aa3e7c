package collect

import (
	"slices"
	"strings"

	"culprit/measure"
)

// wholes sets which fields of the statistics have overlapping values, and the query for the whole
// of rows that are only a part. One table shows them side by side.
func wholes(stats []measure.Stat) {
	overlaps := []struct {
		begins string // prefix of the statistics; the first match counts
		fields string
	}{
		{"memory.size", "kind"},
		{"filesystem.", "kind"},
		{"disk.", "device"}, // partitions and their disk; a stacked device and its members
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
		// used is the sum over protocols; alloc includes inuse and orphan
		{"net.sockets", "protocol state"},
	}
	for i := range stats {
		st := &stats[i]
		for _, o := range overlaps {
			if strings.HasPrefix(string(st.ID), o.begins) {
				st.Fields = slices.Clone(st.Fields) // statistics share the slice
				for k := range st.Fields {
					st.Fields[k].Overlaps = slices.Contains(
						strings.Fields(o.fields), st.Fields[k].Name,
					)
				}
				break
			}
		}
		if st.ID == "process.cpu" || st.ID == "thread.cpu" {
			st.Whole = measure.Whole{
				Query: `cpu.time where mode in ("usr", "nice", "sys")`,
				Rest:  "in no row: ended or not seen",
			}
		}
	}
}
