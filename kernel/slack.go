package kernel

import (
	"errors"
	"os"
	"strconv"
	"time"
)

// SlackTimers lets every sleep of this process's threads, and of those that they start from now on, last so much longer than asked for, so that
// the kernel wakes them less often (timer_slack in proc_pid_timerslack_ns(5), prctl(2)); it begins with 50 µs. An Alarm is as exact as before. The
// error, where there is one, is of a thread that stays as it was: others than the caller's own take CAP_SYS_NICE.
//
// It is for Go's monitor thread. That sleeps 20 µs at a time at first, whenever anything runs, and so wakes fifty times a tick to find nothing to do.
func SlackTimers(by time.Duration) error {
	threads, err := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		// Of a thread there is no such file below task, but there is one below its number, which is not listed.
		err = errors.Join(err, os.WriteFile("/proc/"+t.Name()+"/timerslack_ns", strconv.AppendInt(nil, by.Nanoseconds(), 10), 0))
	}
	return err
}
