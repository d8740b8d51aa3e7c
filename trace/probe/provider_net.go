package probe

import "culprit/lang/check"

// Probes of packets fire where IP passes a packet to the layer below, and where it receives one
// from there. The inlines __sent and __received of lang/check/lib/net.d select these packets at
// tracepoints of devices.
const (
	sentIP     = "__sentip[skb]"
	receivedIP = "__receivedip[skb]"
)

// table: made once, never changed
var packet = []param{{"skb", "sk_buff", 0}}

// packetArgs returns args[0] to args[2] for a packet whose IP header is the expression ip.
func packetArgs(ip string) []check.Arg {
	return []check.Arg{
		made("pktinfo_t", "skb"),
		made("csinfo_t", "skb->sk"),
		made("ipinfo_t", "(struct iphdr *)"+ip),
	}
}

func ipProbes() []stableProbe {
	one := func(name, event, when, ip string) stableProbe {
		args := append(
			packetArgs(ip),
			made("ifinfo_t", "skb->dev"),
			made(
				"ipv4info_t",
				"((struct iphdr *)"+ip+")->version == 4 ? (struct iphdr *)"+ip+" : NULL",
			),
			made(
				"ipv6info_t",
				"((struct iphdr *)"+ip+")->version == 6 ? (struct ipv6hdr *)"+ip+" : NULL",
			),
		)
		return stableProbe{
			provider: "ip",
			name:     name,
			places:   at(way{event: event, names: packet, when: when, args: args}),
		}
	}
	return []stableProbe{
		one("receive", "netif_receive_skb", "__received[skb]", receivedIP),
		one("send", "net_dev_queue", "__sent[skb]", sentIP),
	}
}

func udpProbes() []stableProbe {
	ends := func(ip, local, remote string) check.Arg {
		l, r := "__saddr", "__daddr"
		if local == "dest" {
			l, r = r, l
		}
		return withMembers(
			"udpsinfo_t", "skb", "udps_lport", "ntohs(__udp["+ip+"]->"+local+")", "udps_rport",
			"ntohs(__udp["+ip+"]->"+remote+")", "udps_laddr", l+"["+ip+"]", "udps_raddr",
			r+"["+ip+"]",
		)
	}
	one := func(name, event, when, ip string, ends check.Arg) stableProbe {
		return stableProbe{
			provider: "udp",
			name:     name,
			places: at(
				way{
					event: event,
					names: packet,
					when:  when,
					args:  append(packetArgs(ip), ends, made("udpinfo_t", "__udp["+ip+"]")),
				},
			),
		}
	}
	return []stableProbe{
		one(
			"receive", "netif_receive_skb", "__received[skb] && __l4["+receivedIP+"] == 17",
			receivedIP, ends(receivedIP, "dest", "source"),
		),
		one(
			"send", "net_dev_queue",
			"__sent[skb] && __own[skb] && skb->sk != NULL && skb->sk->sk_protocol == 17 && "+
				"__l4["+sentIP+"] == 17",
			sentIP, ends(sentIP, "source", "dest"),
		),
	}
}

// segment returns args[3] and args[4] for a segment: d is translated to tcpsinfo_t, whose ports and
// addresses are those of the headers. more are pairs of member and text.
func segment(d, ip, local, remote string, more ...string) []check.Arg {
	l, r := "__saddr", "__daddr"
	if local == "dest" {
		l, r = r, l
	}
	pairs := append([]string{
		"tcps_lport", "ntohs(__tcp[" + ip + "]->" + local + ")",
		"tcps_rport", "ntohs(__tcp[" + ip + "]->" + remote + ")",
		"tcps_laddr", l + "[" + ip + "]",
		"tcps_raddr", r + "[" + ip + "]",
		"tcps_local", l + "[" + ip + "] == " + r + "[" + ip + "]",
	}, more...)
	return []check.Arg{withMembers("tcpsinfo_t", d, pairs...), made("tcpinfo_t", "__tcp["+ip+"]")}
}

