package load

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/measure"
)

func TestRefusals(t *testing.T) {
	address := serving(t, &Server{Token: "secret", Tests: 8, Longest: measure.Second})
	refused := func(what string, err error, words ...string) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: nothing is wrong", what)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", what, err, w)
			}
		}
	}
	_, err := (&Client{Server: address, Token: "wrong"}).Dial(t.Context())
	refused("a wrong token", err, "refuses", "token")
	_, err = (&Client{Server: address}).Dial(t.Context())
	refused("no token", err, "CULPRIT_LOAD_TOKEN")

	test := short(Stream, Up)
	test.For = 2 * measure.Second
	_, err = dial(t, address, "secret").Run(t.Context(), 1, test, nil)
	refused("a long test", err, "--longest", "1s")

	test = short(Stream, Up)
	test.Congestion = "nosuch"
	_, err = dial(t, address, "secret").Run(t.Context(), 1, test, nil)
	refused("an algorithm that there is not", err, "nosuch", "this kernel has", "cubic")
	test.Way = Down
	_, err = dial(t, address, "secret").Run(t.Context(), 1, test, nil)
	refused("an algorithm that the server has not", err, "at the server", "nosuch")

	address = serving(t, &Server{Token: "secret", Tests: 1})
	first, second := dial(t, address, "secret"), dial(t, address, "secret")
	one := &Test{
		Kind: Stream, Way: Up, Streams: 1, For: measure.Second, Every: measure.Second, Size: 1,
	}
	if err := first.write(&message{Test: one}); err != nil {
		t.Fatal(err)
	}
	if m, err := first.next(t.Context(), time.Second*5); err != nil || m.Ready == nil {
		t.Fatal(m, err)
	}
	_, err = second.Run(t.Context(), 1, short(Stream, Up), nil)
	refused("a second test", err, "--tests")
	first.Close() // frees its place
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err = dial(t, address,
			"secret").Run(t.Context(), 1, short(Stream, Up), func(*Interval) {})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the place of a client that is gone is not free: %v", err)
		}
	}

	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := writeMessage(c, &message{Call: &call{Version: 99}}); err != nil {
		t.Fatal(err)
	}
	if m, err := readMessage(c, maxFirstMessage); err != nil || m.Refused == nil ||
		m.Refused.Code != refusedVersion {
		t.Errorf("another version is answered %+v, %v", m, err)
	}
	// A client that joins an unknown test, or does not speak the protocol, is disconnected.
	for _, b := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x2a" + `{"join":{"id":"abc","way":"up","stream":0}}`} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(b)); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(
			time.Now().Add(10 * time.Second),
		) //nolint:errcheck // without a deadline the test waits longer
		if got, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) || len(got) > 0 {
			t.Errorf("%q is answered %q, %v", b, got, err)
		}
		c.Close()
	}
}

// TestUnknownServers checks the client's errors for servers that don't speak the protocol.
func TestUnknownServers(t *testing.T) {
	answering := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Write([]byte(answer)) //nolint:errcheck // the client reports what it got
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, c) //nolint:errcheck // until the client disconnects
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	hello, err := appendMessage(nil, &message{Hello: &hello{Version: 7, Open: true}})
	if err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "is not culprit load serve",
		"":                                 "closed the connection",
		string(hello):                      "version 7",
	} {
		_, err := (&Client{Server: answering(answer)}).Dial(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", answer, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	if _, err := (&Client{Server: address}).Dial(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "culprit load serve --listen") {
		t.Errorf("nobody there: %v", err)
	}
	foreign := &Client{Server: address, Bind: netip.MustParseAddr("203.0.113.7")}
	if _, err := foreign.Dial(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "--bind 203.0.113.7") {
		t.Errorf("an address of others: %v", err)
	}
}

// TestInterrupted checks that an interrupted test has the numbers of both ends so far, and that the
// server continues.
func TestInterrupted(t *testing.T) {
	address := serving(t, &Server{Machine: cannedMachine()})
	s := dial(t, address, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	test := short(Stream, Down)
	test.For = 30 * measure.Second
	run, err := s.Run(ctx, 1, test, func(i *Interval) {
		if i.N == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || run == nil || run.Early == "" ||
		len(run.Intervals) < 2 ||
		len(run.Intervals) > 20 {
		t.Fatalf("%+v, %v", run, err)
	}
	if run.There == nil || !(run.Throughput(Down) > 1e6) || run.There.Total.way(Down).Bytes == 0 {
		t.Errorf("the server's part: %+v", run.There)
	}
	next := dial(t, address, "")
	if _, err := next.Run(t.Context(), 1, short(Stream, Up), func(*Interval) {}); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// TestClientGone checks that a test ends, with its threads, when its client dies.
func TestClientGone(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	address := serving(t, &Server{Tests: 1, Say: func(s string) {
		mu.Lock()
		lines = append(lines, s)
		mu.Unlock()
	}})
	s := dial(t, address, "")
	test := short(Stream, Down)
	test.For = 30 * measure.Second
	_, err := s.Run(t.Context(), 1, test, func(*Interval) { s.conn.Close() })
	if err == nil {
		t.Fatal("a broken connection is no error")
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		mu.Lock()
		all := strings.Join(lines, "\n")
		mu.Unlock()
		if strings.Contains(all, "ended early") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server goes on with a client that is gone: %q", all)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestHostPort(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.2": "10.0.0.2:7411", "10.0.0.2:99": "10.0.0.2:99", "host": "host:7411", "host:": "host:7411", "::1": "[::1]:7411", "[::1]": "[::1]:7411", "[fe80::1%eth0]:7": "[fe80::1%eth0]:7",
	} {
		if got, err := HostPort(text); got != want || err != nil {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":7411", "host:x", "host:70000", "a:b:c", "host:0"} {
		if got, err := HostPort(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// TestOpenServerReportsNothing checks that a server without a token reports neither its name nor
// its ID nor a diagnosis.
func TestOpenServerReportsNothing(t *testing.T) {
	for token, host := range map[string]string{"secret": "box", "": ""} {
		address := serving(t, &Server{Token: token, Machine: cannedMachine()})
		test := short(Stream, Up)
		test.Look = true
		run, err := dial(t, address, token).Run(t.Context(), 1, test, func(*Interval) {})
		if err != nil || run.There == nil {
			t.Fatalf("%v", err)
		}
		if there := run.There; there.Host != host || (there.Machine != "") != (host != "") ||
			(len(there.Report) > len("null")) != (host != "") {
			t.Errorf("token %q: %q %q %s", token, there.Host, there.Machine, there.Report)
		}
	}
}
