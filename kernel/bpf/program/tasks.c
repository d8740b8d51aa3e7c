//go:build ignore

/* SPDX-License-Identifier: GPL-2.0 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

/* Whether culprit is in the first PID namespace, whose numbers are in the task itself. */
const volatile bool first_namespace = 1;

/* A record is a Task of tasks.go. */
struct record {
	__s32 pid, tid;
	__u64 run, wait, count, state, parent, cgroups, resident, net;
};

/* number returns the number of a process in the PID namespace of that level, 0 when unreadable. */
static __always_inline __s32 number(struct pid *pid, __u32 level)
{
	struct upid *at = (void *)pid + bpf_core_field_offset(struct pid, numbers) +
			  level * bpf_core_type_size(struct upid) +
			  bpf_core_field_offset(struct upid, nr);
	__s32 nr = 0;

	bpf_probe_read_kernel(&nr, sizeof(nr), at);
	return nr;
}

/* resident returns a number that changes with each counter of resident pages; 0: unknown. */
static __always_inline __u64 resident(struct mm_struct *mm)
{
	__u64 count[RSS_COUNTERS] = {}, all = 0;

	if (!mm) /* a thread of the kernel, or one that has ended */
		return 0;
	if (bpf_core_field_exists(mm->rss_stat[0].count)) {
		/* Indices are constants: only then the loader sees how long an element is. */
		count[0] = mm->rss_stat[0].count;
		count[1] = mm->rss_stat[1].count;
		count[2] = mm->rss_stat[2].count;
		count[3] = mm->rss_stat[3].count;
	} else {
		struct mm_struct___before_6_2 *old = (void *)mm;

		/* Verifiers of these kernels do not follow a pointer into a typedef. */
		bpf_core_read(count, sizeof(count), &old->rss_stat.count);
	}
#pragma unroll
	for (int i = 0; i < RSS_COUNTERS; i++)
		all = all * 1000003 + count[i];
	return all;
}

SEC("iter/task")
int culprit_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct record r = {};
	__u64 state;

	if (!task)
		return 0;
	if (first_namespace) {
		r.pid = task->tgid;
		r.tid = task->pid;
	} else {
		struct task_struct *self = (void *)bpf_get_current_task_btf();
		__u32 level = self->thread_pid->level;

		r.pid = number(task->signal->pids[PIDTYPE_TGID], level);
		r.tid = number(task->thread_pid, level);
		if (!r.pid || !r.tid) /* it is not in this namespace, or has ended */
			return 0;
	}
	if (bpf_core_field_exists(task->__state))
		state = task->__state;
	else
		state = ((struct task_struct___before_5_14 *)task)->state;
	r.run = task->se.sum_exec_runtime;
	r.wait = task->sched_info.run_delay;
	r.count = task->sched_info.pcount;
	r.state = state ^ (__u64)task->exit_state << 32;
	r.parent = (__u64)task->real_parent;
	r.cgroups = (__u64)task->cgroups;
	r.resident = resident(task->mm);
	/* nsproxy is NULL in one that has ended: a member of NULL reads as 0. */
	r.net = task->nsproxy->net_ns->ns.inum;
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}
