package symbolizer

import (
	"sync"
	"time"

	"culprit/symbol"
)

// A batch is requests that are sent over one lane without a wait for each answer. The process
// answers them in their order.
type batch struct {
	p     *process
	l     *lane
	all   []*symbol.Request
	sizes []int64 // of their files
	first uint64  // number of the first request

	sent    chan int      // requests that were sent; closed after the last one
	sending chan struct{} // closed when none is sent any more: the files may be closed
	done    chan struct{} // closed when all that were sent have a result

	mu      sync.Mutex
	results []symbol.Result
	gone    bool // nobody waits for results
	freed   bool // the lane may have requests of others
}

// ReadAll implements symbol.Reader. It sends the requests together.
func (c *Client) ReadAll(all []*symbol.Request) []symbol.Result {
	results := make([]symbol.Result, len(all))
	for i := range results {
		results[i].Err = symbol.ErrUnavailable
	}
	if len(all) == 0 {
		return results
	}
	most := all[0].Wait
	if most <= 0 {
		for _, q := range all {
			most += 2 * q.Limit
		}
		most += c.hangs
	}
	wait := time.NewTimer(most)
	defer wait.Stop()
	p, l := c.lane(wait.C, all[0].Wait <= 0)
	if l == nil {
		return results
	}
	b := &batch{p: p, l: l, all: all, first: l.seq + 1, results: results,
		sent: make(chan int, len(all)), sending: make(chan struct{}), done: make(chan struct{})}
	l.seq += uint64(len(all))
	for _, q := range all {
		b.sizes = append(b.sizes, sizeOf(q))
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(c.longest(all[0]))) // fails when send fails
	go b.send()
	go b.receive(c)
	select {
	case <-b.done:
	case <-wait.C: // receive goes on: the lane is busy until then
	}
	return b.leave()
}

// send sends the requests until one cannot be sent.
func (b *batch) send() {
	defer close(b.sending)
	defer close(b.sent)
	for i, q := range b.all {
		n, err := b.l.send(b.first+uint64(i), q, i+1 < len(b.all))
		switch {
		case err == nil:
			b.sent <- i
		case n == 0 && b.left(): // the deadline of leave
			return
		default:
			b.p.fail(err)
			return
		}
	}
}

// receive stores the results and frees the lane.
func (b *batch) receive(c *Client) {
	defer close(b.done)
	for i := range b.sent {
		q := b.all[i]
		r, err := b.p.receive(b.l, expected{b.first + uint64(i), q, b.sizes[i], nil, c.quiet(q),
			c.longest(q)})
		if err != nil {
			b.p.fail(err)
			b.put(i, symbol.Result{Err: unavailable(err)}) // the others may not be at fault
			return
		}
		b.put(i, r)
	}
	b.mu.Lock()
	b.freed = true
	b.mu.Unlock()
	b.p.idle <- b.l // of a broken process nobody takes it
}

// put stores a result for a caller that waits.
func (b *batch) put(i int, r symbol.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.gone {
		b.results[i] = r
	}
}

// leave ends the sending of requests and returns the results so far.
func (b *batch) leave() []symbol.Result {
	b.mu.Lock()
	b.gone = true
	if !b.freed {
		_ = b.l.conn.SetWriteDeadline(time.Unix(1, 0)) // of a closed connection: nothing is sent
	}
	b.mu.Unlock()
	<-b.sending
	return b.results
}

func (b *batch) left() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gone
}

// A partReader reads the frames of a kind that come before an answer.
type partReader interface {
	kind() byte
	// decode passes on what a frame contains, until the caller's function has failed or stop was
	// called. The error means that the frame is invalid.
	decode(payload []byte) error
	failed() error // of the caller's function, or of stop
	stop(err error)
}

// partsOf returns what reads the parts of an answer; nil: it has none.
func partsOf(seq uint64, q *symbol.Request) partReader {
	switch {
	case q.Row != nil:
		return &rowReader{seq: seq, row: q.Row}
	case q.Function != nil:
		return &functionReader{seq: seq, each: q.Function}
	}
	return nil
}

// parts answers a request with rows or functions. They are passed on while the process sends them;
// the caller waits at most Request.Wait for each part.
func (c *Client) parts(q *symbol.Request) (*symbol.Answer, error) {
	most := q.Wait
	if most <= 0 {
		most = c.longest(q)
	}
	wait := time.NewTimer(most)
	defer wait.Stop()
	p, l := c.lane(wait.C, q.Wait <= 0)
	if l == nil {
		return nil, symbol.ErrUnavailable
	}
	l.seq++
	seq, size := l.seq, sizeOf(q)
	_ = l.conn.SetWriteDeadline(time.Now().Add(c.quiet(q))) // fails when send fails
	if _, err := l.send(seq, q, false); err != nil {
		p.fail(err)
		return nil, unavailable(err)
	}
	gate := &partGate{moved: make(chan struct{}, 1), parts: partsOf(seq, q)}
	done := make(chan symbol.Result, 1)
	go func() {
		r, err := p.receive(l, expected{seq, q, size, gate, c.quiet(q), c.longest(q)})
		if err != nil {
			p.fail(err)
			r = symbol.Result{Err: unavailable(err)}
		} else {
			p.idle <- l
			if err := gate.failed(); err != nil {
				r.Err = err
			}
		}
		done <- r
	}()
	for {
		select {
		case r := <-done:
			return r.Answer, r.Err
		case <-gate.moved:
			wait.Reset(most)
		case <-wait.C: // the lane is busy until the answer is there
			gate.close()
			return nil, symbol.ErrUnavailable
		}
	}
}

// A partGate passes parts of an answer on until nobody wants them.
type partGate struct {
	moved chan struct{} // gets a value after a part

	mu    sync.Mutex
	parts partReader
}

// decode passes on what a frame contains. The error means that it is invalid.
func (g *partGate) decode(payload []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.parts.decode(payload)
	select {
	case g.moved <- struct{}{}:
	default:
	}
	return err
}

// failed returns the error of the caller.
func (g *partGate) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.parts.failed()
}

// close drops later parts: after it nothing is passed on.
func (g *partGate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parts.stop(symbol.ErrUnavailable)
}
