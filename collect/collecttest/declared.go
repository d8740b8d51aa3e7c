package collecttest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"culprit/collect"
)

// CheckStats compares what the collectors declare with testdata/stats.golden, after writing it with
// update: one line per statistic with its kind, unit, fold and fields. Each statistic must have a
// help text.
func CheckStats(t *testing.T, update bool, collectors ...collect.Collector) {
	t.Helper()
	var b strings.Builder
	for _, c := range collectors {
		fmt.Fprintf(&b, "%T\n", c)
		for _, st := range c.Stats() {
			fmt.Fprintf(&b, "  %s %s %q %s", st.ID, st.Kind, st.Unit, st.Fold)
			if st.Sparse {
				b.WriteString(" sparse")
			}
			if st.Traced {
				b.WriteString(" traced")
			}
			b.WriteString(" by")
			for _, f := range st.Fields {
				fmt.Fprintf(&b, " %s:%s", f.Name, f.Type)
			}
			b.WriteString("\n")
			if st.Help == "" {
				t.Errorf("%s has no help", st.ID)
			}
		}
	}
	file := filepath.Join("testdata", "stats.golden")
	if update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("%s differs: got\n%s", file, b.String())
	}
}

// CheckClose opens each collector on this machine, reads twice and closes it, several times. It
// fails the test if files or goroutines stay behind. A collector that this machine does not support
// is left out.
func CheckClose(t *testing.T, collectors ...collect.Collector) {
	t.Helper()
	files := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for _, c := range collectors {
		once := func() bool {
			reading, err := c.Open(&collect.Env{}, WantAll(c))
			if err != nil {
				return false
			}
			defer reading.Close()
			out := collect.NewOut(c.Stats(), collect.NewDictionary(), false)
			for n := range 2 {
				out.Start(n == 0, time.Now())
				if err := reading.Read(out); err != nil {
					return false
				}
				out.Finish(nil)
			}
			return true
		}
		if !once() { // the first time may open files that the process keeps
			continue
		}
		before, goroutines := files(), runtime.NumGoroutine()
		const times = 6
		for range times {
			once()
		}
		if after := files(); after >= before+times {
			t.Errorf("%T: %d files are open after %d runs, were %d", c, after, times, before)
		}
		if after := runtime.NumGoroutine(); after >= goroutines+times {
			t.Errorf("%T: %d goroutines run after %d runs, were %d", c, after, times, goroutines)
		}
	}
}
