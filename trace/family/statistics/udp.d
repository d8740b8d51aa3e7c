/*
 * Datagrams that programs send and receive through UDP sockets, from Linux 6.3. Each call that
 * moves data counts, in the program that calls: sock:sock_send_length, sock:sock_recv_length. A
 * socket with UDP_SEGMENT sends several datagrams per call. Calls that only look (MSG_PEEK), and
 * datagrams of the kernel itself (WireGuard, NFS), do not count.
 *
 * statistic udp.flow.bytes delta B by netns local localport peer peerport process pid
 *     direction: payload that programs sent and received through UDP sockets
 *     (sock:sock_send_length, sock:sock_recv_length)
 * statistic udp.flow.packets delta packet by netns local localport peer peerport process pid
 *     direction: datagrams that programs sent and received through UDP sockets
 *     (sock:sock_send_length, sock:sock_recv_length)
 * from Linux 6.3
 * field netns word of netns: network namespace of the socket; "" is culprit's own
 * field local word: address of the socket; 0.0.0.0 or :: if it has all addresses of the machine
 * field localport number: its port
 * field peer word: address of the other end; 0.0.0.0 or :: if the socket is not connected, so that
 *     each datagram may have another one
 * field peerport number: port of the other end; 0 if the socket is not connected
 * field process word: name of the thread
 * field pid number: its process ID
 * field direction word of direction: rx or tx
 */
sdt:sock::sock_recv_length
/args[0]->sk_protocol == IPPROTO_UDP && args[0]->sk_type == 2 && args[0]->__sk_common.skc_num &&
    args[1] >= 0 && !(args[2] & 2)/
{
	this->local = xlate<udpsinfo_t *>(args[0])->udps_laddr;
	this->peer = xlate<udpsinfo_t *>(args[0])->udps_raddr;
	@udp_flow_bytes[args[0]->__sk_common.skc_net.net->ns.inum, this->local,
	    args[0]->__sk_common.skc_num, this->peer, ntohs(args[0]->__sk_common.skc_dport),
	    execname, pid, 0] = sum(args[1]);
	@udp_flow_packets[args[0]->__sk_common.skc_net.net->ns.inum, this->local,
	    args[0]->__sk_common.skc_num, this->peer, ntohs(args[0]->__sk_common.skc_dport),
	    execname, pid, 0] = sum(1);
}
sdt:sock::sock_send_length
/args[0]->sk_protocol == IPPROTO_UDP && args[0]->sk_type == 2 && args[0]->__sk_common.skc_num &&
    args[1] >= 0/
{
	this->local = xlate<udpsinfo_t *>(args[0])->udps_laddr;
	this->peer = xlate<udpsinfo_t *>(args[0])->udps_raddr;
	this->each = ((struct udp_sock *)args[0])->gso_size;
	@udp_flow_bytes[args[0]->__sk_common.skc_net.net->ns.inum, this->local,
	    args[0]->__sk_common.skc_num, this->peer, ntohs(args[0]->__sk_common.skc_dport),
	    execname, pid, 1] = sum(args[1]);
	@udp_flow_packets[args[0]->__sk_common.skc_net.net->ns.inum, this->local,
	    args[0]->__sk_common.skc_num, this->peer, ntohs(args[0]->__sk_common.skc_dport),
	    execname, pid, 1] = sum(this->each > 0 && args[1] > this->each ?
	    (args[1] + this->each - 1) / this->each : 1);
}
