package proc

import (
	"errors"
	"io/fs"
	"sync"
	"testing"
	"time"
)

// A function that does not return delays one caller. Calls for its process fail until it has
// returned, and its late result is dropped.
func TestGuardedThatHangs(t *testing.T) {
	g := Guard{Limit: 20 * time.Millisecond}
	open, dropped := make(chan struct{}), make(chan int, 1)
	hang := func() (int, error) { <-open; return 7, nil }
	if _, err := Guarded(&g, 1, hang, func(n int) { dropped <- n }); !errors.Is(err, ErrHangs) {
		t.Fatalf("%v of a function that does not return", err)
	}
	if n := g.Late(); n != 1 {
		t.Errorf("%d are late, want 1", n)
	}
	g.Limit = time.Minute
	calls := 0
	count := func() (int, error) { calls++; return calls, nil }
	if _, err := Guarded(&g, 1, count, nil); !errors.Is(err, ErrHangs) || calls != 0 {
		t.Errorf("%v and %d calls for a process that hangs", err, calls)
	}
	if n, err := Guarded(&g, 2, count, nil); err != nil || n != 1 {
		t.Errorf("%d, %v of another process", n, err)
	}
	fails := func() (int, error) { return 0, fs.ErrNotExist }
	if _, err := Guarded(&g, 2, fails, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v, want that of the function", err)
	}
	close(open)
	if n := <-dropped; n != 7 {
		t.Errorf("%d was dropped, want 7", n)
	}
	if n, err := Guarded(&g, 1, count, nil); err != nil || n != 2 || g.Late() != 0 {
		t.Errorf("%d, %v after it has returned; %d are late", n, err, g.Late())
	}
}

// Only a few functions that hang are left alone.
func TestGuardedBound(t *testing.T) {
	g := Guard{Limit: time.Millisecond}
	open := make(chan struct{})
	hang := func() (int, error) { <-open; return 0, nil }
	for pid := range mostLate {
		if _, err := Guarded(&g, pid, hang, nil); !errors.Is(err, ErrHangs) {
			t.Fatalf("%v of function %d that does not return", err, pid)
		}
	}
	g.Limit = time.Minute
	quick := func() (int, error) { return 0, nil }
	if _, err := Guarded(&g, mostLate, quick, nil); !errors.Is(err, ErrHangs) {
		t.Errorf("%v while %d functions hang", err, mostLate)
	}
	close(open)
	for end := time.Now().Add(30 * time.Second); g.Late() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d are late after all have returned", g.Late())
		}
	}
	if _, err := Guarded(&g, mostLate, quick, nil); err != nil {
		t.Error(err)
	}
}

// Two callers for one process call one after the other: at most one function per process hangs.
func TestGuardedOneOfProcess(t *testing.T) {
	g := Guard{Limit: time.Minute}
	var calls sync.WaitGroup
	now := 0 // Guarded orders the calls
	for range 8 {
		calls.Go(func() {
			_, err := Guarded(&g, 1, func() (int, error) {
				now++
				defer func() { now-- }()
				if now != 1 {
					t.Errorf("%d functions of one process at once", now)
				}
				return 0, nil
			}, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}
