package sampler

import (
	"fmt"
	"strings"

	"culprit/trace"
	"culprit/trace/probe"

	"github.com/cilium/ebpf/btf"
)

// Aggregations of OffCPU that are no stacks.
const (
	awayName = "away" // counts the threads that are off the CPU
	// untoldName counts threads that left a CPU although they were off the CPU: the kernel did not
	// report that they ran again.
	untoldName = "untold"
)

// How a thread waits. The state is the low bits of a variable, and the time is above them.
const (
	stateBits = 3
	stateMask = 1<<stateBits - 1

	statePreempted = 1 // it could have run on
	stateSleeping  = 2 // TASK_INTERRUPTIBLE: signals end it
	stateBlocked   = 3 // TASK_UNINTERRUPTIBLE: for disks, for locks of the kernel
	stateIdle      = 4 // TASK_IDLE: a thread of the kernel without work
	stateStopped   = 5 // by a signal or a debugger
	stateWoken     = 6 // for RunQueue: any but statePreempted
)

// Kinds of locks: flags of lock:contention_begin (include/trace/events/lock.h), and lockFutex.
const (
	lockSpin, lockRead, lockWrite, lockRT, lockPerCPU, lockMutex = 1, 2, 4, 8, 16, 32
	lockFutex                                                    = 64
)

// stateFutex is the State of waits in futex(2).
const stateFutex = "futex"

// state returns the name of a state, or for Locks of a kind of lock.
func (p *Profile) state(n int64) string {
	if p.Of != Locks {
		return []string{
			statePreempted: "preempted",
			stateSleeping:  "sleeping",
			stateBlocked:   "uninterruptible",
			stateIdle:      "idle",
			stateStopped:   "stopped",
			stateWoken:     "woken",
			stateMask:      "",
		}[n&stateMask]
	}
	of := ""
	switch n & (lockRead | lockWrite) {
	case lockRead:
		of = ", to read"
	case lockWrite:
		of = ", to write"
	}
	switch {
	case n&lockFutex != 0:
		return stateFutex
	case n&lockMutex != 0:
		return "mutex"
	case n&lockRT != 0:
		return "rt lock" + of
	case n&lockPerCPU != 0:
		return "per-CPU rw semaphore" + of
	case of != "" && n&lockSpin != 0:
		return "rw lock" + of
	case of != "":
		return "rw semaphore" + of
	case n&lockSpin != 0:
		return "spin lock"
	}
	return "semaphore"
}

// text returns the D program of the profile.
func (p *Profile) text(env *probe.Env) (string, error) {
	who, err := p.Threads.terms(env, atHand)
	if err != nil {
		return "", err
	}
	switch p.Of {
	case OffCPU:
		return env.WithGlobalIDs(p.offCPU(switchState(env), who)), nil
	case RunQueue:
		woken, err := p.Threads.terms(env, firstArgument)
		if err != nil {
			return "", err
		}
		return env.WithGlobalIDs(p.runQueue(switchState(env), who, woken)), nil
	case Locks:
		kernels, users := p.stacks()
		return p.locks(
			append(anyOf("cpu", p.CPUs), who...),
			futexCalls(env),
			func(kind, wait string) string {
				return fmt.Sprintf("@kernel[%s] = avg(%s);", p.keys(kind, kernels, users), wait)
			},
			func(kind, wait string) string {
				return fmt.Sprintf("@user[%s] = avg(%s);", p.keys(kind, "", users), wait)
			},
		), nil
	}
	return p.onCPU(append(anyOf("cpu", p.CPUs), who...)), nil
}

// predicate returns a predicate that is true when all terms are.
func predicate(terms ...string) string {
	if len(terms) == 0 {
		return ""
	}
	return " /" + strings.Join(terms, " && ") + "/"
}

// keys returns the key of a row, which sampled and samples.add decode. more follow the stacks.
func (p *Profile) keys(state, kernels, users string, more ...string) string {
	all := []string{"execname", "pid"}
	if p.ByThread {
		all = append(all, "tid")
	}
	if p.ByCPU && p.Of == OnCPU {
		all = append(all, "cpu")
	}
	for _, s := range append([]string{state, kernels, users}, more...) {
		if s != "" {
			all = append(all, s)
		}
	}
	return strings.Join(all, ", ")
}

