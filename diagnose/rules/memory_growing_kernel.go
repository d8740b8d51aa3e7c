package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// A sharedKind is a kind of memory that belongs to no process, of memory.size.
type sharedKind struct {
	kind, what, verify string
}

func sharedKinds() []sharedKind {
	return []sharedKind{
		{"shmem", "shared memory and files in tmpfs",
			"df -h -t tmpfs -t devtmpfs; ipcs -m; grep Shmem: /proc/meminfo"},
		{"slab_unreclaimable", "objects of the kernel that it cannot reclaim (slab)",
			"slabtop -o -s c | head -15; culprit caches 1 10"},
		{"page_tables", "page tables", "grep VmPTE /proc/[0-9]*/status | sort -n -k2 | tail -5"},
		{"kernel_stack", "kernel stacks of threads", "ps -e -o nlwp,pid,comm --sort nlwp | tail -5"},
		{"vmalloc", "memory that the kernel maps (vmalloc)",
			"grep pages= /proc/vmallocinfo | sort -n -k2 | tail -5"},
		{"percpu", "memory of the kernel for each CPU", "grep Percpu /proc/meminfo"},
	}
}

// sharedGrowth is a kind of memory that grows.
type sharedGrowth struct {
	sharedKind
	row  *diagnose.Row
	rate float64 // bytes per second
}

// growingKind returns the kind of memory that grows most; a rate of 0: none grows steadily. Memory
// of the kernel counts from GrowKernel on: loading BPF programs takes some too, for seconds on slow
// machines.
func growingKind(size *diagnose.Table) (most sharedGrowth) {
	for _, k := range sharedKinds() {
		r := size.One("kind", k.kind)
		if r == nil || k.kind != "shmem" && !(r.Last() >= threshold.GrowKernel) {
			continue
		}
		if v := memoryGrowth(size, r); v > most.rate {
			most = sharedGrowth{k, r, v}
		}
	}
	return most
}

// accuse adds the finding. Its culprit is the file system or the cache of the kernel that has most
// of the growth, where one has.
func (g *sharedGrowth) accuse(l *diagnose.Look, available *diagnose.Row) {
	t := g.row.Table
	s := diagnose.WholePeriod(t)
	left := available.Last() / g.rate
	severity := diagnose.Low
	if left <= threshold.GrowUrgent {
		severity = diagnose.Medium
	}
	culprit, where := diagnose.Culprit{Kind: "memory", Name: g.kind}, g.what
	part := g.part(l)
	if part != nil {
		culprit = culpritOfPart(part)
		where += ", most in " + phrase.Clean(culprit.Name)
	}
	f := l.Found(g.kind, severity, 0.7, culprit, fmt.Sprintf(
		"%s%s: %s, growing by %s. At that rate no memory is left in %s.",
		strings.ToUpper(where[:1]), where[1:], phrase.Memory(g.row.Last()),
		phrase.BytesRate(g.rate), phrase.Ahead(left)))
	f.AddEvidence(t, s, g.row.Query(), g.row.Last(), t.Unit, fmt.Sprintf(
		"%s, and %s more each second", phrase.Memory(g.row.Last()),
		phrase.Bytes(g.rate)))
	if part != nil {
		f.AddEvidence(part.Table, diagnose.WholePeriod(part.Table), part.Query(), part.Last(),
			part.Table.Unit, fmt.Sprintf("%s holds %s, and %s more each second",
				phrase.Clean(culprit.Name), phrase.Memory(part.Last()),
				phrase.Bytes(memoryGrowth(part.Table, part))))
	}
	f.AddEvidence(available.Table, s, available.Query(), available.Last(), available.Table.Unit,
		phrase.Memory(available.Last())+" are available")
	f.AddCaveat(0.2, "What starts, or is copied once, looks the same until it has ended.")
	f.Verify = g.verify
}

// part returns the tmpfs or the slab that has half of the growth or more; nil: none.
func (g *sharedGrowth) part(l *diagnose.Look) (most *diagnose.Row) {
	var rows []*diagnose.Row
	var t *diagnose.Table
	switch g.kind {
	case "shmem":
		t = l.Table(facts.FilesystemSize)
		rows = t.Where("type", "tmpfs", "kind", "used")
	case "slab_unreclaimable":
		t = l.Table(facts.CacheBytes)
		for _, r := range t.Rows {
			if strings.HasPrefix(r.Word("cache"), "slab:") {
				rows = append(rows, r)
			}
		}
	}
	rate := threshold.GrowPart * g.rate
	for _, r := range rows {
		if v := memoryGrowth(t, r); v >= rate {
			most, rate = r, v
		}
	}
	return most
}

// culpritOfPart returns the culprit of a row of filesystem.size or cache.bytes.
func culpritOfPart(r *diagnose.Row) diagnose.Culprit {
	if mount := r.Word("mount"); mount != "" {
		return diagnose.Culprit{Kind: "filesystem", Name: mount}
	}
	return diagnose.Culprit{Kind: "table", Name: r.Word("cache")}
}
