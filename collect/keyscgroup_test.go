package collect

import (
	"fmt"
	"strings"
	"testing"
)

// cgroupKeyFiles is a machine with a control group of the version.
func cgroupKeyFiles(version int) keyedMachine {
	number := columnKeys(0, 10)
	// The lines of a device are no keys: a group without them used none.
	devices := func(keyed keyedFile, device string) keyedFile {
		return keyedFile{grow: keyed.grow, cut: func(text string) map[string]string {
			all := keyed.cut(text)
			delete(all, "all")
			delete(all, device)
			return all
		}}
	}
	ioLines := keyedFile{grow: growFrom(2, 10), cut: func(text string) map[string]string {
		all := map[string]string{}
		for _, kind := range []string{"Read", "Write", "Discard"} {
			line, _, _ := strings.Cut(text[strings.Index(text, "254:0 "+kind):], "\n")
			all[kind] = strings.Replace(text, line+"\n", "", 1)
		}
		return all
	}}
	k := keyedMachine{collector: Cgroups{}, beside: map[string]string{"cg/u/cgroup.stat": "nr_descendants 1\n"}, files: map[string]keyedFile{}, texts: map[string]string{}}
	add := func(name string, keyed keyedFile, text string) {
		k.files[name], k.texts[name] = keyed, text
	}
	if version == 2 {
		at := "cg/u/a/"
		k.touches = map[string]string{at + "cpu.stat": "cgroup.cpu cgroup.periods cgroup.throttled"}
		// Without its controller no group has a quota.
		k.dependent = map[string]string{at + "cpu.max ": "cgroup.quota"}
		k.beside["proc/self/mountinfo"] = "41 31 0:40 / DIR/cg/u rw - cgroup2 cgroup2 rw\n"
		add(at+"cpu.stat", lineKeys, "usage_usec 900\nuser_usec 500\nsystem_usec 400\nnr_periods 10\nnr_throttled 3\nthrottled_usec 700\n")
		add(at+"cpu.max", keyedFile{cut: number.cut, grow: func(s string) string { return s }}, "50000 100000\n")
		add(at+"memory.current", number, "5000\n")
		add(at+"memory.max", number, "90000\n")
		add(at+"memory.high", number, "80000\n")
		add(at+"memory.stat", lineKeys, "anon 300\nfile 700\nkernel 90\n")
		add(at+"memory.events", lineKeys, "low 0\nhigh 5\nmax 7\noom 2\noom_kill 3\n")
		add(at+"io.stat", devices(optionKeys, "254:0"), "254:0 rbytes=100 wbytes=200 rios=3 wios=4 dbytes=50 dios=6\n")
		add(at+"pids.current", number, "7\n")
		for _, resource := range []string{"cpu", "memory", "io"} {
			add(at+resource+".pressure", optionKeys, "some avg10=0.00 avg60=0.00 avg300=0.00 total=100\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=50\n")
		}
		return k
	}
	mounts := ""
	for i, c := range []string{"cpu,cpuacct", "memory", "blkio", "pids"} {
		mounts += fmt.Sprintf("3%d 31 0:3%d / DIR/cg/%s rw - cgroup cgroup rw,%s\n", i, i, c, c)
		k.beside["cg/"+c+"/release_agent"] = "\n"
	}
	k.beside["proc/self/mountinfo"] = mounts
	add("cg/cpu,cpuacct/a/cpuacct.usage", number, "2000000000\n")
	add("cg/cpu,cpuacct/a/cpuacct.stat", lineKeys, "user 100\nsystem 100\n")
	add("cg/cpu,cpuacct/a/cpu.stat", lineKeys, "nr_periods 10\nnr_throttled 1\nthrottled_time 500\n")
	add("cg/cpu,cpuacct/a/cpu.cfs_period_us", number, "100000\n")
	add("cg/cpu,cpuacct/a/cpu.cfs_quota_us", number, "150000\n")
	add("cg/memory/a/memory.usage_in_bytes", number, "5000\n")
	add("cg/memory/a/memory.limit_in_bytes", number, "90000\n")
	add("cg/memory/a/memory.stat", lineKeys, "cache 0\nrss 0\nhierarchical_memory_limit 70000\ntotal_cache 70\ntotal_rss 30\n")
	add("cg/memory/a/memory.kmem.usage_in_bytes", number, "90\n")
	add("cg/memory/a/memory.failcnt", number, "1\n")
	add("cg/memory/a/memory.oom_control", lineKeys, "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
	add("cg/blkio/a/blkio.throttle.io_service_bytes_recursive", ioLines, "254:0 Read 4096\n254:0 Write 10\n254:0 Discard 5\n254:0 Total 4111\n")
	add("cg/pids/a/pids.current", number, "7\n")
	return k
}

// keyedCgroup are the readers of named keys and of columns that some kernels lack.
func keyedCgroup() map[string]keyedMachine {
	return map[string]keyedMachine{"cgroup1": cgroupKeyFiles(1), "cgroup2": cgroupKeyFiles(2)}
}

func TestMissingKeysCgroup(t *testing.T)      { checkMissingKeys(t, keyedCgroup()) }
func TestNothingBelowZeroCgroup(t *testing.T) { checkNothingBelowZero(t, keyedCgroup()) }
