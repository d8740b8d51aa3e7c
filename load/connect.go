package load

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// connectWait is how long a connection of connect/request/response may take, and how long the
// server waits for a request. A foreign client can stop one thread of a test for that long.
const connectWait = 2 * time.Second

// connecting is where a flow makes connections to, or accepts them from.
type connecting struct {
	family     int
	bind, peer unix.Sockaddr // bind is nil: the kernel chooses
	only       netip.Addr    // at the server: the client
}

// connectExchange makes a connection, sends a request, and reads the response until the server
// closes. The server closes first: its TIME-WAIT takes no port of the client.
func (f *flow) connectExchange(request, response []byte) error {
	fd, err := unix.Socket(f.connecting.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s := &socket{fd: fd}
	defer s.close()
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // it has been set before
	limit := unix.NsecToTimeval(int64(connectWait))
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit) // also for connect
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	if f.connecting.bind != nil {
		if err := unix.Bind(fd, f.connecting.bind); err != nil {
			return err
		}
	}
	for {
		if err = unix.Connect(fd, f.connecting.peer); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		err = s.sendNow(request)
	}
	for got := 0; err == nil; {
		var n int
		n, err = s.receive(response, 0)
		switch {
		case err != nil:
		case n == 0 && got == len(response)-1:
			return nil
		case n == 0:
			err = errEnded
		default:
			if got += n; got >= len(response) {
				err = errNotProtocol
			}
		}
	}
	if f.over.Load() {
		return err
	}
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINPROGRESS) ||
		errors.Is(err, unix.ETIMEDOUT) || errors.Is(err, unix.ECONNRESET) {
		return errLost
	}
	return err
}

// answerConnections accepts connections of the client's address, and sends a response to the
// request of each. f.socket listens; other threads may accept from it too.
func (f *flow) answerConnections(t *Test) error {
	b, response := make([]byte, min(t.Ask, receiveAtOnce)), randomBytes(t.Answer)
	each := uint64(t.Ask + t.Answer)
	limit := unix.NsecToTimeval(int64(connectWait))
	for !f.over.Load() {
		fd, from, err := unix.Accept4(f.socket.fd, unix.SOCK_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
			continue
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
			f.sleep(time.Millisecond)
			continue
		case err != nil:
			return err
		}
		one := flow{socket: &socket{fd: fd}}
		if addressOfSocket(from) == f.connecting.only {
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit)
			if one.skip(t.Ask, b) == nil && one.socket.sendNow(response) == nil {
				f.done.Store(f.done.Load() + 1)
				f.moved.Store(f.moved.Load() + each)
			}
		}
		one.socket.close()
	}
	return errEnded
}

// addressOfSocket returns the IP address of a socket's address.
func addressOfSocket(a unix.Sockaddr) netip.Addr {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr).Unmap()
	}
	return netip.Addr{}
}

// socketAddress returns the socket's address of an IP address and a port.
func socketAddress(a netip.AddrPort) (address unix.Sockaddr, family int) {
	if ip := a.Addr().Unmap(); ip.Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}, unix.AF_INET
	}
	out := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		out.ZoneId = zoneIndex(zone)
	}
	return out, unix.AF_INET6
}
