/*
 * tool drsnoop: processes that must free memory themselves (direct reclaim)
 * option -p --pid NUMBER = 0: only this process
 * column COMM: name of the process
 * column PID: process ID
 * column LAT (ms): time that it needed
 * column PAGES: pages that it freed
 * needs: tracepoints mm_vmscan_direct_reclaim_begin and _end
 */
#pragma D option quiet

BEGIN
{
	printf("%-16s %-8s %8s %8s\n", "COMM", "PID", "LAT(ms)", "PAGES");
}

tracepoint:vmscan::mm_vmscan_direct_reclaim_begin
/PID == 0 || pid == PID/
{
	self->t = timestamp;
}

tracepoint:vmscan::mm_vmscan_direct_reclaim_end
/self->t/
{
	this->lat = timestamp - self->t;
	printf("%-16s %-8d %4d.%03d %8d\n", execname, pid, this->lat / 1000000,
	    this->lat / 1000 % 1000, args.nr_reclaimed);
	self->t = 0;
}
