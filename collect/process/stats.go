package process

import (
	"culprit/measure"
)

// Stats returns process.* and thread.*.
func (Processes) Stats() []measure.Stat {
	with := func(more ...measure.Field) []measure.Field {
		return append(
			[]measure.Field{
				{Name: "pid", Type: measure.Number, Help: "process id"},
				{
					Name: "process",
					Type: measure.Word,
					Help: "name of the program: 15 bytes, which the process may change",
				},
			},
			more...)
	}
	thread := func(more ...measure.Field) []measure.Field {
		return append(
			with(
				measure.Field{Name: "tid", Type: measure.Number, Help: "thread id"},
				measure.Field{Name: "thread", Type: measure.Word, Help: "name of the thread"},
			),
			more...)
	}
	word := func(name, help string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word, Help: help}
	}
	mode, kind, fault := word("mode", "usr sys"), word("type", "voluntary: it went to sleep; "+
		"involuntary: the scheduler took the CPU"), word("type", "minor: without a disk; "+
		"major: read from a disk")
	state := word("state", "R running or ready, S sleeping, D uninterruptible, T stopped, t "+
		"traced, Z ended and not waited for, I idle kernel thread")
	delta := func(
		id measure.StatID, unit measure.Unit, help string, fields []measure.Field,
	) measure.Stat {
		return measure.Stat{
			ID:     id,
			Kind:   measure.Delta,
			Unit:   unit,
			Sparse: true,
			Help:   help,
			Fields: fields,
		}
	}
	level := func(
		id measure.StatID, unit measure.Unit, help string, fields []measure.Field,
	) measure.Stat {
		return measure.Stat{ID: id, Kind: measure.Level, Unit: unit, Help: help, Fields: fields}
	}
	info := level("process.info", measure.Count, "description of a process; cgroup is its "+
		"place in cgroup v2, or in v1 if it has none there (/proc/PID/stat, status, cgroup, "+
		"cmdline)",
		with(measure.Field{Name: "parent", Type: measure.Number, Help: "process id of the " +
			"parent, 0 for none"}, word("user", "effective user, by /etc/passwd, or its number"),
			word("cgroup", "path of the control group"), word("command", "command line, at "+
				"most 4 KiB, or only the program if arguments are not recorded; empty for "+
				"kernel threads"), state))
	info.Fold = measure.Max
	return []measure.Stat{
		delta("process.cpu", measure.Nanoseconds, "CPU time of all threads, including ended "+
			"ones (taskstats or /proc/PID/schedstat, bounded by /proc/PID/stat)", with(mode)),
		delta("process.runwait", measure.Nanoseconds, "time that threads were ready and waited "+
			"for a CPU (taskstats or /proc/PID/schedstat)", with()),
		delta("process.delay", measure.Nanoseconds, "time that threads waited, by reason "+
			"(taskstats with delay accounting)", with(word("reason", "blkio swapin reclaim "+
			"thrashing compact wpcopy irq softirq"))),
		delta("process.switches", measure.Events, "context switches (taskstats or "+
			"/proc/PID/status)", with(kind)),
		delta("process.faults", measure.Events, "page faults (/proc/PID/stat)", with(fault)),
		delta("process.io", measure.Bytes, "bytes read from storage, and bytes written that "+
			"will reach it; those of unseen children are added when they are waited for "+
			"(/proc/PID/io)", with(word("direction", "read write"))),
		delta("process.calls.bytes", measure.Bytes, "bytes through read, write and similar "+
			"calls, including caches and pipes; children as in process.io (/proc/PID/io rchar, "+
			"wchar)", with(word("direction", "read write"))),
		delta("process.short", measure.Nanoseconds, "CPU time of children that were waited for "+
			"within the interval and that is in no row of process.cpu: of processes that ended "+
			"before they were seen, and the last part of others (/proc/PID/stat cutime, cstime)",
			with()),
		{
			ID:   "process.lost",
			Kind: measure.Delta,
			Unit: measure.Nanoseconds,
			Help: "CPU time (usr, nice, sys of /proc/stat) that is neither in process.cpu nor " +
				"in process.short: of processes that were not waited for, or that are not " +
				"visible here. Known to 20 ms for each CPU",
		},
		level("process.rss", measure.Bytes, "resident memory (/proc/PID/stat)", with()),
		level("process.virtual", measure.Bytes, "size of the address space (/proc/PID/stat vsize)",
			with()),
		{
			ID: "process.priority", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
			Help: "priority as top shows it: 20 + nice, and below " +
				"0 of real-time threads, -1 minus their priority; of the first thread " +
				"(/proc/PID/stat)", Fields: with(),
		},
		{
			ID: "process.nice", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
			Help: "nice value of the first thread, -20 to 19 " +
				"(/proc/PID/stat)", Fields: with(),
		},
		level("process.time", measure.Nanoseconds, "CPU time since the start, of all threads, "+
			"including ended ones (/proc/PID/stat utime, stime)", with()),
		level("process.threads", measure.Count, "threads (/proc/PID/stat)", with()),
		level("process.state", measure.Count, "1 for each process, by the state of its first "+
			"thread (/proc/PID/stat)", with(state)),
		info,
		visibilityStat(),
		level("process.files", measure.Count, "open file descriptors (/proc/PID/fd)", with()),
		level("process.files.limit", measure.Count, "file descriptors that a process may have "+
			"open; above that, open and accept fail with EMFILE (soft limit, /proc/PID/limits)",
			with()),
		level("process.blocked", measure.Count, "threads that were in uninterruptible sleep (D) "+
			"for all of the interval, without kernel threads; what they wait for is empty where "+
			"this user may not read it", with(word("wchan", "kernel function in which they wait "+
			"(/proc/PID/wchan)"), word("caller", "function that called it, without locks and "+
			"the scheduler (/proc/PID/stack)"), word("mount", "mount point of the file that "+
			"their system call names (/proc/PID/syscall)"), word("type", "its file system"),
			word("source", "its device or server"))),
		level("process.count", measure.Count, "processes in each state", []measure.Field{state}),
		level("process.zombies", measure.Count, "children that have ended and that the process "+
			"has not waited for; pid 0 is a parent outside of this PID namespace "+
			"(/proc/PID/stat)", with()),
		level("process.stopped", measure.Count, "1 for each process whose first thread is "+
			"stopped at the moment of the reading (/proc/PID/stat)", with(
			word("by", "signal (SIGSTOP, Ctrl-Z), or tracer (ptrace)"),
			measure.Field{Name: "tracer", Type: measure.Number, Help: "process that traces it, " +
				"as strace and gdb; 0: none (/proc/PID/status)"},
			word("tracername", "its name"))),
		level("process.lock.waiters", measure.Count, "threads that wait for a lock of their "+
			"program at the moment of the reading: a sample of the processes with threads that "+
			"switch most, by the arguments of futex (/proc/PID/syscall). Locks of Java, Go and "+
			"Python are not visible", with(word("lock", "address of the lock"),
			measure.Field{Name: "holder", Type: measure.Number, Help: "thread that holds it, 0 " +
				"if the lock does not name it"}, word("wchan", "kernel function in which the "+
				"holder sleeps; empty: it runs, or is not known"))),
		level("process.sleepers", measure.Count, "sampled threads that sleep at the moment of "+
			"the reading: of processes with more than 2,000 voluntary switches per second or "+
			"whose threads use one CPU together (four of those that work), and those in "+
			"uninterruptible sleep (D) that ran within the interval",
			with(word("wchan", "kernel function (/proc/PID/wchan)"))),
		level("process.pipe.waiters", measure.Count, "threads that wait at the moment of the "+
			"reading until somebody reads the pipe, FIFO or AF_UNIX socket that they write to",
			with(word("kind", "pipe unix"), measure.Field{Name: "reader", Type: measure.Number,
				Help: "process that has the other end open; 0: not known"},
				word("readerprocess", "its name"), word("wchan", "kernel functions in which "+
					"threads of the reader sleep (/proc/PID/wchan); running, stopped; empty: not "+
					"known"), word("related", "siblings: both have the same parent; parent "+
					"child: the reader is that of the process that waits; empty: neither"),
				word("moved", "yes: the thread has run since the previous reading, so something "+
					"was read; no: it has waited since then"))),
		level("process.placement", measure.Count, "1 for each process that waited for a CPU in "+
			"5 % of the interval or more, with the places of its thread that waited longest",
			with(measure.Field{Name: "cpu", Type: measure.Number, Help: "CPU on which it runs or " +
				"waits (/proc/PID/stat)"}, word("allowed", "CPUs that it may use, by affinity "+
				"and cpuset: 0-3,8; empty for kernel threads (/proc/PID/status)"))),
		ioPriorityStat(with),
		weightStat(with),
		realtimeStat(thread),
		delta(
			"thread.cpu", measure.Nanoseconds, "CPU time of a thread; see process.cpu",
			thread(mode),
		),
		delta("thread.runwait", measure.Nanoseconds, "time that the thread was ready and "+
			"waited for a CPU", thread()),
		delta("thread.switches", measure.Events, "context switches of the thread", thread(kind)),
		delta("thread.faults", measure.Events, "page faults of the thread", thread(fault)),
	}
}

