/*
 * Requests that the block layer passes to a device's driver, from there to their end. Devices
 * without requests (dm, md) are reported as the disks below them.
 *
 * statistic disk.latency dist ns by device direction process pid: how long requests took from
 *     the driver to their end, to a quarter of each power of two (block:block_rq_issue,
 *     block_rq_complete)
 * statistic disk.io.count delta op by device direction process pid: requests that ended
 *     (block:block_rq_issue, block_rq_complete)
 * statistic disk.io.bytes delta B by device direction process pid: bytes that requests read or
 *     wrote, counted at their end (block:block_rq_issue, block_rq_complete)
 * field device word: name of the disk, also for requests of its partitions
 * field direction word of request: read write flush discard ...
 * field process word: name of the thread that submitted the request (block:block_io_start; before
 *     Linux 6.5 the thread that passed it to the driver); a kernel thread for data written later
 * field pid number: its process ID
 * optional sdt:block::block_io_start
 */
sdt:block::block_io_start { name[arg0] = execname; by[arg0] = pid; }
io:::start /!by[arg0]/ { name[arg0] = execname; by[arg0] = pid; }
io:::start { began[arg0] = timestamp; bytes[arg0] = args[0]->b_bcount; }
io:::done /began[arg0]/ {
	@disk_latency[args[1]->dev_statname, ((struct request *)arg0)->cmd_flags & 255,
	    name[arg0], by[arg0]] = llquantize(timestamp - began[arg0], 2, 5, 40, 8);
}
io:::done /began[arg0]/ {
	@disk_io_count[args[1]->dev_statname, ((struct request *)arg0)->cmd_flags & 255,
	    name[arg0], by[arg0]] = count();
}
io:::done /began[arg0]/ {
	@disk_io_bytes[args[1]->dev_statname, ((struct request *)arg0)->cmd_flags & 255,
	    name[arg0], by[arg0]] = sum(bytes[arg0]);
}
io:::done { began[arg0] = 0; bytes[arg0] = 0; name[arg0] = 0; by[arg0] = 0; }
