package symbolizer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"culprit/symbol"
	"culprit/wire"

	"golang.org/x/sys/unix"
)

// A Starter starts a symbolizer process and returns the connection to it, which the caller must
// close. kill ends the process at once.
type Starter func(context.Context) (conn *net.UnixConn, kill func(), err error)

// A Client is a symbol.Reader that asks another process. A process that dies, answers what is
// invalid, or does not answer in time is killed, and another one is started. Meanwhile requests
// fail with symbol.ErrUnavailable. Safe for concurrent use.
type Client struct {
	start  Starter
	report func(string) // gets one line for each death
	hangs  time.Duration
	ctx    context.Context
	stop   context.CancelFunc
	ended  chan struct{}

	begin sync.Once // the first request starts a process

	answers atomic.Uint64 // see Answered

	mu      sync.Mutex
	current *process      // nil: none runs
	refused bool          // the latest start has failed
	ready   chan struct{} // closed when the first process runs or has failed to
	dead    time.Duration // CPU time of processes that have ended
}

// A process is a running symbolizer.
type process struct {
	idle   chan *lane // lanes without a request
	lanes  []*lane
	kill   func()
	broken chan struct{} // closed when it is of no use any more
	once   sync.Once
	why    error
	began  time.Time

	answers *atomic.Uint64 // of the client

	mu   sync.Mutex
	used usage
}

// A lane is a connection with at most one request.
type lane struct {
	conn   *net.UnixConn
	frames wire.Reader
	seq    uint64
}

const (
	// lanesEach is how many requests a process answers at the same time: names, unwind rows, and
	// inlined functions.
	lanesEach = 3
	// hangs is how long an answer may take beyond twice the CPU time of the request: a machine may
	// have many threads for each CPU. After that the process is killed.
	hangs = 15 * time.Second
	// silence is how long a process may send nothing to a caller that waits for it. While it
	// answers it sends a frame twice a second. Where no caller waits so long, the limit is hangs.
	silence = 5 * time.Second
	// startWait is how long the start of a process may take.
	startWait = 5 * time.Second
)

// answersBuffer is how many bytes of answers are read at once.
const answersBuffer = 16 << 10

// mostResident is how many bytes a process can have resident: its own memory and its executable.
const mostResident = MemoryLimit + 128<<20

// The delay before a dead process is started again doubles each time, up to maxDelay. A process
// that has run for healthy starts with the first delay again.
const (
	firstDelay = 100 * time.Millisecond
	maxDelay   = 30 * time.Second
	healthy    = time.Minute
)

// NewClient returns a Client whose first request starts a process. report gets one line for each
// death. The caller closes it.
func NewClient(start Starter, report func(string)) *Client {
	ctx, stop := context.WithCancel(context.Background())
	return &Client{
		start: start, report: report, hangs: hangs, ctx: ctx, stop: stop,
		ended: make(chan struct{}), ready: make(chan struct{}),
	}
}

// Close ends the process. The error is always nil.
func (c *Client) Close() error {
	c.stop()
	c.begin.Do(func() { close(c.ended) })
	<-c.ended
	return nil
}

// Usage returns the CPU time of all processes so far and the resident bytes of the running one.
func (c *Client) Usage() (cpu time.Duration, memory int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == nil {
		return c.dead, 0
	}
	u := c.current.usage()
	return c.dead + u.cpu, u.memory
}

// Answered returns the number of valid answers so far, also of those that came too late.
func (c *Client) Answered() uint64 { return c.answers.Load() }

