package trace

import (
	"sync"
	"time"

	"culprit/kernel"
	"culprit/kernel/bpf"
	"culprit/symbol"
)

// A recorder records which files all processes of the machine map as code, so that those that end
// soon have names. Methods of a nil recorder do nothing.
type recorder struct {
	history *symbol.History
	watch   *bpf.MapWatch
	done    sync.WaitGroup

	mu sync.Mutex // events come to the history in their order
}

// recordEach is the pause between two readings of recorded mappings. Files that lose their names
// sooner are not found.
const recordEach = 25 * time.Millisecond

// young is the age up to which the maps of a process that began before the recorder are read at
// once. Those of older ones are read after their first sample.
const young = 3 * time.Second

// newRecorder records the mappings of all processes from now on, for ps. It returns nil when the
// kernel does not allow it: names then come from /proc alone. The caller closes the recorder.
func newRecorder(root kernel.Root, ps *symbol.Processes) *recorder {
	watch, err := bpf.WatchAllMaps(root)
	if err != nil {
		return nil
	}
	r := &recorder{history: symbol.NewHistory(root), watch: watch}
	ps.UseHistory(r.history)
	ps.OpenYoungest(young)
	r.done.Go(func() {
		for watch.Wait(recordEach) {
			r.catchUp()
		}
	})
	return r
}

// catchUp reads the mappings that the kernel has recorded until now.
func (r *recorder) catchUp() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history.Apply(r.watch.Read())
}

func (r *recorder) close() {
	if r == nil {
		return
	}
	r.watch.Close() //nolint:errcheck // only read
	r.done.Wait()
	r.history.Close()
}
