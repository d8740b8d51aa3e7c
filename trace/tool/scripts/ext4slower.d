/*
 * tool ext4slower: operations of ext4 that take long
 * option -p --pid NUMBER = 0: only this process
 * operand MIN_MS NUMBER = 10: milliseconds; shorter operations are not shown
 * column TIME (s): time since the start
 * column COMM: name of the process
 * column PID: process ID
 * column T: R: read, W: write, O: open, S: fsync
 * column LAT (ms): time in ext4
 * column FILE: path of the file
 * needs: kernel feature kprobes, Linux 5.15, ext4
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-16s %-8s %s %9s %s\n", "TIME(s)", "COMM", "PID", "T", "LAT(ms)", "FILE");
}

fbt::ext4_file_read_iter:entry, fbt::ext4_file_write_iter:entry
/PID == 0 || pid == PID/
{
	self->t = timestamp;
	self->file = ((struct kiocb *)arg0)->ki_filp;
}

fbt::ext4_file_open:entry
/PID == 0 || pid == PID/
{
	self->t = timestamp;
	self->file = (struct file *)arg1;
}

fbt::ext4_sync_file:entry
/PID == 0 || pid == PID/
{
	self->t = timestamp;
	self->file = (struct file *)arg0;
}

fbt::ext4_file_read_iter:return, fbt::ext4_file_write_iter:return, fbt::ext4_file_open:return,
fbt::ext4_sync_file:return
/self->t && timestamp - self->t >= MIN_MS * 1000000/
{
	this->lat = timestamp - self->t;
	printf("%3d.%06d %-16s %-8d %s %5d.%03d %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, execname, pid,
	    probefunc == "ext4_file_read_iter" ? "R" : probefunc == "ext4_file_write_iter" ? "W" :
	    probefunc == "ext4_file_open" ? "O" : "S", this->lat / 1000000,
	    this->lat / 1000 % 1000, d_path(self->file));
}

fbt::ext4_file_read_iter:return, fbt::ext4_file_write_iter:return, fbt::ext4_file_open:return,
fbt::ext4_sync_file:return
{
	self->t = 0;
}
