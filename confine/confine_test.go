package confine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// asChild makes the test binary one of the confined processes.
const asChild = "CULPRIT_TEST_CONFINED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asChild); dir != "" {
		if err := confined(os.Args[1], dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// confined confines this process and tries what must not work, and what must.
func confined(as, dir string) error {
	exe, err := os.Open("/proc/self/exe") // a file that is open stays so
	if err != nil {
		return err
	}
	uid, gid := Account()
	tries := commonTries()
	switch as {
	case "server":
		if err := os.Chdir(dir); err != nil {
			return err
		}
		err := errors.Join(
			DropRoot(uid, gid), LimitMemory(1<<30), ServerFiles(".", 2), ServerCalls(),
		)
		if err != nil {
			return err
		}
		tries = append(tries, serverTries()...)
	case "worker", "worker that remains root's":
		var err error
		if as != "worker" {
			err = KeepCapabilities(unix.CAP_SYS_PTRACE)
		}
		err = errors.Join(
			err, DropRootWhereAllowed(uid, gid), LimitMemory(256<<20), LimitCPU(2*time.Minute),
			NoFiles(), WorkerCalls(),
		)
		if err != nil {
			return err
		}
		tries = append(withoutUnixSockets(tries), workerTries(dir)...)
	case "recorder":
		if err := errors.Join(KeepCapabilities(unix.CAP_BPF), RecorderCalls(false)); err != nil {
			return err
		}
		tries = append(tries, recorderTries(dir)...)
	}
	_, err = exe.Stat()
	failed := []error{err}
	for _, one := range tries {
		if err := one.try(); (err == nil) != one.works {
			failed = append(
				failed,
				fmt.Errorf("%s: works %v, want %v: %w", one.name, err == nil, one.works, err),
			)
		}
	}
	return errors.Join(failed...)
}

// attempt is something that works in a process, or does not.
type attempt struct {
	name  string
	works bool
	try   func() error
}

func openFile(path string, flags int) func() error {
	return func() error {
		f, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	}
}

func socket(family, of int) func() error {
	return func() error {
		fd, err := unix.Socket(family, of, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

func connect(address string) func() error {
	return func() error {
		_, err := net.Dial("tcp4", address)
		if errors.Is(err, unix.ECONNREFUSED) {
			return nil // the kernel has tried
		}
		return err
	}
}

func call(number uintptr) func() error {
	return func() error {
		_, _, errno := unix.Syscall(number, 0, 0, 0)
		if errno == unix.EPERM {
			return errno
		}
		return nil // the kernel has looked at the arguments
	}
}

func commonTries() []attempt {
	return []attempt{
		{"start a program", false, func() error { return exec.Command("/bin/true").Run() }},
		{"ptrace", false, call(unix.SYS_PTRACE)},
		{"mount", false, call(unix.SYS_MOUNT)},
		{"a user namespace", false, call(unix.SYS_UNSHARE)},
		{"a packet socket", false, socket(unix.AF_PACKET, unix.SOCK_RAW)},
		{"a vsock socket", false, socket(unix.AF_VSOCK, unix.SOCK_STREAM)},
		{"io_uring", false, call(unix.SYS_IO_URING_SETUP)},
		{"load a module", false, call(unix.SYS_FINIT_MODULE)},
		{
			"a signal to another process",
			false,
			func() error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) },
		},
		{
			"a signal to itself",
			true,
			func() error { return unix.Tgkill(os.Getpid(), os.Getpid(), 0) },
		},
		{"a unix socket", true, socket(unix.AF_UNIX, unix.SOCK_STREAM)},
		{"a goroutine of its own thread", true, func() error {
			done := make(chan error)
			go func() { done <- nil }()
			return <-done
		}},
	}
}

func serverTries() []attempt {
	return []attempt{
		{"BPF", false, call(unix.SYS_BPF)},
		{"perf events", false, call(unix.SYS_PERF_EVENT_OPEN)},
		{"read another process", false, call(unix.SYS_PROCESS_VM_READV)},
		{"a netlink socket", false, socket(unix.AF_NETLINK, unix.SOCK_RAW)},
		{"an IP socket", true, socket(unix.AF_INET, unix.SOCK_STREAM)},
		{"write its directory", true, func() error {
			return errors.Join(
				openFile("new", os.O_CREATE|os.O_WRONLY)(), os.Rename("new", "other"),
				os.Mkdir("below", 0o700), os.Rename("other", "below/new"),
			)
		}},
		{"write beside it", false, openFile("../beside", os.O_CREATE|os.O_WRONLY)},
		{"read the processes", false, openFile("/proc/1/status", os.O_RDONLY)},
		{"read its memory", true, openFile("/proc/self/statm", os.O_RDONLY)},
		{"read a key of root", false, openFile("/etc/shadow", os.O_RDONLY)},
		{"read the names of hosts", true, openFile("/etc/hosts", os.O_RDONLY)},
		{"connect", false, connect("127.0.0.1:1")},
		{"connect to its port", true, connect("127.0.0.1:2")},
		{"become root", false, func() error { return syscall.Setuid(0) }},
	}
}

// withoutUnixSockets returns the attempts with one that differs: no unix socket works.
func withoutUnixSockets(tries []attempt) []attempt {
	for i := range tries {
		if tries[i].name == "a unix socket" {
			tries[i].works = false
		}
	}
	return tries
}

func workerTries(dir string) []attempt {
	memory := func(protection int) func() error {
		return func() error {
			b, err := unix.Mmap(-1, 0, 4096, protection, unix.MAP_ANON|unix.MAP_PRIVATE)
			if err != nil {
				return err
			}
			return unix.Munmap(b)
		}
	}
	return []attempt{
		{"an IP socket", false, socket(unix.AF_INET, unix.SOCK_STREAM)},
		{"a netlink socket", false, socket(unix.AF_NETLINK, unix.SOCK_RAW)},
		{"a pair of sockets", false, func() error {
			_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			return err
		}},
		{"connect", false, connect("127.0.0.1:1")},
		{"read a file", false, openFile("/etc/hosts", os.O_RDONLY)},
		{"read itself", false, openFile("/proc/self/status", os.O_RDONLY)},
		{"make a file", false, openFile(filepath.Join(dir, "new"), os.O_CREATE|os.O_WRONLY)},
		{"list a directory", false, func() error { _, err := os.ReadDir("/"); return err }},
		{"BPF", false, call(unix.SYS_BPF)},
		{"read another process", false, call(unix.SYS_PROCESS_VM_READV)},
		{"change a limit", false, func() error {
			return unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1, Max: 1})
		}},
		{"send a descriptor", false, func() error { return unix.Sendmsg(1, nil, nil, nil, 0) }},
		{"memory", true, memory(unix.PROT_READ | unix.PROT_WRITE)},
		{"executable memory", false, memory(unix.PROT_READ | unix.PROT_EXEC)},
		{"256 MB of memory", false, func() error {
			b, err := unix.Mmap(
				-1, 0, 256<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE,
			)
			if err != nil {
				return err
			}
			return unix.Munmap(b)
		}},
		{"collect garbage", true, func() error { runtime.GC(); return nil }},
	}
}

