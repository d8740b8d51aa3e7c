package netlink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
	"unsafe"

	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// What can go wrong with a netlink answer beside the kernel's own errors (Error).
var (
	// ErrInterrupted: the table changed while it was dumped (NLM_F_DUMP_INTR): entries may be
	// missing or come twice.
	ErrInterrupted = errors.New("table changed while it was dumped")
	// ErrOverrun: messages were lost because the socket's buffer was full (ENOBUFS), or because one
	// was longer than the receive buffer, which has been made longer for the next time.
	ErrOverrun = errors.New("netlink messages lost")

	errLate      = fmt.Errorf("%w: %w", measure.ErrUnclear, os.ErrDeadlineExceeded)
	errMalformed = fmt.Errorf("malformed netlink message: %w", measure.ErrUnclear)
)

// Options for Dial; the zero value is good for dumps of the own namespace.
type Options struct {
	// Strict asks the kernel to check requests strictly and to filter dumps by them
	// (NETLINK_GET_STRICT_CHK, since 4.20; older kernels ignore filters and dump everything; see
	// Conn.Strict).
	Strict bool
	// Timeout bounds each Dump, Get, Do and Family; 0 means 5 seconds.
	Timeout time.Duration
	// Receive is the size of the socket's queue in bytes, for those who Join; 0 leaves the kernel's
	// default (212,992).
	Receive int
}

// Conn is a netlink socket: one request at a time, answers in a reused receive buffer, so a dump of
// any length allocates nothing. Between requests it holds no buffer, since a server has eight
// sockets for each network namespace. The socket belongs to the network namespace in which it was
// opened.
//
// Callbacks receive a payload (the bytes after the nlmsghdr) that is valid during the call only.
// They must not use the Conn.
type Conn struct {
	fd       int
	protocol int
	port     uint32
	seq      uint32
	strict   bool
	unread   bool // the last answer was not read to its end
	timeout  time.Duration
	deadline time.Time
	families map[string]Family

	one   Request // of GetEach
	bunch []byte

	buf   []byte // nil between requests, unless a message was longer than receiveBuffer: see borrow
	offer int    // bytes of buf that the kernel may fill at once: see leastOffer
	msg   unix.Msghdr
	iov   unix.Iovec
	from  unix.RawSockaddrNetlink
}

// receiveBuffer bounds one datagram. Dumps come in skbs of at most 32 KiB (netlink_dump in
// net/netlink/af_netlink.c), unless one link is longer (hundreds of virtual functions). Pages that
// are never written to cost nothing.
const receiveBuffer = 64 << 10

// leastOffer is the first length that is offered to the kernel. The kernel allocates each datagram
// of a dump as long as the longest offer so far, up to 32 KiB; for a small table that is a seventh
// of the cost of a dump. Before the first offer it allocates a page without the overhead of an skb
// (NLMSG_GOODSIZE), or more where it knows that the message is longer. Dumps of several datagrams
// increase the offer.
const leastOffer = 4 << 10

// maxReceiveBuffer bounds the growth of a receive buffer.
const maxReceiveBuffer = 64 << 20

// receiveBuffers are the receive buffers that no Conn uses at the moment.
//
// table: scratch memory; only what the kernel has just written is read
var receiveBuffers = &sync.Pool{New: func() any { return new([receiveBuffer]byte) }}

// borrow gets a receive buffer for the Conn until release is called with the result; nil when it
// has one.
func (c *Conn) borrow() *[receiveBuffer]byte {
	if c.buf != nil {
		return nil
	}
	b := receiveBuffers.Get().(*[receiveBuffer]byte)
	c.buf = b[:]
	return b
}

// release puts the buffer of borrow back. A longer buffer that receive has made since stays with
// the Conn.
func (c *Conn) release(b *[receiveBuffer]byte) {
	if b == nil {
		return
	}
	if len(c.buf) <= receiveBuffer {
		c.buf = nil
	}
	receiveBuffers.Put(b)
}

