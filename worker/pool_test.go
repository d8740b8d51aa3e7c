package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"culprit/measure"
	"culprit/wire"
)

// asWorker makes the test binary a worker of a kind; descriptor 3 is its connection.
const asWorker = "CULPRIT_TEST_WORKER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asWorker); kind != "" {
		f := os.NewFile(3, "connection")
		conn, err := net.FileConn(f)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		f.Close()
		misbehave(kind, conn)
		err = Serve(conn, testJobs(), func() measure.Span { return measure.Millisecond })
		if err != nil && !errors.Is(err, io.EOF) {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// misbehave sends what is not the protocol; the kind good sends nothing.
func misbehave(kind string, conn net.Conn) {
	switch kind {
	case "noise":
		for {
			if _, err := conn.Write([]byte(strings.Repeat("noise ", 1000))); err != nil {
				os.Exit(0)
			}
		}
	case "other version":
		_ = send(conn, kindHello, wire.AppendUint(wire.AppendString(nil, magic), version+1))
	case "large frame":
		_, _ = conn.Write([]byte{255, 255, 255, 127, kindHello})
	case "silent":
		_, _ = io.Copy(io.Discard, conn) // until it is killed
		os.Exit(0)
	case "gone":
		os.Exit(0)
	case "unknown frames", "done too early", "bad done":
		_ = send(conn, kindHello, wire.AppendUint(wire.AppendString(nil, magic), version))
		_, _ = conn.Read(make([]byte, 1))
		answer := map[string]byte{"unknown frames": 200, "done too early": kindDone,
			"bad done": kindDone}[kind]
		_ = send(conn, answer, []byte{0, 0, 0}[:map[bool]int{true: 3, false: 1}[kind != "bad done"]])
		_, _ = io.Copy(io.Discard, conn) // until it is killed
		os.Exit(0)
	}
}

// testJobs are the jobs of a test worker.
func testJobs() map[string]Job {
	return map[string]Job{
		"echo": func(_ context.Context, b []byte, _ Ask, w io.Writer) error {
			_, err := w.Write(b)
			return err
		},
		"ask": func(_ context.Context, b []byte, ask Ask, w io.Writer) error {
			for i := range 3 {
				got, err := ask(fmt.Append(b, i))
				if err != nil {
					_, err = fmt.Fprint(w, "error: ", err, errors.Is(err, measure.ErrTooLarge))
					return err
				}
				if _, err := w.Write(got); err != nil {
					return err
				}
			}
			return nil
		},
		"pid": func(_ context.Context, _ []byte, _ Ask, w io.Writer) error {
			_, err := fmt.Fprint(w, os.Getpid())
			return err
		},
		"large": func(_ context.Context, _ []byte, _ Ask, w io.Writer) error {
			_, err := w.Write(make([]byte, 3<<20))
			return err
		},
		"half": func(_ context.Context, _ []byte, _ Ask, w io.Writer) error {
			_, err := w.Write([]byte("half"))
			if err == nil {
				err = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			return err
		},
		"panic": func(context.Context, []byte, Ask, io.Writer) error { panic("a bug") },
		"wait": func(ctx context.Context, _ []byte, _ Ask, w io.Writer) error {
			<-ctx.Done()
			_, err := io.WriteString(w, "canceled")
			return err
		},
		"hang": func(context.Context, []byte, Ask, io.Writer) error { select {} },
	}
}

// processes starts real workers and counts them.
type processes struct {
	t       testing.TB
	kind    string
	started atomic.Int64
	mu      sync.Mutex // guards the fields below
	running int
	most    int
}

func (p *processes) start(context.Context) (*Process, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	mine, its := os.NewFile(uintptr(fds[0]), "mine"), os.NewFile(uintptr(fds[1]), "its")
	defer mine.Close()
	defer its.Close()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), asWorker+"="+p.kind)
	c.ExtraFiles = []*os.File{its}
	if err := c.Start(); err != nil {
		return nil, err
	}
	p.started.Add(1)
	p.mu.Lock()
	p.running++
	p.most = max(p.most, p.running)
	p.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		_ = c.Wait() // killed, or at the end of its connection
		p.mu.Lock()
		p.running--
		p.mu.Unlock()
		close(ended)
	}()
	p.t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		<-ended
	})
	conn, err := net.FileConn(mine)
	if err != nil {
		return nil, err
	}
	return &Process{Conn: conn, Kill: func() { _ = c.Process.Kill() }}, nil
}

