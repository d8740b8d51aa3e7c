package family

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	madeLookups = 8 // of each way to call
	lookupPause = 4 * time.Millisecond
)

// A lookupWay is how a program sends queries to a name server and receives answers.
type lookupWay struct {
	connected bool
	two       bool // a second query with each, which nobody answers
	send      func(fd int, query []byte, to *unix.SockaddrInet4) error
	receive   mover
}

// lookupWays returns one for each system call.
func lookupWays() []lookupWay {
	sendto := func(fd int, b []byte, to *unix.SockaddrInet4) error {
		return unix.Sendto(fd, b, 0, to)
	}
	sendmsg := func(fd int, b []byte, to *unix.SockaddrInet4) error {
		return unix.Sendmsg(fd, b, nil, to, 0)
	}
	recvfrom := func(fd int, b []byte) (int, error) {
		unix.Recvfrom(fd, b, unix.MSG_PEEK) //nolint:errcheck // it must not count
		n, _, err := unix.Recvfrom(fd, b, 0)
		return n, err
	}
	recvmsg := func(fd int, b []byte) (int, error) {
		n, _, _, _, err := unix.Recvmsg(fd, b, nil, 0)
		return n, err
	}
	return []lookupWay{
		{true, false, func(fd int, b []byte, _ *unix.SockaddrInet4) error {
			_, err := unix.Write(fd, b)
			return err
		}, unix.Read},
		{true, false, func(fd int, b []byte, _ *unix.SockaddrInet4) error {
			return unix.Sendto(fd, b, 0, nil)
		}, recvfrom},
		{true, false, func(fd int, b []byte, _ *unix.SockaddrInet4) error {
			return unix.Sendmsg(fd, b, nil, nil, 0)
		}, recvmsg},
		{false, false, sendto, recvfrom},
		{false, false, sendmsg, recvmsg},
		{false, false, sendmsg, recvmmsg},
		{true, true, sendTwo, recvmmsg},
	}
}

// A messageOfSeveral is struct mmsghdr of the kernel.
type messageOfSeveral struct {
	head  unix.Msghdr
	bytes uint32
}

// sendTwo sends a query twice with one call, the second time with another number.
func sendTwo(fd int, b []byte, _ *unix.SockaddrInet4) error {
	second := append([]byte(nil), b...)
	second[1] ^= 0x80
	var all [2]messageOfSeveral
	parts := [2]unix.Iovec{{Base: &b[0], Len: uint64(len(b))},
		{Base: &second[0], Len: uint64(len(second))}}
	for i := range all {
		all[i].head.Iov, all[i].head.Iovlen = &parts[i], 1
	}
	n, _, e := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&all[0])), 2, 0,
		0, 0)
	runtime.KeepAlive(second)
	if e != 0 || n != 2 {
		return errors.New("sendmmsg")
	}
	return nil
}

// recvmmsg receives one message.
func recvmmsg(fd int, b []byte) (int, error) {
	var m messageOfSeveral
	var from unix.RawSockaddrInet4
	part := unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	m.head.Iov, m.head.Iovlen = &part, 1
	m.head.Name, m.head.Namelen = (*byte)(unsafe.Pointer(&from)), unix.SizeofSockaddrInet4
	_, _, e := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m)), 1, 0, 0,
		0)
	if e != 0 {
		return 0, e
	}
	return int(m.bytes), nil
}

// makeLookups looks names up at a name server of its own, within a network namespace of its own.
// One answer in four is SERVFAIL. It prints how long the lookups took in all.
func makeLookups() {
	runtime.LockOSThread()
	if err := loopbackAlone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	at := &unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 1}}
	server, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err == nil {
		err = unix.Bind(server, at)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	b := make([]byte, 512)
	answer := func(failure bool) {
		n, from, err := unix.Recvfrom(server, b, 0)
		if err != nil {
			return
		}
		b[2], b[3] = 0x81, 0x80
		if failure {
			b[3] |= 2
		}
		unix.Sendto(server, b[:n], 0, from) //nolint:errcheck // it is made to be counted
	}
	var took time.Duration
	got := make([]byte, 512)
	for _, way := range lookupWays() {
		client, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
		if err == nil && way.connected {
			err = unix.Connect(client, at)
		}
		if err != nil {
			return
		}
		for n := range madeLookups {
			query := make([]byte, 29)
			query[1], query[2], query[5] = byte(n+1), 1, 1
			from := time.Now()
			if err := way.send(client, query, at); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			time.Sleep(lookupPause)
			answer(n%4 == 0)
			way.receive(client, got)
			took += time.Since(from)
			if way.two {
				unix.Read(server, b) //nolint:errcheck // it is not answered
			}
		}
		// Neither counts: an answer to nothing, and what is too short for an answer.
		name, _ := unix.Getsockname(client)
		unix.Sendto(server, []byte{9, 9, 0x81, 0x80, 0, 0, 0, 0, 0, 0, 0, 0}, 0, name)
		unix.Sendto(server, []byte{0, 1, 0x81}, 0, name)
		way.receive(client, got)
		way.receive(client, got)
	}
	fmt.Println(took.Nanoseconds())
}

// Lookups by any of the system calls count, with the code and the time of their answers.
func TestDNSStatistics(t *testing.T) {
	w := startWorker(t, "lookups")
	where := fmt.Sprintf(" where pid = %d", w.pid)
	all := float64(len(lookupWays()) * madeLookups)
	key := func(what, more string) string {
		return fmt.Sprintf("dns.%s server=127.0.0.1%s pid=%d", what, more, w.pid)
	}
	got := watchFamily(t, []string{
		"dns.query.count by server" + where,
		"dns.answer.count by server,code" + where,
		"dns.answer.time by server" + where,
		"dns.answer.latency by server" + where,
	}, func() { w.begin(t) }, func(m *measured) bool {
		d := m.dists[key("answer.latency", "")]
		return float64(d.Count()) >= all &&
			m.sums[key("answer.count", " code=NOERROR")] >= all*3/4
	})
	for name, want := range map[string]float64{
		key("query.count", ""):                all + madeLookups, // two with each sendmmsg
		key("answer.count", " code=NOERROR"):  all * 3 / 4,
		key("answer.count", " code=SERVFAIL"): all / 4,
	} {
		if n := got.sums[name]; n != want {
			t.Errorf("%s is %.0f, want %.0f of %v", name, n, want, got.sums)
		}
	}
	if len(got.sums) != 3+1 {
		t.Errorf("further rows: %v", got.sums)
	}
	var want float64
	w.said(t, &want)
	took, dist := got.sums[key("answer.time", "")], got.dists[key("answer.latency", "")]
	if took > want || took < 0.8*want || took < all*float64(lookupPause) {
		t.Errorf("answers took %.0f ns, want %.0f", took, want)
	}
	if float64(dist.Count()) != all {
		t.Errorf("%v has not %.0f answers", dist, all)
	}
}
