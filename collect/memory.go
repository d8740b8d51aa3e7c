package collect

import (
	"errors"
	"os"
	"slices"
	"strings"

	"culprit/kernel"
	"culprit/measure"
)

// Memory reads /proc/meminfo: what memory is used for now.
type Memory struct{}

// Stats lists memory.size.
func (Memory) Stats() []measure.Stat {
	return []measure.Stat{{ID: "memory.size", Kind: measure.Level, Unit: measure.Bytes, Help: "what memory is used for (/proc/meminfo); kinds overlap and don't add up",
		Fields: []measure.Field{{Name: "kind", Type: measure.Word, Help: "total free available buffers cached dirty writeback anon shmem slab_reclaimable slab_unreclaimable page_tables kernel_stack swap_total swap_free committed commit_limit ..."}}}}
}

// memoryKinds are the lines of /proc/meminfo and the kinds they become, "name kind" each. Lines with a * count huge pages and are
// made bytes by Hugepagesize; pools of other sizes are not in them (proc(5)).
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

// memoryParts are lines that are a part of another, "part whole" each. A container's made-up file may say otherwise, such as a
// SwapFree of 2^64 below a SwapTotal of 0: whatever is made by subtraction would be far below 0.
const memoryParts = `MemFree MemTotal
MemAvailable MemTotal
Buffers MemTotal
Cached MemTotal
SwapCached SwapTotal
SwapFree SwapTotal
HugePages_Free HugePages_Total`

// A container may have empty files in the place of those that it hides: then the reason stands beside the blanks.
var (
	errNoMeminfo = errors.New("read /proc/meminfo: no memory in it")
	errNoVmstat  = errors.New("read /proc/vmstat: no counters in it")
)

// Open opens /proc/meminfo.
func (Memory) Open(env *Env, want Want) (Reading, error) {
	f, err := env.Root.OpenProc("meminfo")
	if err != nil {
		return nil, err
	}
	r := &memoryReading{file: f, names: nameValues{slots: map[string]int{}}, hugepage: -1}
	for i, line := range strings.Split(memoryKinds, "\n") {
		name, kind, _ := strings.Cut(line, " ")
		r.names.slots[name] = i
		bare := strings.TrimPrefix(kind, "*")
		r.kinds = append(r.kinds, bare)
		r.pages = append(r.pages, bare != kind)
		if bare == "hugepage" {
			r.hugepage = i
		}
	}
	r.values, r.seen = make([]uint64, len(r.kinds)), make([]bool, len(r.kinds))
	r.whole, r.beyond = make([]int, len(r.kinds)), make([]string, len(r.kinds))
	for i := range r.kinds {
		r.whole[i] = -1
	}
	for line := range strings.SplitSeq(memoryParts, "\n") {
		part, whole, _ := strings.Cut(line, " ")
		i := r.names.slots[part]
		r.whole[i] = r.names.slots[whole]
		r.beyond[i] = "/proc/meminfo has more " + part + " than " + whole + ": what is left or used of it is unknown"
	}
	return r, nil
}

type memoryReading struct {
	file     *kernel.File
	names    nameValues
	kinds    []string
	pages    []bool   // counts huge pages, not kilobytes
	hugepage int      // the slot of Hugepagesize
	whole    []int    // of each slot the one whose part it is; -1 none
	beyond   []string // the note where the part is more than the whole
	values   []uint64
	seen     []bool
	labels   wordLabels
}

func (r *memoryReading) Read(out *Out) error {
	b, err := r.file.ReadOne()
	if err != nil {
		return err
	}
	r.names.parse(b, r.values, r.seen)
	if !slices.Contains(r.seen, true) {
		return errNoMeminfo
	}
	t, labels := out.Table("memory.size"), r.labels.of(out, r.kinds)
	for i, v := range r.values {
		if !r.seen[i] {
			continue
		}
		if w := r.whole[i]; w >= 0 && r.seen[w] && v > r.values[w] {
			if r.values[w] > 0 {
				t.Note(r.beyond[i])
				continue
			}
			v = 0 // a part of nothing
		}
		if r.pages[i] {
			v *= r.values[r.hugepage]
		}
		t.Put(float64(v)*1024, labels[i])
	}
	return nil
}

func (r *memoryReading) Close() { r.file.Close() }

// Vmstat reads /proc/vmstat: paging, swapping, faults and reclaim.
type Vmstat struct{}

