package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"culprit/measure"
)

// Port is where a server listens unless it is told otherwise.
const Port = "7411"

// Server takes part in tests that clients ask for. Its members are not to be changed while it serves.
type Server struct {
	Token   string // what a client must have; "": anybody may
	Tests   int    // at most so many at once
	Longest measure.Span
	Machine Machine
	Say     func(string) // told in a line of each test; nil: nobody is. From several goroutines

	patience time.Duration // firstWait unless a test has less

	mu       sync.Mutex
	tests    map[string]*joining
	running  int
	strange  chan struct{} // one for each connection that has said nothing of worth yet
	sessions sync.WaitGroup
	threads  crowd
}

// How long a server waits for others.
const (
	firstWait = 5 * time.Second  // for the first message of a connection, and for the token
	joinWait  = 10 * time.Second // for all connections of a test
	idleWait  = time.Minute      // for the next test
	endWait   = 30 * time.Second // beyond a test's time, until its client has stopped it
	writeWait = 30 * time.Second // until a client has taken a message
)

// mostStrangers is how many connections may be open that have neither shown the token nor joined a test. Further ones wait in the kernel's queue: a test's own may be hundreds.
const mostStrangers = 64

// joining is a test whose connections are awaited.
type joining struct {
	test  Test
	mu    sync.Mutex
	conns map[join]*net.TCPConn
	all   chan struct{} // closed when the last is there
	over  bool
}

// Serve takes connections until the context ends; then it ends the tests that run, and gives nil.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if s.patience == 0 {
		s.patience = firstWait
	}
	s.tests, s.strange = map[string]*joining{}, make(chan struct{}, mostStrangers)
	ctx, cancel := context.WithCancel(ctx)
	defer s.sessions.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for pause := time.Duration(0); ; {
		c, err := l.Accept()
		switch {
		case err == nil:
			pause = 0
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("take a connection: %w", err)
		default: // no descriptors: some are given back soon
			if pause = min(max(2*pause, 5*time.Millisecond), time.Second); !sleep(ctx, pause) {
				return nil
			}
			continue
		}
		conn, ok := c.(*net.TCPConn)
		if !ok {
			c.Close()
			continue
		}
		select {
		case s.strange <- struct{}{}:
		case <-ctx.Done():
			c.Close()
			return nil
		}
		s.sessions.Go(func() {
			known := sync.OnceFunc(func() { <-s.strange })
			defer known()
			s.take(ctx, conn, known)
		})
	}
}

// sleep waits; false when the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// take finds out what a connection is for.
func (s *Server) take(ctx context.Context, c *net.TCPConn, known func()) {
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })() //nolint:errcheck // it is closed then
	c.SetDeadline(time.Now().Add(s.patience))                                 //nolint:errcheck // a broken connection says so when it is read
	m, err := readMessage(c, mostFirst)
	switch {
	case err != nil:
	case m.Join != nil:
		if s.join(*m.Join, c) {
			return // it is the test's now
		}
	case m.Call != nil:
		s.serve(ctx, c, m.Call, known)
	}
	c.Close()
}

// join gives a connection to the test that awaits it.
func (s *Server) join(j join, c *net.TCPConn) bool {
	s.mu.Lock()
	t := s.tests[j.ID]
	s.mu.Unlock()
	if t == nil || j.Stream >= t.test.Streams || !slices.Contains(t.test.ways(), j.Way) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.conns[j] != nil {
		return false
	}
	c.SetDeadline(time.Time{}) //nolint:errcheck // as in take
	t.conns[j] = c
	if len(t.conns) == t.test.connections() {
		close(t.all)
	}
	return true
}

// refuse tells a client why not.
func refuse(c net.Conn, code, why string) {
	c.SetWriteDeadline(time.Now().Add(firstWait))                                     //nolint:errcheck // as in take
	_ = writeMessage(c, &message{Refused: &refusal{Code: code, Why: printable(why)}}) // it may be gone
}

// serve speaks with a client until it goes.
func (s *Server) serve(ctx context.Context, c *net.TCPConn, m *call, known func()) {
	if m.Version != Version {
		refuse(c, refusedVersion, fmt.Sprintf("the server speaks version %d of the protocol, the client version %d", Version, m.Version))
		return
	}
	h := &hello{Version: Version, Nonce: newSecret(), Open: s.Token == ""}
	if writeMessage(c, &message{Hello: h}) != nil {
		return
	}
	p, err := readMessage(c, mostFirst)
	if err != nil || p.Proof == nil {
		return
	}
	if s.Token != "" && !p.Proof.proves(s.Token, h.Nonce) {
		refuse(c, refusedToken, "the token is not the one that the server printed when it began")
		return
	}
	known()
	c.SetDeadline(time.Time{}) //nolint:errcheck // as in take
	if writeMessage(c, &message{Welcome: &nothing{}}) != nil {
		return
	}
	from := listen(ctx, c, mostAsked)
	defer from.stop()
	for {
		m, err := from.next(ctx, idleWait)
		if err != nil || m.Test == nil {
			return
		}
		if !s.run(ctx, c, from, *m.Test) {
			return
		}
	}
}

// A listener reads the messages of a connection as they come, so that its end is seen at once. It ends with the connection.
type listener struct {
	messages chan *message
	gone     context.Context // ends with the connection; its cause is why
	stop     context.CancelFunc
}

