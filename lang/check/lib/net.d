/* declares: in6_addr_t pktinfo_t csinfo_t ipinfo_t ifinfo_t ipv4info_t ipv6info_t tcpinfo_t
   tcpsinfo_t tcplsinfo_t udpinfo_t udpsinfo_t tcp_state_string __packet_t __sent __received
   __sentip __receivedip __saddr __daddr __l4 __th __tcp __udp __laddr __raddr __own */

typedef struct in6_addr {
	union {
		uint8_t u6_addr8[16];
		uint16_t u6_addr16[8];
		uint32_t u6_addr32[4];
	} in6_u;
} in6_addr_t;

typedef struct pktinfo {
	uintptr_t pkt_addr;
} pktinfo_t;

typedef struct csinfo {
	uintptr_t cs_addr;
	uint64_t cs_cid;
	pid_t cs_pid;
	zoneid_t cs_zoneid;
} csinfo_t;

typedef struct ipinfo {
	uint8_t ip_ver;
	uint32_t ip_plength;
	string ip_saddr;
	string ip_daddr;
} ipinfo_t;

typedef struct ifinfo {
	string if_name;
	int8_t if_local;
	int if_ipstack;
	uintptr_t if_addr;
} ifinfo_t;

typedef struct ipv4info {
	uint8_t ipv4_ver;
	uint8_t ipv4_ihl;
	uint8_t ipv4_tos;
	uint16_t ipv4_length;
	uint16_t ipv4_ident;
	uint8_t ipv4_flags;
	uint16_t ipv4_offset;
	uint8_t ipv4_ttl;
	uint8_t ipv4_protocol;
	string ipv4_protostr;
	uint16_t ipv4_checksum;
	uint32_t ipv4_src;
	uint32_t ipv4_dst;
	string ipv4_saddr;
	string ipv4_daddr;
	uintptr_t ipv4_hdr;
} ipv4info_t;

typedef struct ipv6info {
	uint8_t ipv6_ver;
	uint8_t ipv6_tclass;
	uint32_t ipv6_flow;
	uint16_t ipv6_plen;
	uint8_t ipv6_nexthdr;
	string ipv6_nextstr;
	uint8_t ipv6_hlim;
	uintptr_t ipv6_src;
	uintptr_t ipv6_dst;
	string ipv6_saddr;
	string ipv6_daddr;
	uintptr_t ipv6_hdr;
} ipv6info_t;

typedef struct __packet {
	int tagged;
} __packet_t;

typedef struct tcpinfo {
	uint16_t tcp_sport;
	uint16_t tcp_dport;
	uint32_t tcp_seq;
	uint32_t tcp_ack;
	uint8_t tcp_offset;
	uint8_t tcp_flags;
	uint16_t tcp_window;
	uint16_t tcp_checksum;
	uint16_t tcp_urgent;
	uintptr_t tcp_hdr;
} tcpinfo_t;

typedef struct tcpsinfo {
	uintptr_t tcps_addr;
	int tcps_local;
	int tcps_active;
	uint16_t tcps_lport;
	uint16_t tcps_rport;
	string tcps_laddr;
	string tcps_raddr;
	int32_t tcps_state;
	uint32_t tcps_iss;
	uint32_t tcps_suna;
	uint32_t tcps_snxt;
	uint32_t tcps_rack;
	uint32_t tcps_rnxt;
	uint32_t tcps_swnd;
	uint32_t tcps_snd_ws;
	uint32_t tcps_rwnd;
	uint32_t tcps_rcv_ws;
	uint32_t tcps_cwnd;
	uint32_t tcps_cwnd_ssthresh;
	uint32_t tcps_sack_fack;
	uint32_t tcps_sack_snxt;
	uint32_t tcps_rto;
	uint32_t tcps_mss;
	int tcps_retransmit;
} tcpsinfo_t;

typedef struct tcplsinfo {
	int32_t tcps_state;
} tcplsinfo_t;

typedef struct udpinfo {
	uint16_t udp_sport;
	uint16_t udp_dport;
	uint16_t udp_length;
	uint16_t udp_checksum;
	uintptr_t udp_hdr;
} udpinfo_t;

