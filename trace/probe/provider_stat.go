package probe

import (
	"culprit/lang/check"

	"golang.org/x/sys/unix"
)

func ioProbes() []stableProbe {
	// The probes are of requests, not of the bios that requests consist of. The kernel does not
	// trace the end of a bio within a request, and io:::start needs a matching io:::done.
	one := func(name, event string) stableProbe {
		return stableProbe{
			provider: "io",
			name:     name,
			places: at(way{event: event, names: []param{{"rq", "request", 0}},
				args: []check.Arg{
					made("bufinfo_t", "rq"),
					made("devinfo_t", "rq"),
					made("fileinfo_t", "rq"),
				}}),
		}
	}
	const waits = "no tracepoint reports threads that wait for a device: " +
		"sched:::sleep with stack() shows where threads wait"
	return []stableProbe{
		one("done", "block_rq_complete"),
		one("start", "block_rq_issue"),
		{provider: "io", name: "wait-done", lacks: waits},
		{provider: "io", name: "wait-start", lacks: waits},
	}
}

// The kernel reports the begin and the end of each wait for a lock. __lock_began contains, by lock
// and thread, 64 times the moment at which the wait began, plus the flags of the lock's kind.
// __lock_slept contains the moment from which on the thread sleeps instead of spinning.
const (
	lockBegin = `uint64_t __lock_began[uintptr_t, uintptr_t];
uint64_t __lock_slept[uintptr_t, uintptr_t];
sdt:lock::contention_begin /!__lock_began[arg0, (uintptr_t)curthread]/ { __lock_began[arg0, (uintptr_t)curthread] = timestamp << 6 | (arg1 & 63); }
sdt:lock::contention_begin /!(arg1 & 1) && !__lock_slept[arg0, (uintptr_t)curthread]/ { __lock_slept[arg0, (uintptr_t)curthread] = timestamp; }`
	lockEnd = `sdt:lock::contention_end { __lock_began[arg0, (uintptr_t)curthread] = 0; __lock_slept[arg0, (uintptr_t)curthread] = 0; }`

	began = "__lock_began[(uintptr_t)lock, (uintptr_t)curthread]"
	slept = "__lock_slept[(uintptr_t)lock, (uintptr_t)curthread]"
)

func lockstatProbes() []stableProbe {
	// The kernel's LCB_F_READ 2, LCB_F_WRITE 4, LCB_F_RT 8, LCB_F_MUTEX 32.
	got := func(name, is, kind string, sleeps bool, more ...check.Arg) stableProbe {
		when, since := "ret == 0 && "+began+" && !"+slept+" && "+kind, "("+began+" >> 6)"
		if sleeps {
			when, since = "ret == 0 && "+slept+" && "+kind, slept
		}
		args := append(
			[]check.Arg{value(is, "("+is+")lock"), value("uint64_t", "timestamp - "+since)},
			more...)
		return stableProbe{provider: "lockstat", name: name, places: at(way{
			event:  "contention_end",
			names:  []param{{"lock", other, 0}, {"ret", "", 0}},
			when:   when,
			args:   args,
			before: lockBegin,
			after:  lockEnd,
		})}
	}
	none := func(name string) stableProbe {
		return stableProbe{
			provider: "lockstat",
			name:     name,
			lacks:    "no tracepoint reports locks without waiters; adaptive-block, adaptive-spin, rw-block, rw-spin and spin-spin tell of waiting",
		}
	}
	const mutex, rw = "(" + began + " & 40)", "(" + began + " & 6)"
	reader := value("int", began+" & 2 ? 1 : 0")
	return []stableProbe{
		none("adaptive-acquire"), none("adaptive-acquire-error"),
		got("adaptive-block", "struct mutex *", mutex, true),
		none("adaptive-release"),
		got("adaptive-spin", "struct mutex *", mutex, false),
		none("rw-acquire"),
		got("rw-block", "struct rw_semaphore *", "!"+mutex+" && "+rw, true, reader),
		none("rw-release"),
		got("rw-spin", "rwlock_t *", "!"+mutex+" && "+rw, false, reader),
		none("spin-acquire"), none("spin-release"),
		got("spin-spin", "spinlock_t *", "!("+began+" & 46)", false),
	}
}

func vminfoProbes() []stableProbe {
	one := []check.Arg{value("uint64_t", "1")}
	bio := []param{{"bio", "bio", 0}}
	paged := func(name, op, n string) stableProbe {
		return stableProbe{
			provider: "vminfo",
			name:     name,
			places: at(
				way{
					event: "block_bio_queue",
					names: bio,
					when:  "(bio->bi_opf & 255) == " + op + " && bio->bi_iter.bi_size > 0",
					args:  []check.Arg{value("uint64_t", n)},
				},
			),
		}
	}
	const pages = "(bio->bi_iter.bi_size + 4095) / 4096"
	fault := []param{{"address", "", 0}, {"code", "", 1}}
	return []stableProbe{
		// Bit 0 of the code: the page is present, but does not allow this access.
		{provider: "vminfo", name: "as_fault", places: [][]way{
			{
				{
					function: "page_fault_user",
					event:    "page_fault_user",
					names:    fault,
					when:     "!(code & 1)",
					args:     one,
				},
			},
			{
				{
					function: "page_fault_kernel",
					event:    "page_fault_kernel",
					names:    fault,
					when:     "!(code & 1) && (int64_t)address > 0",
					args:     one,
				},
			},
		}},
		{
			provider: "vminfo",
			name:     "maj_fault",
			places:   at(way{counter: 1 + unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ, args: one}),
		},
		paged("pgin", "0", "1"),
		paged("pgout", "1", "1"),
		paged("pgpgin", "0", pages),
		paged("pgpgout", "1", pages),
	}
}

func sysinfoProbes() []stableProbe {
	one := []check.Arg{value("uint64_t", "1")}
	born := func(name, when string) stableProbe {
		return stableProbe{
			provider: "sysinfo",
			name:     name,
			places: at(
				way{
					event: "task_newtask",
					names: []param{task("p", 0), {"flags", "", 0}},
					when:  when,
					args:  one,
				},
			),
		}
	}
	calls := func(name string, bytes bool, list ...string) stableProbe {
		s := stableProbe{provider: "sysinfo", name: name}
		for _, call := range list {
			w := way{function: call, syscall: call, args: one}
			if bytes {
				w.returns, w.names, w.when, w.args = true, []param{
					{"ret", "long", 0},
				}, "ret > 0", []check.Arg{
					value("uint64_t", "(uint64_t)ret"),
				}
			}
			s.places = append(s.places, []way{w})
		}
		return s
	}
	reads := []string{"read", "readv", "pread64", "preadv", "preadv2"}
	writes := []string{"write", "writev", "pwrite64", "pwritev", "pwritev2"}
	// CLONE_THREAD, CLONE_VFORK.
	return []stableProbe{
		{
			provider: "sysinfo",
			name:     "inv_swtch",
			places: at(
				switched(
					way{event: "sched_switch", names: switching, when: runnable, args: one},
				)...),
		},
		born("nthreads", "flags & 0x10000"),
		{provider: "sysinfo", name: "pswitch", places: at(way{event: "sched_switch", args: one})},
		calls("readch", true, reads...),
		{
			provider: "sysinfo",
			name:     "sysexec",
			places:   at(way{event: "sched_process_exec", args: one}),
		},
		born("sysfork", "!(flags & 0x14000)"),
		calls("sysread", false, reads...),
		born("sysvfork", "(flags & 0x14000) == 0x4000"),
		calls("syswrite", false, writes...),
		calls("writech", true, writes...),
	}
}