// Dial opens a netlink socket: unix.NETLINK_ROUTE, NETLINK_SOCK_DIAG, NETLINK_GENERIC,
// NETLINK_NETFILTER. The caller closes the Conn. errors.Is measure.ErrUnsupported: the kernel has
// no such protocol.
func Dial(protocol int, o Options) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket %s: %w", protocolName(protocol),
			kernel.AsError(err))
	}
	c := &Conn{fd: fd, protocol: protocol, timeout: o.Timeout}
	if c.timeout <= 0 {
		c.timeout = 5 * time.Second
	}
	// Both only make errors readable; kernels before 4.12 have neither.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	if o.Strict {
		c.strict = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1) == nil
	}
	if o.Receive > 0 { // beyond net.core.rmem_max only with CAP_NET_ADMIN
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, o.Receive) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, o.Receive)
		}
	}
	if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err == nil {
		var sa unix.Sockaddr
		if sa, err = unix.Getsockname(fd); err == nil {
			if nl, ok := sa.(*unix.SockaddrNetlink); ok {
				c.port = nl.Pid
				return c, nil
			}
			err = unix.EAFNOSUPPORT
		}
	}
	unix.Close(fd)
	return nil, fmt.Errorf("bind netlink socket %s: %w", protocolName(protocol),
		kernel.AsError(err))
}

// Close closes the socket. A second Close does nothing. The error is that of close(2).
func (c *Conn) Close() error {
	if c == nil || c.fd < 0 {
		return nil
	}
	err := unix.Close(c.fd)
	c.fd, c.buf = -1, nil
	return kernel.AsError(err)
}

// Strict reports whether strict checking was requested and the kernel does it.
func (c *Conn) Strict() bool { return c.strict }

// Sequence returns the number of the latest request, which counts requests modulo 1<<32.
func (c *Conn) Sequence() uint32 { return c.seq }

// SetDeadline bounds all operations from now on, in addition to the timeout of each; the zero time
// removes it. After it, the error is os.ErrDeadlineExceeded and measure.ErrUnclear. The Conn stays
// usable.
func (c *Conn) SetDeadline(t time.Time) { c.deadline = t }

// Dump sends q as a dump and calls f with each message of the answer. An error of f is returned
// after the rest of the answer has been dropped. ErrInterrupted is returned after a complete dump
// that the kernel calls inconsistent; f has got all messages. See DumpRetry.
func (c *Conn) Dump(q *Request, f func(typ uint16, payload []byte) error) error {
	// NLM_F_ACK: dumps are not acknowledged (netlink_dump_start returns -EINTR), but a handler that
	// takes the request for a plain one answers with an acknowledgement in place of NLMSG_DONE, so
	// that nobody waits for it.
	return c.exchange(q, unix.NLM_F_REQUEST|unix.NLM_F_DUMP|unix.NLM_F_ACK, 0, false, f)
}

// DumpRetry is Dump, repeated up to tries times in all while the answer is interrupted or overrun.
// restart is called before each repetition, to drop what was collected. After the last try its
// error is returned, and what was collected is from that try.
func (c *Conn) DumpRetry(q *Request, tries int, restart func(),
	f func(typ uint16, payload []byte) error) error {
	for {
		err := c.Dump(q, f)
		if tries--; tries <= 0 || !errors.Is(err, ErrInterrupted) && !errors.Is(err, ErrOverrun) {
			return err
		}
		restart()
	}
}

// Get sends q and calls f with the one message that answers it. An Error with ENODEV or ESRCH
// (errors.Is fs.ErrNotExist) is the usual answer for an object that is gone.
func (c *Conn) Get(q *Request, f func(typ uint16, payload []byte) error) error {
	return c.exchange(q, unix.NLM_F_REQUEST, unix.NLM_F_ACK|unix.NLM_F_DUMP, true, f)
}

// Do sends q and waits for the kernel's acknowledgement. f is called with each message before it
// and may be nil. The error is an *Error where the kernel refuses.
func (c *Conn) Do(q *Request, f func(typ uint16, payload []byte) error) error {
	return c.exchange(q, unix.NLM_F_REQUEST|unix.NLM_F_ACK, unix.NLM_F_DUMP, false, f)
}