typedef struct udpsinfo {
	uintptr_t udps_addr;
	uint16_t udps_lport;
	uint16_t udps_rport;
	string udps_laddr;
	string udps_raddr;
} udpsinfo_t;

translator pktinfo_t < struct sk_buff *B > {
	pkt_addr = (uintptr_t)B;
};

translator pktinfo_t < struct sock *S > {
	pkt_addr = 0;
};

/* Linux does not report the process of a connection. */
translator csinfo_t < struct sock *S > {
	cs_addr = (uintptr_t)S;
	cs_cid = (uintptr_t)S;
	cs_pid = -1;
	cs_zoneid = 0;
};

/*
 * 1 if a packet has a VLAN tag outside its data: the probe has fired before, at the VLAN's own
 * device.
 */
translator __packet_t < struct sk_buff *B > {
	tagged = B->vlan_all != 0;
	tagged = B->vlan_present;
};

/*
 * A packet passes a device once for each layer of devices that it goes through. Only the pass
 * called by the IP layer counts. Ports below the device with the address do not: those of bonds
 * and teams (IFF_SLAVE, IFF_TEAM_PORT) and of bridges (IFF_BRIDGE_PORT, IFF_OVS_DATAPATH). Nor do
 * tagged packets, nor those that the device below a macvlan sends for it (IFF_MACVLAN_PORT) with
 * its address.
 */
inline int __sent[struct sk_buff *B] = (B->protocol == 0x0008 || B->protocol == 0xdd86) &&
    !(B->dev->flags & 0x800) && !(B->dev->priv_flags & 0x2600) &&
    !xlate <__packet_t *> (B)->tagged && (!(B->dev->priv_flags & 0x100) ||
    *(uint32_t *)(B->data + 6) == *(uint32_t *)B->dev->dev_addr &&
    *(uint16_t *)(B->data + 10) == *(uint16_t *)(B->dev->dev_addr + 4));

/*
 * The bridge receives a packet again that its port has received, unless it is for another host;
 * 3 is PACKET_OTHERHOST.
 */
inline int __received[struct sk_buff *B] = B->pkt_type != 3 && !(B->dev->priv_flags & 0x600) &&
    (B->protocol == 0x0008 || B->protocol == 0xdd86 ||
    B->protocol == 0x0081 && (*(uint16_t *)(B->data + 2) == 0x0008 ||
    *(uint16_t *)(B->data + 2) == 0xdd86));

/* The address of the IP header. A packet just received starts there, or at its VLAN tag. */
inline uintptr_t __sentip[struct sk_buff *B] = (uintptr_t)B->head + B->network_header;
inline uintptr_t __receivedip[struct sk_buff *B] = (uintptr_t)B->data +
    (B->protocol == 0x0081 ? 4 : 0);

inline string __saddr[uintptr_t ip] = ((struct iphdr *)ip)->version == 4 ?
    inet_ntoa(&((struct iphdr *)ip)->saddr) : inet_ntoa6(&((struct ipv6hdr *)ip)->saddr);
inline string __daddr[uintptr_t ip] = ((struct iphdr *)ip)->version == 4 ?
    inet_ntoa(&((struct iphdr *)ip)->daddr) : inet_ntoa6(&((struct ipv6hdr *)ip)->daddr);

/*
 * The protocol whose header follows that of IP; 0 in a fragment other than the first. 44 is the
 * fragment header of IPv6.
 */
inline int __l4[uintptr_t ip] = ((struct iphdr *)ip)->version == 4 ?
    (((struct iphdr *)ip)->frag_off & 0xff1f ? 0 : ((struct iphdr *)ip)->protocol) :
    ((struct ipv6hdr *)ip)->nexthdr != 44 ? ((struct ipv6hdr *)ip)->nexthdr :
        *(uint16_t *)(ip + 42) & 0xf8ff ? 0 : *(uint8_t *)(ip + 40);
inline uintptr_t __th[uintptr_t ip] = ((struct iphdr *)ip)->version == 4 ?
    ip + 4 * ((struct iphdr *)ip)->ihl :
    ((struct ipv6hdr *)ip)->nexthdr != 44 ? ip + 40 : ip + 48;
