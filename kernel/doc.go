// Package kernel contains what all access to the kernel needs: where /proc and /sys are (Root),
// clocks, ticks, capabilities, and what an errno means. The packages below it read files (proc),
// use netlink (netlink), load BPF programs (bpf) and find out what this kernel has and allows
// (feature).
//
// They return what the kernel returns. No statistic, no unit beyond bytes and nanoseconds and no
// difference of counters is made here.
//
// They use raw system calls instead of package os (no poller, no finalizers), so the caller that
// opens something closes it. Nothing is safe for concurrent use unless its comment says so: a
// proc.File, proc.Dir or netlink.Conn has one buffer.
//
// Errors: errors.Is with fs.ErrNotExist (the process, device or file is gone), measure.ErrDenied,
// measure.ErrUnsupported or measure.ErrUnclear. errors.As finds the unix.Errno.
package kernel
