/*
 * tool threadsnoop: threads that programs create with pthread_create()
 * option -p --pid NUMBER = 0: only this process
 * column TIME (ms): time since the start
 * column PID: process ID
 * column COMM: name of the thread that calls
 * column FUNC: the function in which the new thread begins
 * needs: uprobes, libc
 */
#pragma D option quiet

BEGIN
{
	start = timestamp;
	printf("%-10s %-8s %-16s %s\n", "TIME(ms)", "PID", "COMM", "FUNC");
}

uprobe:libc:pthread_create:
/PID == 0 || pid == PID/
{
	printf("%-10d %-8d %-16s %A\n", (timestamp - start) / 1000000, pid, execname, usym(arg2));
}