inline struct tcphdr *__tcp[uintptr_t ip] = (struct tcphdr *)__th[ip];
inline struct udphdr *__udp[uintptr_t ip] = (struct udphdr *)__th[ip];

/*
 * Sent by this machine's own IP layer: forwarded packets come from a receive queue, and programs
 * that build packets themselves have other sockets.
 */
inline int __own[struct sk_buff *B] = B->sk == NULL ? B->skb_iif == 0 :
    B->sk->__sk_common.skc_family == AF_INET || B->sk->__sk_common.skc_family == AF_INET6;

/* An IPv6 socket may use IPv4. */
inline int __v4[struct sock *S] = S->__sk_common.skc_family == AF_INET ||
    S->__sk_common.skc_v6_daddr.in6_u.u6_addr32[0] == 0 &&
    S->__sk_common.skc_v6_daddr.in6_u.u6_addr32[1] == 0 &&
    S->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2] == 0xffff0000;
inline string __laddr[struct sock *S] = __v4[S] ? inet_ntoa(&S->__sk_common.skc_rcv_saddr) :
    inet_ntoa6(&S->__sk_common.skc_v6_rcv_saddr);
inline string __raddr[struct sock *S] = __v4[S] ? inet_ntoa(&S->__sk_common.skc_daddr) :
    inet_ntoa6(&S->__sk_common.skc_v6_daddr);

/*
 * At the end of a connection its port is released before the probe fires; the source port remains.
 */
inline uint16_t __lport[struct sock *S] = S->__sk_common.skc_num ? S->__sk_common.skc_num :
    ntohs(((struct inet_sock *)S)->inet_sport);

/*
 * The full TCP socket, if there is one: not a connection request, not a socket in TIME_WAIT
 * (12 is TCP_NEW_SYN_RECV, 6 TCP_TIME_WAIT), nor the socket that sends resets.
 */
inline struct tcp_sock *__whole[struct sock *S] = S == NULL || S->__sk_common.skc_state == 12 ||
    S->__sk_common.skc_state == 6 || S->sk_type != 1 ? NULL : (struct tcp_sock *)S;

translator ifinfo_t < struct net_device *D > {
	if_name = D->name;
	if_local = D->flags & 8 ? 1 : 0;
	if_ipstack = 0;
	if_addr = (uintptr_t)D;
};

translator ipinfo_t < struct iphdr *H > {
	ip_ver = H->version;
	ip_plength = H->version == 4 ? ntohs(H->tot_len) - 4 * H->ihl :
	    ntohs(((struct ipv6hdr *)H)->payload_len);
	ip_saddr = __saddr[(uintptr_t)H];
	ip_daddr = __daddr[(uintptr_t)H];
};

translator ipinfo_t < struct sk_buff *B > {
	ip_ver = ((struct iphdr *)__sentip[B])->version;
	ip_plength = ((struct iphdr *)__sentip[B])->version == 4 ?
	    ntohs(((struct iphdr *)__sentip[B])->tot_len) - 4 * ((struct iphdr *)__sentip[B])->ihl :
	    ntohs(((struct ipv6hdr *)__sentip[B])->payload_len);
	ip_saddr = __saddr[__sentip[B]];
	ip_daddr = __daddr[__sentip[B]];
};

translator ipinfo_t < struct sock *S > {
	ip_ver = __v4[S] ? 4 : 6;
	ip_saddr = __laddr[S];
	ip_daddr = __raddr[S];
};

inline string __protostr[int p] = p == 1 ? "ICMP" : p == 2 ? "IGMP" : p == 4 ? "IP" :
    p == 6 ? "TCP" : p == 17 ? "UDP" : p == 41 ? "IPV6" : p == 47 ? "GRE" : p == 50 ? "ESP" :
    p == 51 ? "AH" : p == 58 ? "ICMPV6" : p == 89 ? "OSPF" : p == 132 ? "SCTP" : lltostr(p);

