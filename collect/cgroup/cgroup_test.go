package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/collecttest"
	"culprit/collect/procfs"
	"culprit/heapbound"
	"culprit/kernel"
	"culprit/measure"
)

// cgroupMachine has one hierarchy of version 1 for each controller, and one of version 2.
func cgroupMachine(t *testing.T, files map[string]string) *collecttest.Machine {
	mounts := ""
	for i, c := range []string{"cpu,cpuacct", "memory", "blkio", "pids"} {
		mounts += fmt.Sprintf(
			"3%d 31 0:3%d / DIR/cg/%s rw,relatime - cgroup cgroup rw,%s\n", i, i, c, c,
		)
	}
	mounts += "41 31 0:40 / DIR/cg/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
	all := map[string]string{"cg/unified/cgroup.stat": "nr_descendants 1\nnr_dying_descendants 0\n",
		"proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t2\t1\ncpuacct\t1\t2\t1\nmemory\t2\t2\t1\nblkio\t3\t2\t1\npids\t4\t1\t1\n"}
	for _, c := range []string{"cpu,cpuacct", "memory", "blkio", "pids"} {
		all["cg/"+c+"/release_agent"] = "\n" // only the true top has it
	}
	for k, v := range files {
		all[k] = v
	}
	return cgroupsAt(t, mounts, all)
}

// cgroupsAt returns a machine with the hierarchies of a mountinfo, in which DIR means the machine's
// directory.
func cgroupsAt(t *testing.T, mounts string, files map[string]string) *collecttest.Machine {
	m := collecttest.EmptyMachine(t)
	all := map[string]string{"proc/self/mountinfo": strings.ReplaceAll(mounts, "DIR", m.Dir)}
	for k, v := range files {
		all[k] = v
	}
	m.Put(all)
	m.Open(Cgroups{})
	return m
}

// withTops adds the rows of cgroup.top to the rows of a cgroupMachine.
func withTops(rows map[string]float64) map[string]float64 {
	for _, c := range []string{"cpu,cpuacct", "memory", "blkio", "pids", "v2"} {
		rows["cgroup.top|machine|"+c] = 1
	}
	return rows
}

// again takes a reading in which no walk is deferred.
func again(m *collecttest.Machine) map[string]float64 {
	m.T.Helper()
	for _, tree := range m.Reading.(*cgroupReading).trees {
		tree.cost = 0
	}
	return m.Read(false)
}

