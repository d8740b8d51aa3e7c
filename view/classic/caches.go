package classic

import "culprit/view"

// Caches returns the tool caches: the kernel's caches and tables, like slabtop and netstat -dn.
func Caches() *view.Tool {
	return &view.Tool{
		Name:  "caches",
		Short: "kernel caches and tables: entries, entries per bucket, bytes, growth (slabtop, netstat -dn)",
		Long: `One row per cache or table of the kernel. ent/bkt is entries per hash bucket, the mean length of a
chain, where the number of buckets is known: above about 8 each look-up walks a list. growth is the
change of entries per second; limit is where the kernel begins to refuse or evict entries. --slabs
adds the kernel's slab caches, largest first, which needs root on most machines.`,
		Examples: []view.Example{
			{Line: "culprit caches", Means: "now"},
			{Line: "culprit caches 10", Means: "growth, every ten seconds"},
			{
				Line:  "culprit caches --slabs --sort bytes",
				Means: "the largest users of kernel memory",
			},
		},
		Flags: []view.Flag{{Name: "slabs", Letter: "s", Help: "also slab caches"}},
		Once:  true,
		Ask: func(o view.Options) []string {
			where := ` where cache !~ "slab:*"`
			if o.Has("slabs") {
				where = ""
			}
			return []string{
				"cache.entries by netns,cache" + where,
				"cache.buckets by netns,cache",
				"cache.bytes by netns,cache" + where,
				"cache.growth by netns,cache" + where,
				"cache.limit by netns,cache",
			}
		},
		Table: func(o view.Options, f *view.Frame) *view.Table {
			t := &view.Table{View: "caches", Columns: []view.Column{
				{Name: "netns", Help: "network namespace"},
				{Name: "cache", Head: "Cache", Width: 22, Left: true, Help: "cache or table"},
				{Name: "entries", Head: "entries", Width: 10, Help: "number of entries"},
				{Name: "buckets", Head: "buckets", Width: 9, Help: "hash buckets"},
				{
					Name:     "entries_per_bucket",
					Head:     "ent/bkt",
					Decimals: 2,
					Width:    8,
					Help:     "mean chain length",
				},
				{Name: "bytes", Head: "bytes", Show: view.HumanBytes, Width: 7, Help: "memory"},
				{
					Name:     "growth_per_s",
					Head:     "growth/s",
					Decimals: 1,
					Width:    9,
					Help:     "change of entries per second",
				},
				{Name: "limit", Head: "limit", Width: 9, Help: "maximum number of entries"},
			}}
			p := view.NewPivot("netns", "cache")
			entries, bytes := p.Add(f.Of("cache.entries")), p.Add(f.Of("cache.bytes"))
			buckets, growth, limit := p.Add(
				f.Of("cache.buckets"),
			), p.Add(
				f.Of("cache.growth"),
			), p.Add(
				f.Of("cache.limit"),
			)
			p.Sort()
			if o.Has("slabs") {
				p.SortBy(func(r int) float64 { return p.At(r, bytes) }, 0)
			}
			for r := range p.Len() {
				label := ""
				if ns := p.Key(r, "netns"); ns != "" {
					label = ns + "/" + p.Key(r, "cache")
				}
				t.Rows = append(
					t.Rows,
					view.Row{
						Key:   p.ID(r),
						Label: label,
						Cells: []view.Cell{
							view.T(p.Key(r, "netns")),
							view.T(p.Key(r, "cache")),
							view.N(p.At(r, entries)),
							view.N(p.At(r, buckets)),
							view.N(
								p.At(r, entries) / p.At(r, buckets),
							),
							view.N(p.At(r, bytes)),
							view.N(p.At(r, growth)),
							view.N(p.At(r, limit)),
						},
					},
				)
			}
			return t
		},
	}
}
