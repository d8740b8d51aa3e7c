package main

import "testing"

func TestCostBucket(t *testing.T) {
	for share, want := range map[float64]string{
		0.011: "1", 0.02: "1", 0.021: "2", 0.05: "2", 0.051: "5", 0.19: "10", 0.9: "50",
	} {
		if got := costBucket(share); got != want {
			t.Errorf("%g: more than %s, want %s", share, got, want)
		}
	}
}