func listen(ctx context.Context, c net.Conn, most int) *listener {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &listener{messages: make(chan *message), gone: ctx, stop: func() { cancel(nil) }}
	go func() {
		for {
			m, err := readMessage(c, most)
			if err != nil {
				cancel(err)
				return
			}
			select {
			case l.messages <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return l
}

// errQuiet says that the other end has not said what it was to in time.
var errQuiet = errors.New("no answer in time")

// next gives the next message.
func (l *listener) next(ctx context.Context, wait time.Duration) (*message, error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case m := <-l.messages:
		return m, nil
	case <-l.gone.Done():
		return nil, context.Cause(l.gone)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-t.C:
		return nil, errQuiet
	}
}

// run serves one test; false when that was the end of the connection.
func (s *Server) run(ctx context.Context, c *net.TCPConn, from *listener, t Test) bool {
	if t.For > s.Longest {
		refuse(c, refusedTest, fmt.Sprintf("a test of %v is longer than the %v that the server allows (--longest)", t.For, s.Longest))
		return false
	}
	id := newSecret()
	j := &joining{test: t, conns: map[join]*net.TCPConn{}, all: make(chan struct{})}
	s.mu.Lock()
	if s.running >= s.Tests {
		s.mu.Unlock()
		refuse(c, refusedBusy, fmt.Sprintf("the server runs as many tests as it may, %d (--tests): try again when one is over", s.Tests))
		return false
	}
	s.running++
	s.tests[id] = j
	s.mu.Unlock()
	over := sync.OnceFunc(func() {
		s.mu.Lock()
		s.running--
		s.mu.Unlock()
	})
	defer over()
	flows, err := s.gather(ctx, c, from, id, j)
	if err != nil {
		refuse(c, refusedFailed, err.Error())
		return false
	}
	side := newSide(t, &s.Machine, &s.threads, flows, addressOf(c.LocalAddr()), addressOf(c.RemoteAddr()))
	defer side.close()
	if s.write(c, &message{Joined: &nothing{}}) != nil {
		return false
	}
	if m, err := from.next(ctx, joinWait); err != nil || m.Begin == nil {
		return false
	}
	// The traffic of a client that is gone ends, also in the middle; so does that of one that never says that it has all.
	going, cancel := context.WithTimeoutCause(from.gone, t.For.AsDuration()+endWait, errQuiet)
	defer cancel()
	measuring, stop := context.WithCancelCause(going)
	defer stop(nil)
	go func() {
		m, err := from.next(going, t.For.AsDuration()+endWait)
		switch {
		case err == nil && m.Stop != nil:
			stop(errStopped)
		case err == nil:
			stop(errStranger)
		default:
			stop(err)
		}
	}()
	side.begin(going)
	err = side.measure(measuring, func(p *Part) {
		if err := s.write(c, &message{Part: p}); err != nil {
			stop(err)
		}
	})
	if err == nil || errors.Is(err, errStopped) { // the sender goes on until the other end has measured all, too
		<-measuring.Done()
		err = context.Cause(measuring)
	}
	if errors.Is(err, errStopped) {
		err = nil
	}
	side.halt()
	if s.Say != nil {
		s.Say(told(c, &t, side, err))
	}
	end := side.end()
	if err != nil {
		refuse(c, refusedFailed, err.Error())
		return false
	}
	end.Address = printable(c.LocalAddr().String())
	over() // before the client knows: who begins the next one at once is not refused
	return s.write(c, &message{End: end}) == nil
}

// errStopped says that the client has what it wants.
var errStopped = errors.New("the client has stopped it")

// told gives the line on a test that is over.
func told(c net.Conn, t *Test, s *side, err error) string {
	connections := "1 connection"
	if n := t.connections(); n > 1 {
		connections = fmt.Sprintf("%d connections", n)
	}
	line := fmt.Sprintf("%s %s: %s, %s, %.1f s", time.Now().Format("15:04:05"), c.RemoteAddr(), t.Kind, connections, s.total.Seconds())
	for _, tr := range s.total.Traffic {
		if t.Kind == Exchange {
			line += fmt.Sprintf(", %d transactions", tr.Exchanges)
		} else {
			line += fmt.Sprintf(", %s %s", tr.Way, Bits(s.total.throughput(tr.Way)))
		}
	}
	if err != nil {
		line += "; it ended early: " + printable(err.Error())
	}
	return line
}

func (s *Server) write(c net.Conn, m *message) error {
	c.SetWriteDeadline(time.Now().Add(writeWait)) //nolint:errcheck // as in take
	return writeMessage(c, m)
}

// gather tells the client the test's name and awaits its connections.
func (s *Server) gather(ctx context.Context, c net.Conn, from *listener, id string, j *joining) (flows []*flow, err error) {
	defer func() {
		s.mu.Lock()
		delete(s.tests, id)
		s.mu.Unlock()
		j.mu.Lock()
		defer j.mu.Unlock()
		j.over = true
		if err != nil {
			for _, conn := range j.conns {
				conn.Close()
			}
			for _, f := range flows {
				f.socket.close()
			}
		}
	}()
	if err := s.write(c, &message{Ready: &ready{ID: id}}); err != nil {
		return nil, err
	}
	late := time.NewTimer(joinWait)
	defer late.Stop()
	select {
	case <-j.all:
	case <-late.C:
		return nil, errors.New("not all connections of the test came in time")
	case <-from.gone.Done():
		return nil, context.Cause(from.gone)
	case <-ctx.Done():
		return nil, errors.New("the server ends")
	}
	for _, way := range j.test.ways() {
		for n := range j.test.Streams {
			f, err := flowOf(j.conns[join{ID: id, Way: way, Stream: n}], &j.test, way, n, false)
			if err != nil {
				return flows, fmt.Errorf("at the server: %w", err)
			}
			flows = append(flows, f)
		}
	}
	return flows, nil
}

// addressOf gives the address of one end of a connection.
func addressOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr()
	}
	return netip.Addr{}
}
