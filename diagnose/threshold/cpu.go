package threshold

// Thresholds of rule cpu-saturated: see cpuSaturated.
const (
	CPUNearlyIdle = 0.10
	CPUNoIdle     = 0.05
	CPUQueue      = 1.25
	CPUPressure   = 0.15
	CPUActor      = 0.25
	CPUNice       = 0.8
	CPUSomeNice   = 0.5
	CPUYielding   = 0.8
	CPUSteal      = 0.15
	BusySlice     = 5e6
	ThreadsSeen   = 0.9
	CPUHalf       = 0.5
)

// Thresholds by which processes are grouped: see facts.Actors.
const (
	GroupTimes = 1.25
	GroupShare = 0.05
	GroupMost  = 0.5
	GroupLeast = 8
)

func actors() []Threshold {
	return []Threshold{
		edge("GroupTimes", GroupTimes, "times its largest program", 1.22, 1.28,
			"what a unit or container takes for it to be named in place of one program"),
		edge("GroupShare", GroupShare, "share of all", 0.048, 0.052,
			"of a smaller group the programs are named"),
		edge("GroupMost", GroupMost, "share of the processes", 0.5, 5.0/9,
			"a group of more is the machine, seen from within a container, or a session"),
		edge("GroupLeast", GroupLeast, "processes", 7, 8,
			"of fewer on the whole machine a group of most says something"),
	}
}

func cpuSaturated() []Threshold {
	return []Threshold{
		edge("CPUNearlyIdle", CPUNearlyIdle, "share of the CPU time", 0.098, 0.104,
			"with less than a tenth idle each small burst forms a queue; enough where tasks"+
				" wait too"),
		edge("CPUNoIdle", CPUNoIdle, "share of the CPU time", 0.049, 0.052,
			"less than a sampled account of idle time can tell from nothing: one tick in "+
				"twenty"),
		edge("CPUQueue", CPUQueue, "runnable tasks per CPU", 1.22, 1.28,
			"running tasks included; a quarter above one is more than reading /proc adds"),
		edge("CPUPressure", CPUPressure, "share of the time", 0.147, 0.154,
			"PSI some; idle machines show less than 2 %, busy ones without a queue less "+
				"than 10 %"),
		edge("CPUActor", CPUActor, "share of the busy time", 0.245, 0.258,
			"a program with less is not the one that fills the CPUs"),
		edge("CPUNice", CPUNice, "share of the busy time", 0.78, 0.82,
			"work of low priority; from here on hardly any other task must wait"),
		edge("CPUSomeNice", CPUSomeNice, "share of the busy time", 0.48, 0.52,
			"work of low priority; from here on only some tasks must wait"),
		edge("CPUYielding", CPUYielding, "share of the waits", 0.78, 0.82,
			"of work that was made to give way; from here on hardly any other task waits"),
		edge("CPUSteal", CPUSteal, "share of the CPU time", 0.147, 0.154,
			"given to other guests; from here on the hypervisor is a cause by itself"),
		edge("BusySlice", BusySlice, "ns", 4.8e6, 5.2e6,
			"CPU time between two sleeps; with less a process wakes for requests or timers. "+
				"Used where the threads of a process are not recorded"),
		edge("ThreadsSeen", ThreadsSeen, "share of the process", 0.88, 0.92,
			"CPU time and waits of the threads that are recorded; with less the numbers of "+
				"the process are used"),
		edge("CPUHalf", CPUHalf, "share of the busy time", 0.49, 0.52,
			"a program with that much is named though the CPUs would be full without it"),
	}
}

// Thresholds of rule cpu-one-saturated: see cpuOne.
const (
	OneFull = 0.93
	OneIdle = 0.5
	OneWide = 1.08
	OneMost = 0.5

	TurnsWait  = 0.6
	TurnsShare = 0.8
	TurnsMost  = 0.8
	TurnsLeast = 0.05
	TurnsFutex = 0.9
	TurnsOne   = 0.75

	OneTasks = 0.4
)

