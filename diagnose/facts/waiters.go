package facts

import "strings"

// Waiters is the subject of a finding about processes that wait: those whose waits explain it.
type Waiters struct {
	PIDs []int
	On   WaitsOn
}

// WaitsOn is the kind of waits that a finding is about.
type WaitsOn uint8

// The kinds of waits.
const (
	WaitsOnDevice WaitsOn = iota // uninterruptible sleep
	WaitsOnLock                  // futex(2)
)

// What returns the waits as in a sentence: "its waits for I/O".
func (w Waiters) What() string {
	if w.On == WaitsOnLock {
		return "waits for locks"
	}
	return "waits for I/O"
}

// Holds reports whether a wait is of this kind. state is that of the profile of waits, and frames
// are those of the kernel, innermost first.
func (w Waiters) Holds(state string, frames []string) bool {
	if w.On == WaitsOnDevice {
		return state == "uninterruptible"
	}
	for _, f := range frames {
		if strings.Contains(f, "futex") {
			return true
		}
	}
	return false
}

// IsScheduler reports whether a function of the kernel only puts a thread to sleep for others.
func IsScheduler(function string) bool {
	switch function {
	case "schedule", "__schedule", "schedule_timeout", "io_schedule", "io_schedule_timeout",
		"schedule_preempt_disabled", "schedule_hrtimeout_range", "schedule_timeout_idle",
		"schedule_timeout_uninterruptible", "context_switch", "preempt_schedule_common",
		"wait_for_completion", "wait_for_completion_io", "__wait_for_common", "bit_wait_io",
		"__wait_on_bit", "out_of_line_wait_on_bit", "prepare_to_wait", "bit_wait":
		return true
	}
	return strings.HasPrefix(function, "__traceiter_") || strings.HasPrefix(function, "bpf_") ||
		strings.HasPrefix(function, "__bpf_")
}
