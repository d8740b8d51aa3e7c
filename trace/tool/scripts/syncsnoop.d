/*
 * tool syncsnoop: calls that write files to disk: sync(), fsync() ...
 * option -p --pid NUMBER = 0: only this process
 * column TIME (s): time since the start
 * column PID: process ID
 * column COMM: name of the process
 * column CALL: the system call
 * column FILE: path of the file of a descriptor
 * needs: system call tracepoints
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %-16s %-16s %s\n", "TIME(s)", "PID", "COMM", "CALL", "FILE");
}

syscall::sync:entry, syscall::*sync*:entry
/(probefunc == "sync" || probefunc == "fsync" || probefunc == "fdatasync" ||
 probefunc == "msync" || probefunc == "syncfs" || probefunc == "sync_file_range") &&
 (PID == 0 || pid == PID)/
{
	printf("%3d.%06d %-8d %-16s %-16s %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, execname, probefunc,
	    probefunc == "sync" || probefunc == "msync" ? "" : fds[(int)arg0].fi_pathname);
}
