/*
 * tool naptime: sleeps that processes ask for
 * option -p --pid NUMBER = 0: only this process
 * column PPID: process ID of the parent
 * column PCOMM: name of the parent
 * column PID: process ID
 * column COMM: name of the process
 * column SECONDS (s): the time to sleep
 * needs: system call tracepoints
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %-8s %-16s %s\n", "PPID", "PCOMM", "PID", "COMM", "SECONDS");
}

syscall::nanosleep:entry
/PID == 0 || pid == PID/
{
	this->t = (struct timespec64 *)copyin(arg0, 16);
	printf("%-8d %-16s %-8d %-16s %d.%03d\n", ppid, curthread->real_parent->comm, pid, execname,
	    this->t->tv_sec, this->t->tv_nsec / 1000000);
}

syscall::clock_nanosleep:entry
/(PID == 0 || pid == PID) && arg1 == 0/
{
	this->t = (struct timespec64 *)copyin(arg2, 16);
	printf("%-8d %-16s %-8d %-16s %d.%03d\n", ppid, curthread->real_parent->comm, pid, execname,
	    this->t->tv_sec, this->t->tv_nsec / 1000000);
}
