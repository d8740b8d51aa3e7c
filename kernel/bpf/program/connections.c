//go:build ignore

/* SPDX-License-Identifier: GPL-2.0
 *
 * TCP sockets are tagged when they begin; an iterator over the tags writes a record for each.
 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

enum { MAX_CONNECTIONS = 4352, INET_DIAG_INFO = 2 };

const volatile __u32 hz = 1; /* jiffies per second */

struct { /* one tag per socket; the kernel frees it with the socket */
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, int);
} culprit_conns SEC(".maps");

enum {
	COUNT_FAILED, /* sockets that could not be tagged */
	/* Sockets that were closed and have waited for the other end's FIN since: the kernel keeps
	 * them short, as in TIME_WAIT. */
	COUNT_SHORT,
	COUNTS,
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COUNTS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} culprit_count SEC(".maps");

static __always_inline int count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&culprit_count, &what);

	if (n)
		__sync_fetch_and_add(n, 1);
	return 0;
}

static __always_inline int tag(void *sk)
{
	if (!bpf_sk_storage_get(&culprit_conns, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE))
		count(COUNT_FAILED);
	return 0;
}

/* inet_sock_set_state(sk, old, new) */
SEC("tp_btf/inet_sock_set_state")
int culprit_mark(__u64 *args)
{
	struct sock *sk = (void *)args[0];
	int before = args[1], now = args[2];

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (now != TCP_CLOSE)
		return tag(sk);
	/* SOCK_DONE: a FIN has come (tcp_fin in net/ipv4/tcp_input.c). */
	if (before == TCP_FIN_WAIT2 && !(sk->__sk_common.skc_flags & 1 << SOCK_DONE))
		count(COUNT_SHORT);
	return 0;
}

/* Tags the sockets that exist already. */
SEC("iter/tcp")
int culprit_adopt(struct bpf_iter__tcp *ctx)
{
	struct sock_common *any = ctx->sk_common;
	struct tcp_sock *sk;

	if (!any)
		return 0;
	sk = bpf_skc_to_tcp_sock(any);
	return sk ? tag(sk) : 0; /* NULL: a request, or in TIME_WAIT */
}

/* struct inet_diag_msg of include/uapi/linux/inet_diag.h */
struct message {
	__u8 family, state, timer, retrans;
	__be16 sport, dport;
	__be32 source[4], destination[4];
	__u32 interface;
	__u32 cookie[2];
	__u32 expires;
	__u32 rqueue, wqueue;
	__u32 uid, inode;
};

/* struct tcp_info of include/uapi/linux/tcp.h. Members that are not set have their number of bytes
 * for a name. */
struct info {
	__u8 state, b1[15];
	__u32 snd_mss, b20;
	__u32 unacked, b28[10];
	__u32 rtt, b72[2];
	__u32 snd_cwnd, b84[4];
	__u32 total_retrans;
	__u64 pacing_rate, b112;
	__u64 bytes_acked, bytes_received;
	__u32 segs_out, segs_in;
	__u32 notsent_bytes, min_rtt;
	__u64 b152;
	__u64 delivery_rate;
	__u64 busy_time, rwnd_limited, sndbuf_limited;
	__u64 b192;
	__u64 bytes_sent, bytes_retrans;
};

/* A record is a Connection of connections.go. */
struct record {
	__u32 net;
	struct message message;
	struct {
		__u16 length, type;
	} attribute; /* struct nlattr */
	union {
		struct info info;
		__u32 requests; /* of a listener */
	};
};

_Static_assert(sizeof(struct message) == 72, "struct inet_diag_msg has 72 bytes");
_Static_assert(__builtin_offsetof(struct info, bytes_retrans) == 208, "struct tcp_info differs");
_Static_assert(sizeof(struct record) == 296, "connections.go reads records of 296 bytes");

struct { /* the first element contains the number of records */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 + MAX_CONNECTIONS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct record);
} culprit_out SEC(".maps");

/* behind returns a - b of two sequence numbers, 0 where a is before b. */
static __always_inline __u32 behind(__u32 a, __u32 b)
{
	__s32 n = a - b;

	return n > 0 ? n : 0;
}

/* inode_of returns the inode of a socket (SOCK_INODE in include/net/sock.h), 0 of an orphan. */
static __always_inline __u32 inode_of(struct sock *sk)
{
	struct socket *socket;
	__u64 inode = 0;

	if (bpf_core_field_exists(((struct sock___ino *)sk)->sk_ino))
		return ((struct sock___ino *)sk)->sk_ino;
	socket = sk->sk_socket;
	if (!socket)
		return 0;
	bpf_probe_read_kernel(&inode, sizeof(inode),
			      (void *)socket +
				      bpf_core_field_offset(struct socket_alloc, vfs_inode.i_ino) -
				      bpf_core_field_offset(struct socket_alloc, socket));
	return inode;
}

