/*
 * tool tcplife: TCP connections that end, with their lifetime and bytes
 * option -p --pid NUMBER = 0: only this process
 * option -L --localport NUMBER = 0: only this local port
 * option -D --remoteport NUMBER = 0: only this remote port
 * column PID: process that asked for or closed the connection
 * column COMM: its name
 * column LADDR: local address
 * column LPORT: local port
 * column RADDR: remote address
 * column RPORT: remote port
 * column TX_KB (KiB): sent and acknowledged
 * column RX_KB (KiB): received
 * column MS (ms): time from the first state to the end
 * needs: tracepoint inet_sock_set_state
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %-15s %5s %-15s %5s %6s %6s %s\n", "PID", "COMM", "LADDR", "LPORT",
	    "RADDR", "RPORT", "TX_KB", "RX_KB", "MS");
}

tcp:::state-change
/born[args[1]->cs_addr] == 0 && args[3]->tcps_state != TCP_STATE_CLOSED/
{
	born[args[1]->cs_addr] = timestamp;
}

tcp:::state-change
/args[3]->tcps_state == TCP_STATE_SYN_SENT || args[3]->tcps_state == TCP_STATE_LAST_ACK/
{
	who[args[1]->cs_addr] = pid;
	name[args[1]->cs_addr] = execname;
}

tcp:::state-change
/args[3]->tcps_state == TCP_STATE_CLOSED && born[args[1]->cs_addr] &&
 (LOCALPORT == 0 || args[3]->tcps_lport == LOCALPORT) &&
 (REMOTEPORT == 0 || args[3]->tcps_rport == REMOTEPORT) &&
 (PID == 0 || PID == (who[args[1]->cs_addr] ? who[args[1]->cs_addr] : pid))/
{
	this->ms = (timestamp - born[args[1]->cs_addr]) / 1000;
	this->tcp = (struct tcp_sock *)args[1]->cs_addr;
	printf("%-8d %-16s %-15s %5d %-15s %5d %6d %6d %d.%03d\n",
	    who[args[1]->cs_addr] ? who[args[1]->cs_addr] : pid,
	    who[args[1]->cs_addr] ? name[args[1]->cs_addr] : execname, args[3]->tcps_laddr,
	    args[3]->tcps_lport, args[3]->tcps_raddr, args[3]->tcps_rport,
	    this->tcp->bytes_acked / 1024, this->tcp->bytes_received / 1024, this->ms / 1000,
	    this->ms % 1000);
}

tcp:::state-change
/args[3]->tcps_state == TCP_STATE_CLOSED/
{
	born[args[1]->cs_addr] = 0;
	who[args[1]->cs_addr] = 0;
	name[args[1]->cs_addr] = NULL;
}
