/*
 * tool tcpaccept: TCP connections that processes accept
 * option -p --pid NUMBER = 0: only this process
 * option -P --port NUMBER = 0: only this local port
 * column PID: process ID
 * column COMM: name of the process
 * column RADDR: remote address
 * column RPORT: remote port
 * column LADDR: local address
 * column LPORT: local port
 * needs: system call tracepoints
 */
#pragma D option quiet

#define TCP(S) xlate <tcpsinfo_t *> (S)
#define SOCK(N) ((struct socket *)curthread->files->fdt->fd[N]->private_data)->sk

BEGIN
{
	printf("%-8s %-16s %-15s %-6s %-15s %s\n", "PID", "COMM", "RADDR", "RPORT", "LADDR", "LPORT");
}

syscall::accept:return, syscall::accept4:return
/errno == 0 && (PID == 0 || pid == PID) && SOCK((int)arg0)->sk_protocol == 6/
{
	this->sock = SOCK((int)arg0);
	PORT == 0 || TCP(this->sock)->tcps_lport == PORT ?
	    printf("%-8d %-16s %-15s %-6d %-15s %d\n", pid, execname, TCP(this->sock)->tcps_raddr,
	    TCP(this->sock)->tcps_rport, TCP(this->sock)->tcps_laddr, TCP(this->sock)->tcps_lport) : 1;
}
