/*
 * tool cpudist: time that threads run before they leave the CPU, as a distribution
 * option -p --pid NUMBER = 0: only this process
 * option -O --offcpu: time off the CPU instead
 * option -P --pids: one distribution per process
 * option -m --milliseconds: in milliseconds, not microseconds
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column value (us): time, a power of two and more
 * column count: times on the CPU
 * needs: tracepoint sched_switch
 */
#pragma D option quiet

#if OFFCPU
#define FIRST sched:::off-cpu
#define LAST sched:::on-cpu
#else
#define FIRST sched:::on-cpu
#define LAST sched:::off-cpu
#endif

int over;

FIRST
/pid != 0/
{
	self->t = timestamp;
}

LAST
/self->t && (PID == 0 || pid == PID)/
{
	@[PIDS ? pid : 0, PIDS ? execname : "all"] =
	    quantize((timestamp - self->t) / (MILLISECONDS ? 1000000 : 1000));
}

LAST
{
	self->t = 0;
}

tick-INTERVAL, END
/!over/
{
	printf("time in %s\n", MILLISECONDS ? "ms" : "us");
	printa("pid = %d %s%@d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
