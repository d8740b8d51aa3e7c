package facts

import (
	"strings"

	"culprit/diagnose"
)

// Kernel functions whose work is known. Names are those of net/, fs/ and mm/ from Linux 5.10 to
// 6.18.

// TableWalkers returns the table that a function searches. Its time grows with the length of the
// chains of the table.
func TableWalkers() map[string]string {
	walkers := map[string]string{}
	for table, names := range map[string]string{
		// Each segment of a connection, and the search of a new one for a free pair of ports:
		// inet_hashtables.c.
		"tcp-established": `__inet_lookup_established __inet6_lookup_established
			__inet_check_established __inet6_check_established
			inet_ehash_insert inet_ehash_lookup_by_sk`,
		// Each incoming connection.
		"tcp-listen": `__inet_lookup_listener inet6_lookup_listener
			inet_lhash2_lookup inet6_lhash2_lookup`,
		// Each bind, and each connect without one: inet_connection_sock.c.
		"tcp-bind": `inet_csk_get_port inet_csk_find_open_port inet_bind_bucket_find
			inet_bhash2_conflict inet_csk_bind_conflict`,
		// Each datagram: udp.c.
		"udp": `__udp4_lib_lookup udp4_lib_lookup2 __udp6_lib_lookup udp6_lib_lookup2
			__udp4_lib_mcast_deliver udp_lib_lport_inuse udp_lib_lport_inuse2`,
		// Each packet with connection tracking: nf_conntrack_core.c.
		"conntrack": `__nf_conntrack_find_get ____nf_conntrack_find nf_conntrack_tuple_taken
			__nf_conntrack_confirm early_drop`,
		// Each packet to a host on the same network: neighbour.c.
		"neighbour": `neigh_lookup ___neigh_create __neigh_create neigh_forced_gc`,
		// Each routed packet: fib_trie.c, ip6_fib.c.
		"route":  `fib_table_lookup fib_find_alias`,
		"route6": `fib6_node_lookup fib6_table_lookup fib6_find_prefix`,
		// Each frame of the parent of a macvlan, and of a bridge.
		"macvlan": `macvlan_hash_lookup`,
		"fdb":     `br_fdb_find_rcu fdb_find_rcu br_fdb_update`,
		// Each component of each path: dcache.c; each inode that is looked up by number: inode.c.
		"dentry": `__d_lookup_rcu __d_lookup d_alloc_parallel`,
		"inode":  `find_inode find_inode_fast`,
	} {
		for name := range strings.FieldsSeq(names) {
			walkers[name] = table
		}
	}
	return walkers
}

// walksTable returns the table that a function searches, as the end of a sentence; "" when none is
// known.
func walksTable(function string) string {
	if table := TableWalkers()[function]; table != "" {
		return ": it searches the table " + table
	}
	return ""
}

// Purge is what a kernel function evicts.
type Purge struct {
	What  string            // in words
	Cache string            // in cache.entries, which has its size; "" none
	Most  diagnose.Severity // highest severity of a finding
}

// CachePurgers returns the functions that evict a cache or a part of it. Their time grows with the
// size of the cache. The memory of a process (unmap_vmas, exit_mmap) is no cache; for deleted files
// (evict) it is the deletion itself.
func CachePurgers() map[string]Purge {
	names := Purge{"cached names of files", "dentry", diagnose.High}
	inodes := Purge{"cached inodes", "inode", diagnose.High}
	tracked := Purge{"tracked connections", "conntrack", diagnose.High}
	neighbours := Purge{"neighbours", "neighbour", diagnose.High}
	pages := Purge{"cached pages of files", "", diagnose.Low}
	return map[string]Purge{
		// rmdir, rename over a directory, unmounting, and files of /proc of ended processes:
		// dcache.c.
		"shrink_dcache_parent":     names,
		"shrink_dentry_list":       names,
		"shrink_dcache_sb":         names,
		"d_invalidate":             names,
		"d_prune_aliases":          names,
		"shrink_dcache_for_umount": names,
		"d_walk":                   names,
		// Unmounting and /proc/sys/vm/drop_caches: inode.c, super.c. When memory is short, rule
		// memory-pressure reports it.
		"evict_inodes":      inodes,
		"invalidate_inodes": inodes,
		"drop_pagecache_sb": inodes,
		// The worker that evicts expired entries, and the flush of the table: nf_conntrack_core.c.
		"gc_worker":                 tracked,
		"nf_ct_iterate_cleanup":     tracked,
		"nf_ct_iterate_cleanup_net": tracked,
		"get_next_corpse":           tracked,
		"neigh_forced_gc":           neighbours,
		"neigh_periodic_work":       neighbours,
		"neigh_flush_dev":           neighbours,
		"fib_table_flush":           {"routes", "route", diagnose.High},
		"fib6_run_gc":               {"IPv6 routes", "route6", diagnose.High},
		"fib6_clean_all":            {"IPv6 routes", "route6", diagnose.High},
		"__fib6_clean_all":          {"IPv6 routes", "route6", diagnose.High},
		// fadvise, truncation and deletion of files: truncate.c.
		"invalidate_mapping_pages":      pages,
		"mapping_try_invalidate":        pages,
		"truncate_inode_pages_range":    pages,
		"invalidate_inode_pages2_range": pages,
	}
}

// Kinds of functions that use much kernel time on healthy machines.
const (
	Everyday   = "everyday" // copying, clearing, checksums, kernel entries
	Contention = "lock"     // spinning on a lock: see culprit locks
)

// KindOf returns the kind of a function whose time has no cause by itself; "" for any other.
func KindOf(function string) string {
	if strings.Contains(function, "spin_lock_slowpath") ||
		strings.Contains(function, "spin_on_owner") {
		return Contention
	}
	switch function {
	case "osq_lock", "queued_write_lock_slowpath", "queued_read_lock_slowpath",
		"rwsem_optimistic_spin", "_raw_spin_lock", "_raw_spin_lock_irqsave", "_raw_spin_lock_irq",
		"_raw_spin_lock_bh", "virt_spin_lock":
		return Contention
	}
	if familyOf(function) != "" {
		return Everyday
	}
	return ""
}
