package netlink

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/kernel"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

func dial(t testing.TB, protocol int, o Options) *Conn {
	t.Helper()
	c, err := Dial(protocol, o)
	if errors.Is(err, measure.ErrUnsupported) || errors.Is(err, measure.ErrDenied) {
		t.Skip("needs: kernel feature netlink:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func dumpLinks(q *Request) *Request {
	q.Begin(unix.RTM_GETLINK, 0)
	q.Extend(unix.SizeofIfInfomsg)
	return q
}

func TestDumpLinks(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{Strict: true})
	var q Request
	dumpLinks(&q)
	for range 2 { // the same request again
		names := map[string]bool{}
		err := c.Dump(&q, func(typ uint16, payload []byte) error {
			if typ != unix.RTM_NEWLINK || len(payload) < unix.SizeofIfInfomsg {
				t.Errorf("message %d of %d bytes", typ, len(payload))
				return nil
			}
			a := AttrsOf(payload[unix.SizeofIfInfomsg:])
			for a.Next() {
				switch a.Type() {
				case unix.IFLA_IFNAME:
					names[string(a.Text())] = true
				case unix.IFLA_MTU:
					if a.Uint() == 0 {
						t.Error("no MTU")
					}
				}
			}
			return a.Err()
		})
		if err != nil || !names["lo"] {
			t.Fatalf("%v, %v", names, err)
		}
	}
}

func TestGetOneLink(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{})
	get := func(index int32) (name string, err error) {
		var q Request
		q.Begin(unix.RTM_GETLINK, 0)
		native.PutUint32(q.Extend(unix.SizeofIfInfomsg)[4:], uint32(index))
		err = c.Get(&q, func(_ uint16, payload []byte) error {
			for a := AttrsOf(payload[unix.SizeofIfInfomsg:]); a.Next(); {
				if a.Type() == unix.IFLA_IFNAME {
					name = string(a.Text())
				}
			}
			return nil
		})
		return name, err
	}
	if name, err := get(1); err != nil || name != "lo" {
		t.Errorf("%q, %v", name, err)
	}
	_, err := get(1 << 30)
	var refused *Error
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &refused) ||
		refused.Errno != unix.ENODEV {
		t.Errorf("no such link: %v", err)
	}
	if name, err := get(1); err != nil || name != "lo" {
		t.Errorf("after an error: %q, %v", name, err)
	}
}

func TestCallbackErrorEndsDump(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{})
	var q Request
	calls := 0
	stop := errors.New("stop")
	if err := c.Dump(dumpLinks(&q), func(uint16,
		[]byte) error {
		calls++
		return stop
	}); !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
	if err := c.Dump(&q, func(uint16, []byte) error { calls++; return nil }); err != nil ||
		calls < 2 {
		t.Errorf("dump after a stopped one: %d calls, %v", calls, err)
	}
}

// An answer that was never read must neither be taken for the next one's nor leave the socket busy.
func TestUnfinishedDumpIsDropped(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{})
	var q Request
	dumpLinks(&q)
	c.SetDeadline(time.Unix(1, 0))
	err := c.Dump(&q, func(uint16,
		[]byte) error {
		t.Error("called after the deadline")
		return nil
	})
	if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, measure.ErrUnclear) {
		t.Fatalf("deadline in the past: %v", err)
	}
	c.SetDeadline(time.Time{})
	lo := 0
	err = c.Dump(&q, func(_ uint16, payload []byte) error {
		if native.Uint32(payload[4:]) == 1 {
			lo++
		}
		return nil
	})
	if err != nil || lo != 1 {
		t.Errorf("lo came %d times, %v", lo, err)
	}
}

func TestNothingHangs(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{Timeout: time.Millisecond})
	if err := c.Receive(0, func(uint16, []byte) error { return nil }); err != nil {
		t.Errorf("no event: %v", err)
	}
	var q Request
	// the kernel answers control messages only with an acknowledgement, which Get doesn't ask for
	q.Begin(unix.NLMSG_NOOP, 0)
	if err := c.Get(&q, nil); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a request without an answer: %v", err)
	}
}

