package collect

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// cpuKeys are the lines of CPUs in /proc/stat: user nice system idle iowait irq softirq (2.6.0)
// steal guest guest_nice (2.6.33).
var cpuKeys = keyedFile{cut: func(text string) map[string]string {
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
}, grow: growCPUs}

// growCPUs adds ticks to the CPUs, fewer the farther to the right: a guest's time is in user's.
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

// keyedCPU are the readers of named keys and of columns that some kernels lack.
func keyedCPU() map[string]keyedMachine {
	return map[string]keyedMachine{
		"stat": {collector: CPU{}, files: map[string]keyedFile{"proc/stat": {cut: cutLines, grow: growCPUs}}, dependent: map[string]string{
			"proc/stat": "cpu.time|0|unaccounted cpu.time|1|unaccounted"}}, // what is left of the time that really passed
		"stat cpu": {collector: CPU{}, files: map[string]keyedFile{"proc/stat": cpuKeys}, touches: map[string]string{"proc/stat": "cpu.time"}, dependent: map[string]string{
			"proc/stat": "cpu.time|0|unaccounted cpu.time|1|unaccounted",
			// A kernel that does not tell guests apart has them in user and nice.
			"proc/stat columns from 9 on": "cpu.time|0|usr cpu.time|1|usr cpu.time|0|nice cpu.time|1|nice", "proc/stat columns from 10 on": "cpu.time|0|usr cpu.time|1|usr cpu.time|0|nice cpu.time|1|nice",
			"proc/stat columns from 11 on": "cpu.time|0|nice cpu.time|1|nice"}},
		"pressure":  {collector: Pressure{}, files: map[string]keyedFile{"proc/pressure/cpu": optionKeys, "proc/pressure/io": optionKeys, "proc/pressure/memory": optionKeys}},
		"schedstat": {collector: Schedstat{}, files: map[string]keyedFile{"proc/schedstat": columnKeys(1, 10)}},
		"load":      {collector: Load{}, files: map[string]keyedFile{"proc/loadavg": columnKeys(0, 10)}},
		"softirqs":  {collector: Softirqs{}, files: map[string]keyedFile{"proc/softirqs": lineKeys}},
	}
}

func TestMissingKeysCPU(t *testing.T)      { checkMissingKeys(t, keyedCPU()) }
func TestNothingBelowZeroCPU(t *testing.T) { checkNothingBelowZero(t, keyedCPU()) }
