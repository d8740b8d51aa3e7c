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
	return r, nil
}

type memoryReading struct {
	file     *kernel.File
	names    nameValues
	kinds    []string
	pages    []bool // counts huge pages, not kilobytes
	hugepage int    // the slot of Hugepagesize
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
// counter: k kilobytes (pgpgin is in sectors inside the kernel and halved on its way out), p pages, 1 events.
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
allocstall_dma memory.stalls - 1
allocstall_dma32 memory.stalls - 1
allocstall_normal memory.stalls - 1
allocstall_high memory.stalls - 1
allocstall_movable memory.stalls - 1
allocstall_device memory.stalls - 1
oom_kill memory.oom - 1
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
	r.values, r.seen = make([]uint64, len(r.rows)), make([]bool, len(r.rows))
	r.minor, r.major = r.names.slots["pgfault"], r.names.slots["pgmajfault"]
	return r, nil
}

type vmstatReading struct {
	file         *kernel.File
	names        nameValues
	rows         []vmstatRow
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
