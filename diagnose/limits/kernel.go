package limits

import (
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
)

// A knob is a limit of limit.used and limit.size: what it is called, by which calls it is noticed,
// and which sysctl sets it.
type knob struct {
	resource, things string
	calls            []string // prefixes of system calls that fail
	error            string   // with this error
	next             string
	sysctl           string // "": none
	column           int    // of the sysctl's numbers, from 1; 0: it has one
	bytes            bool   // the amount is in bytes
	verify           string
	counters         []string // protocol.counter of net.protocol.events
}

// kernelLimits returns a kind for each limit of the kernel with a sysctl.
func kernelLimits() []Kind {
	var all []Kind
	for _, k := range []knob{
		{resource: "threads", things: "threads of the machine", calls: forks(), error: "EAGAIN",
			next:   "the next process or thread cannot be created (EAGAIN)",
			sysctl: "kernel.threads-max", verify: "cat /proc/loadavg /proc/sys/kernel/threads-max"},
		{resource: "pids", things: "process IDs of the machine", calls: forks(), error: "EAGAIN",
			next:   "the next process or thread cannot be created (EAGAIN)",
			sysctl: "kernel.pid_max", verify: "cat /proc/loadavg /proc/sys/kernel/pid_max"},
		{resource: "keys", things: "keys", calls: keyCalls(), error: "EDQUOT",
			next: "the next key fails with EDQUOT", sysctl: "kernel.keys.maxkeys",
			verify: "cat /proc/key-users"},
		{resource: "key-bytes", things: "of keys", calls: keyCalls(), error: "EDQUOT",
			next: "the next key fails with EDQUOT", sysctl: "kernel.keys.maxbytes", bytes: true,
			verify: "cat /proc/key-users"},
		{resource: "shm-segments", things: "shared memory segments", calls: []string{"shmget"},
			error: "ENOSPC", next: "the next segment fails with ENOSPC",
			sysctl: "kernel.shmmni", verify: "ipcs -m -l; ipcs -m"},
		{resource: "shm-bytes", things: "of shared memory", calls: []string{"shmget"},
			error: "ENOSPC", next: "the next segment fails with ENOSPC",
			sysctl: "kernel.shmall", bytes: true, verify: "ipcs -m -l; ipcs -m"},
		{resource: "semaphore-sets", things: "semaphore sets", calls: []string{"semget"},
			error: "ENOSPC", next: "the next set fails with ENOSPC", sysctl: "kernel.sem",
			column: 4, verify: "ipcs -s -l; ipcs -s"},
		{resource: "semaphores", things: "semaphores", calls: []string{"semget"},
			error: "ENOSPC", next: "the next set fails with ENOSPC", sysctl: "kernel.sem",
			column: 2, verify: "ipcs -s -l; ipcs -s"},
		{resource: "message-queues", things: "message queues", calls: []string{"msgget"},
			error: "ENOSPC", next: "the next queue fails with ENOSPC",
			sysctl: "kernel.msgmni", verify: "ipcs -q -l; ipcs -q"},
		{resource: "posix-queues", things: "POSIX message queues", calls: []string{"mq_open"},
			error: "ENOSPC", next: "the next queue fails with ENOSPC",
			sysctl: "fs.mqueue.queues_max", verify: "ls /dev/mqueue"},
		{resource: "aio-requests", things: "asynchronous I/O requests (io_setup)",
			calls: []string{"io_setup"}, error: "EAGAIN",
			next:   "the next io_setup fails with EAGAIN, a large one before the last is used",
			sysctl: "fs.aio-max-nr", verify: aioHolders},
		{resource: "inotify-instances", things: "inotify instances",
			calls: []string{"inotify_init"}, error: "EMFILE",
			next:   "the next inotify_init fails with EMFILE",
			sysctl: "fs.inotify.max_user_instances", verify: inotifyHolders},
		{resource: "inotify-watches", things: "inotify watches",
			calls: []string{"inotify_add_watch"}, error: "ENOSPC",
			next:   "the next watch fails with ENOSPC",
			sysctl: "fs.inotify.max_user_watches", verify: inotifyHolders},
		{resource: "tcp-memory", things: "of memory for TCP sockets", bytes: true,
			counters: []string{"TcpExt.TCPAbortOnMemory", "TcpExt.TCPMemoryPressures"},
			next:     "sockets get no memory: packets are dropped and connections aborted",
			sysctl:   "net.ipv4.tcp_mem", column: 3, verify: "cat /proc/net/sockstat"},
		{resource: "udp-memory", things: "of memory for UDP sockets", bytes: true,
			counters: []string{"Udp.MemErrors"}, next: "datagrams are dropped",
			sysctl: "net.ipv4.udp_mem", column: 3, verify: "cat /proc/net/sockstat"},
	} {
		all = append(all, k.kind())
	}
	return all
}

