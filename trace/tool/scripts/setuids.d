/*
 * tool setuids: calls that change the user of a process
 * option -p --pid NUMBER = 0: only this process
 * column PID: process ID
 * column COMM: name of the process
 * column UID: user before the call
 * column CALL: setuid, setreuid, setresuid or setfsuid
 * column ARGS: user IDs; -1 leaves one as it is
 * column RET: 0, or the error number
 * needs: system call tracepoints
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %-7s %-10s %-20s %s\n", "PID", "COMM", "UID", "CALL", "ARGS", "RET");
}

syscall::set*uid:entry
/(probefunc == "setuid" || probefunc == "setreuid" || probefunc == "setresuid" ||
 probefunc == "setfsuid") && (PID == 0 || pid == PID)/
{
	self->was = uid;
	self->first = (int)arg0;
	self->second = (int)arg1;
	self->third = (int)arg2;
	self->set = 1;
}

syscall::setuid:return, syscall::setfsuid:return
/self->set/
{
	printf("%-8d %-16s %-7d %-10s uid=%-16d %d\n", pid, execname, self->was, probefunc,
	    self->first, errno);
	self->set = 0;
}

syscall::setreuid:return
/self->set/
{
	printf("%-8d %-16s %-7d %-10s ruid=%d euid=%d %d\n", pid, execname, self->was, probefunc,
	    self->first, self->second, errno);
	self->set = 0;
}

syscall::setresuid:return
/self->set/
{
	printf("%-8d %-16s %-7d %-10s ruid=%d euid=%d suid=%d %d\n", pid, execname, self->was,
	    probefunc, self->first, self->second, self->third, errno);
	self->set = 0;
}
