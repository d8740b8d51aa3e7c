/*
 * tool killsnoop: signals that processes send
 * option -x --failed: only calls that fail
 * option -p --pid NUMBER = 0: only signals from this process
 * option -s --signal NUMBER = 0: only this signal
 * column PID: process ID of the sender
 * column COMM: name of the sender
 * column SIG: the signal
 * column TPID: the receiver; 0 or less: a process group
 * column RESULT: 0, or the error number
 * needs: system call tracepoints
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %-4s %-8s %s\n", "PID", "COMM", "SIG", "TPID", "RESULT");
}

syscall::kill:entry, syscall::tkill:entry
/(PID == 0 || pid == PID) && (SIGNAL == 0 || arg1 == SIGNAL)/
{
	self->to = (int)arg0;
	self->signal = arg1;
	self->asked = 1;
}

syscall::tgkill:entry
/(PID == 0 || pid == PID) && (SIGNAL == 0 || arg2 == SIGNAL)/
{
	self->to = (int)arg1;
	self->signal = arg2;
	self->asked = 1;
}

syscall::kill:return, syscall::tkill:return, syscall::tgkill:return
/self->asked && (!FAILED || errno != 0)/
{
	printf("%-8d %-16s %-4d %-8d %d\n", pid, execname, self->signal, self->to, errno);
}

syscall::kill:return, syscall::tkill:return, syscall::tgkill:return
{
	self->asked = 0;
}
