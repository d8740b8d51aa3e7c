package cgroup

import (
	"testing"

	"culprit/collect/collecttest"
)

// The visible top is the machine, or a group with limits and events like any other.
func TestCgroupTop(t *testing.T) {
	for name, c := range map[string]struct {
		mounts string // DIR means the directory of the files
		files  map[string]string
		want   map[string]float64
	}{
		"version 2, the machine": {"41 31 0:40 / DIR/cg rw - cgroup2 cgroup2 rw\n",
			map[string]string{"cg/cpu.stat": "usage_usec 3\nuser_usec 2\nsystem_usec 1\n"},
			map[string]float64{"cgroup.top|machine|v2": 1}},
		"version 2, a namespace": {"41 31 0:40 / DIR/cg rw - cgroup2 cgroup2 rw\n",
			map[string]string{"cg/cgroup.events": "populated 1\nfrozen 0\n", "cg/memory.max": "104857600\n", "cg/memory.high": "83886080\n",
				"cg/memory.current": "7340032\n", "cg/cpu.max": "30000 100000\n",
				"cg/cpu.weight": "80\n"},
			map[string]float64{"cgroup.top|group|v2": 1, "cgroup.memory|/|limit": 100 << 20, "cgroup.memory|/|high": 80 << 20,
				"cgroup.memory|/|current": 7 << 20, "cgroup.quota|/": 0.3, "cgroup.weight|/|cpu.weight": 80}},
		"version 1, a namespace under a limit of its parent": {"35 31 0:35 / DIR/cg rw - " +
			"cgroup cgroup rw,memory\n",
			map[string]string{"cg/memory.limit_in_bytes": "9223372036854771712\n", "cg/memory.usage_in_bytes": "5\n",
				"cg/memory.stat": "hierarchical_memory_limit 1048576\ntotal_rss 3\ntotal_cache " +
					"2\n"},
			map[string]float64{"cgroup.top|group|memory": 1, "cgroup.memory|/|limit": 1 << 20, "cgroup.memory|/|current": 5,
				"cgroup.memory|/|anon": 3, "cgroup.memory|/|file": 2}},
		"version 1, the machine": {"35 31 0:35 / DIR/cg rw - cgroup cgroup rw,memory\n",
			map[string]string{"cg/release_agent": "\n", "cg/memory.limit_in_bytes": "9223372036854771712\n", "cg/memory.usage_in_bytes": "5\n",
				"cg/memory.stat": "hierarchical_memory_limit 9223372036854771712\n"},
			map[string]float64{"cgroup.top|machine|memory": 1, "cgroup.memory|/|current": 5}},
		"version 1, a container's mount of its group": {"35 31 0:35 /docker/4f DIR/cg rw - " +
			"cgroup cgroup rw,memory\n",
			map[string]string{"cg/release_agent": "\n", "cg/memory.limit_in_bytes": "4096\n"},
			map[string]float64{"cgroup.top|group|memory": 1, "cgroup.memory|/|limit": 4096}},
	} {
		t.Run(name, func(t *testing.T) {
			m := cgroupsAt(t, c.mounts, c.files)
			collecttest.Expect(t, m.Read(true), "", c.want)
		})
	}
}

// The events of the visible top are counted like those of other groups.
func TestCgroupTopEvents(t *testing.T) {
	m := cgroupsAt(
		t,
		"41 31 0:40 / DIR/cg rw - cgroup2 cgroup2 rw\n",
		map[string]string{
			"cg/cgroup.events": "populated 1\n",
			"cg/memory.events": "low 0\nhigh 1\nmax 20\noom 300\noom_kill 4000\noom_group_kill 0\n",
		},
	)
	m.Read(true)
	m.Put(map[string]string{"cg/memory.events": "low 9\nhigh 3\nmax 25\noom 307\noom_kill " +
		"4011\noom_group_kill 1\n"})
	collecttest.Expect(
		t,
		again(m),
		"cgroup.memory.events",
		map[string]float64{"cgroup.memory.events|/|high": 2, "cgroup.memory.events|/|max": 5,
			"cgroup.memory.events|/|oom": 7, "cgroup.memory.events|/|oom_kill": 11},
	)
}
