package main

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestProcessors(t *testing.T) {
	if runtime.NumCPU() < 2 {
		return // there is nothing to give
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	synctest.Test(t, func(t *testing.T) {
		var questions atomic.Int64
		p := &processors{questions: func() int { return int(questions.Load()) }}
		want := func(n int, when string) {
			t.Helper()
			synctest.Wait()
			if got := runtime.GOMAXPROCS(0); got != n {
				t.Errorf("%s there are %d, want %d", when, got, n)
			}
		}
		questions.Add(1)
		p.asked()
		want(serverCPUs, "while a question is worked on")
		time.Sleep(3 * serverRest)
		want(serverCPUs, "while it is worked on for long")
		questions.Add(-1)
		time.Sleep(serverRest)
		want(1, "a while after")
		questions.Add(1)
		p.asked()
		questions.Add(-1)
		time.Sleep(serverRest - time.Second)
		want(serverCPUs, "a little after another")
		time.Sleep(2 * time.Second)
		want(1, "a while after that")
	})
}