func cpuOne() []Threshold {
	return []Threshold{
		edge("OneFull", OneFull, "share of a CPU", 0.91, 0.95,
			"a thread that never waits gets all of a CPU except interrupts and measuring"),
		edge("OneIdle", OneIdle, "idle CPUs", 0.49, 0.52,
			"that parallel work could use; half a CPU is no artefact of accounting"),
		edge("OneWide", OneWide, "CPUs", 1.06, 1.1,
			"a process between OneFull and this may be one busy thread; above it has "+
				"several"),
		edge("TurnsWait", TurnsWait, "tasks", 0.58, 0.62,
			"of a process that wait for a CPU: threads that take turns wait for one another"),
		edge("TurnsShare", TurnsShare, "share of the time", 0.75, 0.85,
			"in which threads together use one CPU, no more and no less"),
		edge("TurnsMost", TurnsMost, "CPUs", 0.77, 0.83,
			"of one thread, from which it is the one that works"),
		edge("TurnsLeast", TurnsLeast, "CPUs", 0.045, 0.055, "of a thread that takes part"),
		edge("TurnsFutex", TurnsFutex, "share of the threads that sleep", 0.87, 0.93,
			"that wait for one another, in futex(2)"),
		edge("TurnsOne", TurnsOne, "share of the readings", 0.65, 0.8,
			"at which one of the threads does not sleep"),
		edge("OneMost", OneMost, "share of what a CPU runs", 0.48, 0.52,
			"from here on a program is named as the one that fills the CPU"),
		edge("OneTasks", OneTasks, "share of a CPU", 0.39, 0.41,
			"with less for tasks it is interrupts that fill the CPU"),
	}
}

// Thresholds of rule cpu-softirq: see cpuSoftirq.
const (
	SoftirqHalf       = 0.5
	SoftirqNoIdle     = 0.10
	SoftirqOthersIdle = 0.30
	SoftirqPart       = 0.05
	SoftirqDevices    = 3
	CostNoted         = 0.01
)

func cpuSoftirq() []Threshold {
	return []Threshold{
		edge("SoftirqHalf", SoftirqHalf, "share of a CPU", 0.49, 0.52,
			"interrupt work from here on, and not tasks, is what fills the CPU"),
		edge("SoftirqNoIdle", SoftirqNoIdle, "share of a CPU", 0.097, 0.104,
			"with less left packets begin to wait"),
		edge("SoftirqOthersIdle", SoftirqOthersIdle, "share of a CPU", 0.29, 0.31,
			"the other CPUs could take a part from here on"),
		edge("SoftirqPart", SoftirqPart, "share of a CPU", 0.049, 0.052,
			"a device whose packets take less gets no line of evidence"),
		edge("SoftirqDevices", SoftirqDevices, "lines", 3, 4,
			"most devices that get a line of evidence"),
		edge("CostNoted", CostNoted, "share of a CPU", 0.0097, 0.0104,
			"from here on a report notes what the measuring itself took"),
	}
}

// Thresholds of rules fork-storm and cpu-saturated: see forks.
const (
	ShortLife  = 0.5
	ForkRate   = 300.0
	ForkHidden = 0.30
	ForkBusy   = 0.20
	ForkIdle   = 0.30
)

func forks() []Threshold {
	return []Threshold{
		edge("ShortLife", ShortLife, "s of CPU time", 0.48, 0.52,
			"mean CPU time of a process that ends before it is read: processes are read "+
				"once per second"),
		edge("ForkRate", ForkRate, "starts per second and CPU", 295, 310,
			"fork, exec and exit cost 0.5-1 ms of CPU time, 300 of them a fifth of a CPU; "+
				"builds reach 100"),
		edge("ForkHidden", ForkHidden, "share of the busy time", 0.29, 0.31,
			"in none of the processes seen: it went to short-lived ones"),
		edge("ForkBusy", ForkBusy, "share of the CPU time", 0.195, 0.205,
			"with less to do the hidden share does not matter"),
		edge("ForkIdle", ForkIdle, "share of the CPU time", 0.29, 0.31,
			"with so much idle the starts take nothing from other tasks"),
	}
}

// Thresholds of rule cgroup-throttled: see throttling.
const (
	ThrottledSome = 0.20
	ThrottledHalf = 0.50
	ThrottledTime = 0.02
)

func throttling() []Threshold {
	return []Threshold{
		edge("ThrottledSome", ThrottledSome, "share of the periods", 0.19, 0.21,
			"one period in five shows in the latency of every longer request; rare bursts "+
				"are what quotas are for"),
		edge("ThrottledHalf", ThrottledHalf, "share of the periods", 0.49, 0.52,
			"from here on the limit, not the work, sets the speed of the group"),
		edge("ThrottledTime", ThrottledTime, "s per s", 0.019, 0.021,
			"its tasks were stopped for less: not felt"),
	}
}
