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

// checkRights returns an error when this process or kernel cannot run the profile, with a hint on
// tools that work. Missing names of functions are no error; the profile has notes on them.
func (p *Profile) checkRights(env *probe.Env) error {
	root := env.Root()
	err := feature.RawTracepoints.Have(root)
	if err == nil && !p.Of.waits() {
		err = feature.PerfEvents.Have(root)
	}
	if err == nil && p.Of.waits() { // waits need the list of tracepoints
		var events []proc.Event
		if events, err = env.TraceEvents(); err == nil && p.Of == Locks && p.kernels() {
			// The release is only for the text of the error.
			release, _ := proc.ReadProc(root, "sys/kernel/osrelease", nil)
			err = noContention(events, strings.TrimSpace(string(release)))
		}
	}
	doing := cmp.Or(p.hooks.doing, "profile")
	switch {
	case errors.Is(err, measure.ErrDenied):
		missing := probe.MissingRight(root, "load BPF programs that read stacks", err)
		return fmt.Errorf("%s: %w; %s", doing, missing, probe.WithoutRights(root))
	case errors.Is(err, measure.ErrUnsupported):
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil // if a test failed otherwise, the profile is tried
}
