package netlink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"

	"golang.org/x/sys/unix"
)

// netnsFolder is where ip-netns(8) keeps named namespaces: bind mounts of nsfs files.
const netnsFolder = "/run/netns"

// Namespace is a network namespace. The zero Namespace is the one of this process.
type Namespace struct {
	// "": the tool's own; "NAME" of /run/netns/NAME; else "pid:NNN", the lowest process seen in it
	Name string
	// of its nsfs file, the identity that `ip netns identify` and lsns(8) show; 0: not known
	Inode uint64
	path  string // a file to enter it by; "": the tool's own
}

// Own reports whether this is the namespace of this process, which need not be entered.
func (ns Namespace) Own() bool { return ns.path == "" }

// OwnNamespace returns the network namespace of this process. Inode is 0 where the kernel shows
// none (CONFIG_NET_NS off, captured files).
func OwnNamespace(r kernel.Root) Namespace {
	var st unix.Stat_t
	if r.Captured() || unix.Stat("/proc/self/ns/net", &st) != nil {
		return Namespace{}
	}
	return Namespace{Inode: st.Ino}
}

// InHostNamespace reports whether this process is in the network namespace of process 1, or of
// kthreadd (process 2) where kernel threads are visible. That is the host's namespace, or a
// container's. It is false where neither can be read.
func InHostNamespace(r kernel.Root) bool {
	own := OwnNamespace(r)
	if own.Inode == 0 {
		return false
	}
	for _, path := range []string{"/proc/1/ns/net", "/proc/2/ns/net"} {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			return st.Ino == own.Inode
		}
	}
	return false
}

// FindNamespace finds a network namespace by Namespace.Name: "", a name in /run/netns, or
// "pid:NNN". errors.Is fs.ErrNotExist: there is none; measure.ErrDenied: the process can't be read
// (CAP_SYS_PTRACE).
func FindNamespace(r kernel.Root, name string) (Namespace, error) {
	own := OwnNamespace(r)
	if name == "" {
		return own, nil
	}
	path := netnsFolder + "/" + name
	switch pid, ok := strings.CutPrefix(name, "pid:"); {
	case ok:
		if _, err := proc.ParseUint([]byte(pid)); err != nil {
			return Namespace{}, fmt.Errorf("find network namespace %q: %w", name, err)
		}
		path = "/proc/" + pid + "/ns/net"
	case strings.Contains(name, "/") || name == "." || name == ".." || r.Captured():
		return Namespace{}, fmt.Errorf("find network namespace %q: %w", name, fs.ErrNotExist)
	}
	inode, err := proc.NamespaceInode(path)
	if err != nil {
		return Namespace{}, fmt.Errorf("find network namespace %q: %w", name, err)
	}
	if inode == own.Inode {
		return Namespace{Name: name, Inode: inode}, nil
	}
	return Namespace{name, inode, path}, nil
}

// Namespaces lists network namespaces, each once: the own one, the named ones, then those of
// processes (by their main threads), ordered by pid. limit bounds the list; 0 means 1,024.
//
// The list is valid even with an error, which says what may be missing: measure.Denied when
// processes can't be read, measure.ErrUnclear when there are more than limit. It reads each process
// (2 us each), so it is too expensive for every tick.
func Namespaces(r kernel.Root, limit int) ([]Namespace,
	error) {
	return NamespacesOf(r, nil, limit)
}

// NamespacesOf is Namespaces where the caller knows one process of each namespace (by bpf.Tasks),
// in ascending order. If one of them has ended or has moved, it reads all processes. The error is
// that of Namespaces.
func NamespacesOf(r kernel.Root, first []ProcessNet, limit int) ([]Namespace, error) {
	if limit <= 0 {
		limit = 1024
	}
	list := []Namespace{OwnNamespace(r)}
	if r.Captured() {
		return list, nil
	}
	seen := map[uint64]bool{list[0].Inode: true}
	more := 0
	add := func(ns Namespace) {
		switch {
		case seen[ns.Inode]:
		case len(list) < limit:
			list = append(list, ns)
			seen[ns.Inode] = true
		default:
			more++
			seen[ns.Inode] = true
		}
	}
	names, err := os.ReadDir(netnsFolder) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return list, fmt.Errorf("list network namespaces: %w", err)
	}
	for _, e := range names {
		path := netnsFolder + "/" + e.Name()
		if inode, err := proc.NamespaceInode(path); err == nil {
			add(Namespace{e.Name(), inode, path})
		}
	}
	proc, err := proc.OpenProcDir(r, "")
	if err != nil {
		return list, err
	}
	defer proc.Close()
	denied := 0
	var link [64]byte
	var pids []int32
	for i := range first {
		if b, err := proc.ReadLink(first[i].PID, "ns/net", link[:]); err == nil {
			if inode, ok := nsLink(b); ok && inode == first[i].Net {
				pids = append(pids, first[i].PID)
			}
		}
	}
	if len(pids) == 0 || len(pids) < len(first) {
		if pids, err = proc.ListPIDs(pids[:0]); err != nil {
			return list, fmt.Errorf("list processes: %w", err)
		}
	}
	for _, pid := range pids {
		b, err := proc.ReadLink(pid, "ns/net", link[:])
		switch {
		case errors.Is(err, measure.ErrDenied):
			denied++
		case err == nil:
			if inode, ok := nsLink(b); ok && !seen[inode] {
				add(Namespace{fmt.Sprintf("pid:%d", pid), inode,
					fmt.Sprintf("/proc/%d/ns/net", pid)})
			}
		}
	}
	switch {
	case more > 0:
		return list, fmt.Errorf("list network namespaces: %d more than %d: %w", more, limit,
			measure.ErrUnclear)
	case denied > 0:
		who := fmt.Sprintf("%d processes", denied)
		if denied == 1 {
			who = "one process"
		}
		return list, kernel.Unreadable("look for the network namespaces of " + who)
	}
	return list, nil
}

