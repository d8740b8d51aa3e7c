package threshold

// Thresholds of rule disk-saturated: see disks.
const (
	DiskBusyShare    = 0.90
	DiskQueueLong    = 2.0
	DiskSlow         = 5e6
	DiskSlowRotating = 15e6
	RotatingOps      = 1000.0
	RotatingBytes    = 400e6
	DiskStall        = 0.20
	DiskStallSlow    = 1e6
	DiskQueueDeep    = 16.0
	DiskLarge        = 60e3
	DiskLargeQueue   = 4.0
	DiskLargeDeep    = 8.0
	DiskPaused       = 0.5
)

func disks() []Threshold {
	return []Threshold{
		edge("DiskBusyShare", DiskBusyShare, "share of the time", 0.89, 0.91,
			"with a request under way; says little alone: an SSD with one of a hundred "+
				"possible requests is 100 % busy"),
		edge("DiskQueueLong", DiskQueueLong, "requests", 1.95, 2.06,
			"below two each request is served as it comes"),
		edge("DiskSlow", DiskSlow, "ns", 4.9e+06, 5.15e+06,
			"per request; disks need 5-10 ms and SSDs 0.05-1 ms without a queue"),
		edge("DiskSlowRotating", DiskSlowRotating, "ns", 1.47e+07, 1.55e+07,
			"per request: two seeks; serving one of two requests in order is normal"),
		edge("RotatingOps", RotatingOps, "requests per second", 970, 1040,
			"a disk that serves more does not rotate; virtual disks report that they do"),
		edge("RotatingBytes", RotatingBytes, "B/s", 3.9e+08, 4.12e+08,
			"a disk that moves more does not rotate"),
		edge("DiskStall", DiskStall, "share of the time", 0.195, 0.206,
			"PSI some of I/O"),
		edge("DiskStallSlow", DiskStallSlow, "ns", 970000, 1.04e+06,
			"per request, for stalls to count: 32 readers of a fast SSD always stall, for "+
				"0.2 ms each"),
		edge("DiskQueueDeep", DiskQueueDeep, "requests", 15.6, 16.5,
			"a request waits for others with or without stalls: busy CPUs hide them from "+
				"PSI"),
		edge("DiskLarge", DiskLarge, "B per request", 58500.0, 62000.0,
			"requests of this size fill the bandwidth of any disk"),
		edge("DiskLargeQueue", DiskLargeQueue, "large requests", 3.9, 4.15,
			"more at once move no more"),
		edge("DiskLargeDeep", DiskLargeDeep, "large requests", 7.8, 8.3,
			"enough where no stall is seen"),
		edge("DiskPaused", DiskPaused, "threads", 0.48, 0.52,
			"of a process in balance_dirty_pages at any moment: it writes as fast as the disk "+
				"takes it"),
	}
}

// Thresholds of rule disk-hangs: see hangs.
const (
	HangLeast   = 5.0
	HangBlocked = 0.5
	HangStall   = 0.20
)

func hangs() []Threshold {
	return []Threshold{
		edge("HangLeast", HangLeast, "s", 4, 5,
			"without a completed request; a disk that spins up and a large discard take "+
				"less"),
		edge("HangBlocked", HangBlocked, "tasks", 0.48, 0.52,
			"that wait for I/O: some drivers miscount requests under way, and then nobody "+
				"waits"),
		edge("HangStall", HangStall, "share of the time", 0.195, 0.206,
			"PSI some of I/O; the other sign that tasks wait"),
	}
}

// Thresholds of rule io-stalled: see stalls.
const (
	IOStall     = 0.20
	IOStallHigh = 0.50
	IODiskIdle  = 0.5
	IOMoves     = 10e6
	IOCgroup    = 0.8
)

func stalls() []Threshold {
	return []Threshold{
		edge("IOStall", IOStall, "share of the time", 0.195, 0.206,
			"PSI some of I/O"),
		edge("IOStallHigh", IOStallHigh, "share of the time", 0.49, 0.515,
			"half of the time is felt by every program that does I/O"),
		edge("IODiskIdle", IODiskIdle, "share of the stalled time", 0.48, 0.52,
			"the busiest disk is busy for less: tasks wait for something else"),
		edge("IOMoves", IOMoves, "B/s", 9.7e+06, 1.04e+07,
			"that programs move; work on a network file system at this pace always waits "+
				"and may be well"),
		edge("IOCgroup", IOCgroup, "share of the stalled time", 0.78, 0.82,
			"of the machine; from here on one control group causes it"),
	}
}

// Thresholds of rule tasks-blocked: see blocked.
const BlockedMany = 4.0

func blocked() []Threshold {
	return []Threshold{
		edge("BlockedMany", BlockedMany, "threads", 3, 4.2,
			"that wait for the same for whole seconds: a pile, and not one long operation"),
	}
}
