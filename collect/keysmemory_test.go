package collect

import "testing"

// keyedMemory are the readers of named keys and of columns that some kernels lack.
func keyedMemory() map[string]keyedMachine {
	number := columnKeys(0, 10)
	return map[string]keyedMachine{
		"meminfo": {collector: Memory{}, files: map[string]keyedFile{"proc/meminfo": lineKeys}},
		"vmstat": {collector: Vmstat{}, files: map[string]keyedFile{"proc/vmstat": lineKeys}, dependent: map[string]string{
			// Sums of zones: a machine has those zones that it has, so one that is missing is none
			// of it.
			"proc/vmstat allocstall_dma": "memory.stalls", "proc/vmstat allocstall_dma32": "memory.stalls", "proc/vmstat allocstall_normal": "memory.stalls",
			"proc/vmstat allocstall_movable": "memory.stalls", "proc/vmstat allocstall_device": "memory.stalls", "proc/vmstat allocstall_high": "memory.stalls"}},
		"caches": {collector: Caches{}, files: map[string]keyedFile{"proc/sys/fs/dentry-state": number, "proc/sys/fs/inode-state": number, "proc/sys/fs/file-nr": number}},
	}
}

func TestMissingKeysMemory(t *testing.T)      { checkMissingKeys(t, keyedMemory()) }
func TestNothingBelowZeroMemory(t *testing.T) { checkNothingBelowZero(t, keyedMemory()) }
