/*
 * tool biopattern: share of sequential and random disk requests
 * operand INTERVAL interval = 1: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column DISK: name of the disk
 * column RND: requests that do not begin where the last one ended
 * column SEQ: requests that begin there
 * column KBYTES (KiB): size
 * needs: tracepoint block_rq_issue
 */
#pragma D option quiet

uint64_t next[dev_t];

BEGIN
{
	printf("%-10s %10s %10s %10s\n", "DISK", "RND", "SEQ", "KBYTES");
}

io:::start
/args[0]->b_bcount > 0/
{
	this->next = next[args[0]->b_edev] == args[0]->b_blkno;
	@rnd[args[1]->dev_statname] = sum(!this->next);
	@seq[args[1]->dev_statname] = sum(this->next);
	@kb[args[1]->dev_statname] = sum(args[0]->b_bcount);
	next[args[0]->b_edev] = args[0]->b_blkno + args[0]->b_bcount / 512;
}

tick-INTERVAL
{
	normalize(@kb, 1024);
	printa("%-10s %@10d %@10d %@10d\n", @rnd, @seq, @kb);
	trunc(@rnd);
	trunc(@seq);
	trunc(@kb);
}

tick-INTERVAL
/++outputs == COUNT/
{
	exit(0);
}
