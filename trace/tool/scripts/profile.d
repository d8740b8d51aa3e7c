/*
 * tool profile: stacks on the CPU, sampled
 * option -p --pid NUMBER = 0: only this process
 * option -F --frequency NUMBER = 49 Hz: samples per second and CPU
 * option -K --kernel-stacks-only: no stacks of processes
 * option -T --top NUMBER = 30: most stacks of an output
 * operand SECONDS interval = none: end after this time
 * column stack: functions, innermost first: the kernel's, then the process's
 * column count: samples
 * needs: perf events
 */
#pragma D option quiet

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(TOP));
}

profile-FREQUENCY
/tid != 0 && (PID == 0 || pid == PID)/
{
#if KERNEL_STACKS_ONLY
	@[execname, pid, stack()] = count();
#else
	@[execname, pid, stack(), ustack()] = count();
#endif
}

END
{
#if KERNEL_STACKS_ONLY
	printa("%s (%d)%-6k%@16d\n", @);
#else
	printa("%s (%d)%-6k%-6k%@16d\n", @);
#endif
}

tick-SECONDS
{
	exit(0);
}
