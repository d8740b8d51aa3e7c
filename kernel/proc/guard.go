package proc

import (
	"cmp"
	"sync"
	"time"
)

// A Guard bounds the time of functions that use files of other processes. A TimedReader bounds
// single reads of a page in the same way, without a goroutine for each. The zero value is ready.
// Safe for concurrent use.
type Guard struct {
	Limit time.Duration // of one function; 0: GuardLimit

	mu      sync.Mutex
	running map[int]*guarded // by process
	late    int              // of those, the ones for which nobody waits
}

// A guarded is a function that has not returned.
type guarded struct {
	returned chan struct{} // closed when it has
	late     bool
}

const (
	// GuardLimit is how long a function may take. The maps of a process with 65,000 mappings take
	// 0.1 s, on a loaded machine several times as long.
	GuardLimit = time.Second
	// mostLate is how many functions that do not return are left alone. Each keeps a thread.
	mostLate = 8
)

// Guarded calls do, which uses files of process pid, in a goroutine, and returns its result. After
// g.Limit it returns ErrHangs, and drop gets the result if do returns without an error after all;
// nil: nothing is to be dropped. Until then every call for this process returns ErrHangs at once,
// and so do those for all others while mostLate functions hang.
func Guarded[T any](g *Guard, pid int, do func() (T, error), drop func(T)) (T, error) {
	var none T
	limit := time.NewTimer(cmp.Or(g.Limit, GuardLimit))
	defer limit.Stop()
	call, ok := g.begin(pid, limit.C)
	if !ok {
		return none, ErrHangs
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do()
		if g.end(pid, call) && err == nil && drop != nil {
			drop(value)
			return
		}
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-limit.C:
	}
	if g.leave(call) {
		return none, ErrHangs
	}
	r := <-done // it has returned meanwhile
	return r.value, r.err
}

// begin enters a function for a process. It waits for another one until limit; false: that one
// hangs, or too many do.
func (g *Guard) begin(pid int, limit <-chan time.Time) (*guarded, bool) {
	for {
		g.mu.Lock()
		other := g.running[pid]
		if other == nil && g.late < mostLate {
			if g.running == nil {
				g.running = map[int]*guarded{}
			}
			call := &guarded{returned: make(chan struct{})}
			g.running[pid] = call
			g.mu.Unlock()
			return call, true
		}
		hangs := other == nil || other.late
		g.mu.Unlock()
		if hangs {
			return nil, false
		}
		select {
		case <-other.returned:
		case <-limit:
			return nil, false
		}
	}
}

// end removes a function that has returned, and reports whether nobody waits for it.
func (g *Guard) end(pid int, call *guarded) (late bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, pid)
	close(call.returned)
	if call.late {
		g.late--
	}
	return call.late
}

// leave leaves a function alone; false: it has returned.
func (g *Guard) leave(call *guarded) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-call.returned:
		return false
	default:
	}
	call.late = true
	g.late++
	return true
}

// Late returns how many functions have not returned in time.
func (g *Guard) Late() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.late
}