// run keeps a process running until the context ends.
func (c *Client) run(ctx context.Context) {
	defer close(c.ended)
	delay := firstDelay
	for first := true; ctx.Err() == nil; first = false {
		began := time.Now()
		p, err := c.connect(ctx)
		c.mu.Lock()
		c.current = p
		c.refused = p == nil
		c.mu.Unlock()
		if first {
			close(c.ready)
		}
		if p != nil {
			select {
			case <-p.broken:
			case <-ctx.Done():
				p.fail(ctx.Err())
			}
			err = p.why
			c.mu.Lock()
			c.current = nil
			c.dead += p.usage().cpu
			c.mu.Unlock()
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) >= healthy {
			delay = firstDelay
		}
		c.report(fmt.Sprintf("the symbolizer failed (%v) and is started again in %v", err, delay))
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
		delay = min(2*delay, maxDelay)
	}
}

// connect starts a process and says hello to it.
func (c *Client) connect(ctx context.Context) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	conn, kill, err := c.start(ctx)
	if err != nil {
		return nil, err
	}
	p := &process{idle: make(chan *lane, lanesEach), kill: kill, broken: make(chan struct{}),
		began: time.Now(), answers: &c.answers}
	if err := p.hello(conn); err != nil {
		p.fail(err)
		return nil, err
	}
	return p, nil
}

// hello exchanges hellos and opens the other lanes.
func (p *process) hello(conn *net.UnixConn) error {
	p.addLane(conn)
	b := wire.End(appendHello(wire.Start(nil, kindHello)), 0)
	if _, err := conn.Write(b); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(startWait)); err != nil {
		return err
	}
	kind, payload, err := p.lanes[0].frames.Next()
	if err != nil {
		return err
	}
	if kind != kindHello {
		return wire.Invalid("frame %d instead of a hello", kind)
	}
	if err := checkHello(payload); err != nil {
		return err
	}
	for len(p.lanes) < lanesEach {
		if err := p.openLane(conn); err != nil {
			return err
		}
	}
	for _, l := range p.lanes {
		p.idle <- l
	}
	return nil
}

func (p *process) addLane(conn *net.UnixConn) {
	p.lanes = append(p.lanes, &lane{conn: conn, frames: wire.Reader{
		From: bufio.NewReaderSize(conn, answersBuffer), Limit: maxAnswer}})
}

// openLane opens another connection by passing one end of a socket pair.
func (p *process) openLane(main *net.UnixConn) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket pair: %w", err)
	}
	mine, its := os.NewFile(uintptr(fds[0]), "lane"), os.NewFile(uintptr(fds[1]), "lane")
	defer mine.Close() //nolint:errcheck // FileConn has duplicated it
	defer its.Close()  //nolint:errcheck // the process has its own
	conn, err := net.FileConn(mine)
	if err != nil {
		return err
	}
	p.addLane(conn.(*net.UnixConn))
	_, _, err = main.WriteMsgUnix(wire.End(wire.Start(nil, kindLane), 0),
		unix.UnixRights(int(its.Fd())), nil)
	return err
}

// fail ends a process. Only the first error counts.
func (p *process) fail(err error) {
	p.once.Do(func() {
		p.why = err
		p.kill()
		for _, l := range p.lanes {
			l.conn.Close() //nolint:errcheck // a read of it fails now
		}
		close(p.broken)
	})
}

func (p *process) usage() usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Read implements symbol.Reader. The error is the file's, symbol.ErrLimit or symbol.ErrUnavailable.
func (c *Client) Read(q *symbol.Request) (*symbol.Answer, error) {
	if partsOf(0, q) != nil {
		return c.parts(q)
	}
	r := c.ReadAll([]*symbol.Request{q})[0]
	return r.Answer, r.Err
}

// lane returns a lane without a request, which the caller must put back or fail; nil: none is free
// before over.
func (c *Client) lane(over <-chan time.Time, patient bool) (*process, *lane) {
	p := c.process(over, patient)
	if p == nil {
		return nil, nil
	}
	select {
	case l := <-p.idle:
		return p, l
	case <-p.broken:
	case <-over:
	}
	return nil, nil
}

// quiet returns how long the process may send nothing before it is killed.
func (c *Client) quiet(q *symbol.Request) time.Duration {
	if q.Wait > 0 {
		return c.longest(q)
	}
	return min(c.hangs, silence)
}

