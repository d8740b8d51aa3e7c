/*
 * tool seeksize: distances between disk requests of a program, as distributions
 * operand INTERVAL interval = none: seconds between outputs; without it, one output at the end
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column value (sectors): distance to the end of the request before
 * column count: requests
 * needs: tracepoint block_rq_issue
 */
#pragma D option quiet

int over;
uint64_t end[dev_t];

io:::start
/end[args[0]->b_edev]/
{
	this->from = end[args[0]->b_edev];
	this->distance = args[0]->b_blkno > this->from ? args[0]->b_blkno - this->from :
	    this->from - args[0]->b_blkno;
	@[execname] = quantize(this->distance);
}

io:::start
{
	end[args[0]->b_edev] = args[0]->b_blkno + args[0]->b_bcount / 512;
}

tick-INTERVAL, END
/!over/
{
	printf("distance in sectors\n");
	printa("program = %s%@d\n", @);
	trunc(@);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
