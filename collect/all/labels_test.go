package all

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"culprit/collect"
	"culprit/collect/cgroup"
	"culprit/collect/collecttest"
	"culprit/collect/cpu"
	"culprit/collect/disk"
	"culprit/collect/memory"
	"culprit/collect/network"
)

// systemCollectors are the collectors that cache labels between readings.
func systemCollectors() []collect.Collector {
	return []collect.Collector{
		cpu.CPU{},
		cpu.Interrupts{},
		cpu.Softirqs{},
		cpu.Load{},
		cpu.Pressure{},
		memory.Memory{},
		memory.Vmstat{},
		disk.Disks{},
		disk.Filesystems{},
		network.Softnet{},
		memory.Caches{},
		cpu.Machine{},
		cgroup.Cgroups{},
	}
}

// After a reset of the dictionary, labels made before are invalid, so cached labels must be made
// again. Each label then changes, because an unused word takes the first number.
func TestLabelsAreMadeAgain(t *testing.T) {
	for _, c := range systemCollectors() {
		t.Run(fmt.Sprintf("%T", c), func(t *testing.T) {
			r, err := c.Open(&collect.Env{}, collecttest.WantAll(c))
			if err != nil {
				t.Skip("needs: kernel feature of " + err.Error())
			}
			defer r.Close()
			words := collect.NewDictionary()
			out := collect.NewOut(c.Stats(), words, true)
			levels := func(first bool) map[string]bool {
				out.Start(first, time.Now())
				if err := r.Read(out); err != nil {
					t.Fatal(err)
				}
				keys := map[string]bool{}
				// panics on a label that is not in the dictionary
				for k := range collecttest.RowsOf(t, out) {
					// Only rows that exist whatever happens on the machine meanwhile.
					if id, _, _ := strings.Cut(k, "|"); !strings.HasPrefix(id, "cgroup.") &&
						!strings.HasPrefix(k, "cache.entries||slab") &&
						!strings.HasPrefix(k, "cache.growth") &&
						!strings.HasPrefix(k, "cache.bytes") {
						for _, st := range c.Stats() {
							if string(st.ID) == id && !st.Sparse {
								keys[k] = true
							}
						}
					}
				}
				return keys
			}
			before := levels(true)
			words.Reset()
			words.Label("nobody uses this")
			after := levels(false)
			for _, k := range slices.Sorted(maps.Keys(before)) {
				if !after[k] {
					t.Errorf("%s is gone with a new dictionary", k)
				}
			}
		})
	}
}
