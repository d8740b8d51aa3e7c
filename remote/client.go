package remote

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"culprit/measure"
	"culprit/wire"
)

// Client uses the sources of a Recorder. It survives the loss of the connection: give it the next
// one. Safe for concurrent use.
type Client struct {
	leaving atomic.Bool // see Leave

	ready   chan struct{} // closed once the sources are known
	sources []*Source

	mu    sync.Mutex // guards the fields below
	link  *link      // nil: not connected
	again chan struct{}
	calls uint32 // ID of the newest request
	usage usage
}

// usage is the sum over all recorders that there were.
type usage struct {
	cpu    counter
	memory int64
}

// counter sums a cumulative number that begins anew with each connection.
type counter struct {
	sum, last measure.Span
	link      *link // of last
}

// set notes the number that the peer of a link reports. What was counted before the first report is
// not of this client.
func (c *counter) set(l *link, v measure.Span) {
	if c.link == l && v > c.last {
		c.sum += v - c.last
	}
	if c.link != l || v > c.last {
		c.last = v
	}
	c.link = l
}

// NewClient returns a client that is not connected.
func NewClient() *Client {
	return &Client{ready: make(chan struct{}), again: make(chan struct{})}
}

// Leave makes runs whose context ends go on at the recorder, so that the client of another process
// continues them without a gap.
func (c *Client) Leave() { c.leaving.Store(true) }

// link is one connection to the recorder.
type link struct {
	conn  io.ReadWriteCloser
	gone  chan struct{} // closed when it has failed
	write sync.Mutex    // one frame at a time

	mu    sync.Mutex
	calls map[uint32]*call
}

// call is a run, script or sampling that the recorder works on. The reader of the link never waits
// for it: a sink may wait for the batches of another run.
type call struct {
	id    uint32
	link  *link
	woken chan struct{} // of size 1: there is a reply

	mu      sync.Mutex // guards the fields below
	replies []reply
	bytes   int
	free    []byte // is used again
}

// reply is the content of a frame to a call.
type reply struct {
	kind kind
	b    []byte
}

// maxReplies is the number of bytes that may wait for a call. The recorder's backlog is smaller.
const maxReplies = 2 * maxReply

// add adds a reply. It returns false when too much waits.
func (a *call) add(k kind, b []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes+len(b) > maxReplies {
		return false
	}
	a.replies = append(a.replies, reply{k, append(a.free[:0], b...)})
	a.bytes += len(b)
	a.free = nil
	select {
	case a.woken <- struct{}{}:
	default:
	}
	return true
}

// take returns the oldest reply, if there is one.
func (a *call) take() (reply, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.replies) == 0 {
		return reply{}, false
	}
	r := a.replies[0]
	a.replies = slices.Delete(a.replies, 0, 1)
	a.bytes -= len(r.b)
	return r, true
}

// done returns the buffer of a reply.
func (a *call) done(r reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cap(r.b) <= growth {
		a.free = r.b
	}
}

// errGone means that the connection failed. The recorder is started again.
var errGone = errors.New("the recorder has ended")

// Serve reads from a connection to a recorder until it fails, and returns the error. It closes the
// connection. Call it again with the next connection.
func (c *Client) Serve(conn io.ReadWriteCloser) error {
	l := &link{conn: conn, gone: make(chan struct{}), calls: map[uint32]*call{}}
	defer func() {
		_ = conn.Close() // it has failed
		c.mu.Lock()
		if c.link == l {
			c.link = nil
		}
		c.mu.Unlock()
		close(l.gone)
	}()
	err := l.send(kindHello, func(b []byte) []byte {
		return wire.AppendUint(append(b, magic...), version)
	})
	if err != nil {
		return err
	}
	f := frameReader{wire.Reader{From: bufio.NewReaderSize(conn, 64<<10), Limit: maxReply}}
	for first := true; ; first = false {
		k, b, err := f.next()
		if err != nil {
			return err
		}
		if first != (k == kindHello) {
			return invalid("kind %d where a hello is due, or a second hello", k)
		}
		if err := c.handle(l, k, b); err != nil {
			return err
		}
	}
}

// handle handles a frame of the recorder.
func (c *Client) handle(l *link, k kind, b []byte) error {
	d := newDecoder(b)
	switch k {
	case kindHello:
		return c.hello(l, d)
	case kindUsage:
		cpu, memory := measure.Span(d.Int()), d.Int()
		problems := make([][]measure.Problem, d.Count(1))
		for i := range problems {
			problems[i] = d.problems()
		}
		if err := d.End(); err != nil {
			return err
		}
		c.setProblems(problems)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.usage.cpu.set(l, cpu)
		c.usage.memory = memory
		return nil
	case kindTick, kindStarted, kindStatus, kindSampled, kindCompleted, kindEnded:
		id := d.ID()
		if d.Err != nil {
			return d.Err
		}
		l.mu.Lock()
		to := l.calls[id]
		l.mu.Unlock()
		if to == nil {
			return nil // it was stopped meanwhile
		}
		if !to.add(k, d.Rest) {
			return invalid("more than %d bytes wait for one run", maxReplies)
		}
		return nil
	}
	return invalid("kind %d", k)
}

