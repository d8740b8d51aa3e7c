package listen

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// token is what a known client sends.
const token = "0123456789abcdef0123456789abcdef"

// openSite serves on a listener with the given limits and returns its address. A request with the
// token has status 200, others 401.
func openSite(t *testing.T, limits Limits) (address string, l *listener) {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = newListener(inner, limits)
	h := &http.Server{
		ConnContext: WithConnection,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			Identified(r.Context())
		}),
	}
	go func() { _ = h.Serve(l) }()
	t.Cleanup(func() { _ = h.Close() })
	return l.Addr().String(), l
}

// dialSite opens a connection.
func dialSite(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// requestOn sends a request with a token, "" without one, and returns the status; 0: the connection
// was closed.
func requestOn(c net.Conn, token string) int {
	r, _ := http.NewRequest(http.MethodGet, "http://localhost/api/catalogue", nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if r.Write(c) != nil {
		return 0
	}
	res, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// However many connections strangers open, a client with the token is answered, on its old
// connection and on new ones.
func TestStrangersTakeNoPlaces(t *testing.T) {
	address, l := openSite(t, Limits{100, 10, 10})
	old := dialSite(t, address)
	if got := requestOn(old, token); got != 200 {
		t.Fatalf("status %d", got)
	}
	var strangers []net.Conn
	for i := range 60 {
		c := dialSite(t, address)
		if got := requestOn(c, ""); got != 401 {
			t.Fatalf("stranger %d: status %d", i, got)
		}
		strangers = append(strangers, c)
		if i%20 == 0 {
			if got := requestOn(dialSite(t, address), token); got != 200 {
				t.Fatalf("a new client after %d strangers: status %d", i+1, got)
			}
		}
	}
	if got := requestOn(old, token); got != 200 {
		t.Errorf("the old client: status %d", got)
	}
	l.mu.Lock()
	open, waiting := l.open, l.waiting
	l.mu.Unlock()
	if waiting != 10 || open != 10+4 {
		t.Errorf("%d connections are open, %d of strangers; want 14, 10", open, waiting)
	}
	if requestOn(strangers[0], "") != 0 || requestOn(strangers[59], "") != 401 {
		t.Error("the oldest stranger is there, or the newest is not")
	}
	// All that is closed is no longer counted.
	for _, c := range append(strangers, old) {
		_ = c.Close()
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		open = l.open
		l.mu.Unlock()
		if open == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are counted, want 3", open)
		}
	}
}

// namedConn is a connection from an address.
type namedConn struct {
	net.Conn
	from   string
	closed bool
}

func (c *namedConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 1))
}

func (c *namedConn) Close() error {
	c.closed = true
	return nil
}

// Where strangers of several addresses have too many, the address with the most loses its oldest.
func TestPeersAreBounded(t *testing.T) {
	l := newListener(nil, Limits{100, 6, 4})
	add := func(from string) *namedConn {
		c := &namedConn{from: from}
		if _, oldest := l.add(c); oldest != nil {
			_ = oldest.Close()
		}
		return c
	}
	var many []*namedConn
	for range 4 {
		many = append(many, add("10.0.0.1"))
	}
	one, other := add("10.0.0.2"), add("2001:db8::1")
	fifth := add("10.0.0.1") // more than one address may have
	if !many[0].closed || many[1].closed || one.closed || other.closed || fifth.closed {
		t.Error("not the oldest of the address is closed")
	}
	neighbor := add("2001:db8::2") // more than all may have
	if !many[1].closed || many[2].closed || one.closed || other.closed || neighbor.closed {
		t.Error("not the oldest of the address with the most is closed")
	}
	if l.open != 6 || l.waiting != 6 || len(l.unknown[netip.MustParseAddr("2001:db8::")]) != 2 {
		t.Errorf("%d open, %d waiting: %v", l.open, l.waiting, l.unknown)
	}
}

// An address that other machines can reach needs TLS.
func TestCheckAddress(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:7410": "tls free", "[::1]:7410": "tls free", "localhost:7410": "tls free", "127.8.8.8:0": "tls free", "[::ffff:127.0.0.1]:1": "tls free",
		":7410": "tls", "0.0.0.0:7410": "tls", "[::]:7410": "tls", "192.168.1.1:7410": "tls", "10.0.0.1:7410": "tls", "[fe80::1%eth0]:7410": "tls", "box.example:7410": "tls", "127.0.0.1.example:7410": "tls", "127.1:7410": "tls",
		"7410": "", "127.0.0.1": "", "127.0.0.1:port": "", "127.0.0.1:77777": "", "": "",
	} {
		got := ""
		if CheckAddress(address, true) == nil {
			got = "tls"
		}
		if CheckAddress(address, false) == nil {
			got += " free"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}
