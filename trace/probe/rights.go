package probe

import (
	"strconv"
	"strings"

	"culprit/kernel"
	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

// MissingRight returns an error that names the capabilities which this process lacks for doing
// something. It returns refusal, the kernel's error, when the process has them.
func MissingRight(root kernel.Root, doing string, refusal error) error {
	have, err := root.Capabilities()
	if err != nil || have.Has(unix.CAP_SYS_ADMIN) {
		return refusal
	}
	if have.Has(unix.CAP_BPF) && have.Has(unix.CAP_PERFMON) {
		return refusal
	}
	return kernel.Refused(doing, "root", unix.CAP_BPF, unix.CAP_PERFMON)
}

// WithoutRights returns a hint on tools that need no capabilities.
func WithoutRights(root kernel.Root) string {
	b, err := proc.ReadProc(root, "sys/kernel/perf_event_paranoid", nil)
	if err != nil {
		return "culprit cpu and culprit ps show the processes that use the CPUs without it"
	}
	level := strings.TrimSpace(string(b))
	own := "forbids perf record too"
	// The levels 3 and 4 exist in kernels of Debian and Android.
	if n, err := strconv.Atoi(level); err == nil && n <= 2 {
		own = "allows perf record for your own processes, whose perf script culprit flame reads"
	}
	return "culprit cpu and culprit ps show the processes that use the CPUs without it; " +
		"kernel.perf_event_paranoid is " + level + ", which " + own
}
