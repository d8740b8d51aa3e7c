package probe

import (
	"strings"

	"culprit/lang/check"
)

func lwp(d string) check.Arg { return made("lwpsinfo_t", d) }
func ps(d string) check.Arg  { return made("psinfo_t", d) }

// switching are the arguments of sched_switch. preempt and prev_state show whether the thread that
// leaves the CPU could run on or waits for something. prev_state came with Linux 5.18.
//
// table: made once, never changed
var switching = []param{task("prev", 0), task("next", 1), {"preempt", "", 0}, {"prev_state", "", 1}}

const (
	waits    = "!preempt && prev_state & 3" // TASK_INTERRUPTIBLE, TASK_UNINTERRUPTIBLE
	runnable = "prev->pid != 0 && (preempt || prev_state == 0)"
)

// switched returns a way by sched_switch, and the way for kernels before Linux 5.18. The latter
// reads the state from the thread, which another CPU may be waking.
func switched(w way) []way {
	older := w
	older.names, older.when = switching[:3], strings.ReplaceAll(
		w.when, "prev_state", "prev->__state",
	)
	return []way{w, older}
}

func procProbes() []stableProbe {
	fork := []param{task("child", 1)}
	exits := "(p->exit_code & 127) == 0 ? CLD_EXITED : p->exit_code & 128 ? CLD_DUMPED : CLD_KILLED"
	signal := []param{
		{"sig", "", 0},
		{"info", "kernel_siginfo", 0},
		task("task", 0),
		{"result", "", 2},
	}
	sent := []check.Arg{lwp("task"), ps("task"), value("int", "sig")}
	execs := func(returns bool, when string, arg check.Arg) [][]way {
		one := func(call string, nth int) []way {
			arg.From = nth
			w := way{
				function: call,
				syscall:  call,
				returns:  returns,
				when:     when,
				names:    []param{{"path", "uintptr_t", nth}},
				args:     []check.Arg{arg},
			}
			if returns {
				w.names = []param{{"ret", "long", 0}}
				w.args[0].From = 0
			}
			return []way{w}
		}
		return [][]way{one("execve", 0), one("execveat", 1)}
	}
	const ending = "(curthread->signal->group_exit_code & 127)"
	// info may be 0 or 1, so verifiers of some kernels do not allow reading it as the pointer that
	// it is declared to be.
	const info = "((struct kernel_siginfo *)(uintptr_t)info)"
	// Faults that the processor reports come as signals with a code of the kernel's.
	const fault = "(uintptr_t)info > 1 && " + info + "->si_code > 0 && (sig == SIGSEGV || " +
		"sig == SIGBUS || sig == SIGILL || sig == SIGFPE || sig == SIGTRAP)"
	// As in sys/fault.h: FLTILL 1, FLTBPT 3, FLTTRACE 4, FLTACCESS 5, FLTBOUNDS 6, FLTIOVF 7,
	// FLTIZDIV 8, FLTFPE 9.
	const code = "sig == SIGILL ? 1 : sig == SIGTRAP ? " + info + "->si_code == 2 ? 4 : 3 : " +
		"sig == SIGBUS ? 5 : sig == SIGSEGV ? 6 : " +
		info + "->si_code == 1 ? 8 : " + info + "->si_code == 2 ? 7 : 9"
	return []stableProbe{
		{
			provider: "proc",
			name:     "create",
			places: at(
				way{
					event: "sched_process_fork",
					names: fork,
					when:  "child->pid == child->tgid",
					args:  []check.Arg{ps("child")},
				},
			),
		},
		{
			provider: "proc",
			name:     "exec",
			places:   execs(false, "", value("string", "copyinstr(path)")),
		},
		{
			provider: "proc",
			name:     "exec-failure",
			places:   execs(true, "ret < 0", value("int", "(int)-ret")),
		},
		// The process already has its new name.
		{provider: "proc", name: "exec-success", places: at(way{event: "sched_process_exec"})},
		{provider: "proc", name: "exit", places: at(
			way{
				event: "sched_process_exit",
				names: []param{task("p", 0), {"group_dead", "", 0}},
				when:  "group_dead",
				args:  []check.Arg{value("int", exits)},
			},
			way{
				event: "sched_process_exit",
				names: []param{task("p", 0)},
				when:  "p->pid == p->tgid",
				args:  []check.Arg{value("int", exits)},
			},
		)},
		{
			provider: "proc",
			name:     "fault",
			places: at(
				way{
					event: "signal_generate",
					names: signal,
					when:  fault,
					args:  []check.Arg{value("int", code), value("struct kernel_siginfo *", info)},
				},
			),
		},
		{
			provider: "proc",
			name:     "lwp-create",
			places: at(
				way{
					event: "sched_process_fork",
					names: fork,
					when:  "child->pid != child->tgid",
					args:  []check.Arg{lwp("child"), ps("child")},
				},
			),
		},
		{provider: "proc", name: "lwp-exit", places: at(way{event: "sched_process_exit"})},
		// The kernel reports a new thread when it becomes runnable, while the thread that created
		// it is on the CPU.
		{
			provider: "proc",
			name:     "lwp-start",
			places:   at(way{event: "sched_wakeup_new", names: []param{task("p", 0)}, thread: "p"}),
		},
		{
			provider: "proc",
			name:     "signal-clear",
			places: at(
				way{
					syscall: "rt_sigtimedwait",
					returns: true,
					names:   []param{{"ret", "long", 0}},
					when:    "ret > 0",
					args:    []check.Arg{value("int", "(int)ret")},
				},
			),
		},
		// 1: it is ignored, 3: the queue is full.
		{
			provider: "proc",
			name:     "signal-discard",
			places: at(
				way{event: "signal_generate", names: signal, when: "result == 1", args: sent},
			),
		},
		// Threads of a process that a signal ends receive SIGKILL. They also receive it when the
		// process exits, which is no signal.
		{
			provider: "proc",
			name:     "signal-handle",
			places: at(
				way{
					event: "signal_deliver",
					names: []param{
						{"sig", "", 0},
						{"info", "kernel_siginfo", 0},
						{"ka", "k_sigaction", 0},
					},
					when: "sig != SIGKILL || " + ending,
					args: []check.Arg{
						value("int", "sig == SIGKILL ? "+ending+" : sig"),
						value("struct kernel_siginfo *", info),
						value("uintptr_t", "(uintptr_t)ka->sa.sa_handler"),
					},
				},
			),
		},
		{
			provider: "proc",
			name:     "signal-send",
			places: at(
				way{
					event: "signal_generate",
					names: signal,
					when:  "result != 1 && result != 3",
					args:  sent,
				},
			),
		},
		{
			provider: "proc",
			name:     "start",
			places: at(
				way{
					event:  "sched_wakeup_new",
					names:  []param{task("p", 0)},
					when:   "p->pid == p->tgid",
					thread: "p",
				},
			),
		},
	}
}

