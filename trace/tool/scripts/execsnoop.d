/*
 * tool execsnoop: programs that processes start
 * option -x --fails: also calls of exec that fail
 * option -t --timestamp: print the time since the start, in seconds
 * option -n --name TEXT = "": only programs whose name contains this text
 * option -l --line TEXT = "": only command lines that contain this text
 * option -P --ppid NUMBER = 0: only children of this process
 * option -U --uid NUMBER = none: only processes of this user
 * column PCOMM: name of the program
 * column PID: process ID
 * column PPID: process ID of the parent
 * column RET: 0, or the error number of exec
 * column ARGS: the command line
 * needs: tracepoints sched_process_exec and sched_process_fork
 * note: command lines end after 255 characters
 */
#pragma D option quiet

#ifdef UID
#define WANTED (PPID == 0 || ppid == PPID) && uid == UID
#else
#define WANTED (PPID == 0 || ppid == PPID)
#endif

BEGIN
{
	start = timestamp;
	printf("%s%-16s %-8s %-8s %4s %s\n", TIMESTAMP ? "TIME(s)    " : "", "PCOMM", "PID", "PPID",
	    "RET", "ARGS");
}

proc:::exec
{
	self->path = args[0];
}

proc:::exec-success
/(WANTED) && (NAME == "" || strstr(execname, NAME) != NULL) &&
 (LINE == "" || strstr(curpsinfo->pr_psargs, LINE) != NULL)/
{
#if TIMESTAMP
	printf("%3d.%06d ", (timestamp - start) / 1000000000, (timestamp - start) / 1000 % 1000000);
#endif
	printf("%-16s %-8d %-8d %4d %s\n", execname, pid, ppid, 0, curpsinfo->pr_psargs);
}

#if FAILS
proc:::exec-failure
/(WANTED) && (NAME == "" || strstr(basename(self->path), NAME) != NULL) &&
 (LINE == "" || strstr(self->path, LINE) != NULL)/
{
#if TIMESTAMP
	printf("%3d.%06d ", (timestamp - start) / 1000000000, (timestamp - start) / 1000 % 1000000);
#endif
	printf("%-16s %-8d %-8d %4d %s\n", execname, pid, ppid, args[0], self->path);
}
#endif
