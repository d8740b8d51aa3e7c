package threshold

// When all CPUs count as busy.
const (
	// CPUNearlyIdle: with less than a tenth idle a queue before the CPUs forms at every small burst (M/M/c). Enough to
	// accuse when tasks are seen to wait.
	CPUNearlyIdle = 0.10
	// CPUNoIdle: less is left than a sampled account of idle time can tell from nothing (a tick in twenty).
	CPUNoIdle = 0.05
	// CPUQueue: runnable tasks a CPU, running ones included. A quarter above one is more than this tool's own reading adds.
	CPUQueue = 1.25
	// CPUPressure: share of time in which some task waited for a CPU (PSI). Idle machines show under 2 %, busy ones
	// without a queue under 10 %.
	CPUPressure = 0.15
	// CPUActor: a group of processes with less than this share of the busy time is not "who did it".
	CPUActor = 0.25
	// CPUNice, cpuSomeNice: share of the busy time that is work of low priority, from where on hardly anybody, or only some,
	// must wait.
	CPUNice, CPUSomeNice = 0.8, 0.5
	// CPUSteal: share of the CPUs' time that the hypervisor gave to others, from where on it is a cause by itself.
	CPUSteal = 0.15
)

// When one CPU or one thread counts as at its end.
const (
	// OneFull: a thread that never waits gets all of a CPU but what interrupts and this tool take.
	OneFull = 0.93
	// OneRoom: idle CPUs that the thread could have, did it run in parallel. Half a CPU can't be an artefact of accounting.
	OneRoom = 0.5
	// OneWide: a process between oneFull and this may be one busy thread; above it there are several.
	OneWide = 1.08
	// OneMost: whose share of what a CPU runs makes a group of processes those that keep it full.
	OneMost = 0.5
	// OneTasks: with less of a full CPU for tasks it is interrupts that fill it.
	OneTasks = 0.4
)

// When interrupt work counts as having taken a CPU.
const (
	// SoftirqHalf: at least half of the CPU's time goes to interrupts, so that they and not the tasks are what fills it.
	SoftirqHalf = 0.5
	// SoftirqNoIdle: and the CPU has next to nothing left, so that packets begin to wait.
	SoftirqNoIdle = 0.10
	// SoftirqOthersIdle: while the other CPUs could take their part.
	SoftirqOthersIdle = 0.30
	// SoftirqPart: a device whose packets take less of the CPU is not worth a line, and softirqDevices is how many lines there are at most.
	SoftirqPart    = 0.05
	SoftirqDevices = 3
)

// WorthSaying: share of a CPU from where on a report says what it took itself to measure.
const WorthSaying = 0.01

// ShortMost is the CPU time, in seconds, that a process too short-lived to be seen has used at most,
// on average. Processes are read each second: one that lives for longer than that is seen, and one
// that lives for less is seen or not as it comes.
const ShortMost = 0.5

// When starting processes counts as a load of its own.
const (
	// ForkRate: a second and CPU. A fork with exec and exit costs about 0.5-1 ms of CPU time: 300 of them take a
	// fifth of a CPU or more. Builds and cron bursts reach 100.
	ForkRate = 300.0
	// ForkHidden: share of the busy time that none of the processes seen has used: it went to those that came and went.
	ForkHidden = 0.30
	// ForkBusy: and the machine has enough to do for that share to matter.
	ForkBusy = 0.20
	// ForkRoom: with so much idle it takes nothing from others.
	ForkRoom = 0.30
)

// When a CPU limit counts as holding a cgroup back.
const (
	// ThrottledSome: share of its periods (100 ms unless set) in which the cgroup used up its quota before the end. A burst
	// now and then is what quotas are for; one period in five shows up in the latency of every request that takes a while.
	ThrottledSome = 0.20
	// ThrottledHalf: from here on the limit and not the work decides how fast the cgroup is.
	ThrottledHalf = 0.50
	// ThrottledTime: its tasks stood still for at least this share of the time, all its CPUs added up.
	ThrottledTime = 0.02
)