func ioPriorityStat(fields func(...measure.Field) []measure.Field) measure.Stat {
	return measure.Stat{
		ID: "process.io.priority", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
		Help: "level of the I/O priority, 0 (first) to 7, of the processes that read or wrote " +
			"most within the interval, at most 64; of the first thread (ioprio_get)",
		Fields: fields(measure.Field{Name: "class", Type: measure.Word,
			Help: "realtime, best-effort, idle, or none: by the nice value"}),
	}
}

func weightStat(fields func(...measure.Field) []measure.Field) measure.Stat {
	word := func(name, help string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word, Help: help}
	}
	return measure.Stat{
		ID: "process.weight", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
		Help: "weight by which the scheduler divides CPU time within a control group: 1024 of " +
			"nice 0, 15 of nice 19, 3 of SCHED_IDLE, 0 of real-time threads. Of the processes " +
			"that used a CPU or waited for one in 5 % of the interval or more, at most 64; of " +
			"the thread that did so longest",
		Fields: fields(word("policy", "OTHER BATCH IDLE EXT FIFO RR DEADLINE (sched(7))"),
			measure.Field{Name: "nice", Type: measure.Number, Help: "-20 to 19"},
			word("group", "control group of the controller cpu (/proc/PID/cgroup)"),
			word("autogroup", "number and nice value of the group of its session, 25:0; it "+
				"counts in the group / only. Empty: none (/proc/PID/autogroup)"),
			word("allowed", "CPUs that it may use: 0-3,8 (/proc/PID/status)")),
	}
}

func realtimeStat(fields func(...measure.Field) []measure.Field) measure.Stat {
	return measure.Stat{
		ID: "thread.realtime", Kind: measure.Level, Unit: measure.Count, Fold: measure.Max,
		Help: "priority of threads with a real-time policy that ran, 1 to 99; 0 of DEADLINE " +
			"(/proc/PID/stat)",
		Fields: fields(
			measure.Field{Name: "policy", Type: measure.Word, Help: "FIFO RR DEADLINE (sched(7))"},
			measure.Field{Name: "cpu", Type: measure.Number, Help: "CPU on which it ran last"}),
	}
}
