package threshold

// When a function is worth a line among evidence.
const (
	// FunctionLine: it takes this share of what the evidence is about, and functionLines is how many lines there are at most.
	FunctionLine  = 0.1
	FunctionLines = 2
	// FunctionSeen: of ten seconds of a CPU at 99 a second it is ten samples; fewer may be chance.
	FunctionSeen = 0.01
)

// When one function of the kernel counts as taking too much.
const (
	// FunctionShare: of the time in which CPUs had something to do, for those of which it is known what makes them slow: searches through tables, and waiting for locks.
	FunctionShare = 0.15
	// FunctionMuch: for any other. On machines that are well the work is spread over many functions: of streams of TCP and small datagrams at full speed, pipes, messages, compilers,
	// searches through files and system calls that do nothing, none but those of everyday had more than a tenth.
	FunctionMuch = 0.30
	// FunctionNearly: and from here on the CPUs do little else.
	FunctionNearly = 0.5
	// FunctionBusy: of a CPU, or of all of them together, that have something to do: less holds nobody up.
	FunctionBusy = 0.5
	// FunctionLeast: of a CPU. Ten samples a second.
	FunctionLeast = 0.1
	// FunctionMost: findings; more are the same trouble seen twice.
	FunctionMost = 2
)

// When throwing a cache away counts as a trouble.
const (
	// PurgeSeen: share of a CPU that a process spends on it, from where on it is told: fifteen samples in ten seconds of 99 a second.
	PurgeSeen = 0.015
	// PurgeFelt: from here on whoever calls waits for it: 19 ms five times a second are a tenth of a CPU.
	PurgeFelt = 0.05
	// PurgeHeld: a process that spends half of a CPU on it does little else while it does.
	PurgeHeld = 0.5
	// PurgeSize: a cache with fewer entries is gone through in no time: 40,000 took 19 ms.
	PurgeSize = 1000.0
)

// When a table of the kernel counts as too long, growing or full.
const (
	// TableChain: entries a bucket. A good hash table has one or fewer; a chain of eight is a walk of four on average, all
	// cache misses.
	TableChain = 8.0
	// TableChainBad: from here on the walk costs more than the rest of the work on a packet (27 us instead of 5 at 781).
	TableChainBad = 64.0
	// TableWorth: a table with fewer entries is walked within the processor's cache.
	TableWorth = 1000.0
	// TableBusy: share of a CPU that softirq work takes, from where on what a packet costs matters.
	TableBusy = 0.15
	// PacketDear: nanoseconds of softirq time a packet; 1-5 us is usual.
	PacketDear = 10e3
	// TableNear and tableFull: of the limit. Past it the kernel refuses new entries (conntrack: drops new connections).
	TableNear, TableFull = 0.90, 0.99
	// TableCollect: forced collections a second. A table of neighbours is looked through at most each five seconds while it is below
	// its limit (gc_thresh3), and at each new entry when it is at it and little of it can be evicted.
	TableCollect = 1.0
	// LeastLimit: a smaller limit is no limit of a table but a switch.
	LeastLimit = 16.0
	// GrowSize: tables below it can grow for long before anybody notices.
	GrowSize = 50000.0
	// GrowDouble: and it would double within ten minutes.
	GrowDouble = 600.0
)
