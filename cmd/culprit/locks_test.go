package main

import (
	"strings"
	"testing"

	"culprit/trace"
)

// Losses are reported in terms of waits, without options that culprit locks does not have.
func TestLockLoss(t *testing.T) {
	for reason, want := range map[string]string{
		trace.LostKeys:      "more rows than fit",
		trace.LostVariables: "more waiting threads than fit",
		trace.LostStacks:    "more stacks than fit",
		"firings that the kernel left out, because the program ran already": "firings that the kernel left out",
	} {
		if got := lockLoss(reason); !strings.HasPrefix(got, want) ||
			strings.Contains(got, "size") ||
			strings.Contains(got, "script") {
			t.Errorf("%s: %s", reason, got)
		}
	}
}

func TestDearness(t *testing.T) {
	for share, want := range map[float64]string{0.011: "1", 0.021: "2", 0.19: "10", 0.9: "50"} {
		if got := costBucket(share); got != want {
			t.Errorf("%g: more than %s, want %s", share, got, want)
		}
	}
}
