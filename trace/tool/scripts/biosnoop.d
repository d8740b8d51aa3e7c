/*
 * tool biosnoop: requests to disks, with their latency
 * option -Q --queue: print the time in the queue
 * option -D --disk TEXT = "": only this disk
 * column TIME (s): time since the start
 * column COMM: name of the process that was on the CPU when the request began
 * column PID: its process ID
 * column DISK: name of the disk
 * column T: R: read, W: write
 * column SECTOR: first sector, of 512 bytes
 * column BYTES: size
 * column LAT (ms): time from the issue to the driver to the completion
 * needs: tracepoints block_rq_issue and block_rq_complete
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-16s %-8s %-8s %s %-12s %-8s%s %9s\n", "TIME(s)", "COMM", "PID", "DISK", "T",
	    "SECTOR", "BYTES", QUEUE ? "  QUE(ms)" : "", "LAT(ms)");
}

io:::start
/DISK == "" || args[1]->dev_statname == DISK/
{
	began[args[0]->b_edev, args[0]->b_blkno] = timestamp;
	who[args[0]->b_edev, args[0]->b_blkno] = pid;
	name[args[0]->b_edev, args[0]->b_blkno] = execname;
	size[args[0]->b_edev, args[0]->b_blkno] = args[0]->b_bcount;
}

#if QUEUE
tracepoint:block::block_rq_insert
{
	inserted[(dev_t)args.dev, args.sector] = timestamp;
}

io:::start
/inserted[args[0]->b_edev, args[0]->b_blkno]/
{
	waited[args[0]->b_edev, args[0]->b_blkno] =
	    timestamp - inserted[args[0]->b_edev, args[0]->b_blkno];
	inserted[args[0]->b_edev, args[0]->b_blkno] = 0;
}
#endif

io:::done
/began[args[0]->b_edev, args[0]->b_blkno]/
{
	this->lat = timestamp - began[args[0]->b_edev, args[0]->b_blkno];
	printf("%3d.%06d %-16s %-8d %-8s %s %-12d %-8d", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, name[args[0]->b_edev, args[0]->b_blkno],
	    who[args[0]->b_edev, args[0]->b_blkno], args[1]->dev_statname,
	    args[0]->b_flags & B_READ ? "R" : "W", args[0]->b_blkno,
	    size[args[0]->b_edev, args[0]->b_blkno]);
#if QUEUE
	this->waited = waited[args[0]->b_edev, args[0]->b_blkno];
	printf(" %4d.%03d", this->waited / 1000000, this->waited / 1000 % 1000);
	waited[args[0]->b_edev, args[0]->b_blkno] = 0;
#endif
	printf(" %5d.%03d\n", this->lat / 1000000, this->lat / 1000 % 1000);
	began[args[0]->b_edev, args[0]->b_blkno] = 0;
	who[args[0]->b_edev, args[0]->b_blkno] = 0;
	name[args[0]->b_edev, args[0]->b_blkno] = NULL;
	size[args[0]->b_edev, args[0]->b_blkno] = 0;
}
