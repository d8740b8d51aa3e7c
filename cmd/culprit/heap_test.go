package main

import "testing"

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 100}, {5 << 20, 100}, {10 << 20, 100}, {16 << 20, 62}, {20 << 20, 50}, {39 << 20, 25}, {41 << 20, 25}, {500 << 20, 25}} {
		if got := growth(c.live); got != c.want {
			t.Errorf("a heap of %d MB may grow by %d %%, want %d", c.live>>20, got, c.want)
		}
	}
}
