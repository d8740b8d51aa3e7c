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
		"interval of BenchmarkEverything; what a tool pays is seen at 1s, with caches gone cold",
	)
	everyLong = flag.Bool(
		"long", false,
		"BenchmarkEverything reads as who goes on for hours does, `culprit serve`: walks by programs in the kernel in place of dumps, where they may be",
	)
	everyWithout = flag.String(
		"without", "",
		"prefixes of statistics that BenchmarkEverything leaves out, with commas between",
	)
)

// BenchmarkEverything watches every statistic of every collector by all its fields, not what
// programs in the kernel measure or sample, through the catalogue: what is left of a tool's work
// when nothing is shown. An operation is an interval. tools/bench runs it in worlds of many
// processes and connections, beside the classic tools.
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
	enough := errors.New("enough")
	var used time.Duration
	var before, after runtime.MemStats
	rows, n := 0, -1 // the tick after the first reading is not counted
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
		return enough
	})
	if !errors.Is(err, enough) {
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
	b.ReportMetric(0, "ns/op") // it is the step
}

func without(id measure.StatID) bool {
	for prefix := range strings.SplitSeq(*everyWithout, ",") {
		if prefix != "" && strings.HasPrefix(string(id), prefix) {
			return true
		}
	}
	return false
}

// cpuTime gives the CPU time of this process so far: getrusage(2).
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
