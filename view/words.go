package view

import (
	"strings"

	"culprit/measure"
)

// subsystems are the words for the first part of the ID of a statistic.
//
// table: part, words
var subsystems = map[string]string{
	"cache": "Network tables", "cgroup": "Control groups", "cpu": "CPUs", "disk": "Disks",
	"dns": "DNS", "file": "Files", "filesystem": "File systems", "finding": "Findings",
	"http": "HTTP", "irq": "Interrupts", "semaphore": "Semaphores",
	"limit": "Limits", "memory": "Memory", "net": "Network", "nfs": "NFS",
	"packet":   "Packets",
	"pressure": "Pressure", "process": "Processes", "runqueue": "Run queues",
	"sched": "Scheduler", "server": "culprit", "softirq": "Soft interrupts",
	"softnet": "Packet receive", "syscall": "System calls", "system": "System", "tcp": "TCP",
	"thread": "Threads", "udp": "UDP", "unix": "Unix sockets",
}

// things are the words for the parts between the first and the last of an ID.
//
// table: parts, words
var things = map[string]string{
	"accept": "accepted connections", "answer": "answers", "array": "arrays",
	"calls":   "read and write calls",
	"connect": "connects", "cpu": "CPU", "device": "interfaces",
	"device.errors": "interfaces", "driver": "drivers", "drop": "dropped packets",
	"exec": "started programs", "exit": "ended processes", "flow": "connections", "io": "I/O",
	"files": "open files", "listen": "listeners", "memory": "memory", "pids": "tasks",
	"ports": "local ports", "pressure": "pressure", "protocol": "protocols", "qdisc": "queues",
	"request":    "requests",
	"retransmit": "retransmits", "ring": "rings", "server": "server", "signal": "signals",
	"socket": "sockets", "sockets": "sockets", "stack": "samples", "time": "time",
}

// quantities are the words for the last part of an ID, where they differ from it.
//
// table: part, words
var quantities = map[string]string{
	"busy": "busy time", "count": "number", "cpu": "CPU time", "cwnd": "congestion window",
	"delay": "waiting time", "delivery": "delivery rate", "detail": "errors by reason",
	"exec": "starts", "fifo": "FIFO errors", "flowlimit": "flow limit drops",
	"info": "description", "inflight": "requests in flight", "io": "bytes read and written",
	"level": "levels", "limited": "time limited", "minrtt": "least round trip",
	"missing": "missing members", "mss": "segment size",
	"nohandler": "packets without handler", "oom": "OOM kills",
	"pids": "tasks", "rps": "packets passed to other CPUs", "rss": "resident memory",
	"rtt": "round trip", "runwait": "time waiting for a CPU", "size": "size",
	"speed": "link speed", "squeezes": "full budgets", "state": "states",
	"sync": "synchronized bytes", "time": "time",
	"unacked": "unacknowledged segments", "unsent": "unsent bytes",
	"used": "used", "uses": "uses", "waiting": "lookups that wait", "wire": "bytes on the wire",
}

// Words returns the ID of a statistic in words: subsystem, thing and quantity. The thing is "" if
// the ID has two parts; the quantity of a statistic of a script is the last part as it is.
func Words(id measure.StatID) (subsystem, thing, quantity string) {
	first, rest, _ := strings.Cut(string(id), ".")
	subsystem = first
	if w := subsystems[first]; w != "" {
		subsystem = w
	}
	if at := strings.LastIndexByte(rest, '.'); at >= 0 {
		thing, rest = rest[:at], rest[at+1:]
		if w := things[thing]; w != "" {
			thing = w
		}
	}
	if w := quantities[rest]; w != "" {
		rest = w
	}
	return subsystem, thing, strings.ReplaceAll(rest, "_", " ")
}
