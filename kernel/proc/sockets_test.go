package proc

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File() // a second descriptor of the same socket
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	proc, err := OpenDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	pid, buf := int32(os.Getpid()), make([]byte, 4096)
	times, hit := 0, false
	seen, err := proc.Sockets(pid, buf, func(fd int32, inode uint64) bool {
		if inode == st.Ino {
			times++
			hit = hit || fd == int32(file.Fd())
		}
		return true
	})
	if err != nil || times != 2 || !hit || seen < 2 {
		t.Fatalf("Sockets: %d files, inode %d found %d times, fd %d found: %v, %v", seen, st.Ino,
			times, file.Fd(), hit, err)
	}
	if inode, err := proc.Socket(pid, int32(file.Fd())); err != nil || inode != st.Ino {
		t.Errorf("Socket is %d, %v, want %d", inode, err, st.Ino)
	}
	if inode, err := proc.Socket(pid, 1<<20); inode != 0 || err == nil {
		t.Errorf("Socket of an fd that is not open is %d, %v", inode, err)
	}
	// without the directory itself; none before Linux 6.2
	if n, err := proc.OpenFiles(pid); err != nil || n != 0 && n != seen-1 {
		t.Errorf("OpenFiles is %d, %v; %d were seen", n, err, seen)
	}
	if _, err := proc.OpenFiles(1 << 30); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenFiles of no process is %v", err)
	}
	if n := testing.AllocsPerRun(10, func() { _, _ = proc.OpenFiles(pid) }); n != 0 {
		t.Errorf("OpenFiles allocates %v times", n)
	}
	if n := testing.AllocsPerRun(10, func() {
		_,
			_ = proc.Sockets(pid, buf, func(int32, uint64) bool { return true })
	}); n != 0 {
		t.Errorf("Sockets allocates %v times", n)
	}
}

func TestSocketInode(t *testing.T) {
	for link, want := range map[string]uint64{
		"socket:[12345]": 12345, "socket:[4294967295]": 4294967295, "socket:[0]": 0,
	} {
		if got, ok := socketInode([]byte(link)); !ok || got != want {
			t.Errorf("%q is %d %v, want %d", link, got, ok, want)
		}
	}
	for _, link := range []string{"", "socket:[", "socket:[]", "socket:[12", "socket:12]",
		"pipe:[12]", "/socket:[1]", "socket:[x]", "socket:[99999999999999999999]"} {
		if got, ok := socketInode([]byte(link)); ok {
			t.Errorf("%q is %d", link, got)
		}
	}
}
