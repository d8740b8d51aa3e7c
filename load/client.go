package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Client connects to a server to run tests.
type Client struct {
	Server  string     // HOST, HOST:PORT, an IPv6 address with or without brackets
	Token   string     // the server's; "" for an open one
	Bind    netip.Addr // of this end; the zero Addr lets the kernel choose
	Machine Machine
}

// Session is a connection to a server. It runs one test at a time.
type Session struct {
	c       *Client
	conn    *net.TCPConn
	from    *listener
	threads threadSlots
	Server  string // its address and port
}

// dialWait is the time limit for the server's first answer.
const dialWait = 10 * time.Second

// HostPort returns the address for HOST[:PORT], with the default port. The error says what is wrong
// with the text.
func HostPort(text string) (string, error) { return hostPort(text, Port) }

// hostPort is HostPort with another default port.
func hostPort(text, usual string) (string, error) {
	if text == "" {
		return "", errors.New("which host? Write HOST or HOST:PORT")
	}
	bare := text
	if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		bare = strings.TrimSuffix(inner, "]")
	}
	if ip, err := netip.ParseAddr(bare); err == nil && !strings.ContainsAny(ip.Zone(), "[]:") {
		return net.JoinHostPort(ip.String(), usual), nil
	}
	host, port, err := net.SplitHostPort(text)
	switch {
	case err != nil && strings.Contains(text, ":"):
		return "", fmt.Errorf(
			"%q is not HOST[:PORT]; an IPv6 address with a port is [ADDRESS]:PORT", text,
		)
	case err != nil:
		host, port = text, usual
	case host == "":
		return "", fmt.Errorf("%q has no host before its port", text)
	case port == "":
		port = usual
	}
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 {
		return "", fmt.Errorf("%q is not a port", port)
	}
	return net.JoinHostPort(host, port), nil
}

// Dial connects to the server and proves that it has the token. The caller closes the session. The
// error says why there is no session and what to do.
func (c *Client) Dial(ctx context.Context) (*Session, error) {
	address, err := HostPort(c.Server)
	if err != nil {
		return nil, err
	}
	d := c.dialer(nil)
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, c.unreachable(address, err)
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("connect to %s: not a TCP connection: %w", address,
			measure.ErrUnclear)
	}
	s := &Session{c: c, conn: tcp, Server: tcp.RemoteAddr().String()}
	if err := s.greet(ctx); err != nil {
		s.Close()
		return nil, err
	}
	s.from = listen(context.WithoutCancel(ctx), tcp,
		maxServerMessage) // a stopped run still gets the server's numbers
	return s, nil
}

// dialer returns the dialer for the server; t is the test of the connection, nil for the control
// connection.
func (c *Client) dialer(t *Test) *net.Dialer {
	d := &net.Dialer{Timeout: dialWait, KeepAlive: 15 * time.Second}
	if c.Bind.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.Bind, 0))
	}
	if t != nil && t.Window > 0 {
		// Before connect: the SYN contains the window scale.
		d.Control = func(_, _ string, raw syscall.RawConn) (err error) {
			return errors.Join(raw.Control(func(fd uintptr) {
				err = errors.Join(
					unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, t.Window),
					unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, t.Window),
				)
			}), err)
		}
	}
	return d
}

