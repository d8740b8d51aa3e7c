package main

import (
	"net"
	"os"
	"time"

	"culprit/remote"
	"culprit/supervise"
)

// peers serves the connections to the other process one after another. The supervisor may send the
// next one before the end of the current one is noticed. Served at the same time, the older one
// could replace the newer one.
type peers struct {
	serve   func(*net.UnixConn) error
	failed  func(error)   // called after each serve, when the next one may begin
	current *net.UnixConn // nil: none so far
	done    chan struct{} // closed at the end of the newest serve; nil: none so far
}

// next closes the connection before, and serves conn after its end. It does not wait.
func (p *peers) next(conn *net.UnixConn) {
	if p.current != nil {
		_ = p.current.Close() // its process has died, or has closed it
	}
	before, done := p.done, make(chan struct{})
	p.current, p.done = conn, done
	go func() {
		if before != nil {
			<-before
		}
		err := p.serve(conn)
		close(done)
		p.failed(err)
	}()
}

// reconnectDelay is between a protocol error of the other process and the next connection to it.
const reconnectDelay = time.Second

// followPeers calls serve for each connection that the supervisor sends, one after another. After a
// protocol error it asks for another connection; one follows a death by itself. It returns when the
// supervisor has died.
func followPeers(control *supervise.Control, serve func(*net.UnixConn) error) {
	p := peers{serve: serve, failed: func(err error) {
		if remote.IsProtocolError(err) {
			time.Sleep(reconnectDelay)
			_ = control.Reconnect() // a supervisor that has ended ends this process
		}
	}}
	for {
		conn, err := control.Peer()
		if err != nil {
			return
		}
		p.next(conn)
	}
}

// exitWithSupervisor is followPeers for a process that ends at once with the supervisor.
func exitWithSupervisor(control *supervise.Control, serve func(*net.UnixConn) error) {
	followPeers(control, serve)
	os.Exit(1)
}
