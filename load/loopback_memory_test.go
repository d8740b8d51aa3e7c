package load

import (
	"net"
	"strings"
	"testing"
	"time"
)

// TestDataPathDoesNotAllocate checks that writes, reads and exchanges don't allocate.
func TestDataPathDoesNotAllocate(t *testing.T) {
	a, b := pair(t)
	fa, fb := &flow{socket: a}, &flow{socket: b}
	one, buf := make([]byte, 100), make([]byte, 100)
	c := newCounter()
	if n := testing.AllocsPerRun(100, func() {
		if a.send(one) != nil || fb.readFull(buf) != nil ||
			b.send(one) != nil || fa.readFull(buf) != nil {
			t.Fatal("the connection broke")
		}
		c.add(1)
	}); n != 0 {
		t.Errorf("an exchange allocates %v times", n)
	}
}

// TestManyConnections checks that more than maxUnidentified connections can join, and that silent
// connections don't block others for long.
func TestManyConnections(t *testing.T) {
	address := serving(t, &Server{Token: "secret", firstTimeout: 500 * time.Millisecond})
	for range maxUnidentified {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte{0, 0, 0, 9, '{'}); err != nil {
			t.Fatal(err)
		}
	}
	s := dial(t, address, "secret")
	test := short(Exchange, Up)
	test.Streams = 3 * maxUnidentified
	run, err := s.Run(t.Context(), 1, test, func(*Interval) {})
	if err != nil {
		t.Fatal(err)
	}
	if run.Here.Total.way(Up).Exchanges == 0 || run.There.Total.way(Up).Exchanges == 0 {
		t.Errorf("nothing went over %d connections", test.Streams)
	}
}

// TestBuffersAreBounded checks that the buffers of all tests have a limit in sum, and that those of
// exchanges are made when bytes come.
func TestBuffersAreBounded(t *testing.T) {
	address := serving(t, &Server{Token: "secret", Tests: 8, Memory: 40 << 20})
	test := short(Exchange, Up)
	test.Streams, test.Ask, test.Answer = 3, 16<<20, 16<<20
	_, err := dial(t, address, "secret").Run(t.Context(), 1, test, nil)
	if err == nil || !strings.Contains(err.Error(), "needs buffers of 48 MB, and 0 MB of 40 MB") {
		t.Errorf("three streams: %v", err)
	}
	test.Streams = 2
	run, err := dial(t, address, "secret").Run(t.Context(), 1, test, func(*Interval) {})
	if err != nil || run.There == nil {
		t.Errorf("two streams: %v", err)
	}
	// A response has as many bytes as it was asked for, however the request is split.
	test.Streams, test.Ask, test.Answer = 1, 3*receiveAtOnce+7, 5
	run, err = dial(t, address, "secret").Run(t.Context(), 1, test, func(*Interval) {})
	if err != nil || run.There.Total.way(Up).Exchanges == 0 {
		t.Errorf("a request of several pieces: %+v, %v", run, err)
	}
}
