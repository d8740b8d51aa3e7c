package probe

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Topology returns the chip and the NUMA node of each CPU by its number, read from
// /sys/devices/system/cpu. A value that is missing there, as for CPUs that are offline, is 0.
func (k *kernelInfo) Topology() (chips, nodes []int) { return topology("/sys/devices/system/cpu") }

func topology(dir string) (chips, nodes []int) {
	const most = 1 << 13 // CPUs that Linux can be built for
	cpus, err := filepath.Glob(dir + "/cpu[0-9]*")
	if err != nil {
		return nil, nil
	}
	put := func(list []int, cpu, n int) []int {
		for len(list) <= cpu {
			list = append(list, 0)
		}
		list[cpu] = n
		return list
	}
	for _, path := range cpus {
		cpu, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), "cpu"))
		if err != nil || cpu < 0 || cpu >= most {
			continue
		}
		if b, err := os.ReadFile(path + "/topology/physical_package_id"); err == nil {
			// -1: not known
			if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n >= 0 {
				chips = put(chips, cpu, n)
			}
		}
		links, err := filepath.Glob(path + "/node[0-9]*")
		if err != nil || len(links) == 0 {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(links[0]), "node")); err == nil {
			nodes = put(nodes, cpu, n)
		}
	}
	return chips, nodes
}
