/*
 * tool shmsnoop: system calls of System V shared memory
 * option -p --pid NUMBER = 0: only this process
 * column PID: process ID
 * column COMM: name of the process
 * column SYS: shmget, shmat, shmdt or shmctl
 * column RET: result: the number, the address, or -1
 * column ERR: 0, or the error number
 * column ARGS: the arguments
 * needs: system call tracepoints
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %-8s %-18s %-4s %s\n", "PID", "COMM", "SYS", "RET", "ERR", "ARGS");
}

syscall::shm*:entry
/PID == 0 || pid == PID/
{
	self->a = arg0;
	self->b = arg1;
	self->c = arg2;
	self->called = 1;
}

syscall::shm*:return
/self->called/
{
	printf("%-8d %-16s %-8s %-#18x %-4d 0x%x, 0x%x, 0x%x\n", pid, execname, probefunc,
	    errno ? -1 : arg0, errno, self->a, self->b, self->c);
	self->called = 0;
}
