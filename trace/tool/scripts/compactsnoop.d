/*
 * tool compactsnoop: processes that must compact memory, with the time
 * option -p --pid NUMBER = 0: only this process
 * column COMM: name of the process
 * column PID: process ID
 * column LAT (ms): time that it needed
 * column STATUS: number of the result
 * needs: tracepoints mm_compaction_begin and mm_compaction_end
 */
#pragma D option quiet

BEGIN
{
	printf("%-16s %-8s %8s %s\n", "COMM", "PID", "LAT(ms)", "STATUS");
}

tracepoint:compaction::mm_compaction_begin
/PID == 0 || pid == PID/
{
	self->t = timestamp;
}

tracepoint:compaction::mm_compaction_end
/self->t/
{
	this->lat = timestamp - self->t;
	printf("%-16s %-8d %4d.%03d %d\n", execname, pid, this->lat / 1000000,
	    this->lat / 1000 % 1000, args.status);
	self->t = 0;
}
