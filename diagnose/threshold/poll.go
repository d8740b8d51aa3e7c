package threshold

// Thresholds of rule busy-polling: see polling.
const (
	PollCPU    = 0.5
	PollShare  = 0.3
	PollEmpty  = 5000.0
	PollSleeps = 4.0
	PollBytes  = 64.0
	PollMuch   = 0.6
)

func polling() []Threshold {
	return []Threshold{
		edge("PollCPU", PollCPU, "CPUs", 0.48, 0.52,
			"that the program uses; with less it sleeps in between"),
		edge("PollShare", PollShare, "share of the CPU time of the program", 0.29, 0.31,
			"in calls that ask for events and do not sleep; busy servers spend a tenth there"),
		edge("PollEmpty", PollEmpty, "calls per second that fail with EAGAIN", 4850, 5150,
			"of reads; servers read until there is nothing, once per request"),
		edge("PollSleeps", PollSleeps, "calls per sleep", 3.9, 4.1,
			"that find nothing; an event loop sleeps after one or a few"),
		edge("PollBytes", PollBytes, "B per call", 62, 66,
			"that the program moves for each call that finds nothing; a server reads more"),
		edge("PollMuch", PollMuch, "CPUs", 0.58, 0.62,
			"in such calls while no CPU is idle: others wait for it"),
	}
}
