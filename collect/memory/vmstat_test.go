package memory

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/heapbound"
	"culprit/kernel"
	"culprit/measure"
)

// kernelVmstat lists the reclaim counters of a kernel in the order of its /proc/vmstat, and the
// statistics that come from them. Some names must not count: pgscan_direct_throttle counts events,
// pgscan_anon is part of pgscan_kswapd.
type kernelVmstat struct {
	release, names string
	missing        string   // statistics that the kernel does not count
	kinds          []string // rows of memory.scan, memory.reclaim, memory.refaults
}

const alwaysInVmstat = "nr_free_pages pgpgin pgpgout pswpin pswpout pgfault pgmajfault " +
	"pgrefill pginodesteal slabs_scanned pageoutrun compact_fail compact_stall compact_success " +
	"thp_fault_alloc nr_dirty nr_writeback nr_dirty_threshold nr_dirty_background_threshold "

func vmstatsOfKernels() []kernelVmstat {
	zones := func(prefix string, zones ...string) string {
		return prefix + "_" + strings.Join(zones, " "+prefix+"_") + " "
	}
	perZone := ""
	for _, p := range []string{"pgsteal_kswapd", "pgsteal_direct", "pgscan_kswapd", "pgscan_direct"} {
		perZone += zones(p, "dma", "dma32", "normal", "movable")
	}
	perZone += "pgscan_direct_throttle allocstall "
	perNode := zones("allocstall", "dma", "dma32", "normal", "movable") + "pgsteal_kswapd " +
		"pgsteal_direct pgscan_kswapd pgscan_direct pgscan_direct_throttle "
	both := []string{"scan kswapd", "scan direct", "reclaim kswapd", "reclaim direct"}
	split := "workingset_refault_anon workingset_refault_file "
	return []kernelVmstat{
		{"3.10", perZone, "memory.oom memory.refaults", both},
		{
			"4.4",
			perZone + "workingset_refault workingset_activate ",
			"memory.oom",
			append(both, "refaults file"),
		},
		{"4.9", perNode + "workingset_refault ", "memory.oom", append(both, "refaults file")},
		{
			"4.18",
			perNode + "oom_kill workingset_refault workingset_restore ",
			"",
			append(both, "refaults file"),
		},
		{
			"5.10",
			perNode + "pgscan_anon pgscan_file pgsteal_anon pgsteal_file oom_kill " + split,
			"",
			append(both, "refaults anon", "refaults file"),
		},
		{"6.12", perNode + "allocstall_device pgsteal_khugepaged pgscan_khugepaged " +
			"pgdemote_kswapd pgscan_anon pgscan_file oom_kill " + split, "",
			append(
				both, "scan khugepaged", "reclaim khugepaged", "refaults anon", "refaults file",
			)},
		{"7.0", perNode + "allocstall_device pgsteal_khugepaged pgsteal_proactive " +
			"pgscan_khugepaged pgscan_proactive pgscan_anon pgscan_file oom_kill " + split, "",
			append(
				both, "scan khugepaged", "reclaim khugepaged", "scan proactive",
				"reclaim proactive", "refaults anon", "refaults file",
			)},
	}
}

// Each statistic is counted on each kernel, or missing with the reason. It never has no rows
// silently.
func TestVmstatOfKernels(t *testing.T) {
	for _, k := range vmstatsOfKernels() {
		t.Run(k.release, func(t *testing.T) {
			names := strings.Fields(alwaysInVmstat + k.names)
			text := func(reading int) string {
				s := ""
				for i, n := range names {
					// each grows by another power of two, so that a sum shows its parts
					s += fmt.Sprintf("%s %d\n", n, 1000+reading*(1<<min(i, 40)))
				}
				return s
			}
			grown := func(prefix string, exact bool) float64 {
				sum := 0.0
				for i, n := range names {
					if n == prefix ||
						!exact && strings.HasPrefix(n, prefix+"_") &&
							!strings.HasSuffix(n, "_throttle") {
						sum += float64(int(1) << min(i, 40))
					}
				}
				return sum
			}
			m := collecttest.NewMachine(t, Vmstat{}, map[string]string{"proc/vmstat": text(0)})
			m.Read(true)
			m.Put(map[string]string{"proc/vmstat": text(1)})
			m.Start(false)
			if err := m.Reading.Read(m.Out); err != nil {
				t.Fatal(err)
			}
			rows := collecttest.RowsOf(t, m.Out)
			for _, b := range m.Out.Finish(nil) {
				missing := slices.Contains(strings.Fields(k.missing), string(b.Stat))
				if blank := b.Over.Start == b.Over.End; blank != missing ||
					missing != (b.Rows() == 0) {
					t.Errorf(
						"%s: %d rows, unmeasured %v, want %v", b.Stat, b.Rows(), blank, missing,
					)
				}
				if missing && !strings.Contains(strings.Join(b.Notes, " "), "/proc/vmstat has "+
					"none of") {
					t.Errorf("%s: no reason in %q", b.Stat, b.Notes)
				}
			}
			var got []string
			for row := range rows {
				for _, prefix := range []string{"memory.scan|", "memory.reclaim|", "memory.refaults|"} {
					if kind, ok := strings.CutPrefix(row, prefix); ok {
						got = append(got, prefix[len("memory."):len(prefix)-1]+" "+kind)
					}
				}
			}
			slices.Sort(got)
			want := slices.Sorted(slices.Values(k.kinds))
			if !slices.Equal(got, want) {
				t.Errorf("rows %q, want %q", got, want)
			}
			page := float64(os.Getpagesize())
			for row, v := range map[string]float64{
				"memory.scan|kswapd":    page * grown("pgscan_kswapd", false),
				"memory.scan|direct":    page * grown("pgscan_direct", false),
				"memory.reclaim|kswapd": page * grown("pgsteal_kswapd", false),
				"memory.reclaim|direct": page * grown("pgsteal_direct", false),
				"memory.stalls":         grown("allocstall", false),
			} {
				if !collecttest.Near(rows[row], v) {
					t.Errorf("%s = %v, want %v", row, rows[row], v)
				}
			}
			if file := page * (grown("workingset_refault", true) + grown("workingset_refault_file", true)); file > 0 &&
				!collecttest.Near(rows["memory.refaults|file"], file) {
				t.Errorf("refaults of files %v, want %v", rows["memory.refaults|file"], file)
			}
		})
	}
}

