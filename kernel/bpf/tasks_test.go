package bpf

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// openTasks opens Tasks, or skips the test.
func openTasks(tb testing.TB) *Tasks {
	tb.Helper()
	t, err := OpenTasks(kernel.Root{})
	opened(tb, err, "task iterators")
	tb.Cleanup(t.Close)
	return t
}

// The threads of this process are those that /proc lists, each once, with the numbers of their
// schedstat.
func TestTasksOfThisProcess(t *testing.T) {
	walk := openTasks(t)
	dir, err := proc.OpenDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	self := int32(os.Getpid())
	before, err := dir.ListTIDs(self, nil)
	if err != nil {
		t.Fatal(err)
	}
	low, high := map[int32]uint64{}, map[int32]uint64{}
	look := func(to map[int32]uint64) {
		for _, tid := range before {
			b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/schedstat", tid))
			if err != nil {
				continue
			}
			c := proc.Scan(b)
			c.Uint() // of a thread that runs it grows meanwhile
			c.Uint()
			if count := c.Uint(); c.Err() == nil {
				to[tid] = count
			}
		}
	}
	look(low)
	last, seen := int32(0), map[int32]Task{}
	if err := walk.Each(func(k *Task) {
		if k.TID <= last {
			t.Errorf("thread %d comes after %d", k.TID, last)
		}
		if last = k.TID; k.PID == self {
			seen[k.TID] = *k
		}
	}); err != nil {
		t.Fatal(err)
	}
	look(high)
	if len(high) == 0 {
		t.Fatal("nothing to compare")
	}
	parent := seen[self].Parent
	for tid := range high {
		if k, ok := seen[tid]; !ok || k.Count < low[tid] || k.Count > high[tid] ||
			k.Parent != parent || k.Resident != seen[self].Resident {
			t.Errorf("thread %d: %+v, want a count from %d to %d, and the parent and the memory "+
				"of thread %d: %+v", tid, k, low[tid], high[tid], self, seen[self])
		}
	}
}

func TestTasksOfCapturedFiles(t *testing.T) {
	if _, err := OpenTasks(kernel.Root{Proc: t.TempDir()}); !errors.Is(err,
		measure.ErrUnsupported) {
		t.Errorf("got %v: the running kernel's tasks are none of captured files'", err)
	}
}

func BenchmarkTasks(b *testing.B) {
	walk := openTasks(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = 0
		if err := walk.Each(func(*Task) { n++ }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(max(1, n)), "ns/task")
}