func (c *Conn) exchange(q *Request, set, clear uint16, single bool,
	f func(uint16, []byte) error) error {
	defer c.release(c.borrow())
	limit := c.limit()
	if c.unread {
		if err := c.drain(limit); err != nil {
			return fmt.Errorf("netlink %s: drop an unfinished answer: %w", protocolName(c.protocol),
				err)
		}
	}
	c.nextSeq()
	if err := q.finish(set, clear, c.seq); err != nil {
		return err
	}
	if err := c.send(q.buf); err != nil {
		return c.wrap(q, err)
	}
	c.unread = true
	var fault error
	interrupted := false
	for datagrams := 1; ; datagrams++ {
		offer := len(c.buf) // other answers are datagrams of their own size
		if set&unix.NLM_F_DUMP == unix.NLM_F_DUMP {
			offer = c.dumpOffer(datagrams)
		}
		b, err := c.receive(limit, offer)
		// after ErrOverrun the end of the answer may be lost
		if err != nil {
			return c.wrap(q, err)
		}
		for len(b) > 0 {
			h, payload, rest, ok := message(b)
			if !ok {
				return c.wrap(q, errMalformed)
			}
			b = rest
			if h.seq != c.seq || h.port != c.port {
				continue // left over from a request that ran out of time, or an event
			}
			interrupted = interrupted || h.flags&unix.NLM_F_DUMP_INTR != 0
			switch h.typ {
			case unix.NLMSG_NOOP:
				continue
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				c.unread = false
				switch err := c.status(q, h, payload); {
				case err != nil:
					return err
				case fault == nil && interrupted:
					return c.wrap(q, ErrInterrupted)
				}
				return fault
			}
			if f != nil && fault == nil {
				fault = f(h.typ, payload)
			}
			if single && h.flags&unix.NLM_F_MULTI == 0 {
				c.unread = false
				return fault
			}
		}
	}
}

// dumpOffer returns the length that is offered for the n-th datagram of a dump, from 1. A small
// table takes one datagram, and another for the end.
func (c *Conn) dumpOffer(n int) int {
	if n > 2 {
		c.offer *= 2
	}
	c.offer = min(max(c.offer, leastOffer), len(c.buf))
	return c.offer
}

// drain reads and drops the rest of an answer, since the kernel refuses a second dump while one is
// unread (EBUSY). A dump continues in the recvmsg that removes its last datagram from the queue, so
// an empty queue means that none is running.
func (c *Conn) drain(limit time.Time) error {
	for time.Now().Before(limit) {
		switch _, e := c.recvmsg(c.dumpOffer(0)); e {
		case 0, unix.EINTR, unix.ENOBUFS:
		case unix.EAGAIN:
			c.unread = false
			return nil
		default:
			return kernel.Errno(e)
		}
	}
	return errLate
}

func (c *Conn) nextSeq() {
	if c.seq++; c.seq == 0 { // events have 0
		c.seq = 1
	}
}

func (c *Conn) limit() time.Time {
	limit := time.Now().Add(c.timeout)
	if !c.deadline.IsZero() && c.deadline.Before(limit) {
		return c.deadline
	}
	return limit
}

func (c *Conn) send(b []byte) error {
	for {
		// Unconnected and without an address: to the kernel (netlink_sendmsg).
		_, err := unix.Write(c.fd, b)
		if !errors.Is(err, unix.EINTR) {
			return kernel.AsError(err)
		}
	}
}

