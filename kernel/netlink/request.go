package netlink

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Request is a netlink message that is built in a reused buffer. It can be sent again and again:
// Dump, Get and Do set the flags and the sequence number. Begin comes before all else.
//
//	| nlmsghdr 16: len, type, flags, seq, port | the protocol's own header | attributes |
type Request struct {
	buf []byte
	err error
}

const (
	headerSize = unix.NLMSG_HDRLEN // struct nlmsghdr, include/uapi/linux/netlink.h
	attrHeader = unix.SizeofNlAttr // struct nlattr: u16 length with header, u16 type

	attrTypeMask = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER) // NLA_TYPE_MASK
)

// Begin empties the request and starts a message of type typ (RTM_GETLINK, SOCK_DIAG_BY_FAMILY
// ...). flags are added to those of Dump, Get and Do; they are nearly always 0.
func (q *Request) Begin(typ, flags uint16) {
	q.buf = append(q.buf[:0], make([]byte, headerSize)...)
	q.err = nil
	native.PutUint16(q.buf[4:], typ)
	native.PutUint16(q.buf[6:], flags)
}

// BeginGeneric starts a message to a generic netlink family (see Conn.Family) with its struct
// genlmsghdr.
func (q *Request) BeginGeneric(family Family, command uint8, flags uint16) {
	q.Begin(family.ID, flags)
	h := q.Extend(4)
	h[0], h[1] = command, family.Version
}

// Extend appends n zero bytes, padded to 4, for the protocol's own header, and returns them for the
// caller to fill in. They are valid until the next call.
func (q *Request) Extend(n int) []byte {
	at := len(q.buf)
	q.buf = append(q.buf, make([]byte, align4(n))...)
	return q.buf[at : at+n : at+n]
}

// Attr appends an attribute.
func (q *Request) Attr(typ uint16, value []byte) { copy(q.attr(typ, len(value)), value) }

// AttrUint8 appends an attribute of one byte.
func (q *Request) AttrUint8(typ uint16, v uint8) { q.attr(typ, 1)[0] = v }

// AttrUint16 appends an attribute of two bytes in the machine's order.
func (q *Request) AttrUint16(typ uint16, v uint16) { native.PutUint16(q.attr(typ, 2), v) }

// AttrUint32 appends an attribute of four bytes in the machine's order.
func (q *Request) AttrUint32(typ uint16, v uint32) { native.PutUint32(q.attr(typ, 4), v) }

// AttrUint64 appends an attribute of eight bytes in the machine's order.
func (q *Request) AttrUint64(typ uint16, v uint64) { native.PutUint64(q.attr(typ, 8), v) }

// AttrString appends an attribute that is a string with the NUL that the kernel expects.
func (q *Request) AttrString(typ uint16, s string) { copy(q.attr(typ, len(s)+1), s) }

// Nest begins an attribute that contains attributes (typ gets NLA_F_NESTED). The caller passes the
// result to EndNest.
func (q *Request) Nest(typ uint16) int {
	at := len(q.buf)
	q.attr(typ|unix.NLA_F_NESTED, 0)
	return at
}

// EndNest ends the attribute begun by Nest.
func (q *Request) EndNest(at int) { q.setLen(at, len(q.buf)-at) }

// attr appends a header and n zero bytes with padding, and returns the n bytes.
func (q *Request) attr(typ uint16, n int) []byte {
	at := len(q.buf)
	b := q.Extend(attrHeader + n)
	native.PutUint16(b[2:], typ)
	q.setLen(at, attrHeader+n)
	return b[attrHeader:]
}

func (q *Request) setLen(at, n int) {
	if n > 1<<16-1 {
		q.err = fmt.Errorf("netlink attribute of %d bytes: %w", n, unix.EMSGSIZE)
		return
	}
	native.PutUint16(q.buf[at:], uint16(n))
}

// finish sets length, flags and sequence number.
func (q *Request) finish(set, clear uint16, seq uint32) error {
	switch {
	case q.err != nil:
		return q.err
	case len(q.buf) < headerSize:
		return fmt.Errorf("netlink request not begun: %w", unix.EINVAL)
	}
	native.PutUint32(q.buf, uint32(len(q.buf)))
	native.PutUint16(q.buf[6:], native.Uint16(q.buf[6:])&^clear|set)
	native.PutUint32(q.buf[8:], seq)
	native.PutUint32(q.buf[12:], 0)
	return nil
}

