package trace

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// may says what is missing for a profile before it is begun, and what still works. That names of functions can't be had is told with the
// profile.
func (p *Profile) may(env *Env) error {
	root := env.root
	err := kernel.RawTracepoints.Have(root)
	if err == nil && p.Of == OnCPU {
		err = kernel.PerfEvents.Have(root)
	}
	if err == nil && p.Of != OnCPU { // whose list of tracepoints must be read
		var events []kernel.Event
		if events, err = env.traceEvents(); err == nil && p.Of == Locks && p.kernels() {
			release, _ := root.ReadProc("sys/kernel/osrelease", nil) // it is for the error alone
			err = noContention(events, strings.TrimSpace(string(release)))
		}
	}
	doing := cmp.Or(p.doing, "profile")
	switch {
	case errors.Is(err, measure.ErrDenied):
		return fmt.Errorf("%s: %w; %s", doing, missingRight(root, "load BPF programs that see stacks", err), without(root))
	case errors.Is(err, measure.ErrUnsupported):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil // who could not tell tries
}

// missingRight names the capabilities that this process lacks to do something, or gives the kernel's refusal if it has them.
func missingRight(root kernel.Root, doing string, refusal error) error {
	have, err := root.Capabilities()
	if err != nil || have.Has(unix.CAP_SYS_ADMIN) {
		return refusal
	}
	if have.Has(unix.CAP_BPF) && have.Has(unix.CAP_PERFMON) {
		return refusal
	}
	return kernel.Refused(doing, "root", unix.CAP_BPF, unix.CAP_PERFMON)
}

// without tells what somebody without rights can do.
func without(root kernel.Root) string {
	b, err := root.ReadProc("sys/kernel/perf_event_paranoid", nil)
	if err != nil {
		return "culprit cpu and culprit ps tell who uses the CPUs without it"
	}
	level := strings.TrimSpace(string(b))
	own := "keeps perf record from you too"
	if n, err := strconv.Atoi(level); err == nil && n <= 2 { // 3 and 4 are of Debian's and Android's kernels
		own = "lets perf record sample your own processes, and culprit flame reads what perf script prints"
	}
	return "culprit cpu and culprit ps tell who uses the CPUs without it, and kernel.perf_event_paranoid, which is " + level + ", " + own
}