// receive returns the next datagram from the kernel, valid until the next call, in the first offer
// bytes of the buffer. With a zero limit it returns what is there and never sleeps: poll(2) would
// wait at least a millisecond.
func (c *Conn) receive(limit time.Time, offer int) ([]byte, error) {
	if c.fd < 0 {
		return nil, fs.ErrClosed
	}
	for {
		var left time.Duration
		if !limit.IsZero() {
			if left = time.Until(limit); left <= 0 {
				return nil, errLate
			}
		}
		n, e := c.recvmsg(offer)
		switch e {
		case 0:
			if c.from.Pid != 0 {
				continue // from another process, which may send to this port
			}
			if n > offer {
				if n > maxReceiveBuffer {
					return nil, fmt.Errorf("message of %d bytes: %w", n, measure.ErrUnclear)
				}
				if n > len(c.buf) {
					c.buf = make([]byte, n+n/4)
				}
				c.offer = len(c.buf)
				return nil, ErrOverrun
			}
			return c.buf[:n], nil
		case unix.EAGAIN:
			if limit.IsZero() {
				return nil, errLate
			}
			ms := int(left.Milliseconds()) + 1
			fds := [1]unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
			if _, err := unix.Poll(fds[:], ms); err != nil && !errors.Is(err, unix.EINTR) {
				return nil, kernel.AsError(err)
			}
		case unix.EINTR:
		case unix.ENOBUFS:
			return nil, ErrOverrun
		default:
			return nil, kernel.Errno(e)
		}
	}
}

func (c *Conn) recvmsg(offer int) (int, unix.Errno) {
	c.offer = max(c.offer, offer) // the kernel remembers the most
	c.iov.Base = &c.buf[0]
	c.iov.SetLen(offer)
	c.msg.Iov = &c.iov
	c.msg.SetIovlen(1)
	c.msg.Name = (*byte)(unsafe.Pointer(&c.from))
	c.msg.Namelen = unix.SizeofSockaddrNetlink
	// MSG_TRUNC asks for the whole length of a datagram that is longer than the buffer. The call
	// never waits, so Go's scheduler need not know of it: with Syscall, the runtime wakes a second
	// thread for most calls of a long dump, and a table of connections costs 15 % more.
	n, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(c.fd), uintptr(unsafe.Pointer(&c.msg)),
		unix.MSG_DONTWAIT|unix.MSG_TRUNC)
	return int(n), e
}

// Join subscribes to a multicast group by number (RTNLGRP_LINK, or one of Family.Groups). From then
// on the Conn is for Receive only. The error is the kernel's.
func (c *Conn) Join(group uint32) error {
	if err := unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP,
		int(group)); err != nil {
		return fmt.Errorf("join netlink group %d of %s: %w", group, protocolName(c.protocol),
			kernel.AsError(err))
	}
	return nil
}

// Receive waits for events, at most the given time (0: it does not wait), and calls f with each
// until none is left. No event is no error. errors.Is ErrOverrun: some were lost, and the state
// must be dumped.
func (c *Conn) Receive(wait time.Duration, f func(typ uint16, payload []byte) error) error {
	var limit time.Time
	if wait > 0 {
		limit = time.Now().Add(wait)
		if !c.deadline.IsZero() && c.deadline.Before(limit) {
			limit = c.deadline
		}
	}
	defer c.release(c.borrow())
	var lost error
	for {
		b, err := c.receive(limit, len(c.buf))
		switch {
		case errors.Is(err, errLate), errors.Is(err, os.ErrDeadlineExceeded):
			return lost
		case errors.Is(err, ErrOverrun):
			lost = fmt.Errorf("events of netlink %s: %w", protocolName(c.protocol), ErrOverrun)
			continue
		case err != nil:
			return fmt.Errorf("events of netlink %s: %w", protocolName(c.protocol), err)
		}
		for len(b) > 0 {
			h, payload, rest, ok := message(b)
			if !ok {
				return errMalformed
			}
			b = rest
			if h.typ >= unix.NLMSG_MIN_TYPE {
				if err := f(h.typ, payload); err != nil {
					return err
				}
			}
		}
		limit = time.Time{} // the rest without waiting
	}
}

