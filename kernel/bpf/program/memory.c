//go:build ignore

/* SPDX-License-Identifier: GPL-2.0 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

enum { MEMORY_PIECE = 64 << 10 };

/* The request and the answer. */
struct memory {
	__u64 address;
	__u32 bytes;
	__s32 error; /* 0 or negative */
	__u64 task;  /* address of the calling thread's task_struct */
	__u8 copy[MEMORY_PIECE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct memory);
} culprit_memory SEC(".maps");

/* Copies a piece of the kernel's memory. */
SEC("syscall")
int culprit_read(void *ctx)
{
	__u32 zero = 0;
	struct memory *m = bpf_map_lookup_elem(&culprit_memory, &zero);

	if (!m)
		return 0;
	m->task = bpf_get_current_task();
	if (m->bytes <= MEMORY_PIECE)
		m->error = bpf_probe_read_kernel(m->copy, m->bytes, (void *)m->address);
	return 0;
}