// stacks returns the expressions for the selected stacks, and "" for the others.
func (p *Profile) stacks() (kernels, users string) {
	if p.kernels() {
		kernels = fmt.Sprintf("stack(%d)", trace.MaxFrames)
	}
	if p.users() {
		users = fmt.Sprintf("ustack(%d)", trace.MaxFrames)
	}
	return kernels, users
}

// onCPU returns the program that samples.
func (p *Profile) onCPU(terms []string) string {
	kernels, users := p.stacks()
	switch {
	case p.Kernel && !p.User:
		terms = append(terms, "arg0 != 0")
	case p.User && !p.Kernel:
		terms = append(terms, "arg0 == 0")
	}
	return fmt.Sprintf(
		"profile-%d%s { @[%s] = count(); }", p.Hz, predicate(terms...), p.keys("", kernels, users),
	)
}

// switchState returns an expression for the state of the thread that leaves its CPU, in
// sdt:sched::sched_switch. Before Linux 5.18 this is no argument of the tracepoint. There the state
// is read from the thread, which may have been woken since.
func switchState(env *probe.Env) string {
	spec, err := env.BTF()
	if err != nil {
		return "arg3"
	}
	var t *btf.Typedef
	if spec.TypeByName("btf_trace_sched_switch", &t) != nil {
		return "arg3"
	}
	p, ok := btf.UnderlyingType(t).(*btf.Pointer)
	if !ok {
		return "arg3"
	}
	var task *btf.Struct
	// The first argument is the program's context.
	if f, ok := p.Target.(*btf.FuncProto); !ok || len(f.Params) > 4 ||
		spec.TypeByName("task_struct", &task) != nil {
		return "arg3"
	}
	if hasMember(task, "__state") {
		return "curthread->__state"
	}
	return "curthread->state"
}

// leaving returns an expression that converts the kernel's state of a thread to the states here:
// TASK_INTERRUPTIBLE 1, TASK_UNINTERRUPTIBLE 2, TASK_IDLE 0x402.
func leaving(state string) string {
	return fmt.Sprintf(
		"(arg0 || (%[1]s & 0xff) == 0 ? %[2]d : %[1]s & 1 ? %[3]d : "+
			"(%[1]s & 0x402) == 0x402 ? %[4]d : %[1]s & 2 ? %[5]d : %[6]d)",
		state, statePreempted, stateSleeping, stateIdle, stateBlocked, stateStopped,
	)
}

// staying returns a term that is true for threads that will run again: the state is not TASK_DEAD.
func staying(state string) string { return "!(" + state + " & 0x80)" }

// hasMember reports whether a struct itself has a member, not counting unnamed structs within it.
func hasMember(s *btf.Struct, name string) bool {
	for _, m := range s.Members {
		if m.Name == name {
			return true
		}
	}
	return false
}

