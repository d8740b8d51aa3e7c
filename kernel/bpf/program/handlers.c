//go:build ignore

/* SPDX-License-Identifier: GPL-2.0
 *
 * The time that handlers of interrupts and softirqs take on each CPU.
 */
#include "kernel.h"
#include "handlers.h"

char _license[] SEC("license") = "GPL";

enum { SOFTIRQS = 16 }; /* NR_SOFTIRQS is 10 */

enum { KIND_LOC, KIND_RES, KIND_CAL, KIND_IWI, KINDS }; /* HandlerKind of handlers.go */

enum { /* sums of a CPU */
	SLOT_LOST,
	SLOT_SOFTIRQ,
	SLOT_KIND = SLOT_SOFTIRQ + SOFTIRQS,
	SLOT_LINE = SLOT_KIND + KINDS,
};

const volatile __u32 slots = 0; /* of a CPU */
const volatile __u32 lines = 0; /* how many of them are of interrupt lines */

struct { /* nanoseconds; max_entries is set before it is loaded */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
} culprit_irqtime SEC(".maps");

/* add adds a time to a slot of this CPU. */
static __always_inline int add(__u32 slot, __u64 time)
{
	__u32 at = bpf_get_smp_processor_id() * slots + slot;
	__u64 *sum = bpf_map_lookup_elem(&culprit_irqtime, &at);

	/* No other CPU has the slot, and no handler of an interrupt that of a softirq. */
	if (sum)
		*sum += time;
	return 0;
}

/* leave adds the time of an interrupt's handler, which ends. */
static __always_inline int leave(__u32 slot)
{
	struct cpu_state *cpu = this_cpu();
	__u64 time;

	if (!cpu || !cpu->hard_begin) /* it began before the programs were attached */
		return 0;
	time = bpf_ktime_get_ns() - cpu->hard_begin;
	cpu->hard_begin = 0;
	cpu->interrupted += time;
	return add(slot, time);
}

SEC("raw_tp")
int enter_irq(void *ctx)
{
	struct cpu_state *cpu = this_cpu();

	if (cpu)
		cpu->hard_begin = bpf_ktime_get_ns();
	return 0;
}

/* irq_handler_exit(irq, action, ret) */
SEC("raw_tp/irq_handler_exit")
int leave_irq(__u64 *args)
{
	__u64 irq = args[0];

	return leave(irq < lines ? SLOT_LINE + irq : SLOT_LOST);
}

SEC("raw_tp")
int leave_loc(void *ctx)
{
	return leave(SLOT_KIND + KIND_LOC);
}

SEC("raw_tp")
int leave_res(void *ctx)
{
	return leave(SLOT_KIND + KIND_RES);
}

SEC("raw_tp")
int leave_cal(void *ctx)
{
	return leave(SLOT_KIND + KIND_CAL);
}

SEC("raw_tp")
int leave_iwi(void *ctx)
{
	return leave(SLOT_KIND + KIND_IWI);
}

/* softirq_entry(number) */
SEC("raw_tp/softirq_entry")
int enter_softirq(__u64 *args)
{
	struct cpu_state *cpu = this_cpu();

	if (!cpu)
		return 0;
	cpu->interrupted = cpu->device = 0;
	cpu->softirq = args[0];
	cpu->softirq_begin = cpu->mark = softirq_clock(cpu);
	return 0;
}

/* softirq_exit(number) */
SEC("raw_tp/softirq_exit")
int leave_softirq(__u64 *args)
{
	struct cpu_state *cpu = this_cpu();
	__u64 time, number = args[0];

	if (!cpu || !cpu->softirq_begin)
		return 0;
	time = softirq_clock(cpu) - cpu->softirq_begin;
	cpu->softirq_begin = 0;
	return add(number < SOFTIRQS ? SLOT_SOFTIRQ + number : SLOT_LOST, time);
}
