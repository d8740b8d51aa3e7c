package cgroup

import (
	"culprit/collect"
	"culprit/measure"
)

// cgroupFile is a file that each group of a hierarchy may have.
type cgroupFile struct {
	name       string
	v2         bool
	controller string // version 1: the hierarchy that has it
	stats      []measure.StatID
	bit        uint32 // of its value: if two hierarchies have it, the first counts
	when       cgroupWhen
	pulse      bool        // its growth shows that the group used CPU
	keys       []cgroupKey // its counters in each group, whatever controllers are on
	// read parses the text. had: the text has what it should have. changed: it differs from the
	// previous reading, or that is not known.
	read func(
		r *cgroupReading, out *collect.Out, n *cgroupNode, file int, b []byte,
	) (had, changed bool)
}

// cgroupWhen is when a file need not be read.
type cgroupWhen uint8

const (
	// unless the parent's counters, which include these, have changed
	whenParent cgroupWhen = iota
	// unless the file before it in the list has changed
	whenBefore
	// if the group is quiet, except each eighth time
	whenActive
	// if the memory in use is unchanged, except each eighth time
	whenMemory
	// a setting: except each sixteenth time
	whenTurn
)

// Values of cgroupFile.bit: what a file is read for.
const (
	gotCPU = 1 << iota
	gotThrottling
	gotQuota
	gotWeight
	gotCurrent
	gotLimit
	gotHigh
	gotKinds
	gotKernel
	gotEvents
	gotKills
	gotIO
	gotPids
	gotServed
	gotReadLimit
	gotWriteLimit
	gotReadOpsLimit
	gotWriteOpsLimit
	gotPidsLimit
	gotPidsRefused
	gotPressureCPU
	gotPressureMemory
	gotPressureIO
	gotPressureIrq
)

