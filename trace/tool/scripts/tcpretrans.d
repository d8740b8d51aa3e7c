/*
 * tool tcpretrans: TCP segments that are sent again
 * option -c --count: count by connection; print at the end
 * column TIME (s): time since the start
 * column PID: process that was on the CPU; often not that of the connection
 * column LADDR: local address
 * column LPORT: local port
 * column RADDR: remote address
 * column RPORT: remote port
 * column STATE: state of the connection
 * needs: tracepoint tcp_retransmit_skb
 */
#pragma D option quiet

#define TCP(S) xlate <tcpsinfo_t *> (S)
#define ENDS TCP(this->sock)->tcps_laddr, TCP(this->sock)->tcps_lport, \
    TCP(this->sock)->tcps_raddr, TCP(this->sock)->tcps_rport

BEGIN
{
	start = timestamp;
}

#if COUNT
sdt:tcp::tcp_retransmit_skb
{
	this->sock = (struct sock *)args[0];
	@[ENDS] = count();
}

END
{
	printf("%-15s %-6s %-15s %-6s %s\n", "LADDR", "LPORT", "RADDR", "RPORT", "RETRANSMITS");
	printa("%-15s %-6d %-15s %-6d %@d\n", @);
}
#else
BEGIN
{
	printf("%-10s %-8s %-15s %-6s %-15s %-6s %s\n", "TIME(s)", "PID", "LADDR", "LPORT", "RADDR",
	    "RPORT", "STATE");
}

sdt:tcp::tcp_retransmit_skb
{
	this->sock = (struct sock *)args[0];
	printf("%3d.%06d %-8d %-15s %-6d %-15s %-6d %s\n", (timestamp - start) / 1000000000,
	    (timestamp - start) / 1000 % 1000000, pid, ENDS,
	    tcp_state_string[TCP(this->sock)->tcps_state]);
}
#endif