// eventually waits until check is true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !check(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func newTestPool(t testing.TB, kind string) (*Pool, *processes) {
	p := &processes{t: t, kind: kind}
	pool := NewPool(p.start)
	t.Cleanup(pool.Close)
	return pool, p
}

// ask runs a job and returns its reply.
func ask(ctx context.Context, p *Pool, job, content string) (string, error) {
	var out bytes.Buffer
	err := p.Do(ctx, &Request{
		Job: job, Content: []byte(content),
		Ask: func(_ context.Context, q []byte) ([]byte, error) {
			if string(q) == "fail1" {
				return nil, fmt.Errorf("refused: %w", measure.ErrTooLarge)
			}
			return append([]byte("you ask "), q...), nil
		},
		Reply: func(b []byte) error { out.Write(b); return nil },
	})
	return out.String(), err
}

func TestRequests(t *testing.T) {
	pool, p := newTestPool(t, "good")
	for _, tt := range []struct{ job, content, want string }{
		{"echo", "", ""},
		{"echo", "hello", "hello"},
		{"ask", "x", "you ask x0you ask x1you ask x2"},
		{"ask", "fail", "you ask fail0error: refused: " + measure.ErrTooLarge.Error() + " true"},
		{"echo", strings.Repeat("long ", 300_000), strings.Repeat("long ", 300_000)},
	} {
		got, err := ask(t.Context(), pool, tt.job, tt.content)
		if err != nil || got != tt.want {
			t.Errorf("%s %.20s: %.100q, %v", tt.job, tt.content, got, err)
		}
	}
	if n := p.started.Load(); n != 1 {
		t.Errorf("%d processes for requests one after the other", n)
	}
	if cpu, memory := pool.CPU(), pool.Memory(); cpu != measure.Millisecond || memory < 1<<20 {
		t.Errorf("the pool took %v and %d bytes", cpu, memory)
	}
	var bug *measure.Fault
	if _, err := ask(t.Context(), pool, "panic", ""); !errors.As(err, &bug) ||
		!strings.Contains(err.Error(), "a bug") {
		t.Errorf("a panic: %v", err)
	}
	if _, err := ask(t.Context(), pool, "no such job", ""); !errors.As(err, &bug) {
		t.Errorf("an unknown job: %v", err)
	}
	if got, err := ask(t.Context(), pool, "echo", "again"); got != "again" || err != nil {
		t.Errorf("after a panic: %q, %v", got, err)
	}
}

// A worker that is killed in the middle of a reply, answers nonsense or says nothing is an error,
// and the next request gets another worker.
func TestBrokenWorkers(t *testing.T) {
	for _, kind := range []string{
		"noise", "other version", "large frame", "gone", "unknown frames", "bad done",
	} {
		t.Run(kind, func(t *testing.T) {
			pool, p := newTestPool(t, kind)
			for n := range 2 {
				if _, err := ask(t.Context(), pool, "echo", "x"); !errors.Is(err, ErrEnded) {
					t.Errorf("request %d: %v", n, err)
				}
			}
			if n := p.started.Load(); n != 2 {
				t.Errorf("%d processes for two requests", n)
			}
			eventually(t, "its processes end", func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.running == 0
			})
		})
	}
	pool, p := newTestPool(t, "good")
	if got, err := ask(t.Context(), pool, "half", ""); got != "half" || !errors.Is(err, ErrEnded) {
		t.Errorf("killed in the middle: %q, %v", got, err)
	}
	if got, err := ask(t.Context(), pool, "echo", "next"); got != "next" || err != nil {
		t.Errorf("the next request: %q, %v", got, err)
	}
	if n := p.started.Load(); n != 2 {
		t.Errorf("%d processes", n)
	}
}

// A worker that dies while it is idle costs no request.
func TestIdleWorkerDies(t *testing.T) {
	pool, p := newTestPool(t, "good")
	pid, err := ask(t.Context(), pool, "pid", "")
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if _, err := fmt.Sscan(pid, &n); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has ended", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.running == 0
	})
	if got, err := ask(t.Context(), pool, "echo", "x"); got != "x" || err != nil {
		t.Errorf("the next request: %q, %v", got, err)
	}
}

