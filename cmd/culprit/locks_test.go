package main

import (
	"strings"
	"testing"

	"culprit/trace"
)

// Losses are told in words of waits, without options that culprit locks has not.
func TestLockLoss(t *testing.T) {
	for reason, want := range map[string]string{
		trace.LostKeys:      "no room for another row",
		trace.LostVariables: "no room for another thread",
		trace.LostStacks:    "no room for another stack",
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