// inotifyHolders counts the instances of each process.
const inotifyHolders = "find /proc/[0-9]*/fd -lname anon_inode:inotify 2>/dev/null | " +
	"cut -d/ -f3 | sort | uniq -c | sort -rn | head"

// aioHolders lists the processes that have contexts: each context is a mapping.
const aioHolders = "cat /proc/sys/fs/aio-nr /proc/sys/fs/aio-max-nr; " +
	"grep -c '\\[aio\\]' /proc/[0-9]*/maps 2>/dev/null | grep -v ':0$'"

func forks() []string    { return []string{"clone", "clone3", "fork", "vfork"} }
func keyCalls() []string { return []string{"add_key", "request_key", "keyctl"} }

// kind returns the kind of limit of a knob.
func (n knob) kind() Kind {
	k := Kind{
		id:      n.resource,
		used:    Source{facts.LimitUsed, []string{"resource", n.resource}},
		sizes:   []Source{{facts.LimitSize, []string{"resource", n.resource}}},
		owner:   []string{"owner"},
		machine: true,
		culprit: func(r *diagnose.Row) diagnose.Culprit {
			if r.Word("owner") != "" {
				return diagnose.Culprit{Kind: "user", Name: r.Word("owner")}
			}
			return diagnose.Culprit{Kind: "host", Name: n.resource}
		},
		verify: func(*diagnose.Row) string { return n.verify },
		fix:    n.fix,
		errors: errors{failed: n.failed},
		words: words{things: n.things, amount: phrase.Count, next: n.next,
			name: func(r *diagnose.Row) string {
				if r.Word("owner") != "" {
					return "User " + phrase.Clean(r.Word("owner"))
				}
				return "The machine"
			}},
	}
	if n.bytes {
		k.words.amount = phrase.Memory
	}
	for _, c := range n.counters {
		protocol, counter, _ := strings.Cut(c, ".")
		k.errors.counters = append(k.errors.counters, Source{facts.ProtocolEvents,
			[]string{"netns", "", "protocol", protocol, "counter", counter}})
		k.errors.failed = nil
		k.words.refused = "packets or connections per second are dropped"
	}
	return k
}

// failed reports whether a failed call is one of the limit. It does not report its user.
func (n knob) failed(_ *diagnose.Look, _, call *diagnose.Row) bool {
	return call.Word("error") == n.error && slices.ContainsFunc(n.calls, func(prefix string) bool {
		return strings.HasPrefix(call.Word("syscall"), prefix)
	})
}

// fix doubles the limit.
func (n knob) fix(owner *diagnose.Row, _ float64) *diagnose.Fix {
	sysctl := n.sysctl
	if owner.Word("owner") == "0" { // root has limits of its own
		sysctl = strings.Replace(sysctl, "kernel.keys.max", "kernel.keys.root_max", 1)
	}
	set := func(change string) string {
		if n.column == 0 {
			return fmt.Sprintf("sysctl -w %[1]s=$(($(sysctl -n %[1]s)%[2]s2))", sysctl, change)
		}
		return fmt.Sprintf("sysctl -w %[1]s=\"$(sysctl -n %[1]s | awk '{$%[2]d=$%[2]d%[3]s2; "+
			"print}')\"", sysctl, n.column, change)
	}
	return &diagnose.Fix{Command: set("*"), Undo: set("/"),
		Risk: "low: a program that never releases what it gets reaches the new limit too"}
}
