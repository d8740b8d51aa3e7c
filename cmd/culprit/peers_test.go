package main

import (
	"io"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// socketPair returns two connected unix sockets.
func socketPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(f)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close() // the connection has its own
		ends[i] = conn.(*net.UnixConn)
	}
	return ends[0], ends[1]
}

// TestPeers: connections that come at once are served in their order, and the newest one stays.
func TestPeers(t *testing.T) {
	const connections = 100
	served, failed := make(chan *net.UnixConn, connections), make(chan error, connections)
	p := peers{
		serve: func(c *net.UnixConn) error {
			served <- c
			_, err := io.Copy(io.Discard, c) // until it is closed at one of both ends
			return err
		},
		failed: func(err error) { failed <- err },
	}
	var sent []*net.UnixConn
	var last *net.UnixConn
	for range connections {
		mine, its := socketPair(t)
		defer its.Close()
		last = its
		sent = append(sent, mine)
		p.next(mine)
	}
	for i, want := range sent {
		if got := <-served; got != want {
			t.Fatalf("connection %d is served out of order", i)
		}
	}
	for range connections - 1 {
		<-failed
	}
	if _, err := last.Write([]byte("x")); err != nil {
		t.Errorf("the newest connection is closed: %v", err)
	}
	_ = last.Close() // ends the last serve
	if err := <-failed; err != nil {
		t.Errorf("the end of the newest connection: %v", err)
	}
}
