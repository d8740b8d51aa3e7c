package diagnose

// The sentences that several rules ask. Rules share them to the letter, so that each is measured and asked once.
const (
	cpuTime        = `cpu.time by cpu,mode`
	runnable       = `sched.runnable`
	blocked        = `sched.blocked`
	forks          = `sched.forks`
	pressure       = `pressure.time by resource,scope`
	processCPU     = `process.cpu by pid,process,mode`
	processShort   = `process.short by pid,process`
	processWait    = `process.runwait by pid,process`
	processDelay   = `process.delay by pid,process,reason`
	processIO      = `process.io by pid,process,direction`
	processInfo    = `process.info by pid,process,cgroup`
	processRSS     = `process.rss by pid,process`
	processFaults  = `process.faults by pid,process,type where type = "major"`
	processSight   = `process.visibility by visible,reason`
	processStates  = `process.count by state`
	processThreads = `process.threads by pid,process`
	threadCPU      = `thread.cpu by pid,process,tid,thread`

	softirqs        = `softirq.count by cpu,vector`
	interrupts      = `irq.count by irq,cpu,device`
	softirqTime     = `softirq.time by cpu,vector,device`
	softirqTimeCost = `irq.time.cost`
	softnetDrops    = `softnet.drops by cpu`
	softnetSqueezes = `softnet.squeezes by cpu`
	softnetPackets  = `softnet.packets by cpu`

	stackSamples = `cpu.stack.samples by process,pid,cpu,kernel`
	stackRate    = `cpu.stack.rate by cpu`

	memorySize    = `memory.size by kind`
	memorySwap    = `memory.swap by direction`
	memoryScan    = `memory.scan by by`
	memoryStalls  = `memory.stalls`
	memoryFaults  = `memory.faults by type`
	memoryOOM     = `memory.oom`
	memoryRefault = `memory.refaults by kind`

	diskBusy     = `disk.busy by device`
	diskQueue    = `disk.queue by device`
	diskWait     = `disk.wait by device,direction`
	diskOps      = `disk.operations by device,direction`
	diskBytes    = `disk.bytes by device,direction`
	diskInflight = `disk.inflight by device`
	diskInfo     = `disk.info by device,kind,parent,rotational`

	cgroupCPU       = `cgroup.cpu by cgroup`
	cgroupPeriods   = `cgroup.periods by cgroup,kind`
	cgroupThrottled = `cgroup.throttled by cgroup`
	cgroupQuota     = `cgroup.quota by cgroup`
	cgroupMemory    = `cgroup.memory by cgroup,kind`
	cgroupEvents    = `cgroup.memory.events by cgroup,event`
	cgroupPressure  = `cgroup.pressure.time by cgroup,resource,scope`
	cgroupIO        = `cgroup.io by cgroup,device,direction`

	cacheEntries = `cache.entries by netns,cache`
	cacheBuckets = `cache.buckets by netns,cache`
	cacheLimit   = `cache.limit by netns,cache`
	cacheBytes   = `cache.bytes by netns,cache`
	cacheRefused = `cache.refusals by netns,cache`
	cacheCollect = `cache.collections by netns,cache`
	cacheGrowth  = `cache.growth by netns,cache`

	devicePackets   = `net.device.packets by netns,device,direction`
	deviceBytes     = `net.device.bytes by netns,device,direction`
	deviceWire      = `net.device.wire by netns,device,direction`
	deviceErrors    = `net.device.errors by netns,device,direction`
	deviceDrops     = `net.device.drops by netns,device,direction`
	deviceDetail    = `net.device.errors.detail by netns,device,direction,reason`
	deviceFifo      = `net.device.fifo by netns,device,direction`
	deviceNoHandler = `net.device.nohandler by netns,device`
	deviceSpeed     = `net.device.speed by netns,device`
	deviceCapacity  = `net.device.capacity by netns,device,direction,from`
	deviceInfo      = `net.device.info by netns,device,kind,driver,mac,admin,state,duplex,autoneg,mtu,master,lower,flags`
	deviceAddress   = `net.device.address by netns,device,family,address,scope`
	deviceModes     = `net.device.modes by netns,device,list,mode`
	deviceUses      = `net.device.uses by netns,device,use`
	qdiscDrops      = `net.qdisc.drops by netns,device,kind,handle,parent`
	qdiscPackets    = `net.qdisc.packets by netns,device,kind,handle,parent`
	qdiscBytes      = `net.qdisc.bytes by netns,device,kind,handle,parent`
	qdiscBacklog    = `net.qdisc.backlog by netns,device,kind,handle,parent`
	qdiscRate       = `net.qdisc.rate by netns,device,kind,handle,parent`
	protocolEvents  = `net.protocol.events by netns,protocol,counter`

	flowBytes       = `tcp.flow.bytes by netns,local,localport,peer,peerport,pid,process,side,direction`
	flowRetransmits = `tcp.flow.retransmits by netns,local,localport,peer,peerport,pid,process,side`
	flowSegments    = `tcp.flow.segments by netns,local,localport,peer,peerport,pid,process,side,direction`
	flowRTT         = `tcp.flow.rtt by netns,local,localport,peer,peerport,pid,process,side`
	flowMinRTT      = `tcp.flow.minrtt by netns,local,localport,peer,peerport,pid,process,side`
	flowDelivery    = `tcp.flow.delivery by netns,local,localport,peer,peerport,pid,process,side`
	flowUnsent      = `tcp.flow.unsent by netns,local,localport,peer,peerport,pid,process,side`
	flowUnacked     = `tcp.flow.unacked by netns,local,localport,peer,peerport,pid,process,side`
	flowMSS         = `tcp.flow.mss by netns,local,localport,peer,peerport,pid,process,side`
	flowLimited     = `tcp.flow.limited by netns,local,localport,peer,peerport,pid,process,side,by`
	listenQueue     = `tcp.listen.queue by netns,local,localport,pid,process`
	listenLimit     = `tcp.listen.limit by netns,local,localport,pid,process`
	descriptors     = `process.files by pid,process`
	descriptorLimit = `process.files.limit by pid,process`
)