/* NULL for a packet of the other IP version. */
translator ipv4info_t < struct iphdr *H > {
	ipv4_ver = H == NULL ? 0 : H->version;
	ipv4_ihl = H == NULL ? 0 : 4 * H->ihl;
	ipv4_tos = H == NULL ? 0 : H->tos;
	ipv4_length = H == NULL ? 0 : ntohs(H->tot_len);
	ipv4_ident = H == NULL ? 0 : ntohs(H->id);
	ipv4_flags = H == NULL ? 0 : ntohs(H->frag_off) >> 12;
	ipv4_offset = H == NULL ? 0 : 8 * (ntohs(H->frag_off) & 0x1fff);
	ipv4_ttl = H == NULL ? 0 : H->ttl;
	ipv4_protocol = H == NULL ? 0 : H->protocol;
	ipv4_protostr = H == NULL ? "<null>" : __protostr[H->protocol];
	ipv4_checksum = H == NULL ? 0 : ntohs(H->check);
	ipv4_src = H == NULL ? 0 : H->saddr;
	ipv4_dst = H == NULL ? 0 : H->daddr;
	ipv4_saddr = H == NULL ? "<null>" : inet_ntoa(&H->saddr);
	ipv4_daddr = H == NULL ? "<null>" : inet_ntoa(&H->daddr);
	ipv4_hdr = (uintptr_t)H;
};

translator ipv6info_t < struct ipv6hdr *H > {
	ipv6_ver = H == NULL ? 0 : H->version;
	ipv6_tclass = H == NULL ? 0 : H->priority << 4 | H->flow_lbl[0] >> 4;
	ipv6_flow = H == NULL ? 0 : (H->flow_lbl[0] & 15) << 16 | H->flow_lbl[1] << 8 | H->flow_lbl[2];
	ipv6_plen = H == NULL ? 0 : ntohs(H->payload_len);
	ipv6_nexthdr = H == NULL ? 0 : H->nexthdr;
	ipv6_nextstr = H == NULL ? "<null>" : __protostr[H->nexthdr];
	ipv6_hlim = H == NULL ? 0 : H->hop_limit;
	ipv6_src = H == NULL ? 0 : (uintptr_t)&H->saddr;
	ipv6_dst = H == NULL ? 0 : (uintptr_t)&H->daddr;
	ipv6_saddr = H == NULL ? "<null>" : inet_ntoa6(&H->saddr);
	ipv6_daddr = H == NULL ? "<null>" : inet_ntoa6(&H->daddr);
	ipv6_hdr = (uintptr_t)H;
};

translator tcpinfo_t < struct tcphdr *H > {
	tcp_sport = ntohs(H->source);
	tcp_dport = ntohs(H->dest);
	tcp_seq = ntohl(H->seq);
	tcp_ack = ntohl(H->ack_seq);
	tcp_offset = 4 * H->doff;
	tcp_flags = *((uint8_t *)H + 13);
	tcp_window = ntohs(H->window);
	tcp_checksum = ntohs(H->check);
	tcp_urgent = ntohs(H->urg_ptr);
	tcp_hdr = (uintptr_t)H;
};

translator tcpinfo_t < struct sk_buff *B > {
	tcp_sport = ntohs(__tcp[__sentip[B]]->source);
	tcp_dport = ntohs(__tcp[__sentip[B]]->dest);
	tcp_seq = ntohl(__tcp[__sentip[B]]->seq);
	tcp_ack = ntohl(__tcp[__sentip[B]]->ack_seq);
	tcp_offset = 4 * __tcp[__sentip[B]]->doff;
	tcp_flags = *(uint8_t *)(__th[__sentip[B]] + 13);
	tcp_window = ntohs(__tcp[__sentip[B]]->window);
	tcp_checksum = ntohs(__tcp[__sentip[B]]->check);
	tcp_urgent = ntohs(__tcp[__sentip[B]]->urg_ptr);
	tcp_hdr = __th[__sentip[B]];
};

translator tcpinfo_t < struct sock *S > {
	tcp_sport = S->__sk_common.skc_num;
	tcp_dport = ntohs(S->__sk_common.skc_dport);
};

