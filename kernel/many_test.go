package kernel

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// Link 1 is lo in every namespace; the others that are asked for don't exist. Each gets its own answer, whatever their number.
func TestGetMany(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, NetlinkOptions{})
	var q Request
	ask := func(i int, q *Request) {
		q.Begin(unix.RTM_GETLINK, 0)
		h := q.Extend(unix.SizeofIfInfomsg)
		index := int32(1)
		if i%3 != 0 {
			index = 1<<30 + int32(i)
		}
		native.PutUint32(h[4:], uint32(index))
	}
	for _, n := range []int{0, 1, 2, manyAtOnce, manyAtOnce + 1, 200} {
		for _, seq := range []uint32{c.seq, ^uint32(0) - 3, 0} { // also where the sequence numbers begin again
			c.seq = seq
			answers := make([]int, n)
			err := c.GetMany(&q, n, ask, func(i int, payload []byte, err error) {
				answers[i]++
				if found := err == nil && len(payload) > unix.SizeofIfInfomsg; found != (i%3 == 0) || !found && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("request %d of %d: %d bytes, %v", i, n, len(payload), err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, k := range answers {
				if k != 1 {
					t.Errorf("request %d of %d was answered %d times", i, n, k)
				}
			}
		}
	}
}

func TestGetManyAfterAnUnfinishedAnswer(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, NetlinkOptions{})
	var q Request
	if err := c.send(append([]byte(nil), request(t, dumpLinks(&q))...)); err != nil {
		t.Fatal(err)
	}
	c.unread = true
	answers := 0
	err := c.GetMany(&q, 2, func(_ int, q *Request) {
		q.Begin(unix.RTM_GETLINK, 0)
		native.PutUint32(q.Extend(unix.SizeofIfInfomsg)[4:], 1)
	}, func(_ int, _ []byte, err error) {
		if err == nil {
			answers++
		}
	})
	if err != nil || answers != 2 {
		t.Errorf("%d answers, %v", answers, err)
	}
}

// request gives the bytes of a dump request with a sequence number that nobody waits for.
func request(t *testing.T, q *Request) []byte {
	t.Helper()
	if err := q.finish(unix.NLM_F_REQUEST|unix.NLM_F_DUMP, 0, 77); err != nil {
		t.Fatal(err)
	}
	return q.buf
}

func TestReadPIDHead(t *testing.T) {
	d, err := Root{}.OpenProcDir("")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	buf := make([]byte, 3)
	if b, err := d.ReadPIDHead(int32(os.Getpid()), "cmdline", buf); err != nil || string(b) != os.Args[0][:3] {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := d.ReadPIDHead(1<<30, "cmdline", buf); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := d.ReadPIDHead(int32(os.Getpid()), "attr", buf); err == nil || errors.Is(err, measure.ErrDenied) {
		t.Errorf("a directory: %v", err)
	}
}
