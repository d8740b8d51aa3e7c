package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A test over UDP, or with a connection for each transaction, has a port of the server for each
// flow. The server opens the ports at the address that the client has connected to, and answers at
// them only to the address that the client has connected from.

// place is a flow of a test.
type place struct {
	way    Way
	stream int
}

// places returns the flows of the test in the order of their ports.
func (t *Test) places() (all []place) {
	for _, way := range t.ways() {
		for n := range t.Streams {
			all = append(all, place{way, n})
		}
	}
	return all
}

// hasPorts reports whether the test's flows have ports of their own.
func (t *Test) hasPorts() bool { return t.UDP || t.Connect }

// openPorts opens the ports of a test and sends them to the client. It returns the flows when the
// client has joined all. The caller closes the flows, also after an error.
func (s *Server) openPorts(
	ctx context.Context, c net.Conn, from *listener, id string, t *Test,
) (flows []*flow, err error) {
	local, client := addressOf(c.LocalAddr()), addressOf(c.RemoteAddr())
	r := &ready{ID: id}
	var waiting []*net.UDPConn
	defer func() {
		for _, conn := range waiting {
			conn.Close()
		}
	}()
	for _, p := range t.places() {
		port := 0
		if t.UDP {
			conn, e := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
			if e != nil {
				return flows, fmt.Errorf("open a port: %w", e)
			}
			waiting, port = append(waiting, conn), portOf(conn.LocalAddr())
		} else {
			var f *flow
			if f, port, err = listenFlow(local, t, p); err != nil {
				return flows, fmt.Errorf("open a port: %w", err)
			}
			f.connecting = &connecting{only: client.Unmap()}
			flows = append(flows, f)
		}
		r.Ports = append(r.Ports, port)
	}
	if err := s.write(c, &message{Ready: r}); err != nil || !t.UDP {
		return flows, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, joinWait,
		errors.New("not all flows of the test joined in time"))
	defer cancel()
	defer context.AfterFunc(from.gone, cancel)()
	flows = make([]*flow, len(waiting))
	errs := make([]error, len(waiting))
	var all sync.WaitGroup
	for i, p := range t.places() {
		all.Go(func() {
			peer, e := acceptDatagrams(ctx, waiting[i], client, join{id, p.way, p.stream})
			if e == nil {
				flows[i], e = datagramFlow(waiting[i], peer, t, p, false)
			}
			errs[i] = e
		})
	}
	all.Wait()
	flows = withoutNil(flows)
	return flows, errors.Join(errs...)
}

// withoutNil returns the flows that exist.
func withoutNil(all []*flow) (out []*flow) {
	for _, f := range all {
		if f != nil {
			out = append(out, f)
		}
	}
	return out
}

// acceptDatagrams waits for the datagram with which the client joins a flow, confirms it, and
// returns where it came from.
func acceptDatagrams(
	ctx context.Context, c *net.UDPConn, client netip.Addr, want join,
) (peer netip.AddrPort, err error) {
	stop := context.AfterFunc(ctx, func() {
		c.SetReadDeadline(time.Unix(1, 0)) //nolint:errcheck // reading reports a broken socket
	})
	defer stop()
	b := make([]byte, maxFirstMessage)
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return peer, err
		}
		if from.Addr().Unmap().WithZone("") != client.Unmap().WithZone("") || n < frameHead {
			continue
		}
		m, err := parseMessage(b[frameHead:n])
		if err != nil || m.Join == nil || *m.Join != want {
			continue
		}
		confirm, err := appendMessage(nil, &message{Joined: &nothing{}})
		if err == nil {
			_, err = c.WriteToUDPAddrPort(confirm, from)
		}
		return from, err
	}
}

