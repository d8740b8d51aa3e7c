package listen

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
)

// Limits limit open connections, and so the memory of idle ones. A viewer uses one.
type Limits struct {
	Connections int // in all
	Strangers   int // on which no request had a valid token
	PerPeer     int // of those, from one address
}

// DefaultLimits are the limits of a server.
//
// table: limits
var DefaultLimits = Limits{Connections: 8192, Strangers: 1024, PerPeer: 256}

// TCP listens on a TCP address. Connections on which no request had a valid token are bounded
// apart: a stranger who opens many takes the places of other strangers only. The caller must close
// the listener. The error is that of net.Listen.
func TCP(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, listenError(address, err)
	}
	return New(l, DefaultLimits), nil
}

// listener bounds the number of connections and checks peers.
type listener struct {
	net.Listener
	limit     int // open connections
	strangers int // of them, without a valid token
	perPeer   int // of those, from one address
	sameUser  bool

	mu      sync.Mutex
	open    int
	unknown map[netip.Addr][]*connection // without a valid token, oldest first
	waiting int                          // connections in unknown
}

// New returns a listener that accepts the connections of l within limits. The caller must close it
// in place of l.
func New(l net.Listener, limits Limits) net.Listener { return newListener(l, limits) }

func newListener(l net.Listener, limits Limits) *listener {
	return &listener{Listener: l, limit: limits.Connections, strangers: limits.Strangers,
		perPeer: limits.PerPeer, unknown: map[netip.Addr][]*connection{}}
}

// Accept returns the next admitted connection. Where strangers have too many, the oldest of the
// address that has the most is closed: a client that has a token shows it at once.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.sameUser && !isPeerOf(c, os.Geteuid()) {
			_ = c.Close() // nothing was sent
			continue
		}
		conn, oldest := l.add(c)
		if oldest != nil {
			_ = oldest.Close() // its client is a stranger
		}
		if conn == nil {
			_ = c.Close() // nothing was sent
			continue
		}
		return conn, nil
	}
}

// add counts a connection; nil: there are too many. The caller must close the oldest connection.
func (l *listener) add(c net.Conn) (conn, oldest *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn = &connection{Conn: c, listener: l}
	if t, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		conn.peer = network(t.AddrPort().Addr())
	}
	switch {
	case l.sameUser:
	case len(l.unknown[conn.peer]) >= l.perPeer:
		oldest = l.unknown[conn.peer][0]
	case l.waiting >= l.strangers:
		var most netip.Addr
		for peer, list := range l.unknown {
			if len(list) > len(l.unknown[most]) {
				most = peer
			}
		}
		oldest = l.unknown[most][0]
	}
	if oldest != nil {
		l.forget(oldest)
		l.open--
	}
	if l.open >= l.limit {
		return nil, oldest
	}
	l.open++
	if !l.sameUser {
		l.unknown[conn.peer] = append(l.unknown[conn.peer], conn)
		l.waiting++
	}
	return conn, oldest
}

// network returns an address of IPv4, or the network of an address of IPv6 that one customer has:
// 64 bits.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if !a.Is6() {
		return a
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a
	}
	return p.Addr()
}

// forget removes a connection from the unknown ones. It reports whether it was one.
func (l *listener) forget(c *connection) bool {
	list := l.unknown[c.peer]
	for i, other := range list {
		if other != c {
			continue
		}
		l.waiting--
		if len(list) == 1 {
			delete(l.unknown, c.peer)
		} else {
			l.unknown[c.peer] = append(list[:i:i], list[i+1:]...)
		}
		return true
	}
	return false
}

// connection is an accepted connection. Its listener counts it until its first Close.
type connection struct {
	net.Conn
	listener *listener
	peer     netip.Addr // see network; the zero Addr for a unix socket
	known    atomic.Bool
	once     sync.Once
}

// Close closes the connection.
func (c *connection) Close() error {
	c.once.Do(func() {
		l := c.listener
		l.mu.Lock()
		defer l.mu.Unlock()
		if was := l.forget(c); was || c.known.Load() || l.sameUser {
			l.open--
		}
	})
	return c.Conn.Close()
}

// identified notes that a request on the connection had a valid token.
func (c *connection) identified() {
	if c.known.Load() {
		return
	}
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.forget(c) {
		c.known.Store(true)
	}
}

// connectionKey is the key of a request's *connection in its context.
type connectionKey struct{}

// Identified notes that the request of a context had a valid token: its connection is no longer
// that of a stranger. The context is one of WithConnection; another is left alone.
func Identified(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		c.identified()
	}
}

// WithConnection returns the context of the requests of a connection: http.Server.ConnContext.
func WithConnection(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	if own, ok := c.(*connection); ok {
		return context.WithValue(ctx, connectionKey{}, own)
	}
	return ctx
}
