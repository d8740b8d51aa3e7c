package memory

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/measure"
)

// Each line has another number, so that a swap of two kinds shows.
func TestMemory(t *testing.T) {
	var text strings.Builder
	want := map[string]float64{
		"memory.size|hugepages_total": 14 << 20,
		"memory.size|hugepages_free":  6 << 20,
		"memory.size|hugepage":        2 << 20,
	}
	for i, line := range strings.Split(`MemTotal total
MemFree free
MemAvailable available
Buffers buffers
Cached cached
SwapCached swap_cached
Active active
Inactive inactive
SwapTotal swap_total
SwapFree swap_free
Dirty dirty
Writeback writeback
AnonPages anon
Shmem shmem
SReclaimable slab_reclaimable
SUnreclaim slab_unreclaimable
KernelStack kernel_stack
PageTables page_tables
CommitLimit commit_limit
Committed_AS committed
Unheard -`, "\n") {
		name, kind, _ := strings.Cut(line, " ")
		size := 24684092 - 1009*i
		fmt.Fprintf(&text, "%s: %d kB\n", name, size)
		if kind != "-" {
			want["memory.size|"+kind] = float64(size) * 1024
		}
	}
	text.WriteString("HugePages_Total: 7\nHugePages_Free: 3\nHugepagesize: 2048 kB\n")
	m := collecttest.NewMachine(t, Memory{}, map[string]string{"proc/meminfo": text.String()})
	collecttest.Expect(t, m.Read(true), "", want)
	collecttest.Expect(t, m.Read(false), "", want)
}

// Each counter grows by another prime, so that a swap of two counters shows.
func TestVmstat(t *testing.T) {
	const format = `nr_free_pages 915316
workingset_refault_anon %d
workingset_refault_file %d
pgpgin %d
pgpgout %d
pswpin %d
pswpout %d
allocstall_dma %d
allocstall_normal %d
pgfault %d
pgmajfault %d
pgsteal_kswapd %d
pgsteal_direct %d
pgscan_kswapd %d
pgscan_direct %d
oom_kill %d
compact_stall %d
nr_dirty %d
nr_writeback %d
nr_dirty_threshold %d
nr_dirty_background_threshold %d
`
	growth := []int{2, 3, 5, 7, 11, 13, 17, 19, 101, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71}
	var before, after []any
	for i, g := range growth {
		before, after = append(before, 1000*i), append(after, 1000*i+g)
	}
	put := func(m *collecttest.Machine, values []any) {
		m.Put(map[string]string{"proc/vmstat": fmt.Sprintf(format, values...)})
	}
	m := collecttest.EmptyMachine(t)
	put(m, before)
	m.Open(Vmstat{})
	page := float64(os.Getpagesize())
	dirty := func(more float64) map[string]float64 {
		return map[string]float64{
			"memory.dirty|dirty":      (16000 + 59*more) * page,
			"memory.dirty|writeback":  (17000 + 61*more) * page,
			"memory.dirty|limit":      (18000 + 67*more) * page,
			"memory.dirty|background": (19000 + 71*more) * page,
		}
	}
	collecttest.Expect(t, m.Read(true), "", dirty(0))
	put(m, after)
	want := dirty(1)
	maps.Copy(want, map[string]float64{
		"memory.refaults|anon":  2 * page,
		"memory.refaults|file":  3 * page,
		"memory.paging|in":      5 * 1024,
		"memory.paging|out":     7 * 1024,
		"memory.swap|in":        11 * page,
		"memory.swap|out":       13 * page,
		"memory.stalls":         17 + 19,
		"memory.faults|minor":   101 - 29,
		"memory.faults|major":   29,
		"memory.reclaim|kswapd": 31 * page,
		"memory.reclaim|direct": 37 * page,
		"memory.scan|kswapd":    41 * page,
		"memory.scan|direct":    43 * page,
		"memory.oom":            47,
		"memory.compaction":     53,
	})
	collecttest.Expect(t, m.Read(false), "", want)
	// A major fault between the reading of its two counters.
	m.Put(map[string]string{"proc/vmstat": "pgfault 8101\npgmajfault 9030\npgpgin 5\n"})
	rows := m.Read(false)
	collecttest.Expect(
		t, rows, "memory.faults",
		map[string]float64{"memory.faults|minor": 0, "memory.faults|major": 1},
	)
	collecttest.Expect(
		t, rows, "memory.paging", map[string]float64{"memory.paging|in": measure.NaN},
	)
}

