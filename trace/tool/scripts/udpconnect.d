/*
 * tool udpconnect: UDP sockets that processes connect to an address
 * option -p --pid NUMBER = 0: only this process
 * column PID: process ID
 * column COMM: name of the process
 * column IP: 4 or 6
 * column DADDR: remote address
 * column DPORT: remote port
 * needs: system call tracepoints
 */
#pragma D option quiet

#define TCP(S) xlate <tcpsinfo_t *> (S)
#define SOCK(N) ((struct socket *)curthread->files->fdt->fd[N]->private_data)->sk

BEGIN
{
	printf("%-8s %-16s %-2s %-15s %s\n", "PID", "COMM", "IP", "DADDR", "DPORT");
}

syscall::connect:entry
/PID == 0 || pid == PID/
{
	self->fd = (int)arg0 + 1;
	self->address = arg1;
}

syscall::connect:return
/self->fd && errno == 0/
{
	this->sock = SOCK(self->fd - 1);
	this->is = this->sock->sk_protocol == 17 && this->sock->sk_type == 2;
	this->is ? printf("%-8d %-16s %-2d %-15s %d\n", pid, execname,
	    this->sock->__sk_common.skc_family == 2 ? 4 : 6, TCP(this->sock)->tcps_raddr,
	    TCP(this->sock)->tcps_rport) : 1;
}

syscall::connect:return
{
	self->fd = 0;
}
