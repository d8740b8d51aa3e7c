/*
 * tool mountsnoop: mounts and unmounts
 * option -p --pid NUMBER = 0: only this process
 * column COMM: name of the process
 * column PID: process ID
 * column RET: 0, or the error number
 * column CALL: mount(source, target, type), or umount(target)
 * needs: system call tracepoints
 */
#pragma D option quiet

BEGIN
{
	printf("%-16s %-8s %-4s %s\n", "COMM", "PID", "RET", "CALL");
}

syscall::mount:entry
/PID == 0 || pid == PID/
{
	self->source = arg0;
	self->target = arg1;
	self->type = arg2;
}

syscall::umount*:entry
/PID == 0 || pid == PID/
{
	self->target = arg0;
}

syscall::mount:return
/self->target/
{
	printf("%-16s %-8d %-4d mount(\"%s\", \"%s\", \"%s\")\n", execname, pid, errno,
	    self->source ? copyinstr(self->source) : "", copyinstr(self->target),
	    self->type ? copyinstr(self->type) : "");
}

syscall::umount*:return
/self->target/
{
	printf("%-16s %-8d %-4d umount(\"%s\")\n", execname, pid, errno, copyinstr(self->target));
}

syscall::mount:return, syscall::umount*:return
{
	self->target = self->source = self->type = 0;
}