// unreachable returns the error of a failed connect, with what to do about it.
func (c *Client) unreachable(address string, err error) error {
	var dns *net.DNSError
	switch host, _, _ := net.SplitHostPort(address); {
	case errors.As(err, &dns):
		return fmt.Errorf("find the address of %s: %s", host, printable(dns.Err))
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("connect to %s: nothing listens there; start "+
			"`culprit load serve --listen ADDRESS:PORT` on that machine "+
			"(without --listen it listens only on 127.0.0.1:%s)", address, Port)
	case errors.Is(err, unix.EADDRNOTAVAIL) && c.Bind.IsValid():
		return fmt.Errorf("connect to %s: --bind %s is not an address of this machine", address,
			c.Bind)
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("connect to %s: no answer in %v: is there a firewall in between?",
			address, dialWait)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	return fmt.Errorf("connect to %s: %w", address, err)
}

// greet exchanges greetings and proves the token.
func (s *Session) greet(ctx context.Context) error {
	interrupt := func() { s.conn.SetDeadline(time.Unix(1, 0)) } //nolint:errcheck // as below
	defer context.AfterFunc(ctx, interrupt)()
	s.conn.SetDeadline(time.Now().Add(dialWait)) //nolint:errcheck // as above
	m, err := s.call(&message{Call: &call{Version: Version}})
	if err == nil && m.Hello == nil {
		err = errNotProtocol
	}
	if err != nil {
		return s.explain(ctx, err)
	}
	if m.Hello.Version != Version {
		return fmt.Errorf(
			"the server at %s speaks version %d of the protocol, this program version %d: "+
				"use the same culprit at both ends",
			s.Server,
			m.Hello.Version,
			Version,
		)
	}
	if !m.Hello.Open && s.c.Token == "" {
		return fmt.Errorf("the server at %s requires the token that it printed at its start: "+
			"--token, or CULPRIT_LOAD_TOKEN", s.Server)
	}
	p := &proof{Nonce: newSecret()}
	p.MAC = sign(s.c.Token, m.Hello.Nonce, p.Nonce)
	m, err = s.call(&message{Proof: p})
	if err == nil && m.Welcome == nil {
		err = errNotProtocol
	}
	if err != nil {
		return s.explain(ctx, err)
	}
	s.conn.SetDeadline(time.Time{}) //nolint:errcheck // as above
	return nil
}

// call sends a message and returns the answer.
func (s *Session) call(m *message) (*message, error) {
	if err := writeMessage(s.conn, m); err != nil {
		return nil, err
	}
	answer, err := readMessage(s.conn, maxFirstMessage)
	if err == nil && answer.Refused != nil {
		return nil, s.refused(answer.Refused)
	}
	return answer, err
}

// A refusedError is the server's refusal, in its words.
type refusedError struct{ text string }

func (e refusedError) Error() string { return e.text }

func (s *Session) refused(r *refusal) error {
	why := printable(r.Why)
	switch r.Code {
	case refusedVersion:
		why += ": use the same culprit at both ends"
	case refusedFailed:
		return refusedError{fmt.Sprintf("the server at %s could not go on: %s", s.Server, why)}
	}
	return refusedError{fmt.Sprintf("the server at %s refuses: %s", s.Server, why)}
}

// explain returns the error of a failed conversation.
func (s *Session) explain(ctx context.Context, err error) error {
	var refused refusedError
	switch {
	case errors.As(err, &refused):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errNotProtocol):
		return fmt.Errorf("the program at %s is not culprit load serve (%w)", s.Server, err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, errQuiet):
		return fmt.Errorf("the server at %s does not answer", s.Server)
	case errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, unix.ECONNRESET),
		errors.Is(err, unix.EPIPE),
		errors.Is(err, net.ErrClosed):
		return fmt.Errorf("the server at %s closed the connection", s.Server)
	}
	return fmt.Errorf("talk to the server at %s: %w", s.Server, err)
}

// Close closes the connection and stops its tests on the server.
func (s *Session) Close() {
	if s.from != nil {
		s.from.stop()
	}
	s.conn.Close()
}

// next returns the server's next message. A refusal is an error.
func (s *Session) next(ctx context.Context, wait time.Duration) (*message, error) {
	m, err := s.from.next(ctx, wait)
	if err == nil && m.Refused != nil {
		err = s.refused(m.Refused)
	}
	if err != nil {
		return nil, s.explain(ctx, err)
	}
	return m, nil
}

func (s *Session) write(m *message) error {
	s.conn.SetWriteDeadline(time.Now().Add(writeWait)) //nolint:errcheck // as in greet
	return writeMessage(s.conn, m)
}
