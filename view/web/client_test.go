package web

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"culprit/measure"
	"culprit/view/web/client"
	"culprit/view/web/listen"
)

// connect returns a client of a server on a unix socket.
func connect(t testing.TB, m Machine) *client.Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "culprit.sock")
	l, err := listen.Socket(path)
	if err != nil {
		t.Fatal(err)
	}
	s := New(m, About{}, token)
	h := s.HTTP(true)
	go func() { _ = h.Serve(l) }()
	t.Cleanup(func() {
		s.Close()
		_ = h.Close()
	})
	c, err := client.Dial(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// same compares answers: rows by their keys, numbers bit by bit. NaN equals NaN.
func same(t *testing.T, got, want *measure.Answer) {
	t.Helper()
	rows := func(a *measure.Answer) map[string][][]uint64 {
		out := map[string][][]uint64{}
		for i, s := range a.Series {
			key := ""
			for k := range a.Query.By {
				key += a.Label(i, k) + "\x00"
			}
			for _, column := range [][]float64{s.Values, s.Min(), s.Max()} {
				var bits []uint64
				for _, v := range column {
					if v != v {
						v = math.NaN()
					}
					bits = append(bits, math.Float64bits(v))
				}
				out[key] = append(out[key], bits)
			}
		}
		return out
	}
	if got.Start != want.Start || got.Step != want.Step ||
		!slices.Equal(got.Elapsed, want.Elapsed) ||
		got.Kind != want.Kind ||
		got.Unit != want.Unit ||
		got.Sparse != want.Sparse ||
		!reflect.DeepEqual(got.Query, want.Query) ||
		!reflect.DeepEqual(rows(got), rows(want)) ||
		!slices.Equal(got.Notes, want.Notes) ||
		!slices.Equal(got.Loss, want.Loss) {
		t.Errorf("%s:\n got %+v\nwant %+v", want.Query, got, want)
	}
}

// The answers of a client equal those of the reader bit by bit, also if times are not whole
// milliseconds.
func TestClientIsItsReader(t *testing.T) {
	m := newMemory(t).filled(60)
	m.ticks[3].elapsed = 999_999_937
	m.ticks[8].rows["net.device.bytes"] = []line{
		{[]string{"eth0", "rx"}, math.Pi * 1e-9},
		{[]string{"é\"<\n", "rx"}, 1e300},
	}
	c := connect(t, m)
	if !reflect.DeepEqual(c.Stats(), m.Stats()) {
		t.Errorf("stats\n got %+v\nwant %+v", c.Stats(), m.Stats())
	}
	for _, sentence := range []string{"net.device.bytes by device,direction", "net.device.bytes", `cpu.time by cpu,mode where mode in (user, "a b")`, "net.drops by device", "tcp.rtt by peer", "memory.free"} {
		q, err := c.Parse(sentence)
		if err != nil {
			t.Fatal(err)
		}
		for _, over := range []measure.Interval{
			{Start: start, End: start + 60*second},
			{Start: start + 123_456_789, End: start + 7*second + 1},
			{Start: start - 60*second, End: start - 50*second},
		} {
			for _, step := range []measure.Span{0, measure.Second, 7*measure.Second + 1} {
				q.Over, q.Step = over, step
				if step == 0 && over.End < start {
					continue // clipped to what is held: nothing
				}
				if step == 0 {
					q.Over.Start = max(over.Start, start)
				}
				want, err := m.Ask(context.Background(), q)
				if err != nil {
					t.Fatal(err)
				}
				got, err := c.Ask(context.Background(), q)
				if err != nil {
					t.Fatalf("%s: %v", q, err)
				}
				same(t, got, want)
			}
		}
	}
}

func TestClientErrors(t *testing.T) {
	c := connect(t, newMemory(t).filled(3))
	over := measure.Interval{Start: start, End: start + 3*second}
	for peer, kind := range map[string]error{
		"denied": measure.ErrDenied, "unclear": measure.ErrUnclear,
		"unsupported": measure.ErrUnsupported, "large": measure.ErrTooLarge, "broken": nil,
	} {
		q, err := c.Parse(`tcp.rtt where peer = ` + peer)
		if err != nil {
			t.Fatal(err)
		}
		q.Over, q.Step = over, measure.Second
		_, err = c.Ask(context.Background(), q)
		if err == nil {
			t.Fatalf("%s: no error", peer)
		}
		for _, k := range []error{
			measure.ErrDenied, measure.ErrUnclear, measure.ErrUnsupported, measure.ErrTooLarge,
		} {
			if errors.Is(err, k) != (k == kind) {
				t.Errorf("%s: %v, Is %v: %v", peer, err, k, errors.Is(err, k))
			}
		}
	}
	var denied *measure.Denied
	_, err := c.Ask(context.Background(), measure.Query{
		Stat:  "tcp.rtt",
		Where: []measure.Term{{Field: "peer", Op: measure.Equal, Values: []string{"denied"}}},
		Over:  over,
		Step:  measure.Second,
	})
	if !errors.As(err, &denied) ||
		denied.Needs != "CAP_NET_ADMIN" ||
		denied.Doing != "read it" {
		t.Errorf("denied: %v", err)
	}
	_, err = c.Parse("memory.free by cpu")
	var d *measure.Diagnostic
	if !errors.As(err, &d) ||
		*d != (measure.Diagnostic{Text: "memory.free by cpu", Pos: 15, Len: 3, Code: "unknown-field", Message: "memory.free has no field cpu"}) {
		t.Errorf("diagnostic: %#v", err)
	}
}

func TestDialWithoutServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "culprit.sock")
	if _, err := client.Dial(context.Background(), path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	l, err := listen.Socket(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen.Socket(path); err == nil ||
		!strings.Contains(err.Error(), "another server is running") {
		t.Errorf("a second server: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil { // as kill -9 leaves it
		t.Fatal(err)
	}
	if _, err := client.Dial(context.Background(), path); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a socket that nobody listens on: %v", err)
	}
	if l, err = listen.Socket(path); err != nil {
		t.Fatalf("a left socket is not replaced: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("keep me"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen.Socket(path); err == nil {
		t.Error("a file was taken for a socket")
	}
}

// The server refuses a process of another user, even if the mode of the socket lets it connect.
func TestOtherUserAtTheSocket(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs: root")
	}
	dir, err := os.MkdirTemp("", "culprit")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := listen.Socket(path)
	if err != nil {
		t.Fatal(err)
	}
	s := New(newMemory(t), About{}, token)
	h := s.HTTP(true)
	go func() { _ = h.Serve(l) }()
	defer s.Close()
	defer h.Close()
	for _, p := range []string{dir, path} {
		if err := os.Chmod(p, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	// as asks as a user, on a thread that ends with its goroutine.
	as := func(user uintptr) (answer string, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // and never unlock: the thread has changed
			if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, user, user, user); e != 0 {
				err = e
				return
			}
			var fd int
			if fd, err = syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); err != nil {
				return
			}
			defer syscall.Close(fd)
			if err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
				return
			}
			_, _ = syscall.Write(
				fd, []byte("GET /api/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
			) // the server may have closed
			b := make([]byte, 100)
			n, _ := syscall.Read(fd, b)
			answer = string(b[:max(n, 0)])
		}()
		<-done
		return answer, err
	}
	if got, err := as(0); err != nil || !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("root: %q %v", got, err)
	}
	if got, err := as(65534); err != nil || got != "" {
		t.Errorf("another user: %q %v", got, err)
	}
}

func TestDialURL(t *testing.T) {
	s := serve(t, newMemory(t).filled(3))
	ctx := context.Background()
	if _, err := client.DialURL(ctx, s.base+"/?token="+token, ""); err != nil {
		t.Error(err)
	}
	if _, err := client.DialURL(ctx, s.base, "wrong"); err == nil ||
		!strings.Contains(err.Error(), "not the token") {
		t.Errorf("wrong token: %v", err)
	}
	for _, address := range []string{"", "unix:/x", "127.0.0.1:7410", "ftp://x/", "http://"} {
		if _, err := client.DialURL(ctx, address, token); err == nil {
			t.Errorf("%q is taken for an address", address)
		}
	}
	quick, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	if _, err := client.DialURL(quick, s.base, token); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no time: %v", err)
	}
}
