package symbol

import (
	"os"
	"sync"
	"time"
)

// fileOpener opens files that processes mapped. A file system that does not answer, and a process
// that hangs in execve(2), let an open hang. So a goroutine opens the files, and one that does not
// return is left alone. Used by one goroutine at a time.
type fileOpener struct {
	find func(openRequest) (*os.File, error)
	held []*openBatch // whose open has not returned
}

// An openRequest is a file that is to be opened, with a mapping of it for each process that has
// one.
type openRequest struct {
	id       mappedID
	mappings []openMapping

	file *os.File // nil: it could not be opened
}

// An openMapping is a mapping of a file in a process.
type openMapping struct {
	pid, parent int
	m           Mapping
}

// openBatch is files that one goroutine opens.
type openBatch struct {
	done chan struct{} // closed when the goroutine has ended

	mu       sync.Mutex // guards the fields below
	requests []openRequest
	at       int // those from here on are not open yet
	began    time.Time
	left     bool // nobody waits; those after at are another's
}

const (
	// openTime is how long an open may take: on a loaded machine the goroutine waits for a CPU.
	openTime = 200 * time.Millisecond
	// laterOpenTime is the same for those after one that hangs.
	laterOpenTime = 20 * time.Millisecond
	// mostHeldOpens is how many opens that do not return are waited for. Each keeps a thread.
	mostHeldOpens = 4
)

// open opens the files. Those that it cannot open have no file.
func (o *fileOpener) open(requests []openRequest) {
	kept := o.held[:0]
	for _, b := range o.held {
		select {
		case <-b.done:
		default:
			kept = append(kept, b)
		}
	}
	o.held = kept
	limit := openTime
	for len(requests) > 0 && len(o.held) < mostHeldOpens {
		b := &openBatch{done: make(chan struct{}), began: time.Now(),
			requests: append([]openRequest(nil), requests...)}
		go b.run(o.find)
		n := b.wait(limit)
		for i := range n {
			requests[i].file = b.requests[i].file
		}
		if n == len(requests) {
			return
		}
		o.held, limit = append(o.held, b), laterOpenTime
		requests = requests[n+1:]
	}
}

// run opens the files, until nobody waits.
func (b *openBatch) run(find func(openRequest) (*os.File, error)) {
	defer close(b.done)
	for i := range b.requests {
		q := &b.requests[i]
		f, err := find(*q)
		b.mu.Lock()
		left := b.left
		if err == nil {
			q.file = f
		}
		b.at++
		b.began = time.Now()
		b.mu.Unlock()
		if left {
			if err == nil {
				f.Close() //nolint:errcheck // nothing was read
			}
			return
		}
	}
}

// wait returns how many files were opened: all, or those before one that takes longer than limit.
func (b *openBatch) wait(limit time.Duration) int {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-b.done:
			return len(b.requests)
		case <-timer.C:
		}
		b.mu.Lock()
		rest := limit - time.Since(b.began)
		if n := b.at; rest <= 0 && n < len(b.requests) {
			b.left = true
			b.mu.Unlock()
			return n
		}
		b.mu.Unlock()
		timer.Reset(max(rest, time.Millisecond))
	}
}
