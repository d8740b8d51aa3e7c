package netlink

import (
	"errors"
	"testing"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// reply is a message of a fake kernel; seq 0 means the request's own.
type reply struct {
	typ, flags uint16
	seq, port  uint32
	payload    []byte
}

// fakeKernel returns a Conn whose other end answers each request with the next list of datagrams,
// each of some messages.
func fakeKernel(t *testing.T, answers [][][]reply) *Conn {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer unix.Close(fds[1])
		request := make([]byte, 4096)
		for _, datagrams := range answers {
			n, err := unix.Read(fds[1], request)
			if err != nil || n < headerSize {
				return
			}
			for _, messages := range datagrams {
				var out []byte
				for _, r := range messages {
					if r.seq == 0 {
						r.seq = native.Uint32(request[8:])
					}
					out = native.AppendUint32(out, uint32(headerSize+len(r.payload)))
					out = native.AppendUint16(out, r.typ)
					out = native.AppendUint16(out, r.flags)
					out = native.AppendUint32(out, r.seq)
					out = native.AppendUint32(out, r.port)
					out = append(out, r.payload...)
					out = append(out, make([]byte, align4(len(r.payload))-len(r.payload))...)
				}
				if _, err := unix.Write(fds[1], out); err != nil {
					return
				}
			}
		}
		unix.Read(fds[1], request) // until the test closes its end
	}()
	c := &Conn{fd: fds[0], buf: make([]byte, 4096), timeout: 5 * time.Second, port: 77}
	t.Cleanup(func() { c.Close(); <-done })
	return c
}

func TestExchange(t *testing.T) {
	link := func(s string) reply {
		return reply{typ: 16, flags: unix.NLM_F_MULTI, port: 77,
			payload: []byte(s)}
	}
	status := func(code int32) []byte { return native.AppendUint32(nil, uint32(code)) }
	end := reply{typ: unix.NLMSG_DONE, flags: unix.NLM_F_MULTI, port: 77, payload: status(0)}
	changed := link("b")
	changed.flags |= unix.NLM_F_DUMP_INTR
	old, foreign := link("old"), link("foreign")
	old.seq, foreign.port = 99999, 1
	refused := reply{typ: unix.NLMSG_ERROR, port: 77,
		payload: append(status(-int32(unix.EPERM)), make([]byte, 16)...)}
	broken := link("x")
	broken.flags = 0

	tests := []struct {
		name    string
		answers [][][]reply
		want    string
		err     error
	}{
		{"one datagram", [][][]reply{{{link("a"), link("b"), end}}}, "ab", nil},
		{"many", [][][]reply{{{link("a")}, {link("b"), link("c")}, {end}}}, "abc", nil},
		{"padding", [][][]reply{{{link("abcde"), link("f"), end}}}, "abcdef", nil},
		{"old and foreign answers, no-op", [][][]reply{{{old, link("a"), foreign,
			{typ: unix.NLMSG_NOOP, port: 77}}, {old}, {end}}}, "a", nil},
		{"changed meanwhile", [][][]reply{{{link("a"), changed}, {link("c"), end}}}, "abc",
			ErrInterrupted},
		{"refused", [][][]reply{{{refused}}}, "", measure.ErrDenied},
		{"refused half way", [][][]reply{{{link("a"), refused}}}, "a", measure.ErrDenied},
		{"acknowledged though a dump", [][][]reply{{{{typ: unix.NLMSG_ERROR, port: 77,
			payload: make([]byte, 20)}}}}, "", nil},
	}
	for _, test := range tests {
		c := fakeKernel(t, test.answers)
		var q Request
		q.Begin(18, 0)
		got := ""
		err := c.Dump(&q, func(_ uint16,
			payload []byte) error {
			got += string(payload)
			return nil
		})
		if got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %q, %v; want %q, %v", test.name, got, err, test.want, test.err)
		}
		if c.unread {
			t.Errorf("%s: left unread", test.name)
		}
	}

	c := fakeKernel(t, [][][]reply{{{link("a"), changed, end}}, {{changed, end}},
		{{link("a"), link("c"), end}}})
	var q Request
	q.Begin(18, 0)
	got := ""
	if err := c.DumpRetry(&q, 3, func() { got = "" },
		func(_ uint16, p []byte) error { got += string(p); return nil }); err != nil ||
		got != "ac" {
		t.Errorf("third try: %q, %v", got, err)
	}
	c = fakeKernel(t, [][][]reply{{{changed, end}}, {{changed, end}}, {{end}}})
	if err := c.DumpRetry(&q, 2, func() {}, nil); !errors.Is(err, ErrInterrupted) {
		t.Errorf("no third try: %v", err)
	}

	c = fakeKernel(t, [][][]reply{{{{typ: 16, port: 77, payload: []byte("one")}}},
		{{link("a"), end}}})
	got = ""
	for range 2 {
		if err := c.Get(&q, func(_ uint16,
			p []byte) error {
			got += string(p)
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if got != "onea" {
		t.Errorf("Get: %q", got)
	}
}

func TestMalformedAnswer(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	c := &Conn{fd: fds[0], buf: make([]byte, 4096), timeout: 5 * time.Second}
	defer c.Close()
	if _, err := unix.Write(fds[1], []byte{200, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,
		0}); err != nil {
		t.Fatal(err)
	}
	var q Request
	q.Begin(18, 0)
	if err := c.Dump(&q, nil); !errors.Is(err, measure.ErrUnclear) {
		t.Errorf("a length that lies: %v", err)
	}
}
