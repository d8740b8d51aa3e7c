/*
 * tool pidpersec: new processes per second
 * operand INTERVAL interval = 1: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column PIDS/SEC: processes that began, per second
 * needs: tracepoint sched_process_fork
 */
#pragma D option quiet

BEGIN
{
	last = timestamp;
	printf("%10s %10s\n", "PROCESSES", "PIDS/SEC");
}

proc:::start
{
	@ = count();
	@rate = count();
}

tick-INTERVAL
{
	normalize(@rate, (timestamp - last + 500000000) / 1000000000);
	printa("%@10d %@10d\n", @, @rate);
	clear(@);
	clear(@rate);
	last = timestamp;
}

tick-INTERVAL
/++outputs == COUNT/
{
	exit(0);
}
