package facts

import (
	"strconv"
	"strings"
)

// CPUSet is a list of CPUs as the kernel writes it: "0-3,8".
type CPUSet string

// Has reports whether a CPU is in the list. A malformed part contains no CPU.
func (s CPUSet) Has(cpu string) bool {
	n, err := strconv.Atoi(cpu)
	if err != nil {
		return false
	}
	for part := range strings.SplitSeq(string(s), ",") {
		first, last, ok := strings.Cut(part, "-")
		if !ok {
			last = first
		}
		low, errLow := strconv.Atoi(first)
		high, errHigh := strconv.Atoi(last)
		if errLow == nil && errHigh == nil && low <= n && n <= high {
			return true
		}
	}
	return false
}

// Of returns those of the CPUs that are in the list, and the others.
func (s CPUSet) Of(cpus []string) (in, out []string) {
	for _, cpu := range cpus {
		if s.Has(cpu) {
			in = append(in, cpu)
		} else {
			out = append(out, cpu)
		}
	}
	return in, out
}
