package facts

import "strings"

// Polls returns the system call of a sample if it asks for events, or yields the CPU, and does not
// sleep: epoll_wait, poll and select with what they look at, and sched_yield. Other calls in empty
// count too: those that return nothing. "" for others.
func Polls(r *Sample, empty map[string]bool) string {
	if r.Entry.Kind != InCall {
		return ""
	}
	switch name := r.Entry.Name; name {
	case "sched_yield":
		return name
	case "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6":
		if !sleeps(r.Path) {
			return name
		}
	default:
		if empty[name] && !sleeps(r.Path) {
			return name
		}
	}
	return ""
}

// sleeps reports whether a path goes to sleep, or wakes up from it.
func sleeps(path []string) bool {
	for _, name := range path {
		if strings.Contains(name, "schedule") || strings.Contains(name, "task_switch") {
			return true
		}
	}
	return false
}

// EntersOnly reports whether a sample was taken where the kernel enters and leaves system calls, or
// traces them, which belongs to no call.
func EntersOnly(r *Sample) bool {
	if r.Entry.Kind != InCall || r.Entry.Name != "" || sleeps(r.Path) {
		return false
	}
	for _, name := range r.Path {
		switch name {
		case "syscall_trace_enter", "syscall_exit_work", "syscall_exit_to_user_mode",
			"trace_syscall_enter", "bpf_trace_run2", "bpf_trace_run3", "perf_syscall_exit":
			return true
		}
	}
	return len(r.Path) <= 1
}