// offCPU returns the program that adds up the time from leaving a CPU until running again. The user
// stack is read when the thread leaves, because it can be read only of the current process. The
// kernel stack is the same when the thread runs again; reading it then saves the stacks of waits
// that are left out.
func (p *Profile) offCPU(state string, who []string) string {
	kernels, users := p.stacks()
	off, at := "self->off", ""
	if p.Wakers { // the waker must see whether the thread waits
		off = "off[tid]"
	}
	var b strings.Builder
	if !p.Wakers {
		fmt.Fprintf(&b, "self uint64_t off;\n")
	} else {
		fmt.Fprintf(&b, "uint64_t off[uint64_t];\n")
	}
	fmt.Fprintf(
		&b, "sdt:sched::sched_switch /tid != 0 && %s/ { @%s = sum(1); @%s = sum(-1); }\n", off,
		untoldName, awayName,
	)
	fmt.Fprintf(
		&b,
		"sdt:sched::sched_switch%s { %s = timestamp << %d | %s;",
		predicate(
			append(
				append([]string{"tid != 0", staying(state)}, anyOf("cpu", p.CPUs)...),
				who...)...),
		off,
		stateBits,
		leaving(state),
	)
	if users != "" {
		at = "self->at"
		fmt.Fprintf(&b, " self->at = %s;", users)
	}
	fmt.Fprintf(&b, " @%s = sum(1); }\n", awayName)
	var more, noMore []string
	forget := ""
	if p.Wakers {
		const woken = "args[0]->pid"
		fmt.Fprintf(
			&b,
			"sdt:sched::sched_waking /off[%[1]s]/ "+
				"{ wakerPID[%[1]s] = pid + 1; waker[%[1]s] = execname;",
			woken,
		)
		more, noMore = []string{"wakerPID[tid]", "waker[tid]"}, []string{"wakerPID[tid]", `""`}
		forget = " wakerPID[tid] = 0; waker[tid] = 0;"
		each := func(name, take string) {
			if take != "" {
				fmt.Fprintf(&b, " %s[%s] = %s;", name, woken, take)
				more, noMore = append(more, name+"[tid]"), append(noMore, name+"[tid]")
				forget += " " + name + "[tid] = 0;"
			}
		}
		each("wakerStack", kernels)
		each("wakerUstack", users)
		b.WriteString(" }\n")
	}
	back := func(keys string, terms ...string) {
		terms = append([]string{off}, terms...)
		if p.Least > 0 {
			terms = append(
				terms, fmt.Sprintf("timestamp - (%s >> %d) >= %d", off, stateBits, p.Least),
			)
		}
		fmt.Fprintf(
			&b, "sched:::on-cpu%s { @[%s] = avg(timestamp - (%s >> %d)); }\n", predicate(terms...),
			keys, off, stateBits,
		)
	}
	kind := fmt.Sprintf("%s & %d", off, stateMask)
	if p.Wakers { // a string that was never assigned can't be read
		back(p.keys(kind, kernels, at, more...), "wakerPID[tid]")
		back(p.keys(kind, kernels, at, noMore...), "!wakerPID[tid]")
	} else {
		back(p.keys(kind, kernels, at))
	}
	fmt.Fprintf(
		&b, "sched:::on-cpu /%s/ { %s = 0;%s @%s = sum(-1); }\n", off, off, forget, awayName,
	)
	return b.String()
}

// runQueue returns the program that adds up the time from when a thread could run until it runs. A
// thread that is woken before it has left its CPU does not wait.
func (p *Profile) runQueue(state string, who, woken []string) string {
	kernels, users := p.stacks()
	var b strings.Builder
	at := ""
	if users != "" {
		at = "self->at"
		fmt.Fprintf(
			&b, "sdt:sched::sched_switch%s { self->at = %s; }\n",
			predicate(append([]string{"tid != 0", staying(state)}, who...)...), users,
		)
	}
	fmt.Fprintf(
		&b,
		"sdt:sched::sched_switch%s { queued[tid] = timestamp << %d | %d; }\n",
		predicate(
			append(
				[]string{"tid != 0", leaving(state) + fmt.Sprintf(" == %d", statePreempted)},
				who...)...),
		stateBits,
		statePreempted,
	)
	fmt.Fprintf(
		&b,
		"sdt:sched::sched_wakeup,sdt:sched::sched_wakeup_new%s "+
			"{ queued[args[0]->pid] = timestamp << %d | %d; }\n",
		predicate(append([]string{"!args[0]->on_cpu"}, woken...)...), stateBits, stateWoken,
	)
	terms := append([]string{"queued[tid]"}, anyOf("cpu", p.CPUs)...)
	if p.Least > 0 {
		terms = append(
			terms, fmt.Sprintf("timestamp - (queued[tid] >> %d) >= %d", stateBits, p.Least),
		)
	}
	fmt.Fprintf(
		&b, "sched:::on-cpu%s { @[%s] = avg(timestamp - (queued[tid] >> %d)); }\n",
		predicate(terms...), p.keys(fmt.Sprintf("queued[tid] & %d", stateMask), kernels, at),
		stateBits,
	)
	b.WriteString("sched:::on-cpu /queued[tid]/ { queued[tid] = 0; }\n")
	return b.String()
}

// futexCalls returns the system calls besides futex(2) that wait for futexes, if this kernel has
// them: futex_waitv (Linux 5.16) and futex_wait (6.7).
func futexCalls(env *probe.Env) (calls []string) {
	if env == nil {
		return nil
	}
	there := env.SyscallEvents()
	for _, call := range []string{"futex_waitv", "futex_wait"} {
		if there[call] {
			calls = append(calls, call)
		}
	}
	return calls
}