func schedProbes() []stableProbe {
	p := []param{task("p", 0)}
	moved := []param{task("p", 0), {"to", "", 0}}
	const migrating = "p->on_rq == 2" // TASK_ON_RQ_MIGRATING
	queued := func(p, cpu string) []check.Arg {
		return []check.Arg{lwp(p), ps(p), made("cpuinfo_t", cpu), value("int", "0")}
	}
	out := func(p, cpu string) []check.Arg { return queued(p, cpu)[:3] }
	return []stableProbe{
		{
			provider: "sched",
			name:     "change-pri",
			lacks: "no tracepoint reports all changes of priority; " +
				"probe the functions set_user_nice and __sched_setscheduler with fbt",
		},
		{provider: "sched", name: "dequeue", places: [][]way{
			{
				{
					function: "sched_switch",
					event:    "sched_switch",
					names:    switching[:2],
					when:     "next->pid != 0",
					args:     out("next", "cpu"),
				},
			},
			{
				{
					function: "sched_migrate_task",
					event:    "sched_migrate_task",
					names:    p,
					when:     migrating,
					args:     out("p", "p"),
				},
			},
		}},
		// A thread that is woken before it has left its CPU enters no queue.
		{provider: "sched", name: "enqueue", places: [][]way{
			{
				{
					function: "sched_wakeup",
					event:    "sched_wakeup",
					names:    p,
					when:     "!p->on_cpu",
					args:     queued("p", "p"),
				},
			},
			{
				{
					function: "sched_wakeup_new",
					event:    "sched_wakeup_new",
					names:    p,
					args:     queued("p", "p"),
				},
			},
			switched(
				way{
					function: "sched_switch",
					event:    "sched_switch",
					names:    switching,
					when:     runnable,
					args:     queued("prev", "cpu"),
				},
			),
			{
				{
					function: "sched_migrate_task",
					event:    "sched_migrate_task",
					names:    moved,
					when:     migrating,
					args:     queued("p", "(int)to"),
				},
			},
		}},
		// The current thread leaves the CPU; the arguments describe the thread that runs next.
		{
			provider: "sched",
			name:     "off-cpu",
			places: at(
				way{
					event: "sched_switch",
					names: switching[:2],
					args:  []check.Arg{lwp("next"), ps("next")},
				},
			),
		},
		{
			provider: "sched",
			name:     "on-cpu",
			places:   at(way{event: "sched_switch", names: switching[:2], thread: "next"}),
		},
		{
			provider: "sched",
			name:     "preempt",
			places:   at(switched(way{event: "sched_switch", names: switching, when: runnable})...),
		},
		// This probe is culprit's own. The current thread is the one that begins to wait for a CPU,
		// because it was woken or preempted. Moving it to another queue does not fire the probe.
		{provider: "sched", name: "ready", places: [][]way{
			switched(
				way{
					function: "sched_switch",
					event:    "sched_switch",
					names:    switching,
					when:     runnable,
					thread:   "prev",
				},
			),
			{
				{
					function: "sched_wakeup",
					event:    "sched_wakeup",
					names:    p,
					when:     "!p->on_cpu",
					thread:   "p",
				},
			},
			{{function: "sched_wakeup_new", event: "sched_wakeup_new", names: p, thread: "p"}},
		}},
		{
			provider: "sched",
			name:     "remain-cpu",
			places: at(
				way{
					event: "sched_exit_tp",
					names: []param{{"is_switch", "", 0}},
					when:  "!is_switch",
				},
			),
		},
		{
			provider: "sched",
			name:     "sleep",
			places:   at(switched(way{event: "sched_switch", names: switching, when: waits})...),
		},
		{provider: "sched", name: "surrender", places: at(
			way{
				event: "sched_set_need_resched_tp",
				names: []param{task("p", 0), {"where", "", 0}},
				when:  "p->pid != 0 && where != cpu",
				args:  []check.Arg{lwp("p"), ps("p")},
			},
			way{
				event: "reschedule_entry",
				when:  "curthread->pid != 0",
				args:  []check.Arg{lwp("curthread"), ps("curthread")},
			},
		)},
		{
			provider: "sched",
			name:     "tick",
			places: at(
				way{
					event: "hrtimer_expire_entry",
					names: []param{{"timer", "hrtimer", 0}},
					when:  "(uintptr_t)timer->function == %s",
					symbol: []string{
						"tick_nohz_handler",
						"tick_sched_timer",
					},
					args: []check.Arg{lwp("curthread"), ps("curthread")},
				},
			),
		},
		{
			provider: "sched",
			name:     "wakeup",
			places: at(
				way{event: "sched_waking", names: p, args: []check.Arg{lwp("p"), ps("p")}},
			),
		},
	}
}
