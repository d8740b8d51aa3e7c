/*
 * tool bindsnoop: sockets that processes bind to a port
 * option -p --pid NUMBER = 0: only this process
 * option -P --port NUMBER = 0: only this port
 * column PID: process ID
 * column COMM: name of the process
 * column RET: 0, or the error number
 * column FAMILY: 2: IPv4, 10: IPv6
 * column PORT: the port; 0: the kernel chooses one
 * needs: system call tracepoints
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %-4s %-6s %s\n", "PID", "COMM", "RET", "FAMILY", "PORT");
}

syscall::bind:entry
/(PID == 0 || pid == PID) && arg2 >= 8/
{
	this->a = (struct sockaddr_in *)copyin(arg1, 8);
	self->family = this->a->sin_family;
	self->port = ntohs(this->a->sin_port);
}

syscall::bind:return
/(self->family == 2 || self->family == 10) && (PORT == 0 || self->port == PORT)/
{
	printf("%-8d %-16s %-4d %-6d %d\n", pid, execname, errno, self->family, self->port);
}

syscall::bind:return
{
	self->family = 0;
}
