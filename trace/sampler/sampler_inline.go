package sampler

import (
	"context"
	"time"

	"culprit/trace"
)

// Limits of the CPU time in which the sampler looks for inlined functions. Debug information may be
// large, and programs reach new places for as long as they run. Places that are sampled often
// appear in the first seconds.
const (
	// The sampler uses inlineAtFirst plus one part in inlineShare of the time that passes.
	inlineAtFirst = 500 * time.Millisecond
	inlineShare   = 2000
	inlineEach    = 2 * time.Second
	// inlineLongest is the limit for one file. What is not found within it is not searched again.
	inlineLongest = 300 * time.Millisecond
)

// inlining looks for inlined functions at the places that were sampled, until the context ends.
func inlining(ctx context.Context, source *trace.Source) {
	began, used := time.Now(), time.Duration(0)
	each := time.NewTicker(inlineEach)
	defer each.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-each.C:
		}
		for ctx.Err() == nil && used < inlineAtFirst+time.Since(began)/inlineShare {
			took, any := source.LearnInlined(inlineLongest)
			if !any {
				break
			}
			used += took
		}
	}
}
