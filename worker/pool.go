package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"culprit/measure"
)

// Limits of a pool.
const (
	// MaxWorkers is the number of workers at the same time. More requests wait.
	MaxWorkers = 4
	// MaxIdle is how long a worker without a request is kept.
	MaxIdle = time.Minute

	maxJobs      = 500                 // of one worker, which is replaced then
	maxJobCPU    = 30 * measure.Second // likewise; the kernel ends it at MaxCPU
	maxJobMemory = 96 << 20            // bytes; likewise
)

// What one worker may take. The process sets the limits itself before it reads a request.
const (
	MaxMemory = 256 << 20 // bytes of private memory
	MaxCPU    = 2 * time.Minute
)

// ErrEnded means that the worker of a request has ended, or does not follow the protocol.
// table: an error is no constant
var ErrEnded = fmt.Errorf("the process that worked on the request has ended: it may take %d MB of "+
	"memory and %.0f min of CPU time", MaxMemory>>20, MaxCPU.Minutes())

// Process is a worker as the pool starts it.
type Process struct {
	Conn io.ReadWriteCloser
	Kill func() // ends the process at once; it may have ended
}

// Starter starts a worker. The error is why that was not possible.
type Starter func(context.Context) (*Process, error)

// Request is a request to a worker.
type Request struct {
	Job     string
	Content []byte
	// Ask answers what the request needs of the server. The result is used before the next call. An
	// error is passed to the job.
	Ask func(ctx context.Context, question []byte) ([]byte, error)
	// Reply gets the reply in parts, which are valid until it returns. An error ends the request,
	// and Do returns it.
	Reply func(part []byte) error
}

// Pool starts workers as they are needed and keeps those that are idle for some time. Safe for
// concurrent use.
type Pool struct {
	start  Starter
	places chan struct{} // holds one value per request that has a worker
	idle   time.Duration

	mu   sync.Mutex // guards the fields below
	all  []*worker
	free []*worker // newest last
	cpu  measure.Span
}

// NewPool returns a pool without workers.
func NewPool(start Starter) *Pool {
	return &Pool{start: start, places: make(chan struct{}, MaxWorkers), idle: MaxIdle}
}

// Do runs a request in a worker. After the end of the context the worker has a moment to end the
// request by itself. The error is the context's, that of Request.Reply, ErrEnded, a *measure.Fault
// for a bug of culprit, or says why no worker could be started.
func (p *Pool) Do(ctx context.Context, q *Request) error {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		w, used, err := p.take(ctx)
		if err != nil {
			return err
		}
		err = w.do(ctx, q)
		began := w.began
		p.keep(w) // from here on it is another request's
		if used && !began && errors.Is(err, ErrEnded) {
			continue // it probably ended while it was idle; a new one shows it
		}
		return err
	}
}

// take returns an idle worker, or a new one. used: it has had a request before.
func (p *Pool) take(ctx context.Context) (w *worker, used bool, err error) {
	p.mu.Lock()
	if n := len(p.free); n > 0 {
		w, p.free = p.free[n-1], p.free[:n-1]
		w.timer.Stop()
		p.mu.Unlock()
		return w, true, nil
	}
	p.mu.Unlock()
	process, err := p.start(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("start a process for the request: %w", err)
	}
	w = newWorker(process)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, w)
	return w, false, nil
}

// keep keeps a worker for the next request, or ends it.
func (p *Pool) keep(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cpu += w.used.cpu - w.counted
	w.counted = w.used.cpu
	if w.ended || w.jobs >= maxJobs || w.used.cpu >= maxJobCPU || w.used.memory >= maxJobMemory {
		p.drop(w)
		return
	}
	p.free = append(p.free, w)
	w.timer = time.AfterFunc(p.idle, func() { p.endIdle(w) })
}

// endIdle ends a worker unless it has a request again.
func (p *Pool) endIdle(w *worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if slices.Contains(p.free, w) {
		p.drop(w)
	}
}

// drop ends a worker. p.mu is held.
func (p *Pool) drop(w *worker) {
	same := func(o *worker) bool { return o == w }
	p.all, p.free = slices.DeleteFunc(p.all, same), slices.DeleteFunc(p.free, same)
	w.end()
}

// Close ends all idle workers. Those with a request end with it.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range slices.Clone(p.free) {
		p.drop(w)
	}
}

// CPU returns the CPU time of all workers so far.
func (p *Pool) CPU() measure.Span {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cpu
}

// Memory returns the bytes that the workers took at the end of their last request.
func (p *Pool) Memory() (sum int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.free {
		sum += w.used.memory
	}
	return sum
}
