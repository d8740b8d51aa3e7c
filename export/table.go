package export

import "culprit/measure"

// Kinds and units as the table writes them.
const (
	delta, level, dist = measure.Delta, measure.Level, measure.Dists

	count, events, size = measure.Count, measure.Events, measure.Bytes
	packets, operations = measure.Packets, measure.Operations
	nanos, bits         = measure.Nanoseconds, measure.BitsPerSec
	hertz, ratio        = measure.Hertz, measure.Ratio
	samples             = measure.Samples
)

// Reasons for which a statistic does not leave the machine.
const (
	perProcess    = "a series per process"
	perThread     = "a series per thread"
	perConnection = "a series per connection"
	perPeer       = "a series per peer or port"
	perPath       = "a series per path"
	perInterrupt  = "a series per interrupt and CPU"
	fact          = "a fact that does not move"
	tooFine       = "a detail with many series"
	derived       = "follows from other metrics"
	ofProfile     = "part of the profile"
	onRequest     = "traced, and recorded only on request"
)

// machineLines are the statistics of CPUs, memory, limits and control groups.
func machineLines() []line {
	const tables = ` where cache in (conntrack, neighbour, neighbour6, file, inode, dentry)`
	const unowned = ` where owner = ""`
	return []line{
		{query: "cache.buckets by netns,cache", kind: level, unit: count, local: fact},
		{query: "cache.bytes by netns,cache", kind: level, unit: size, local: tooFine},
		{query: "cache.collections by netns,cache", kind: delta, unit: count},
		{query: "cache.entries by netns,cache" + tables, kind: level, unit: count,
			node: "node_nf_conntrack_entries, node_filefd_allocated, node_arp_entries"},
		{query: "cache.growth by netns,cache", kind: delta, unit: count, signed: true,
			local: derived},
		{query: "cache.limit by netns,cache" + tables, kind: level, unit: count,
			node: "node_nf_conntrack_entries_limit, node_filefd_maximum"},
		{query: "cache.refusals by netns,cache", kind: delta, unit: count},
		{query: "cgroup.cpu by cgroup", kind: delta, unit: nanos, otel: "container.cpu.time"},
		{query: "cgroup.io by cgroup,device,direction", kind: delta, unit: size,
			otel: "container.disk.io"},
		{query: "cgroup.io.limit by cgroup,device,direction", kind: level, unit: bits},
		{query: "cgroup.io.operations by cgroup,device,direction", kind: delta, unit: operations,
			otel: "container.disk.operations"},
		{query: "cgroup.io.operations.limit by cgroup,device,direction", kind: level, unit: count},
		{query: "cgroup.memory by cgroup,kind where kind in (current, limit, anon, file, kernel)",
			kind: level, unit: size, otel: "container.memory.usage"},
		{query: "cgroup.memory.events by cgroup,event", kind: delta, unit: events},
		{query: "cgroup.periods by cgroup,kind", kind: delta, unit: events},
		{query: "cgroup.pids by cgroup", kind: level, unit: count},
		{query: "cgroup.pids.limit by cgroup", kind: level, unit: count},
		{query: "cgroup.pids.refusals by cgroup", kind: delta, unit: events},
		{query: "cgroup.pressure.time by cgroup,resource,scope", kind: delta, unit: nanos},
		{query: "cgroup.quota by cgroup", kind: level, unit: count, base: "culprit_cgroup_quota_cpus"},
		{query: "cgroup.throttled by cgroup", kind: delta, unit: nanos},
		{query: "cgroup.top by kind,controllers", kind: level, unit: count, local: fact},
		{query: "cgroup.weight by cgroup,file", kind: level, unit: count},
		{query: "cpu.frequency by cpu", kind: level, unit: hertz,
			node: "node_cpu_scaling_frequency_hertz", otel: "system.cpu.frequency"},
		{query: "cpu.frequency.limit by cpu,kind", kind: level, unit: hertz,
			node: "node_cpu_scaling_frequency_max_hertz, node_cpu_frequency_max_hertz"},
		{query: "cpu.interrupts by cpu", kind: delta, unit: events},
		{query: "cpu.online by cpu,socket,core", kind: level, unit: count, local: fact},
		{query: "cpu.stack.busy by slot", kind: delta, unit: samples, local: ofProfile},
		{query: "cpu.stack.rate by cpu", kind: level, unit: hertz, local: ofProfile},
		{query: "cpu.stack.samples by process,pid,cpu", kind: delta, unit: samples,
			local: ofProfile},
		{query: "cpu.throttle.count by cpu,scope", kind: delta, unit: events,
			node: "node_cpu_core_throttles_total, node_cpu_package_throttles_total"},
		{query: "cpu.throttle.time by cpu,scope", kind: delta, unit: nanos},
		{query: "cpu.time by cpu,mode", kind: delta, unit: nanos, keep: true, bound: 6000,
			node: "node_cpu_seconds_total", otel: "system.cpu.time"},
		{query: "kernel.messages by level,event", kind: delta, unit: events},
		{query: "limit.size by resource" + unowned, kind: level, unit: count,
			node: "node_processes_max_processes, node_processes_max_threads"},
		{query: "limit.used by resource" + unowned, kind: level, unit: count,
			node: "node_processes_pids, node_processes_threads"},
		{query: "memory.compaction", kind: delta, unit: events},
		{query: "memory.dirty by kind", kind: level, unit: size,
			node: "node_vmstat_nr_dirty, node_vmstat_nr_writeback (pages)"},
		{query: "memory.faults by type", kind: delta, unit: events, keep: true,
			node: "node_vmstat_pgfault, node_vmstat_pgmajfault", otel: "system.paging.faults"},
		{query: "memory.numa by node,kind", kind: delta, unit: size},
		{query: "memory.numa.balancing by kind", kind: delta, unit: events},
		{query: "memory.oom", kind: delta, unit: events, keep: true,
			node: "node_vmstat_oom_kill"},
		{query: "memory.paging by direction", kind: delta, unit: size, keep: true,
			node: "node_vmstat_pgpgin, node_vmstat_pgpgout (KiB)"},
		{query: "memory.reclaim by by", kind: delta, unit: size},
		{query: "memory.refaults by kind", kind: delta, unit: size},
		{query: "memory.scan by by", kind: delta, unit: size},
		{query: "memory.size by kind", kind: level, unit: size, keep: true,
			node: "node_memory_*_bytes", otel: "system.memory.usage"},
		{query: "memory.stalls", kind: delta, unit: events},
		{query: "memory.swap by direction", kind: delta, unit: size, keep: true,
			node: "node_vmstat_pswpin, node_vmstat_pswpout (pages)",
			otel: "system.paging.operations"},
		{query: "pressure.time by resource,scope", kind: delta, unit: nanos, keep: true,
			node: "node_pressure_*_seconds_total"},
		{query: "process.count by state", kind: level, unit: count, keep: true,
			base: "culprit_processes", node: "node_processes_state",
			otel: "system.process.count"},
		{query: "sched.blocked", kind: level, unit: count, keep: true,
			node: "node_procs_blocked"},
		{query: "sched.forks", kind: delta, unit: events, keep: true, node: "node_forks_total",
			otel: "system.process.created"},
		{query: "sched.load by window", kind: level, unit: count, keep: true,
			node: "node_load1, node_load5, node_load15",
			otel: "system.cpu.load_average.1m"},
		{query: "sched.runnable", kind: level, unit: count, keep: true,
			node: "node_procs_running"},
		{query: "sched.runwait by cpu", kind: delta, unit: nanos,
			node: "node_schedstat_waiting_seconds_total"},
		{query: "sched.switches", kind: delta, unit: events, keep: true,
			node: "node_context_switches_total"},
		{query: "sched.tasks", kind: level, unit: count, keep: true,
			node: "node_processes_threads"},
		{query: "softirq.count by vector", kind: delta, unit: events,
			node: "node_softirqs_functions_total"},
		{query: "system.boot", kind: level, unit: nanos, keep: true,
			base: "culprit_system_boot_time_seconds", node: "node_boot_time_seconds"},
		{query: "system.clock.steps by direction", kind: delta, unit: nanos},
		{query: "system.clocksource by source,available", kind: level, unit: count, local: fact},
		{query: "system.info by kernel,arch,machine", kind: level, unit: count, keep: true,
			node: "node_uname_info"},
		{query: "system.interrupts", kind: delta, unit: events, keep: true,
			node: "node_intr_total"},
	}
}

