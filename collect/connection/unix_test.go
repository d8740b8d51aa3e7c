package connection

import (
	"path/filepath"
	"testing"

	"culprit/collect/collecttest"
	"culprit/heapbound"
	"culprit/kernel"

	"golang.org/x/sys/unix"
)

// TestUnixListeners fills the queue of a listener of this test, and reads it.
func TestUnixListeners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listen := func(name string, backlog int) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Listen(fd, backlog); err != nil {
			t.Fatal(err)
		}
	}
	listen(path, 3)
	listen("@culprit"+path, 7)
	for range 2 {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			t.Fatal(err)
		}
	}
	m := collecttest.EmptyMachine(t)
	m.Env.Root = kernel.Root{}
	if err := m.TryOpen(UnixListeners{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Reading.Close)
	rows := m.Read(true)
	for key, want := range map[string]float64{
		"unix.listen.queue||" + path:         2,
		"unix.listen.limit||" + path:         3,
		"unix.listen.queue||@culprit" + path: 0,
		"unix.listen.limit||@culprit" + path: 7,
	} {
		if got, ok := rows[key]; !ok || got != want {
			t.Errorf("%s = %v, want %v", key, got, want)
		}
	}
}

func FuzzUnix(f *testing.F) {
	f.Add([]byte("\x01\x01\x0a\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00" +
		"\x06\x00\x00\x00/s\x00\x00\x0c\x00\x04\x00\x05\x00\x00\x00\x07\x00\x00\x00"))
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		if l, ok := parseUnix(b); ok && l.path == "" {
			t.Errorf("%+v", l)
		}
	})
}
