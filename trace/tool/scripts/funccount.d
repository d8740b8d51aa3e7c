/*
 * tool funccount: calls of functions, tracepoints and USDT probes
 * option -p --pid NUMBER = 0: only this process
 * option -i --interval interval = none: seconds between outputs; without it, one output at the end
 * option -T --top NUMBER = 1000: most rows of an output
 * operand PATTERN PROBE: vfs_*, c:malloc, t:sched:sched_*, u:FILE:probe, or a probe of D
 * column FUNC: function or probe
 * column COUNT: calls
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
	@[probefunc == "" ? probename : probefunc] = count();
}

tick-INTERVAL, END
{
	printf("%-40s %12s\n", "FUNC", "COUNT");
	printa("%-40s %@12d\n", @);
	trunc(@);
}
