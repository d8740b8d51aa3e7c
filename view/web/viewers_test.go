package web

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"culprit/measure"
)

// openStream opens a live view on a connection of its own and returns its stream, behind the HTTP
// header.
func openStream(
	t testing.TB, s *site, path string, change func(*net.TCPConn),
) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c.(*net.TCPConn))
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+token+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReaderSize(c, 1024)
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		t.Fatalf("%s: %s %s", path, res.Status, b)
	}
	return c.(*net.TCPConn), bufio.NewReaderSize(res.Body, 1024)
}

func liveURL(
	sentences ...string,
) string {
	return "/api/live?" + url.Values{"q": sentences}.Encode()
}

// A thousand viewers of a few queries: each gets each tick, each query runs once per tick, and a
// viewer takes little memory.
func TestThousandViewers(t *testing.T) {
	const viewers, ticks = 1000, 5
	m := newMemory(t).filled(1)
	s := serve(t, m).until(start + second)
	paths := []string{
		liveURL("net.device.bytes by device,direction", "memory.free"),
		liveURL("memory.free"),
		liveURL("cpu.time by mode", "tcp.rtt by peer"),
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	streams := make([]*bufio.Reader, viewers)
	for i := range streams {
		c, r := openStream(t, s, paths[i%len(paths)], nil)
		defer c.Close()
		streams[i] = r
	}
	arrived := make(chan error, viewers)
	for i, r := range streams {
		go func() {
			for n := 1; n <= ticks; n++ {
				var tick struct {
					AtMS float64 `json:"at_ms"`
				}
				name, data := sse(t, r)
				if err := json.Unmarshal([]byte(data), &tick); err != nil || name != "tick" ||
					tick.AtMS != float64((start+measure.Time(n)*second)/1e6) {
					arrived <- fmt.Errorf("viewer %d, tick %d: %s %v %.100s", i, n, name, err, data)
					return
				}
				arrived <- nil
			}
		}()
	}
	for n := 1; n <= ticks; n++ {
		for range viewers {
			if err := <-arrived; err != nil {
				t.Fatal(err)
			}
		}
		if n == 1 {
			m.mu.Lock()
			m.asked = 0
			m.mu.Unlock()
			runtime.GC()
			runtime.ReadMemStats(&after)
			used := func(m *runtime.MemStats) int64 { return int64(m.HeapAlloc + m.StackInuse) }
			each := (used(&after) - used(&before)) / viewers
			t.Logf("%d bytes per viewer, the client's side included", each)
			if each > 100_000 {
				t.Errorf("%d bytes per viewer", each)
			}
			if got := s.live.viewers.Load(); got != viewers {
				t.Errorf("%d viewers", got)
			}
		}
		if n < ticks {
			m.add(start+measure.Time(n+1)*second, m.ticks[0].rows)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if want := 4 * (ticks - 1); m.asked != want {
		t.Errorf("asked %d times in %d ticks, want %d", m.asked, ticks-1, want)
	}
}

// A viewer that does not read delays no other. When it reads again, it gets a gap event and then
// the newest tick.
func TestSlowViewer(t *testing.T) {
	m := newMemory(t)
	rows := map[measure.StatID][]line{}
	for i := range 3000 {
		rows["tcp.rtt"] = append(
			rows["tcp.rtt"],
			line{
				[]string{fmt.Sprintf("a peer with a long name, number %d", i)},
				float64(i) + 0.123,
			},
		)
	}
	m.add(start+second, rows)
	s := serve(t, m).until(start + second)
	path := liveURL("tcp.rtt by peer") + "&top=5000"
	slowConn, slow := openStream(
		t, s, path, func(c *net.TCPConn) { _ = c.SetReadBuffer(256 << 10) },
	)
	defer slowConn.Close()
	fastConn, fast := openStream(t, s, path, nil)
	defer fastConn.Close()
	fast = bufio.NewReaderSize(fast, 1<<20)
	const ticks = 60
	for n := 1; n <= ticks; n++ {
		if name, data := sse(t, fast); name != "tick" || len(data) < 100_000 {
			t.Fatalf("tick %d of the fast viewer: %s, %d bytes", n, name, len(data))
		}
		if n < ticks {
			m.add(start+measure.Time(n+1)*second, rows)
		}
	}
	slow = bufio.NewReaderSize(slow, 1<<20)
	var last, before, missed, got int
	for last < ticks {
		name, data := sse(t, slow)
		var e struct {
			AtMS   int `json:"at_ms"`
			FromMS int `json:"from_ms"`
			ToMS   int `json:"to_ms"`
			Reason string
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		switch name {
		case "gap":
			from, to := e.FromMS/1000-int(start/1e9), e.ToMS/1000-int(start/1e9)
			if from != last || to <= from || e.Reason == "" {
				t.Fatalf("gap %+v after tick %d", e, last)
			}
			missed += to - from
			last = to
		case "tick":
			at := e.AtMS/1000 - int(start/1e9)
			if got == 0 &&
				missed == 0 { // it begins with the newest, which by then may be a later one
				before, last = at-1, at-1
			}
			if at != last+1 {
				t.Fatalf("tick %d after %d without a gap", at, last)
			}
			last, got = at, got+1
		}
	}
	t.Logf("%d ticks, %d missed", got, missed)
	if missed == 0 || before+got+missed != ticks {
		t.Errorf("%d ticks and %d missed of %d after the first %d", got, missed, ticks, before)
	}
}

// Live views end with the server, and with the recording.
func TestLiveEnds(t *testing.T) {
	m := newMemory(t).filled(1)
	s := serve(t, m).until(start + second)
	c, r := openStream(t, s, liveURL("memory.free"), nil)
	defer c.Close()
	// sse reads the next event of a stream.
	sse(t, r)
	s.Close()
	if rest, err := io.ReadAll(r); err != nil || strings.Contains(string(rest), "event") {
		t.Errorf("%v %q", err, rest)
	}
	for deadline := time.Now().Add(10 * time.Second); s.live.viewers.Load() != 0; {
		if time.Now().After(deadline) {
			t.Fatal("a viewer is left")
		}
		time.Sleep(time.Millisecond)
	}
	s.live.mu.Lock()
	defer s.live.mu.Unlock()
	if len(s.live.feeds) != 0 {
		t.Error("a feed is left")
	}
}

func TestLiveRefuses(t *testing.T) {
	s := serve(t, newMemory(t).filled(1)).until(start + second)
	many := make([]string, maxLiveQueries+1)
	for i := range many {
		many[i] = "memory.free"
	}
	for path, want := range map[string]string{
		"/api/live":                           "400 bad-request",
		liveURL(many...):                      "400 bad-request",
		liveURL("memory.free", "no.such"):     "400 unknown-statistic",
		liveURL("memory.free") + "&columns=3": "400 bad-request",
	} {
		if got := s.code(s.get(path)); got != want {
			t.Errorf("%.60s: %s, want %s", path, got, want)
		}
	}
}

// BenchmarkViewers measures one event at one viewer. 100 viewers watch six answers each, with ten
// rows, like the page of a machine. cpu-ns is the CPU time of the whole process per event, with the
// clients' reading.
func BenchmarkViewers(b *testing.B) {
	const viewers = 100
	m := newMemory(b)
	rows := map[measure.StatID][]line{"memory.free": {{nil, 1e9}}}
	for i := range 10 {
		rows["net.device.bytes"] = append(
			rows["net.device.bytes"],
			line{[]string{fmt.Sprintf("eth%d", i), "rx"}, 1234567.5 * float64(i)},
		)
		rows["cpu.time"] = append(
			rows["cpu.time"], line{[]string{fmt.Sprint(i), "user"}, 123456789},
		)
		rows["tcp.rtt"] = append(
			rows["tcp.rtt"], line{[]string{fmt.Sprint("10.0.0.", i), "x"}, 1e6 / 3.0},
		)
	}
	m.add(start+second, rows)
	s := serve(b, m).until(start + second)
	path := liveURL(
		"net.device.bytes by device", "cpu.time by cpu,mode", "tcp.rtt by peer", "memory.free",
		"net.device.bytes by direction", "cpu.time by mode",
	)
	var seen atomic.Int64
	var read atomic.Int64
	var all sync.WaitGroup
	var conns []*net.TCPConn
	for range viewers {
		c, r := openStream(b, s, path, nil)
		all.Go(func() {
			r := bufio.NewReaderSize(r, 16<<10)
			for {
				l, err := r.ReadSlice('\n')
				if err != nil {
					return
				}
				read.Add(int64(len(l)))
				if strings.HasPrefix(string(l), "event: tick") {
					seen.Add(1)
				}
			}
		})
		conns = append(conns, c)
	}
	defer func() {
		for _, c := range conns {
			c.Close()
		}
		all.Wait()
	}()
	wait := func(n int64) {
		for seen.Load() < n {
			runtime.Gosched()
			time.Sleep(50 * time.Microsecond)
		}
	}
	wait(viewers)
	read.Store(0)
	var u0, u1 syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u0)
	b.ResetTimer()
	for i := range b.N {
		m.mu.Lock()
		m.ticks = m.ticks[:0]
		m.mu.Unlock()
		m.add(start+measure.Time(i+2)*second, rows)
		wait(int64(viewers * (i + 2)))
	}
	b.StopTimer()
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u1)
	cpu := u1.Utime.Nano() + u1.Stime.Nano() - u0.Utime.Nano() - u0.Stime.Nano()
	b.ReportMetric(float64(cpu)/float64(b.N*viewers), "cpu-ns/event")
	b.ReportMetric(float64(read.Load())/float64(b.N*viewers), "B/event")
}
