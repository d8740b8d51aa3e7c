package netlink

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

func TestGetEach(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{})
	c.seq = 1<<32 - 5 // across the turn of sequence numbers
	for _, n := range []int{0, 1, window - 1, window, window + 1, 5*window + 3} {
		calls := make([]int, n)
		err := c.GetEach(n, func(i int, q *Request) {
			q.Begin(unix.RTM_GETLINK, 0)
			index := uint32(1)
			if i%3 == 2 {
				index = 1<<30 + uint32(i)
			}
			native.PutUint32(q.Extend(unix.SizeofIfInfomsg)[4:], index)
		}, func(i int, typ uint16, payload []byte, err error) error {
			calls[i]++
			if i%3 == 2 {
				if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, unix.ENODEV) ||
					payload != nil {
					t.Errorf("%d of %d: no such link: %v", i, n, err)
				}
			} else if err != nil || typ != unix.RTM_NEWLINK || native.Uint32(payload[4:]) != 1 {
				t.Errorf("%d of %d: message %d, %v", i, n, typ, err)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%d: %v", n, err)
		}
		for i, k := range calls {
			if k != 1 {
				t.Errorf("%d of %d: answered %d times", i, n, k)
			}
		}
	}
	stop := errors.New("stop")
	ask := func(_ int, q *Request) {
		q.Begin(unix.RTM_GETLINK, 0)
		native.PutUint32(q.Extend(unix.SizeofIfInfomsg)[4:], 1)
	}
	if err := c.GetEach(100, ask, func(int, uint16, []byte,
		error) error {
		return stop
	}); !errors.Is(err, stop) {
		t.Errorf("error of answer: %v", err)
	}
	links := 0
	var q Request
	if err := c.Dump(dumpLinks(&q), func(_ uint16,
		payload []byte) error {
		links++
		return nil
	}); err != nil || links == 0 {
		t.Errorf("a dump after it: %d, %v", links, err)
	}
	if n := testing.AllocsPerRun(10, func() {
		if err := c.GetEach(window, ask, func(int, uint16, []byte,
			error) error {
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Answers beyond the socket's queue are lost by the kernel (ENOBUFS) and must be asked for again.
func TestGetEachOverrun(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, Options{})
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 4096); err != nil {
		t.Fatal(err)
	}
	answers := 0
	err := c.GetEach(window, func(_ int, q *Request) {
		q.Begin(unix.RTM_GETLINK, 0)
		native.PutUint32(q.Extend(unix.SizeofIfInfomsg)[4:], 1)
	}, func(i int, _ uint16, payload []byte, err error) error {
		if answers++; err != nil || native.Uint32(payload[4:]) != 1 {
			t.Errorf("%d: %v", i, err)
		}
		return nil
	})
	if err != nil || answers != window {
		t.Errorf("%d answers, %v", answers, err)
	}
}

func TestGetEachFromASlowKernel(t *testing.T) {
	// Nothing is there when the send returns: each is asked for again, alone. One is refused, one
	// is answered late.
	status := func(code int32) []byte {
		return append(native.AppendUint32(nil, uint32(code)),
			make([]byte, 16)...)
	}
	c := fakeKernel(t, [][][]reply{
		{},
		{{{typ: 20, port: 77, payload: []byte("abcd")}}},
		{{{typ: unix.NLMSG_ERROR, port: 77, payload: status(-int32(unix.ESRCH))}}},
	})
	var said []string
	err := c.GetEach(2, func(_ int, q *Request) { q.Begin(18, 0) },
		func(_ int, _ uint16, payload []byte, err error) error {
			if err != nil {
				payload = []byte(err.Error())
			}
			said = append(said, string(payload))
			return nil
		})
	if err != nil || strings.Join(said, ", ") != "abcd, netlink route request 18: no such process" {
		t.Errorf("%q, %v", said, err)
	}
}

func BenchmarkTaskstats(b *testing.B) {
	c := dial(b, unix.NETLINK_GENERIC, Options{})
	family, err := c.Family("TASKSTATS")
	if err != nil {
		b.Skip("needs: kernel feature taskstats:", err)
	}
	build := func(_ int, q *Request) {
		q.BeginGeneric(family, unix.TASKSTATS_CMD_GET, 0)
		q.AttrUint32(unix.TASKSTATS_CMD_ATTR_PID, uint32(os.Getpid()))
	}
	var q Request
	if build(0, &q); errors.Is(c.Get(&q, nil), measure.ErrDenied) {
		b.Skip("needs: cap:CAP_NET_ADMIN")
	}
	b.Run("Get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			build(0, &q)
			if err := c.Get(&q, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("GetEach", func(b *testing.B) {
		b.ReportAllocs()
		const n = 500
		for b.Loop() {
			if err := c.GetEach(n, build, func(_ int, _ uint16, _ []byte,
				err error) error {
				return err
			}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/request")
	})
}