translator tcpsinfo_t < struct sock *S > {
	tcps_addr = (uintptr_t)S;
	tcps_local = __v4[S] ? S->__sk_common.skc_rcv_saddr == S->__sk_common.skc_daddr :
	    S->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[3] ==
	    S->__sk_common.skc_v6_daddr.in6_u.u6_addr32[3] &&
	    S->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[2] ==
	    S->__sk_common.skc_v6_daddr.in6_u.u6_addr32[2] &&
	    S->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[1] ==
	    S->__sk_common.skc_v6_daddr.in6_u.u6_addr32[1] &&
	    S->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[0] ==
	    S->__sk_common.skc_v6_daddr.in6_u.u6_addr32[0];
	tcps_lport = __whole[S] == NULL ? (S == NULL ? 0 : S->__sk_common.skc_num) : __lport[S];
	tcps_rport = S == NULL ? 0 : ntohs(S->__sk_common.skc_dport);
	tcps_laddr = __laddr[S];
	tcps_raddr = __raddr[S];
	tcps_state = S == NULL ? 7 : S->__sk_common.skc_state == 12 ? 3 : S->__sk_common.skc_state;
	tcps_suna = __whole[S] == NULL ? 0 : __whole[S]->snd_una;
	tcps_snxt = __whole[S] == NULL ? 0 : __whole[S]->snd_nxt;
	tcps_rnxt = __whole[S] == NULL ? 0 : __whole[S]->rcv_nxt;
	tcps_swnd = __whole[S] == NULL ? 0 : __whole[S]->snd_wnd;
	tcps_snd_ws = __whole[S] == NULL ? 0 : __whole[S]->rx_opt.snd_wscale;
	tcps_rwnd = __whole[S] == NULL ? 0 : __whole[S]->rcv_wnd;
	tcps_rcv_ws = __whole[S] == NULL ? 0 : __whole[S]->rx_opt.rcv_wscale;
	tcps_cwnd = __whole[S] == NULL ? 0 : __whole[S]->snd_cwnd * __whole[S]->mss_cache;
	tcps_cwnd_ssthresh = __whole[S] == NULL ? 0 : __whole[S]->snd_ssthresh * __whole[S]->mss_cache;
	tcps_mss = __whole[S] == NULL ? 0 : __whole[S]->mss_cache;
	tcps_retransmit = __whole[S] == NULL ? 0 : ((struct inet_connection_sock *)S)->icsk_retransmits;
};

/* For a segment without a connection yet, the values are those of the segment. */
translator tcpsinfo_t < struct sk_buff *B > {
	tcps_addr = 0;
};

translator tcplsinfo_t < int I > {
	tcps_state = I;
};

inline string tcp_state_string[int32_t state] =
    state == 1 ? "state-established" : state == 2 ? "state-syn-sent" :
    state == 3 ? "state-syn-received" :
    state == 4 ? "state-fin-wait-1" : state == 5 ? "state-fin-wait-2" : state == 6 ?
        "state-time-wait" :
    state == 7 ? "state-closed" : state == 8 ? "state-close-wait" : state == 9 ? "state-last-ack" :
    state == 10 ? "state-listen" : state == 11 ? "state-closing" : "<unknown>";

translator udpinfo_t < struct udphdr *H > {
	udp_sport = ntohs(H->source);
	udp_dport = ntohs(H->dest);
	udp_length = ntohs(H->len);
	udp_checksum = ntohs(H->check);
	udp_hdr = (uintptr_t)H;
};

translator udpinfo_t < struct sk_buff *B > {
	udp_sport = ntohs(__udp[__sentip[B]]->source);
	udp_dport = ntohs(__udp[__sentip[B]]->dest);
	udp_length = ntohs(__udp[__sentip[B]]->len);
	udp_checksum = ntohs(__udp[__sentip[B]]->check);
	udp_hdr = __th[__sentip[B]];
};

translator udpsinfo_t < struct sock *S > {
	udps_addr = (uintptr_t)S;
	udps_lport = S->__sk_common.skc_num;
	udps_rport = ntohs(S->__sk_common.skc_dport);
	udps_laddr = __laddr[S];
	udps_raddr = __raddr[S];
};

translator udpsinfo_t < struct sk_buff *B > {
	udps_addr = 0;
};
