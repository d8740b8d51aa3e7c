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
	send      func(fd int, query []byte, to unix.Sockaddr) error
	receive   mover
}

// lookupWays returns one for each system call.
func lookupWays() []lookupWay {
	sendto := func(fd int, b []byte, to unix.Sockaddr) error {
		return unix.Sendto(fd, b, 0, to)
	}
	sendmsg := func(fd int, b []byte, to unix.Sockaddr) error {
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
		{true, false, func(fd int, b []byte, _ unix.Sockaddr) error {
			_, err := unix.Write(fd, b)
			return err
		}, unix.Read},
		{true, false, func(fd int, b []byte, _ unix.Sockaddr) error {
			return unix.Sendto(fd, b, 0, nil)
		}, recvfrom},
		{true, false, func(fd int, b []byte, _ unix.Sockaddr) error {
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
func sendTwo(fd int, b []byte, _ unix.Sockaddr) error {
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
	var took time.Duration
	for _, at := range nameServers() {
		spent, err := lookUpAt(at)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		took += spent
	}
	fmt.Println(took.Nanoseconds())
}

// nameServers returns the addresses of the name server, one of each version of IP.
func nameServers() []unix.Sockaddr {
	return []unix.Sockaddr{&unix.SockaddrInet4{Port: 53, Addr: [4]byte{127, 0, 0, 1}},
		&unix.SockaddrInet6{Port: 53, Addr: [16]byte{15: 1}}}
}

// lookUpAt looks names up at an address, in all ways, and returns how long the lookups took.
func lookUpAt(at unix.Sockaddr) (took time.Duration, err error) {
	family := unix.AF_INET
	if _, six := at.(*unix.SockaddrInet6); six {
		family = unix.AF_INET6
	}
	server, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err == nil {
		err = unix.Bind(server, at)
	}
	if err != nil {
		return 0, err
	}
	got := make([]byte, 512)
	for _, way := range lookupWays() {
		client, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
		if err == nil && way.connected {
			err = unix.Connect(client, at)
		}
		if err != nil {
			return 0, err
		}
		for n := range madeLookups {
			query := make([]byte, 29)
			query[1], query[2], query[5] = byte(n+1), 1, 1
			from := time.Now()
			if err := way.send(client, query, at); err != nil {
				return 0, err
			}
			time.Sleep(lookupPause)
			answerOne(server, n%4 == 0)
			way.receive(client, got) //nolint:errcheck // it is made to be counted
			took += time.Since(from)
			if way.two {
				unix.Read(server, got) //nolint:errcheck // it is not answered
			}
		}
		// Neither counts: an answer to nothing, and what is too short for an answer.
		name, _ := unix.Getsockname(client)
		for _, b := range [][]byte{{9, 9, 0x81, 0x80, 11: 0}, {0, 1, 0x81}} {
			unix.Sendto(server, b, 0, name) //nolint:errcheck // it must not count
			way.receive(client, got)        //nolint:errcheck // the same
		}
	}
	return took, nil
}

// answerOne receives a query and answers it.
func answerOne(server int, failure bool) {
	b := make([]byte, 512)
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

// Lookups by any of the system calls count, with the code and the time of their answers.
func TestDNSStatistics(t *testing.T) {
	w := startWorker(t, "lookups")
	where := fmt.Sprintf(" where pid = %d", w.pid)
	all := float64(len(lookupWays()) * madeLookups) // of each server
	key := func(what, server, more string) string {
		return fmt.Sprintf("dns.%s server=%s%s pid=%d", what, server, more, w.pid)
	}
	servers := []string{"127.0.0.1", "::1"}
	got := watchFamily(t, []string{
		"dns.query.count by server" + where,
		"dns.answer.count by server,code" + where,
		"dns.answer.time by server" + where,
		"dns.answer.latency by server" + where,
	}, func() { w.begin(t) }, func(m *measured) bool {
		d := m.dists[key("answer.latency", "::1", "")]
		return float64(d.Count()) >= all &&
			m.sums[key("answer.count", "::1", " code=NOERROR")] >= all*3/4
	})
	var want, took float64
	w.said(t, &want)
	for _, server := range servers {
		for name, want := range map[string]float64{
			key("query.count", server, ""):                all + madeLookups, // two by sendmmsg
			key("answer.count", server, " code=NOERROR"):  all * 3 / 4,
			key("answer.count", server, " code=SERVFAIL"): all / 4,
		} {
			if n := got.sums[name]; n != want {
				t.Errorf("%s is %.0f, want %.0f of %v", name, n, want, got.sums)
			}
		}
		took += got.sums[key("answer.time", server, "")]
		if dist := got.dists[key("answer.latency", server, "")]; float64(dist.Count()) != all {
			t.Errorf("%s: %v has not %.0f answers", server, dist, all)
		}
	}
	if len(got.sums) != len(servers)*(3+1) {
		t.Errorf("further rows: %v", got.sums)
	}
	if took > want || took < 0.8*want || took < 2*all*float64(lookupPause) {
		t.Errorf("answers took %.0f ns, want %.0f", took, want)
	}
}
