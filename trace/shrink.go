package trace

import (
	"errors"
	"fmt"

	"culprit/kernel/bpf"
	"culprit/lang/gen"
	"culprit/trace/probe"
)

// How maps are made smaller where locked memory is limited: by shrinkStep at a time, down to
// 1/shrinkMost of the usual.
const (
	shrinkStep = 4
	shrinkMost = 4096
)

// shrinking calls load with limits that get smaller until it does not fail for want of locked
// memory. It returns the session, or the error of the last call; a *kernel.MemoryLimit in it has
// the bytes that were wanted at first, which wants returns.
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
	if s.shrunk <= 1 {
		return ""
	}
	return fmt.Sprintf(
		"maps have 1/%d of their usual size, for the limit of locked memory (ulimit -l), which counts before Linux 5.11: "+
			"what does not fit is dropped and counted; ulimit -l unlimited or CAP_SYS_RESOURCE lifts the limit",
		s.shrunk,
	)
}

// Caveats returns sentences on what this kernel keeps from the script: see Shrunk and pointers.
func (s *Session) Caveats() []string {
	var out []string
	for _, text := range []string{s.Shrunk(), s.pointers} {
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}

// pointers returns a sentence that says why user stacks follow frame pointers although that was not
// asked for; "" where they do not, or the script looks at none. c was loaded into the kernel of e,
// with u to walk stacks.
func pointers(c *Compiled, e *probe.Env, u *unwinder) string {
	if u != nil || c.Program.Options.All["unwind"] == "fp" || !gen.WantsUserFrames(c.IR) {
		return ""
	}
	why := e.UnwindTablesMissing()
	if why == nil {
		return ""
	}
	return fmt.Sprintf(
		"user stacks follow frame pointers in place of unwind tables, so callers may be missing in programs that keep none: %v",
		why,
	)
}
