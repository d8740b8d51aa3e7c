/*
 * tool stackcount: stacks that lead to a function, tracepoint or USDT probe
 * option -p --pid NUMBER = 0: only this process
 * option -K --kernel-stacks-only: only the kernel's stacks
 * option -U --user-stacks-only: only the stacks of processes
 * option -i --interval interval = none: seconds between outputs; without it, one output at the end
 * option -T --top NUMBER = 30: most stacks of an output
 * operand PATTERN PROBE: vfs_read, c:malloc, t:sched:sched_switch, or a probe of D
 * column stack: functions, innermost first
 * column count: calls
 * needs: what the probe needs: kprobes for functions of the kernel
 */
#pragma D option quiet

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(TOP));
}

PATTERN
/PID == 0 || pid == PID/
{
#if KERNEL_STACKS_ONLY
	@[execname, stack()] = count();
#elif USER_STACKS_ONLY
	@[execname, ustack()] = count();
#else
	@[execname, stack(), ustack()] = count();
#endif
}

tick-INTERVAL, END
{
#if KERNEL_STACKS_ONLY || USER_STACKS_ONLY
	printa("%s%-6k%@16d\n", @);
#else
	printa("%s%-6k%-6k%@16d\n", @);
#endif
	trunc(@);
}
