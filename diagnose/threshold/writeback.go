package threshold

// Thresholds of rule writeback-throttled: see writeback.
const (
	WritebackUsed   = 0.95
	WritebackPaused = 0.5
	WritebackMany   = 4.0
	WritebackShort  = 1.0
)

func writeback() []Threshold {
	return []Threshold{
		edge("WritebackUsed", WritebackUsed, "share of the dirty pages at which pauses begin",
			0.94, 0.96, "the kernel begins to pause programs halfway between the background limit "+
				"and the limit; both move a little with the memory available"),
		edge("WritebackPaused", WritebackPaused, "threads", 0.48, 0.52,
			"paused at any moment; a copy that ends within seconds pauses now and then"),
		edge("WritebackMany", WritebackMany, "threads", 3.9, 4.1,
			"paused at any moment: more than one job waits"),
		edge("WritebackShort", WritebackShort, "s", 0.97, 1.04,
			"in which the device writes all that the limit allows; flushing begins twice a "+
				"second at most, so a smaller limit stops programs that the device could serve"),
	}
}

// Thresholds of rule swap-in-idle: see swapIdle.
const (
	SwapIdleIn   = 100e3
	SwapIdleOut  = 0.1
	SwapIdleFree = 0.25
	SwapIdleWait = 0.01
	SwapIdleMuch = 0.1
)

func swapIdle() []Threshold {
	return []Threshold{
		edge("SwapIdleIn", SwapIdleIn, "B/s", 97e3, 104e3,
			"swapped in: 24 pages per second, an eighth of the time at 5 ms each"),
		edge("SwapIdleOut", SwapIdleOut, "share of what is swapped in", 0.097, 0.104,
			"that is swapped out meanwhile; with more the machine or a control group lacks memory"),
		edge("SwapIdleFree", SwapIdleFree, "share of the memory", 0.245, 0.256,
			"available: with more the pages need not be in swap"),
		edge("SwapIdleWait", SwapIdleWait, "share of the time", 0.0097, 0.0104,
			"that tasks of a program wait for swapped pages (delay accounting)"),
		edge("SwapIdleMuch", SwapIdleMuch, "share of the time", 0.097, 0.104,
			"that they wait: users of the program notice it"),
	}
}

// Thresholds of rule clock-steps: see clockSteps.
const (
	ClockStep     = 0.01
	ClockStepFelt = 1.0
	ClockSteps    = 2.0
	ClockEvery    = 300.0
)

func clockSteps() []Threshold {
	return []Threshold{
		edge("ClockStep", ClockStep, "s", 0.0097, 0.0104,
			"by which the clock is set at once; time services adjust its speed for less"),
		edge("ClockStepFelt", ClockStepFelt, "s", 0.97, 1.04,
			"in all: timeouts, leases and certificates of programs are off by as much"),
		edge("ClockSteps", ClockSteps, "steps", 1, 2,
			"a time service sets the clock once, and then adjusts its speed"),
		edge("ClockEvery", ClockEvery, "s", 290, 310,
			"from step to step on average: services that compete set the clock every minute; "+
				"over days, several steps are usual in a virtual machine"),
	}
}
