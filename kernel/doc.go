// Package kernel is the floor that every collector stands on: files of /proc and /sys kept open and read again without
// allocating, hot parsers for their text, netlink, network namespaces, clocks, and the answers to "can this kernel do X".
//
// It knows how to ask the kernel, never what the answer means: no statistic, no unit beyond bytes and nanoseconds, and no
// difference of counters lives here. It uses raw system calls in place of package os (no poller, no finalizers), so what
// is opened here must be closed by who opened it.
//
// Nothing in this package is safe from two goroutines at once unless its comment says so: a File, Dir or Conn owns one
// buffer. Each collector has its own.
//
// Errors: errors.Is with fs.ErrNotExist (the process, device or file is gone), measure.ErrDenied, measure.ErrUnsupported
// and measure.ErrUnclear decides; the errno is always reachable by errors.Is or errors.As (unix.Errno).
package kernel
