package collect

import "culprit/measure"

// CacheStats declares the statistics of kernel caches and tables. Two collectors share them and put
// rows of their own: one of the machine (dentries, inodes, slabs), one of the network namespaces
// (connections, routes).
func CacheStats() []measure.Stat {
	fields := []measure.Field{
		{Name: "netns", Type: measure.Word, Help: "network namespace; empty is the tool's own, " +
			"and for what belongs to the whole machine"},
		{Name: "cache", Type: measure.Word, Help: "cache or table: dentry, inode, " +
			"tcp-established, conntrack, neighbour, route, slab:NAME ..."},
	}
	return []measure.Stat{
		{
			ID:     "cache.entries",
			Kind:   measure.Level,
			Unit:   measure.Count,
			Fields: fields,
			Help:   "entries in a kernel cache or table",
		},
		{
			ID:     "cache.buckets",
			Kind:   measure.Level,
			Unit:   measure.Count,
			Fields: fields,
			Help:   "hash buckets of a table; only rows where the number is known",
		},
		{
			ID:     "cache.bytes",
			Kind:   measure.Level,
			Unit:   measure.Bytes,
			Fields: fields,
			Help:   "memory of a cache; only rows where the size is known",
		},
		{
			ID:     "cache.limit",
			Kind:   measure.Level,
			Unit:   measure.Count,
			Fields: fields,
			Help: "entries beyond which the kernel refuses or evicts; only rows where there " +
				"is a limit",
		},
		{
			ID:     "cache.refusals",
			Kind:   measure.Delta,
			Unit:   measure.Count,
			Fields: fields,
			Help: "entries that a full table refused, because it could evict nothing; only " +
				"rows of neighbour and neighbour6 (ndts_table_fulls of rtnetlink, Linux 4.3)",
		},
		{
			ID:     "cache.collections",
			Kind:   measure.Delta,
			Unit:   measure.Count,
			Fields: fields,
			Help: "searches of the whole table for unused entries, because it was full or " +
				"nearly full when an entry was added; only rows of neighbour and neighbour6 " +
				"(ndts_forced_gc_runs of rtnetlink)",
		},
		{
			ID:     "cache.growth",
			Kind:   measure.Delta,
			Unit:   measure.Count,
			Signed: true,
			Fields: fields,
			Help:   "change of the number of entries; negative if it fell",
		},
	}
}
