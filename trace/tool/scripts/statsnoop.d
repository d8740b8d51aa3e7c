/*
 * tool statsnoop: calls of stat() and similar system calls
 * option -p --pid NUMBER = 0: only this process
 * option -x --failed: only calls that fail
 * option -t --timestamp: print the time since the start, in seconds
 * column PID: process ID
 * column COMM: name of the process
 * column ERR: 0, or the error number
 * column PATH: the name as the process wrote it; empty for a descriptor
 * needs: system call tracepoints
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%s%-8s %-16s %3s %s\n", TIMESTAMP ? "TIME(s)    " : "", "PID", "COMM", "ERR", "PATH");
}

syscall::*stat*:entry
/(probefunc == "newstat" || probefunc == "newlstat" || probefunc == "stat" ||
 probefunc == "lstat" || probefunc == "statfs") && (PID == 0 || pid == PID)/
{
	self->path = arg0;
}

syscall::*stat*:entry
/(probefunc == "statx" || probefunc == "newfstatat" || probefunc == "fstatat64") &&
 (PID == 0 || pid == PID)/
{
	self->path = arg1;
}

syscall::*stat*:return
/self->path && (!FAILED || errno != 0)/
{
#if TIMESTAMP
	printf("%3d.%06d ", (timestamp - start) / 1000000000, (timestamp - start) / 1000 % 1000000);
#endif
	printf("%-8d %-16s %3d %s\n", pid, execname, errno, copyinstr(self->path));
}

syscall::*stat*:return
{
	self->path = 0;
}
