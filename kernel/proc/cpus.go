package proc

import (
	"fmt"

	"culprit/kernel"
)

// MaxCPUs bounds CPU numbers: NR_CPUS is at most 8,192 in any architecture's Kconfig.
const MaxCPUs = 1 << 16

// ParseCPUList parses a list of CPUs or nodes: "0-3,7", with a step and group as in "0-31:1/4".
// Blanks at the end are allowed; an empty list has none. It appends to dst, ascending as the kernel
// writes them. With an error (ErrSyntax, ErrRange) it returns dst unchanged.
func ParseCPUList(b []byte, dst []int32) ([]int32, error) {
	was := len(dst)
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	number := func() (int, bool) {
		v, n, over := digits(b)
		b = b[n:]
		return int(v), n > 0 && !over && v < MaxCPUs
	}
	next := func(c byte) bool {
		if len(b) > 0 && b[0] == c {
			b = b[1:]
			return true
		}
		return false
	}
	for first := true; len(b) > 0; first = false {
		if !first && !next(',') {
			return dst[:was], ErrSyntax
		}
		lo, ok := number()
		if !ok {
			return dst[:was], ErrSyntax
		}
		hi, used, group := lo, 1, 1
		if next('-') {
			if hi, ok = number(); !ok || hi < lo {
				return dst[:was], ErrRange
			}
			if next(':') { // lib/bitmap.c: the first `used` of each `group`
				var a, c bool
				used, a = number()
				a = a && next('/')
				if group, c = number(); !a || !c || group == 0 || used > group {
					return dst[:was], ErrSyntax
				}
			}
		}
		for i := lo; i <= hi; i++ {
			if (i-lo)%group < used {
				if len(dst)-was >= MaxCPUs {
					return dst[:was], ErrRange
				}
				dst = append(dst, int32(i))
			}
		}
	}
	return dst, nil
}

// OnlineCPUs lists the CPUs that run now, ascending. Hotplug changes it. The error is of the file
// in /sys/devices/system/cpu.
func OnlineCPUs(r kernel.Root) ([]int32, error) { return cpuFile(r, "online") }

// PossibleCPUs lists the CPUs that may ever be plugged in. A BPF per-CPU map has a value for each.
// The error is as for OnlineCPUs.
func PossibleCPUs(r kernel.Root) ([]int32, error) { return cpuFile(r, "possible") }

func cpuFile(r kernel.Root, name string) ([]int32, error) {
	path := r.InSys("devices/system/cpu/" + name)
	b, err := ReadFile(path, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	cpus, err := ParseCPUList(b, nil)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return cpus, nil
}
