package memory

import (
	"os"
	"slices"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel/proc"
	"culprit/measure"
)

// Vmstat reads /proc/vmstat: paging, swapping, faults and reclaim.
type Vmstat struct{}

// Stats returns the statistics of paging and reclaim.
func (Vmstat) Stats() []measure.Stat {
	direction := []measure.Field{{Name: "direction", Type: measure.Word, Help: "in: from disk; " +
		"out: to disk"}}
	by := []measure.Field{{Name: "by", Type: measure.Word, Help: "kswapd: in the background; " +
		"direct: by a process that allocates; khugepaged, proactive"}}
	return []measure.Stat{
		{ID: "memory.paging", Kind: measure.Delta, Unit: measure.Bytes, Help: "bytes read from " +
			"and written to block devices (/proc/vmstat pgpgin pgpgout)", Fields: direction},
		{ID: "memory.swap", Kind: measure.Delta, Unit: measure.Bytes, Help: "memory swapped in " +
			"and out (/proc/vmstat pswpin pswpout)", Fields: direction},
		{ID: "memory.faults", Kind: measure.Delta, Unit: measure.Events, Help: "page faults " +
			"(/proc/vmstat pgfault pgmajfault)",
			Fields: []measure.Field{{Name: "type", Type: measure.Word, Help: "major: read from " +
				"disk; minor: not"}}},
		{ID: "memory.scan", Kind: measure.Delta, Unit: measure.Bytes, Help: "memory scanned " +
			"for something to free (/proc/vmstat pgscan_*)", Fields: by},
		{ID: "memory.reclaim", Kind: measure.Delta, Unit: measure.Bytes, Help: "memory freed " +
			"by reclaim (/proc/vmstat pgsteal_*)", Fields: by},
		{ID: "memory.stalls", Kind: measure.Delta, Unit: measure.Events, Help: "allocations " +
			"that first had to reclaim memory (/proc/vmstat allocstall_*)"},
		{ID: "memory.oom", Kind: measure.Delta, Unit: measure.Events, Help: "processes killed " +
			"because memory was exhausted (/proc/vmstat oom_kill)"},
		{ID: "memory.refaults", Kind: measure.Delta, Unit: measure.Bytes, Help: "memory read " +
			"again soon after it was reclaimed (/proc/vmstat workingset_refault_*)",
			Fields: []measure.Field{{Name: "kind", Type: measure.Word, Help: "anon: from swap; " +
				"file: from files"}}},
		{
			ID:   "memory.compaction",
			Kind: measure.Delta,
			Unit: measure.Events,
			Help: "allocations that waited for memory to be made contiguous (/proc/vmstat " +
				"compact_stall)",
		},
		{
			ID: "memory.dirty", Kind: measure.Level, Unit: measure.Bytes,
			Help: "pages of files that wait to be written, and their limits (/proc/vmstat " +
				"nr_dirty nr_writeback nr_dirty_threshold nr_dirty_background_threshold); " +
				"kinds do not add up",
			Fields: []measure.Field{{Name: "kind", Type: measure.Word, Help: "dirty; " +
				"writeback: being written; background: from here on the kernel writes; limit: " +
				"halfway from background to it the kernel begins to pause programs that write"}},
		},
	}
}

// vmstatRows has the rows of all statistics: names in /proc/vmstat, the statistic, its label or
// "-", and the unit of the counter: k kilobytes (pgpgin is in sectors inside the kernel, halved for
// the file), p pages, 1 events, l pages now, which are no counter.
//
// Kernels name the counters differently:
//
//   - A / separates the names of later and earlier kernels. The first one that the file has counts.
//   - A + adds names up, and ZONE means each of the zones. Reclaim counters are by zone until Linux
//     4.7 (pgscan_kswapd_normal), by node later. For allocstall it is the other way round.
//   - workingset_refault exists since 3.15, as one counter of files until 5.8.
//   - oom_kill exists since 4.13, pgscan_khugepaged since 6.1, pgscan_proactive since 6.16.
//   - nr_dirty lacks pages that an NFS server has but has not committed (nr_unstable) before 5.8.
const vmstatRows = `pgpgin memory.paging in k
pgpgout memory.paging out k
pswpin memory.swap in p
pswpout memory.swap out p
pgfault memory.faults minor 1
pgmajfault memory.faults major 1
pgscan_kswapd/pgscan_kswapd_ZONE memory.scan kswapd p
pgscan_direct/pgscan_direct_ZONE memory.scan direct p
pgscan_khugepaged memory.scan khugepaged p
pgscan_proactive memory.scan proactive p
pgsteal_kswapd/pgsteal_kswapd_ZONE memory.reclaim kswapd p
pgsteal_direct/pgsteal_direct_ZONE memory.reclaim direct p
pgsteal_khugepaged memory.reclaim khugepaged p
pgsteal_proactive memory.reclaim proactive p
allocstall_ZONE/allocstall memory.stalls - 1
oom_kill memory.oom - 1
workingset_refault_anon memory.refaults anon p
workingset_refault_file/workingset_refault memory.refaults file p
compact_stall memory.compaction - 1
nr_dirty memory.dirty dirty l
nr_writeback memory.dirty writeback l
nr_dirty_background_threshold memory.dirty background l
nr_dirty_threshold memory.dirty limit l`

