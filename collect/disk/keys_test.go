package disk

import (
	"testing"

	"culprit/collect/collecttest"
)

// keyedMachines are the collectors of files that lack keys or columns on some kernels.
func keyedMachines() map[string]collecttest.KeyedMachine {
	return map[string]collecttest.KeyedMachine{
		"diskstats": {
			Collector: Disks{},
			Files: map[string]collecttest.KeyedFile{
				"proc/diskstats": collecttest.ColumnKeys(3, 10),
			},
		},
	}
}

func TestMissingKeys(t *testing.T)      { collecttest.CheckMissingKeys(t, keyedMachines()) }
func TestNothingBelowZero(t *testing.T) { collecttest.CheckNothingBelowZero(t, keyedMachines()) }