// answered returns args[] for the result of a received segment. Only the socket is known then, not
// the segment.
func answered(flags, active string, state ...string) []check.Arg {
	tcp := withMembers(
		"tcpinfo_t", "sk", "tcp_sport", "ntohs(sk->__sk_common.skc_dport)", "tcp_dport",
		"sk->__sk_common.skc_num",
	)
	if flags != "" {
		tcp.With["tcp_flags"] = flags
	}
	return []check.Arg{
		made("pktinfo_t", "sk"),
		made("csinfo_t", "sk"),
		withMembers("ipinfo_t", "sk", "ip_saddr", "__raddr[sk]", "ip_daddr", "__laddr[sk]"),
		withMembers("tcpsinfo_t", "sk", append([]string{"tcps_active", active}, state...)...), tcp,
	}
}

func tcpProbes() []stableProbe {
	const out = "__sent[skb] && __l4[" + sentIP + "] == 6 && __own[skb]"
	const flags = "*((uint8_t *)__tcp[" + sentIP + "] + 13)"
	changes := []param{{"sk", "sock", 0}, {"old", "", 0}, {"state", "", 1}}
	sent := func(name, when string, more ...string) stableProbe {
		return stableProbe{
			provider: "tcp",
			name:     name,
			places: at(
				way{
					event: "net_dev_queue",
					names: packet,
					when:  when,
					args: append(
						packetArgs(sentIP),
						segment("skb->sk", sentIP, "source", "dest", more...)...),
				},
			),
		}
	}
	changed := func(name, when string, args []check.Arg) stableProbe {
		return stableProbe{
			provider: "tcp",
			name:     name,
			places: at(
				way{
					event: "inet_sock_set_state",
					names: changes,
					when:  "sk->sk_protocol == 6 && " + when,
					args:  args,
				},
			),
		}
	}
	state := []string{"tcps_state", "state"}
	// Unless an error occurs, TCP_FIN_WAIT2 and TCP_CLOSING lead to TCP_TIME_WAIT, for which the
	// kernel closes the socket.
	left := []string{
		"tcps_state",
		"state == 7 && (old == 5 || old == 11) && sk->sk_err == 0 ? 6 : state",
	}
	null := value("void *", "(void *)0")
	return []stableProbe{
		changed("accept-established", "old == 3 && state == 1", answered("TH_ACK", "0", state...)),
		// The answer to a segment without an acknowledgement, such as a SYN, is a reset with
		// sequence number 0.
		sent(
			"accept-refused",
			out+" && ("+flags+" & 63) == (TH_RST | TH_ACK) && __tcp["+sentIP+"]->seq == 0",
			"tcps_active", "0",
		),
		changed(
			"connect-established", "old == 2 && state == 1",
			answered("TH_SYN | TH_ACK", "1", state...),
		),
		{
			provider: "tcp",
			name:     "connect-refused",
			places: at(
				way{
					event: "tcp_receive_reset",
					names: []param{{"sk", "sock", 0}},
					when:  "sk->__sk_common.skc_state == 2",
					args:  answered("TH_RST | TH_ACK", "1"),
				},
			),
		},
		sent(
			"connect-request",
			out+" && ("+flags+" & (TH_SYN | TH_ACK)) == TH_SYN && skb->sk != NULL && "+
				"skb->sk->__sk_common.skc_state == 2 && "+
				"((struct inet_connection_sock *)skb->sk)->icsk_retransmits == 0",
			"tcps_active", "1",
		),
		{provider: "tcp", name: "receive", places: at(way{
			event: "netif_receive_skb",
			names: packet,
			when:  "__received[skb] && __l4[" + receivedIP + "] == 6",
			args:  append(packetArgs(receivedIP), segment("skb", receivedIP, "dest", "source")...),
		})},
		sent("send", out),
		changed(
			"state-change",
			"old != state",
			[]check.Arg{
				null,
				made("csinfo_t", "sk"),
				null,
				withMembers("tcpsinfo_t", "sk", left...),
				null,
				made("tcplsinfo_t", "(int)old"),
			},
		),
	}
}
