package trace

import (
	"errors"
	"fmt"

	"culprit/kernel"
	"culprit/lang/gen"
)

// How maps are made smaller where locked memory is limited: by shrinkStep at a time, down to 1/shrinkMost of the usual.
const (
	shrinkStep = 4
	shrinkMost = 4096
)

// shrinking calls load with limits that get smaller until it does not fail for want of locked memory. It returns the session, or
// the error of the last call; a *kernel.MemoryLimit in it has the bytes that were wanted at first, which wants returns.
func shrinking(l gen.Limits, load func(gen.Limits) (*Session, error), wants func() uint64) (*Session, error) {
	for l.Shrink = 1; ; l.Shrink *= shrinkStep {
		s, err := load(l)
		limit, ok := errors.AsType[*kernel.MemoryLimit](err)
		if !ok {
			return s, err
		}
		if l.Shrink >= shrinkMost {
			limit.Wants = wants()
			return nil, err
		}
	}
}

// Shrunk returns a sentence that says how much less room maps have, for want of locked memory; "": they have the usual.
func (s *Session) Shrunk() string {
	if s.shrunk <= 1 {
		return ""
	}
	return fmt.Sprintf("maps have 1/%d of their usual room, for the limit of locked memory (ulimit -l), which counts before Linux 5.11: "+
		"what has no room is dropped and counted; ulimit -l unlimited or CAP_SYS_RESOURCE gives all of it", s.shrunk)
}
