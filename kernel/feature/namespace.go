package feature

import (
	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// InPIDNamespace reports whether this process is in a PID namespace below the first. Then pids
// differ from the kernel's, and other processes of the machine are not visible.
func InPIDNamespace(r kernel.Root) bool {
	const first = 0xEFFFFFFC // PROC_PID_INIT_INO, include/linux/proc_ns.h
	var st unix.Stat_t
	return !r.Captured() && unix.Stat("/proc/self/ns/pid", &st) == nil && st.Ino != first
}
