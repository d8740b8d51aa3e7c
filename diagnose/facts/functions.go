package facts

import (
	"strings"

	"culprit/diagnose"
)

// What functions of the kernel do, as far as a finding may rest on it. Names are those of net/, fs/ and mm/ from Linux 5.10 to 6.18.

// TableWalkers gives the table that a function looks things up in: what it takes grows with the length of the table's chains.
func TableWalkers() map[string]string {
	return map[string]string{
		// Each segment of a connection, and each new one's search for a free pair of ports: inet_hashtables.c.
		"__inet_lookup_established": "tcp-established", "__inet6_lookup_established": "tcp-established", "__inet_check_established": "tcp-established", "__inet6_check_established": "tcp-established",
		"inet_ehash_insert": "tcp-established", "inet_ehash_lookup_by_sk": "tcp-established",
		// Each connection that comes in.
		"__inet_lookup_listener": "tcp-listen", "inet6_lookup_listener": "tcp-listen", "inet_lhash2_lookup": "tcp-listen", "inet6_lhash2_lookup": "tcp-listen",
		// Each bind, and each connect without one: inet_connection_sock.c.
		"inet_csk_get_port": "tcp-bind", "inet_csk_find_open_port": "tcp-bind", "inet_bind_bucket_find": "tcp-bind", "inet_bhash2_conflict": "tcp-bind", "inet_csk_bind_conflict": "tcp-bind",
		// Each datagram: udp.c.
		"__udp4_lib_lookup": "udp", "udp4_lib_lookup2": "udp", "__udp6_lib_lookup": "udp", "udp6_lib_lookup2": "udp", "__udp4_lib_mcast_deliver": "udp", "udp_lib_lport_inuse": "udp", "udp_lib_lport_inuse2": "udp",
		// Each packet of a network with connection tracking: nf_conntrack_core.c.
		"__nf_conntrack_find_get": "conntrack", "____nf_conntrack_find": "conntrack", "nf_conntrack_tuple_taken": "conntrack", "__nf_conntrack_confirm": "conntrack", "early_drop": "conntrack",
		// Each packet to a host of the own network: neighbour.c.
		"neigh_lookup": "neighbour", "___neigh_create": "neighbour", "__neigh_create": "neighbour", "neigh_forced_gc": "neighbour",
		// Each packet that is routed: fib_trie.c, ip6_fib.c.
		"fib_table_lookup": "route", "fib_find_alias": "route", "fib6_node_lookup": "route6", "fib6_table_lookup": "route6", "fib6_find_prefix": "route6",
		// Each frame of a macvlan's parent and of a bridge.
		"macvlan_hash_lookup": "macvlan", "br_fdb_find_rcu": "fdb", "fdb_find_rcu": "fdb", "br_fdb_update": "fdb",
		// Each part of each path: dcache.c; each inode that is not there by its name: inode.c.
		"__d_lookup_rcu": "dentry", "__d_lookup": "dentry", "d_alloc_parallel": "dentry", "find_inode": "inode", "find_inode_fast": "inode",
	}
}

// walksTable says which table a function walks, as the end of a sentence; "" when it is none that is known.
func walksTable(function string) string {
	if table := TableWalkers()[function]; table != "" {
		return ": it searches the table " + table
	}
	return ""
}

// Purge is what a function of the kernel throws away.
type Purge struct {
	What  string            // in words
	Cache string            // of cache.entries, which tells how much there is; "" none does
	Most  diagnose.Severity // of a finding
}

// CachePurgers gives the functions that go through a cache to throw it away, or a part of it: what they take grows with what there is. That of a process's own
// memory (unmap_vmas, exit_mmap) is no cache, and of files that are deleted (evict) it is the deletion itself.
func CachePurgers() map[string]Purge {
	names := Purge{"cached names of files", "dentry", diagnose.High}
	inodes := Purge{"cached inodes", "inode", diagnose.High}
	tracked := Purge{"tracked connections", "conntrack", diagnose.High}
	neighbours := Purge{"neighbours", "neighbour", diagnose.High}
	pages := Purge{"cached pages of files", "", diagnose.Low}
	return map[string]Purge{
		// rmdir, rename over a directory, unmounting, and files of /proc whose process has ended: dcache.c.
		"shrink_dcache_parent": names, "shrink_dentry_list": names, "shrink_dcache_sb": names, "d_invalidate": names, "d_prune_aliases": names, "shrink_dcache_for_umount": names, "d_walk": names,
		// Unmounting and /proc/sys/vm/drop_caches: inode.c, super.c. Where memory is short it is the rule memory-pressure that tells.
		"evict_inodes": inodes, "invalidate_inodes": inodes, "drop_pagecache_sb": inodes,
		// The worker that drops what has expired, and who empties the table: nf_conntrack_core.c.
		"gc_worker": tracked, "nf_ct_iterate_cleanup": tracked, "nf_ct_iterate_cleanup_net": tracked, "get_next_corpse": tracked,
		"neigh_forced_gc": neighbours, "neigh_periodic_work": neighbours, "neigh_flush_dev": neighbours,
		"fib_table_flush": {"routes", "route", diagnose.High}, "fib6_run_gc": {"IPv6 routes", "route6", diagnose.High}, "fib6_clean_all": {"IPv6 routes", "route6", diagnose.High}, "__fib6_clean_all": {"IPv6 routes", "route6", diagnose.High},
		// fadvise, truncation and deletion of files: truncate.c.
		"invalidate_mapping_pages": pages, "mapping_try_invalidate": pages, "truncate_inode_pages_range": pages, "invalidate_inode_pages2_range": pages,
	}
}

// Kinds of functions that take much of the kernel's time on machines that are well.
const (
	Everyday   = "everyday" // copying, clearing, sums, ways in and out: as much as programs ask for
	Contention = "lock"     // waiting for a lock by turning round: for culprit locks
)

// KindOf says whether a function is of a kind that says nothing of a cause; "" it is not.
func KindOf(function string) string {
	if strings.Contains(function, "spin_lock_slowpath") || strings.Contains(function, "spin_on_owner") {
		return Contention
	}
	switch function {
	case "osq_lock", "queued_write_lock_slowpath", "queued_read_lock_slowpath", "rwsem_optimistic_spin", "_raw_spin_lock", "_raw_spin_lock_irqsave", "_raw_spin_lock_irq", "_raw_spin_lock_bh", "virt_spin_lock":
		return Contention
	}
	if familyOf(function) != "" {
		return Everyday
	}
	return ""
}
