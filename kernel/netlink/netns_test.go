package netlink

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// namespace makes a network namespace that lives as long as the test: a thread of this process sits
// in it, and dies with it. No name is left behind, however the test ends.
func namespace(t testing.TB) Namespace {
	t.Helper()
	made, end := make(chan error), make(chan struct{})
	var ns Namespace
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
			ns.Name = "made by a test"
			ns.path = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
			ns.Inode, err = proc.NamespaceInode(ns.path)
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

func links(t *testing.T, c *Conn) int {
	t.Helper()
	var q Request
	n := 0
	if err := c.Dump(dumpLinks(&q), func(uint16, []byte) error { n++; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInNamespace(t *testing.T) {
	ns := namespace(t)
	if ns.Own() || ns.Inode == OwnNamespace(kernel.Root{}).Inode {
		t.Fatal("not another namespace")
	}
	c, err := ns.Dial(unix.NETLINK_ROUTE, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// The file was opened inside and still shows that namespace.
	f, err := OpenNet(kernel.Root{}, ns, "dev")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside, err := f.Read()
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(inside, []byte("\n")) - 2; lines != links(t, c) {
		t.Errorf("/proc/net/dev has %d lines, netlink %d links", lines, links(t, c))
	}
	if !slices.ContainsFunc(bytes.Split(inside, []byte("\n")),
		func(l []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(l), []byte("lo: ")) }) {
		t.Errorf("no lo in %s", inside)
	}

	var was, is unix.Stat_t
	if err := ns.In(func() error {
		if unix.Gettid() == os.Getpid() {
			t.Error("the first thread was moved")
		}
		return unix.Stat("/proc/thread-self/ns/net", &is)
	}); err != nil || is.Ino != ns.Inode {
		t.Errorf("inside: %d, want %d, %v", is.Ino, ns.Inode, err)
	}
	failure := errors.New("mine")
	if err := ns.In(func() error { return failure }); !errors.Is(err, failure) {
		t.Errorf("the error of f: %v", err)
	}
	if err := ns.In(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("an f that never returned succeeded")
	}
	if err := (Namespace{}).In(func() error {
		return unix.Stat("/proc/thread-self/ns/net",
			&was)
	}); err != nil || was.Ino == ns.Inode {
		t.Errorf("own: %v", err)
	}
	other := ns
	other.Inode++
	if err := other.In(func() error { t.Error("ran"); return nil }); !errors.Is(err,
		fs.ErrNotExist) {
		t.Errorf("another namespace under the same name: %v", err)
	}
}

// Every thread must be back: a thread left inside would make whatever runs on it next measure the
// wrong namespace.
func TestThreadsComeBack(t *testing.T) {
	ns := namespace(t)
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if err := ns.In(func() error {
				_, err := proc.ReadFile("/proc/thread-self/net/dev", nil)
				return err
			}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	proc, err := proc.OpenProcDir(kernel.Root{}, "self/task")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	tids, err := proc.ListPIDs(nil)
	if err != nil {
		t.Fatal(err)
	}
	inside := 0
	var link [64]byte
	for _, tid := range tids {
		if b, err := proc.ReadLink(tid, "ns/net", link[:]); err == nil {
			if inode, ok := nsLink(b); ok && inode == ns.Inode {
				inside++
			}
		}
	}
	if inside != 1 { // the one that keeps this namespace
		t.Errorf("%d threads are inside", inside)
	}
}

func TestNetNamespaces(t *testing.T) {
	ns := namespace(t)
	cmd := exec.Command("sleep", "60")
	if err := ns.In(func() error { return cmd.Start() }); err != nil {
		t.Skip("needs: tool sleep:", err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	list, err := Namespaces(kernel.Root{}, 0)
	if err != nil && !errors.Is(err, measure.ErrDenied) {
		t.Fatal(err)
	}
	if len(list) < 2 || !list[0].Own() || list[0].Name != "" || list[0].Inode == 0 {
		t.Fatalf("%+v", list)
	}
	name := fmt.Sprintf("pid:%d", cmd.Process.Pid)
	if !slices.Contains(list, Namespace{name, ns.Inode,
		fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)}) {
		t.Errorf("%s is not in %+v", name, list)
	}
	seen := map[uint64]bool{}
	for _, n := range list {
		if seen[n.Inode] {
			t.Errorf("%d comes twice", n.Inode)
		}
		seen[n.Inode] = true
	}
	// NamespacesOf returns the same, also when a process has moved.
	of := func(first ...ProcessNet) bool {
		some, err := NamespacesOf(kernel.Root{}, first, 0)
		if err != nil && !errors.Is(err, measure.ErrDenied) {
			t.Fatal(err)
		}
		return slices.ContainsFunc(some, func(n Namespace) bool {
			return n.Name == name &&
				n.Inode == ns.Inode
		})
	}
	self, child := ProcessNet{PID: int32(os.Getpid()), Net: list[0].Inode},
		ProcessNet{PID: int32(cmd.Process.Pid), Net: ns.Inode}
	if !of(self, child) || !of(self, ProcessNet{PID: child.PID, Net: self.Net}) || of(self) {
		t.Errorf("by two processes %v, by two of which one has moved %v, by one that is "+
			"elsewhere %v", of(self, child), of(self, ProcessNet{PID: child.PID, Net: self.Net}),
			of(self))
	}
	found, err := FindNamespace(kernel.Root{}, name)
	if err != nil || found.Inode != ns.Inode || found.Own() {
		t.Errorf("%+v, %v", found, err)
	}
	if one, err := Namespaces(kernel.Root{}, 1); len(one) != 1 ||
		!errors.Is(err, measure.ErrUnclear) {
		t.Errorf("at most one: %v, %v", one, err)
	}
}

func TestFindNetNS(t *testing.T) {
	own := OwnNamespace(kernel.Root{})
	if ns, err := FindNamespace(kernel.Root{}, ""); err != nil || ns != own {
		t.Errorf("%+v, %v", ns, err)
	}
	if ns, err := FindNamespace(kernel.Root{}, fmt.Sprintf("pid:%d", os.Getpid())); err != nil ||
		!ns.Own() || ns.Inode != own.Inode {
		t.Errorf("by our own process: %+v, %v", ns, err)
	}
	for _, name := range []string{"no such", "../../etc", "..", ".", "pid:0"} {
		if ns, err := FindNamespace(kernel.Root{}, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %+v, %v", name, ns, err)
		}
	}
	if _, err := FindNamespace(kernel.Root{}, "pid:1/../2"); err == nil {
		t.Error("a path for a pid")
	}
	captured := kernel.Root{Proc: t.TempDir()}
	write(t, captured.Proc+"/net/snmp", "Ip: 1")
	if ns, err := Namespaces(captured, 0); err != nil || len(ns) != 1 || !ns[0].Own() {
		t.Errorf("a captured tree: %+v, %v", ns, err)
	}
	f, err := OpenNet(captured, Namespace{}, "snmp")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := f.Read(); err != nil || string(b) != "Ip: 1" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestNSLink(t *testing.T) {
	for in, want := range map[string]uint64{"net:[4026531840]": 4026531840, "net:[1]": 1} {
		if v, ok := nsLink([]byte(in)); !ok || v != want {
			t.Errorf("%q: %d", in, v)
		}
	}
	for _, in := range []string{"", "net:[", "net:[]", "mnt:[1]", "net:[1", "net:[x]"} {
		if v, ok := nsLink([]byte(in)); ok {
			t.Errorf("%q: %d", in, v)
		}
	}
}

func BenchmarkIn(b *testing.B) {
	ns := namespace(b)
	for b.Loop() {
		if err := ns.In(func() error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}
