package facts

import (
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// FaultKind is what the kernel does in a page fault.
type FaultKind uint8

// The kinds of page faults.
const (
	NoFault     FaultKind = iota
	OtherFault            // not known: entry into the kernel, searches of the memory map
	NewPage               // a page of new memory, cleared
	CopiedPage            // a copy of a page that a fork shared
	FilePage              // a page of a mapped file or of shared memory
	WrittenPage           // a write to a protected page: one of the above, or nothing but that
	zeroPage              // a write to a page that was only read before: a new page
)

// FaultOf returns the kind of the page fault in which a sample was taken. NoFault for all other
// samples, and for faults whose time has another cause: memory that is short or in pieces, swapped
// pages, NUMA balancing.
func FaultOf(r *Sample) FaultKind {
	kind := NoFault
	if r.Entry.Kind == InFault {
		kind = OtherFault
	}
	for _, name := range r.Path {
		switch name {
		case "try_to_free_pages", "shrink_lruvec", "try_to_free_mem_cgroup_pages",
			"try_to_compact_pages", "do_swap_page", "do_numa_page", "do_huge_pmd_numa_page":
			return NoFault
		case "do_wp_page", "wp_page_copy", "do_huge_pmd_wp_page",
			"do_huge_zero_wp_pmd", "hugetlb_wp", "hugetlb_cow":
			kind = writtenKind(r.Path)
		case "do_anonymous_page", "do_huge_pmd_anonymous_page", "hugetlb_no_page",
			"vma_alloc_anon_folio_pmd", "create_huge_pmd":
			if kind <= OtherFault {
				kind = NewPage
			}
		case "do_read_fault", "do_shared_fault", "do_cow_fault", "do_fault", "filemap_map_pages",
			"filemap_fault", "shmem_fault":
			if kind <= OtherFault {
				kind = FilePage
			}
		case "handle_mm_fault", "__handle_mm_fault":
			if kind == NoFault {
				kind = OtherFault // a page that a system call touches
			}
		}
	}
	return kind
}

// writtenKind returns the kind of a fault for a write to a protected page.
func writtenKind(path []string) FaultKind {
	for _, name := range path {
		switch {
		case strings.Contains(name, "clear_page"), strings.Contains(name, "zero_user"),
			strings.Contains(name, "clear_huge"):
			return zeroPage
		case strings.HasPrefix(name, "copy_"), strings.Contains(name, "page_copy_user"),
			strings.Contains(name, "copy_page"):
			return CopiedPage
		}
	}
	return WrittenPage
}

// MergeWritten adds the time of writes to protected pages to the kind that was seen there.
func MergeWritten(kinds map[FaultKind]float64) {
	switch copied, zeros := kinds[CopiedPage], kinds[zeroPage]; {
	case copied > zeros:
		kinds[CopiedPage] += kinds[WrittenPage] + zeros
		delete(kinds, WrittenPage)
	case zeros > 0:
		kinds[NewPage] += kinds[WrittenPage] + zeros + copied
		delete(kinds, WrittenPage)
		delete(kinds, CopiedPage)
	}
	delete(kinds, zeroPage)
}

// ReleasingCall returns the system call of a sample if it is one that unmaps memory, or protects it
// so that the next access is a fault; "" for others.
func ReleasingCall(r *Sample) string {
	if r.Entry.Kind != InCall {
		return ""
	}
	switch r.Entry.Name {
	case "munmap", "madvise", "process_madvise", "brk", "mremap", "mprotect", "pkey_mprotect":
		return r.Entry.Name
	}
	for _, name := range r.Path {
		switch name { // where the name of the call is inlined, or another one unmaps first
		case "vm_munmap", "__vm_munmap", "do_munmap", "do_vmi_munmap":
			if r.Entry.Name == "mmap" || r.Entry.Name == "" {
				return "munmap"
			}
		case "madvise_vma_behavior", "do_madvise":
			return "madvise"
		}
	}
	return ""
}

// PageSize is the size of the smallest page, in bytes. Larger ones make what grows seem larger.
const PageSize = 4096

// PagesGrown returns by how many pages per second the memory of processes grew in each cell, as the
// sum of those that grew. A process that was not seen before has grown by all it has. NaN where it
// is not known.
func PagesGrown(t *diagnose.Table, pids []int) []float64 {
	out := make([]float64, len(t.Seconds))
	var rows []*diagnose.Row
	for _, pid := range pids {
		rows = append(rows, t.Where("pid", PIDWord(pid))...)
	}
	for c := range out {
		out[c] = measure.NaN
		for _, r := range rows {
			v := r.At(c)
			if v != v || c == 0 || !(t.Seconds[c] > 0) {
				continue
			}
			if out[c] != out[c] {
				out[c] = 0
			}
			out[c] += max(v-lastBefore(r, c), 0) / PageSize / t.Seconds[c]
		}
	}
	if len(out) > 1 {
		out[0] = out[1]
	}
	return out
}

// lastBefore returns the last value of a row before a cell; 0: there is none.
func lastBefore(r *diagnose.Row, c int) float64 {
	for c--; c >= 0; c-- {
		if v := r.At(c); v == v {
			return v
		}
	}
	return 0
}

// Shootdown reports whether a sample was taken while a CPU asks others to forget translations of
// addresses (TLB shootdown), and waits for them. Not where memory is short: then pages are unmapped
// to be freed.
func Shootdown(r *Sample) bool {
	sends, flushes := false, false
	for _, name := range r.Path {
		switch name {
		case "smp_call_function_many_cond", "smp_call_function_many", "on_each_cpu_cond_mask":
			sends = true
		case "flush_tlb_mm_range", "arch_tlbbatch_flush", "flush_tlb_page", "flush_tlb_multi",
			"native_flush_tlb_multi", "native_flush_tlb_others", "kvm_flush_tlb_multi",
			"kvm_flush_tlb_others":
			flushes = true
		case "try_to_free_pages", "shrink_lruvec", "try_to_compact_pages", "migrate_pages",
			"do_numa_page", "do_huge_pmd_numa_page":
			return false
		}
	}
	return sends && flushes
}

// MemoryCost is the subject of a finding about the cost of a program's changes to its memory map,
// in CPUs.
type MemoryCost float64

// MemoryCostOf returns the cost that a finding is about; 0 when it is about another thing.
func MemoryCostOf(f *diagnose.Finding) float64 {
	c, _ := f.Subject.(MemoryCost)
	return float64(c)
}

// CostFelt reports whether the cost of a program, in CPUs, is one that somebody waits for: its
// busiest process, which uses busiest CPUs, does nothing else in between, or no CPU is idle.
func CostFelt(m Machine, cost, busiest float64, mask []bool) bool {
	return cost >= threshold.FaultMuch && (busiest >= threshold.OneFull ||
		m.Share(mask, "idle", "iowait") < threshold.CPUNearlyIdle)
}
