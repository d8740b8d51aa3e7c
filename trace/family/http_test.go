package family

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	madeRequests = 12 // of each way to call
	answerPause  = 4 * time.Millisecond
	answerPort   = 4080
)

// A mover moves bytes through a socket by one of the system calls.
type mover func(fd int, b []byte) (int, error)

// senders and receivers are the ways that programs move bytes, in the same order.
func senders() []mover {
	return []mover{
		unix.Write,
		func(fd int, b []byte) (int, error) { return len(b), unix.Sendto(fd, b, 0, nil) },
		func(fd int, b []byte) (int, error) { return unix.Writev(fd, [][]byte{b[:20], b[20:]}) },
		func(fd int, b []byte) (int, error) { return unix.SendmsgN(fd, b, nil, nil, 0) },
	}
}

func receivers() []mover {
	return []mover{
		unix.Read,
		func(fd int, b []byte) (int, error) {
			unix.Recvfrom(fd, b, unix.MSG_PEEK) //nolint:errcheck // it must not count
			n, _, err := unix.Recvfrom(fd, b, 0)
			return n, err
		},
		func(fd int, b []byte) (int, error) { return unix.Readv(fd, [][]byte{b[:20], b[20:]}) },
		func(fd int, b []byte) (int, error) {
			n, _, _, _, err := unix.Recvmsg(fd, b, nil, 0)
			return n, err
		},
	}
}

// makeRequests sends requests over a connection to itself, within a network namespace of its own.
// It answers each after a pause, one in four with an interim answer first and with an error. It
// prints how long the client and the server took in all.
func makeRequests() {
	runtime.LockOSThread()
	if err := loopbackAlone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	client, server, err := ownConnection(answerPort)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	methods := []string{"GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS"}
	b := make([]byte, 4096)
	var asked, served time.Duration
	for i := range senders() {
		send, receive := senders()[i], receivers()[i]
		for n := range madeRequests {
			from := time.Now()
			send(client, []byte(methods[n%len(methods)]+" / HTTP/1.1\r\nHost: a\r\n\r\n"))
			receive(server, b)
			got := time.Now()
			time.Sleep(answerPause)
			status := "200 OK"
			if n%4 == 0 {
				send(server, []byte("HTTP/1.1 100 Continue\r\n\r\n"))
				receive(client, b)
				status = "503 Service Unavailable"
			}
			send(server, []byte("HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n"))
			served += time.Since(got)
			receive(client, b)
			asked += time.Since(from)
		}
	}
	// Neither of these is an answer or a request: one has no request, one is no HTTP.
	unix.Write(server, []byte("HTTP/1.1 200 OK\r\n\r\n")) //nolint:errcheck // it must not count
	unix.Write(client, []byte("GETS the ball\r\n\r\n"))   //nolint:errcheck // the same
	fmt.Println(asked.Nanoseconds(), served.Nanoseconds())
}

// ownConnection returns both ends of a TCP connection over the loopback.
func ownConnection(port int) (client, server int, err error) {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return 0, 0, err
	}
	at := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if err = unix.Bind(l, at); err == nil {
		err = unix.Listen(l, 1)
	}
	if err == nil {
		client, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	}
	if err == nil {
		err = unix.Connect(client, at)
	}
	if err == nil {
		server, _, err = unix.Accept(l)
	}
	return client, server, err
}

// Requests and answers by any of the system calls count on both sides, with their status and time.
func TestHTTPStatistics(t *testing.T) {
	w := startWorker(t, "requests")
	where := fmt.Sprintf(" where pid = %d", w.pid)
	const all = 4 * madeRequests
	key := func(what, side, more string) string {
		return fmt.Sprintf("http.%s side=%s%s pid=%d", what, side, more, w.pid)
	}
	got := watchFamily(t, []string{
		"http.request.count by side,peer,port" + where,
		"http.answer.count by side,status" + where,
		"http.answer.time by side" + where,
		"http.answer.latency by side" + where,
	}, func() { w.begin(t) }, func(m *measured) bool {
		// The statistics are read one after the other: the last answer may be in some only.
		for _, side := range []string{"client", "server"} {
			d := m.dists[key("answer.latency", side, "")]
			if d.Count() < all || m.sums[key("answer.count", side, " status=200")] < all*3/4 {
				return false
			}
		}
		return true
	})
	for name, want := range map[string]float64{
		key("request.count", "client", " peer=127.0.0.1 port=4080"): all,
		key("request.count", "server", " peer=127.0.0.1 port=4080"): all,
		key("answer.count", "client", " status=200"):                all * 3 / 4,
		key("answer.count", "server", " status=200"):                all * 3 / 4,
		key("answer.count", "client", " status=503"):                all / 4,
		key("answer.count", "server", " status=503"):                all / 4,
	} {
		if n := got.sums[name]; n != want {
			t.Errorf("%s is %.0f, want %.0f of %v", name, n, want, got.sums)
		}
	}
	if len(got.sums) != 6+2 {
		t.Errorf("further rows: %v", got.sums)
	}
	var asked, served float64
	w.said(t, &asked, &served)
	for side, want := range map[string]float64{"client": asked, "server": served} {
		took, dist := got.sums[key("answer.time", side, "")], got.dists[key("answer.latency", side, "")]
		if least := float64(all * answerPause); took > want || took < 0.8*want || took < least {
			t.Errorf("%s: answers took %.0f ns, want %.0f", side, took, want)
		}
		if dist.Count() != all {
			t.Errorf("%s: %v has not %d answers", side, dist, all)
		}
	}
}