// Message returns the request with flags in addition to those of Begin, for sockets of others than
// Conn. It is valid until the next Begin. The error is that of an attribute that is too long.
func (q *Request) Message(flags uint16) ([]byte, error) {
	if err := q.finish(flags, 0, 0); err != nil {
		return nil, err
	}
	return q.buf, nil
}

func align4(n int) int { return (n + 3) &^ 3 }

// Attrs walks netlink attributes without allocating, and never beyond the bytes passed to it:
//
//	for a := netlink.AttrsOf(payload[16:]); a.Next(); {
//		switch a.Type() {
//		case unix.IFLA_IFNAME:
//			name = a.Text()
//		}
//	}
//
// A malformed length ends the walk. Err reports it, and a number of the wrong size; a parser that
// must not take half an answer for a whole one calls Err at the end.
type Attrs struct {
	rest, value []byte
	typ         uint16
	bad         bool
}

// AttrsOf returns a walk over b, which starts with an attribute's header. nil has no attributes.
func AttrsOf(b []byte) Attrs { return Attrs{rest: b} }

// Next goes to the next attribute; false at the end.
func (a *Attrs) Next() bool {
	if len(a.rest) < attrHeader {
		a.bad = a.bad || len(a.rest) > 0
		a.rest, a.value = nil, nil
		return false
	}
	n := int(native.Uint16(a.rest))
	if n < attrHeader || n > len(a.rest) {
		a.rest, a.value, a.bad = nil, nil, true
		return false
	}
	a.typ = native.Uint16(a.rest[2:]) & attrTypeMask
	a.value = a.rest[attrHeader:n:n]
	a.rest = a.rest[min(align4(n), len(a.rest)):]
	return true
}

// Err returns measure.ErrUnclear if anything was malformed so far.
func (a *Attrs) Err() error {
	if a.bad {
		return errMalformed
	}
	return nil
}

// Type returns the attribute's type without the flags for nesting and byte order.
func (a *Attrs) Type() uint16 { return a.typ }

// Value returns the attribute's bytes, a part of what AttrsOf got.
func (a *Attrs) Value() []byte { return a.value }

// Text returns the bytes before the first NUL.
func (a *Attrs) Text() []byte {
	for i, c := range a.value {
		if c == 0 {
			return a.value[:i]
		}
	}
	return a.value
}

// Nested returns a walk over the attributes inside this one.
func (a *Attrs) Nested() Attrs { return Attrs{rest: a.value} }

// Uint returns a number of 1, 2, 4 or 8 bytes in the machine's order. For any other size it returns
// 0 and sets Err.
func (a *Attrs) Uint() uint64 {
	switch len(a.value) {
	case 1:
		return uint64(a.value[0])
	case 2:
		return uint64(native.Uint16(a.value))
	case 4:
		return uint64(native.Uint32(a.value))
	case 8:
		return native.Uint64(a.value)
	}
	a.bad = true
	return 0
}

// Int is Uint with the sign of the attribute's own width.
func (a *Attrs) Int() int64 {
	switch v := a.Uint(); len(a.value) {
	case 1:
		return int64(int8(v))
	case 2:
		return int64(int16(v))
	case 4:
		return int64(int32(v))
	default:
		return int64(v)
	}
}

// Generic splits the payload of a generic netlink answer into command and attributes. ok is false
// when it is too short.
func Generic(payload []byte) (command uint8, attrs []byte, ok bool) {
	if len(payload) < 4 {
		return 0, nil, false
	}
	return payload[0], payload[4:], true
}

// message splits the first netlink message from b. ok is false at the end or when its length is
// malformed.
func message(b []byte) (h header, payload, rest []byte, ok bool) {
	if len(b) < headerSize {
		return header{}, nil, nil, false
	}
	n := uint64(native.Uint32(b))
	if n < headerSize || n > uint64(len(b)) {
		return header{}, nil, nil, false
	}
	h = header{native.Uint16(b[4:]), native.Uint16(b[6:]), native.Uint32(b[8:]),
		native.Uint32(b[12:])}
	return h, b[headerSize:n:n], b[min((n+3)&^3, uint64(len(b))):], true
}

type header struct {
	typ, flags uint16
	seq, port  uint32
}