// locks returns the program that measures waits for locks of the kernel, and waits in futex(2) and
// in futexes. kernels and users return the statements for the end of a wait, from expressions for
// its kind and its duration in ns.
//
// The kernel reports the wait for a mutex several times: whenever the thread begins to spin or to
// sleep. The first report counts.
//
// The kernel does not run a program that is already running on that CPU. Reports are then missing
// for waits within the program: those of interrupts, and those for locks of its own maps.
//
// Within the code for an end (self->within & 2) the end of another wait is not reported. So the
// begin of such a wait is not stored; it would seem to last until the next wait for that lock.
// Within the code for a begin (self->within & 1) the begin of another wait is not reported. So the
// end of such a wait is ignored.
//
// For the same reason the wait for a spin lock or rwlock restarts when an earlier one has not
// ended. It does not restart when the lock at the address is of another kind, because a semaphore
// begins with its own spin lock. A spin after whose begin the thread left its CPU is not counted.
func (p *Profile) locks(
	terms, futexes []string, kernels, users func(kind, wait string) string,
) string {
	var b strings.Builder
	least := func(wait string) []string {
		if p.Least > 0 {
			return []string{fmt.Sprintf("%s >= %d", wait, p.Least)}
		}
		return nil
	}
	if p.kernels() {
		// The begin of a wait: bits 0 to 5 are the kind, bits 6 to 13 the low bits of how often the
		// thread had left a CPU, and above them is the time. A thread that spins does not leave the
		// CPU.
		const (
			began    = "began[arg0, (uintptr_t)curthread]"
			switches = "((curthread->nvcsw + curthread->nivcsw & 255) << 6)"
			wait     = "((timestamp << 14) - (" + began + " & ~(uint64_t)16383) >> 14)"
		)
		spins := func(kind string) string {
			return fmt.Sprintf("(%s & %d) == %d", kind, lockSpin|lockMutex, lockSpin)
		}
		ended := spins("arg1") + " && " + spins(began)
		same := fmt.Sprintf("(!(%s) || (%s & 16320) == %s)", spins(began), began, switches)
		// self->within has bit 1 within the code for a begin and bit 2 within the code for an end.
		// It is thread-local because an interrupt runs as the thread that it interrupts.
		b.WriteString("uint64_t began[uintptr_t, uintptr_t];\nself int within;\n")
		const note = "{ self->within |= 1; %s = %s; self->within &= 2; }\n"
		// The address of the thread may belong to another thread now, which is not selected.
		if len(terms) > 0 {
			fmt.Fprintf(&b, "sdt:lock::contention_begin /%s && %s/ "+note, began, ended, began, "0")
		}
		fmt.Fprintf(
			&b,
			"sdt:lock::contention_begin%s "+note,
			predicate(
				append(
					[]string{fmt.Sprintf("(!%s || %s)", began, ended), "!(self->within & 2)"},
					terms...)...),
			began,
			"timestamp << 14 | "+switches+" | (arg1 & 63)",
		)
		fmt.Fprintf(
			&b, "sdt:lock::contention_end%s { self->within |= 2; %s }\n",
			predicate(append([]string{began, "!(self->within & 1)", same}, least(wait)...)...),
			kernels("("+began+" & 63)", wait),
		)
		fmt.Fprintf(
			&b, "sdt:lock::contention_end /%s/ { self->within |= 2; %s = 0; self->within &= 1; }\n",
			began, began,
		)
	}
	if p.users() {
		// The operations that may wait: FUTEX_WAIT 0, LOCK_PI 6, WAIT_BITSET 9, WAIT_REQUEUE_PI 11,
		// LOCK_PI2 13.
		const waits = "(1 << (arg1 & 127) & 0x2a41) != 0"
		fmt.Fprintf(
			&b, "syscall::futex:entry%s { self->futex = timestamp; }\n",
			predicate(append([]string{"(arg1 & 127) < 14", waits}, terms...)...),
		)
		returns := "syscall::futex:return"
		if len(futexes) > 0 { // in one clause, so that only one program runs at each system call
			var entries []string
			for _, call := range futexes {
				entries = append(entries, "syscall::"+call+":entry")
				returns += ",syscall::" + call + ":return"
			}
			fmt.Fprintf(
				&b, "%s%s { self->futex = timestamp; }\n", strings.Join(entries, ","),
				predicate(terms...),
			)
		}
		fmt.Fprintf(
			&b, "%s%s { %s }\n", returns,
			predicate(append([]string{"self->futex"}, least("timestamp - self->futex")...)...),
			users(fmt.Sprint(lockFutex), "timestamp - self->futex"),
		)
		b.WriteString(returns + " /self->futex/ { self->futex = 0; }\n")
	}
	return b.String()
}
