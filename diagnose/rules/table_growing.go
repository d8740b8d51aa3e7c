package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// tableGrowing finds tables that grow steadily and never shrink: a possible leak.
func tableGrowing() diagnose.Rule {
	return diagnose.Rule{
		ID: "table-growing", Checks: "table growth",
		Needs: []string{facts.CacheEntries, facts.CacheGrowth},
		Uses:  []string{facts.CacheBytes, facts.CacheLimit},
		Check: func(l *diagnose.Look) {
			t, growth := l.Table(facts.CacheEntries), l.Table(facts.CacheGrowth)
			for _, r := range t.Rows {
				cache := r.Word("cache")
				g := growth.One("netns", r.Word("netns"), "cache", cache)
				if g == nil || cache == "" || !leaks(cache) || !(r.Last() >= threshold.GrowSize) ||
					!(g.Mean(nil) > 0) {
					continue
				}
				s, ok := diagnose.Lasting(growth, diagnose.HasValue(g), func(c int) bool {
					return g.At(c) > 0
				})
				rate := g.Mean(s.Mask)
				// Steadily: in nearly every cell, and not in one jump.
				if !ok || s.Share() < 0.9 || len(t.Seconds) < 5 ||
					rate*threshold.GrowDouble < r.Last() || g.Max() > 5*rate {
					continue
				}
				// A table that doubled within the time range belongs to a load that has just
				// started.
				if before := r.Last() - rate*s.Held; before < r.Last()/2 {
					continue
				}
				f := l.Found(phrase.Identity(r.Word("netns"), cache), diagnose.Low, 0.6,
					diagnose.Culprit{Kind: "table", Name: cache, NetNS: r.Word("netns")},
					fmt.Sprintf("The table %s grows by %s entries per second for %s, to %s: at "+
						"that rate it doubles in %s.", facts.TableName(r), phrase.Count(rate), s,
						phrase.Count(r.Last()), phrase.Ahead(r.Last()/rate)))
				f.AddEvidence(growth, s, g.Query(), rate, growth.Unit,
					fmt.Sprintf("%s more entries per second", phrase.Count(rate)))
				f.AddEvidence(t, s, r.Query(), r.Last(), t.Unit,
					fmt.Sprintf("%s entries now", phrase.Count(r.Last())))
				if b := l.Table(facts.CacheBytes).One("netns", r.Word("netns"), "cache",
					cache); b.Last() > 0 {
					f.AddEvidence(b.Table, s, b.Query(), b.Last(), b.Table.Unit,
						phrase.Memory(b.Last())+" of memory")
				}
				if lim := l.Table(facts.CacheLimit).One("netns", r.Word("netns"), "cache",
					cache); lim.Last() > r.Last() {
					f.AddEvidence(lim.Table, s, lim.Query(), lim.Last(), lim.Table.Unit,
						fmt.Sprintf("its limit of %s is reached in %s", phrase.Count(lim.Last()),
							phrase.Ahead((lim.Last()-r.Last())/rate)))
				}
				f.AddCaveat(0.2, "%s s are short: a load that has just started looks the same.",
					phrase.Seconds(s.Known))
				f.Verify = "culprit caches 1 10"
				if !strings.HasPrefix(cache, "slab:") {
					// Each entry of a table uses an object or two of a slab, and a connection a
					// file.
					f.Cover("table-growing", func(o *diagnose.Finding) bool {
						return strings.HasPrefix(o.Culprit.Name, "slab:") || cache != "file" &&
							(o.Culprit.Name == "file" || strings.HasPrefix(o.Culprit.Name,
								"tcp-") && cache > o.Culprit.Name)
					})
				}
			}
		},
	}
}

// leaks reports whether growth of a cache is a sign of a leak. Caches that the kernel shrinks when
// memory is low (dentries, inodes, most slabs) grow with every file that is read, and connections
// in TIME-WAIT expire by themselves.
func leaks(cache string) bool {
	switch cache {
	case "dentry", "dentry-unused", "inode", "inode-unused", "tcp-timewait":
		return false
	case "dentry-negative":
		return true // bounded by memory alone; removing a large directory takes time for each
	}
	for _, shrinks := range []string{"dentry", "inode", "radix_tree", "xarray", "buffer_head",
		"ext4_", "xfs_", "btrfs_", "shmem", "proc_", "kernfs", "extent", "vm_area", "anon_vma",
		"maple", "kmalloc"} {
		if strings.HasPrefix(cache, "slab:") && strings.Contains(cache, shrinks) {
			return false
		}
	}
	return true
}
