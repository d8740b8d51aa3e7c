/*
 * Requests that the block layer gives to a device's driver, from there to their end. What has no requests - dm, md - is told by the disks below it.
 *
 * statistic disk.latency dist ns by device direction process pid: how long requests took, from being given to the driver to their end, to a quarter of each power of two (block:block_rq_issue, block_rq_complete)
 * statistic disk.io.count delta op by device direction process pid: requests that ended (block:block_rq_issue, block_rq_complete)
 * statistic disk.io.bytes delta B by device direction process pid: what they read or wrote (block:block_rq_issue, block_rq_complete)
 * field device word: name of the disk, of its partitions too
 * field direction word of request: read write flush discard ...
 * field process word: name of the thread that asked for it (block:block_io_start; before Linux 6.5 that gave it to the driver); of what is written later one of the kernel's
 * field pid number: its process ID
 * optional sdt:block::block_io_start
 */
sdt:block::block_io_start { name[arg0] = execname; by[arg0] = pid; }
io:::start /!by[arg0]/ { name[arg0] = execname; by[arg0] = pid; }
io:::start { began[arg0] = timestamp; bytes[arg0] = args[0]->b_bcount; }
io:::done /began[arg0]/ { @disk_latency[args[1]->dev_statname, ((struct request *)arg0)->cmd_flags & 255, name[arg0], by[arg0]] = llquantize(timestamp - began[arg0], 2, 5, 40, 8); }
io:::done /began[arg0]/ { @disk_io_count[args[1]->dev_statname, ((struct request *)arg0)->cmd_flags & 255, name[arg0], by[arg0]] = count(); }
io:::done /began[arg0]/ { @disk_io_bytes[args[1]->dev_statname, ((struct request *)arg0)->cmd_flags & 255, name[arg0], by[arg0]] = sum(bytes[arg0]); }
io:::done { began[arg0] = 0; bytes[arg0] = 0; name[arg0] = 0; by[arg0] = 0; }
