package probe

import (
	"strconv"
	"strings"

	"culprit/kernel"
	"culprit/kernel/proc"

	"golang.org/x/sys/unix"
)

// MissingRight names the capabilities that this process lacks to do something, or returns the
// kernel's refusal where it has them.
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

// WithoutRights returns a sentence on what works without capabilities.
func WithoutRights(root kernel.Root) string {
	b, err := proc.ReadProc(root, "sys/kernel/perf_event_paranoid", nil)
	if err != nil {
		return "culprit cpu and culprit ps tell who uses the CPUs without it"
	}
	level := strings.TrimSpace(string(b))
	own := "keeps perf record from you too"
	// 3 and 4 are of Debian's and Android's kernels
	if n, err := strconv.Atoi(level); err == nil && n <= 2 {
		own = "lets perf record sample your own processes, and culprit flame reads what perf script prints"
	}
	return "culprit cpu and culprit ps tell who uses the CPUs without it, and kernel.perf_event_paranoid, which is " + level + ", " + own
}
