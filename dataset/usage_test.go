package dataset

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"culprit/measure"
)

// The parts of a process's CPU time add up to it, whatever the clocks say.
func TestCosts(t *testing.T) {
	s := &Set{meters: []meter{{what: "one"}, {what: "two"}}}
	at := time.Unix(1000, 0)
	a := usageSample{
		at:       at,
		process:  5e9,
		recorded: 1e9,
		meters:   []measure.Span{1e9, 2e9},
		garbage:  garbage{1, 10},
	}
	for _, c := range []struct {
		process measure.Span
		garbage garbage
		want    string
	}{
		{15e9, garbage{2, 20}, "0.1: datasets 0.03, one 0.02, two 0.01, garbage collection 0.01, other 0.03"},
		// the wall clock of a busy machine
		{15e9, garbage{5, 50}, "0.1: datasets 0.03, one 0.02, two 0.01, garbage collection 0.01, other 0.03"},
		{15e9, garbage{9, 20}, "0.1: datasets 0.03, one 0.02, two 0.01, garbage collection 0.04, other 0"},
		// none was collected
		{15e9, garbage{1, 10}, "0.1: datasets 0.03, one 0.02, two 0.01, garbage collection 0, other 0.04"},
		// a clock that ran ahead
		{10e9, garbage{2, 20}, "0.05: datasets 0.03, one 0.02, two 0.01, garbage collection 0, other 0"},
	} {
		b := usageSample{
			at:       at.Add(100 * time.Second),
			process:  c.process,
			recorded: 4e9,
			meters:   []measure.Span{3e9, 3e9},
			garbage:  c.garbage,
		}
		whole, parts := s.costs(&a, &b)
		got := fmt.Sprintf("%.3g:", whole)
		for _, p := range parts {
			what, _, _ := strings.Cut(p.Name, ":")
			got += fmt.Sprintf(" %s %.2g,", what, p.CPU)
		}
		if got = strings.TrimSuffix(got, ","); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newMeters()
		live(t, src, newMemory(nil), []string{"m.a by x,y", "m.b"}, func(s *Set) {
			if u := s.Usage(1); u.CPU == u.CPU {
				t.Errorf("before the first tick: %v", u)
			}
			for range 90 {
				src.cost.Add(int64(10 * measure.Millisecond)) // each statistic takes 1 % of a CPU
				time.Sleep(time.Second)
			}
			a, b, none := s.Usage(1), s.Usage(2), s.Usage(9)
			if a.Samples != 4 || b.Samples != 1 {
				t.Errorf("samples a second: %g and %g, want 4 and 1", a.Samples, b.Samples)
			}
			// Folding and storing take real time, for which a fake minute is long.
			if a.CPU < 0.0095 || a.CPU > 0.0115 || b.CPU < 0.0095 || b.CPU > 0.0115 ||
				none.CPU == none.CPU {
				t.Errorf("CPU %g, %g and %g, want 0.01, 0.01 and NaN", a.CPU, b.CPU, none.CPU)
			}
			if h := s.Health(); !(h.CPU >= 0) || h.Started == 0 {
				t.Errorf("health %+v", h)
			}
		})
	})
}

// Go's runtime reports the CPU time of garbage collection and the time in use. It updates them at
// the end of a collection.
func TestReadGarbage(t *testing.T) {
	before := readGarbage()
	for range 5 {
		runtime.GC()
	}
	after := readGarbage()
	if !(after.used > before.used) {
		t.Errorf("used %g s after %g s, want more", after.used, before.used)
	}
	if !(after.collecting > before.collecting) {
		t.Errorf("collecting %g s after %g s, want more", after.collecting, before.collecting)
	}
	total := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}}
	if metrics.Read(total); after.used > total[0].Value.Float64() {
		t.Errorf("used %g s, more than the CPUs had: %g s", after.used, total[0].Value.Float64())
	}
	if after.collecting > after.used {
		t.Errorf("collecting %g s, more than the %g s in use", after.collecting, after.used)
	}
}