func TestTruncatedMessageGrowsBuffer(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{})
	c.buf = make([]byte, 64)
	var q Request
	if err := c.Dump(dumpLinks(&q), nil); !errors.Is(err, ErrOverrun) || len(c.buf) <= 64 {
		t.Fatalf("%v, buffer of %d bytes", err, len(c.buf))
	}
	c.buf = make([]byte, 64)
	restarts, links := 0, 0
	err := c.DumpRetry(&q, 9, func() { restarts++; links = 0 },
		func(uint16, []byte) error { links++; return nil })
	if err != nil || restarts == 0 || links == 0 {
		t.Errorf("%d restarts, %d links, %v", restarts, links, err)
	}
}

func TestKernelSaysWhy(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{Strict: true})
	if !c.Strict() {
		t.Skip("needs: kernel feature NETLINK_GET_STRICT_CHK")
	}
	var q Request
	q.Begin(unix.RTM_GETADDR, 0)
	q.Extend(unix.SizeofIfAddrmsg)[1] = 99 // a prefix length is not allowed in a dump
	err := c.Dump(&q, nil)
	var refused *Error
	if !errors.As(err, &refused) || refused.Errno != unix.EINVAL || refused.Message == "" {
		t.Errorf("%v; want EINVAL with the kernel's words", err)
	}
}

func TestFamily(t *testing.T) {
	c := dial(t, unix.NETLINK_GENERIC, Options{})
	f, err := c.Family("nlctrl")
	if err != nil || f.ID != unix.GENL_ID_CTRL || f.Groups["notify"] == 0 {
		t.Errorf("%+v, %v", f, err)
	}
	if again, err := c.Family("nlctrl"); err != nil || again.ID != f.ID {
		t.Errorf("kept: %+v, %v", again, err)
	}
	if _, err := c.Family("no_such_thing"); !errors.Is(err, measure.ErrUnsupported) {
		t.Errorf("no such family: %v", err)
	}
	if _, err := Dial(31, Options{}); !errors.Is(err, measure.ErrUnsupported) {
		t.Errorf("no such protocol: %v", err)
	}
}

func TestNetlinkError(t *testing.T) {
	e := &Error{Doing: "netlink generic request 20", Errno: unix.EPERM, Message: "no", Offset: -1}
	want := "netlink generic request 20: operation not permitted (no), needs CAP_NET_ADMIN"
	if kernel.Holds(unix.CAP_NET_ADMIN) { // then it must not ask for it
		want = "netlink generic request 20: operation not permitted (no): refused though " +
			"CAP_NET_ADMIN is held"
	}
	if !errors.Is(e, measure.ErrDenied) || !strings.HasPrefix(e.Error(), want) {
		t.Errorf("%v, want a denial %q", e, want)
	}
	if e = (&Error{Errno: unix.EOPNOTSUPP}); !errors.Is(e, measure.ErrUnsupported) {
		t.Error("EOPNOTSUPP")
	}
}

