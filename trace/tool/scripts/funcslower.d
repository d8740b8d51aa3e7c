/*
 * tool funcslower: calls of functions that take long
 * option -p --pid NUMBER = 0: only this process
 * option -u --min-us NUMBER = 1000 us: shorter calls are not shown
 * option -U --user-stack: print the stack of the process
 * operand PATTERN PROBE: vfs_read, c:getaddrinfo, uprobe:FILE:FUNCTION: or syscall::read:entry
 * column TIME (s): time since the start
 * column COMM: name of the process
 * column PID: process ID
 * column LAT (us): time between entry and return
 * column RVAL: the result
 * column FUNC: the function
 * needs: what the probe needs: kprobes for functions of the kernel
 */
#pragma D option quiet

#ifndef PATTERN_RETURN
#error "name a function, FUNCTION or FILE:FUNCTION: only functions have a return"
#endif

BEGIN
{
	start = timestamp;
	printf("%-10s %-16s %-8s %12s %-18s %s\n", "TIME(s)", "COMM", "PID", "LAT(us)", "RVAL", "FUNC");
}

PATTERN
/PID == 0 || pid == PID/
{
	self->t = timestamp;
}

PATTERN_RETURN
/self->t && timestamp - self->t >= MIN_US * 1000/
{
	printf("%3d.%06d %-16s %-8d %12d %-#18x %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, execname, pid, (timestamp - self->t) / 1000, arg1,
	    probefunc);
#if USER_STACK
	ustack();
	printf("\n");
#endif
}

PATTERN_RETURN
{
	self->t = 0;
}
