package collect

import "testing"

// keyedDisk are the readers of named keys and of columns that some kernels lack.
func keyedDisk() map[string]keyedMachine {
	return map[string]keyedMachine{
		"diskstats": {collector: Disks{}, files: map[string]keyedFile{"proc/diskstats": columnKeys(3, 10)}},
	}
}

func TestMissingKeysDisk(t *testing.T)      { checkMissingKeys(t, keyedDisk()) }
func TestNothingBelowZeroDisk(t *testing.T) { checkNothingBelowZero(t, keyedDisk()) }