// A container may hide a file behind an empty one. The reason must be noted.
func TestEmptyMemoryFilesAreNoted(t *testing.T) {
	for name, c := range map[string]collect.Collector{"proc/meminfo": Memory{}, "proc/vmstat": Vmstat{}} {
		m := collecttest.NewMachine(t, c, map[string]string{name: ""})
		m.Start(true)
		if err := m.Reading.Read(m.Out); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("an empty %s: %v", name, err)
		}
	}
}

// vmstats are the relevant lines of /proc/vmstat, as kernels since 3.10 write them.
//
// table: captures
var vmstats = map[string]string{
	"3.10": `pgpgin 7344136
pgpgout 1541180576
pswpin 1476
pswpout 35045
pgfault 37085
pgmajfault 1
pgsteal_kswapd_dma 0
pgsteal_kswapd_dma32 600
pgsteal_kswapd_normal 10
pgsteal_kswapd_movable 0
pgsteal_direct_dma 0
pgsteal_direct_dma32 200
pgsteal_direct_normal 5
pgsteal_direct_movable 0
pgscan_kswapd_dma 0
pgscan_kswapd_dma32 700
pgscan_kswapd_normal 10
pgscan_kswapd_movable 0
pgscan_direct_dma 0
pgscan_direct_dma32 300
pgscan_direct_normal 5
pgscan_direct_movable 0
pgscan_direct_throttle 99
zone_reclaim_failed 0
allocstall 12
compact_stall 3
nr_dirty 45
nr_writeback 6
nr_dirty_threshold 9000
nr_dirty_background_threshold 4500
`,
	"4.4": `workingset_refault 40
workingset_activate 20
pgpgin 7344136
pgpgout 1541180576
pswpin 1476
pswpout 35045
pgfault 37085
pgmajfault 1
pgsteal_kswapd_dma32 610
pgsteal_direct_dma32 205
pgscan_kswapd_dma32 710
pgscan_direct_dma32 305
pgscan_direct_throttle 99
allocstall 12
compact_stall 3
nr_dirty 45
nr_writeback 6
nr_dirty_threshold 9000
nr_dirty_background_threshold 4500
`,
	"4.18": `workingset_refault 40
workingset_activate 20
pgpgin 7344136
pgpgout 1541180576
pswpin 1476
pswpout 35045
allocstall_dma 0
allocstall_dma32 2
allocstall_normal 10
allocstall_movable 0
pgskip_normal 0
pgfault 37085
pgmajfault 1
pgsteal_kswapd 610
pgsteal_direct 205
pgscan_kswapd 710
pgscan_direct 305
pgscan_direct_throttle 99
oom_kill 0
compact_stall 3
nr_dirty 45
nr_writeback 6
nr_dirty_threshold 9000
nr_dirty_background_threshold 4500
`,
	"6.1": `workingset_refault_anon 0
workingset_refault_file 40
pgpgin 7344136
pgpgout 1541180576
pswpin 1476
pswpout 35045
allocstall_normal 12
allocstall_device 0
pgfault 37085
pgmajfault 1
pgsteal_kswapd 610
pgsteal_direct 205
pgsteal_anon 100
pgsteal_file 715
pgscan_kswapd 710
pgscan_direct 305
pgscan_direct_throttle 99
pgscan_anon 100
pgscan_file 915
oom_kill 0
compact_stall 3
nr_dirty 45
nr_writeback 6
nr_dirty_threshold 9000
nr_dirty_background_threshold 4500
`,
	"7.0": `workingset_refault_anon 0
workingset_refault_file 40
pgpgin 7344136
pgpgout 1541180576
pswpin 1476
pswpout 35045
allocstall_normal 12
pgfault 37085
pgmajfault 1
pgsteal_kswapd 610
pgsteal_direct 205
pgsteal_khugepaged 0
pgsteal_proactive 0
pgscan_kswapd 710
pgscan_direct 305
pgscan_khugepaged 0
pgscan_proactive 0
pgscan_direct_throttle 99
oom_kill 0
compact_stall 3
nr_dirty 45
nr_writeback 6
nr_dirty_threshold 9000
nr_dirty_background_threshold 4500
`,
}

