package memory

import (
	"testing"

	"culprit/collect/collecttest"
)

// keyedMachines are the collectors of files that lack keys or columns on some kernels.
func keyedMachines() map[string]collecttest.KeyedMachine {
	number := collecttest.ColumnKeys(0, 10)
	return map[string]collecttest.KeyedMachine{
		"meminfo": {
			Collector: Memory{},
			Files:     map[string]collecttest.KeyedFile{"proc/meminfo": collecttest.LineKeys},
		},
		"vmstat": {
			Collector: Vmstat{},
			Files:     map[string]collecttest.KeyedFile{"proc/vmstat": collecttest.LineKeys},
			Dependent: map[string]string{
				// These are sums over zones. A missing zone does not exist on the machine and adds
				// nothing.
				"proc/vmstat allocstall_dma": "memory.stalls", "proc/vmstat allocstall_dma32": "memory.stalls", "proc/vmstat allocstall_normal": "memory.stalls",
				"proc/vmstat allocstall_movable": "memory.stalls", "proc/vmstat " +
					"allocstall_device": "memory.stalls", "proc/vmstat allocstall_high": "memory.stalls"},
		},
		"caches": {
			Collector: Caches{},
			Files: map[string]collecttest.KeyedFile{
				"proc/sys/fs/dentry-state": number,
				"proc/sys/fs/inode-state":  number,
				"proc/sys/fs/file-nr":      number,
			},
		},
	}
}

func TestMissingKeys(t *testing.T)      { collecttest.CheckMissingKeys(t, keyedMachines()) }
func TestNothingBelowZero(t *testing.T) { collecttest.CheckNothingBelowZero(t, keyedMachines()) }
