package kernel

import (
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Instant is one moment on two clocks.
type Instant struct {
	Wall measure.Time // CLOCK_REALTIME: may be set, may go back
	Mono measure.Span // CLOCK_MONOTONIC: since boot without suspended time, never goes back; BPF's ktime_get_ns and Go's runtime have it too
}

// Now reads both clocks. They are read one after the other: a few hundred nanoseconds apart, more if the thread loses its CPU in
// between, which moves Wall and never a length.
func Now() Instant {
	mono := readClock(unix.CLOCK_MONOTONIC)
	return Instant{measure.Time(readClock(unix.CLOCK_REALTIME)), measure.Span(mono)}
}

// Since gives the measured interval from an earlier instant to i: its end from the wall clock, its length from the monotonic one.
func (i Instant) Since(earlier Instant) measure.Interval {
	return measure.Interval{Start: i.Wall.Add(earlier.Mono - i.Mono), End: i.Wall}
}

// Uptime gives the time since boot with suspended time (CLOCK_BOOTTIME): the clock of /proc/uptime and of the start
// times in /proc/PID/stat. In a time namespace it is that namespace's, as those files are.
func Uptime() measure.Span { return measure.Span(readClock(unix.CLOCK_BOOTTIME)) }

// BootTime gives the wall-clock time of boot as the wall clock has it now: it differs by microseconds from call to call,
// and by as much as the clock was set in between. Keep the first one where times must agree with each other.
func BootTime() measure.Time {
	up := Uptime()
	return Now().Wall.Add(-up)
}

// ThreadTime returns the CPU time of the calling thread (CLOCK_THREAD_CPUTIME_ID). A caller that
// subtracts two of them stays on the thread: runtime.LockOSThread.
func ThreadTime() measure.Span { return measure.Span(readClock(unix.CLOCK_THREAD_CPUTIME_ID)) }

// ProcessTime gives the CPU time of this process, all threads: CLOCK_PROCESS_CPUTIME_ID.
func ProcessTime() measure.Span { return measure.Span(readClock(unix.CLOCK_PROCESS_CPUTIME_ID)) }

func readClock(id int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic("clock_gettime: " + err.Error()) // all of them exist since 2.6.39 and the pointer is good
	}
	return ts.Nano()
}

// defaultTicks is USER_HZ on every architecture that Go compiles for.
const defaultTicks = 100

// TicksPerSecond gives USER_HZ, the unit of times in /proc/stat and /proc/PID/stat, as the kernel told this process when
// it started (AT_CLKTCK, getauxval(3)); 100 if it did not. The file of another machine may have another.
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

// PageSize gives the bytes of a page: the unit of /proc/PID/statm and of most memory counters in /proc/vmstat.
func PageSize() int { return unix.Getpagesize() }
