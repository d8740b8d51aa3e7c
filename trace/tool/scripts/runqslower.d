/*
 * tool runqslower: threads that waited long for a CPU
 * option -p --pid NUMBER = 0: only this process
 * operand MIN_US NUMBER = 10000: microseconds; shorter waits are not shown
 * column TIME (s): time since the start
 * column COMM: name of the thread
 * column TID: thread ID
 * column LAT (us): time between ready and running
 * needs: tracepoints sched_switch, sched_wakeup and sched_wakeup_new
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-16s %-8s %12s\n", "TIME(s)", "COMM", "TID", "LAT(us)");
}

sched:::ready
{
	self->t = timestamp;
}

sched:::on-cpu
/self->t && timestamp - self->t >= MIN_US * 1000 && (PID == 0 || pid == PID)/
{
	printf("%3d.%06d %-16s %-8d %12d\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, execname, tid, (timestamp - self->t) / 1000);
}

sched:::on-cpu
{
	self->t = 0;
}
