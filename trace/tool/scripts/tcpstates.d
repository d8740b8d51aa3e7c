/*
 * tool tcpstates: changes of state of TCP connections, with the time in each
 * option -L --localport NUMBER = 0: only this local port
 * option -D --remoteport NUMBER = 0: only this remote port
 * column PID: process that was on the CPU
 * column COMM: its name
 * column LADDR: local address
 * column LPORT: local port
 * column RADDR: remote address
 * column RPORT: remote port
 * column OLD: the state before
 * column NEW: the new state
 * column MS (ms): time in the state before
 * needs: tracepoint inet_sock_set_state
 */
#pragma D option quiet

uint64_t since[uint64_t];

BEGIN
{
	printf("%-8s %-16s %-15s %5s %-15s %5s %-18s -> %-18s %s\n", "PID", "COMM", "LADDR", "LPORT",
	    "RADDR", "RPORT", "OLD", "NEW", "MS");
}

tcp:::state-change
/(LOCALPORT == 0 || args[3]->tcps_lport == LOCALPORT) &&
 (REMOTEPORT == 0 || args[3]->tcps_rport == REMOTEPORT)/
{
	this->us = since[args[1]->cs_addr] ? (timestamp - since[args[1]->cs_addr]) / 1000 : 0;
	printf("%-8d %-16s %-15s %5d %-15s %5d %-18s -> %-18s %d.%03d\n", pid, execname,
	    args[3]->tcps_laddr, args[3]->tcps_lport, args[3]->tcps_raddr, args[3]->tcps_rport,
	    tcp_state_string[args[5]->tcps_state], tcp_state_string[args[3]->tcps_state],
	    this->us / 1000, this->us % 1000);
}

tcp:::state-change
{
	since[args[1]->cs_addr] = args[3]->tcps_state == TCP_STATE_CLOSED ? 0 : timestamp;
}
