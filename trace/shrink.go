package trace

import (
	"errors"
	"fmt"

	"culprit/kernel/bpf"
	"culprit/lang/gen"
	"culprit/trace/probe"
)

// How maps are shrunk where locked memory is limited: by shrinkStep at a time, down to 1/shrinkMost
// of the usual size.
const (
	shrinkStep = 4
	shrinkMost = 4096
)

// shrinking calls load with ever smaller limits until locked memory suffices. It returns the
// session, or the error of the last call. A *bpf.MemoryLimit in that error has the bytes of maps of
// the usual size, which wants returns.
func shrinking(
	l gen.Limits, load func(gen.Limits) (*Session, error), wants func() uint64,
) (*Session, error) {
	for l.Shrink = 1; ; l.Shrink *= shrinkStep {
		s, err := load(l)
		limit, ok := errors.AsType[*bpf.MemoryLimit](err)
		if !ok {
			return s, err
		}
		if l.Shrink >= shrinkMost {
			limit.Wants = wants()
			return nil, err
		}
	}
}

// Shrunk returns a note on maps that are smaller than usual because locked memory is limited, or
// "".
func (s *Session) Shrunk() string {
	if s.programs.shrunk <= 1 {
		return ""
	}
	return fmt.Sprintf(
		"maps have 1/%d of their usual size because of the limit of locked memory (ulimit -l), "+
			"which applies before Linux 5.11: data that does not fit is dropped and counted; "+
			"ulimit -l unlimited or CAP_SYS_RESOURCE lifts the limit",
		s.programs.shrunk,
	)
}

// Caveats returns notes on how this kernel limits the script: smaller maps (Shrunk), and stacks
// that follow frame pointers.
func (s *Session) Caveats() []string {
	var out []string
	for _, text := range []string{s.Shrunk(), s.symbols.pointers} {
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}

// pointers returns a note on why user stacks follow frame pointers although the script did not ask
// for that. It returns "" when they do not, or when the script reads no user stacks. u is nil when
// the programs of c do not use unwind tables.
func pointers(c *Compiled, e *probe.Env, u *unwinder) string {
	if u != nil || c.Program.Options.All["unwind"] == "fp" || !gen.WantsUserFrames(c.IR) {
		return ""
	}
	why := e.UnwindTablesMissing()
	if why == nil {
		return ""
	}
	return fmt.Sprintf(
		"user stacks follow frame pointers instead of unwind tables, "+
			"so callers may be missing in programs without frame pointers: %v",
		why,
	)
}