func TestCgroupsVersion1(t *testing.T) {
	at := "cg/cpu,cpuacct/a/"
	m := cgroupMachine(
		t,
		map[string]string{
			at + "cpuacct.stat":  "user 100\nsystem 100\n",
			at + "cpuacct.usage": "2000000000\n",
			at + "cpu.stat": "nr_periods 10\nnr_throttled " +
				"1\nthrottled_time 500\n",
			at + "cpu.cfs_period_us":            "100000\n",
			at + "cpu.cfs_quota_us":             "150000\n",
			at + "cpu.shares":                   "2\n",
			"cg/cpu,cpuacct/cpu.shares":         "1024\n",
			"cg/cpu,cpuacct/cpu.cfs_period_us":  "100000\n",
			"cg/cpu,cpuacct/cpu.cfs_quota_us":   "-1\n",
			"cg/memory/a/memory.usage_in_bytes": "5000\n",
			"cg/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
			"cg/memory/memory.limit_in_bytes":   "8192\n",
			"cg/memory/a/memory.stat": "cache 0\nrss 0\ntotal_cache " +
				"70\ntotal_rss 30\n",
			"cg/memory/a/memory.kmem.usage_in_bytes": "9\n",
			"cg/memory/a/memory.failcnt":             "1\n",
			"cg/memory/a/memory.oom_control": "oom_kill_disable 0\nunder_oom " +
				"0\noom_kill 0\n",
			"cg/blkio/a/blkio.throttle.io_service_bytes_recursive": "254:0 Read 4096\n254:0 " +
				"Write " +
				"10\n254:0 Total 4106\nTotal 4106\n",
			"cg/blkio/a/blkio.throttle.read_bps_device":  "254:0 1000\n8:0 3000\n",
			"cg/blkio/a/blkio.throttle.write_bps_device": "254:0 7000\n",

			"cg/blkio/a/blkio.throttle.write_iops_device":     "254:0 50\n",
			"cg/blkio/a/blkio.throttle.io_serviced_recursive": "254:0 Read 8\n254:0 Write 3\n",
			"cg/pids/pids.current":                            "7\n",
			"cg/pids/pids.max":                                "max\n",
			"cg/pids/a/pids.max":                              "64\n",
			"cg/pids/a/pids.events":                           "max 3\n",
			"cg/pids/a/pids.current":                          "61\n",
		},
	)
	levels := withTops(
		map[string]float64{
			"cgroup.quota|/a":             1.5,
			"cgroup.weight|/a|cpu.shares": 2,
			"cgroup.weight|/|cpu.shares":  1024,
			"cgroup.memory|/a|current":    5000,
			"cgroup.memory|/|limit":       8192,
			"cgroup.memory|/a|anon":       30,
			"cgroup.memory|/a|file":       70,
			"cgroup.memory|/a|kernel":     9,
			"cgroup.pids|/":               7,
			"cgroup.pids|/a":              61,

			"cgroup.io.limit|/a|254:0|read":  8000,
			"cgroup.io.limit|/a|8:0|read":    24000,
			"cgroup.io.limit|/a|254:0|write": 56000,

			"cgroup.io.operations.limit|/a|254:0|write": 50,

			"cgroup.pids.limit|/a": 64,
		},
	)
	collecttest.Expect(t, m.Read(true), "", levels)
	m.Put(
		map[string]string{
			at + "cpuacct.stat":  "user 175\nsystem 125\n",
			at + "cpuacct.usage": "3010000000\n",
			at + "cpu.stat": "nr_periods 20\nnr_throttled 4\nthrottled_time " +
				"100500\n",
			"cg/memory/a/memory.failcnt":                      "5\n",
			"cg/blkio/a/blkio.throttle.io_serviced_recursive": "254:0 Read 8\n254:0 Write 52\n",
			"cg/pids/a/pids.events":                           "max 14\n",
			"cg/memory/a/memory.oom_control":                  "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
			"cg/blkio/a/blkio.throttle.io_service_bytes_recursive": "254:0 Read 5096\n254:0 " +
				"Write " +
				"10\n254:0 Total 4106\n8:0 Read 7\n8:0 Write 0\nTotal 4106\n",
		},
	)
	for k, v := range map[string]float64{"cgroup.cpu|/a|usr": 0.75 * 1.01e9, "cgroup.cpu|/a|sys": 0.25 * 1.01e9, "cgroup.periods|/a|total": 10, "cgroup.periods|/a|throttled": 3,
		"cgroup.throttled|/a": 1e5, "cgroup.memory.events|/a|max": 4,
		"cgroup.pids.refusals|/a": 11, "cgroup.memory.events|/a|oom_kill": 2,
		"cgroup.io.operations|/a|254:0|write": 49, "cgroup.io|/a|254:0|read": 1000,
		"cgroup.io|/a|8:0|read": 7} {
		levels[k] = v
	}
	collecttest.Expect(t, again(m), "", levels)
	// CPU time without a new tick is divided like the previous one.
	m.Put(map[string]string{at + "cpuacct.usage": "3010004000\n"})
	collecttest.Expect(
		t, again(m), "cgroup.cpu",
		map[string]float64{"cgroup.cpu|/a|usr": 3000, "cgroup.cpu|/a|sys": 1000},
	)
}

