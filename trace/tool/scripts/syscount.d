/*
 * tool syscount: system calls by name or process, with errors and time
 * option -p --pid NUMBER = 0: only this process
 * option -x --failures: only calls that fail
 * option -P --process: by process, not by name
 * option -L --latency: also the time in the calls
 * option -T --top NUMBER = 10: most rows of an output
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column NAME: system call, or process
 * column COUNT: calls
 * column TIME (us): time between entry and return, with -L
 * needs: tracepoints sys_enter and sys_exit
 */
#pragma D option quiet
#pragma D option aggsortrev

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(TOP));
}

int over;

#if PROCESS
#define KEY execname, pid
#define ROW "%-16s %-8d %@12d\n"
#define ROW_TIME "%-16s %-8d %@12d %@16d\n"
#else
#define KEY probefunc
#define ROW "%-25s %@12d\n"
#define ROW_TIME "%-25s %@12d %@16d\n"
#endif

#if LATENCY
syscall:::entry
/PID == 0 || pid == PID/
{
	self->t = timestamp;
}

syscall:::return
/self->t && (!FAILURES || errno != 0)/
{
	@time[KEY] = sum((timestamp - self->t) / 1000);
	@calls[KEY] = count();
}
#else
syscall:::return
/(PID == 0 || pid == PID) && (!FAILURES || errno != 0)/
{
	@calls[KEY] = count();
}
#endif

tick-INTERVAL, END
/!over/
{
#if LATENCY
	printf("%-25s %12s %16s\n", PROCESS ? "PROCESS" : "SYSCALL", "TIME(us)", "COUNT");
	printa(ROW_TIME, @time, @calls);
	trunc(@time);
#else
	printf("%-25s %12s\n", PROCESS ? "PROCESS" : "SYSCALL", "COUNT");
	printa(ROW, @calls);
#endif
	trunc(@calls);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
