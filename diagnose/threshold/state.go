package threshold

// Thresholds of what is a state and not a moment: see state.
const (
	LeastCells   = 3
	LeastSeconds = 2.7
	LeastShare   = 0.6
	LongRange    = 60.0
	LongRun      = 10.0
)

func state() []Threshold {
	return []Threshold{
		edge("LeastCells", LeastCells, "measurements", 2, 3,
			"two can agree by chance"),
		edge("LeastSeconds", LeastSeconds, "s", 2.6, 2.8,
			"three seconds less the jitter of ticks"),
		edge("LeastShare", LeastShare, "share of the time", 0.5, 0.6,
			"in a short range the condition must hold mostly: bursts leave capacity for "+
				"other work"),
		edge("LongRange", LongRange, "s", 59, 60,
			"a longer range may hold several states: an hour with three saturated minutes "+
				"is worth a finding"),
		edge("LongRun", LongRun, "s", 9, 10,
			"that a state lasts within a long range"),
	}
}

// Thresholds of what keeps a resource from being ruled out: see doubts.
const (
	DoubtStall   = 0.20
	DoubtQueue   = 2.0
	DoubtBlocked = 4.0
)

func doubts() []Threshold {
	return []Threshold{
		edge("DoubtStall", DoubtStall, "share of the time", 0.195, 0.206,
			"some task waits for the resource (PSI): its users would not believe that it is"+
				" fine"),
		edge("DoubtQueue", DoubtQueue, "runnable tasks per CPU", 1.95, 2.06,
			"on average"),
		edge("DoubtBlocked", DoubtBlocked, "tasks", 3.9, 4.15,
			"that wait for I/O at any moment, or processes in uninterruptible sleep"),
	}
}
