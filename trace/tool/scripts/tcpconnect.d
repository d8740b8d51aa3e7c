/*
 * tool tcpconnect: TCP connections that processes open
 * option -p --pid NUMBER = 0: only this process
 * option -P --port NUMBER = 0: only this remote port
 * option -c --count: count by process, address and port; print at the end
 * column PID: process ID
 * column COMM: name of the process
 * column SADDR: local address
 * column DADDR: remote address
 * column DPORT: remote port
 * needs: tracepoint inet_sock_set_state
 */
#pragma D option quiet

#if !COUNT
BEGIN
{
	printf("%-8s %-16s %-15s %-15s %s\n", "PID", "COMM", "SADDR", "DADDR", "DPORT");
}
#endif

tcp:::state-change
/args[3]->tcps_state == TCP_STATE_SYN_SENT && (PID == 0 || pid == PID) &&
 (PORT == 0 || args[3]->tcps_rport == PORT)/
{
#if COUNT
	@[pid, execname, args[3]->tcps_raddr, args[3]->tcps_rport] = count();
#else
	printf("%-8d %-16s %-15s %-15s %d\n", pid, execname, args[3]->tcps_laddr, args[3]->tcps_raddr,
	    args[3]->tcps_rport);
#endif
}

#if COUNT
END
{
	printf("%-8s %-16s %-15s %-6s %s\n", "PID", "COMM", "DADDR", "DPORT", "CONNECTS");
	printa("%-8d %-16s %-15s %-6d %@d\n", @);
}
#endif
