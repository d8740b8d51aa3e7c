package cpu

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"culprit/collect/collecttest"
)

// cpuKeys are the cpu lines of /proc/stat: user nice system idle iowait irq softirq (2.6.0) steal
// guest guest_nice (2.6.33).
var cpuKeys = collecttest.KeyedFile{Cut: func(text string) map[string]string {
	all := map[string]string{}
	for n := 1; n < 11; n++ {
		cut := ""
		for line := range strings.Lines(text) {
			if w := strings.Fields(line); strings.HasPrefix(line, "cpu") {
				line = strings.Join(w[:n], " ") + "\n"
			}
			cut += line
		}
		all[fmt.Sprintf("columns from %d on", n+1)] = cut
	}
	return all
}, Grow: growCPUs}

// growCPUs adds ticks to the CPUs, fewer for each column to the right: user includes guest.
func growCPUs(text string) string {
	grown := ""
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		w := strings.Fields(line)
		for i := 1; i < len(w); i++ {
			v, _ := strconv.ParseUint(w[i], 10, 64)
			w[i] = strconv.FormatUint(v+uint64(500-40*i+n), 10)
		}
		grown += strings.Join(w[:min(len(w), 11)], " ") + "\n"
	}
	return grown
}

// keyedMachines are the collectors of files that lack keys or columns on some kernels.
func keyedMachines() map[string]collecttest.KeyedMachine {
	return map[string]collecttest.KeyedMachine{
		"stat": {
			Collector: CPU{},
			Files: map[string]collecttest.KeyedFile{
				"proc/stat": {Cut: collecttest.CutLines, Grow: growCPUs},
			},
			Dependent: map[string]string{
				// what is left of the time that passed
				"proc/stat": "cpu.time|0|unaccounted cpu.time|1|unaccounted"},
		},
		"stat cpu": {
			Collector: CPU{},
			Files:     map[string]collecttest.KeyedFile{"proc/stat": cpuKeys},
			Touches:   map[string]string{"proc/stat": "cpu.time"},
			Dependent: map[string]string{
				"proc/stat": "cpu.time|0|unaccounted cpu.time|1|unaccounted",
				// A kernel without columns for guests counts them in user and nice.
				"proc/stat columns from 9 on": "cpu.time|0|usr cpu.time|1|usr cpu.time|0|nice " +
					"cpu.time|1|nice", "proc/stat columns from 10 on": "cpu.time|0|usr " +
					"cpu.time|1|usr cpu.time|0|nice cpu.time|1|nice",
				"proc/stat columns from 11 on": "cpu.time|0|nice cpu.time|1|nice"},
		},
		"pressure": {
			Collector: Pressure{},
			Files: map[string]collecttest.KeyedFile{
				"proc/pressure/cpu":    collecttest.OptionKeys,
				"proc/pressure/io":     collecttest.OptionKeys,
				"proc/pressure/memory": collecttest.OptionKeys,
			},
		},
		"schedstat": {
			Collector: Schedstat{},
			Files: map[string]collecttest.KeyedFile{
				"proc/schedstat": collecttest.ColumnKeys(1, 10),
			},
		},
		"load": {
			Collector: Load{},
			Files: map[string]collecttest.KeyedFile{
				"proc/loadavg": collecttest.ColumnKeys(0, 10),
			},
		},
		"softirqs": {
			Collector: Softirqs{},
			Files:     map[string]collecttest.KeyedFile{"proc/softirqs": collecttest.LineKeys},
		},
	}
}

func TestMissingKeys(t *testing.T)      { collecttest.CheckMissingKeys(t, keyedMachines()) }
func TestNothingBelowZero(t *testing.T) { collecttest.CheckNothingBelowZero(t, keyedMachines()) }
