package threshold

// When memory counts as short.
const (
	// MemoryLow: share of memory that is available without harm. Free memory means nothing, Linux fills it with cache;
	// below a tenth the kernel's reclaim begins to matter, and only together with a sign that it does.
	MemoryLow = 0.10
	// MemoryPlenty: with so much available nothing that happens is the machine's want of memory.
	MemoryPlenty = 0.25
	// MemoryStall: share of time in which some task stood still for memory (PSI some). Healthy machines show 0.
	MemoryStall = 0.05
	// MemoryStallHigh: a fifth of the time lost is felt by everybody.
	MemoryStallHigh = 0.20
	// MemoryDirect: direct reclaim makes the task that wants memory look for it itself; 1 MB/s scanned is 256 pages/s, far
	// above the rare single batch of 32 pages of a healthy machine.
	MemoryDirect = 1e6
	// MemoryStallsRate: allocations that had to stall, a second.
	MemoryStallsRate = 5.0
	// MemoryRefaults: pages read again that had been thrown out shortly before, B/s: the cache is smaller than what is in use.
	MemoryRefaults = 10e6
	// MemoryMajor: faults that had to read from disk, a second. Each program that starts makes them, so
	// they count only on kernels that say neither how long tasks wait nor what is read again.
	MemoryMajor = 100.0
	// MemoryFelt: share of time in which some task stood still for memory, below which nobody feels that
	// the kernel looks for memory.
	MemoryFelt = 0.01
)

// When the memory of one control group counts as short.
const (
	// CgroupFull: share of its limit that the group uses. The kernel reclaims in batches, so that a
	// group at its limit is a little below it when it is read.
	CgroupFull = 0.95
	// CgroupHits: allocations a second that reach the group's limit. A batch job that fills its cache
	// up to the limit once shows a few; the limit pinches when they go on.
	CgroupHits = 10.0
)

// When swap traffic is a state of the machine.
const (
	// SwapIn: pages that come back are pages that somebody waited for. 1 MB/s is 256 of them a second: at 0.1 ms each from
	// an SSD 3 % of somebody's time, at 5 ms from a disk more than all of it.
	SwapIn = 1e6
	// SwapBoth: in and out together from where on the machine is busy with it.
	SwapBoth = 10e6
	// SwapStall: share of time in which some task stood still for memory (PSI). Where the kernel tells it and it is less,
	// nobody waits: swap in compressed memory (zram) gives a page back within microseconds.
	SwapStall = 0.01
)
