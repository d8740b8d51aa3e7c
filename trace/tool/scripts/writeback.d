/*
 * tool writeback: pages that the kernel writes to disk, with the reason
 * column TIME (s): time since the start
 * column DEVICE: major and minor number
 * column PAGES: pages that were to be written
 * column REASON: background, vmscan, sync, periodic ...
 * column LAT (ms): time of the round
 * needs: tracepoints writeback_start and writeback_written
 */
#pragma D option quiet

inline string reason[int r] = r == 0 ? "background" : r == 1 ? "vmscan" : r == 2 ? "sync" :
    r == 3 ? "periodic" : r == 4 ? "laptop_timer" : r == 5 ? "fs_free_space" :
    r == 6 ? "forker_thread" : "other";

BEGIN
{
	start = timestamp;
	printf("%-10s %-10s %-12s %-16s %s\n", "TIME(s)", "DEVICE", "PAGES", "REASON", "LAT(ms)");
}

tracepoint:writeback::writeback_start
{
	began[args.sb_dev, tid] = timestamp;
}

tracepoint:writeback::writeback_written
/began[args.sb_dev, tid]/
{
	this->lat = timestamp - began[args.sb_dev, tid];
	printf("%3d.%06d %-10s %-12d %-16s %d.%03d\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, args.name, args.nr_pages, reason[args.reason],
	    this->lat / 1000000, this->lat / 1000 % 1000);
	began[args.sb_dev, tid] = 0;
}