// serverLines are the statistics of the server itself, and the findings of its diagnosis.
func serverLines() []line {
	return []line{
		{query: "finding.confidence by rule,kind,culprit,severity", kind: level, unit: ratio,
			base: "culprit_finding", bound: 100, keep: true},
		{query: "server.cost by part", kind: level, unit: ratio, keep: true,
			base: "culprit_server_spent_ratio"},
		{query: "server.cpu", kind: level, unit: ratio, keep: true},
		{query: "server.disk", kind: level, unit: size, keep: true},
		{query: "server.disk.limit", kind: level, unit: size, keep: true},
		{query: "server.info by version", kind: level, unit: count, keep: true,
			base: "culprit_server_build_info"},
		{query: "server.late", kind: delta, unit: events, keep: true,
			base: "culprit_server_late_ticks"},
		{query: "server.memory", kind: level, unit: size, keep: true,
			base: "culprit_server_resident_memory_bytes",
			node: "process_resident_memory_bytes"},
		{query: "server.refused", kind: delta, unit: events, keep: true,
			base: "culprit_server_refused_samples"},
		{query: "server.started", kind: level, unit: nanos, keep: true,
			base: "culprit_server_start_time_seconds", node: "process_start_time_seconds"},
		{query: "server.tick", kind: level, unit: nanos, keep: true,
			base: "culprit_server_newest_tick_seconds"},
		{query: "server.troubles", kind: level, unit: count, keep: true},
	}
}

