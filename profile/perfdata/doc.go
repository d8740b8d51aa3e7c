// Package perfdata reads perf.data, the file that perf record writes: samples with their stacks as
// addresses, and the files that were mapped there. It is pure: it opens no file and names no
// address. The layout is that of tools/perf/Documentation/perf.data-file-format.txt of Linux, with
// the records of include/uapi/linux/perf_event.h.
package perfdata
