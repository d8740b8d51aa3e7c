package threshold

// Thresholds of rule semaphore-wait: see semaphores.
const (
	SemaphoreWaiting = 0.5
	SemaphoreLasts   = 6.0
	SemaphoreHolder  = 0.95
)

func semaphores() []Threshold {
	return []Threshold{
		edge("SemaphoreWaiting", SemaphoreWaiting, "threads", 0.48, 0.52,
			"that wait for a semaphore at any moment"),
		edge("SemaphoreLasts", SemaphoreLasts, "s", 5, 6,
			"in which threads wait; locks are held for moments"),
		edge("SemaphoreHolder", SemaphoreHolder, "share of the waits", 0.92, 0.98,
			"after the same process changed the semaphore last: it keeps it. In a pool that waits "+
				"for work this process changes with each piece of work"),
	}
}
