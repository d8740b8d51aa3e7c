package collect

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/measure"
)

func TestMemory(t *testing.T) {
	m := newMachine(t, Memory{}, map[string]string{"proc/meminfo": `MemTotal:       24684092 kB
MemFree:        23365796 kB
SReclaimable:     302612 kB
Unheard:              12 kB
HugePages_Total:       3
HugePages_Free:        1
Hugepagesize:       2048 kB
`})
	want := map[string]float64{"memory.size|total": 24684092 * 1024, "memory.size|free": 23365796 * 1024, "memory.size|slab_reclaimable": 302612 * 1024,
		"memory.size|hugepages_total": 6 << 20, "memory.size|hugepages_free": 2 << 20, "memory.size|hugepage": 2 << 20}
	expect(t, m.read(true), "", want)
	expect(t, m.read(false), "", want)
}

func TestVmstat(t *testing.T) {
	page := float64(os.Getpagesize())
	first := `nr_free_pages 915316
workingset_refault_anon 0
workingset_refault_file 100
pgpgin 1000
pgpgout 2000
pswpin 1
pswpout 2
allocstall_dma 1
allocstall_normal 10
pgfault 5000
pgmajfault 50
pgsteal_kswapd 0
pgsteal_direct 7
pgscan_kswapd 10
pgscan_direct 20
oom_kill 0
compact_stall 4
`
	m := newMachine(t, Vmstat{}, map[string]string{"proc/vmstat": first})
	expect(t, m.read(true), "", nil)
	m.put(map[string]string{"proc/vmstat": strings.NewReplacer("pgpgin 1000", "pgpgin 1100", "pswpout 2", "pswpout 5", "stall_dma 1", "stall_dma 3", "stall_normal 10", "stall_normal 11",
		"pgfault 5000", "pgfault 5030", "pgmajfault 50", "pgmajfault 60", "refault_file 100", "refault_file 103", "pgscan_direct 20", "pgscan_direct 30",
		"pgsteal_direct 7", "pgsteal_direct 8", "oom_kill 0", "oom_kill 1").Replace(first)})
	expect(t, m.read(false), "", map[string]float64{
		"memory.paging|in": 100 * 1024, "memory.paging|out": 0, "memory.swap|in": 0, "memory.swap|out": 3 * page,
		"memory.faults|minor": 20, "memory.faults|major": 10, "memory.stalls": 3, "memory.oom": 1, "memory.compaction": 0,
		"memory.scan|kswapd": 0, "memory.scan|direct": 10 * page, "memory.reclaim|kswapd": 0, "memory.reclaim|direct": page,
		"memory.refaults|anon": 0, "memory.refaults|file": 3 * page,
	})
	// A major fault whose two counters are read apart.
	m.put(map[string]string{"proc/vmstat": "pgfault 5030\npgmajfault 61\npgpgin 5\n"})
	rows := m.read(false)
	expect(t, rows, "memory.faults", map[string]float64{"memory.faults|minor": 0, "memory.faults|major": 1})
	expect(t, rows, "memory.paging", map[string]float64{"memory.paging|in": measure.NaN})
}

func TestNameValuesFollowsChangedLines(t *testing.T) {
	n := nameValues{slots: map[string]int{"a": 0, "b": 1, "c": 2}}
	var v [3]uint64
	var seen [3]bool
	for _, c := range []struct {
		text string
		want [3]uint64
	}{
		{"a 1\nx 5\nb 2\nc 3\n", [3]uint64{1, 2, 3}}, {"a 1\nx 5\nb 2\nc 3\n", [3]uint64{1, 2, 3}},
		{"x 5\na 4\nc: 3 kB\n", [3]uint64{4, 0, 3}}, {"b 7\nb x\na\n\n  c 9", [3]uint64{0, 7, 9}},
	} {
		if n.parse([]byte(c.text), v[:], seen[:]); v != c.want {
			t.Errorf("%q: %v, want %v", c.text, v, c.want)
		}
	}
}

func FuzzNameValues(f *testing.F) {
	f.Add([]byte("a 1\nb: 2 kB\n"), []byte("b 3\n\na x\n"))
	f.Add([]byte(" "), []byte(" 0 1"))
	f.Add([]byte("a: 1"), []byte("a:x 5"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		n := nameValues{slots: map[string]int{"a": 0, "b": 1, "": 2}}
		var learnt, fresh [3]uint64
		var seen [3]bool
		n.parse(a, learnt[:], seen[:])
		n.parse(b, learnt[:], seen[:])
		(&nameValues{slots: n.slots}).parse(b, fresh[:], seen[:])
		if learnt != fresh {
			t.Fatalf("%v after another text, %v without", learnt, fresh)
		}
	})
}

