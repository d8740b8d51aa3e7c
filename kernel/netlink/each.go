package netlink

import (
	"errors"
	"fmt"
	"os"
	"time"

	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// window is how many requests GetEach sends in one call. The kernel answers all of them before
// send(2) returns, one datagram each, and all must fit into the receive queue. It has 212,992 bytes
// by default, and a datagram of 4 KiB takes about 5 KiB of it.
const window = 32

// GetEach does n requests like Get at half the price, since many are sent in one system call. It is
// for what has no dump: taskstats of 500 processes take 2.8 us each instead of 5.1 us.
//
// build makes request i of 0..n-1 in q, from Begin on. answer is called once for each i, in any
// order: with the message, or with the kernel's refusal, a bare kernel.Errno (errors.Is
// fs.ErrNotExist: the process has ended). An error of answer ends GetEach and is returned. Timeout
// and deadline apply to each window of requests.
func (c *Conn) GetEach(n int, build func(i int, q *Request),
	answer func(i int, typ uint16, payload []byte, err error) error) error {
	for at := 0; at < n; at += window {
		if err := c.getSome(at, min(window, n-at), build, answer); err != nil {
			return err
		}
	}
	return nil
}

// getSome does the requests at..at+size-1.
func (c *Conn) getSome(at, size int, build func(int, *Request),
	answer func(int, uint16, []byte, error) error) error {
	defer c.release(c.borrow())
	if c.unread {
		if err := c.drain(c.limit()); err != nil {
			return fmt.Errorf("netlink %s: drop an unfinished answer: %w", protocolName(c.protocol),
				err)
		}
	}
	if c.seq > 1<<32-1-window {
		c.seq = 0
	}
	q := &c.one
	first := c.seq + 1
	c.bunch = c.bunch[:0]
	for i := range size {
		build(at+i, q)
		c.nextSeq()
		if err := q.finish(unix.NLM_F_REQUEST, unix.NLM_F_ACK|unix.NLM_F_DUMP, c.seq); err != nil {
			return err
		}
		c.bunch = append(c.bunch, q.buf...)
	}
	if err := c.send(c.bunch); err != nil {
		return c.wrap(q, err)
	}
	c.unread = true
	var answered [window]bool
	for left := size; left > 0; {
		b, err := c.receive(time.Time{}, len(c.buf))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break // what has not come by now was lost
		}
		if errors.Is(err, ErrOverrun) {
			continue
		}
		if err != nil {
			return c.wrap(q, err)
		}
		for len(b) > 0 {
			h, payload, rest, ok := message(b)
			if !ok {
				return c.wrap(q, errMalformed)
			}
			b = rest
			i := h.seq - first
			if i >= uint32(size) || h.port != c.port || answered[i] || h.typ == unix.NLMSG_NOOP {
				continue
			}
			answered[i] = true
			left--
			var refusal error
			if h.typ == unix.NLMSG_ERROR {
				if len(payload) < 4 {
					return c.wrap(q, errMalformed)
				}
				if code := int32(native.Uint32(payload)); code < 0 {
					refusal = kernel.Errno(-int64(code))
				}
				h.typ, payload = 0, nil
			}
			if err := answer(at+int(i), h.typ, payload, refusal); err != nil {
				return err
			}
		}
	}
	c.unread = false
	for i, ok := range answered[:size] {
		if ok {
			continue
		}
		build(at+i, q)
		err := c.Get(q, func(typ uint16, payload []byte) error {
			return answer(at+i, typ, payload,
				nil)
		})
		var refused *Error
		if errors.As(err, &refused) {
			err = answer(at+i, 0, nil, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
