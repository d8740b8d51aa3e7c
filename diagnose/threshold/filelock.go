package threshold

// Thresholds of rule file-lock-wait: see fileLocks.
const (
	FileLockWaiting = 0.5
	FileLockLasts   = 6.0
	FileLockMany    = 3.0
	FileLockIdle    = 0.5
)

func fileLocks() []Threshold {
	return []Threshold{
		edge("FileLockWaiting", FileLockWaiting, "threads", 0.48, 0.52,
			"of a program that wait for a file lock at any moment"),
		edge("FileLockLasts", FileLockLasts, "s", 5, 6,
			"in which threads wait; programs hold file locks for moments"),
		edge("FileLockMany", FileLockMany, "threads", 2.9, 3.1,
			"that wait at any moment: one or two may be a second instance that is meant to wait"),
		edge("FileLockIdle", FileLockIdle, "share of the waits", 0.48, 0.52,
			"for a lock whose holder waits for requests, and is of the same pool of processes: "+
				"they take turns to accept"),
	}
}