// Stats lists what happens to memory.
func (Vmstat) Stats() []measure.Stat {
	direction := []measure.Field{{Name: "direction", Type: measure.Word, Help: "in: from disk; out: to disk"}}
	by := []measure.Field{{Name: "by", Type: measure.Word, Help: "kswapd: in the background; direct: a process that wanted memory had to; khugepaged, proactive"}}
	return []measure.Stat{
		{ID: "memory.paging", Kind: measure.Delta, Unit: measure.Bytes, Help: "bytes read from and written to block devices (/proc/vmstat pgpgin pgpgout)", Fields: direction},
		{ID: "memory.swap", Kind: measure.Delta, Unit: measure.Bytes, Help: "memory swapped in and out (/proc/vmstat pswpin pswpout)", Fields: direction},
		{ID: "memory.faults", Kind: measure.Delta, Unit: measure.Events, Help: "page faults (/proc/vmstat pgfault pgmajfault)",
			Fields: []measure.Field{{Name: "type", Type: measure.Word, Help: "major: had to read from disk; minor: had not"}}},
		{ID: "memory.scan", Kind: measure.Delta, Unit: measure.Bytes, Help: "memory looked through for something to free (/proc/vmstat pgscan_*)", Fields: by},
		{ID: "memory.reclaim", Kind: measure.Delta, Unit: measure.Bytes, Help: "memory freed by reclaim (/proc/vmstat pgsteal_*)", Fields: by},
		{ID: "memory.stalls", Kind: measure.Delta, Unit: measure.Events, Help: "allocations that had to reclaim memory themselves first (/proc/vmstat allocstall_*)"},
		{ID: "memory.oom", Kind: measure.Delta, Unit: measure.Events, Help: "processes killed for want of memory (/proc/vmstat oom_kill)"},
		{ID: "memory.refaults", Kind: measure.Delta, Unit: measure.Bytes, Help: "memory fetched again soon after it was reclaimed (/proc/vmstat workingset_refault_*)",
			Fields: []measure.Field{{Name: "kind", Type: measure.Word, Help: "anon: from swap; file: from files"}}},
		{ID: "memory.compaction", Kind: measure.Delta, Unit: measure.Events, Help: "allocations that had to wait for memory to be made contiguous (/proc/vmstat compact_stall)"},
	}
}

// vmstatRows gives the rows of all statistics: a name in /proc/vmstat, the statistic, its label if it has one, and the unit of the
// counter: k kilobytes (pgpgin is in sectors inside the kernel and halved on its way out), p pages, 1 events. Before 4.8 reclaim was
// counted by zone, and before 5.9 refaults of file pages alone; no kernel has both the old and the new name of a counter.
const vmstatRows = `pgpgin memory.paging in k
pgpgout memory.paging out k
pswpin memory.swap in p
pswpout memory.swap out p
pgfault memory.faults minor 1
pgmajfault memory.faults major 1
pgscan_kswapd memory.scan kswapd p
pgscan_direct memory.scan direct p
pgscan_khugepaged memory.scan khugepaged p
pgscan_proactive memory.scan proactive p
pgsteal_kswapd memory.reclaim kswapd p
pgsteal_direct memory.reclaim direct p
pgsteal_khugepaged memory.reclaim khugepaged p
pgsteal_proactive memory.reclaim proactive p
pgscan_kswapd_dma memory.scan kswapd p
pgscan_kswapd_dma32 memory.scan kswapd p
pgscan_kswapd_normal memory.scan kswapd p
pgscan_kswapd_high memory.scan kswapd p
pgscan_kswapd_movable memory.scan kswapd p
pgscan_direct_dma memory.scan direct p
pgscan_direct_dma32 memory.scan direct p
pgscan_direct_normal memory.scan direct p
pgscan_direct_high memory.scan direct p
pgscan_direct_movable memory.scan direct p
pgsteal_kswapd_dma memory.reclaim kswapd p
pgsteal_kswapd_dma32 memory.reclaim kswapd p
pgsteal_kswapd_normal memory.reclaim kswapd p
pgsteal_kswapd_high memory.reclaim kswapd p
pgsteal_kswapd_movable memory.reclaim kswapd p
pgsteal_direct_dma memory.reclaim direct p
pgsteal_direct_dma32 memory.reclaim direct p
pgsteal_direct_normal memory.reclaim direct p
pgsteal_direct_high memory.reclaim direct p
pgsteal_direct_movable memory.reclaim direct p
allocstall memory.stalls - 1
allocstall_dma memory.stalls - 1
allocstall_dma32 memory.stalls - 1
allocstall_normal memory.stalls - 1
allocstall_high memory.stalls - 1
allocstall_movable memory.stalls - 1
allocstall_device memory.stalls - 1
oom_kill memory.oom - 1
workingset_refault memory.refaults file p
workingset_refault_anon memory.refaults anon p
workingset_refault_file memory.refaults file p
compact_stall memory.compaction - 1`