// ioLines are the statistics of block devices and file systems.
func ioLines() []line {
	// The file systems that node_exporter leaves out: of containers, and those without a device.
	const real = ` where type != overlay and type != devtmpfs and type != squashfs` +
		` and mount !~ "/var/lib/docker/*" and mount !~ "/var/lib/containers/*"` +
		` and mount !~ "/var/lib/kubelet/*" and mount !~ "/run/*" and mount !~ "/dev/*"` +
		` and mount !~ "/sys/*"`
	return []line{
		{query: "disk.busy by device", kind: delta, unit: nanos,
			node: "node_disk_io_time_seconds_total", otel: "system.disk.io_time"},
		{query: "disk.bytes by device,direction", kind: delta, unit: size,
			node: "node_disk_read_bytes_total, node_disk_written_bytes_total",
			otel: "system.disk.io"},
		{query: "disk.array.missing by device,level,members", kind: level, unit: count},
		{query: "disk.array.sync by device,action,kind", kind: level, unit: size},
		{query: "disk.errors by device", kind: delta, unit: events},
		{query: "disk.inflight by device", kind: level, unit: operations,
			node: "node_disk_io_now"},
		{query: "disk.info by device,kind,parent,rotational,scheduler", kind: level, unit: count,
			local: fact, node: "node_disk_info"},
		{query: "disk.io.bytes by device,direction", kind: delta, unit: size, local: onRequest},
		{query: "disk.io.count by device,direction", kind: delta, unit: operations,
			local: onRequest},
		{query: "disk.latency by device,direction", kind: dist, unit: nanos},
		{query: "disk.merges by device,direction", kind: delta, unit: operations,
			node: "node_disk_reads_merged_total, node_disk_writes_merged_total",
			otel: "system.disk.merged"},
		{query: "disk.name by device,name", kind: level, unit: count, local: fact},
		{query: "disk.operations by device,direction", kind: delta, unit: operations,
			node: "node_disk_reads_completed_total, node_disk_writes_completed_total",
			otel: "system.disk.operations"},
		{query: "disk.parts by device,part,relation", kind: level, unit: count, local: fact},
		{query: "disk.queue by device", kind: delta, unit: nanos,
			node: "node_disk_io_time_weighted_seconds_total"},
		{query: "disk.suspended by device", kind: level, unit: count},
		{query: "disk.wait by device,direction", kind: delta, unit: nanos,
			node: "node_disk_read_time_seconds_total, node_disk_write_time_seconds_total",
			otel: "system.disk.operation_time"},
		{query: "dns.slow", kind: delta, unit: events},
		{query: "dns.waiting", kind: level, unit: count},
		{query: "filesystem.access by mount,device,type,access" + real, kind: level, unit: count,
			keep: true, node: "node_filesystem_readonly"},
		{query: "filesystem.inodes by mount,device,type,kind" + real, kind: level, unit: count,
			keep: true, node: "node_filesystem_files, node_filesystem_files_free"},
		{query: "filesystem.size by mount,device,type,kind" + real, kind: level, unit: size,
			keep: true,
			node: "node_filesystem_size_bytes, node_filesystem_avail_bytes",
			otel: "system.filesystem.usage"},
		{query: "nfs.server.count by operation,version", kind: delta, unit: operations},
		{query: "nfs.server.latency by operation,version", kind: dist, unit: nanos},
	}
}

