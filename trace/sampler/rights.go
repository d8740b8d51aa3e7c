package sampler

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace/probe"
)

// may reports what is missing for a profile before it is begun, and what still works. Missing names
// of functions are reported with the profile.
func (p *Profile) may(env *probe.Env) error {
	root := env.Root()
	err := feature.RawTracepoints.Have(root)
	if err == nil && p.Of == OnCPU {
		err = feature.PerfEvents.Have(root)
	}
	if err == nil && p.Of != OnCPU { // whose list of tracepoints must be read
		var events []proc.Event
		if events, err = env.TraceEvents(); err == nil && p.Of == Locks && p.kernels() {
			// it is for the error alone
			release, _ := proc.ReadProc(root, "sys/kernel/osrelease", nil)
			err = noContention(events, strings.TrimSpace(string(release)))
		}
	}
	doing := cmp.Or(p.doing, "profile")
	switch {
	case errors.Is(err, measure.ErrDenied):
		return fmt.Errorf(
			"%s: %w; %s", doing, probe.MissingRight(root, "load BPF programs that see stacks", err),
			probe.WithoutRights(root),
		)
	case errors.Is(err, measure.ErrUnsupported):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil // what is not known is tried
}
