/*
 * Packets that the kernel drops, and why. Packets that reach their program or their wire are not
 * dropped, and those that a device loses before the kernel has them are not seen. Before Linux 5.17
 * the kernel reports the function that drops a packet, and no reason. Packets of sockets that are
 * no network (unix, netlink) have no protocol and do not count.
 *
 * statistic packet.drop.count delta packet by netns device protocol port reason location: packets
 *     that the kernel dropped; a packet that is split later counts as its segments (skb:kfree_skb)
 * optional arg2 of sdt:skb::kfree_skb
 * optional arg3 of sdt:skb::kfree_skb
 * field netns word of netns: network namespace of the interface or the socket; "" is culprit's own
 * field device word: interface that received the packet or was to send it; empty when the packet
 *     had reached a socket
 * field protocol word of protocol: tcp udp icmp icmpv6 arp ...
 * field port number: destination port of TCP and UDP; 0 for others
 * field reason word of dropreason: the kernel's name: NO_SOCKET QDISC_DROP SOCKET_RCVBUFF ...;
 *     NOT_SPECIFIED where it has none; unknown before Linux 5.17
 * field location word of function: function of the kernel that dropped the packet
 */
sdt:skb::kfree_skb /args[0]->protocol/ {
	this->reason = arg2;
	this->receiver = arg3;
	this->sk = this->receiver ? (struct sock *)this->receiver : args[0]->sk;
	this->dev = !this->receiver && (int64_t)args[0]->dev < 0 ? args[0]->dev :
	    (struct net_device *)0; /* UDP keeps other numbers in dev, which are no address */
	this->net = this->dev ? (int64_t)this->dev->nd_net.net->ns.inum :
	    this->sk ? (int64_t)this->sk->__sk_common.skc_net.net->ns.inum : 0;
	this->ip = args[0]->head + args[0]->network_header;
	this->version = args[0]->network_header == 0 ? 0 :
	    args[0]->protocol == htons(0x800) && *this->ip >> 4 == 4 ? 4 :
	    args[0]->protocol == htons(0x86dd) && *this->ip >> 4 == 6 ? 6 : 0;
	this->protocol = this->version == 4 ? this->ip[9] : this->version == 6 ? this->ip[6] :
	    0x10000 + ntohs(args[0]->protocol);
	this->to = this->ip + (this->version == 4 ? (*this->ip & 15) * 4 : 40);
	this->port = this->protocol == IPPROTO_TCP || this->protocol == IPPROTO_UDP ?
	    ntohs(*(uint16_t *)(this->to + 2)) : 0;
	this->segments = ((struct skb_shared_info *)(args[0]->head + args[0]->end))->gso_segs;
	@packet_drop_count[this->net, this->dev ? stringof(this->dev->name) : "", this->protocol,
	    this->port, this->reason, func(arg1)] = sum(this->segments > 1 ? this->segments : 1);
}
