package sampler

import (
	"sync/atomic"
	"testing"

	"culprit/kernel/feature"
	"culprit/trace/tracetest"
)

// spinShares runs spinSeventy 70 % of the time and spinThirty 30 %, until the test ends.
func spinShares(t *testing.T) {
	t.Helper()
	tracetest.Needs(t, feature.RawTracepoints)
	over := &atomic.Bool{}
	t.Cleanup(func() { over.Store(true) })
	go func() {
		for !over.Load() {
			spinSeventy(7000)
			spinThirty(3000)
		}
	}()
}

// checkShares fails the test unless the samples of the two functions have these shares, within five
// standard deviations of 200 samples.
func checkShares(t *testing.T, seventy, thirty float64) {
	t.Helper()
	if share := seventy / (seventy + thirty); !(share >= 0.53 && share <= 0.87) {
		t.Errorf(
			"the function that takes 70 %% of the time has %.1f %% of %.0f samples", 100*share,
			seventy+thirty,
		)
	}
}

// spun keeps the compiler from removing the loops.
//
// table: written by one test
var spun atomic.Uint64

//go:noinline
func spinSeventy(n int) {
	x := uint64(n)
	for range n * 10 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	spun.Store(x)
}

//go:noinline
func spinThirty(n int) {
	x := uint64(n)
	for range n * 10 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	spun.Store(x)
}
