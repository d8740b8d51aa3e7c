package kernel

import (
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Instant is one moment on two clocks.
type Instant struct {
	// Wall is CLOCK_REALTIME: it can be set and can go back.
	Wall measure.Time
	// Mono is CLOCK_MONOTONIC: time since boot without suspended time. It never goes back. BPF's
	// bpf_ktime_get_ns and Go's runtime use it too.
	Mono measure.Span
}

// Now reads both clocks, Mono first. The readings are some hundred nanoseconds apart, more when the
// thread loses its CPU in between. That affects Wall and never a length.
func Now() Instant {
	mono := readClock(unix.CLOCK_MONOTONIC)
	return Instant{measure.Time(readClock(unix.CLOCK_REALTIME)), measure.Span(mono)}
}

// Since returns the interval from an earlier instant to i. Its end is from the wall clock, its
// length from the monotonic clock.
func (i Instant) Since(earlier Instant) measure.Interval {
	return measure.Interval{Start: i.Wall.Add(earlier.Mono - i.Mono), End: i.Wall}
}

// Uptime returns the time since boot with suspended time (CLOCK_BOOTTIME). It is the clock of
// /proc/uptime and of the start times in /proc/PID/stat, also in a time namespace.
func Uptime() measure.Span { return measure.Span(readClock(unix.CLOCK_BOOTTIME)) }

// BootTime returns the wall-clock time of boot. It differs by microseconds from call to call, and
// by as much as the wall clock was set in between. Callers that compare times keep the first one.
func BootTime() measure.Time {
	up := Uptime()
	return Now().Wall.Add(-up)
}

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
