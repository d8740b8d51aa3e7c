package threshold

// Thresholds of rule lock-convoy: see locks.
const (
	LockWaiting = 2.0
	LockShare   = 0.5
	LockMany    = 8.0
	LockIdle    = 0.5
	LockDead    = 0.01

	LockHolderSame  = 0.5
	LockHolderWaits = 0.5
	LockHolderMost  = 0.6
)

func locks() []Threshold {
	return []Threshold{
		edge("LockWaiting", LockWaiting, "threads", 1.9, 2.1,
			"that wait for a lock at any moment; one waits now and then in every busy program"),
		edge("LockShare", LockShare, "share of the threads that have work", 0.48, 0.52,
			"that wait for a lock; with less the CPUs, not the lock, set the speed"),
		edge("LockMany", LockMany, "threads", 7.8, 8.2,
			"that wait at any moment: the lock serializes the program"),
		edge("LockIdle", LockIdle, "share of the waits", 0.48, 0.52,
			"for a lock whose holder waits for requests: a pool takes turns to accept them"),
		edge("LockDead", LockDead, "threads", 0.0096, 0.0104,
			"that use a CPU or wait for one: other threads of a deadlocked program may look "+
				"now and then whether it still lives"),
		edge("LockHolderSame", LockHolderSame, "share of the waits", 0.48, 0.52,
			"for a lock that the same thread holds, and does not sleep"),
		edge("LockHolderWaits", LockHolderWaits, "share of the time", 0.48, 0.52,
			"in which the holder of a lock waits for a CPU: it takes twice as long as alone"),
		edge("LockHolderMost", LockHolderMost, "share of the use and waits of its process", 0.58,
			0.62, "that are those of the holder: the weight of the process is that of its "+
				"thread with most"),
	}
}

// Thresholds of rule switch-storm: see switches.
const (
	SwitchRate    = 15e3
	SwitchCost    = 40e-6
	SwitchOwn     = 3e-6
	SwitchCPU     = 0.2
	SwitchMuch    = 0.5
	SwitchPartner = 0.5
	SwitchBytes   = 4096.0
)

func switches() []Threshold {
	return []Threshold{
		edge("SwitchRate", SwitchRate, "voluntary switches per second", 14600, 15400,
			"of one program; servers with ten thousand requests per second stay below"),
		edge("SwitchCost", SwitchCost, "s of CPU time per switch", 39.5e-6, 40.5e-6,
			"going to sleep and waking another takes 2 to 10 us in all, up to 30 in a virtual "+
				"machine: with more the kernel does something else too"),
		edge("SwitchOwn", SwitchOwn, "s of CPU time outside the kernel per switch", 2.9e-6, 3.1e-6,
			"reading a message and writing the next takes 1 to 2 us: with more the program "+
				"does work of its own"),
		edge("SwitchCPU", SwitchCPU, "CPUs", 0.195, 0.205,
			"with less the switches cost nobody anything"),
		edge("SwitchMuch", SwitchMuch, "CPUs", 0.48, 0.52,
			"of the program and its partners: half a CPU does no other work"),
		edge("SwitchPartner", SwitchPartner, "share of the rate of the first", 0.48, 0.52,
			"programs that wake each other switch equally often"),
		edge("SwitchBytes", SwitchBytes, "B per switch", 4000, 4200,
			"that the program reads and writes; from here on it moves data, in place of messages"),
	}
}

// Thresholds of rule realtime-hog: see realtime.
const (
	RealtimeBusy = 0.5
	RealtimeWait = 0.3
	RealtimeMany = 1.0
)

func realtime() []Threshold {
	return []Threshold{
		edge("RealtimeBusy", RealtimeBusy, "share of a CPU", 0.48, 0.52,
			"audio and control loops use a few percent"),
		edge("RealtimeWait", RealtimeWait, "tasks", 0.29, 0.31,
			"that wait where the thread runs; the scheduler moves those that may go elsewhere"),
		edge("RealtimeMany", RealtimeMany, "tasks", 0.97, 1.03,
			"that wait there: one of them hardly runs at all"),
	}
}

// Thresholds of rule cpu-starved: see starvation.
const (
	StarvedShare  = 0.5
	StarvedTasks  = 0.3
	StarvedRatio  = 3.0
	StarvedTakers = 0.5
	StarvedIdle   = 0.10
	StarvedHigh   = 0.8
	StarvedLess   = 3.0
	StarvedMost   = 0.5

	StarvedUnknown = 0.1
	StarvedHeld    = 0.05
)

func starvation() []Threshold {
	return []Threshold{
		edge("StarvedShare", StarvedShare, "share of the time that it could run", 0.48, 0.52,
			"in which a process waits for a CPU: it takes twice as long as alone"),
		edge("StarvedTasks", StarvedTasks, "tasks", 0.29, 0.31,
			"of the process that wait at any moment; with less it hardly wants a CPU"),
		edge("StarvedRatio", StarvedRatio, "times its weight", 2.9, 3.1,
			"of those that use the CPUs: five steps of nice. With less, their number decides"),
		edge("StarvedTakers", StarvedTakers, "share of its CPUs", 0.48, 0.52,
			"that those of more weight use; otherwise others keep it waiting"),
		edge("StarvedIdle", StarvedIdle, "share of its CPUs", 0.097, 0.104,
			"with more idle, it waits for another reason, as a quota"),
		edge("StarvedHigh", StarvedHigh, "share of the time that it could run", 0.78, 0.82,
			"in which it waits: it takes five times as long as alone"),
		edge("StarvedLess", StarvedLess, "times what it uses", 2.9, 3.1,
			"that its weight entitles it to: something else holds it up, as a quota"),
		edge("StarvedMost", StarvedMost, "share of all waits for a CPU", 0.48, 0.52,
			"that are those of the starved processes: without them the CPUs would suffice"),
		edge("StarvedUnknown", StarvedUnknown, "share of the CPUs", 0.097, 0.104,
			"that programs use which may use further CPUs too: how much of it there is unknown"),
		edge("StarvedHeld", StarvedHeld, "CPUs", 0.048, 0.052,
			"that a process lacks of its part; with less the scheduler's steps explain it"),
	}
}

// Thresholds of rule cpus-confined: see confinement.
const (
	ConfinedWait   = 0.5
	ConfinedIdle   = 0.10
	ConfinedOthers = 0.5
	ConfinedMany   = 2.0
)

func confinement() []Threshold {
	return []Threshold{
		edge("ConfinedWait", ConfinedWait, "tasks", 0.49, 0.51,
			"that wait for their CPUs; bursts wait less"),
		edge("ConfinedIdle", ConfinedIdle, "share of their CPUs", 0.097, 0.104,
			"with more idle, tasks wait for other reasons, as a quota"),
		edge("ConfinedOthers", ConfinedOthers, "CPUs", 0.49, 0.52,
			"that idle and that they may not use; half a CPU is no artefact of accounting"),
		edge("ConfinedMany", ConfinedMany, "tasks", 1.95, 2.05,
			"that wait: each of several processes gets a third of a CPU or less"),
	}
}