// setProblems sets the problems of each source.
func (c *Client) setProblems(all [][]measure.Problem) {
	for i, s := range c.sources {
		s.mu.Lock()
		if s.problems = nil; i < len(all) {
			s.problems = all[i]
		}
		s.mu.Unlock()
	}
}

// hello takes the list of sources. That of a recorder that was started again is the same.
func (c *Client) hello(l *link, d *decoder) error {
	d.hello()
	var all []*Source
	for range d.Count(1) {
		external := d.Bool()
		all = append(all, newSource(c, uint32(len(all)), d.stats()))
		all[len(all)-1].external = external
	}
	if err := d.End(); err != nil {
		return err
	}
	select {
	case <-c.ready:
	default:
		c.sources = all
		close(c.ready)
	}
	if !slices.EqualFunc(c.sources, all, func(a, b *Source) bool {
		return slices.EqualFunc(a.stats, b.stats, func(x, y measure.Stat) bool {
			return x.ID == y.ID && slices.Equal(x.Fields, y.Fields)
		})
	}) {
		return invalid("the recorder has other statistics than before")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = l
	close(c.again)
	c.again = make(chan struct{})
	return nil
}

// Sources waits for the first connection and returns the sources of the recorder. The error is the
// context's.
func (c *Client) Sources(ctx context.Context) ([]measure.Source, error) {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	out := make([]measure.Source, len(c.sources))
	for i, s := range c.sources {
		if out[i] = s; s.external {
			out[i] = ExternalSource{s}
		}
	}
	return out, nil
}

// CPU returns the CPU time of the recorder since this client saw it first.
func (c *Client) CPU() measure.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.usage.cpu.sum
}

// Memory returns the resident bytes of the recorder and its parent; 0: not known yet.
func (c *Client) Memory() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.usage.memory
}

// connected waits until there is a connection. The error is the context's.
func (c *Client) connected(ctx context.Context) (*link, error) {
	for {
		c.mu.Lock()
		l, again := c.link, c.again
		c.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-again:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// call starts a request. The caller must end it.
func (c *Client) call(
	ctx context.Context, k kind, content func(b []byte, id uint32) []byte,
) (*call, error) {
	l, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.calls++
	id := c.calls
	c.mu.Unlock()
	a := &call{id: id, link: l, woken: make(chan struct{}, 1)}
	l.mu.Lock()
	l.calls[id] = a
	l.mu.Unlock()
	if err := l.send(k, func(b []byte) []byte { return content(b, id) }); err != nil {
		a.end()
		return nil, fmt.Errorf("%w: %w", errGone, err)
	}
	return a, nil
}

// next returns the next reply. The caller must return its buffer. The error is errGone or the
// context's.
func (a *call) next(ctx context.Context) (reply, error) {
	for {
		if r, ok := a.take(); ok {
			return r, nil
		}
		select {
		case <-a.woken:
		case <-a.link.gone:
			if r, ok := a.take(); ok {
				return r, nil
			}
			return reply{}, errGone
		case <-ctx.Done():
			return reply{}, context.Cause(ctx)
		}
	}
}

// stop asks the recorder to stop the call. It replies with kindEnded.
func (a *call) stop() {
	_ = a.link.send(kindStop, func(b []byte) []byte { // else the connection has failed
		return wire.AppendUint(b, uint64(a.id))
	})
}

// end forgets the call. No reply is read any more.
func (a *call) end() {
	a.link.mu.Lock()
	delete(a.link.calls, a.id)
	a.link.mu.Unlock()
}

// writeLimit is how long the recorder may take nothing.
const writeLimit = 10 * time.Second

// send writes a frame.
func (l *link) send(k kind, content func([]byte) []byte) error {
	b := endFrame(content(startFrame(nil, k)), 0)
	if len(b)-headSize > maxRequest {
		return fmt.Errorf("a request of %d bytes: %w", len(b), measure.ErrTooLarge)
	}
	l.write.Lock()
	defer l.write.Unlock()
	if c, ok := l.conn.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = c.SetWriteDeadline(time.Now().Add(writeLimit)) // else the write reports it
	}
	_, err := l.conn.Write(b)
	return err
}
