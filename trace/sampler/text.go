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
	text, err := p.clauses(env)
	return p.Threads.family() + text, err
}

// clauses returns the clauses that take the stacks.
func (p *Profile) clauses(env *probe.Env) (string, error) {
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
	terms := append(anyOf("cpu", p.CPUs), who...)
	if p.Of == OnEvent {
		return p.Event.text(p, terms), nil
	}
	return p.onCPU(terms), nil
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
	if p.ByCPU && !p.Of.waits() {
		all = append(all, "cpu")
	}
	if p.ByLeader {
		all = append(all, "stringof(curthread->group_leader->comm)")
	}
	if p.ByCgroup {
		all = append(all, p.groups.id)
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
	var more []string
	if p.Times {
		more = []string{"timestamp", "tid"}
	}
	return fmt.Sprintf(
		"profile-%d%s { @[%s] = count(); }", p.Hz, predicate(terms...),
		p.keys("", kernels, users, more...),
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
