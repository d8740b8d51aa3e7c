package memory

import (
	"os"
	"testing"

	"culprit/collect/collecttest"
)

func TestNUMA(t *testing.T) {
	m := collecttest.NewMachine(t, NUMA{}, map[string]string{
		"sys/devices/system/node/online": "0,2\n",
		"proc/vmstat": "numa_hit 5\nnuma_hint_faults 100\nnuma_hint_faults_local 50\n" +
			"numa_pages_migrated 9\n",
		"sys/devices/system/node/node0/numastat": "numa_hit 100\nnuma_miss 5\nnuma_foreign 6\n" +
			"interleave_hit 7\nlocal_node 90\nother_node 15\n",
		"sys/devices/system/node/node2/numastat": "numa_hit 200\nlocal_node 90\nnew_one 15\n",
	})
	m.Read(true)
	m.Put(map[string]string{
		"proc/vmstat": "numa_hit 9\nnuma_hint_faults 109\nnuma_hint_faults_local 60\n" +
			"numa_pages_migrated 20\n",
		"sys/devices/system/node/node0/numastat": "numa_hit 101\nnuma_miss 7\nnuma_foreign 9\n" +
			"interleave_hit 11\nlocal_node 95\nother_node 21\n",
		"sys/devices/system/node/node2/numastat": "numa_hit 207\nlocal_node 98\nnew_one 99\n",
	})
	page := float64(os.Getpagesize())
	collecttest.Expect(t, m.Read(false), "", map[string]float64{
		"memory.numa|0|hit": page, "memory.numa|0|miss": 2 * page,
		"memory.numa|0|foreign": 3 * page, "memory.numa|0|interleave": 4 * page,
		"memory.numa|0|local": 5 * page, "memory.numa|0|other": 6 * page,
		"memory.numa.balancing|faults": 9, "memory.numa.balancing|local faults": 10,
		"memory.numa.balancing|migrated": 11,
		"memory.numa|2|hit":              7 * page, "memory.numa|2|local": 8 * page,
	})
}
