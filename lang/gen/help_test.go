package gen

import (
	"math/bits"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

func itoa(n uint32) string { return strconv.Itoa(int(n)) }

// monotonic is the kernel's bpf_ktime_get_ns.
func monotonic() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return uint64(ts.Nano())
}

// locked keeps f on one thread and one CPU.
func locked(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &old); err != nil {
		panic(err)
	}
	for c := range 1024 {
		if old.IsSet(c) {
			one.Set(c)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		panic(err)
	}
	defer unix.SchedSetaffinity(0, &old)
	f()
}

func square(v int64) (lo, hi uint64) {
	u := uint64(v)
	if v < 0 {
		u = -u
	}
	hi, lo = bits.Mul64(u, u)
	return lo, hi
}

func equal(a, b []uint64) bool { return slices.Equal(a, b) }