// allCgroupFiles returns the files that are read. Files that complete each other are adjacent; the
// one that only holds its value comes first.
func allCgroupFiles() []cgroupFile {
	stats := func(ids ...measure.StatID) []measure.StatID { return ids }
	memory := stats("cgroup.memory")
	pressure := stats("cgroup.pressure.time")
	keys := func(k ...cgroupKey) []cgroupKey { return k }
	return []cgroupFile{
		{
			"cpuacct.usage",
			false,
			"cpuacct",
			stats("cgroup.cpu"),
			0,
			whenParent,
			true,
			keys(ckTime),
			(*cgroupReading).holdUsage,
		},
		{
			"cpuacct.stat",
			false,
			"cpuacct",
			stats("cgroup.cpu"),
			gotCPU,
			whenBefore,
			false,
			keys(ckTime),
			(*cgroupReading).putUsage,
		},
		{
			"cpu.stat",
			false,
			"cpu",
			stats("cgroup.periods", "cgroup.throttled"),
			gotThrottling,
			whenActive,
			false,
			keys(ckPeriods, ckThrottledPeriods, ckThrottledTime),
			(*cgroupReading).putThrottling,
		},
		{
			"cpu.cfs_period_us",
			false,
			"cpu",
			stats("cgroup.quota"),
			0,
			whenTurn,
			false,
			keys(ckQuota),
			(*cgroupReading).holdNumber,
		},
		{
			"cpu.cfs_quota_us",
			false,
			"cpu",
			stats("cgroup.quota"),
			gotQuota,
			whenTurn,
			false,
			keys(ckQuota),
			(*cgroupReading).putQuota1,
		},
		{"cpu.shares", false, "cpu", stats("cgroup.weight"),
			gotWeight, whenTurn, false, keys(ckWeight), weightReader(clShares)},
		{
			"memory.usage_in_bytes",
			false,
			"memory",
			memory,
			gotCurrent,
			whenActive,
			false,
			nil,
			levelReader(clCurrent),
		},
		{
			"memory.limit_in_bytes",
			false,
			"memory",
			memory,
			gotLimit,
			whenTurn,
			false,
			nil,
			levelReader(clLimit),
		},
		{
			"memory.stat",
			false,
			"memory",
			memory,
			gotKinds,
			whenMemory,
			false,
			nil,
			(*cgroupReading).putKinds,
		},
		{
			"memory.kmem.usage_in_bytes",
			false,
			"memory",
			memory,
			gotKernel,
			whenMemory,
			false,
			nil,
			levelReader(clKernel),
		},
		{
			"memory.failcnt",
			false,
			"memory",
			stats("cgroup.memory.events"),
			gotEvents,
			whenActive,
			false,
			keys(ckMax),
			(*cgroupReading).putFailures,
		},
		{
			"memory.oom_control",
			false,
			"memory",
			stats("cgroup.memory.events"),
			gotKills,
			whenActive,
			false,
			keys(ckOOMKill),
			(*cgroupReading).putKills,
		},
		{
			"blkio.throttle.io_service_bytes_recursive",
			false,
			"blkio",
			stats("cgroup.io"),
			gotIO,
			whenParent,
			false,
			keys(ckRead, ckWrite, ckDiscard),
			(*cgroupReading).putIO1,
		},
		{
			"pids.current",
			false,
			"pids",
			stats("cgroup.pids"),
			gotPids,
			whenActive,
			false,
			nil,
			levelReader(clPids),
		},
		{"blkio.throttle.io_serviced_recursive", false, "blkio", stats("cgroup.io.operations"),
			gotServed, whenParent, false, keys(ckServed, ckServed+1, ckServed+2),
			(*cgroupReading).putServed1},
		{"blkio.throttle.read_iops_device", false, "blkio", stats("cgroup.io.operations.limit"),
			gotReadOpsLimit, whenTurn, false, keys(ckIOLimit), ioLimitReader(2)},
		{"blkio.throttle.write_iops_device", false, "blkio", stats("cgroup.io.operations.limit"),
			gotWriteOpsLimit, whenTurn, false, keys(ckIOLimit), ioLimitReader(3)},
		{"blkio.throttle.read_bps_device", false, "blkio", stats("cgroup.io.limit"),
			gotReadLimit, whenTurn, false, keys(ckIOLimit), ioLimitReader(0)},
		{"blkio.throttle.write_bps_device", false, "blkio", stats("cgroup.io.limit"),
			gotWriteLimit, whenTurn, false, keys(ckIOLimit), ioLimitReader(1)},
		{"pids.max", false, "pids", stats("cgroup.pids.limit"),
			gotPidsLimit, whenTurn, false, keys(ckPidsLimit), (*cgroupReading).putPidsLimit},
		{"pids.events", false, "pids", stats("cgroup.pids.refusals"),
			gotPidsRefused, whenActive, false, keys(ckPidsRefused),
			(*cgroupReading).putPidsRefused},

		{
			"cpu.stat",
			true,
			"",
			stats("cgroup.cpu", "cgroup.periods", "cgroup.throttled"),
			gotCPU | gotThrottling,
			whenParent,
			true,
			keys(ckTime, ckPeriods, ckThrottledPeriods, ckThrottledTime),
			(*cgroupReading).putCPU,
		},
		{
			"cpu.max",
			true,
			"",
			stats("cgroup.quota"),
			gotQuota,
			whenTurn,
			false,
			nil,
			(*cgroupReading).putQuota2,
		},
		{"cpu.weight", true, "", stats("cgroup.weight"),
			gotWeight, whenTurn, false, nil, weightReader(clWeight)},
		{
			"memory.current",
			true,
			"",
			memory,
			gotCurrent,
			whenActive,
			false,
			nil,
			levelReader(clCurrent),
		},
		{"memory.max", true, "", memory, gotLimit, whenTurn, false, nil, levelReader(clLimit)},
		{"memory.high", true, "", memory, gotHigh, whenTurn, false, nil, levelReader(clHigh)},
		{
			"memory.stat",
			true,
			"",
			memory,
			gotKinds | gotKernel,
			whenMemory,
			false,
			nil,
			(*cgroupReading).putKinds,
		},
		{
			"memory.events",
			true,
			"",
			stats("cgroup.memory.events"),
			gotEvents | gotKills,
			whenParent,
			false,
			nil,
			(*cgroupReading).putEvents,
		},
		{
			"io.stat",
			true,
			"",
			stats("cgroup.io", "cgroup.io.operations"),
			gotIO | gotServed,
			whenParent,
			false,
			nil,
			(*cgroupReading).putIO2,
		},
		{
			"pids.current",
			true,
			"",
			stats("cgroup.pids"),
			gotPids,
			whenActive,
			false,
			nil,
			levelReader(clPids),
		},
		{"io.max", true, "", stats("cgroup.io.limit", "cgroup.io.operations.limit"),
			gotReadLimit | gotWriteLimit | gotReadOpsLimit | gotWriteOpsLimit, whenTurn, false,
			keys(ckIOLimit),
			(*cgroupReading).putIOMax},
		{"pids.max", true, "", stats("cgroup.pids.limit"),
			gotPidsLimit, whenTurn, false, keys(ckPidsLimit), (*cgroupReading).putPidsLimit},
		{"pids.events", true, "", stats("cgroup.pids.refusals"),
			gotPidsRefused, whenActive, false, keys(ckPidsRefused),
			(*cgroupReading).putPidsRefused},
		// A thread that waits in a child waits in its parent too. So if the parent's "some" did not
		// grow, the child's did not grow.
		{
			"cpu.pressure",
			true,
			"",
			pressure,
			gotPressureCPU,
			whenParent,
			false,
			keys(ckPressure+0, ckPressure+1),
			pressureReader(cgCPU),
		},
		{
			"memory.pressure",
			true,
			"",
			pressure,
			gotPressureMemory,
			whenParent,
			false,
			keys(ckPressure+2, ckPressure+3),
			pressureReader(cgMemory),
		},
		{
			"io.pressure",
			true,
			"",
			pressure,
			gotPressureIO,
			whenParent,
			false,
			keys(ckPressure+4, ckPressure+5),
			pressureReader(cgIO),
		},
		{
			"irq.pressure",
			true,
			"",
			pressure,
			gotPressureIrq,
			whenParent,
			false,
			nil,
			pressureReader(cgIrq),
		},
	}
}
