/*
 * tool offcputime: time off the CPU by stack
 * option -p --pid NUMBER = 0: only this process
 * option -K --kernel-stacks-only: no stacks of processes
 * option -m --min-block-time NUMBER = 1 us: shorter times do not count
 * option -T --top NUMBER = 30: most stacks of an output
 * operand SECONDS interval = none: end after this time
 * column stack: functions, innermost first: the kernel's, then the process's
 * column time (us): sum of the times off the CPU
 * needs: tracepoint sched_switch
 */
#pragma D option quiet

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(TOP));
}

sched:::off-cpu
/pid != 0 && (PID == 0 || pid == PID)/
{
	self->t = timestamp;
#if !KERNEL_STACKS_ONLY
	self->user = ustack();
#endif
}

sched:::on-cpu
/self->t && timestamp - self->t >= MIN_BLOCK_TIME * 1000/
{
#if KERNEL_STACKS_ONLY
	@[execname, pid, stack()] = sum((timestamp - self->t) / 1000);
#else
	@[execname, pid, stack(), self->user] = sum((timestamp - self->t) / 1000);
#endif
}

sched:::on-cpu
{
	self->t = 0;
}

END
{
#if KERNEL_STACKS_ONLY
	printa("%s (%d)%-6k%@16d us\n", @);
#else
	printa("%s (%d)%-6k%-6k%@16d us\n", @);
#endif
}

tick-SECONDS
{
	exit(0);
}
