package collect

import "culprit/measure"

// CacheStats declares the statistics of kernel caches and tables. The collectors that share them declare them by this, and
// each puts rows of its own: the machine's (dentries, inodes, slabs) and the network namespaces' (connections, routes ...).
func CacheStats() []measure.Stat {
	fields := []measure.Field{
		{Name: "netns", Type: measure.Word, Help: "network namespace; empty is the tool's own, and for what belongs to the whole machine"},
		{Name: "cache", Type: measure.Word, Help: "cache or table: dentry, inode, tcp-established, conntrack, neighbour, route, slab:NAME ..."},
	}
	return []measure.Stat{
		{ID: "cache.entries", Kind: measure.Level, Unit: measure.Count, Fields: fields, Help: "entries in a kernel cache or table"},
		{ID: "cache.buckets", Kind: measure.Level, Unit: measure.Count, Fields: fields, Help: "hash buckets of a table; a row only where they are known"},
		{ID: "cache.bytes", Kind: measure.Level, Unit: measure.Bytes, Fields: fields, Help: "memory of a cache; a row only where it is known"},
		{ID: "cache.limit", Kind: measure.Level, Unit: measure.Count, Fields: fields, Help: "entries beyond which the kernel refuses or evicts; a row only where there is a limit"},
		{ID: "cache.refusals", Kind: measure.Delta, Unit: measure.Count, Fields: fields, Help: "entries that a full table refused, since nothing in it could be evicted; rows only of neighbour and neighbour6 " +
			"(ndts_table_fulls of rtnetlink, Linux 4.3)"},
		{ID: "cache.collections", Kind: measure.Delta, Unit: measure.Count, Fields: fields, Help: "times that a new entry found the table full, or nearly, and the kernel looked all of it through for entries " +
			"that nobody uses; rows only of neighbour and neighbour6 (ndts_forced_gc_runs of rtnetlink)"},
		{ID: "cache.growth", Kind: measure.Delta, Unit: measure.Count, Signed: true, Fields: fields, Help: "change of the entries; negative where they became fewer"},
	}
}