func TestStatus(t *testing.T) {
	var q Request
	dumpLinks(&q)
	c := &Conn{protocol: unix.NETLINK_ROUTE}
	le := func(v ...uint32) (b []byte) {
		for _, x := range v {
			b = native.AppendUint32(b, x)
		}
		return b
	}
	var tlv Request
	tlv.Begin(0, 0)
	tlv.AttrString(unix.NLMSGERR_ATTR_MSG, "bad")
	tlv.AttrUint32(unix.NLMSGERR_ATTR_OFFS, 20)
	words := tlv.buf[headerSize:]
	einval := ^uint32(22) + 1
	request := le(20, 0, 0, 0, 0x41414141) // a header and four bytes
	tests := []struct {
		name    string
		h       header
		payload []byte
		errno   unix.Errno
		message string
		offset  int
	}{
		{"acknowledged", header{typ: unix.NLMSG_ERROR}, le(0), 0, "", 0},
		{"done", header{typ: unix.NLMSG_DONE}, le(0), 0, "", 0},
		{"done, no status", header{typ: unix.NLMSG_DONE}, nil, 0, "", 0},
		{"done, refused, words", header{typ: unix.NLMSG_DONE, flags: unix.NLM_F_ACK_TLVS},
			append(le(einval), words...), unix.EINVAL, "bad", 20},
		{"capped, words", header{typ: unix.NLMSG_ERROR,
			flags: unix.NLM_F_CAPPED | unix.NLM_F_ACK_TLVS},
			append(append(le(einval), request[:16]...), words...), unix.EINVAL, "bad", 20},
		{"not capped, words", header{typ: unix.NLMSG_ERROR, flags: unix.NLM_F_ACK_TLVS},
			append(append(le(einval), request...), words...), unix.EINVAL, "bad", 20},
		{"length lies", header{typ: unix.NLMSG_ERROR, flags: unix.NLM_F_ACK_TLVS},
			le(einval, 0xffffffff, 0, 0, 0), unix.EINVAL, "", -1},
	}
	for _, test := range tests {
		err := c.status(&q, test.h, test.payload)
		var refused *Error
		if errors.As(err, &refused) != (test.errno != 0) || refused != nil &&
			(refused.Errno != test.errno || refused.Message != test.message ||
				refused.Offset != test.offset) {
			t.Errorf("%s: %+v", test.name, err)
		}
	}
	enoent := ^uint32(2) + 1
	native.PutUint16(q.buf[6:], unix.NLM_F_DUMP) // as Dump does
	diag := &Conn{protocol: unix.NETLINK_SOCK_DIAG}
	for _, test := range []struct {
		name    string
		c       *Conn
		modules bool
	}{{"sockets", diag, true}, {"links", c, false}} {
		err := test.c.status(&q, header{typ: unix.NLMSG_DONE}, le(enoent))
		if got := strings.Contains(err.Error(), "modprobe tcp_diag"); got != test.modules ||
			errors.Is(err, measure.ErrUnsupported) != test.modules {
			t.Errorf("%s that are not there: %v", test.name, err)
		}
	}
	if err := c.status(&q, header{typ: unix.NLMSG_ERROR}, nil); !errors.Is(err,
		measure.ErrUnclear) {
		t.Errorf("an error without a number: %v", err)
	}
}

func TestRequestAndAttrs(t *testing.T) {
	var q Request
	if err := q.finish(0, 0, 1); !errors.Is(err, unix.EINVAL) {
		t.Errorf("not begun: %v", err)
	}
	q.Begin(7, 0)
	n := q.Nest(9)
	q.AttrUint8(1, 200)
	q.AttrUint16(2, 60000)
	q.AttrUint32(3, 4e9)
	q.AttrUint64(4, 1<<63)
	q.AttrString(5, "eth0")
	q.Attr(6, []byte{1, 2, 3})
	q.EndNest(n)
	q.Attr(10, nil)
	if err := q.finish(unix.NLM_F_REQUEST, unix.NLM_F_ACK, 5); err != nil {
		t.Fatal(err)
	}
	h, payload, rest, ok := message(q.buf)
	if !ok || len(rest) != 0 || h != (header{7, unix.NLM_F_REQUEST, 5, 0}) {
		t.Fatalf("%+v, %d left", h, len(rest))
	}
	var got []uint64
	a := AttrsOf(payload)
	for a.Next() {
		got = append(got, uint64(a.Type()))
		if a.Type() != 9 {
			continue
		}
		in := a.Nested()
		for in.Next() {
			switch in.Type() {
			case 5:
				if string(in.Text()) != "eth0" || len(in.Value()) != 5 {
					t.Errorf("%q", in.Value())
				}
			case 6:
				if !bytes.Equal(in.Value(), []byte{1, 2, 3}) || in.Uint() != 0 ||
					in.Err() == nil {
					t.Errorf("%q: three bytes taken for a number", in.Value())
				}
			default:
				got = append(got, in.Uint())
			}
		}
	}
	want := []uint64{9, 200, 60000, 4e9, 1 << 63, 10}
	if len(got) != len(want) || a.Err() != nil {
		t.Fatalf("%v, %v", got, a.Err())
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
		}
	}
	q.Attr(1, make([]byte, 1<<16))
	if err := q.finish(0, 0, 1); !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("an attribute too long for its length: %v", err)
	}
	for in, want := range map[string]int64{"\xff": -1, "\xfe\xff\xff\xff": -2,
		"\x01\x00\x00\x00\x00\x00\x00\x00": 1} {
		q.Begin(0, 0)
		q.Attr(1, []byte(in))
		a := AttrsOf(q.buf[headerSize:])
		if a.Next(); a.Int() != want && native.Uint16([]byte{1, 0}) == 1 {
			t.Errorf("%q is %d", in, a.Int())
		}
	}
}

