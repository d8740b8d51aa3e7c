package drill

import (
	"slices"

	"culprit/measure"
)

// via is how a question gets from one thing to another if no field of its statistic names the
// first.
type via uint8

const (
	direct via = iota
	// addresses: from an interface to the connections with its addresses.
	addresses
	// link: from an address to the interface that has it, on this machine, else to the interface
	// through which this machine talks to it.
	link
	// functions: from a process to the profile of its samples.
	functions
)

// question is a line of the table.
type question struct {
	about thing
	text  string
	stat  measure.StatID
	by    []string
	via   via
	// also are terms of the question itself.
	also []measure.Term
	// from renames a field of the row: a client of NFS is the peer of a connection.
	from, to string
}

func by(fields ...string) []string { return fields }

// futex selects the system call by which programs wait for locks.
//
// table: its one term
var futex = []measure.Term{{Field: "syscall", Op: measure.Equal, Values: []string{"futex"}}}

// table lists the questions about each thing, the most useful first. Seven of a row are shown.
//
// table: thing, question, statistic, breakdown
var table = []question{
	{
		about: iface, text: "Who sends and receives through it?",
		stat: "tcp.flow.bytes", by: by("peer"), via: addresses,
	},
	{
		about: iface, text: "Which processes use it?",
		stat: "tcp.flow.bytes", by: by("process"), via: addresses,
	},
	{about: iface, text: "Is the link slow?", stat: "net.device.speed"},
	{about: iface, text: "Does it drop packets?", stat: "net.device.drops", by: by("direction")},
	{
		about: iface, text: "Why does the kernel drop its packets?",
		stat: "packet.drop.count", by: by("reason", "location"),
	},
	{
		about: iface, text: "Does it have errors?",
		stat: "net.device.errors.detail", by: by("direction", "reason"),
	},
	{
		about: iface, text: "Does a queue build up?",
		stat: "net.qdisc.backlog", by: by("kind", "handle", "parent"),
	},

	{
		about: peer, text: "Is its link slow?",
		stat: "net.device.speed", by: by("netns", "device"), via: link,
	},
	{
		about: peer, text: "Which processes talk to it?",
		stat: "tcp.flow.bytes", by: by("process", "pid"),
	},
	{
		about: peer, text: "How fast is its path?",
		stat: "tcp.flow.delivery", by: by("localport", "peerport"),
	},
	{about: peer, text: "What limits its connections?", stat: "tcp.flow.limited", by: by("by")},
	{
		about: peer, text: "Are packets lost on its path?",
		stat: "tcp.flow.retransmits", by: by("localport", "peerport"),
	},
	{
		about: peer, text: "How long is the round trip?",
		stat: "tcp.flow.rtt", by: by("localport", "peerport"),
	},
	{
		about: peer, text: "Through which interface?",
		stat: "net.device.bytes", by: by("netns", "device", "direction"), via: link,
	},

	{
		about: process, text: "Which threads use the CPU?",
		stat: "thread.cpu", by: by("tid", "thread"),
	},
	{
		about: process, text: "Which functions use the CPU?",
		stat: measure.StackSamples, by: by("process"), via: functions,
	},
	{about: process, text: "What does it wait for?", stat: "process.delay", by: by("reason")},
	{
		about: process, text: "Which disks does it use?",
		stat: "disk.io.bytes", by: by("device", "direction"),
	},
	{
		about: process, text: "Which system calls take its time?",
		stat: "syscall.time", by: by("syscall"),
	},
	{
		about: process, text: "Does it wait for locks?",
		stat: "syscall.latency", by: by("pid"), also: futex,
	},
	{about: process, text: "Who is it connected to?", stat: "tcp.flow.bytes", by: by("peer")},
	{
		about: process, text: "How many files does it have open?",
		stat: "process.files", by: by("pid"),
	},
	{about: process, text: "How much memory does it use?", stat: "process.rss", by: by("pid")},
	{about: process, text: "Does it wait for a CPU?", stat: "process.runwait", by: by("pid")},

	{about: thread, text: "Does it wait for a CPU?", stat: "thread.runwait"},
	{about: thread, text: "In the kernel or in the program?", stat: "thread.cpu", by: by("mode")},
	{
		about: thread, text: "Does it wait, or is it preempted?",
		stat: "thread.switches", by: by("type"),
	},

	{
		about: disk, text: "Which processes use it?",
		stat: "disk.io.bytes", by: by("process", "direction"),
	},
	{about: disk, text: "How long do requests take?", stat: "disk.latency", by: by("direction")},
	{about: disk, text: "Is it busy all the time?", stat: "disk.busy"},
	{about: disk, text: "How many requests wait?", stat: "disk.inflight"},
	{
		about: disk, text: "Which control groups use it?",
		stat: "cgroup.io", by: by("cgroup", "direction"),
	},
	{
		about: disk, text: "How large are its requests?",
		stat: "disk.operations", by: by("direction"),
	},
	{about: disk, text: "Does it have errors?", stat: "disk.errors"},

	{about: mount, text: "How full is it?", stat: "filesystem.size", by: by("kind")},
	{about: mount, text: "Are there free inodes?", stat: "filesystem.inodes", by: by("kind")},

	{about: cpu, text: "What is it busy with?", stat: "cpu.time", by: by("mode")},
	{
		about: cpu, text: "Which interrupts does it handle?",
		stat: "irq.time", by: by("irq", "device"),
	},
	{about: cpu, text: "Which soft interrupts?", stat: "softirq.time", by: by("vector")},
	{about: cpu, text: "Which processes run on it?", stat: measure.StackSamples, by: by("process")},
	{about: cpu, text: "Who waits for it?", stat: "runqueue.time", by: by("process")},
	{
		about: cpu, text: "Which functions run on it?",
		stat: measure.StackSamples, by: by("cpu"), via: functions,
	},

	{about: cgroup, text: "Does its quota stop it?", stat: "cgroup.throttled"},
	{about: cgroup, text: "What does its CPU time go to?", stat: "cgroup.cpu", by: by("mode")},
	{about: cgroup, text: "What is in its memory?", stat: "cgroup.memory", by: by("kind")},
	{
		about: cgroup, text: "What do its tasks wait for?",
		stat: "cgroup.pressure.time", by: by("resource", "scope"),
	},
	{
		about: cgroup, text: "Which disks does it use?",
		stat: "cgroup.io", by: by("device", "direction"),
	},
	{
		about: cgroup, text: "Which processes are in it?",
		stat: "process.info", by: by("process", "pid"),
	},

	{about: irq, text: "Which CPUs handle it?", stat: "irq.count", by: by("cpu")},
	{about: irq, text: "How long do its handlers run?", stat: "irq.time", by: by("cpu")},

	{
		about: operation, text: "Which clients ask for it?",
		stat: "nfs.server.count", by: by("client"),
	},
	{
		about: operation, text: "How long do its clients wait?",
		stat: "nfs.server.latency", by: by("client"),
	},

	{about: client, text: "What does it ask for?", stat: "nfs.server.count", by: by("operation")},
	{
		about: client, text: "How long does it wait?",
		stat: "nfs.server.latency", by: by("operation"),
	},
	{
		about: client, text: "Is its link slow?",
		stat: "net.device.speed", by: by("netns", "device"), via: link,
	},
	{
		about: client, text: "How fast is its path?",
		stat: "tcp.flow.delivery", by: by("localport", "peerport"), from: "client", to: "peer",
	},
	{
		about: client, text: "What limits its connections?",
		stat: "tcp.flow.limited", by: by("by"), from: "client", to: "peer",
	},

	{about: call, text: "Which processes make it?", stat: "syscall.time", by: by("process", "pid")},
	{about: call, text: "How long does it take?", stat: "syscall.latency", by: by("process")},
	{about: call, text: "Which errors does it return?", stat: "syscall.count", by: by("error")},
}

// Queries returns the query of each line of the table, with a term that selects the thing that it
// is about. Tests check them against the catalogue.
func Queries() (out []string) {
	for _, line := range table {
		q := measure.Query{Stat: line.stat, By: line.by, Where: line.also}
		switch {
		case line.via == addresses:
			q.Where = append(q.Where, equal("local", "1"))
		case line.via == link:
			q.Where = append(q.Where, equal("device", "1"))
		case line.to != "":
			q.Where = append(q.Where, equal(line.to, "1"))
		case line.via == direct:
			name := fieldsOf[line.about][named(line.about)]
			q.Where = append(slices.Clone(q.Where), equal(name, "1"))
		}
		out = append(out, q.String())
	}
	return out
}

// named returns which of its fields names a thing also without the others.
func named(t thing) int {
	if t == iface {
		return 1 // the device, not the namespace
	}
	return 0
}

// HasQuestions reports whether the table has questions about what the values of a field name.
func HasQuestions(id measure.StatID, field string) bool { return thingOf(id, field) != "" }
