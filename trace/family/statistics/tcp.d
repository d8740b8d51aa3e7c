/*
 * TCP connections at their begin, and retransmitted segments. The kernel knows the process when a
 * connection is requested. For accepted connections and for retransmissions it does not report one.
 *
 * statistic tcp.connect.latency dist ns by peer peerport process pid error: how long connection
 *     attempts took until they were established or refused, to a quarter of each power of two
 *     (sock:inet_sock_set_state)
 * statistic tcp.connect.count delta event by peer peerport process pid error: connection attempts,
 *     counted when they are established or refused (sock:inet_sock_set_state)
 * statistic tcp.accept.count delta event by peer localport: connections that other machines or
 *     programs established to this one (sock:inet_sock_set_state)
 * statistic tcp.retransmit.count delta packet by peer peerport localport: segments that were sent
 *     again (tcp:tcp_retransmit_skb)
 * field peer word: address of the other end; IPv4 in IPv6 is shown as IPv4
 * field peerport number: port of the other end
 * field localport number: own port
 * field process word: name of the thread that requested the connection
 * field pid number: its process ID
 * field error word of errno: none, or why it failed: ECONNREFUSED ETIMEDOUT ...; ECONNABORTED:
 *     the program closed it within a second. After a second without an answer that is ETIMEDOUT
 */
sdt:sock::inet_sock_set_state /args[0]->sk_protocol == IPPROTO_TCP && arg2 == 2/ {
	began[arg0] = timestamp; name[arg0] = execname; by[arg0] = pid;
}
tcp:::state-change /args[5]->tcps_state == TCP_STATE_SYN_SENT && began[args[1]->cs_cid]/ {
	this->error = args[3]->tcps_state != TCP_STATE_CLOSED ? 0 :
	    ((struct sock *)args[1]->cs_cid)->sk_err ? ((struct sock *)args[1]->cs_cid)->sk_err :
	    timestamp - began[args[1]->cs_cid] >= 1000000000 ? ETIMEDOUT : ECONNABORTED;
	@tcp_connect_latency[args[3]->tcps_raddr, args[3]->tcps_rport, name[args[1]->cs_cid],
	    by[args[1]->cs_cid], this->error] =
	    llquantize(timestamp - began[args[1]->cs_cid], 2, 5, 40, 8);
	@tcp_connect_count[args[3]->tcps_raddr, args[3]->tcps_rport, name[args[1]->cs_cid],
	    by[args[1]->cs_cid], this->error] = count();
}
tcp:::state-change /args[5]->tcps_state == TCP_STATE_SYN_SENT/ {
	began[args[1]->cs_cid] = 0; name[args[1]->cs_cid] = 0; by[args[1]->cs_cid] = 0;
}
tcp:::accept-established {
	@tcp_accept_count[args[3]->tcps_raddr, args[3]->tcps_lport] = count();
}
sdt:tcp::tcp_retransmit_skb {
	@tcp_retransmit_count[xlate<tcpsinfo_t *>(args[0])->tcps_raddr,
	    xlate<tcpsinfo_t *>(args[0])->tcps_rport, xlate<tcpsinfo_t *>(args[0])->tcps_lport] =
	    count();
}
