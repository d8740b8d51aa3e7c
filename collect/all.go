package collect

// All lists every collector. The list is the documentation: one line a source, with what it reads.
func All() []Collector {
	return []Collector{
		CPU{},          // /proc/stat: CPU modes, context switches, forks, run queue
		Interrupts{},   // /proc/interrupts, /proc/irq
		Softirqs{},     // /proc/softirqs
		Load{},         // /proc/loadavg
		Schedstat{},    // /proc/schedstat: time waited for each CPU
		Pressure{},     // /proc/pressure
		NetDevices{},   // rtnetlink, ethtool: network devices and their queues
		NetProtocols{}, // /proc/net/snmp, netstat, snmp6, sockstat, stat/nf_conntrack
		NetCaches{},    // TCP, UDP, conntrack, neighbour, route and bridge tables
		Memory{},       // /proc/meminfo
		Vmstat{},       // /proc/vmstat: paging, swap, faults, reclaim
		Disks{},        // /proc/diskstats, /sys/block
		Filesystems{},  // statfs of /proc/self/mountinfo
		Softnet{},      // /proc/net/softnet_stat
		Caches{},       // /proc/sys/fs, /proc/slabinfo: dentries, inodes, files, slabs
		Machine{},      // /sys/devices/system/cpu, uname
		Flows{},        // sock_diag, /proc/PID/fd: TCP connections and listeners
		Cgroups{},      // control groups, version 1 and 2
		Processes{},    // /proc/PID, taskstats: processes and threads
	}
}
