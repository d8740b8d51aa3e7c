/* SPDX-License-Identifier: GPL-2.0 */
#ifndef HANDLERS_H
#define HANDLERS_H

/* What runs on a CPU. Times are nanoseconds of the monotonic clock. */
struct cpu_state {
	__u64 hard_begin;    /* when the handler of an interrupt began; 0: none runs */
	__u64 softirq_begin; /* when the softirq began, by softirq_clock; 0: none runs */
	__u64 interrupted;   /* time of interrupts since softirq_begin */
	__u64 softirq;	     /* number of the softirq */
	/* Until when the softirq's time is divided by device, without the time of interrupts. */
	__u64 mark;
	__u64 device; /* device of the packets since mark; 0: none yet */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cpu_state);
} culprit_irqs SEC(".maps");

static __always_inline struct cpu_state *this_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&culprit_irqs, &zero);
}

/* softirq_clock returns the time now without that of the interrupts since the softirq began. An
 * interrupt can come between the two readings: then both are read again. */
static __always_inline __u64 softirq_clock(struct cpu_state *cpu)
{
	volatile __u64 *interrupted = &cpu->interrupted;
	__u64 before, now;
	int i;

#pragma unroll
	for (i = 0; i < 4; i++) {
		before = *interrupted;
		now = bpf_ktime_get_ns();
		if (*interrupted == before)
			break;
	}
	return now - before;
}

#endif
