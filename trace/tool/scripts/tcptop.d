/*
 * tool tcptop: bytes that processes send and receive by TCP, by connection
 * option -p --pid NUMBER = 0: only this process
 * option -r --maxrows NUMBER = 20: most rows of an output
 * operand INTERVAL interval = 1: seconds between outputs
 * operand COUNT NUMBER = 0: number of outputs; 0: until Ctrl-C
 * column PID: process ID
 * column COMM: name of the process
 * column LADDR: local address
 * column LPORT: local port
 * column RADDR: remote address
 * column RPORT: remote port
 * column RX_KB (KiB): received
 * column TX_KB (KiB): sent
 * needs: tracepoints sock_send_length and sock_recv_length (Linux 6.3)
 */
#pragma D option quiet
#pragma D option aggsortrev

#define TEXT(N) #N
#define NUMBER(N) TEXT(N)

BEGIN
{
	setopt("aggrows", NUMBER(MAXROWS));
}

#define TCP(S) xlate <tcpsinfo_t *> (S)
#define ENDS TCP(this->sock)->tcps_laddr, TCP(this->sock)->tcps_lport, \
    TCP(this->sock)->tcps_raddr, TCP(this->sock)->tcps_rport

int over;

sdt:sock::sock_send_length, sdt:sock::sock_recv_length
/args[0]->sk_protocol == 6 && args[0]->sk_type == 1 && args[1] > 0 && (PID == 0 || pid == PID)/
{
	this->sock = args[0];
	@rx[pid, execname, ENDS] = sum(probename == "sock_recv_length" ? args[1] : 0);
	@tx[pid, execname, ENDS] = sum(probename == "sock_send_length" ? args[1] : 0);
}

tick-INTERVAL, END
/!over/
{
	printf("%-8s %-16s %-15s %-6s %-15s %-6s %9s %9s\n", "PID", "COMM", "LADDR", "LPORT", "RADDR",
	    "RPORT", "RX_KB", "TX_KB");
	normalize(@rx, 1024);
	normalize(@tx, 1024);
	printa("%-8d %-16s %-15s %-6d %-15s %-6d %@9d %@9d\n", @rx, @tx);
	trunc(@rx);
	trunc(@tx);
}

tick-INTERVAL
/++outputs == COUNT/
{
	over = 1;
	exit(0);
}
