/*
 * tool tcpconnlat: time until TCP connections are established
 * option -p --pid NUMBER = 0: only this process
 * operand MIN_MS NUMBER = 0: milliseconds; shorter ones are not shown
 * column PID: process that asks
 * column COMM: its name
 * column SADDR: local address
 * column DADDR: remote address
 * column DPORT: remote port
 * column LAT (ms): time between SYN and the answer
 * needs: tracepoint inet_sock_set_state
 */
#pragma D option quiet

BEGIN
{
	printf("%-8s %-16s %-15s %-15s %-6s %s\n", "PID", "COMM", "SADDR", "DADDR", "DPORT",
	    "LAT(ms)");
}

tcp:::state-change
/args[3]->tcps_state == TCP_STATE_SYN_SENT && (PID == 0 || pid == PID)/
{
	began[args[1]->cs_addr] = timestamp;
	who[args[1]->cs_addr] = pid;
	name[args[1]->cs_addr] = execname;
}

tcp:::state-change
/began[args[1]->cs_addr] && args[5]->tcps_state == TCP_STATE_SYN_SENT &&
 args[3]->tcps_state == TCP_STATE_ESTABLISHED &&
 timestamp - began[args[1]->cs_addr] >= MIN_MS * 1000000/
{
	this->us = (timestamp - began[args[1]->cs_addr]) / 1000;
	printf("%-8d %-16s %-15s %-15s %-6d %d.%03d\n", who[args[1]->cs_addr],
	    name[args[1]->cs_addr], args[3]->tcps_laddr, args[3]->tcps_raddr, args[3]->tcps_rport,
	    this->us / 1000, this->us % 1000);
}

tcp:::state-change
/args[5]->tcps_state == TCP_STATE_SYN_SENT/
{
	began[args[1]->cs_addr] = 0;
	who[args[1]->cs_addr] = 0;
	name[args[1]->cs_addr] = NULL;
}