// A request ends with its context: by itself if it looks at it, else its process is killed.
func TestContextEnds(t *testing.T) {
	pool, p := newTestPool(t, "good")
	if _, err := ask(t.Context(), pool, "echo", ""); err != nil { // it runs
		t.Fatal(err)
	}
	for _, tt := range []struct {
		job     string
		started int64 // processes after the next request
	}{{"wait", 1}, {"hang", 2}} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := ask(ctx, pool, tt.job, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", tt.job, err)
		}
		cancel()
		if got, err := ask(t.Context(), pool, "echo", "x"); got != "x" || err != nil {
			t.Errorf("after %s: %q, %v", tt.job, got, err)
		}
		if n := p.started.Load(); n != tt.started {
			t.Errorf("after %s: %d processes, want %d", tt.job, n, tt.started)
		}
	}
	silent, _ := newTestPool(t, "silent")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := ask(ctx, silent, "echo", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a worker that says nothing: %v", err)
	}
}

// An error of the receiver ends the request and its worker.
func TestReceiverFails(t *testing.T) {
	pool, p := newTestPool(t, "good")
	failed := errors.New("the client is gone")
	err := pool.Do(t.Context(), &Request{
		Job: "large", Reply: func([]byte) error { return failed },
	})
	if !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if _, err := ask(t.Context(), pool, "echo", ""); err != nil || p.started.Load() != 2 {
		t.Errorf("the next request: %v, %d processes", err, p.started.Load())
	}
}

// There are never more than MaxWorkers processes; more requests wait.
func TestPoolIsBounded(t *testing.T) {
	pool, p := newTestPool(t, "good")
	var all sync.WaitGroup
	for range 10 * MaxWorkers {
		all.Go(func() {
			if got, err := ask(t.Context(), pool, "ask", "q"); err != nil || len(got) == 0 {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	all.Wait()
	p.mu.Lock()
	if p.most > MaxWorkers || p.most < 2 {
		t.Errorf("%d processes at the same time", p.most)
	}
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var hanging sync.WaitGroup
	for range MaxWorkers {
		hanging.Go(func() { _, _ = ask(ctx, pool, "hang", "") }) // it is killed
	}
	eventually(t, "all places are taken", func() bool { return len(pool.places) == MaxWorkers })
	if _, err := ask(ctx, pool, "echo", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one request more: %v", err)
	}
	hanging.Wait()
	if got, err := ask(t.Context(), pool, "echo", "x"); got != "x" || err != nil {
		t.Errorf("afterwards: %q, %v", got, err)
	}
}

// Idle workers end, and so does one that has served enough.
func TestWorkersAreReplaced(t *testing.T) {
	pool, p := newTestPool(t, "good")
	pool.idle = 20 * time.Millisecond
	if _, err := ask(t.Context(), pool, "echo", ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the idle worker ends", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.running == 0
	})
	pool.idle = time.Minute
	for range maxJobs + 1 {
		if _, err := ask(t.Context(), pool, "echo", ""); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.started.Load(); n != 3 {
		t.Errorf("%d processes for %d requests", n, maxJobs+2)
	}
	for _, used := range []done{{cpu: maxJobCPU}, {memory: maxJobMemory}} {
		pool.mu.Lock()
		pool.free[0].used = used
		pool.mu.Unlock()
		w, _, err := pool.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pool.keep(w)
		if len(pool.free) != 0 || !w.ended {
			t.Errorf("a worker that used %+v is kept", used)
		}
		if _, err := ask(t.Context(), pool, "echo", ""); err != nil {
			t.Fatal(err)
		}
	}
}

// A pool that cannot start a worker says why.
func TestNoWorker(t *testing.T) {
	pool := NewPool(func(context.Context) (*Process, error) { return nil, syscall.EAGAIN })
	if _, err := ask(t.Context(), pool, "echo", ""); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("%v", err)
	}
}

// BenchmarkRequest measures a request with three questions to a warm worker.
func BenchmarkRequest(b *testing.B) {
	pool, _ := newTestPool(b, "good")
	for b.Loop() {
		if _, err := ask(b.Context(), pool, "ask", "x"); err != nil {
			b.Fatal(err)
		}
	}
}