// Error is the kernel's refusal of a request. errors.Is measure.ErrDenied (EPERM, EACCES),
// measure.ErrUnsupported (EOPNOTSUPP; ENOENT for a family or kind of socket that is missing) or
// fs.ErrNotExist (ENODEV, ESRCH, ENOENT).
type Error struct {
	Doing   string     // "netlink route request 18"
	Errno   unix.Errno // never 0
	Message string     // the kernel's own words (NLMSGERR_ATTR_MSG); mostly ""
	Offset  int        // of the attribute at fault in the request; -1 when the kernel does not say
	absent  bool       // ENOENT that means: not in this kernel
}

// Error returns one line, with the kernel's message where it has one.
func (e *Error) Error() string {
	s := e.Doing + ": " + e.Errno.Error()
	if e.Message != "" {
		s += " (" + e.Message + ")"
	}
	switch {
	case e.refused():
		s += kernel.RefusedNote(", needs CAP_NET_ADMIN", "", unix.CAP_NET_ADMIN)
	case e.absent:
		s += ": the kernel has no diagnosis of these sockets; modprobe tcp_diag udp_diag loads " +
			"it where it was built as a module"
	}
	return s
}

// Is is described at Error.
func (e *Error) Is(target error) bool {
	return e.absent && target == measure.ErrUnsupported || kernel.Errno(e.Errno).Is(target)
}

func (e *Error) refused() bool { return e.Errno == unix.EPERM || e.Errno == unix.EACCES }

// Unwrap returns the unix.Errno and, for a refusal of rights, a measure.Denied. The netlink
// families require CAP_NET_ADMIN (netlink_capable, GENL_ADMIN_PERM).
func (e *Error) Unwrap() []error {
	if e.refused() {
		return []error{e.Errno, kernel.Refused(e.Doing, "", unix.CAP_NET_ADMIN)}
	}
	return []error{e.Errno}
}

// status parses NLMSG_DONE (an int, then attributes) or NLMSG_ERROR (an int, the request's header,
// sometimes the request, then attributes). nil is success.
func (c *Conn) status(q *Request, h header, payload []byte) error {
	if len(payload) < 4 {
		if h.typ == unix.NLMSG_DONE {
			return nil // some kernels end some dumps without a status
		}
		return c.wrap(q, errMalformed)
	}
	code := int32(native.Uint32(payload))
	if code >= 0 {
		return nil
	}
	e := &Error{Doing: c.doing(q), Errno: unix.Errno(-int64(code)), Offset: -1}
	e.absent = e.Errno == unix.ENOENT && c.protocol == unix.NETLINK_SOCK_DIAG &&
		native.Uint16(q.buf[6:])&unix.NLM_F_DUMP != 0
	rest := payload[4:]
	if h.typ == unix.NLMSG_ERROR && len(rest) >= headerSize {
		skip := headerSize
		if h.flags&unix.NLM_F_CAPPED == 0 {
			if n := native.Uint32(rest); n >= headerSize && uint64(n) <= uint64(len(rest)) {
				skip = min(align4(int(n)), len(rest))
			}
		}
		rest = rest[skip:]
	}
	if h.flags&unix.NLM_F_ACK_TLVS != 0 {
		for a := AttrsOf(rest); a.Next(); {
			switch a.Type() {
			case unix.NLMSGERR_ATTR_MSG:
				e.Message = string(a.Text())
			case unix.NLMSGERR_ATTR_OFFS:
				e.Offset = int(a.Uint())
			}
		}
	}
	return e
}

func (c *Conn) doing(q *Request) string {
	return fmt.Sprintf("netlink %s request %d", protocolName(c.protocol), native.Uint16(q.buf[4:]))
}

func (c *Conn) wrap(q *Request, err error) error { return fmt.Errorf("%s: %w", c.doing(q), err) }

func protocolName(p int) string {
	switch p {
	case unix.NETLINK_ROUTE:
		return "route"
	case unix.NETLINK_SOCK_DIAG:
		return "sock_diag"
	case unix.NETLINK_NETFILTER:
		return "netfilter"
	case unix.NETLINK_GENERIC:
		return "generic"
	}
	return fmt.Sprintf("protocol %d", p)
}
