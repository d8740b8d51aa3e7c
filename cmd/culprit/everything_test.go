package main

import (
	"context"
	"errors"
	"flag"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"culprit/collect"
	"culprit/dataset"
	"culprit/kernel"
	"culprit/measure"
)

var (
	everyStep = flag.Duration(
		"step", 100*time.Millisecond,
		"interval of BenchmarkEverything; at 1s the CPU caches are as cold as in real use",
	)
	everyLong = flag.Bool(
		"long",
		false,
		"BenchmarkEverything reads as `culprit serve` does: with BPF iterators instead of dumps if "+
			"they are allowed",
	)
	everyWithout = flag.String(
		"without", "",
		"prefixes of statistics that BenchmarkEverything omits, separated by commas",
	)
)

// BenchmarkEverything watches all statistics of all collectors by all their fields through the
// catalogue, without traced and sampled ones. That is a tool's work without its output. An
// operation is an interval. tools/bench runs it beside the classic tools on machines with many
// processes and connections.
func BenchmarkEverything(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	tune(nil)
	limitHeap()
	c := machine{
		Catalogue: dataset.New(sources(collect.Env{Root: kernel.Root{}, Long: *everyLong}, 0)...),
		brief:     true,
		firstTick: new(sync.Once),
	}
	var queries []measure.Query
	for _, st := range c.Stats() {
		if without(st.ID) || st.Traced || strings.HasPrefix(string(st.ID), "cpu.stack.") {
			continue
		}
		q := measure.Query{Stat: st.ID, Step: measure.Span(*everyStep)}
		for _, f := range st.Fields {
			q.By = append(q.By, f.Name)
		}
		queries = append(queries, q)
	}
	errEnough := errors.New("enough")
	var used time.Duration
	var before, after runtime.MemStats
	rows, n := 0, -1 // the first tick is not counted
	err := c.Watch(context.Background(), queries, func(t *measure.Tick) error {
		if n++; n == 0 {
			runtime.ReadMemStats(&before)
			used = -cpuTime(b)
			return nil
		}
		for _, a := range t.Answers {
			rows += len(a.Series)
		}
		if n < b.N {
			return nil
		}
		used += cpuTime(b)
		runtime.ReadMemStats(&after)
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		b.Fatal(err)
	}
	if rows == 0 {
		b.Fatal("nothing was measured")
	}
	each := func(v float64, unit string) { b.ReportMetric(v/float64(b.N), unit) }
	each(used.Seconds()*1e3, "cpu-ms/interval")
	each(float64(after.Mallocs-before.Mallocs), "allocs/interval")
	each(float64(after.TotalAlloc-before.TotalAlloc), "B/interval")
	each(float64(rows), "rows/interval")
	b.ReportMetric(0, "ns/op") // it would be the interval
}

// without reports whether -without has a prefix of id.
func without(id measure.StatID) bool {
	for prefix := range strings.SplitSeq(*everyWithout, ",") {
		if prefix != "" && strings.HasPrefix(string(id), prefix) {
			return true
		}
	}
	return false
}

// cpuTime returns the CPU time of this process so far: getrusage(2).
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
