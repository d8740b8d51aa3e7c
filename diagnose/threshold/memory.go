package threshold

// Thresholds of rule memory-pressure: see memory.
const (
	MemoryLow        = 0.10
	MemoryPlenty     = 0.25
	MemoryStall      = 0.05
	MemoryStallHigh  = 0.20
	MemoryDirect     = 1e6
	MemoryStallsRate = 5.0
	MemoryRefaults   = 10e6
	MemoryMajor      = 100.0
	MemoryFelt       = 0.01
	CgroupFull       = 0.95
	CgroupHits       = 10.0
)

func memory() []Threshold {
	return []Threshold{
		edge("MemoryLow", MemoryLow, "share of the memory", 0.098, 0.103,
			"available; reclaim begins to matter below it, together with a sign that it "+
				"hurts"),
		edge("MemoryPlenty", MemoryPlenty, "share of the memory", 0.245, 0.256,
			"with more available the machine does not lack memory"),
		edge("MemoryStall", MemoryStall, "share of the time", 0.048, 0.052,
			"PSI some; healthy machines show 0"),
		edge("MemoryStallHigh", MemoryStallHigh, "share of the time", 0.195, 0.206,
			"a fifth of the time lost is felt by every user"),
		edge("MemoryDirect", MemoryDirect, "B/s scanned", 970000, 1.04e+06,
			"direct reclaim; 256 pages per second, far above a rare batch of 32"),
		edge("MemoryStallsRate", MemoryStallsRate, "allocations per second", 4.9, 5.2,
			"that had to stall"),
		edge("MemoryRefaults", MemoryRefaults, "B/s", 9.8e+06, 1.03e+07,
			"pages read again soon after they were evicted: the cache is smaller than the "+
				"working set"),
		edge("MemoryMajor", MemoryMajor, "faults per second", 97, 104,
			"that read from disk; counts only on kernels without PSI and refaults, since "+
				"each program start makes them"),
		edge("MemoryFelt", MemoryFelt, "share of the time", 0.0097, 0.0104,
			"PSI some; with less nobody notices reclaim"),
		edge("CgroupFull", CgroupFull, "share of the limit", 0.94, 0.96,
			"the kernel reclaims in batches: a group at its limit is read a little below it"),
		edge("CgroupHits", CgroupHits, "events per second", 9.7, 10.4,
			"allocations at the limit; a job that fills its cache once shows a few"),
	}
}

// Thresholds of rule swapping: see swapping.
const (
	SwapIn    = 1e6
	SwapBoth  = 10e6
	SwapStall = 0.01
)

func swapping() []Threshold {
	return []Threshold{
		edge("SwapIn", SwapIn, "B/s", 970000, 1.04e+06,
			"256 pages per second that tasks wait for: 3 % of the time at 0.1 ms, more than"+
				" all of it at 5 ms"),
		edge("SwapBoth", SwapBoth, "B/s", 9.7e+06, 1.04e+07,
			"in and out; from here on the machine is busy swapping"),
		edge("SwapStall", SwapStall, "share of the time", 0.0097, 0.0104,
			"PSI some of memory; with less nobody waits: compressed memory returns a page "+
				"in microseconds"),
	}
}

// Thresholds of rule memory-growing: see growing.
const (
	GrowSteady = 0.75
	GrowAnon   = 0.5
	GrowSoon   = 600.0
	GrowUrgent = 120.0
	GrowPart   = 0.5
	GrowKernel = 268435456.0
)

func growing() []Threshold {
	return []Threshold{
		edge("GrowSteady", GrowSteady, "share of the steps", 0.7, 0.8,
			"in which the memory of a process grows: one that takes and releases does not leak"),
		edge("GrowAnon", GrowAnon, "share of the growth", 0.48, 0.52,
			"by which anonymous memory grows: the rest is mapped files, which cost nothing"),
		edge("GrowSoon", GrowSoon, "s", 590, 615,
			"until none is available; what takes longer can be seen in the history"),
		edge("GrowUrgent", GrowUrgent, "s", 115, 125,
			"until none is available: too short for a person to look"),
		edge("GrowKernel", GrowKernel, "bytes", 260e6, 276e6,
			"of a kind of memory of the kernel, from which its growth counts"),
		edge("GrowPart", GrowPart, "share of the growth", 0.48, 0.52,
			"of shared or kernel memory; a file system or slab that has it is named"),
	}
}

// Thresholds of rule compaction-stalls: see compaction.
const (
	CompactStalls   = 5.0
	CompactDelay    = 0.01
	CompactPressure = 0.02
)

func compaction() []Threshold {
	return []Threshold{
		edge("CompactStalls", CompactStalls, "allocations per second", 4.9, 5.2,
			"that wait for compaction; programs that start make some"),
		edge("CompactDelay", CompactDelay, "share of the time", 0.0097, 0.0104,
			"in which tasks of a program wait for compaction, by delay accounting"),
		edge("CompactPressure", CompactPressure, "share of the time", 0.0195, 0.0206,
			"PSI some of memory; counts only without delay accounting and direct reclaim"),
	}
}
