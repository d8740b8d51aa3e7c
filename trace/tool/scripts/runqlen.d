/*
 * tool runqlen: length of the run queues, sampled 99 times per second
 * option -C --cpus: one distribution per CPU
 * option -F --frequency NUMBER = 99 Hz: samples per second
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column value: threads that wait, without the one that runs
 * column count: samples
 * needs: perf events
 */
#pragma D option quiet

int over;

profile-FREQUENCY
{
	this->running = curthread->se.cfs_rq->rq->nr_running;
	@[CPUS ? cpu : -1] = lquantize(this->running > 0 ? this->running - 1 : 0, 0, 100, 1);
}

tick-INTERVAL, END
/!over/
{
	printa("cpu = %d%@d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
