/*
 * tool biostacks: latency of disk requests by the kernel stack that made them
 * option -m --milliseconds: in milliseconds, not microseconds
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column stack: functions of the kernel, innermost first
 * column value (us): latency, a power of two and more
 * column count: requests
 * needs: tracepoints block_rq_issue and block_rq_complete
 */
#pragma D option quiet
#pragma D option stackframes=25

int over;

#define KEY args[0]->b_edev, args[0]->b_blkno

tracepoint:block::block_rq_insert
{
	began[(dev_t)args.dev, args.sector] = timestamp;
	where[(dev_t)args.dev, args.sector] = stack();
}

io:::start
/began[KEY] == 0/
{
	began[KEY] = timestamp;
	where[KEY] = stack();
}

io:::done
/began[KEY]/
{
	@[where[KEY]] = quantize((timestamp - began[KEY]) / (MILLISECONDS ? 1000000 : 1000));
	began[KEY] = 0;
	where[KEY] = 0;
}

tick-INTERVAL, END
/!over/
{
	printf("latency in %s\n", MILLISECONDS ? "ms" : "us");
	printa("%-6k%@d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
