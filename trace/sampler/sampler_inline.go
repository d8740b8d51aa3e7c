package sampler

import (
	"context"
	"runtime"
	"time"

	"culprit/kernel"
	"culprit/trace"
)

// How much CPU time the sampler takes to look for functions that compilers put into others: debug
// information may be large, and new places in programs come for as long as they run. Those that are
// sampled often are met in the first seconds.
const (
	inlineAtFirst = 500 * time.Millisecond
	inlineShare   = 2000 // and a two-thousandth of the time that passes
	inlineEach    = 2 * time.Second
	// inlineLongest is what one file may take; what was not found then is not looked for again.
	inlineLongest = 300 * time.Millisecond
)

// inlining looks for inlined functions at the places that were sampled, until the context ends.
func inlining(ctx context.Context, source *trace.Source) {
	runtime.LockOSThread() // whose time is counted; the thread ends with it
	began, before := time.Now(), time.Duration(kernel.ThreadTime())
	each := time.NewTicker(inlineEach)
	defer each.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-each.C:
		}
		for ctx.Err() == nil && time.Duration(kernel.ThreadTime())-before < inlineAtFirst+time.Since(began)/inlineShare {
			until := time.Duration(kernel.ThreadTime()) + inlineLongest
			if !source.LearnInlined(
				func() bool { return time.Duration(kernel.ThreadTime()) > until || ctx.Err() != nil },
			) {
				break
			}
		}
	}
}
