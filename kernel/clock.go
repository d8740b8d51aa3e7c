package kernel

import (
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Uptime returns the time since boot with suspended time (CLOCK_BOOTTIME). It is the clock of
// /proc/uptime and of the start times in /proc/PID/stat, also in a time namespace.
func Uptime() measure.Span { return measure.Span(readClock(unix.CLOCK_BOOTTIME)) }

// ThreadTime returns the CPU time of the calling thread (CLOCK_THREAD_CPUTIME_ID). A caller that
// subtracts two of them stays on the thread: runtime.LockOSThread.
func ThreadTime() measure.Span { return measure.Span(readClock(unix.CLOCK_THREAD_CPUTIME_ID)) }

// ProcessTime returns the CPU time of all threads of this process (CLOCK_PROCESS_CPUTIME_ID).
func ProcessTime() measure.Span { return measure.Span(readClock(unix.CLOCK_PROCESS_CPUTIME_ID)) }

func readClock(id int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		// all of them exist since 2.6.39 and the pointer is good
		panic("clock_gettime: " + err.Error())
	}
	return ts.Nano()
}

// defaultTicks is USER_HZ on every architecture that Go compiles for.
const defaultTicks = 100

// TicksPerSecond returns USER_HZ, the unit of times in /proc/stat and /proc/PID/stat (AT_CLKTCK,
// getauxval(3)); 100 where the kernel does not say. Captured files may have another unit.
func TicksPerSecond() int {
	vec, err := unix.Auxv()
	if err != nil {
		return defaultTicks
	}
	const atClockTick = 17 // include/uapi/linux/auxvec.h
	for _, v := range vec {
		if v[0] == atClockTick && v[1] >= 1 && v[1] <= 1e6 {
			return int(v[1])
		}
	}
	return defaultTicks
}

// PageSize returns the bytes of a page, the unit of /proc/PID/statm and of most counters in
// /proc/vmstat.
func PageSize() int { return unix.Getpagesize() }
