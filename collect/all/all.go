// Package all lists every collector.
package all

import (
	"culprit/collect"
	"culprit/collect/cgroup"
	"culprit/collect/connection"
	"culprit/collect/cpu"
	"culprit/collect/disk"
	"culprit/collect/kernellog"
	"culprit/collect/limit"
	"culprit/collect/lock"
	"culprit/collect/memory"
	"culprit/collect/network"
	"culprit/collect/process"
)

// Collectors returns every collector. The list is also the documentation: one line for each source,
// with what it reads.
func Collectors() []collect.Collector {
	return []collect.Collector{
		cpu.CPU{},                  // /proc/stat: CPU modes, context switches, forks, run queue
		cpu.Interrupts{},           // /proc/interrupts, /proc/irq
		cpu.Softirqs{},             // /proc/softirqs
		cpu.Load{},                 // /proc/loadavg
		cpu.Schedstat{},            // /proc/schedstat: time waited for each CPU
		cpu.Pressure{},             // /proc/pressure
		network.Devices{},          // rtnetlink, ethtool: network devices and their queues
		network.Protocols{},        // /proc/net/snmp, netstat, snmp6, sockstat, stat/nf_conntrack
		connection.UnixListeners{}, // sock_diag: AF_UNIX listeners
		connection.Ports{},         // sock_diag, ip_local_port_range: ports by destination
		connection.UDP{},           // /proc/net/udp: what UDP sockets lost, lookups that wait
		network.Tables{},           // TCP, UDP, conntrack, neighbour, route and bridge tables
		memory.Memory{},            // /proc/meminfo
		memory.Vmstat{},            // /proc/vmstat: paging, swap, faults, reclaim
		disk.Disks{},               // /proc/diskstats, /sys/block
		disk.Filesystems{},         // statfs of /proc/self/mountinfo
		network.Softnet{},          // /proc/net/softnet_stat
		memory.Caches{},            // /proc/sys/fs, /proc/slabinfo: dentries, inodes, files, slabs
		cpu.Machine{},              // /sys/devices/system/cpu, uname
		cpu.Throttle{},             // /sys/devices/system/cpu: limits of frequency, heat
		memory.NUMA{},              // /sys/devices/system/node: memory by node
		cpu.Clock{},                // /sys/devices/system/clocksource
		cpu.ClockSteps{},           // clock_gettime: steps of the wall clock
		connection.Flows{},         // sock_diag, /proc/PID/fd: TCP connections and listeners
		cgroup.Cgroups{},           // control groups, version 1 and 2
		limit.Limits{},             // /proc/sys/kernel, key-users, sysvipc, sockstat
		limit.Inotify{},            // /proc/PID/fdinfo: inotify instances and watches
		lock.FileLocks{},           // /proc/locks: who waits for file locks, and who holds them
		lock.Semaphores{},          // /proc/sysvipc/sem, semctl: who waits for semaphores
		kernellog.Messages{},       // /dev/kmsg: warnings, killed processes, links, I/O errors
		process.Processes{},        // /proc/PID, taskstats: processes and threads
		process.Failures{},         // taskstats: processes that end with an error
	}
}