// Open opens /proc/vmstat.
func (Vmstat) Open(env *Env, want Want) (Reading, error) {
	f, err := env.Root.OpenProc("vmstat")
	if err != nil {
		return nil, err
	}
	r := &vmstatReading{file: f, names: nameValues{slots: map[string]int{}}}
	rows := map[string]int{}
	for line := range strings.SplitSeq(vmstatRows, "\n") {
		w := strings.Fields(line)
		id := w[1] + " " + w[2]
		slot, ok := rows[id]
		if !ok {
			slot = len(r.rows)
			rows[id] = slot
			row := vmstatRow{stat: measure.StatID(w[1]), label: w[2], scale: 1}
			switch w[3] {
			case "k":
				row.scale = 1024
			case "p":
				row.scale = float64(os.Getpagesize())
			}
			r.rows = append(r.rows, row)
		}
		r.names.slots[w[0]] = slot
	}
	for _, st := range (Vmstat{}).Stats() {
		r.stats = append(r.stats, st.ID)
	}
	r.values, r.seen = make([]uint64, len(r.rows)), make([]bool, len(r.rows))
	r.minor, r.major = r.names.slots["pgfault"], r.names.slots["pgmajfault"]
	return r, nil
}

type vmstatReading struct {
	file         *kernel.File
	names        nameValues
	rows         []vmstatRow
	stats        []measure.StatID
	values       []uint64
	seen         []bool
	last         Counters[struct{}]
	minor, major int // slots
}

type vmstatRow struct {
	stat  measure.StatID
	label string // "-" none
	scale float64
}

func (r *vmstatReading) Read(out *Out) error {
	b, err := r.file.Read()
	if err != nil {
		return err
	}
	r.names.parse(b, r.values, r.seen)
	if !slices.Contains(r.seen, true) {
		return errNoVmstat
	}
	r.tellMissing(out)
	d, ok := r.last.Diff(out, struct{}{}, false, r.values...)
	if !ok {
		return nil
	}
	// pgfault counts both sorts, a major one a little earlier than pgmajfault does: one under way must not make minor negative.
	d[r.minor] = max(0, d[r.minor]-d[r.major])
	for i, row := range r.rows {
		switch t := out.Table(row.stat); {
		case t == nil || !r.seen[i]:
		case row.label == "-":
			t.Put(d[i] * row.scale)
		default:
			t.Put(d[i]*row.scale, out.Label(row.label))
		}
	}
	return nil
}

func (r *vmstatReading) Close() { r.file.Close() }

// vmstatSince are the kernels that brought the counters of a statistic.
//
// table: facts about kernels
var vmstatSince = map[measure.StatID]string{
	"memory.refaults":   "/proc/vmstat has no workingset_refault: the kernel counts refaults since Linux 3.15",
	"memory.oom":        "/proc/vmstat has no oom_kill: the kernel counts it since Linux 4.13",
	"memory.compaction": "/proc/vmstat has no compact_stall: this kernel is built without CONFIG_COMPACTION",
}

// tellMissing says of the statistics for which this kernel has no counter that they are unknown, not 0.
func (r *vmstatReading) tellMissing(out *Out) {
	for _, id := range r.stats {
		if slices.ContainsFunc(r.rows, func(row vmstatRow) bool { return row.stat == id }) && !r.has(id) {
			why := vmstatSince[id]
			if why == "" {
				why = "/proc/vmstat has no counter for this on this kernel"
			}
			out.Table(id).Unmeasured(why)
		}
	}
}

// has reports whether the newest text has a counter of the statistic.
func (r *vmstatReading) has(id measure.StatID) bool {
	for i, row := range r.rows {
		if row.stat == id && r.seen[i] {
			return true
		}
	}
	return false
}
