package memory

import (
	"errors"
	"math"
	"slices"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Memory reads /proc/meminfo: the current use of memory.
type Memory struct{}

// Stats returns memory.size.
func (Memory) Stats() []measure.Stat {
	return []measure.Stat{
		{
			ID:   "memory.size",
			Kind: measure.Level,
			Unit: measure.Bytes,
			Help: "use of memory (/proc/meminfo); kinds overlap and do not add up",
			Fields: []measure.Field{
				{Name: "kind", Type: measure.Word, Help: "total free available " +
					"buffers cached dirty writeback anon shmem slab_reclaimable " +
					"slab_unreclaimable " +
					"page_tables kernel_stack swap_total swap_free committed commit_limit ..."},
			},
		},
	}
}

// memoryKinds are lines of /proc/meminfo and the kinds they become: "name kind". A * marks a count
// of huge pages, which is multiplied by Hugepagesize. Pools of other sizes are not included
// (proc(5)).
const memoryKinds = `MemTotal total
MemFree free
MemAvailable available
Buffers buffers
Cached cached
SwapCached swap_cached
Active active
Inactive inactive
Unevictable unevictable
Mlocked mlocked
SwapTotal swap_total
SwapFree swap_free
Zswap zswap
Zswapped zswapped
Dirty dirty
Writeback writeback
AnonPages anon
Mapped mapped
Shmem shmem
SReclaimable slab_reclaimable
SUnreclaim slab_unreclaimable
KernelStack kernel_stack
PageTables page_tables
CommitLimit commit_limit
Committed_AS committed
VmallocUsed vmalloc
Percpu percpu
AnonHugePages anon_huge
Hugepagesize hugepage
HugePages_Total *hugepages_total
HugePages_Free *hugepages_free`

// A container may hide a file behind an empty one. These errors become the notes.
var (
	errNoMeminfo = errors.New("read /proc/meminfo: no memory in it")
	errNoVmstat  = errors.New("read /proc/vmstat: no counters in it")
)

// Open opens /proc/meminfo. An error means that nothing can be measured. The caller closes the
// Reading.
func (Memory) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	f, err := proc.OpenProc(env.Root, "meminfo")
	if err != nil {
		return nil, err
	}
	r := &memoryReading{file: f, names: procfs.NameValues{Slots: map[string]int{}}, hugepage: -1}
	for i, line := range strings.Split(memoryKinds, "\n") {
		name, kind, _ := strings.Cut(line, " ")
		r.names.Slots[name] = i
		bare := strings.TrimPrefix(kind, "*")
		r.kinds = append(r.kinds, bare)
		r.pages = append(r.pages, bare != kind)
		if bare == "hugepage" {
			r.hugepage = i
		}
	}
	for range r.kinds {
		r.whole = append(r.whole, -1)
	}
	for line := range strings.SplitSeq(memoryParts, "\n") {
		part, whole, _ := strings.Cut(line, " ")
		r.whole[slices.Index(r.kinds, part)] = slices.Index(r.kinds, whole)
	}
	r.values, r.seen = make([]uint64, len(r.kinds)), make([]bool, len(r.kinds))
	return r, nil
}

type memoryReading struct {
	file     *proc.File
	names    procfs.NameValues
	kinds    []string
	pages    []bool // counts huge pages, not kilobytes
	hugepage int    // index of Hugepagesize
	whole    []int  // index of the total that includes a kind; -1: none
	values   []uint64
	seen     []bool
	labels   collect.WordLabels
}

// memoryParts are kinds that cannot exceed another one: "part whole". lxcfs has shown a container a
// free swap of 2^64 - 128 kB with a total of 0.
const memoryParts = `free total
available total
swap_free swap_total
hugepages_free hugepages_total`

// mostMemory is more bytes than any machine addresses: 2^57 with five levels of page tables.
const mostMemory = 1 << 57

// believable reports whether a size is possible. A part may exceed its whole only by what changes
// between two lines of the file.
func (r *memoryReading) believable(i int, size float64) bool {
	if size > mostMemory && r.kinds[i] != "vmalloc" {
		return false
	}
	if w := r.whole[i]; w >= 0 && r.seen[w] && !r.pages[i] {
		return !math.IsNaN(measure.Difference(float64(r.values[w])*1024, size))
	}
	if w := r.whole[i]; w >= 0 && r.seen[w] {
		return r.values[i] <= r.values[w]
	}
	return true
}

func (r *memoryReading) Read(out *collect.Out) error {
	b, err := r.file.ReadOne()
	if err != nil {
		return err
	}
	if !r.put(out, b) {
		return errNoMeminfo
	}
	return nil
}

// put puts the rows of the text. It returns false if the text has none.
func (r *memoryReading) put(out *collect.Out, b []byte) bool {
	r.names.Parse(b, r.values, r.seen)
	if !slices.Contains(r.seen, true) {
		return false
	}
	t, labels := out.Table("memory.size"), r.labels.Of(out, r.kinds)
	for i, v := range r.values {
		if !r.seen[i] {
			continue
		}
		size := float64(v) * 1024
		if r.pages[i] && !r.seen[r.hugepage] {
			t.Lacks("/proc/meminfo does not show the size of a huge page, so " + r.kinds[i] +
				" is unknown")
			continue
		}
		if r.pages[i] {
			size *= float64(r.values[r.hugepage])
		}
		if !r.believable(i, size) {
			size = measure.NaN
			t.Note("/proc/meminfo has an impossible " + r.kinds[i] + ": it is unknown")
		}
		t.Put(size, labels[i])
	}
	return true
}

func (r *memoryReading) Close() { r.file.Close() }