// longest returns how long the answer to a request may take before the process is killed.
func (c *Client) longest(q *symbol.Request) time.Duration { return 2*q.Limit + c.hangs }

// process returns the running process, and starts the first one. nil: none runs. patient waits
// until one runs, startWait, or until the time is over.
func (c *Client) process(over <-chan time.Time, patient bool) *process {
	c.begin.Do(func() { go c.run(c.ctx) })
	select {
	case <-c.ready:
	case <-over:
		return nil
	}
	for until := time.Now().Add(startWait); ; {
		c.mu.Lock()
		p, refused := c.current, c.refused
		c.mu.Unlock()
		// After a start that failed the next one fails too, most likely.
		if p != nil || !patient || refused || time.Now().After(until) {
			return p
		}
		select {
		case <-time.After(firstDelay / 4):
		case <-over:
			return nil
		case <-c.ended:
			return nil
		}
	}
}

func unavailable(err error) error { return fmt.Errorf("%w: %w", symbol.ErrFailed, err) }

// send sends a request with its files, and returns how many bytes were sent. more: others follow.
func (l *lane) send(seq uint64, q *symbol.Request, more bool) (sent int, err error) {
	b := wire.End(appendRequest(wire.Start(nil, kindRequest), seq, q, more), 0)
	if len(b)-wire.HeadSize > maxRequest {
		return 0, wire.Invalid("a request of %d bytes", len(b))
	}
	var fds []int
	for _, f := range []*os.File{q.File, q.Debug} {
		if f != nil {
			fds = append(fds, int(f.Fd()))
		}
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	sent, _, err = l.conn.WriteMsgUnix(b, rights, nil)
	if err == nil && sent < len(b) {
		_, err = l.conn.Write(b[sent:])
	}
	return sent, err
}

// sizeOf returns the size of a request's file in bytes; 0: it has none.
func sizeOf(q *symbol.Request) int64 {
	if q.File == nil {
		return 0
	}
	info, err := q.File.Stat()
	if err != nil {
		return 0
	}
	return info.Size()
}

// An expected is a request that waits for its answer.
type expected struct {
	seq  uint64
	q    *symbol.Request
	size int64     // of its file
	gate *partGate // gets the parts before the answer; nil: there are none
	// quiet is how long the process may send nothing, longest how long the answer may take
	quiet, longest time.Duration
}

// receive waits for the answer to a request. The error means that the process is of no use any
// more: it has ended, hangs, or answers what is invalid.
func (p *process) receive(l *lane, want expected) (r symbol.Result, err error) {
	began := time.Now()
	gate := want.gate
	for {
		until := time.Now().Add(want.quiet)
		if end := began.Add(want.longest); until.After(end) {
			until = end
		}
		_ = l.conn.SetReadDeadline(until) // fails when Next fails
		kind, payload, err := l.frames.Next()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("no answer for %v", time.Since(began).Round(100*time.Millisecond))
		}
		if err != nil {
			return r, err
		}
		if kind == kindAlive && len(payload) == 0 {
			continue
		}
		if gate != nil && kind == gate.parts.kind() {
			if err := gate.decode(payload); err != nil {
				return r, err
			}
			continue
		}
		if kind != kindAnswer {
			return r, wire.Invalid("frame %d", kind)
		}
		a, u, failed, err := decodeAnswer(payload, want.seq, want.q, want.size)
		if err != nil {
			return r, err
		}
		a.CPU = min(a.CPU, time.Since(began)) // it cannot be more
		p.note(u)
		p.answers.Add(1)
		return symbol.Result{Answer: a, Err: failed}, nil
	}
}

// note records what the process has used.
func (p *process) note(u usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	most := time.Since(p.began) * time.Duration(runtime.NumCPU())
	p.used.cpu = min(max(p.used.cpu, u.cpu), most) // it cannot be more
	p.used.memory = min(u.memory, mostResident)
}
