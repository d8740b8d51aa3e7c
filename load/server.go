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

// Port is the server's default port.
const Port = "7411"

// Server runs tests that clients request. Its fields must not change while it serves.
type Server struct {
	Token   string // that clients must have; "": none is required
	Tests   int    // highest number of tests at the same time
	Longest measure.Span
	Memory  int64 // highest number of bytes of the buffers of all tests; 0: no limit
	Machine Machine
	Say     func(string) // called with a line about each test, from several goroutines; may be nil

	firstTimeout time.Duration // firstWait, except in tests

	mu           sync.Mutex
	tests        map[string]*joining
	running      int
	memory       int64         // bytes that the buffers of the running tests may take
	unidentified chan struct{} // one element per unidentified connection
	sessions     sync.WaitGroup
	threads      threadSlots
}

// The time limits of a server.
const (
	firstWait = 5 * time.Second  // for the first message of a connection, and for the token
	joinWait  = 10 * time.Second // for all connections of a test
	idleWait  = time.Minute      // for the next test
	endWait   = 30 * time.Second // after a test's time, until its client stops it
	writeWait = 30 * time.Second // for sending a message
)

// maxUnidentified is the number of open connections that have neither proved the token nor joined a
// test. More connections wait in the kernel's queue, for example the hundreds of one test.
const maxUnidentified = 64

// joining is a test that waits for its connections.
type joining struct {
	test  Test
	mu    sync.Mutex
	conns map[join]*net.TCPConn
	all   chan struct{} // closed when the last has joined
	over  bool
}

// Serve accepts connections until the context ends. Then it ends the running tests and returns nil.
// The error is that of accept. The caller closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	if s.firstTimeout == 0 {
		s.firstTimeout = firstWait
	}
	s.tests, s.unidentified = map[string]*joining{}, make(chan struct{}, maxUnidentified)
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
			return fmt.Errorf("accept a connection: %w", err)
		default: // no descriptors: some become free soon
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
		case s.unidentified <- struct{}{}:
		case <-ctx.Done():
			c.Close()
			return nil
		}
		s.sessions.Go(func() {
			known := sync.OnceFunc(func() { <-s.unidentified })
			defer known()
			s.identify(ctx, conn, known)
		})
	}
}

// sleep waits. It reports false when the context ended.
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

// identify reads the first message of a connection and passes it on.
func (s *Server) identify(ctx context.Context, c *net.TCPConn, known func()) {
	interrupt := func() { c.SetDeadline(time.Unix(1, 0)) } //nolint:errcheck // as below
	defer context.AfterFunc(ctx, interrupt)()
	//nolint:errcheck // reading reports a broken connection
	c.SetDeadline(time.Now().Add(s.firstTimeout))
	m, err := readMessage(c, maxFirstMessage)
	switch {
	case err != nil:
	case m.Join != nil:
		if s.join(*m.Join, c) {
			return // the test owns it now
		}
	case m.Call != nil:
		s.serve(ctx, c, m.Call, known)
	}
	c.Close()
}

// join passes a connection to the test that waits for it.
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
	c.SetDeadline(time.Time{}) //nolint:errcheck // as in identify
	t.conns[j] = c
	if len(t.conns) == t.test.connections() {
		close(t.all)
	}
	return true
}

// bufferBytes returns how many bytes the buffers of a test take at the server.
func (t *Test) bufferBytes() int64 {
	each := max(t.Size, receiveAtOnce)
	if t.UDP {
		each = 2 * maxDatagram
	}
	if t.Kind == Exchange {
		each = min(t.Ask, receiveAtOnce) + t.Answer
	}
	return int64(t.connections()) * int64(each)
}

// refuse sends a refusal.
func refuse(c net.Conn, code, why string) {
	c.SetWriteDeadline(time.Now().Add(firstWait)) //nolint:errcheck // as in identify
	_ = writeMessage(c,
		&message{Refused: &refusal{Code: code, Why: printable(why)}}) // the client may be gone
}