// zones are the zones by which a counter may be divided.
const zones = "dma dma32 normal high movable device"

// Open opens /proc/vmstat. An error means that nothing can be measured. The caller closes the
// Reading.
func (Vmstat) Open(env *collect.Env, want collect.Want) (collect.Reading, error) {
	f, err := proc.OpenProc(env.Root, "vmstat")
	if err != nil {
		return nil, err
	}
	r := &vmstatReading{
		file:    f,
		names:   procfs.NameValues{Slots: map[string]int{}},
		missing: map[measure.StatID]string{},
	}
	for line := range strings.SplitSeq(vmstatRows, "\n") {
		r.addRow(strings.Fields(line))
	}
	r.text, r.seen = make([]uint64, len(r.names.Slots)), make([]bool, len(r.names.Slots))
	r.values = make([]uint64, len(r.rows))
	return r, nil
}

func (r *vmstatReading) addRow(w []string) {
	row := vmstatRow{stat: measure.StatID(w[1]), label: w[2], scale: 1}
	switch w[3] {
	case "k":
		row.scale = 1024
	case "p", "l":
		row.scale = float64(os.Getpagesize())
	}
	switch w[0] {
	case "pgfault":
		r.minor = len(r.rows)
	case "pgmajfault":
		r.major = len(r.rows)
	}
	slot := len(r.names.Slots)
	for era := range strings.SplitSeq(w[0], "/") {
		for _, name := range zoneNames(era) {
			r.names.Slots[name] = slot // names that are added up share an index
		}
		row.slots = append(row.slots, slot)
		slot = len(r.names.Slots)
	}
	if w[3] == "l" {
		r.levels = append(r.levels, row)
	} else {
		r.rows = append(r.rows, row)
	}
	if had := r.missing[row.stat]; had != "" {
		r.missing[row.stat] = had + ", " + w[0]
	} else {
		r.missing[row.stat] = w[0]
	}
}

// zoneNames returns the names that a name with ZONE means.
func zoneNames(name string) []string {
	if !strings.Contains(name, "ZONE") {
		return []string{name}
	}
	var all []string
	for _, z := range strings.Fields(zones) {
		all = append(all, strings.ReplaceAll(name, "ZONE", z))
	}
	return all
}

type vmstatReading struct {
	file         *proc.File
	names        procfs.NameValues
	rows, levels []vmstatRow
	text         []uint64 // by index
	seen         []bool
	values       []uint64 // of the rows
	last         collect.Counters[struct{}]
	minor, major int                       // indices of rows
	missing      map[measure.StatID]string // the names from which a statistic comes
	has          map[measure.StatID]bool   // statistics of which the file has a counter
}

type vmstatRow struct {
	stat  measure.StatID
	label string // "-": none
	scale float64
	slots []int // by era, the latest first
	there bool  // the file has it
	now   uint64
}

func (r *vmstatReading) Read(out *collect.Out) error {
	b, err := r.file.Read()
	if err != nil {
		return err
	}
	r.names.Parse(b, r.text, r.seen)
	if !slices.Contains(r.seen, true) {
		return errNoVmstat
	}
	r.take()
	for id, names := range r.missing {
		if !r.has[id] {
			out.Table(id).
				Unmeasured("this kernel does not count it: /proc/vmstat has none of " + names)
		}
	}
	for i := range r.levels {
		if row := &r.levels[i]; row.there {
			out.Table(row.stat).Put(float64(row.now)*row.scale, out.Label(row.label))
		}
	}
	d, ok := r.last.Diff(out, struct{}{}, false, r.values...)
	if !ok {
		return nil
	}
	// pgfault counts both kinds, and a major fault slightly earlier than pgmajfault does. A fault
	// that is being handled must not make minor negative.
	if d[r.minor] = max(0, d[r.minor]-d[r.major]); !r.rows[r.major].there {
		d[r.minor] = measure.NaN
		out.Table("memory.faults").Note("/proc/vmstat has no pgmajfault, so minor faults are " +
			"unknown")
	}
	for i, row := range r.rows {
		switch t := out.Table(row.stat); {
		case t == nil || !row.there:
		case row.label == "-":
			t.Put(d[i] * row.scale)
		default:
			t.Put(d[i]*row.scale, out.Label(row.label))
		}
	}
	return nil
}

// take sets the values of the rows, each by the latest names that the file has.
func (r *vmstatReading) take() {
	if r.has == nil {
		r.has = map[measure.StatID]bool{}
	}
	clear(r.has)
	for i := range r.rows {
		r.takeRow(&r.rows[i])
		r.values[i] = r.rows[i].now
	}
	for i := range r.levels {
		r.takeRow(&r.levels[i])
	}
}

func (r *vmstatReading) takeRow(row *vmstatRow) {
	row.there, row.now = false, 0
	for _, slot := range row.slots {
		if r.seen[slot] {
			row.there, row.now = true, r.text[slot]
			r.has[row.stat] = true
			return
		}
	}
}

func (r *vmstatReading) Close() { r.file.Close() }