func recorderTries(dir string) []attempt {
	return []attempt{
		{"BPF", true, call(unix.SYS_BPF)},
		{"perf events", true, call(unix.SYS_PERF_EVENT_OPEN)},
		{"a netlink socket", true, socket(unix.AF_NETLINK, unix.SOCK_RAW)},
		{"an IP socket", false, socket(unix.AF_INET, unix.SOCK_STREAM)},
		{"make a file", false, openFile(filepath.Join(dir, "new"), os.O_CREATE|os.O_WRONLY)},
		{"write a file", false, openFile("/proc/self/comm", os.O_WRONLY)},
		{"change a file", false, openFile("/proc/self/comm", os.O_RDWR)},
		{"read a file", true, openFile("/proc/self/comm", os.O_RDONLY)},
		{"remove a directory", false, func() error { return os.Remove(dir) }},
		{"change an owner", false, func() error { return os.Chown(dir, 1, 1) }},
	}
}

func TestConfined(t *testing.T) {
	for _, as := range []string{"server", "recorder", "worker", "worker that remains root's"} {
		t.Run(as, func(t *testing.T) {
			dir := t.TempDir()
			uid, gid := Account()
			if os.Geteuid() == 0 {
				if err := Own(dir, uid, gid); err != nil {
					t.Fatal(err)
				}
			}
			c := exec.Command("/proc/self/exe", as)
			c.Env = append(os.Environ(), asChild+"="+dir)
			out, err := c.CombinedOutput()
			if err != nil && strings.Contains(string(out), "not supported by the kernel") {
				t.Skip("needs: kernel feature seccomp")
			}
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// What is not a plain file of root's with one name keeps its owner.
func TestOwn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root")
	}
	ownerOf := func(path string) int {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Sys().(*syscall.Stat_t).Uid)
	}
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	for _, path := range []string{outside, filepath.Join(dir, "file"), filepath.Join(dir, "other")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hard, soft := filepath.Join(dir, "hard"), filepath.Join(dir, "soft")
	if err := errors.Join(os.Link(outside, hard), os.Symlink(outside, soft),
		os.Chown(filepath.Join(dir, "other"), 7, 7)); err != nil {
		t.Fatal(err)
	}
	if err := Own(dir, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path string
		want int
	}{
		{dir, 1234}, {filepath.Join(dir, "file"), 1234}, {filepath.Join(dir, "other"), 7},
		{hard, 0}, {soft, 0}, {outside, 0},
	}
	for _, tt := range tests {
		if got := ownerOf(tt.path); got != tt.want {
			t.Errorf("%s belongs to %d, want %d", tt.path, got, tt.want)
		}
	}
}
