/* SPDX-License-Identifier: GPL-2.0
 *
 * The parts of the kernel's types that the programs read. The loader moves each access to where the
 * running kernel has the member (CO-RE), so order and size here have no meaning. A suffix ___name
 * marks another version of a type.
 */
#ifndef KERNEL_H
#define KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define NULL ((void *)0)

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_SK_STORAGE = 24,
};

enum { /* flags of maps */
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1 << 10,
};

enum { BPF_SK_STORAGE_GET_F_CREATE = 1 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct net {
	struct {
		__u32 inum;
	} ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

/* Iterators */

struct seq_file;
struct bpf_map;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

/* Tasks */

enum { PIDTYPE_TGID = 1, PIDTYPES = 4 }; /* since 4.19 */

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct signal_struct {
	struct pid *pids[PIDTYPES];
};

struct nsproxy {
	struct net *net_ns;
};

enum { RSS_COUNTERS = 4 }; /* pages of files, anonymous, swap entries, shared */

struct percpu_counter {
	__s64 count;
};

struct mm_struct { /* since 6.2 */
	struct percpu_counter rss_stat[RSS_COUNTERS];
};

typedef struct {
	__s64 counter;
} atomic_long_t;

struct mm_rss_stat {
	atomic_long_t count[RSS_COUNTERS];
};

struct mm_struct___before_6_2 {
	struct mm_rss_stat rss_stat;
};

struct task_struct {
	unsigned int __state; /* since 5.14 */
	int exit_state;
	int pid, tgid;
	struct {
		__u64 sum_exec_runtime;
	} se;
	struct {
		unsigned long pcount;
		unsigned long long run_delay;
	} sched_info;
	struct task_struct *real_parent;
	struct css_set *cgroups;
	struct mm_struct *mm;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct nsproxy *nsproxy;
};

struct task_struct___before_5_14 {
	long state;
};

/* Sockets */

enum { IPPROTO_TCP = 6, AF_INET = 2, AF_INET6 = 10 };

enum { /* include/net/tcp_states.h */
	TCP_FIN_WAIT2 = 5,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_LISTEN = 10,
	TCP_NEW_SYN_RECV = 12,
};

enum { SOCK_DONE = 1 }; /* enum sock_flags in include/net/sock.h */

struct in6_addr {
	union {
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr, skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_family;
	volatile unsigned char skc_state;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
	unsigned long skc_flags;
};

typedef struct {
	__u32 val;
} kuid_t;

struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol; /* 16 bits since 5.6 */
	kuid_t sk_uid;
	unsigned long sk_pacing_rate;
	struct socket *sk_socket;
	__u64 sk_ino; /* where there is one */
};

struct sock___ino { /* the member alone, to ask whether there is one */
	unsigned long sk_ino;
};

struct inode {
	unsigned long i_ino;
};

struct socket_alloc {
	struct socket {
		int flags;
	} socket;
	struct inode vfs_inode;
};

struct inet_sock {
	struct sock sk;
	__be16 inet_sport;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct {
		struct {
			int counter;
		} qlen;
	} icsk_accept_queue;
};

struct minmax_sample {
	__u32 t, v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 bytes_received, bytes_sent, bytes_acked, bytes_retrans;
	__u32 segs_in, segs_out;
	__u32 rcv_nxt, copied_seq, write_seq, snd_una, snd_nxt;
	__u32 srtt_us, packets_out, snd_cwnd, mss_cache, total_retrans;
	struct minmax rtt_min;
	__u32 rate_delivered, rate_interval_us;
	__u32 chrono_start, chrono_stat[3];
	__u8 chrono_type : 2;
};

/* Devices */

enum { IFNAMSIZ = 16 };

struct net_device {
	char name[IFNAMSIZ];
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
};

struct napi_struct {
	struct net_device *dev;
};

#pragma clang attribute pop

#endif