func TestSoftnet(t *testing.T) {
	line := func(packets, drops, squeeze string, rest ...string) string {
		return strings.Join(append([]string{packets, drops, squeeze, "0", "0", "0", "0", "0", "0"}, rest...), " ") + "\n"
	}
	m := newMachine(t, Softnet{}, map[string]string{"proc/net/softnet_stat": line("fffffff0", "0", "1", "2", "3", "0", "0", "0", "0") + line("10", "0", "0", "0", "0", "7", "2")})
	expect(t, m.read(true), "", map[string]float64{"softnet.backlog|0": 0, "softnet.backlog|2": 7})
	m.put(map[string]string{"proc/net/softnet_stat": line("00000010", "5", "2", "4", "6", "1", "0", "0", "0") + line("1f", "0", "0", "0", "0", "0", "2")})
	expect(t, m.read(false), "", map[string]float64{"softnet.packets|0": 32, "softnet.drops|0": 5, "softnet.squeezes|0": 1, "softnet.rps|0": 2, "softnet.flowlimit|0": 3, "softnet.backlog|0": 1,
		"softnet.packets|2": 15, "softnet.drops|2": 0, "softnet.squeezes|2": 0, "softnet.rps|2": 0, "softnet.flowlimit|2": 0, "softnet.backlog|2": 0})
	// A kernel before 5.10: no backlog, no CPU; and a line that is none.
	old := newMachine(t, Softnet{}, map[string]string{"sys/devices/system/cpu/online": "0,3\n", "proc/net/softnet_stat": line("1", "0", "0", "0", "0") + line("2", "0", "0", "0", "0")})
	old.read(true)
	old.put(map[string]string{"proc/net/softnet_stat": line("2", "0", "0", "0", "0") + line("4", "0", "0", "0", "0") + "zz\n"})
	expect(t, old.read(false), "softnet.packets", map[string]float64{"softnet.packets|0": 1, "softnet.packets|3": 2})
	if !strings.Contains(old.notes(), "5.10") {
		t.Errorf("notes %q", old.notes())
	}
}

func FuzzSoftnet(f *testing.F) {
	f.Add([]byte("00000802 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000001"))
	f.Add([]byte("1 2 3 4 5 6 7 8 9"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, ok := parseSoftnetLine(b); ok && (l.columns < 9 || l.packets >= 1<<32 || l.cpu < -1) {
			t.Fatalf("%q: %+v", b, l)
		}
	})
}