// datagramFlow returns the flow of a UDP socket that talks to one peer only.
func datagramFlow(
	c *net.UDPConn, peer netip.AddrPort, t *Test, p place, client bool,
) (*flow, error) {
	s, err := socketOf(c)
	if err != nil {
		return nil, err
	}
	if !client { // that of the client is connected
		address, _ := socketAddress(netip.AddrPortFrom(peer.Addr(), peer.Port()))
		if isIPv6(s.fd) {
			address = mapped(peer)
		}
		if err := unix.Connect(s.fd, address); err != nil {
			s.close()
			return nil, fmt.Errorf("connect a UDP socket: %w", err)
		}
	}
	f := &flow{socket: s, way: p.way, stream: p.stream, sends: client == (p.way == Up)}
	err = s.setBuffers(t)
	if err == nil && t.Kind == Exchange && client {
		limit := unix.NsecToTimeval(int64(answerWait))
		err = unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return f, nil
}

// isIPv6 reports whether a socket is of the family AF_INET6.
func isIPv6(fd int) bool {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && family == unix.AF_INET6
}

// mapped returns an address for a socket of AF_INET6.
func mapped(a netip.AddrPort) unix.Sockaddr {
	return &unix.SockaddrInet6{
		Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: zoneIndex(a.Addr().Zone()),
	}
}

// zoneIndex returns the index of an interface; 0: unknown.
func zoneIndex(zone string) uint32 {
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	return 0
}

// listenFlow returns the flow of a listening TCP socket and its port.
func listenFlow(local netip.Addr, t *Test, p place) (*flow, int, error) {
	address, family := socketAddress(netip.AddrPortFrom(local, 0))
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	s := &socket{fd: fd}
	const backlog = 128
	err = s.setBuffers(t)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // accepted ones inherit
	}
	if err == nil {
		err = unix.Bind(fd, address)
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		s.close()
		return nil, 0, err
	}
	port := 0
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		port = name.Port
	case *unix.SockaddrInet6:
		port = name.Port
	}
	return &flow{socket: s, way: p.way, stream: p.stream}, port, nil
}

// portOf returns the port of an address.
func portOf(a net.Addr) int {
	if u, ok := a.(*net.UDPAddr); ok {
		return u.Port
	}
	return 0
}

// joinPorts joins the flows of a test at the server's ports.
func (s *Session) joinPorts(ctx context.Context, t *Test, r *ready) ([]*flow, error) {
	places := t.places()
	if len(r.Ports) != len(places) {
		return nil, fmt.Errorf("the server at %s has no ports for this test: "+
			"use the same culprit at both ends", s.Server)
	}
	server := addressOf(s.conn.RemoteAddr())
	flows, errs := make([]*flow, len(places)), make([]error, len(places))
	var all sync.WaitGroup
	dials := make(chan struct{}, maxDials)
	for i, p := range places {
		at := netip.AddrPortFrom(server, uint16(r.Ports[i]))
		if t.Connect {
			flows[i] = s.connectFlow(at, p)
			continue
		}
		dials <- struct{}{}
		all.Go(func() {
			defer func() { <-dials }()
			flows[i], errs[i] = s.joinDatagrams(ctx, at, t, p, r.ID)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, f := range withoutNil(flows) {
			f.socket.close()
		}
		return nil, err
	}
	return flows, nil
}

// connectFlow returns a flow that makes a connection for each transaction.
func (s *Session) connectFlow(at netip.AddrPort, p place) *flow {
	c := &connecting{}
	c.peer, c.family = socketAddress(at)
	if s.c.Bind.IsValid() {
		c.bind, _ = socketAddress(netip.AddrPortFrom(s.c.Bind, 0))
	}
	return &flow{
		socket: &socket{fd: -1}, way: p.way, stream: p.stream, sends: true, connecting: c,
	}
}

// joinEach is how often a client sends the datagram that joins a flow.
const joinEach = 200 * time.Millisecond

// joinDatagrams opens a UDP socket and joins a flow with it.
func (s *Session) joinDatagrams(
	ctx context.Context, at netip.AddrPort, t *Test, p place, id string,
) (*flow, error) {
	d := net.Dialer{}
	if s.c.Bind.IsValid() {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(s.c.Bind, 0))
	}
	conn, err := d.DialContext(ctx, "udp", at.String())
	if err != nil {
		return nil, s.c.unreachable(at.String(), err)
	}
	c := conn.(*net.UDPConn) // by "udp"
	m, err := appendMessage(nil, &message{Join: &join{ID: id, Way: p.way, Stream: p.stream}})
	if err != nil {
		c.Close()
		return nil, err
	}
	b := make([]byte, maxFirstMessage)
	for end := time.Now().Add(joinWait); time.Now().Before(end) && ctx.Err() == nil; {
		_, err = c.Write(m)
		if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
		c.SetReadDeadline(time.Now().Add(joinEach)) //nolint:errcheck // reading reports it
		n, err := c.Read(b)
		if err != nil || n < frameHead {
			continue
		}
		if m, err := parseMessage(b[frameHead:n]); err == nil && m.Joined != nil {
			c.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
			return datagramFlow(c, at, t, p, true)
		}
	}
	c.Close()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("no answer by UDP from %s in %v: is there a firewall in between? "+
		"A test over UDP uses ports that the server's kernel chooses", at, joinWait)
}
