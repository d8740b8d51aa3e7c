package captured

import (
	"fmt"
	"math"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

const (
	// lowIPC is the number of instructions per cycle below which a CPU mostly waits for memory.
	lowIPC = 0.5
	// leastCycles is how many cycles must be counted.
	leastCycles = 100e6
	// manyCacheMisses, manyTLBMisses, manyBranchMisses and manyRemoteLoads are shares from which on
	// misses are costly.
	manyCacheMisses, manyTLBMisses, manyBranchMisses, manyRemoteLoads = 0.3, 0.05, 0.08, 0.3
	// slowClock is the share of the highest frequency below which CPUs are slow while they work.
	slowClock = 0.7
	// remoteShare is the share of memory from another node from which on it is reported.
	remoteShare = 0.1
	// fullNode and freeNode are the shares of free memory of a full node and of one with space.
	fullNode, freeNode = 0.02, 0.2
)

// sums returns the sum of each named counter of a table: perf stat -I prints intervals.
func sums(t *Table) (sum map[string]float64, last map[string]*Row) {
	sum, last = map[string]float64{}, map[string]*Row{}
	for _, r := range t.Rows {
		if v := r.Num("value"); v == v {
			sum[r.Word("name")] += v
			last[r.Word("name")] = r
		}
	}
	return sum, last
}

// hardware judges the counters of perf stat, and the CPUs of lscpu.
func (s *study) hardware() {
	highest := math.NaN()
	for _, t := range s.of(Counters) {
		if t.Tool != "lscpu" {
			continue
		}
		c := counters(t)
		if r := c["CPU max MHz"]; r != nil {
			highest = r.Num("value")
		}
		if r := c["Off-line CPU(s) list"]; r != nil {
			f := s.find("cpus-offline", "machine", diagnose.Low, 0.8, diagnose.Culprit{Kind: "cpu",
				Name: r.Word("value")}, fmt.Sprintf("CPUs %s are offline.",
				phrase.Clean(r.Word("value"))))
			evidence(f, r, r.Num("value"), "", "offline: %s", phrase.Clean(r.Word("value")))
			f.Verify = "lscpu; cat /sys/devices/system/cpu/offline"
		}
	}
	for _, t := range s.of(Counters) {
		if t.Tool == "perf stat" {
			s.cycles(t, highest)
		}
	}
}

// cycles judges what CPUs do with their cycles.
func (s *study) cycles(t *Table, highest float64) {
	sum, last := sums(t)
	cycles, clock := sum["cycles"], sum["task-clock"]+sum["cpu-clock"]
	ipc := sum["instructions"] / cycles
	share := func(part, all string) float64 {
		if sum[all] <= 0 || last[part] == nil {
			return math.NaN()
		}
		return sum[part] / sum[all]
	}
	cache := max(zero(share("cache-misses", "cache-references")),
		zero(share("LLC-load-misses", "LLC-loads")))
	if cycles >= leastCycles && sum["instructions"] > 0 {
		if ipc >= lowIPC {
			s.clear("hardware", "%.2g instructions per cycle (%s, %s)", ipc, t.Tool,
				last["instructions"].Place())
		} else {
			f := s.find("cpu-waits-for-memory", "machine", diagnose.Low, 0.7,
				diagnose.Culprit{Kind: "memory", Name: "access to memory"}, fmt.Sprintf(
					"The CPU executes %.2g instructions per cycle: it is busy, and mostly waits "+
						"for memory.", ipc))
			evidence(f, last["instructions"], ipc, "", "%s instructions in %s cycles",
				phrase.Count(sum["instructions"]), phrase.Count(cycles))
			s.misses(f, share, last, cache)
			caveat(f, "Spinning on locks, divisions and system calls take many cycles as well.")
			f.Verify = "perf stat -d; culprit profile"
		}
	}
	for _, one := range []struct {
		part, all, id, what string
		least               float64
	}{
		{"dTLB-load-misses", "dTLB-loads", "tlb-misses",
			"loads miss the TLB: huge pages make such misses rare", manyTLBMisses},
		{"branch-misses", "branches", "branch-misses", "branches are predicted wrongly",
			manyBranchMisses},
		{"node-load-misses", "node-loads", "numa-remote",
			"loads from memory go to another NUMA node", manyRemoteLoads},
	} {
		v := share(one.part, one.all)
		if !(v >= one.least) || sum[one.all] < leastCycles/100 {
			continue
		}
		f := s.find(one.id, "perf", diagnose.Low, 0.7, diagnose.Culprit{Kind: "memory",
			Name: one.part}, fmt.Sprintf("%s of the %s.", phrase.Percent(v), one.what))
		evidence(f, last[one.part], v, "1", "%s %s of %s %s", phrase.Count(sum[one.part]), one.part,
			phrase.Count(sum[one.all]), one.all)
		f.Verify = "perf stat -d -d"
	}
	rate := cycles / clock / 1000
	if cycles >= leastCycles && clock > 0 && rate < slowClock*highest {
		f := s.find("cpu-slow", "machine", diagnose.Medium, 0.7, diagnose.Culprit{Kind: "cpu",
			Name: "frequency"}, fmt.Sprintf("The CPUs run at %.0f MHz while they work, %s of the "+
			"%.0f MHz that they reach.", rate, phrase.Percent(rate/highest), highest))
		evidence(f, last["cycles"], rate*1e6, "Hz", "%s cycles in %s of CPU time",
			phrase.Count(cycles), phrase.Seconds(clock/1000))
		caveat(f, "A powersave governor, a power limit, heat, and a guest that is preempted look "+
			"the same.")
		f.Verify = "culprit diagnose; grep . /sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq"
	}
}

// misses adds the misses of caches to a finding about waits for memory.
func (s *study) misses(f *diagnose.Finding, share func(part, all string) float64,
	last map[string]*Row, cache float64) {
	if cache < manyCacheMisses {
		return
	}
	part, all := "cache-misses", "cache-references"
	if v := share("LLC-load-misses", "LLC-loads"); v == cache {
		part, all = "LLC-load-misses", "LLC-loads"
	}
	evidence(f, last[part], cache, "1", "%s are %s of %s", part, phrase.Percent(cache), all)
	f.Confidence = 0.85
}

// numa judges the counters of NUMA nodes.
func (s *study) numa() {
	tables := s.of(NUMA)
	for i, t := range tables {
		by := map[string]map[string]float64{}
		var remote *Row
		for _, r := range t.Rows {
			name := r.Word("name")
			if by[name] == nil {
				by[name] = map[string]float64{}
			}
			by[name][r.Word("node")] = r.Num("value")
			if name == "other_node" && (remote == nil || r.Num("value") > remote.Num("value")) {
				remote = r
			}
		}
		s.fullNode(t, by)
		s.spread(t, by)
		if remote == nil || i+1 < len(tables) && hasCounter(tables[i+1], "other_node") {
			continue // a later reading decides
		}
		other, local := total(by["other_node"]), total(by["local_node"])
		since := true
		if i > 0 && hasCounter(tables[i-1], "other_node") {
			was := counterSums(tables[i-1])
			if was["other_node"] <= other && was["local_node"] <= local &&
				was["other_node"]+was["local_node"] < other+local {
				other, local, since = other-was["other_node"], local-was["local_node"], false
			}
		}
		if v := other / (other + local); v >= remoteShare {
			severity := diagnose.Medium
			if since {
				severity = diagnose.Low
			}
			f := s.find("numa-remote", "machine", severity, 0.7, diagnose.Culprit{Kind: "memory",
				Name: "NUMA node " + remote.Word("node")}, fmt.Sprintf(
				"%s of the memory is allocated on another NUMA node than the one of the CPU that "+
					"asks, most of it on node %s.", phrase.Percent(v), remote.Word("node")))
			evidence(f, remote, other, "page", "other_node %s, local_node %s pages",
				phrase.Count(other), phrase.Count(local))
			if since {
				caveat(f, "Counters since boot: two readings some seconds apart show whether it "+
					"goes on.")
			}
			f.Verify = "numastat; numastat -p PID; perf stat -e node-loads,node-load-misses"
		} else if other+local > 0 {
			s.clear("hardware", "%s of the memory is from another NUMA node (%s)",
				phrase.Percent(v), remote.Place())
		}
	}
}

func total(by map[string]float64) (sum float64) {
	for _, v := range by {
		sum += zero(v)
	}
	return sum
}

func hasCounter(t *Table, name string) bool { return counters(t)[name] != nil }

func counterSums(t *Table) map[string]float64 {
	sum, _ := sums(t)
	return sum
}

// fullNode finds a NUMA node without free memory beside one with plenty (numastat -m).
func (s *study) fullNode(t *Table, by map[string]map[string]float64) {
	full, free := "", ""
	for node, all := range by["MemTotal"] {
		v, ok := by["MemFree"][node]
		switch {
		case !ok || !(all > 0):
		case v < fullNode*all && (full == "" || node < full):
			full = node
		case v >= freeNode*all && (free == "" || node < free):
			free = node
		}
	}
	if full == "" || free == "" {
		return
	}
	for _, r := range t.Rows {
		if r.Word("name") == "MemFree" && r.Word("node") == full {
			f := s.find("numa-full", "node"+full, diagnose.Low, 0.7, diagnose.Culprit{
				Kind: "memory", Name: "NUMA node " + full}, fmt.Sprintf("NUMA node %s has %s "+
				"free, while node %s has %s: what runs there gets memory of another node.", full,
				phrase.Memory(r.Num("value")*1e6), free, phrase.Memory(by["MemFree"][free]*1e6)))
			evidence(f, r, r.Num("value")*1e6, "B", "MemFree of node %s: %s MB", full,
				phrase.Count(r.Num("value")))
			caveat(f, "Page cache that can be evicted fills a node as well, unless "+
				"vm.zone_reclaim_mode or a policy binds programs to it.")
			f.Verify = "numastat -m"
			return
		}
	}
}

// spread finds a process whose memory is on several nodes (numastat -p).
func (s *study) spread(t *Table, by map[string]map[string]float64) {
	all := total(by["Total"])
	if t.Subject == "" || !(all >= 1000) { // MB
		return
	}
	second := 0.0
	most := 0.0
	for _, v := range by["Total"] {
		if v > most {
			second, most = most, v
		} else if v > second {
			second = v
		}
	}
	if second < 0.25*all {
		return
	}
	for _, r := range t.Rows {
		if r.Word("name") == "Total" {
			f := s.find("numa-spread", t.Subject, diagnose.Low, 0.7, diagnose.Culprit{
				Kind: "process", Name: t.Subject}, fmt.Sprintf(
				"%s has its memory on several NUMA nodes: %s of %s on another than its largest.",
				phrase.Clean(t.Subject), phrase.Percent(1-most/all), phrase.Memory(all*1e6)))
			evidence(f, r, all*1e6, "B", "%s in all", phrase.Memory(all*1e6))
			caveat(f, "A program whose threads run on all nodes is spread on purpose.")
			f.Verify = "numastat -p PID; taskset -cp PID"
			return
		}
	}
}