// networkLines are the statistics of network devices, protocols and sockets.
func networkLines() []line {
	const root = ` where parent = root and kind != noqueue`
	const ofDevice = ` by netns,device,direction`
	const ofQdisc = ` by netns,device,kind` + root
	const allOfQdisc = ` by netns,device,kind,handle,parent`
	return []line{
		{query: "net.device.address by netns,device,family,address,prefix,scope", kind: level,
			unit: count, local: fact},
		{query: "net.device.bytes" + ofDevice, kind: delta, unit: size,
			node: "node_network_receive_bytes_total, node_network_transmit_bytes_total",
			otel: "system.network.io"},
		{query: "net.device.capacity" + ofDevice, kind: level, unit: bits,
			node: "node_network_speed_bytes"},
		{query: "net.device.carrier by netns,device", kind: delta, unit: events,
			node: "node_network_carrier_changes_total"},
		{query: "net.device.collisions by netns,device", kind: delta, unit: packets,
			node: "node_network_transmit_colls_total"},
		{query: "net.device.drops" + ofDevice, kind: delta, unit: packets,
			node: "node_network_receive_drop_total, node_network_transmit_drop_total",
			otel: "system.network.packet.dropped"},
		{query: "net.device.errors" + ofDevice, kind: delta, unit: packets,
			node: "node_network_receive_errs_total, node_network_transmit_errs_total",
			otel: "system.network.errors"},
		{query: "net.device.errors.detail by netns,device,direction,reason", kind: delta,
			unit: packets},
		{query: "net.device.fifo" + ofDevice, kind: delta, unit: packets,
			node: "node_network_receive_fifo_total, node_network_transmit_fifo_total"},
		{query: "net.device.info by netns,device,kind,state", kind: level, unit: count,
			node: "node_network_up, node_network_info"},
		{query: "net.device.modes by netns,device,list,mode", kind: level, unit: bits,
			local: fact},
		{query: "net.device.multicast by netns,device", kind: delta, unit: packets,
			node: "node_network_receive_multicast_total"},
		{query: "net.device.nohandler by netns,device", kind: delta, unit: packets,
			node: "node_network_receive_nohandler_total"},
		{query: "net.device.packets" + ofDevice, kind: delta, unit: packets,
			node: "node_network_receive_packets_total, node_network_transmit_packets_total",
			otel: "system.network.packet.count"},
		{query: "net.device.speed by netns,device", kind: level, unit: bits, local: derived},
		{query: "net.device.uses by netns,device,use", kind: level, unit: count, local: fact},
		{query: "net.device.wire" + ofDevice, kind: delta, unit: size},
		{query: "net.driver.count by netns,device,counter", kind: delta, unit: events,
			local: tooFine, node: "node_ethtool_*"},
		{query: "net.protocol.bytes by protocol,counter", kind: delta, unit: size,
			node: "node_netstat_IpExt_InOctets, node_netstat_IpExt_OutOctets"},
		{query: "net.protocol.events by protocol,counter", kind: delta, unit: events,
			node: "node_netstat_*, node_nf_conntrack_stat_*"},
		{query: `net.protocol.level by protocol,counter ` +
			`where counter in (CurrEstab, MPCurrEstab)`, kind: level, unit: count,
			node: "node_netstat_Tcp_CurrEstab"},
		{query: "net.qdisc.backlog" + ofQdisc, kind: level, unit: size,
			node: "node_qdisc_backlog"},
		{query: "net.qdisc.bytes" + allOfQdisc, kind: delta, unit: size, local: derived,
			node: "node_qdisc_bytes_total"},
		{query: "net.qdisc.drops" + ofQdisc, kind: delta, unit: packets,
			node: "node_qdisc_drops_total"},
		{query: "net.qdisc.overlimits" + ofQdisc, kind: delta, unit: events,
			node: "node_qdisc_overlimits_total"},
		{query: "net.qdisc.packets" + allOfQdisc, kind: delta, unit: packets, local: derived,
			node: "node_qdisc_packets_total"},
		{query: "net.qdisc.queue" + ofQdisc, kind: level, unit: packets,
			node: "node_qdisc_current_queue_length"},
		{query: "net.qdisc.rate" + ofQdisc, kind: level, unit: bits},
		{query: "net.qdisc.requeues" + ofQdisc, kind: delta, unit: events,
			node: "node_qdisc_requeues_total"},
		{query: "net.ring.size by netns,device,ring,bound", kind: level, unit: count, local: fact},
		{query: "net.sockets by protocol,state", kind: level, unit: count, node: "node_sockstat_*"},
		{query: "net.sockets.memory by protocol", kind: level, unit: size,
			node: "node_sockstat_*_mem_bytes"},
		{query: "softnet.backlog by cpu", kind: level, unit: packets,
			node: "node_softnet_backlog_len"},
		{query: "softnet.drops by cpu", kind: delta, unit: packets,
			node: "node_softnet_dropped_total"},
		{query: "softnet.flowlimit by cpu", kind: delta, unit: packets,
			node: "node_softnet_flow_limit_count_total"},
		{query: "softnet.packets by cpu", kind: delta, unit: packets,
			node: "node_softnet_processed_total"},
		{query: "softnet.rps by cpu", kind: delta, unit: events,
			node: "node_softnet_received_rps_total"},
		{query: "softnet.squeezes by cpu", kind: delta, unit: events,
			node: "node_softnet_times_squeezed_total"},
		{query: "tcp.connections by state", kind: level, unit: count, request: true,
			node: "node_tcp_connection_states", otel: "system.network.connection.count"},
		{query: "tcp.connect.latency by error", kind: dist, unit: nanos},
		{query: "tcp.ports.limit by netns,range", kind: level, unit: count, local: fact},
	}
}