func TestCgroupsVersion2(t *testing.T) {
	at := "cg/unified/b/"
	stat := func(usr, sys, throttled int) string {
		return fmt.Sprintf("usage_usec %d\nuser_usec %d\nsystem_usec %d\nnr_periods "+
			"5\nnr_throttled %d\nthrottled_usec %d\n", usr+sys, usr, sys, throttled, throttled*10)
	}
	m := cgroupMachine(
		t,
		map[string]string{
			at + "cpu.stat":       stat(100, 50, 0),
			at + "cpu.max":        "50000 100000\n",
			"cg/unified/cpu.max":  "max 100000\n",
			at + "memory.current": "4096\n",
			at + "memory.max":     "max\n",
			at + "io.max":         "8:16 rbps=2000 wbps=max riops=max wiops=120\n8:32 rbps=max wbps=30\n",
			at + "memory.high":    "8192\n",
			at + "memory.stat":    "anon 1\nfile 2\nkernel 3\n",
			at + "memory.events": "low 0\nhigh " +
				"0\nmax 3\noom 0\noom_kill 0\n",
			at + "io.stat": "254:0 rbytes=100 wbytes=0 rios=1 " +
				"wios=0 dbytes=0 dios=0\n8:0 \n",
			at + "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=10\nfull " +
				"avg10=0.00 " +
				"avg60=0.00 avg300=0.00 total=0\n",
			// If version 1 has the same path, it counts.
			"cg/cpu,cpuacct/c/cpuacct.stat":  "user 1\nsystem 1\n",
			"cg/cpu,cpuacct/c/cpuacct.usage": "100\n",
			"cg/unified/c/cpu.stat":          stat(1, 1, 0),
		},
	)
	levels := withTops(
		map[string]float64{
			"cgroup.io.limit|/b|8:16|read": 16000, "cgroup.io.limit|/b|8:32|write": 240,
			"cgroup.io.operations.limit|/b|8:16|write": 120,
			"cgroup.quota|/b":                          0.5,
			"cgroup.memory|/b|current":                 4096,
			"cgroup.memory|/b|high":                    8192,
			"cgroup.memory|/b|anon":                    1,
			"cgroup.memory|/b|file":                    2,
			"cgroup.memory|/b|kernel":                  3,
		},
	)
	collecttest.Expect(t, m.Read(true), "", levels)
	m.Put(
		map[string]string{
			at + "cpu.stat":      stat(350, 50, 2),
			at + "memory.events": "low 0\nhigh 1\nmax 5\noom 0\noom_kill 1\n",
			at + "io.stat": "254:0 rbytes=100 wbytes=60 rios=1 wios=0 dbytes=5 " +
				"dios=0\n8:0 \n",
			at + "cpu.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 " +
				"total=15\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
			"cg/cpu,cpuacct/c/cpuacct.stat":  "user 1\nsystem 1\n",
			"cg/cpu,cpuacct/c/cpuacct.usage": "500\n",
			"cg/unified/c/cpu.stat":          stat(100, 1, 0),
		},
	)
	for k, v := range map[string]float64{"cgroup.cpu|/b|usr": 250e3, "cgroup.periods|/b|throttled": 2, "cgroup.throttled|/b": 20e3, "cgroup.memory.events|/b|high": 1, "cgroup.memory.events|/b|max": 2,
		"cgroup.memory.events|/b|oom_kill": 1, "cgroup.io|/b|254:0|write": 60, "cgroup.io|/b|254:0|discard": 5, "cgroup.pressure.time|/b|cpu|some": 5000,
		"cgroup.cpu|/c|usr": 200, "cgroup.cpu|/c|sys": 200} {
		levels[k] = v
	}
	collecttest.Expect(t, again(m), "", levels)
	m.Put(map[string]string{at + "cpu.stat": stat(3, 50, 2)})
	collecttest.Expect(
		t, again(m), "cgroup.cpu|/b", map[string]float64{"cgroup.cpu|/b|usr": measure.NaN},
	)
}

func TestCgroupsComeAndGo(t *testing.T) {
	use := func(n int) string { return fmt.Sprintf("usage_usec %d\nuser_usec %d\nsystem_usec 0\n", n, n) }
	m := cgroupMachine(t, map[string]string{"cg/unified/old/cpu.stat": use(1000)})
	m.Read(true)
	// A new group within another is found because the kernel's count changed. It counts from zero.
	m.Put(
		map[string]string{
			"cg/unified/cgroup.stat":     "nr_descendants 3\n",
			"cg/unified/old/cpu.stat":    use(1001),
			"cg/unified/new/cpu.stat":    use(5),
			"cg/unified/new/in/cpu.stat": use(4),
		},
	)
	collecttest.Expect(
		t,
		again(m),
		"cgroup.cpu",
		map[string]float64{
			"cgroup.cpu|/old|usr":    1e3,
			"cgroup.cpu|/new|usr":    5e3,
			"cgroup.cpu|/new/in|usr": 4e3,
		},
	)
	// Groups go, and another one of an old name comes. It has no previous reading.
	if err := os.RemoveAll(filepath.Join(m.Dir, "cg/unified/new")); err != nil {
		t.Fatal(err)
	}
	m.Put(
		map[string]string{
			"cg/unified/cgroup.stat":  "nr_descendants 1\n",
			"cg/unified/old/cpu.stat": use(1003),
		},
	)
	collecttest.Expect(t, again(m), "cgroup.cpu", map[string]float64{"cgroup.cpu|/old|usr": 2e3})
	if r := m.Reading.(*cgroupReading); len(r.trees[len(r.trees)-1].order) != 2 {
		t.Errorf("%d groups left", len(r.trees[len(r.trees)-1].order))
	}
	// A deferred walk finds a group late. It may be older than the interval and does not count from
	// zero.
	m.Put(
		map[string]string{
			"cg/unified/cgroup.stat":   "nr_descendants 2\n",
			"cg/unified/late/cpu.stat": use(1),
		},
	)
	for _, tree := range m.Reading.(*cgroupReading).trees {
		tree.cost = 1 << 40
	}
	m.Read(false)
	collecttest.Expect(t, again(m), "cgroup.cpu", nil)
	m.Put(map[string]string{"cg/unified/late/cpu.stat": use(4)})
	collecttest.Expect(t, again(m), "cgroup.cpu", map[string]float64{"cgroup.cpu|/late|usr": 3e3})
}

