/*
 * tool ext4sync: time that ext4 needs to write files to disk (fsync)
 * option -p --pid NUMBER = 0: only this process
 * operand MIN_MS NUMBER = 0: milliseconds; shorter ones are not shown
 * column TIME (s): time since the start
 * column COMM: name of the process
 * column PID: process ID
 * column LAT (ms): time in ext4
 * column INODE: number of the file
 * needs: tracepoints ext4_sync_file_enter and ext4_sync_file_exit
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-16s %-8s %9s %s\n", "TIME(s)", "COMM", "PID", "LAT(ms)", "INODE");
}

tracepoint:ext4::ext4_sync_file_enter
/PID == 0 || pid == PID/
{
	self->t = timestamp;
}

tracepoint:ext4::ext4_sync_file_exit
/self->t && timestamp - self->t >= MIN_MS * 1000000/
{
	this->lat = timestamp - self->t;
	printf("%3d.%06d %-16s %-8d %5d.%03d %d\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, execname, pid, this->lat / 1000000,
	    this->lat / 1000 % 1000, args.ino);
}

tracepoint:ext4::ext4_sync_file_exit
{
	self->t = 0;
}