func TestDumpDoesNotAllocate(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{})
	var q Request
	dumpLinks(&q)
	links := 0
	f := func(_ uint16, payload []byte) error {
		for a := AttrsOf(payload[unix.SizeofIfInfomsg:]); a.Next(); {
			if a.Type() == unix.IFLA_IFNAME {
				links++
			}
		}
		return nil
	}
	if n := testing.AllocsPerRun(10, func() {
		if err := c.Dump(&q, f); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || links == 0 {
		t.Errorf("%v allocations, %d links", n, links)
	}
}

// A server has eight sockets per network namespace. Between requests they hold no receive buffer.
func TestConnsAtRestHoldNoBuffers(t *testing.T) {
	var q Request
	dumpLinks(&q)
	for range 3 {
		c := dial(t, unix.NETLINK_ROUTE, Options{})
		if err := c.Dump(&q, nil); err != nil {
			t.Fatal(err)
		}
		if c.buf != nil {
			t.Errorf("a buffer of %d bytes is held after Dump", len(c.buf))
		}
		if err := c.Receive(0, nil); err != nil {
			t.Fatal(err)
		}
		if c.buf != nil {
			t.Errorf("a buffer of %d bytes is held after Receive", len(c.buf))
		}
	}
}

// What a callback asks of another Conn leaves the payload that it was called with as it was.
func TestConnsWithinCallbacks(t *testing.T) {
	outer, inner := dial(t, unix.NETLINK_ROUTE, Options{}), dial(t, unix.NETLINK_ROUTE, Options{})
	var asked, again Request
	calls := 0
	err := outer.Dump(dumpLinks(&asked), func(_ uint16, payload []byte) error {
		calls++
		before := bytes.Clone(payload)
		err := inner.Dump(dumpLinks(&again), func(_ uint16,
			other []byte) error {
			clear(other)
			return nil
		})
		if !bytes.Equal(payload, before) {
			t.Errorf("message %d was overwritten", calls)
		}
		return err
	})
	if err != nil || calls == 0 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func FuzzAttrs(f *testing.F) {
	var q Request
	q.Begin(0, 0)
	n := q.Nest(1)
	q.AttrUint32(2, 3)
	q.AttrString(3, "x")
	q.EndNest(n)
	f.Add(q.buf)
	f.Add(q.buf[headerSize:])
	f.Add([]byte{3, 0, 0, 0})
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		var walk func(a Attrs, left, depth int)
		walk = func(a Attrs, left, depth int) {
			for a.Next() {
				if left -= attrHeader + len(a.Value()); left < 0 {
					t.Fatal("more than there was")
				}
				a.Text()
				a.Uint()
				a.Int()
				if depth < 3 {
					walk(a.Nested(), len(a.Value()), depth+1)
				}
			}
		}
		walk(AttrsOf(b), len(b), 0)
		q := Request{}
		q.Begin(1, 0)
		c := &Conn{}
		for rest := b; ; {
			h, payload, after, ok := message(rest)
			if !ok {
				break
			}
			if len(after) >= len(rest) {
				t.Fatal("stands still")
			}
			rest = after
			c.status(&q, h, payload)
			parseFamily(payload)
		}
	})
}

func BenchmarkDumpLinks(b *testing.B) {
	c := dial(b, unix.NETLINK_ROUTE, Options{})
	var q Request
	dumpLinks(&q)
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Dump(&q, func(uint16, []byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