/* set_limits sets what tcp_get_info_chrono_stats of net/ipv4/tcp.c sets: the times of sending, and
 * of those that the receiver and the send buffer limited. */
static __always_inline void set_limits(struct info *info, struct tcp_sock *tcp)
{
	__u32 since = (__u32)bpf_jiffies64() - tcp->chrono_start;
	__u64 jiffy = 1000000 / hz, times[3];
	__u8 now = BPF_CORE_READ_BITFIELD(tcp, chrono_type); /* 0: none, else 1 + its index */

#pragma unroll
	for (int i = 0; i < 3; i++)
		times[i] = (__u64)(tcp->chrono_stat[i] + (now == i + 1 ? since : 0)) * jiffy;
	info->busy_time = times[0] + times[1] + times[2];
	info->rwnd_limited = times[1];
	info->sndbuf_limited = times[2];
}

static __always_inline void set_info(struct info *info, struct tcp_sock *tcp)
{
	struct sock *sk = &tcp->inet_conn.icsk_inet.sk;

	info->snd_mss = tcp->mss_cache;
	info->unacked = tcp->packets_out;
	info->rtt = tcp->srtt_us >> 3;
	info->snd_cwnd = tcp->snd_cwnd;
	info->total_retrans = tcp->total_retrans;
	info->pacing_rate = sk->sk_pacing_rate;
	info->bytes_acked = tcp->bytes_acked;
	info->bytes_received = tcp->bytes_received;
	info->segs_out = tcp->segs_out;
	info->segs_in = tcp->segs_in;
	info->notsent_bytes = behind(tcp->write_seq, tcp->snd_nxt);
	info->min_rtt = tcp->rtt_min.s[0].v;
	if (tcp->rate_interval_us) /* tcp_compute_delivery_rate */
		info->delivery_rate = (__u64)tcp->rate_delivered * tcp->mss_cache * 1000000 /
				      tcp->rate_interval_us;
	info->bytes_sent = tcp->bytes_sent;
	info->bytes_retrans = tcp->bytes_retrans;
	set_limits(info, tcp);
}

static __always_inline void set_message(struct message *m, struct tcp_sock *tcp)
{
	struct sock *sk = &tcp->inet_conn.icsk_inet.sk;
	struct sock_common *common = &sk->__sk_common;
	__u64 cookie = bpf_get_socket_cookie(tcp);

	if (m->family == AF_INET6) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			m->source[i] = common->skc_v6_rcv_saddr.in6_u.u6_addr32[i];
			m->destination[i] = common->skc_v6_daddr.in6_u.u6_addr32[i];
		}
	} else {
		m->source[0] = common->skc_rcv_saddr;
		m->destination[0] = common->skc_daddr;
	}
	m->interface = common->skc_bound_dev_if;
	m->cookie[0] = cookie;
	m->cookie[1] = cookie >> 32;
	m->rqueue = behind(tcp->rcv_nxt, tcp->copied_seq);
	m->wqueue = tcp->write_seq - tcp->snd_una;
	m->uid = sk->sk_uid.val;
	m->inode = inode_of(sk);
}

/* Writes a record of each tagged socket. A number of records above MAX_CONNECTIONS means that there
 * were too many. */
SEC("iter/bpf_sk_storage_map")
int culprit_walk(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct record r = {};
	struct record *number, *out;
	struct sock_common *common;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tcp;
	__u32 at = 0;

	if (!sk)
		return 0;
	tcp = bpf_skc_to_tcp_sock(sk);
	if (!tcp)
		return 0;
	common = &tcp->inet_conn.icsk_inet.sk.__sk_common;
	r.message.state = common->skc_state;
	if (r.message.state == TCP_CLOSE || r.message.state == TCP_TIME_WAIT ||
	    r.message.state >= TCP_NEW_SYN_RECV)
		return 0;
	number = bpf_map_lookup_elem(&culprit_out, &at);
	if (!number || number->net > MAX_CONNECTIONS)
		return 0;
	r.net = common->skc_net.net->ns.inum;
	r.message.sport = tcp->inet_conn.icsk_inet.inet_sport;
	r.message.dport = common->skc_dport;
	r.message.family = common->skc_family;
	if (r.message.state == TCP_LISTEN) {
		r.requests = tcp->inet_conn.icsk_accept_queue.qlen.counter;
	} else {
		if (r.message.family != AF_INET && r.message.family != AF_INET6)
			return 0;
		set_message(&r.message, tcp);
		r.attribute.length = sizeof(r.attribute) + sizeof(r.info);
		r.attribute.type = INET_DIAG_INFO;
		r.info.state = r.message.state;
		set_info(&r.info, tcp);
	}
	at = ++number->net;
	if (at > MAX_CONNECTIONS)
		return 0;
	out = bpf_map_lookup_elem(&culprit_out, &at);
	if (out)
		*out = r;
	return 0;
}
