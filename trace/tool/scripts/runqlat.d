/*
 * tool runqlat: time that threads wait for a CPU, as a distribution
 * option -p --pid NUMBER = 0: only this process
 * option -P --pids: one distribution per process
 * option -m --milliseconds: in milliseconds, not microseconds
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column value (us): time between ready and running, a power of two and more
 * column count: waits
 * needs: tracepoints sched_switch, sched_wakeup and sched_wakeup_new
 */
#pragma D option quiet

int over;

sched:::ready
{
	self->t = timestamp;
}

sched:::on-cpu
/self->t && (PID == 0 || pid == PID)/
{
	@[PIDS ? pid : 0, PIDS ? execname : "all"] =
	    quantize((timestamp - self->t) / (MILLISECONDS ? 1000000 : 1000));
}

sched:::on-cpu
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
