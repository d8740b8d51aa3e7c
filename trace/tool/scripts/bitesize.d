/*
 * tool bitesize: sizes of disk requests by program, as distributions
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column value (KiB): size, a power of two and more
 * column count: requests
 * needs: tracepoint block_rq_issue
 */
#pragma D option quiet

int over;

io:::start
{
	@[execname] = quantize(args[0]->b_bcount / 1024);
}

tick-INTERVAL, END
/!over/
{
	printf("size in KiB\n");
	printa("program = %s%@d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
