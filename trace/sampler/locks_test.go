package sampler

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"culprit/kernel/feature"
	"culprit/kernel/proc"
	"culprit/measure"
	"culprit/trace/tracetest"
)

// contending is a program of four threads that use one pipe, which has one mutex, until its input
// ends.
const contending = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static int ends[2];
static volatile int over;
static void *work(void *unused) { char b; while (!over) { if (write(ends[1], "x", 1) == 1 && read(ends[0], &b, 1) == 1) continue; } return 0; }
int main(void) {
	pthread_t all[4];
	if (pipe2(ends, O_NONBLOCK) || getchar() == EOF) return 1;
	for (int i = 0; i < 4; i++) pthread_create(&all[i], 0, work, 0);
	while (getchar() != EOF) ;
	over = 1;
	for (int i = 0; i < 4; i++) pthread_join(all[i], 0);
	return 0;
}`

// lockSums are the sums of all batches for a kind of lock.
type lockSums struct {
	count, nanos, most float64
	dist               uint64
}

// watchLocks measures the waits of a program in a function, until done returns true for the sums by
// kind.
func watchLocks(
	t *testing.T, table LockTable, function, text string,
	done func(map[string]lockSums, *bufio.Reader) bool, args ...string,
) (map[string]lockSums, map[string]uint64) {
	t.Helper()
	tracetest.Needs(t, feature.TypedTracepoints)
	if _, err := tracetest.Here(t).Probes(tracetest.Probe(t, "sdt:lock::contention_begin")); err != nil {
		t.Skip("needs: kernel feature lock:contention_begin")
	}
	c := exec.Command(tracetest.CompileC(t, text, "-pthread"), args...)
	in, out := tracetest.Pipe(t, c)
	defer c.Wait() //nolint:errcheck // the test checks the waits
	defer in.Close()
	table.Profile.Threads.PIDs = []int{c.Process.Pid}
	s, err := table.Source()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer func() {
		stop()
		<-s.Ended()
	}()
	go s.Live(ctx) //nolint:errcheck // Err returns it
	<-s.Begun()
	var queries []measure.Query
	for _, st := range s.Stats() {
		q := measure.Query{Stat: st.ID, Step: 100 * measure.Millisecond}
		for _, f := range st.Fields {
			q.By = append(q.By, f.Name)
		}
		queries = append(queries, q)
	}
	sums, lost, output := map[string]lockSums{}, map[string]uint64{}, bufio.NewReader(out)
	began, over, last := false, false, 0.0
	enough := errors.New("enough")
	err = s.Run(ctx, queries, measure.SinkFunc(func(all []*measure.Batch) error {
		if !began { // what it waits for is all after the first reading
			began = true
			if _, err := io.WriteString(in, "\n"); err != nil {
				return err
			}
			return nil
		}
		for _, b := range all {
			if b.Over.Span() <= 0 {
				return fmt.Errorf("%s could not look: %v", b.Stat, b.Notes)
			}
			for _, l := range b.Loss {
				lost[l.Reason] += l.Events
			}
			for i := range b.Rows() {
				key := b.Key(i)
				kind := b.Labels[key[0]]
				if table.Stacks &&
					!strings.Contains(measure.FoldedStack(b.Frames, key[len(key)-1]), function) {
					continue
				}
				if table.Processes && b.Labels[key[2]] != fmt.Sprint(c.Process.Pid) {
					return fmt.Errorf("a wait of process %q", b.Labels[key[2]])
				}
				sum := sums[kind]
				switch {
				case strings.HasSuffix(string(b.Stat), ".count"):
					sum.count += b.Values[i]
				case strings.HasSuffix(string(b.Stat), ".time"):
					sum.nanos += b.Values[i]
				case strings.HasSuffix(string(b.Stat), ".max"):
					sum.most = max(sum.most, b.Values[i])
				case strings.HasSuffix(string(b.Stat), ".dist"):
					sum.dist += b.Dists[i].Count()
				}
				sums[kind] = sum
			}
		}
		// maps are read one after the other: what ends meanwhile is in the one now and in the other
		// at the next tick
		if !over && done(sums, output) {
			over = true
			return in.Close()
		}
		now := 0.0
		for _, sum := range sums {
			now += sum.count
		}
		if over && now == last {
			return enough
		}
		last = now
		return nil
	}))
	if !errors.Is(err, enough) {
		t.Fatalf("after %v, lost %v: %v", sums, lost, err)
	}
	// with a full map, one aggregation may have a row that another lacks
	for kind, sum := range sums {
		if len(lost) == 0 && sum.count > 0 &&
			(sum.most <= 0 || sum.most > sum.nanos || sum.nanos > sum.count*sum.most ||
				table.Dists && float64(sum.dist) != sum.count) {
			t.Errorf("%s: %+v", kind, sum)
		}
	}
	return sums, lost
}

// Waits for a mutex of a program are those that the program itself measures, and not longer.
func TestLockTableOfPrograms(t *testing.T) {
	var said string
	ticks := 0
	sums, lost := watchLocks(
		t,
		LockTable{Stacks: true, Dists: true, Processes: true, Profile: Profile{User: true}},
		"wants+",
		waiting,
		func(sums map[string]lockSums, out *bufio.Reader) bool {
			if ticks++; ticks < 3 || sums["futex"].count < 18 {
				return false
			}
			said, _ = out.ReadString('\n')
			return true
		},
		"lock",
	)
	var whole float64
	if _, err := fmt.Sscan(said, &whole); err != nil {
		t.Fatalf("the program said %q: %v", said, err)
	}
	if got := sums["futex"]; len(sums) != 1 || got.count > 20 || got.nanos < (got.count-3)*10e6 ||
		got.nanos > whole ||
		got.most < 10e6 {
		t.Errorf("%+v of 20 waits of 20 ms, by itself %.0f ns; lost %v", sums, whole, lost)
	}
}

// A wait for a lock of the kernel has the kind of the lock and the stack of the program.
func TestLockTableOfTheKernel(t *testing.T) {
	began := time.Now()
	sums, _ := watchLocks(
		t,
		LockTable{Stacks: true, Dists: true, Profile: Profile{Kernel: true}},
		"pipe_",
		contending,
		func(sums map[string]lockSums, _ *bufio.Reader) bool {
			return sums["mutex"].count > 20
		},
	)
	if got := sums["mutex"]; got.nanos > 4*float64(time.Since(began)) {
		t.Errorf("four threads waited %.0f ns in %v", got.nanos, time.Since(began))
	}
}

// With maps for one key and one stack, waits that do not fit are losses with the reasons of a
// LockTable.
func TestLockTableWithFullMaps(t *testing.T) {
	_, lost := watchLocks(
		t,
		LockTable{Processes: true, Stacks: true, maxKeys: 1},
		"pipe_",
		contending,
		func(sums map[string]lockSums, _ *bufio.Reader) bool {
			return sums["mutex"].count > 200
		},
	)
	n := uint64(0)
	for reason, events := range lost {
		n += events
		if strings.Contains(reason, "script") || strings.Contains(reason, "size") {
			t.Errorf("the reason of a script: %s", reason)
		}
	}
	if n == 0 { // two functions of the pipe wait for the mutex, and one stack fits
		t.Error("nothing was lost")
	}
}

// The error for a kernel that does not report waits for locks names what still works.
func TestNoContention(t *testing.T) {
	err := noContention(
		[]proc.Event{
			{Subsystem: "lock", Name: "lock_acquire"},
			{Subsystem: "sched", Name: "contention_begin"},
		},
		"5.15.0",
	)
	if !errors.Is(err, measure.ErrUnsupported) || !strings.Contains(err.Error(), "5.15.0") ||
		!strings.Contains(err.Error(), "--user") {
		t.Error(err)
	}
	both := []proc.Event{
		{Subsystem: "lock", Name: "contention_begin"}, {Subsystem: "lock", Name: "contention_end"},
	}
	if err := noContention(both, "6.1"); err != nil {
		t.Error(err)
	}
}
