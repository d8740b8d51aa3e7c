package facts

// The queries of the rules. Rules share them literally, so that each is measured and asked once.
const (
	CPUTime          = `cpu.time by cpu,mode`
	Runnable         = `sched.runnable`
	Blocked          = `sched.blocked`
	Forks            = `sched.forks`
	Pressure         = `pressure.time by resource,scope`
	ProcessCPU       = `process.cpu by pid,process,mode`
	ProcessShort     = `process.short by pid,process`
	ProcessWait      = `process.runwait by pid,process`
	ProcessDelay     = `process.delay by pid,process,reason`
	ProcessIO        = `process.io by pid,process,direction`
	ProcessCallBytes = `process.calls.bytes by pid,process,direction`
	ProcessIOClass   = `process.io.priority by pid,process,class`
	ProcessInfo      = `process.info by pid,process,cgroup,command`
	ProcessRSS       = `process.rss by pid,process`
	ProcessFaults    = `process.faults by pid,process,type where type = "major"`
	ProcessMinor     = `process.faults by pid,process,type where type = "minor"`
	ProcessSight     = `process.visibility by visible,reason`
	ProcessStates    = `process.count by state`
	ProcessBlocked   = `process.blocked by pid,process,wchan,caller,mount,type,source`
	Zombies          = `process.zombies by pid,process`
	ProcessStopped   = `process.stopped by pid,process,by,tracer,tracername`
	ProcessThreads   = `process.threads by pid,process`
	ProcessSwitches  = `process.switches by pid,process,type`
	ProcessSleepers  = `process.sleepers by pid,process,wchan`
	LockWaiters      = `process.lock.waiters by pid,process,lock,holder,wchan`
	FileLockWaiters  = `file.lock.waiters by pid,process,file,kind,holder,holderprocess,wchan,related`
	SemaphoreWaiters = `semaphore.waiters by pid,process,set,semaphore,last,lastprocess,wchan,related`
	PipeWaiters      = `process.pipe.waiters by pid,process,kind,reader,readerprocess,wchan,` +
		`related,moved`
	ProcessWeights = `process.weight by pid,process,policy,nice,group,autogroup,allowed`
	Placement      = `process.placement by pid,process,cpu,allowed`
	Realtime       = `thread.realtime by pid,process,tid,thread,policy,cpu`
	ThreadCPU      = `thread.cpu by pid,process,tid,thread`
	ThreadWait     = `thread.runwait by pid,process,tid,thread`

	FailedProcesses    = `process.failures by process,parent,parentprocess,end,cgroup`
	FailedProcessTimes = `process.failures.time by process,parent,parentprocess,end,cgroup`

	Softirqs        = `softirq.count by cpu,vector`
	Interrupts      = `irq.count by irq,cpu,device`
	SoftirqTimes    = `softirq.time by cpu,vector,device`
	SoftirqTimeCost = `irq.time.cost`
	SoftnetDrops    = `softnet.drops by cpu`
	SoftnetSqueezes = `softnet.squeezes by cpu`
	SoftnetPackets  = `softnet.packets by cpu`

	FrequencyLimits = `cpu.frequency.limit by cpu,kind`
	Frequencies     = `cpu.frequency by cpu`
	ThrottleTime    = `cpu.throttle.time by cpu,scope`
	ThrottleCount   = `cpu.throttle.count by cpu,scope`

	NUMAMemory    = `memory.numa by node,kind`
	NUMABalancing = `memory.numa.balancing by kind`

	Clocksource  = `system.clocksource by source,available`
	ClockStepped = `system.clock.steps by direction`

	StackSamples = `cpu.stack.samples by process,pid,cpu,kernel`
	StackRate    = `cpu.stack.rate by cpu`

	MemorySize    = `memory.size by kind`
	MemorySwap    = `memory.swap by direction`
	MemoryScan    = `memory.scan by by`
	MemoryStalls  = `memory.stalls`
	MemoryFaults  = `memory.faults by type`
	MemoryOOM     = `memory.oom`
	MemoryRefault = `memory.refaults by kind`

	MemoryCompaction = `memory.compaction`
	MemoryDirty      = `memory.dirty by kind`

	DiskBusy     = `disk.busy by device`
	DiskQueue    = `disk.queue by device`
	DiskWait     = `disk.wait by device,direction`
	DiskOps      = `disk.operations by device,direction`
	DiskBytes    = `disk.bytes by device,direction`
	DiskInflight = `disk.inflight by device`
	DiskInfo     = `disk.info by device,kind,parent,rotational`

	ArrayMissing  = `disk.array.missing by device,level,members,action`
	ArraySync     = `disk.array.sync by device,action,kind`
	DiskSuspended = `disk.suspended by device`

	DiskName         = `disk.name by device,name`
	FilesystemSize   = `filesystem.size by mount,device,type,kind`
	FilesystemInodes = `filesystem.inodes by mount,device,type,kind`
	FilesystemAccess = `filesystem.access by mount,device,type,access`

	CgroupPids        = `cgroup.pids by cgroup`
	CgroupPidsLimit   = `cgroup.pids.limit by cgroup`
	CgroupPidsRefused = `cgroup.pids.refusals by cgroup`

	LimitUsed    = `limit.used by resource,owner`
	LimitSize    = `limit.size by resource,owner`
	PortsUsed    = `tcp.ports.used by netns,local,peer,peerport`
	PortsWaiting = `tcp.ports.used by netns,local,peer,peerport where state = "time-wait"`
	PortsLimit   = `tcp.ports.limit by netns,range`

	UnixQueue = `unix.listen.queue by netns,path`
	UnixLimit = `unix.listen.limit by netns,path`

	// FailedCalls are the system calls that failed. Most errors are usual: see Failures.
	FailedCalls = `syscall.count by process,pid,syscall,error where error != "none"`

	HTTPRequests = `http.request.count by netns,side,peer,port,process,pid`
	HTTPAnswers  = `http.answer.count by netns,side,peer,port,process,pid,status`
	HTTPTimes    = `http.answer.time by netns,side,peer,port,process,pid`
	HTTPLatency  = `http.answer.latency by netns,side,peer,port,process,pid`

	CgroupCPU           = `cgroup.cpu by cgroup`
	CgroupPeriods       = `cgroup.periods by cgroup,kind`
	CgroupThrottledTime = `cgroup.throttled by cgroup`
	CgroupQuota         = `cgroup.quota by cgroup`
	CgroupWeights       = `cgroup.weight by cgroup,file`
	CgroupMemory        = `cgroup.memory by cgroup,kind`
	CgroupEvents        = `cgroup.memory.events by cgroup,event`
	CgroupPressure      = `cgroup.pressure.time by cgroup,resource,scope`
	CgroupIOLimit       = `cgroup.io.limit by cgroup,device,direction`
	CgroupOps           = `cgroup.io.operations by cgroup,device,direction`
	CgroupOpsLimit      = `cgroup.io.operations.limit by cgroup,device,direction`
	CgroupIO            = `cgroup.io by cgroup,device,direction`

	CacheEntries = `cache.entries by netns,cache`
	CacheBuckets = `cache.buckets by netns,cache`
	CacheLimit   = `cache.limit by netns,cache`
	CacheBytes   = `cache.bytes by netns,cache`
	CacheRefused = `cache.refusals by netns,cache`
	CacheCollect = `cache.collections by netns,cache`
	CacheGrowth  = `cache.growth by netns,cache`

	DevicePackets   = `net.device.packets by netns,device,direction`
	DeviceBytes     = `net.device.bytes by netns,device,direction`
	DeviceWire      = `net.device.wire by netns,device,direction`
	DeviceErrors    = `net.device.errors by netns,device,direction`
	DeviceDrops     = `net.device.drops by netns,device,direction`
	DeviceDetail    = `net.device.errors.detail by netns,device,direction,reason`
	DeviceFifo      = `net.device.fifo by netns,device,direction`
	DeviceNoHandler = `net.device.nohandler by netns,device`
	DeviceSpeed     = `net.device.speed by netns,device`
	DeviceCapacity  = `net.device.capacity by netns,device,direction,from`
	DeviceInfo      = `net.device.info by netns,device,kind,driver,mac,admin,state,duplex,autoneg,mtu,master,lower,flags`
	DeviceAddress   = `net.device.address by netns,device,family,address,scope`
	DeviceModes     = `net.device.modes by netns,device,list,mode`
	DeviceUses      = `net.device.uses by netns,device,use`
	QdiscDrops      = `net.qdisc.drops by netns,device,kind,handle,parent`
	QdiscPackets    = `net.qdisc.packets by netns,device,kind,handle,parent`
	QdiscBytes      = `net.qdisc.bytes by netns,device,kind,handle,parent`
	QdiscBacklog    = `net.qdisc.backlog by netns,device,kind,handle,parent`
	QdiscRate       = `net.qdisc.rate by netns,device,kind,handle,parent`
	ProtocolEvents  = `net.protocol.events by netns,protocol,counter`

	UDPDrops   = `udp.socket.drops by netns,localport,pid,process`
	DNSWaiting = `dns.waiting by netns,server`
	DNSSlow    = `dns.slow by netns,server`
	DNSQueries = `dns.query.count by netns,server,process,pid`
	DNSAnswers = `dns.answer.count by netns,server,process,pid,code`
	DNSTimes   = `dns.answer.time by netns,server,process,pid`
	Connects   = `tcp.connect.count by process,pid,peer,peerport,error`

	FlowBytes       = `tcp.flow.bytes by netns,local,localport,peer,peerport,pid,process,side,direction`
	FlowRetransmits = `tcp.flow.retransmits by netns,local,localport,peer,peerport,pid,process,side`
	FlowSegments    = `tcp.flow.segments by netns,local,localport,peer,peerport,pid,process,side,direction`
	FlowRTT         = `tcp.flow.rtt by netns,local,localport,peer,peerport,pid,process,side`
	FlowMinRTT      = `tcp.flow.minrtt by netns,local,localport,peer,peerport,pid,process,side`
	FlowDelivery    = `tcp.flow.delivery by netns,local,localport,peer,peerport,pid,process,side`
	FlowUnsent      = `tcp.flow.unsent by netns,local,localport,peer,peerport,pid,process,side`
	FlowUnacked     = `tcp.flow.unacked by netns,local,localport,peer,peerport,pid,process,side`
	FlowCwnd        = `tcp.flow.cwnd by netns,local,localport,peer,peerport,pid,process,side`
	FlowMSS         = `tcp.flow.mss by netns,local,localport,peer,peerport,pid,process,side`
	FlowQueue       = `tcp.flow.queue by netns,local,localport,peer,peerport,pid,process,side,direction`
	FlowBuffer      = `tcp.flow.buffer by netns,local,localport,peer,peerport,pid,process,side,kind`
	FlowLimited     = `tcp.flow.limited by netns,local,localport,peer,peerport,pid,process,side,by`
	ListenQueue     = `tcp.listen.queue by netns,local,localport,pid,process`
	ListenLimit     = `tcp.listen.limit by netns,local,localport,pid,process`
	Descriptors     = `process.files by pid,process`
	DescriptorLimit = `process.files.limit by pid,process`
)
