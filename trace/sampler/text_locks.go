package sampler

import (
	"fmt"
	"strings"

	"culprit/trace/probe"
)

// Kinds of locks: flags of lock:contention_begin (include/trace/events/lock.h), and lockFutex.
const (
	lockSpin, lockRead, lockWrite, lockRT, lockPerCPU, lockMutex = 1, 2, 4, 8, 16, 32
	lockFutex                                                    = 64
)

// stateFutex is the State of waits in futex(2).
const stateFutex = "futex"

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