func TestCPUList(t *testing.T) {
	for text, want := range map[string]int{"0-3,8,10-11\n": 7, "0\n": 1, "": 0, "\n": 0, "3-1": -1, "x": -1, "1,,2": -1, "0-99999999999": -1, "1-": -1} {
		got, ok := parseCPUList(nil, []byte(text))
		if ok != (want >= 0) || ok && len(got) != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
}

func FuzzCPUList(f *testing.F) {
	f.Add([]byte("0-3,8"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _ := parseCPUList(nil, b)
		for _, n := range got {
			if n < 0 || n >= 1<<16 {
				t.Fatalf("%q: %d", b, n)
			}
		}
	})
}

func TestPressure(t *testing.T) {
	m := newMachine(t, Pressure{}, map[string]string{
		"proc/pressure/cpu": "some avg10=1.69 avg60=8.16 avg300=4.54 total=100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"proc/pressure/io":  "some avg10=1.69 avg60=8.16 avg300=4.54 total=5\n", "proc/pressure/irq": "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"})
	expect(t, m.read(true), "", nil)
	m.put(map[string]string{
		"proc/pressure/cpu": "some avg10=1.69 avg60=8.16 avg300=4.54 total=1100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=10\n",
		"proc/pressure/io":  "some avg10=1.69 avg60=8.16 avg300=4.54 total=6\n", "proc/pressure/irq": "full avg10=0.00 avg60=0.00 avg300=0.00 total=17\n"})
	expect(t, m.read(false), "", map[string]float64{"pressure.time|cpu|some": 1e6, "pressure.time|cpu|full": 1e4, "pressure.time|io|some": 1e3, "pressure.time|irq|full": 1e4})
}

func TestNoPressureNoSchedstat(t *testing.T) {
	m := newMachine(t, Load{}, map[string]string{"proc/loadavg": "0.69 0.41 0.20 1/94 13674\n"})
	expect(t, m.read(true), "", map[string]float64{"sched.load|1m": 0.69, "sched.load|5m": 0.41, "sched.load|15m": 0.2, "sched.tasks": 94})
	for _, c := range []Collector{Pressure{}, Schedstat{}} {
		if _, err := c.Open(&m.env, wantAll(c)); err == nil || !strings.Contains(err.Error(), "CONFIG_") {
			t.Errorf("%T: %v", c, err)
		}
	}
}

func TestSchedstat(t *testing.T) {
	file := func(a, b string) string {
		return "version 17\ntimestamp 4295101238\ncpu0 0 0 0 0 0 0 159382451538 " + a + " 53092\ndomain0 SMT 03 1 2 3 4\ncpu1 0 0 0 0 0 0 1 " + b + " 5\n"
	}
	m := newMachine(t, Schedstat{}, map[string]string{"proc/schedstat": file("1000", "50")})
	m.read(true)
	m.put(map[string]string{"proc/schedstat": file("3500", "50")})
	expect(t, m.read(false), "", map[string]float64{"sched.runwait|0": 2500, "sched.runwait|1": 0})
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("0.69 0.41 0.20 1/94 13674\n"))
	f.Add([]byte("cpu0 0 0 0 0 0 0 159382451538 5 53092\n"))
	f.Add([]byte("some avg10=1.69 avg60=8.16 avg300=4.54 total=100\nfull total=3"))
	f.Add([]byte("dentry  5 6 192 21 1 : tunables 0 0 0 : slabdata 3 4 0"))
	f.Add([]byte("63808\t62176\t45\t0\t10756\t-1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		parseLoad(b)
		parseSchedstat(b, func(cpu int, _ uint64) {
			if cpu < 0 {
				t.Fatal(cpu)
			}
		})
		parsePressure(b)
		if _, _, pages, ok := parseSlabLine(b); ok && pages > 1<<56 {
			t.Fatal(pages)
		}
		var v [6]uint64
		parseNumbers(v[:], b)
		parseHashMessage(b)
	})
}

func TestCaches(t *testing.T) {
	files := map[string]string{"proc/sys/fs/dentry-state": "63808\t62176\t45\t0\t10756\t0\n", "proc/sys/fs/inode-state": "52894\t0\t0\t0\t0\t0\t0\n", "proc/sys/fs/file-nr": "593\t0\t2466177\n",
		"proc/slabinfo": "slabinfo - version: 2.1\n# name            <active_objs> <num_objs>\ndentry  5 6 192 21 2 : tunables    0    0    0 : slabdata      3      4      0\n"}
	m := newMachine(t, Caches{}, files)
	level := map[string]float64{"cache.entries||dentry": 63808, "cache.entries||dentry-unused": 62176, "cache.entries||dentry-negative": 10756, "cache.entries||inode": 52894,
		"cache.entries||inode-unused": 0, "cache.entries||file": 593, "cache.entries||slab:dentry": 5}
	rows := m.read(true)
	expect(t, rows, "cache.entries", level)
	expect(t, rows, "cache.limit", map[string]float64{"cache.limit||file": 2466177})
	expect(t, rows, "cache.bytes", map[string]float64{"cache.bytes||slab:dentry": float64(8 * os.Getpagesize())})
	expect(t, rows, "cache.growth", nil)
	expect(t, rows, "cache.buckets", nil)
	m.put(map[string]string{"proc/sys/fs/file-nr": "590\t0\t2466177\n"})
	expect(t, m.read(false), "cache.growth", map[string]float64{"cache.growth||dentry": 0, "cache.growth||dentry-unused": 0, "cache.growth||dentry-negative": 0,
		"cache.growth||inode": 0, "cache.growth||inode-unused": 0, "cache.growth||file": -3, "cache.growth||slab:dentry": 0})
	if !strings.Contains(m.notes(), "boot messages") {
		t.Errorf("notes %q", m.notes())
	}
	if name, n, ok := parseHashMessage([]byte("6,23,0,-;Dentry cache hash table entries: 4194304 (order: 13, 33554432 bytes, linear)\n")); name != "dentry" || n != 4194304 || !ok {
		t.Error(name, n, ok)
	}
}

// Slabs are dear: two readings are always taken, then only as many as the time that they take allows. In between their size is the
// one read last, and their growth is unknown; that of the reading after is the mean since the one before.
func TestSlabsBetweenReadings(t *testing.T) {
	line := func(objects int) map[string]string {
		return map[string]string{"proc/slabinfo": fmt.Sprintf("kmalloc-8 7 7 8 1 1 : tunables 0 0 0 : slabdata 1 1 0\ndentry  %d 6 192 21 2 : tunables    0    0    0 : slabdata      3      4      0\n", objects)}
	}
	m := newMachine(t, Caches{}, line(5))
	slabs := &m.reading.(*cacheReading).slabTable
	m.read(true)
	m.put(line(15))
	rows := m.read(false)
	if g := rows["cache.growth||slab:dentry"]; math.Abs(g-10) > 1e-6 {
		t.Errorf("growth %v, want 10", g)
	}
	first := m.out.Over().Span()
	slabs.due = time.Now().Add(time.Hour)
	m.put(line(115))
	rows = m.read(false)
	if rows["cache.entries||slab:dentry"] != 15 || rows["cache.growth||slab:dentry"] == rows["cache.growth||slab:dentry"] || !strings.Contains(m.notes(), "between readings") {
		t.Errorf("between readings: %v, notes %q", rows, m.notes())
	}
	between := m.out.Over().Span()
	slabs.due = time.Time{}
	rows = m.read(false)
	want := 100 * float64(m.out.Over().Span()) / float64(between+m.out.Over().Span())
	if g := rows["cache.growth||slab:dentry"]; rows["cache.entries||slab:dentry"] != 115 || math.Abs(g-want) > 1e-6 || g >= 100 {
		t.Errorf("after readings %v and %v apart: %v entries, growth %v, want %v", first, between, rows["cache.entries||slab:dentry"], g, want)
	}
	if slabs.readings != 3 {
		t.Errorf("%d readings, want 3", slabs.readings)
	}
}

// Slabs are dear: without cache.bytes nobody may read them.
func TestSlabsOnlyWhenWanted(t *testing.T) {
	m := newMachine(t, Caches{}, map[string]string{"proc/slabinfo": "slab\n"})
	r, err := Caches{}.Open(&m.env, Want{"cache.entries": {"cache": true}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.(*cacheReading).slabs != nil {
		t.Error("slabinfo was opened")
	}
}

func TestMachine(t *testing.T) {
	m := newMachine(t, Machine{}, map[string]string{"proc/sys/kernel/hostname": "box\n", "proc/sys/kernel/osrelease": "6.18\n",
		"sys/class/dmi/id/sys_vendor": "Maker\n", "sys/class/dmi/id/product_name": "Maker Model 3\n",
		"sys/devices/system/cpu/online": "0,2\n", "sys/devices/system/cpu/present": "0-2\n",
		"sys/devices/system/cpu/cpu0/topology/physical_package_id": "0\n", "sys/devices/system/cpu/cpu0/topology/core_id": "4\n", "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2400000\n",
		"sys/devices/system/cpu/cpu2/topology/physical_package_id": "1\n", "sys/devices/system/cpu/cpu2/topology/core_id": "5\n"})
	rows := m.read(true)
	expect(t, rows, "cpu", map[string]float64{"cpu.online|0|0|4": 1, "cpu.online|1||": 0, "cpu.online|2|1|5": 1, "cpu.frequency|0": 2.4e9})
	found := false
	for k := range rows {
		found = found || strings.HasPrefix(k, "system.info|box|6.18|") && strings.HasSuffix(k, "|Maker Model 3")
	}
	if !found {
		t.Errorf("no system.info in %v", rows)
	}
	m.put(map[string]string{"sys/devices/system/cpu/online": "0\n"})
	expect(t, m.read(false), "cpu.online", map[string]float64{"cpu.online|0|0|4": 1, "cpu.online|1||": 0, "cpu.online|2||": 0})
}

// A file that a container hides behind an empty one gives the reason with the blanks.
func TestEmptyMemoryFilesAreToldOf(t *testing.T) {
	for name, c := range map[string]Collector{"proc/meminfo": Memory{}, "proc/vmstat": Vmstat{}} {
		m := newMachine(t, c, map[string]string{name: ""})
		m.out.start(true)
		if err := m.reading.Read(m.out); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("an empty %s: %v", name, err)
		}
	}
}

// vmstats are the lines of /proc/vmstat that matter here, as kernels from 3.10 on write them.
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
`,
}

// TestVmstatOfAllKernels: each statistic has its rows by the names of each kernel, or says why it has none.
func TestVmstatOfAllKernels(t *testing.T) {
	page := float64(os.Getpagesize())
	missing := map[string][]measure.StatID{"3.10": {"memory.refaults", "memory.oom"}, "4.4": {"memory.oom"}}
	for release, text := range vmstats {
		zeros := ""
		for line := range strings.Lines(text) {
			name, _, _ := strings.Cut(line, " ")
			zeros += name + " 0\n"
		}
		m := newMachine(t, Vmstat{}, map[string]string{"proc/vmstat": zeros})
		m.read(true)
		m.put(map[string]string{"proc/vmstat": text})
		got := m.read(false)
		for key, want := range map[string]float64{"memory.scan|kswapd": 710 * page, "memory.scan|direct": 305 * page, "memory.reclaim|kswapd": 610 * page,
			"memory.reclaim|direct": 205 * page, "memory.stalls": 12, "memory.compaction": 3, "memory.refaults|file": 40 * page, "memory.faults|major": 1} {
			id, _, _ := strings.Cut(key, "|")
			if v, ok := got[key]; v != want || !ok {
				if !slices.Contains(missing[release], measure.StatID(id)) {
					t.Errorf("%s: %s is %v, want %v", release, key, v, want)
				}
			}
		}
		for _, b := range m.out.finish(nil) {
			lacks := slices.Contains(missing[release], b.Stat)
			if told := b.Over.Span() == 0 && len(b.Notes) > 0; told != lacks || lacks != (len(b.Values) == 0) {
				t.Errorf("%s: %s has %d rows over %v and notes %q", release, b.Stat, len(b.Values), b.Over.Span(), b.Notes)
			}
		}
	}
}

// TestPartsOfMemory: whatever is a part of something is never more than that, or unknown: what is left is never below 0.
func TestPartsOfMemory(t *testing.T) {
	numbers := []string{"0", "1", "512", "1024", "18446744073709551488", "18446744073709551615"}
	for line := range strings.SplitSeq("MemFree MemTotal\nMemAvailable MemTotal\nSwapFree SwapTotal", "\n") {
		part, whole, _ := strings.Cut(line, " ")
		kinds := map[string]string{}
		for l := range strings.SplitSeq(memoryKinds, "\n") {
			name, kind, _ := strings.Cut(l, " ")
			kinds[name] = "memory.size|" + strings.TrimPrefix(kind, "*")
		}
		for _, p := range numbers {
			for _, w := range numbers {
				m := newMachine(t, Memory{}, map[string]string{"proc/meminfo": whole + ": " + w + " kB\n" + part + ": " + p + " kB\nHugepagesize: 2048 kB\n"})
				got := m.read(true)
				pv, known := got[kinds[part]]
				if known && pv > got[kinds[whole]]*1.01 {
					t.Errorf("%s %s of %s %s: %v of %v", part, p, whole, w, pv, got[kinds[whole]])
				}
			}
		}
	}
}

// TestUnreadableNumbersOfStat: what /proc/stat does not say in a number is unknown, not 0 or as it was before.
func TestUnreadableNumbersOfStat(t *testing.T) {
	whole := "cpu  1 0 0 0 0 0 0 0 0 0\ncpu0 1 0 0 0 0 0 0 0 0 0\nintr 5 1 2\nctxt 9\nprocesses 7\nprocs_running 2\nprocs_blocked 1\n"
	for name, id := range map[string]measure.StatID{"processes": "sched.forks", "intr": "system.interrupts", "procs_running": "sched.runnable", "procs_blocked": "sched.blocked"} {
		for _, value := range []string{"-2049562273", "", "x", "99999999999999999999999"} {
			m := newMachine(t, CPU{}, map[string]string{"proc/stat": whole})
			m.read(true)
			var text strings.Builder
			for line := range strings.Lines(whole) {
				if strings.HasPrefix(line, name+" ") {
					line = name + " " + value + "\n"
				}
				text.WriteString(line)
			}
			m.put(map[string]string{"proc/stat": text.String()})
			got := m.read(false)
			if v, ok := got[string(id)]; ok {
				t.Errorf("%s %q: %s is %v", name, value, id, v)
			}
			if _, ok := got["sched.switches"]; !ok {
				t.Errorf("%s %q: sched.switches is unknown too", name, value)
			}
		}
	}
}