// A kernel that has the names of two eras is not counted twice.
func TestVmstatOfTwoEras(t *testing.T) {
	m := collecttest.NewMachine(t, Vmstat{}, map[string]string{"proc/vmstat": "pgscan_kswapd " +
		"10\npgscan_kswapd_normal 10\n"})
	m.Read(true)
	m.Put(map[string]string{"proc/vmstat": "pgscan_kswapd 13\npgscan_kswapd_normal 15\n"})
	collecttest.Expect(
		t, m.Read(false), "memory.scan",
		map[string]float64{"memory.scan|kswapd": 3 * float64(os.Getpagesize())},
	)
}

// The running kernel has all statistics, if it is as new as culprit needs.
func TestVmstatOfThisKernel(t *testing.T) {
	r, err := Vmstat{}.Open(&collect.Env{}, collecttest.WantAll(Vmstat{}))
	if err != nil {
		t.Skip(err)
	}
	defer r.Close()
	out := collect.NewOut(Vmstat{}.Stats(), collect.NewDictionary(), false)
	out.Start(true, time.Now())
	if err := r.Read(out); err != nil {
		t.Fatal(err)
	}
	for _, b := range out.Finish(nil) {
		for _, n := range b.Notes {
			// CONFIG_COMPACTION
			if strings.Contains(n, "has none of") && b.Stat != "memory.compaction" {
				t.Errorf("%s: %s", b.Stat, n)
			}
		}
	}
}

// Impossible sizes are unknown. None is below zero or exceeds its whole.
func TestMemoryThatCantBe(t *testing.T) {
	for name, c := range map[string]struct {
		text    string
		unknown string
	}{
		"lxcfs": {"MemTotal: 524288 kB\nMemFree: 423936 kB\nMemAvailable: 430000 " +
			"kB\nSwapTotal: 0 kB\nSwapFree: 18446744073709551488 kB\n", "swap_free"},
		"more available than there is": {"MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: " +
			"2000 kB\nSwapTotal: 8 kB\nSwapFree: 8 kB\n", "available"},
		"hugepages": {"MemTotal: 1000 kB\nHugePages_Total: " +
			"2\nHugePages_Free: 3\nHugepagesize: 2048 kB\n", "hugepages_free"},
		"a wrapped cache": {"MemTotal: 1000 kB\nCached: 18446744073709551612 kB\n", "cached"},
		"read apart": {"MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: " +
			"1003 kB\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := collecttest.NewMachine(t, Memory{}, map[string]string{"proc/meminfo": c.text})
			for row, v := range m.Read(true) {
				if unknown := v != v; unknown != (row == "memory.size|"+c.unknown) {
					t.Errorf("%s = %v", row, v)
				}
			}
			if strings.Contains(m.Notes(), "impossible") != (c.unknown != "") {
				t.Errorf("notes %q", m.Notes())
			}
		})
	}
}

func FuzzMemory(f *testing.F) {
	f.Add([]byte("MemTotal: 524288 kB\nSwapTotal: 0 kB\nSwapFree: 18446744073709551488 kB\n"))
	f.Add([]byte("HugePages_Total: 18446744073709551615\nHugepagesize: 18446744073709551615 kB\n"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		r, err := Memory{}.Open(&collect.Env{Root: kernel.Root{}}, collecttest.WantAll(Memory{}))
		if err != nil {
			t.Skip(err)
		}
		defer r.Close()
		out := collect.NewOut(Memory{}.Stats(), collect.NewDictionary(), false)
		out.Start(true, time.Now())
		r.(*memoryReading).put(out, b)
		got := collecttest.RowsOf(t, out)
		for row, v := range got {
			if v < 0 || v > mostMemory {
				t.Errorf("%s = %v", row, v)
			}
		}
		for _, pair := range [][2]string{{"total", "free"}, {"swap_total", "swap_free"}, {"hugepages_total", "hugepages_free"}} {
			whole, has := got["memory.size|"+pair[0]]
			part, also := got["memory.size|"+pair[1]]
			if d := measure.Difference(whole, part); has && also && part == part &&
				whole == whole &&
				d != d {
				t.Errorf("%s %v, %s %v", pair[0], whole, pair[1], part)
			}
		}
	})
}
