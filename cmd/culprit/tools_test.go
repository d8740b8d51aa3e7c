package main

import (
	"context"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"culprit/view/term"

	"culprit/view/classic"
)

var toolStep = flag.Duration(
	"toolstep", 10*time.Millisecond,
	"interval of BenchmarkTool; at 1s the CPU caches are as cold as in real use",
)

// BenchmarkTool runs each tool as the command line does and discards its output. An operation is an
// interval. The start and end of the tool are included, so use many intervals.
func BenchmarkTool(b *testing.B) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	tune(nil)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	for _, t := range classic.All() {
		b.Run(t.Name, func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			used := -cpuTime(b)
			args := []string{
				t.Name,
				strconv.FormatFloat(toolStep.Seconds(), 'f', -1, 64),
				strconv.Itoa(b.N),
			}
			p := term.Program{
				Open:     openMachine,
				Terminal: term.Terminal{Out: null, Err: null, Width: 120},
			}
			if status := term.Run(context.Background(), p, args); status != 0 {
				b.Fatalf("exit status %d", status)
			}
			used += cpuTime(b)
			runtime.ReadMemStats(&after)
			b.ReportMetric(used.Seconds()*1e3/float64(b.N), "cpu-ms/interval")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(b.N), "allocs/interval")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N), "B/interval")
			b.ReportMetric(0, "ns/op") // it would be the interval
		})
	}
}