func FuzzCgroupFiles(f *testing.F) {
	f.Add([]byte("254:0 rbytes=100 wbytes=0 rios=1\n"), []byte("254:0 Read 5\nTotal 5\n"))
	f.Add(
		[]byte("nr_periods 5\nnr_throttled 6\nuser_usec 9\nsystem_usec 8\n"),
		[]byte("max 100000\n"),
	)
	heapbound.Fuzz(f, func(t *testing.T, a, b []byte) {
		r := newCgroupReading(kernel.Root{Sys: t.TempDir()})
		out := collect.NewOut(Cgroups{}.Stats(), collect.NewDictionary(), false)
		n := r.node(nil, "/x", r.name("/x"), 0)
		n.states = make([]cgroupState, len(allCgroupFiles()))
		r.layout = &procfs.NameValues{Slots: r.slots}
		for i, text := range [][]byte{a, b, a} {
			out.Start(i == 0, time.Now())
			r.round++
			r.words.Of(out, r.wordsList)
			n.name.label = out.Label("/x")
			for k, file := range allCgroupFiles() {
				file.read(r, out, n, k, text)
				n.states[k].round = r.round
			}
			parseIOLine2(text)
			for _, batch := range out.Finish(nil) {
				for _, v := range batch.Values {
					if v < 0 {
						t.Fatalf("%s: %v", batch.Stat, v)
					}
				}
			}
		}
	})
}

// What cannot have changed is not read, but is known when it changes again.
func TestCgroupsQuiet(t *testing.T) {
	use := func(n int) string { return fmt.Sprintf("usage_usec %d\nuser_usec %d\nsystem_usec 0\n", n, n) }
	m := cgroupMachine(
		t,
		map[string]string{
			"cg/unified/p/cpu.stat":       use(10),
			"cg/unified/p/q/cpu.stat":     use(10),
			"cg/unified/p/q/pids.current": "1\n",
			"cg/unified/p/q/cpu.max":      "max 100000\n",
		},
	)
	m.Read(true)
	again(m)
	again(m)
	// The parent's counter did not grow, so the child's file, which has an impossible number, is
	// not read.
	m.Put(map[string]string{"cg/unified/p/q/cpu.stat": use(15)})
	collecttest.Expect(t, again(m), "cgroup.cpu", nil)
	m.Put(map[string]string{"cg/unified/p/cpu.stat": use(17), "cg/unified/p/q/cpu.stat": use(17)})
	collecttest.Expect(
		t, again(m), "cgroup.cpu",
		map[string]float64{"cgroup.cpu|/p|usr": 7e3, "cgroup.cpu|/p/q|usr": 7e3},
	)
	// A quiet group's threads are counted each eighth time, an active one's at once. A quota is
	// found within 16 readings.
	again(m)
	m.Put(
		map[string]string{
			"cg/unified/p/q/pids.current": "2\n",
			"cg/unified/p/q/cpu.max":      "50000 100000\n",
		},
	)
	found := map[string]int{}
	for i := range 16 {
		rows := again(m)
		if rows["cgroup.pids|/p/q"] == 2 && found["pids"] == 0 {
			found["pids"] = i + 1
		}
		if rows["cgroup.quota|/p/q"] == 0.5 && found["quota"] == 0 {
			found["quota"] = i + 1
		}
	}
	if found["pids"] < 1 || found["pids"] > 8 || found["quota"] < 1 {
		t.Errorf("found after %v readings", found)
	}
	m.Put(
		map[string]string{
			"cg/unified/p/q/pids.current": "3\n",
			"cg/unified/p/cpu.stat":       use(18),
			"cg/unified/p/q/cpu.stat":     use(18),
		},
	)
	collecttest.Expect(t, again(m), "cgroup.pids", map[string]float64{"cgroup.pids|/p/q": 3})
}

func BenchmarkRead(b *testing.B) { collecttest.BenchmarkRead(b, Cgroups{}) }
