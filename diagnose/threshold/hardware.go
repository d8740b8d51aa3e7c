package threshold

// Thresholds of rule cpu-slow.
const (
	ThrottleShare = 0.05
	ThrottleHigh  = 0.3
	ThrottleRate  = 1.0
	SlowBusy      = 0.5
	SlowLimit     = 0.9
	SlowClock     = 0.6
)

func slowness() []Threshold {
	return []Threshold{
		edge("ThrottleShare", ThrottleShare, "share of the time", 0.048, 0.052,
			"a fan that reacts late costs less"),
		edge("ThrottleHigh", ThrottleHigh, "share of the time", 0.29, 0.31,
			"cooling fails, or the load is more than the machine was built for"),
		edge("ThrottleRate", ThrottleRate, "events per second", 0.97, 1.04,
			"before Linux 5.8, which does not measure the time"),
		edge("SlowBusy", SlowBusy, "share of the CPU time", 0.49, 0.51,
			"in use; nobody misses the speed of idle CPUs"),
		edge("SlowLimit", SlowLimit, "share of the highest frequency", 0.89, 0.91,
			"steps of a frequency driver and a small reserve are less"),
		edge("SlowClock", SlowClock, "share of the limit", 0.59, 0.61,
			"of CPUs that are busy; full load of all cores and AVX cost up to a third"),
	}
}

// Thresholds of rule numa-remote.
const (
	RemoteShare  = 0.3
	RemoteRate   = 50e6
	RemoteFaults = 1000.0
	RemoteHalf   = 0.5
	RemoteMoved  = 10000.0
)

func numa() []Threshold {
	return []Threshold{
		edge("RemoteShare", RemoteShare, "share of what is allocated", 0.29, 0.31,
			"some memory of other nodes is usual, as of shared libraries and page cache"),
		edge("RemoteRate", RemoteRate, "B/s", 49e6, 51e6,
			"of other nodes; less is seldom what a program works on"),
		edge("RemoteFaults", RemoteFaults, "samples per second", 970, 1040,
			"with fewer the kernel looks at little memory"),
		edge("RemoteHalf", RemoteHalf, "share of the samples", 0.49, 0.51,
			"more accesses go to other nodes than to the own one"),
		edge("RemoteMoved", RemoteMoved, "pages per second", 9700, 10400,
			"40 MB/s: moving costs CPU time and bandwidth"),
	}
}
