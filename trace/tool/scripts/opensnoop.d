/*
 * tool opensnoop: files that processes open
 * option -p --pid NUMBER = 0: only this process
 * option -x --failed: only opens that fail
 * option -n --name TEXT = "": only processes whose name contains this text
 * option -F --full-path: the path of a file that is opened, not the name as written
 * option -t --timestamp: print the time since the start, in seconds
 * option -u --uid NUMBER = none: only processes of this user
 * column PID: process ID
 * column COMM: name of the process
 * column FD: the new file descriptor; -1: the open failed
 * column ERR: 0, or the error number
 * column PATH: the name as the process wrote it, or the path with -F
 * needs: system call tracepoints
 */
#pragma D option quiet

#ifdef UID
#define WANTED (PID == 0 || pid == PID) && uid == UID
#else
#define WANTED (PID == 0 || pid == PID)
#endif

BEGIN
{
	start = timestamp;
	printf("%s%-8s %-16s %4s %3s %s\n", TIMESTAMP ? "TIME(s)    " : "", "PID", "COMM", "FD", "ERR",
	    "PATH");
}

syscall::open*:entry
/(probefunc == "open" || probefunc == "openat" || probefunc == "openat2") && WANTED &&
 (NAME == "" || strstr(execname, NAME) != NULL)/
{
	self->path = probefunc == "open" ? arg0 : arg1;
}

syscall::open*:return
/self->path && (!FAILED || errno != 0)/
{
#if TIMESTAMP
	printf("%3d.%06d ", (timestamp - start) / 1000000000, (timestamp - start) / 1000 % 1000000);
#endif
#if FULL_PATH
	printf("%-8d %-16s %4d %3d %s\n", pid, execname, errno ? -1 : (int)arg0, errno,
	    errno ? copyinstr(self->path) : fds[arg0].fi_pathname);
#else
	printf("%-8d %-16s %4d %3d %s\n", pid, execname, errno ? -1 : (int)arg0, errno,
	    copyinstr(self->path));
#endif
}

syscall::open*:return
{
	self->path = 0;
}
