package cgroup

import (
	"fmt"
	"strings"
	"testing"

	"culprit/collect/collecttest"
)

// cgroupKeyFiles returns a machine with a control group of the version.
func cgroupKeyFiles(version int) collecttest.KeyedMachine {
	number := collecttest.ColumnKeys(0, 10)
	still := collecttest.KeyedFile{Cut: number.Cut, Grow: func(s string) string { return s }}
	// The lines of a device are not keys: a group without them used no device.
	devices := func(keyed collecttest.KeyedFile, device string) collecttest.KeyedFile {
		return collecttest.KeyedFile{Grow: keyed.Grow, Cut: func(text string) map[string]string {
			all := keyed.Cut(text)
			delete(all, "all")
			delete(all, device)
			return all
		}}
	}
	ioLines := collecttest.KeyedFile{
		Grow: collecttest.GrowFrom(2, 10),
		Cut: func(text string) map[string]string {
			all := map[string]string{}
			for _, kind := range []string{"Read", "Write", "Discard"} {
				line, _, _ := strings.Cut(text[strings.Index(text, "254:0 "+kind):], "\n")
				all[kind] = strings.Replace(text, line+"\n", "", 1)
			}
			return all
		},
	}
	k := collecttest.KeyedMachine{
		Collector: Cgroups{},
		Beside:    map[string]string{"cg/u/cgroup.stat": "nr_descendants 1\n"},
		Files:     map[string]collecttest.KeyedFile{},
		Texts:     map[string]string{},
	}
	add := func(name string, keyed collecttest.KeyedFile, text string) {
		k.Files[name], k.Texts[name] = keyed, text
	}
	if version == 2 {
		at := "cg/u/a/"
		k.Touches = map[string]string{at + "cpu.stat": "cgroup.cpu cgroup.periods cgroup.throttled"}
		// Without its controller no group has a quota.
		k.Dependent = map[string]string{at + "cpu.max ": "cgroup.quota",
			at + "cpu.weight ": "cgroup.weight"}
		k.Beside["proc/self/mountinfo"] = "41 31 0:40 / DIR/cg/u rw - cgroup2 cgroup2 rw\n"
		add(at+"cpu.stat", collecttest.LineKeys, "usage_usec 900\nuser_usec 500\nsystem_usec "+
			"400\nnr_periods 10\nnr_throttled 3\nthrottled_usec 700\n")
		add(at+"cpu.max", still, "50000 100000\n")
		add(at+"cpu.weight", number, "70\n")
		add(at+"memory.current", number, "5000\n")
		add(at+"memory.max", number, "90000\n")
		add(at+"memory.high", number, "80000\n")
		add(at+"memory.stat", collecttest.LineKeys, "anon 300\nfile 700\nkernel 90\n")
		add(at+"memory.events", collecttest.LineKeys, "low 0\nhigh 5\nmax 7\noom 2\noom_kill 3\n")
		add(at+"io.stat", devices(collecttest.OptionKeys, "254:0"), "254:0 rbytes=100 "+
			"wbytes=200 rios=3 wios=4 dbytes=50 dios=6\n")
		add(at+"pids.current", number, "7\n")
		add(at+"pids.max", still, "64\n")
		add(at+"pids.events", collecttest.LineKeys, "max 5\n")
		for _, resource := range []string{"cpu", "memory", "io"} {
			add(at+resource+".pressure", collecttest.OptionKeys, "some avg10=0.00 avg60=0.00 "+
				"avg300=0.00 total=100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=50\n")
		}
		return k
	}
	mounts := ""
	for i, c := range []string{"cpu,cpuacct", "memory", "blkio", "pids"} {
		mounts += fmt.Sprintf("3%d 31 0:3%d / DIR/cg/%s rw - cgroup cgroup rw,%s\n", i, i, c, c)
		k.Beside["cg/"+c+"/release_agent"] = "\n"
	}
	k.Beside["proc/self/mountinfo"] = mounts
	add("cg/cpu,cpuacct/a/cpuacct.usage", number, "2000000000\n")
	add("cg/cpu,cpuacct/a/cpuacct.stat", collecttest.LineKeys, "user 100\nsystem 100\n")
	add("cg/cpu,cpuacct/a/cpu.stat", collecttest.LineKeys, "nr_periods 10\nnr_throttled "+
		"1\nthrottled_time 500\n")
	add("cg/cpu,cpuacct/a/cpu.cfs_period_us", number, "100000\n")
	add("cg/cpu,cpuacct/a/cpu.shares", number, "2\n")
	add("cg/cpu,cpuacct/a/cpu.cfs_quota_us", number, "150000\n")
	add("cg/memory/a/memory.usage_in_bytes", number, "5000\n")
	add("cg/memory/a/memory.limit_in_bytes", number, "90000\n")
	add("cg/memory/a/memory.stat", collecttest.LineKeys, "cache 0\nrss "+
		"0\nhierarchical_memory_limit 70000\ntotal_cache 70\ntotal_rss 30\n")
	add("cg/memory/a/memory.kmem.usage_in_bytes", number, "90\n")
	add("cg/memory/a/memory.failcnt", number, "1\n")
	add("cg/memory/a/memory.oom_control", collecttest.LineKeys, "oom_kill_disable 0\nunder_oom "+
		"0\noom_kill 1\n")
	add("cg/blkio/a/blkio.throttle.io_service_bytes_recursive", ioLines, "254:0 Read "+
		"4096\n254:0 Write 10\n254:0 Discard 5\n254:0 Total 4111\n")
	add("cg/pids/a/pids.current", number, "7\n")
	add("cg/pids/a/pids.max", still, "64\n")
	add("cg/pids/a/pids.events", collecttest.LineKeys, "max 5\n")
	return k
}

// keyedMachines are machines with files that lack keys or columns on some kernels.
func keyedMachines() map[string]collecttest.KeyedMachine {
	return map[string]collecttest.KeyedMachine{
		"cgroup1": cgroupKeyFiles(1),
		"cgroup2": cgroupKeyFiles(2),
	}
}

func TestMissingKeys(t *testing.T)      { collecttest.CheckMissingKeys(t, keyedMachines()) }
func TestNothingBelowZero(t *testing.T) { collecttest.CheckNothingBelowZero(t, keyedMachines()) }
