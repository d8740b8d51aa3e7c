package cgroup

import (
	"culprit/measure"
)

// Stats returns the statistics of each group.
func (Cgroups) Stats() []measure.Stat {
	fields := func(names ...string) []measure.Field {
		help := map[string]string{
			"cgroup":    "path in its hierarchy",
			"mode":      "usr sys",
			"direction": "read write discard",
			"device":    "name of the block device",
			"kind":      "",
			"event":     "high max oom oom_kill; max in version 1: failcnt",
			"resource":  "cpu memory io irq",
			"scope":     "some full",
		}
		var f []measure.Field
		for _, n := range names {
			f = append(f, measure.Field{Name: n, Type: measure.Word, Help: help[n]})
		}
		return f
	}
	kinds := func(text string) []measure.Field {
		f := fields("cgroup", "kind")
		f[1].Help = text
		return f
	}
	return []measure.Stat{
		{
			ID:     "cgroup.cpu",
			Kind:   measure.Delta,
			Unit:   measure.Nanoseconds,
			Sparse: true,
			Help:   "CPU time of a group and its children (cpu.stat, cpuacct.usage)",
			Fields: fields("cgroup", "mode"),
		},
		{
			ID:     "cgroup.periods",
			Kind:   measure.Delta,
			Unit:   measure.Events,
			Sparse: true,
			Help: "periods of the CPU quota in which a group ran, and in which it was " +
				"throttled (cpu.stat)",
			Fields: kinds("total; throttled: those in which it used up its quota"),
		},
		{
			ID:     "cgroup.throttled",
			Kind:   measure.Delta,
			Unit:   measure.Nanoseconds,
			Sparse: true,
			Help: "time that a group's run queues were stopped by its CPU quota, summed over " +
				"CPUs (cpu.stat)",
			Fields: fields("cgroup"),
		},
		{
			ID:   "cgroup.quota",
			Kind: measure.Level,
			Unit: measure.Count,
			Fold: measure.Max,
			Help: "most CPUs that a group may use; no row if it has no quota (cpu.max, " +
				"cpu.cfs_quota_us)",
			Fields: fields("cgroup"),
		},
		{
			ID:   "cgroup.weight",
			Kind: measure.Level,
			Unit: measure.Count,
			Fold: measure.Max,
			Help: "weight of a group among the groups and tasks of its parent when CPU time is " +
				"divided: cpu.shares, 1024 by default, or cpu.weight, 100 by default, and 0 of " +
				"an idle group",
			Fields: append(fields("cgroup"), measure.Field{Name: "file", Type: measure.Word,
				Help: "cpu.shares in version 1, cpu.weight in version 2"}),
		},
		{ID: "cgroup.memory", Kind: measure.Level, Unit: measure.Bytes, Help: "memory of a " +
			"group and its children; kinds overlap (memory.current, memory.stat)",
			Fields: kinds("current; limit, and high, above which a group is slowed: no row if " +
				"there is none; anon file kernel")},
		{
			ID:     "cgroup.memory.events",
			Kind:   measure.Delta,
			Unit:   measure.Events,
			Sparse: true,
			Help:   "times that a group reached a memory limit (memory.events; memory.failcnt)",
			Fields: fields("cgroup", "event"),
		},
		{
			ID:     "cgroup.io",
			Kind:   measure.Delta,
			Unit:   measure.Bytes,
			Sparse: true,
			Help:   "bytes of a group's block I/O (io.stat, blkio.throttle.io_service_bytes)",
			Fields: fields("cgroup", "device", "direction"),
		},
		{
			ID:   "cgroup.io.limit",
			Kind: measure.Level,
			Unit: measure.BitsPerSec,
			Fold: measure.Max,
			Help: "greatest rate at which a group may use a device; no row if it has no limit " +
				"(io.max rbps and wbps, blkio.throttle.read_bps_device)",
			Fields: fields("cgroup", "device", "direction"),
		},
		{
			ID:     "cgroup.io.operations",
			Kind:   measure.Delta,
			Unit:   measure.Operations,
			Sparse: true,
			Help: "operations of a group's block I/O (io.stat rios and wios, " +
				"blkio.throttle.io_serviced); in version 1 without writes of cached data",
			Fields: fields("cgroup", "device", "direction"),
		},
		{
			ID:   "cgroup.io.operations.limit",
			Kind: measure.Level,
			Unit: measure.Count,
			Fold: measure.Max,
			Help: "most operations per second of a group at a device; no row if it has no " +
				"limit (io.max riops and wiops, blkio.throttle.read_iops_device)",
			Fields: fields("cgroup", "device", "direction"),
		},
		{ID: "cgroup.pids", Kind: measure.Level, Unit: measure.Count, Help: "processes and " +
			"threads in a group (pids.current)", Fields: fields("cgroup")},
		{
			ID:   "cgroup.pids.limit",
			Kind: measure.Level,
			Unit: measure.Count,
			Fold: measure.Max,
			Help: "most processes and threads that a group may have; no row if it has no limit " +
				"(pids.max)",
			Fields: fields("cgroup"),
		},
		{
			ID:     "cgroup.pids.refusals",
			Kind:   measure.Delta,
			Unit:   measure.Events,
			Sparse: true,
			Help: "processes and threads that could not be created because of pids.max; in " +
				"version 1, and before Linux 6.11, counted for the group that tried, else for " +
				"the group with the limit and those above it (pids.events)",
			Fields: fields("cgroup"),
		},
		cgroupTopStat(),
		{
			ID:     "cgroup.pressure.time",
			Kind:   measure.Delta,
			Unit:   measure.Nanoseconds,
			Fold:   measure.Max,
			Sparse: true,
			Help: "time in which a group's threads waited for a resource (cpu.pressure ...; " +
				"version 2)",
			Fields: fields("cgroup", "resource", "scope"),
		},
	}
}
