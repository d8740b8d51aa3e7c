package main

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestProcessorLimit checks GOMAXPROCS during a query, within the idle time after it, and later.
func TestProcessorLimit(t *testing.T) {
	if runtime.NumCPU() < 2 {
		return // GOMAXPROCS is always 1
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	synctest.Test(t, func(t *testing.T) {
		var queries atomic.Int64
		p := &processorLimit{runningQueries: func() int { return int(queries.Load()) }}
		want := func(n int, when string) {
			t.Helper()
			synctest.Wait()
			if got := runtime.GOMAXPROCS(0); got != n {
				t.Errorf("%s GOMAXPROCS is %d, want %d", when, got, n)
			}
		}
		queries.Add(1)
		p.queryStarted()
		want(serverCPUs, "during a query")
		time.Sleep(3 * serverIdle)
		want(serverCPUs, "during a long query")
		queries.Add(-1)
		time.Sleep(serverIdle)
		want(1, "after the idle time")
		queries.Add(1)
		p.queryStarted()
		queries.Add(-1)
		time.Sleep(serverIdle - time.Second)
		want(serverCPUs, "just before the end of the idle time")
		time.Sleep(2 * time.Second)
		want(1, "just after the end of the idle time")
	})
}
