package netlink

import (
	"fmt"
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkInetDiag dumps loopback TCP connections with tcp_info in a namespace of their own: the
// part of a look at all connections that no parser can make cheaper. A connection is there twice,
// once for each end.
func BenchmarkInetDiag(b *testing.B) {
	for _, sockets := range []int{10, 1000, 19000} {
		b.Run(fmt.Sprint(sockets), func(b *testing.B) {
			var limit unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil ||
				limit.Cur < uint64(sockets)+100 {
				b.Skipf("needs: kernel feature RLIMIT_NOFILE of %d", sockets+100)
			}
			ns := namespace(b)
			if err := loopbackUp(ns); err != nil {
				b.Fatal(err)
			}
			fds, err := connections(ns, sockets/2)
			defer func() {
				for _, fd := range fds {
					unix.Close(fd)
				}
			}()
			if err != nil {
				b.Fatal(err)
			}
			c, err := ns.Dial(unix.NETLINK_SOCK_DIAG, Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			var q Request
			q.Begin(unix.SOCK_DIAG_BY_FAMILY, 0)
			h := q.Extend(56) // struct inet_diag_req_v2
			h[0], h[1] = unix.AF_INET, unix.IPPROTO_TCP
			h[2] = 1 << (2 - 1)           // INET_DIAG_INFO
			native.PutUint32(h[4:], 1<<1) // TCP_ESTABLISHED
			runtime.GC()
			n, bytes, infos := 0, 0, 0
			f := func(_ uint16, payload []byte) error {
				n++
				bytes += headerSize + len(payload)
				for a := AttrsOf(payload[72:]); a.Next(); { // struct inet_diag_msg
					if a.Type() == 2 && len(a.Value()) > 100 {
						infos++
					}
				}
				return nil
			}
			b.ReportAllocs()
			for b.Loop() {
				n, bytes, infos = 0, 0, 0
				if err := c.Dump(&q, f); err != nil {
					b.Fatal(err)
				}
			}
			if n != sockets || infos != n {
				b.Fatalf("%d connections, %d with tcp_info, want %d", n, infos, sockets)
			}
			b.ReportMetric(float64(bytes)/float64(n), "bytes/socket")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/socket")
		})
	}
}

func loopbackUp(ns Namespace) error {
	c, err := ns.Dial(unix.NETLINK_ROUTE, Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	var q Request
	q.Begin(unix.RTM_NEWLINK, 0)
	h := q.Extend(unix.SizeofIfInfomsg)
	native.PutUint32(h[4:], 1)
	native.PutUint32(h[8:], unix.IFF_UP)
	native.PutUint32(h[12:], unix.IFF_UP)
	return c.Do(&q, nil)
}

// connections makes n TCP connections within the namespace and returns both ends of each.
func connections(ns Namespace, n int) (fds []int, err error) {
	err = ns.In(func() error {
		l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(l)
		if err := unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte(net.IPv4(127, 0, 0,
			1).To4())}); err != nil {
			return err
		}
		if err := unix.Listen(l, 128); err != nil {
			return err
		}
		at, err := unix.Getsockname(l)
		if err != nil {
			return err
		}
		for range n {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			fds = append(fds, fd)
			if err := unix.Connect(fd, at); err != nil {
				return err
			}
			other, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC)
			if err != nil {
				return err
			}
			fds = append(fds, other)
		}
		return nil
	})
	return fds, err
}
