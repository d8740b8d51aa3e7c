/*
 * tool solisten: sockets on which processes begin to listen
 * option -p --pid NUMBER = 0: only this process
 * column PID: process ID
 * column COMM: name of the process
 * column FAMILY: 2: IPv4, 10: IPv6
 * column BACKLOG: connections that may wait
 * column PORT: the port
 * column RET: 0, or the error number
 * needs: system call tracepoints
 */
#pragma D option quiet

#define SOCK(N) ((struct socket *)curthread->files->fdt->fd[N]->private_data)->sk

BEGIN
{
	printf("%-8s %-16s %-6s %-8s %-6s %s\n", "PID", "COMM", "FAMILY", "BACKLOG", "PORT", "RET");
}

syscall::listen:entry
/PID == 0 || pid == PID/
{
	self->fd = (int)arg0 + 1;
	self->backlog = (int)arg1;
}

syscall::listen:return
/self->fd/
{
	printf("%-8d %-16s %-6d %-8d %-6d %d\n", pid, execname,
	    SOCK(self->fd - 1)->__sk_common.skc_family, self->backlog,
	    SOCK(self->fd - 1)->__sk_common.skc_num, errno);
	self->fd = 0;
}
