package threshold

// How long something must last to be a state and not a moment.
const (
	// LeastCells: two measurements can agree by chance; three in which the same holds are a state.
	LeastCells = 3
	// LeastSeconds is what CASES asks of a saturated link (3 s), less what ticks jitter.
	LeastSeconds = 2.7
	// LeastShare: in a short look most of the time must be so. Bursts that fill less than this leave room for more work.
	LeastShare = 0.6
	// LongRange is from where on a range holds many states, each of which counts if it lasted longRun by itself: an hour
	// with three saturated minutes is worth a finding about these minutes.
	LongRange = 60.0
	LongRun   = 10.0
)

// When a resource's own numbers keep it from being ruled out, whatever its rules say.
const (
	// InnocentStall: share of time in which some task waits for a resource (PSI some). Somebody who
	// waits a fifth of the time does not believe that the resource has nothing to do with it.
	InnocentStall = 0.20
	// InnocentQueue: runnable tasks a CPU, on average.
	InnocentQueue = 2.0
	// InnocentBlocked: tasks that wait for I/O at any moment, on average (procs_blocked), or processes in uninterruptible sleep
	// (state D), as at a frozen file system, whose wait counts as no I/O.
	InnocentBlocked = 4.0
)
