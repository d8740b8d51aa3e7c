package kernel

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestQuiet(t *testing.T) {
	var q Quiet
	if q.Now() {
		t.Error("what watches nothing is quiet")
	}
	one, two := dial(t, unix.NETLINK_ROUTE, NetlinkOptions{}), dial(t, unix.NETLINK_GENERIC, NetlinkOptions{})
	q.Watch(one, nil, two)
	defer q.Close()
	if !q.Now() {
		t.Fatal("nothing was asked, and there is something to receive")
	}
	var r Request
	dumpLinks(&r)
	if err := r.finish(unix.NLM_F_REQUEST|unix.NLM_F_DUMP, 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := one.send(r.buf); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 2; n++ { // being told takes nothing away
		if q.Now() {
			t.Fatal("an answer is there, and it is quiet")
		}
	}
	one.unread = true
	defer one.giveBack(one.borrow())
	if err := one.drain(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if !q.Now() {
		t.Error("all was received, and it is not quiet")
	}
	q.Close()
	q.Close()
	if q.Now() {
		t.Error("what is closed is quiet")
	}
}

// TestOffer: a dump of several datagrams makes the next ones longer, and loses nothing for it.
func TestOffer(t *testing.T) {
	c := dial(t, unix.NETLINK_ROUTE, NetlinkOptions{})
	defer c.giveBack(c.borrow())
	c.offer = 0
	var want []int
	for n, at := range []int{1, 2, 3, 4, 9, 99} {
		got := c.dumpOffer(at)
		if n < 2 && got != leastOffer || n >= 2 && (got < want[n-1] || got > len(c.buf)) || n == 5 && got != len(c.buf) {
			t.Errorf("datagram %d: %d are offered, after %v", at, got, want)
		}
		want = append(want, got)
	}
	if got := c.dumpOffer(1); got != len(c.buf) {
		t.Errorf("%d are offered where more was before, and the kernel goes by the most", got)
	}
}
