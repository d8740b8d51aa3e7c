package bpf

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"culprit/kernel"
	"culprit/kernel/netlink"
)

// namespace makes a network namespace that lives as long as the test: a thread of this process sits
// in it, and dies with it. No name is left behind, however the test ends.
func namespace(t testing.TB) netlink.Namespace {
	t.Helper()
	made, end := make(chan error), make(chan struct{})
	var ns netlink.Namespace
	var sit func()
	sit = func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() == os.Getpid() {
			// /proc/self is the first thread's: it must stay at home, and is taken here so that sit
			// runs on another
			go sit()
			<-end
			runtime.UnlockOSThread()
			return
		}
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			ns, err = netlink.FindNamespace(kernel.Root{}, fmt.Sprintf("pid:%d", unix.Gettid()))
		}
		made <- err
		<-end
	}
	go sit()
	err := <-made
	t.Cleanup(func() { close(end) })
	if errors.Is(err, unix.EPERM) {
		t.Skip("needs: cap:CAP_SYS_ADMIN")
	}
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

func loopbackUp(ns netlink.Namespace) error {
	c, err := ns.Dial(unix.NETLINK_ROUTE, netlink.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	var q netlink.Request
	q.Begin(unix.RTM_NEWLINK, 0)
	h := q.Extend(unix.SizeofIfInfomsg)
	native.PutUint32(h[4:], 1)
	native.PutUint32(h[8:], unix.IFF_UP)
	native.PutUint32(h[12:], unix.IFF_UP)
	return c.Do(&q, nil)
}

// connections makes n TCP connections within the namespace and returns both ends of each.
func connections(ns netlink.Namespace, n int) (fds []int, err error) {
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
