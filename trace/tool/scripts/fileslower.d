/*
 * tool fileslower: reads and writes of files that take long
 * option -p --pid NUMBER = 0: only this process
 * option -a --all-files: also pipes, sockets and devices
 * operand MIN_MS NUMBER = 10: milliseconds; shorter calls are not shown
 * column TIME (s): time since the start
 * column PID: process ID
 * column COMM: name of the process
 * column T: R: read, W: write
 * column BYTES: bytes that were read or written
 * column LAT (ms): time in the call
 * column FILE: path of the file
 * needs: system call tracepoints
 */
#pragma D option quiet

#define IS_FILE(N) (ALL_FILES || N >= 0 && N < curthread->files->fdt->max_fds && \
    curthread->files->fdt->fd[N] != NULL && \
    (curthread->files->fdt->fd[N]->f_inode->i_mode & 0170000) == 0100000)

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %-16s %s %9s %9s %s\n", "TIME(s)", "PID", "COMM", "T", "BYTES", "LAT(ms)",
	    "FILE");
}

syscall::*read*:entry
/(probefunc == "read" || probefunc == "pread64" || probefunc == "readv" ||
 probefunc == "preadv") && (PID == 0 || pid == PID) && IS_FILE((int)arg0)/
{
	self->t = timestamp;
	self->fd = (int)arg0;
	self->writes = 0;
}

syscall::*write*:entry
/(probefunc == "write" || probefunc == "pwrite64" || probefunc == "writev" ||
 probefunc == "pwritev") && (PID == 0 || pid == PID) && IS_FILE((int)arg0)/
{
	self->t = timestamp;
	self->fd = (int)arg0;
	self->writes = 1;
}

syscall::*read*:return, syscall::*write*:return
/self->t && timestamp - self->t >= MIN_MS * 1000000/
{
	this->lat = timestamp - self->t;
	printf("%3d.%06d %-8d %-16s %s %9d %5d.%03d %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, execname, self->writes ? "W" : "R",
	    (long)arg0, this->lat / 1000000, this->lat / 1000 % 1000, fds[self->fd].fi_pathname);
}

syscall::*read*:return, syscall::*write*:return
{
	self->t = 0;
}