// TestVmstatOfAllKernels checks that each statistic has rows on each kernel, or a note why not.
func TestVmstatOfAllKernels(t *testing.T) {
	page := float64(os.Getpagesize())
	missing := map[string][]measure.StatID{
		"3.10": {"memory.refaults", "memory.oom"},
		"4.4":  {"memory.oom"},
	}
	for release, text := range vmstats {
		zeros := ""
		for line := range strings.Lines(text) {
			name, _, _ := strings.Cut(line, " ")
			zeros += name + " 0\n"
		}
		m := collecttest.NewMachine(t, Vmstat{}, map[string]string{"proc/vmstat": zeros})
		m.Read(true)
		m.Put(map[string]string{"proc/vmstat": text})
		got := m.Read(false)
		for key, want := range map[string]float64{"memory.scan|kswapd": 710 * page, "memory.scan|direct": 305 * page, "memory.reclaim|kswapd": 610 * page,
			"memory.reclaim|direct": 205 * page, "memory.stalls": 12, "memory.compaction": 3, "memory.refaults|file": 40 * page, "memory.faults|major": 1,
			"memory.dirty|limit": 9000 * page} {
			id, _, _ := strings.Cut(key, "|")
			if v, ok := got[key]; v != want || !ok {
				if !slices.Contains(missing[release], measure.StatID(id)) {
					t.Errorf("%s: %s is %v, want %v", release, key, v, want)
				}
			}
		}
		for _, b := range m.Out.Finish(nil) {
			lacks := slices.Contains(missing[release], b.Stat)
			if noted := b.Over.Span() == 0 && len(b.Notes) > 0; noted != lacks ||
				lacks != (len(b.Values) == 0) {
				t.Errorf(
					"%s: %s has %d rows over %v and notes %q", release, b.Stat, len(b.Values),
					b.Over.Span(), b.Notes,
				)
			}
		}
	}
}

// TestPartsOfMemory checks that a part of memory is at most its whole, or unknown.
func TestPartsOfMemory(t *testing.T) {
	numbers := []string{"0", "1", "512", "1024", "18446744073709551488", "18446744073709551615"}
	for line := range strings.SplitSeq("MemFree MemTotal\nMemAvailable MemTotal\nSwapFree "+
		"SwapTotal", "\n") {
		part, whole, _ := strings.Cut(line, " ")
		kinds := map[string]string{}
		for l := range strings.SplitSeq(memoryKinds, "\n") {
			name, kind, _ := strings.Cut(l, " ")
			kinds[name] = "memory.size|" + strings.TrimPrefix(kind, "*")
		}
		for _, p := range numbers {
			for _, w := range numbers {
				m := collecttest.NewMachine(
					t,
					Memory{},
					map[string]string{
						"proc/meminfo": whole + ": " + w + " kB\n" + part + ": " + p + " kB\nHugepagesize: 2048 kB\n",
					},
				)
				got := m.Read(true)
				pv, known := got[kinds[part]]
				if known && pv > got[kinds[whole]]*1.01 {
					t.Errorf("%s %s of %s %s: %v of %v", part, p, whole, w, pv, got[kinds[whole]])
				}
			}
		}
	}
}

func BenchmarkRead(b *testing.B) {
	collecttest.BenchmarkEach(b, Memory{}, Vmstat{}, Caches{})
	b.Run("memory.Caches without slabs", func(b *testing.B) {
		collecttest.BenchmarkRead(b, Caches{}, "cache.entries", "cache.growth", "cache.limit")
	})
}