// serve runs a client's control connection.
func (s *Server) serve(ctx context.Context, c *net.TCPConn, m *call, known func()) {
	if m.Version != Version {
		const why = "the server speaks version %d of the protocol, the client version %d"
		refuse(c, refusedVersion, fmt.Sprintf(why, Version, m.Version))
		return
	}
	h := &hello{Version: Version, Nonce: newSecret(), Open: s.Token == ""}
	if writeMessage(c, &message{Hello: h}) != nil {
		return
	}
	p, err := readMessage(c, maxFirstMessage)
	if err != nil || p.Proof == nil {
		return
	}
	if s.Token != "" && !p.Proof.proves(s.Token, h.Nonce) {
		refuse(c, refusedToken, "the token is not the one that the server printed at its start")
		return
	}
	known()
	c.SetDeadline(time.Time{}) //nolint:errcheck // as in identify
	if writeMessage(c, &message{Welcome: &nothing{}}) != nil {
		return
	}
	from := listen(ctx, c, maxClientMessage)
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

// A listener reads the messages of a connection as they arrive, to notice its end at once. It ends
// with the connection.
type listener struct {
	messages chan *message
	gone     context.Context // ends with the connection; its cause is the reason
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

// errQuiet means that the other end did not send a message in time.
var errQuiet = errors.New("no answer in time")

// next returns the next message.
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

// run runs one test. It reports false when the connection has ended.
func (s *Server) run(ctx context.Context, c *net.TCPConn, from *listener, t Test) bool {
	if t.For > s.Longest {
		const why = "a test of %v is longer than the server's limit of %v (--longest)"
		refuse(c, refusedTest, fmt.Sprintf(why, t.For, s.Longest))
		return false
	}
	id := newSecret()
	j := &joining{test: t, conns: map[join]*net.TCPConn{}, all: make(chan struct{})}
	s.mu.Lock()
	if s.running >= s.Tests {
		s.mu.Unlock()
		const why = "the server runs %d tests, its limit (--tests): try again when one has ended"
		refuse(c, refusedBusy, fmt.Sprintf(why, s.Tests))
		return false
	}
	memory := t.bufferBytes()
	if s.Memory > 0 && memory > s.Memory-s.memory {
		used := s.memory
		s.mu.Unlock()
		const why = "the test needs buffers of %d MB, and %d MB of %d MB (--memory) are in use: " +
			"use fewer streams or smaller requests"
		refuse(c, refusedTest, fmt.Sprintf(why, memory>>20, used>>20, s.Memory>>20))
		return false
	}
	s.running++
	s.memory += memory
	s.tests[id] = j
	s.mu.Unlock()
	over := sync.OnceFunc(func() {
		s.mu.Lock()
		s.running--
		s.memory -= memory
		s.mu.Unlock()
	})
	defer over()
	flows, err := s.gather(ctx, c, from, id, j)
	if err != nil {
		refuse(c, refusedFailed, err.Error())
		return false
	}
	machine := s.Machine
	if s.Token == "" { // strangers learn nothing about it
		machine.Host, machine.ID, machine.Diagnose = "", "", nil
	}
	side := newSide(t, &machine, &s.threads, flows, addressOf(c.LocalAddr()),
		addressOf(c.RemoteAddr()))
	defer side.close()
	if s.write(c, &message{Joined: &nothing{}}) != nil {
		return false
	}
	if m, err := from.next(ctx, joinWait); err != nil || m.Begin == nil {
		return false
	}
	// The traffic ends when the client is gone, or never confirms that it measured all.
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
			stop(errNotProtocol)
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
	if err == nil ||
		errors.Is(err, errStopped) { // a sender continues until the other end has measured all
		<-measuring.Done()
		err = context.Cause(measuring)
	}
	if errors.Is(err, errStopped) {
		err = nil
	}
	side.halt()
	if s.Say != nil {
		s.Say(testLine(c, &t, side, err))
	}
	end := side.end()
	if err != nil {
		refuse(c, refusedFailed, err.Error())
		return false
	}
	end.Address = printable(c.LocalAddr().String())
	over() // before the client knows, so that its next test is not refused
	return s.write(c, &message{End: end}) == nil
}

// errStopped means that the client has all numbers.
var errStopped = errors.New("the client stopped it")

// testLine returns the line about a finished test.
func testLine(c net.Conn, t *Test, s *side, err error) string {
	connections := "1 connection"
	if n := t.connections(); n > 1 {
		connections = fmt.Sprintf("%d connections", n)
	}
	line := fmt.Sprintf("%s %s: %s, %s, %.1f s", time.Now().Format("15:04:05"), c.RemoteAddr(),
		t.Kind, connections, s.total.Seconds())
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
	c.SetWriteDeadline(time.Now().Add(writeWait)) //nolint:errcheck // as in identify
	return writeMessage(c, m)
}

// gather sends the test's name and waits for its connections.
func (s *Server) gather(ctx context.Context, c net.Conn, from *listener, id string, j *joining,
) (flows []*flow, err error) {
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
	if j.test.hasPorts() {
		return s.openPorts(ctx, c, from, id, &j.test)
	}
	if err := s.write(c, &message{Ready: &ready{ID: id}}); err != nil {
		return nil, err
	}
	late := time.NewTimer(joinWait)
	defer late.Stop()
	select {
	case <-j.all:
	case <-late.C:
		return nil, errors.New("not all connections of the test joined in time")
	case <-from.gone.Done():
		return nil, context.Cause(from.gone)
	case <-ctx.Done():
		return nil, errors.New("the server is stopping")
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

// addressOf returns the IP address of one end of a connection.
func addressOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr()
	}
	return netip.Addr{}
}
