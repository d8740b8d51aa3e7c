package export

import "strings"

// localLines are the statistics that do not leave the machine: those with a series for each
// process, thread, connection or interrupt. Only the query API answers for them.
func localLines() []line {
	const ofFlow = ` by netns,local,localport,peer,peerport,pid,process,side`
	const ofListener = ` by netns,local,localport,pid,process`
	const ofProcess = ` by pid,process`
	const ofThread = ` by pid,process,tid,thread`
	lines := []line{
		{query: "file.lock.waiters" + ofProcess + `,file,kind`, kind: level, unit: count},
		{query: "irq.affinity by irq,device,type,affinity,effective", kind: level, unit: count,
			local: fact},
		{query: "irq.count by irq,cpu,device,type", kind: delta, unit: events,
			local: perInterrupt, node: "node_interrupts_total"},
		{query: "irq.time by irq,cpu,device,type", kind: delta, unit: nanos, local: onRequest},
		{query: "irq.time.cost", kind: delta, unit: nanos, local: onRequest},
		{query: "packet.drop.count by netns,device,protocol,reason", kind: delta, unit: packets,
			local: onRequest},
		{query: "process.blocked by pid,process,wchan,mount", kind: level, unit: count},
		{query: "process.calls.bytes" + ofProcess + `,direction`, kind: delta, unit: size},
		{query: "process.cpu" + ofProcess + `,mode`, kind: delta, unit: nanos,
			otel: "process.cpu.time"},
		{query: "process.delay" + ofProcess + `,reason`, kind: delta, unit: nanos},
		{query: "process.exec.count by process,parentprocess", kind: delta, unit: events,
			local: onRequest},
		{query: "process.exit.count by process,reason", kind: delta, unit: events,
			local: onRequest},
		{query: "process.failures by process,parentprocess,end", kind: delta, unit: events},
		{query: "process.failures.time by process,parentprocess,end", kind: delta, unit: nanos},
		{query: "process.faults" + ofProcess + `,type`, kind: delta, unit: events},
		{query: "process.files" + ofProcess, kind: level, unit: count,
			otel: "process.unix.file_descriptor.count"},
		{query: "process.files.limit" + ofProcess, kind: level, unit: count},
		{query: "process.info" + ofProcess + `,user,cgroup,command`, kind: level,
			unit: count},
		{query: "process.io" + ofProcess + `,direction`, kind: delta, unit: size,
			otel: "process.disk.io"},
		{query: "process.io.priority" + ofProcess + `,class`, kind: level, unit: count},
		{query: "process.lifetime by process,reason", kind: dist, unit: nanos, local: onRequest},
		{query: "process.lock.waiters" + ofProcess, kind: level, unit: count},
		{query: "process.lost", kind: delta, unit: nanos, local: derived},
		{query: "process.nice" + ofProcess, kind: level, unit: count},
		{query: "process.placement" + ofProcess + `,cpu,allowed`, kind: level, unit: count},
		{query: "process.priority" + ofProcess, kind: level, unit: count},
		{query: "process.rss" + ofProcess, kind: level, unit: size,
			otel: "process.memory.usage"},
		{query: "process.runwait" + ofProcess, kind: delta, unit: nanos},
		{query: "process.short" + ofProcess, kind: delta, unit: nanos},
		{query: "process.signal.count by signal,process", kind: delta, unit: events,
			local: onRequest},
		{query: "process.sleepers" + ofProcess + `,wchan`, kind: level, unit: count},
		{query: "process.state" + ofProcess + `,state`, kind: level, unit: count},
		{query: "process.switches" + ofProcess + `,type`, kind: delta, unit: events,
			otel: "process.context_switches"},
		{query: "process.threads" + ofProcess, kind: level, unit: count,
			otel: "process.thread.count"},
		{query: "process.time" + ofProcess, kind: level, unit: nanos},
		{query: "process.virtual" + ofProcess, kind: level, unit: size},
		{query: "process.visibility by visible,reason", kind: level, unit: count, local: fact},
		{query: "process.zombies" + ofProcess, kind: level, unit: count},
		{query: "udp.socket.drops by netns,localport,pid,process", kind: delta, unit: packets},
		{query: "udp.flow.bytes by peer,peerport,localport,direction", kind: delta, unit: size,
			local: perPeer},
		{query: "udp.flow.packets by peer,peerport,localport,direction", kind: delta, unit: packets,
			local: perPeer},
		{query: "runqueue.latency by cpu", kind: dist, unit: nanos, local: onRequest},
		{query: "runqueue.time by cpu", kind: delta, unit: nanos, local: onRequest},
		{query: "semaphore.waiters" + ofProcess + `,set,semaphore`, kind: level, unit: count},
		{query: "softirq.time by cpu,vector,device", kind: delta, unit: nanos, local: onRequest},
		{query: "syscall.count by syscall,error", kind: delta, unit: events, local: onRequest},
		{query: "syscall.latency by syscall", kind: dist, unit: nanos, local: onRequest},
		{query: "syscall.time by syscall,error", kind: delta, unit: nanos, local: onRequest},
		{query: "tcp.accept.count by peer,localport", kind: delta, unit: events, local: perPeer},
		{query: "tcp.connect.count by peer,peerport,error", kind: delta, unit: events,
			local: perPeer},
		{query: "tcp.flow.buffer" + ofFlow + `,kind`, kind: level, unit: size},
		{query: "tcp.flow.bytes" + ofFlow + `,direction`, kind: delta, unit: size},
		{query: "tcp.flow.cwnd" + ofFlow, kind: level, unit: count},
		{query: "tcp.flow.delivery" + ofFlow, kind: level, unit: bits},
		{query: "tcp.flow.limited" + ofFlow + `,by`, kind: delta, unit: nanos},
		{query: "tcp.flow.minrtt" + ofFlow, kind: level, unit: nanos},
		{query: "tcp.flow.mss" + ofFlow, kind: level, unit: size},
		{query: "tcp.flow.pacing" + ofFlow, kind: level, unit: bits},
		{query: "tcp.flow.queue" + ofFlow + `,direction`, kind: level, unit: size},
		{query: "tcp.flow.retransmits" + ofFlow, kind: delta, unit: events},
		{query: "tcp.flow.rtt" + ofFlow, kind: level, unit: nanos},
		{query: "tcp.flow.segments" + ofFlow + `,direction`, kind: delta, unit: packets},
		{query: "tcp.flow.unacked" + ofFlow, kind: level, unit: packets},
		{query: "tcp.flow.unsent" + ofFlow, kind: level, unit: size},
		{query: "tcp.listen.limit" + ofListener, kind: level, unit: count, local: perPeer},
		{query: "tcp.listen.queue" + ofListener, kind: level, unit: count, local: perPeer},
		{query: "tcp.ports.used by netns,local,peer,peerport,state", kind: level, unit: count,
			local: perPeer},
		{query: "tcp.retransmit.count by peer,peerport,localport", kind: delta, unit: packets,
			local: perPeer},
		{query: "thread.cpu" + ofThread + `,mode`, kind: delta, unit: nanos, local: perThread},
		{query: "thread.faults" + ofThread + `,type`, kind: delta, unit: events,
			local: perThread},
		{query: "thread.realtime" + ofThread + `,policy,cpu`, kind: level, unit: count,
			local: perThread},
		{query: "thread.runwait" + ofThread, kind: delta, unit: nanos, local: perThread},
		{query: "thread.switches" + ofThread + `,type`, kind: delta, unit: events,
			local: perThread},
		{query: "unix.listen.limit by netns,path", kind: level, unit: count, local: perPath},
		{query: "unix.listen.queue by netns,path", kind: level, unit: count, local: perPath},
	}
	for i, l := range lines {
		if l.local == "" {
			lines[i].local = perProcess
			if strings.HasPrefix(l.query, "tcp.") {
				lines[i].local = perConnection
			}
		}
	}
	return lines
}
