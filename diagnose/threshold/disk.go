package threshold

// When a disk counts as saturated.
const (
	// DiskBusyShare: share of time with at least one request under way. By itself it says little: an SSD that always has
	// one request of the hundred that it could do at once is "100 % busy".
	DiskBusyShare = 0.90
	// DiskQueueLong: requests in the disk or before it, on average. Below two each request is served as it comes.
	DiskQueueLong = 2.0
	// DiskSlow: time a request takes, ns. Disks need 5-10 ms unqueued and SSDs 0.05-1 ms; from 5 ms on with a queue requests
	// wait for each other.
	DiskSlow = 5e6
	// DiskSlowRotating: two seeks. A rotating disk that serves one of two in order is at work, not overrun.
	DiskSlowRotating = 15e6
	// RotatingOps and rotatingBytes: a disk that does more a second does not turn, whatever it says of itself: a virtual disk
	// says that it does until told otherwise.
	RotatingOps, RotatingBytes = 1000.0, 400e6
	// DiskStall: share of time in which some task stood still for I/O (PSI some), and diskStallSlow, the time a request takes
	// at least for that to count: 32 readers of a fast SSD stand still all the time, 0.2 ms each, and it could serve more.
	DiskStall, DiskStallSlow = 0.20, 1e6
	// DiskQueueDeep: with so many before it a request waits for the others, stalls or not - where CPUs are busy too, tasks that
	// wait are counted as ready soon after, and PSI tells little.
	DiskQueueDeep = 16.0
	// DiskLarge and diskLargeQueue: four requests of 60 kB and more under way fill the bandwidth of any disk, an SSD that
	// serves each in 0.3 ms too: more of them at once move no more; eight say so even where nobody is seen to stall. Of small ones it
	// could serve hundreds at once.
	DiskLarge, DiskLargeQueue, DiskLargeDeep = 60e3, 4.0, 8.0
)

// When a disk hangs.
const (
	// HangLeast: seconds for which a disk has requests under way and completes none. A disk that
	// spins up, and a large discard, take less.
	HangLeast = 5.0
	// HangBlocked: tasks that wait for I/O at any moment, on average, or hangStall, the share of
	// time in which some task stands still for it (PSI some), from where on the requests are
	// somebody's. Counters of requests under way have been wrong in some drivers, and then nobody
	// waits.
	HangBlocked, HangStall = 0.5, 0.20
)

// When waiting for I/O counts as waiting for something that is no disk here.
const (
	// IOStall: share of time in which some task stood still for I/O (PSI some).
	IOStall = 0.20
	// IOStallHigh: half of the time is felt by whoever does I/O.
	IOStallHigh = 0.50
	// IODiskIdle: of that share. The busiest disk is busy for less of the time than this part of the
	// waiting: tasks wait for something else.
	IODiskIdle = 0.5
	// IOMoves: bytes a second that programs read and write. Work on a network file system that goes on
	// at that pace waits for it all the time and may be well.
	IOMoves = 10e6
	// IOCgroup: part of the machine's waiting from where on one control group makes it.
	IOCgroup = 0.8
)
