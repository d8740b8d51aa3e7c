package threshold

// Thresholds of rule limit-reached: see limits.
const (
	LimitFull    = 0.999
	LimitNear    = 0.95
	LimitAt      = 0.90
	LimitFilling = 0.80
	LimitSoon    = 600.0
	LimitSteady  = 0.75
	LimitLeast   = 16.0
	LimitCells   = 3
	LimitMost    = 3
	CallsFail    = 1.0
	CallsTCP     = 0.5
)

func limits() []Threshold {
	return []Threshold{
		edge("LimitFull", LimitFull, "share of the limit", 0.9985, 0.9995,
			"the next request fails, or one of the next thousand"),
		edge("LimitNear", LimitNear, "share of the limit", 0.94, 0.96,
			"worth a remark; df(1) and its users react between 90 % and 95 %"),
		edge("LimitAt", LimitAt, "share of the limit", 0.89, 0.91,
			"failed calls are put down to a limit only when it is about reached: a large "+
				"request fails before the last unit is used"),
		edge("LimitFilling", LimitFilling, "share of the limit", 0.79, 0.81,
			"what grows below it may belong to a load that has just started"),
		edge("LimitSoon", LimitSoon, "s", 590, 610,
			"until the limit at the present rate; slower growth can wait"),
		edge("LimitSteady", LimitSteady, "share of the steps", 0.7, 0.8,
			"in which the use grew: use that goes up and down is work, not filling"),
		edge("LimitLeast", LimitLeast, "units", 15, 17,
			"a smaller limit is meant to be reached, as pids.max of one process"),
		edge("LimitCells", LimitCells, "seconds with failed calls", 2, 3,
			"one failed call may be a test of what is possible"),
		edge("LimitMost", LimitMost, "findings per kind of limit", 3, 4,
			"further ones repeat the same fault"),
		edge("CallsTCP", CallsTCP, "share of the refused attempts", 0.45, 0.55,
			"that are to TCP ports, which rule connections-fail has"),
		edge("CallsFail", CallsFail, "failed calls/s", 0.9, 1.1,
			"of rule calls-fail: a program that tries again each second cannot work"),
	}
}

// Thresholds of rule zombies: see zombies.
const (
	ZombieLeast = 20.0
	ZombieMany  = 100.0
	ZombieShare = 0.5
	ZombieSoon  = 3600.0
)

func zombies() []Threshold {
	return []Threshold{
		edge("ZombieLeast", ZombieLeast, "processes", 19, 21,
			"that are never fewer; programs with many children wait for them a little late"),
		edge("ZombieMany", ZombieMany, "processes", 99, 101,
			"that are never fewer: worth a remark, although a zombie costs only its process ID"),
		edge("ZombieShare", ZombieShare, "share of the limit", 0.48, 0.52,
			"of processes and threads: the rest may be used up by a burst of work"),
		edge("ZombieSoon", ZombieSoon, "s", 3500, 3700,
			"until no process can start, at the present rate"),
	}
}

// Thresholds of rule process-stopped: see stopped.
const (
	StoppedLeast   = 3.0
	StoppedShare   = 0.9
	TracedSwitches = 500.0
)

func stopped() []Threshold {
	return []Threshold{
		edge("StoppedLeast", StoppedLeast, "s", 2, 3,
			"in which it was stopped when it was looked at: a debugger that prints a stack and "+
				"goes takes a second"),
		edge("StoppedShare", StoppedShare, "share of the time", 0.8, 0.9,
			"it does not run at all"),
		edge("TracedSwitches", TracedSwitches, "switches/s", 480, 520,
			"of a traced process: each stop is one; with fewer it may stand at a breakpoint"),
	}
}
