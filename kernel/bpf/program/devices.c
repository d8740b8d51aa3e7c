//go:build ignore

/* SPDX-License-Identifier: GPL-2.0
 *
 * The time of softirq NET_RX, divided by the device of the packets.
 */
#include "kernel.h"
#include "handlers.h"

char _license[] SEC("license") = "GPL";

enum { NET_RX_SOFTIRQ = 3 };

struct device_key {
	__u64 device; /* address of its net_device */
	__u64 cpu;
};

struct device_sum {
	__u64 time;
	char name[IFNAMSIZ]; /* name and namespace at its first packet since the last reading */
	__u32 net;
	__u32 unused;
};

struct { /* max_entries is set before it is loaded */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct device_key);
	__type(value, struct device_sum);
} culprit_devices SEC(".maps");

/* in_net_rx returns whether NET_RX runs on this CPU. It does not run in a thread that polls, nor
 * when it began before the programs were attached. */
static __always_inline bool in_net_rx(struct cpu_state *cpu)
{
	return cpu && cpu->softirq_begin && cpu->softirq == NET_RX_SOFTIRQ;
}

/* since_mark returns the time since the mark, and moves the mark to now. */
static __always_inline __u64 since_mark(struct cpu_state *cpu)
{
	__u64 now = softirq_clock(cpu);
	__u64 time = now - cpu->mark;

	cpu->mark = now;
	return time;
}

/* add_time adds a time to the sum of a device on this CPU. Where the map is full the time remains
 * with the softirq, and with no device. */
static __always_inline int add_time(struct net_device *device, __u64 time)
{
	struct device_key key = {(__u64)device, bpf_get_smp_processor_id()};
	struct device_sum *sum = bpf_map_lookup_elem(&culprit_devices, &key);
	struct device_sum first = {time};

	if (sum) {
		sum->time += time;
		return 0;
	}
	bpf_core_read(first.name, sizeof(first.name), &device->name);
	first.net = BPF_CORE_READ(device, nd_net.net, ns.inum);
	bpf_map_update_elem(&culprit_devices, &key, &first, 0);
	return 0;
}

/* netif_receive_skb(skb): a packet is passed up. The time until now belongs to the device of the
 * previous packet. */
SEC("raw_tp/netif_receive_skb")
int received(__u64 *args)
{
	struct cpu_state *cpu = this_cpu();
	struct net_device *before, *device;

	if (!in_net_rx(cpu))
		return 0;
	device = BPF_CORE_READ((struct sk_buff *)args[0], dev);
	before = (void *)cpu->device;
	if (before == device)
		return 0;
	cpu->device = (__u64)device;
	if (!before) /* the first packet: the time before it is its own */
		return 0;
	return add_time(before, since_mark(cpu));
}

/* napi_poll(napi, work, budget): a driver has polled. The time belongs to the device of the last
 * packet, or to the driver's where no packet was passed up, as with XDP. */
SEC("raw_tp/napi_poll")
int polled(__u64 *args)
{
	struct cpu_state *cpu = this_cpu();
	struct net_device *device;
	__u64 time;

	if (!in_net_rx(cpu))
		return 0;
	time = since_mark(cpu);
	device = (void *)cpu->device;
	cpu->device = 0;
	if (!device)
		device = BPF_CORE_READ((struct napi_struct *)args[0], dev);
	if (!device) /* the backlog queue of a CPU, which was empty */
		return 0;
	return add_time(device, time);
}
