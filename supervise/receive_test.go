package supervise

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// What a process has sent before its end arrives, also if it has not read all that was sent to it.
func TestLastMessages(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		if ends[i], err = fileConn(fd); err != nil {
			t.Fatal(err)
		}
	}
	parent, child := ends[0], ends[1]
	defer parent.Close() //nolint:errcheck // a test
	if err := send(parent, msgPeer, "unread", nil); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"1", "2"} {
		if err := send(child, msgExit, text, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := child.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1", "2"} {
		kind, text, _, err := receive(parent)
		if err != nil || kind != msgExit || text != want {
			t.Errorf("%q %q, %v, want %q", kind, text, err, want)
		}
	}
	if _, _, _, err := receive(parent); err == nil {
		t.Error("a message of nobody")
	}
}