// A ProcessNet is a process and the inode of its network namespace.
type ProcessNet struct {
	PID int32
	Net uint64
}

// nsLink parses "net:[4026531840]".
func nsLink(b []byte) (uint64, bool) {
	const before = "net:["
	if len(b) < len(before)+2 || string(b[:len(before)]) != before || b[len(b)-1] != ']' {
		return 0, false
	}
	v, err := proc.ParseUint(b[len(before) : len(b)-1])
	return v, err == nil
}

// In calls f inside the namespace and returns its error. Sockets that f opens and files of
// /proc/thread-self/net stay in that namespace. f runs in a goroutine and on a thread of its own;
// it must not start goroutines that should be inside as well. For the own namespace f is called
// directly.
//
// /proc/net and /proc/self/net are those of the process's first thread, which never moves: f must
// use thread-self. /sys/class/net shows the namespace in which /sys was mounted, whatever thread
// reads it: f must use netlink and ethtool netlink instead.
//
// errors.As measure.Denied: it requires CAP_SYS_ADMIN. errors.Is fs.ErrNotExist: the namespace is
// gone, or its name or process belongs to another one now.
func (ns Namespace) In(f func() error) error {
	if ns.Own() {
		return f()
	}
	return onThread(func() (err error, dirty bool) {
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("remember the own network namespace: %w", kernel.AsError(err)), false
		}
		defer unix.Close(home)
		if err := ns.enter(); err != nil {
			return err, false
		}
		defer func() {
			if unix.Setns(home, unix.CLONE_NEWNET) != nil {
				dirty = true
			}
		}()
		return f(), false
	})
}

// enter moves the calling thread into the namespace.
func (ns Namespace) enter() error {
	fd, err := unix.Open(ns.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil {
			if st.Ino != ns.Inode {
				return fmt.Errorf("enter network namespace %s: another one is there now: %w",
					ns.Name, fs.ErrNotExist)
			}
			err = unix.Setns(fd, unix.CLONE_NEWNET)
		}
	}
	err = kernel.AsError(err)
	switch {
	case errors.Is(err, unix.EACCES) && strings.HasPrefix(ns.Name, "pid:"):
		return kernel.Unreadable("enter network namespace " + ns.Name)
	case errors.Is(err, measure.ErrDenied):
		return kernel.Refused("enter network namespace "+ns.Name, "", unix.CAP_SYS_ADMIN)
	case err != nil:
		return fmt.Errorf("enter network namespace %s: %w", ns.Name, err)
	}
	return nil
}

// onThread runs f on a thread that nothing else uses meanwhile and that is not the process's first,
// which /proc/self follows. If f reports dirty, the thread ends: it stays locked to a goroutine
// that ends.
func onThread(f func() (err error, dirty bool)) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("ended by runtime.Goexit")
		defer func() { done <- err }()
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// while this goroutine sits on the first thread, another must run on another
			err = onThread(f)
			runtime.UnlockOSThread()
			return
		}
		var dirty bool
		if err, dirty = f(); !dirty {
			runtime.UnlockOSThread()
		}
	}()
	return <-done
}

// Dial opens a netlink socket inside the namespace. The caller closes it. The errors are those of
// In and of the function Dial.
func (ns Namespace) Dial(protocol int, o Options) (c *Conn, err error) {
	err = ns.In(func() error {
		c, err = Dial(protocol, o)
		return err
	})
	return c, err
}

// OpenNet opens /proc/net/NAME of the namespace ("snmp", "netstat", "softnet_stat"). The caller
// closes it; until then it keeps the namespace alive. Of captured files it opens net/NAME below the
// proc root. The errors are those of In and of proc.Open.
func OpenNet(r kernel.Root, ns Namespace, name string) (f *proc.File, err error) {
	if r.Captured() {
		return proc.OpenProc(r, "net/"+name)
	}
	err = ns.In(func() error {
		f, err = proc.Open("/proc/thread-self/net/" + name)
		return err
	})
	return f, err
}

// TryEnter reports whether this process may enter network namespaces: nil, measure.ErrUnsupported
// or measure.ErrDenied.
func TryEnter() error {
	return onThread(func() (error, bool) {
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("compiled without CONFIG_NET_NS: %w", measure.ErrUnsupported)
			}
			return kernel.AsError(err), false
		}
		defer unix.Close(home)
		if err := kernel.AsError(unix.Setns(home, unix.CLONE_NEWNET)); errors.Is(err,
			measure.ErrDenied) {
			return kernel.Refused("enter network namespaces", "", unix.CAP_SYS_ADMIN), false
		} else if err != nil {
			return err, false
		}
		return nil, false
	})
}
