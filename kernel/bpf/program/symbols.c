//go:build ignore

/* SPDX-License-Identifier: GPL-2.0 */
#include "kernel.h"

char _license[] SEC("license") = "GPL";

enum {
	AT_ONCE = 32,	 /* symbols of one run */
	TEXT_SIZE = 192, /* longer names are cut */
};

/* The request and the answer. */
struct symbols {
	__u64 address[AT_ONCE]; /* culprit_find sets the first */
	char text[AT_ONCE][TEXT_SIZE];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct symbols);
} culprit_symbols SEC(".maps");

/* The kernel accepts a format only in memory that can no longer change. */
static const char format[] = "%pS";

/* Prints the symbol of each address, as in ext4_read+0x1f/0x60 [ext4]. */
SEC("syscall")
int culprit_names(void *ctx)
{
	__u32 zero = 0;
	struct symbols *s = bpf_map_lookup_elem(&culprit_symbols, &zero);

	if (!s)
		return 0;
	for (int i = 0; i < AT_ONCE; i++)
		bpf_snprintf(s->text[i], TEXT_SIZE, format, &s->address[i], sizeof(s->address[i]));
	return 0;
}

/* Looks up the address of the symbol whose name is the first text; 0: there is none. */
SEC("syscall")
int culprit_find(void *ctx)
{
	__u32 zero = 0;
	struct symbols *s = bpf_map_lookup_elem(&culprit_symbols, &zero);
	__u64 address = 0;

	if (!s)
		return 0;
	if (bpf_kallsyms_lookup_name(s->text[0], TEXT_SIZE, 0, &address))
		address = 0;
	s->address[0] = address;
	return 0;
}
