package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 100},
		{5 << 20, 100},
		{10 << 20, 100},
		{16 << 20, 62},
		{20 << 20, 50},
		{39 << 20, 25},
		{41 << 20, 25},
		{500 << 20, 25},
	} {
		if got := growthPercent(c.live); got != c.want {
			t.Errorf("a heap of %d MB may grow by %d %%, want %d", c.live>>20, got, c.want)
		}
	}
}

// TestReleaseHeap allocates and frees 256 MB twice. The first time the memory is returned to the
// system. The second time it is not: that is within releaseInterval.
func TestReleaseHeap(t *testing.T) {
	// A collection would return free memory by itself.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	free := func() uint64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	var h heapTuner
	for i, want := range []bool{true, false} {
		burst := make([]byte, 256<<20)
		for at := 0; at < len(burst); at += 4096 {
			burst[at] = 1
		}
		runtime.KeepAlive(burst)
		burst = nil
		runtime.GC()
		before := free()
		if h.release(); (free() < releasableHeap) != want {
			t.Errorf("burst %d: %d MB were free, %d are", i+1, before>>20, free()>>20)
		}
	}
}
