/*
 * tool biolatency: latency of disk requests as a distribution
 * option -D --disks: one distribution per disk
 * option -F --flags: separate reads and writes
 * option -m --milliseconds: in milliseconds, not microseconds
 * option -Q --queued: include the time in the queue
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column value (us): latency, a power of two and more
 * column count: requests
 * needs: tracepoints block_rq_issue and block_rq_complete
 */
#pragma D option quiet

int over;

#define DIVISOR (MILLISECONDS ? 1000000 : 1000)

#define KEY args[0]->b_edev, args[0]->b_blkno

#if QUEUED
tracepoint:block::block_rq_insert
{
	began[(dev_t)args.dev, args.sector] = timestamp;
}

io:::start
/began[KEY] == 0/
{
	began[KEY] = timestamp;
}
#else
io:::start
{
	began[KEY] = timestamp;
}
#endif

io:::done
/began[KEY]/
{
	@[DISKS ? args[1]->dev_statname : "all",
	    !FLAGS ? "" : args[0]->b_flags & B_READ ? " read" : " write"] =
	    quantize((timestamp - began[KEY]) / DIVISOR);
	began[KEY] = 0;
}

tick-INTERVAL, END
/!over/
{
	printf("latency in %s\n", MILLISECONDS ? "ms" : "us");
	printa("disk = %s%s%@d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
