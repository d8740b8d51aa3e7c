package load

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// serving starts a server on loopback, which ends with the test.
func serving(t *testing.T, s *Server) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if s.Tests == 0 {
		s.Tests = 2
	}
	if s.Longest == 0 {
		s.Longest = measure.Minute
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// canned is a machine with constant numbers.
type canned struct{}

func (canned) Watch(ctx context.Context, queries []measure.Query, each func(*measure.Tick) error,
) error {
	tick := time.NewTicker(queries[0].Step.AsDuration())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			end := measure.Time(now.UnixNano())
			out := &measure.Tick{Over: measure.Interval{Start: end.Add(-queries[0].Step), End: end}}
			for n, q := range queries {
				a := &measure.Answer{Query: q, Elapsed: []measure.Span{queries[0].Step}}
				row := func(v float64, words ...string) {
					var key []measure.Label
					for _, w := range words {
						key = append(key, measure.Label(len(a.Labels)))
						a.Labels = append(a.Labels, w)
					}
					a.Series = append(a.Series, measure.Series{Key: key, Values: []float64{v}})
				}
				switch n {
				case 0:
					row(0.25, "0", "usr")
					row(0.75, "0", "idle")
					row(0.5, "1", "sys")
					row(0.1, "1", "soft")
					row(0.4, "1", "iowait")
				case 1:
					row(1e6, "", "lo", "tx")
					row(7e9, "other", "lo", "tx")
				case 2:
					row(16e6, "", "lo", "tx", "qdisc")
					row(1e9, "", "lo", "tx", "ethtool")
				}
				out.Answers = append(out.Answers, a)
			}
			if err := each(out); err != nil {
				return err
			}
		}
	}
}

func cannedMachine() Machine {
	return Machine{
		ID:     "one",
		Host:   "box",
		Watch:  canned{},
		Device: func(netip.Addr, netip.Addr) (string, error) { return "lo", nil },
		Diagnose: func(ctx context.Context, _ measure.Span) (json.RawMessage, error) {
			<-ctx.Done()
			return json.RawMessage(`{"findings":[]}`), nil
		},
	}
}

// dial connects a client to the server.
func dial(t *testing.T, address, token string) *Session {
	t.Helper()
	c := &Client{Server: address, Token: token, Machine: cannedMachine()}
	s, err := c.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func short(kind Kind, way Way) Test {
	return Test{Kind: kind, Way: way, Streams: 2, For: 350 * measure.Millisecond,
		Every: 100 * measure.Millisecond, Size: 64 << 10, Ask: 3, Answer: 100, Look: true}
}

// TestStreams checks that one end receives what the other sends, in each direction, by interval and
// in total.
func TestStreams(t *testing.T) {
	address := serving(t, &Server{Token: "secret", Machine: cannedMachine()})
	s := dial(t, address, "secret")
	for n, way := range []Way{Up, Down, Both} {
		test := short(Stream, way)
		test.Copy = n == 2
		var reported []*Interval
		report := func(i *Interval) { reported = append(reported, i) }
		run, err := s.Run(t.Context(), n+1, test, report)
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		if len(reported) != 4 || len(run.Intervals) != 4 {
			t.Fatalf("%s: %d intervals were reported, the result has %d", way, len(reported), len(run.Intervals))
		}
		for _, w := range test.ways() {
			sender, receiver := run.ends(w)
			sent, got := sender.Total.way(w), receiver.Total.way(w)
			if !sent.Sends || got.Sends || got.Bytes == 0 || sent.Bytes == 0 {
				t.Errorf("%s: sent %+v, received %+v", w, sent, got)
			}
			var sum uint64
			for _, i := range reported {
				if i.Run != n+1 || i.There == nil || i.Over.Span() <= 0 {
					t.Fatalf("%s: interval %+v", w, i)
				}
				p := i.There
				if w == Down {
					p = i.Here
				}
				sum += p.way(w).Bytes
			}
			if sum != got.Bytes {
				t.Errorf("%s: the intervals have %d bytes, the whole %d", w, sum, got.Bytes)
			}
			if v := run.Throughput(w); !(v > 1e6) ||
				math.Abs(float64(v)*receiver.Total.Seconds()/8-float64(got.Bytes)) > 1 {
				t.Errorf("%s: %v bit/s", w, v)
			}
			if !sent.Retransmits.Known() || !(sent.Segments > 0) || !(sent.RTT > 0) ||
				!(sent.Cwnd > 0) ||
				sent.Busy > 1 {
				t.Errorf("%s: numbers of the sender's kernel: %+v", w, sent)
			}
		}
		for _, e := range []*End{run.Here, run.There} {
			u := e.Total.CPU
			if math.Abs(float64(u.Machine)-0.85) > 1e-9 || u.Of != 2 || u.Busiest != "1" ||
				math.Abs(float64(u.Share)-0.6) > 1e-9 ||
				!(u.Process > 0) ||
				!(u.Traffic > 0) ||
				u.Thread > u.Traffic {
				t.Errorf("%s: CPU %+v", way, u)
			}
			if w := e.Wire[0]; w.Direction != "tx" || w.Rate != 8e6 || w.Capacity != 16e6 ||
				w.From != "qdisc" ||
				w.Share != 0.5 {
				t.Errorf("%s: wire %+v", way, e.Wire)
			}
			if string(e.Report) != `{"findings":[]}` || len(e.Unknown) > 0 {
				t.Errorf("%s: diagnosis %s, unknown %v", way, e.Report, e.Unknown)
			}
		}
	}
}

// TestExchanges checks that both ends count the same exchanges, each with a latency.
func TestExchanges(t *testing.T) {
	address := serving(t, &Server{})
	s := dial(t, address, "")
	run, err := s.Run(t.Context(), 1, short(Exchange, Up), func(*Interval) {})
	if err != nil {
		t.Fatal(err)
	}
	here, there := run.Here.Total.way(Up), run.There.Total.way(Up)
	if here.Exchanges == 0 || there.Exchanges == 0 || here.Bytes != here.Exchanges*103 ||
		there.Bytes != there.Exchanges*103 {
		t.Errorf("%d exchanges of %d bytes here, %d of %d there", here.Exchanges, here.Bytes,
			there.Exchanges, there.Bytes)
	}
	p := run.Here.Total.Times.Percentiles()
	if p == nil || p.Count < here.Exchanges || !(p.Least > 0) || p.P50 < p.Least || p.P99 < p.P50 ||
		p.Most < p.P999 {
		t.Fatalf("times %+v of %d", p, here.Exchanges)
	}
	if run.There.Unknown["cpu"] == "" || run.There.Total.CPU.Machine.Known() {
		t.Errorf("a server without a Machine: %+v %v", run.There.Total.CPU, run.There.Unknown)
	}
}

// asking runs exchanges over a connection until the given number have ended. It returns both flows,
// when their threads have ended, and the time.
func asking(t *testing.T, test Test, until uint64) (asks, answers *flow, took time.Duration) {
	t.Helper()
	a, b := pair(t)
	asks = &flow{socket: a, sends: true, times: newCounter(), late: newCounter()}
	answers = &flow{socket: b}
	var threads sync.WaitGroup
	began := time.Now()
	for _, f := range []*flow{asks, answers} {
		threads.Go(func() {
			f.prepare()
			f.run(&test, began)
		})
	}
	deadline := began.Add(20 * time.Second)
	for ; asks.done.Load() < until; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d exchanges of %d", asks.done.Load(), until)
		}
	}
	answers.over.Store(true)
	asks.end()
	answers.end()
	threads.Wait()
	took = time.Since(began)
	if asks.err != nil || answers.err != nil {
		t.Errorf("ended in the middle: %v, %v", asks.err, answers.err)
	}
	return asks, answers, took
}

// TestBothEndsCountExchanges checks that both ends count the same exchanges, except one in
// progress. Each has a latency, and their sum is at most the time of the run.
func TestBothEndsCountExchanges(t *testing.T) {
	asks, answers, took := asking(t,
		Test{Kind: Exchange, Way: Up, Streams: 1, Ask: 7, Answer: 20000}, 500)
	n, m := asks.done.Load(), answers.done.Load()
	l := gather([]*counter{asks.times})
	if m != n && m != n+1 || asks.moved.Load() != n*20007 || l.Count() != n {
		t.Errorf("%d exchanges were asked and %d answered, %d bytes moved, %d timed", n, m,
			asks.moved.Load(), l.Count())
	}
	if l.Sum > float64(took) || l.Sum < float64(n)*float64(l.Least) {
		t.Errorf("exchanges one after the other took %.0f ns of %d", l.Sum, took)
	}
}

// TestPacedExchanges checks that no exchange begins early, and none is omitted.
func TestPacedExchanges(t *testing.T) {
	asks, _, took := asking(t,
		Test{Kind: Exchange, Way: Up, Streams: 1, Ask: 1, Answer: 1, Pace: 500}, 50)
	n := asks.done.Load()
	if most := uint64(took.Seconds()*500) + 1; n > most {
		t.Errorf("%d exchanges at 500/s in %v", n, took)
	}
	times, late := gather([]*counter{asks.times}), gather([]*counter{asks.late})
	if times.Count() != n || late.Count() < n || late.Count() > n+1 {
		t.Errorf("%d exchanges, %d timed, %d begun", n, times.Count(), late.Count())
	}
}

// TestPacedLatencyIncludesDelay checks that a pause of 100 ms at the other end is in the latencies
// of all exchanges due in it.
func TestPacedLatencyIncludesDelay(t *testing.T) {
	a, b := pair(t)
	test := short(Exchange, Up)
	test.Pace, test.Streams, test.Ask, test.Answer = 1000, 1, 1, 1
	fa := &flow{socket: a, sends: true, times: newCounter(), late: newCounter()}
	var threads sync.WaitGroup
	threads.Go(func() {
		fa.prepare()
		fa.run(&test, time.Now())
	})
	request := make([]byte, 1)
	for n := range 200 {
		if m, err := b.receive(request, 0); err != nil || m != 1 {
			t.Fatal(m, err)
		}
		if n == 50 {
			time.Sleep(100 * time.Millisecond)
		}
		if err := b.send(request); err != nil {
			t.Fatal(err)
		}
	}
	fa.end()
	threads.Wait()
	l := gather([]*counter{fa.times})
	slow := 0
	for _, q := range []float64{0.55, 0.65, 0.75, 0.85, 0.95} {
		if l.Quantile(q) > 5e6 {
			slow++
		}
	}
	if slow == 0 || l.Most < 100e6 {
		t.Errorf(
			"of 200 exchanges at 1000/s with a stand of 100 ms, p75 %.0f ns, p95 %.0f ns, max %d ns: those that it held up were not counted from when they were due",
			l.Quantile(0.75), l.Quantile(0.95), l.Most,
		)
	}
}

// pair returns both ends of a connection over loopback.
func pair(t *testing.T) (a, b *socket) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = socketOf(c.(*net.TCPConn)); err != nil {
		t.Fatal(err)
	}
	if b, err = socketOf(d.(*net.TCPConn)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.close()
		b.close()
	})
	return a, b
}

// TestAllArrives checks that all sent data arrive, except data under way at the end, with and
// without copying.
func TestAllArrives(t *testing.T) {
	for _, copied := range []bool{false, true} {
		a, b := pair(t)
		test := Test{Kind: Stream, Way: Up, Streams: 1, Size: 1000, Copy: copied}
		from, to := &flow{socket: a, sends: true}, &flow{socket: b}
		var threads sync.WaitGroup
		for _, f := range []*flow{from, to} {
			threads.Go(func() {
				f.prepare()
				f.run(&test, time.Now())
			})
		}
		deadline := time.Now().Add(20 * time.Second)
		for to.moved.Load() < 50e6 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
		to.over.Store(true)
		from.over.Store(true)
		if err := unix.Shutdown(a.fd, unix.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		threads.Wait()
		// The write that the end interrupted can have sent a part.
		if sent, got := from.moved.Load(), to.moved.Load(); got < 50e6 || got < sent ||
			got > sent+1000 {
			t.Errorf("copied %v: %d bytes were sent, %d came in", copied, sent, got)
		}
	}
}

// TestRate checks that a stream has its rate, over all connections.
func TestRate(t *testing.T) {
	address := serving(t, &Server{})
	s := dial(t, address, "")
	test := short(Stream, Up)
	test.Rate, test.For = 80e6, 500*measure.Millisecond
	run, err := s.Run(t.Context(), 1, test, func(*Interval) {})
	if err != nil {
		t.Fatal(err)
	}
	if v := run.Throughput(Up); v < 1e6 || v > 84e6 { // a busy machine can be slower
		t.Errorf("%v bit/s at --rate 80Mbit/s", v)
	}
}

func TestRefusals(t *testing.T) {
	address := serving(t, &Server{Token: "secret", Tests: 8, Longest: measure.Second})
	refused := func(what string, err error, words ...string) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: nothing is wrong", what)
			return
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", what, err, w)
			}
		}
	}
	_, err := (&Client{Server: address, Token: "wrong"}).Dial(t.Context())
	refused("a wrong token", err, "refuses", "token")
	_, err = (&Client{Server: address}).Dial(t.Context())
	refused("no token", err, "CULPRIT_LOAD_TOKEN")

	test := short(Stream, Up)
	test.For = 2 * measure.Second
	_, err = dial(t, address, "secret").Run(t.Context(), 1, test, nil)
	refused("a long test", err, "--longest", "1s")

	test = short(Stream, Up)
	test.Congestion = "nosuch"
	_, err = dial(t, address, "secret").Run(t.Context(), 1, test, nil)
	refused("an algorithm that there is not", err, "nosuch", "this kernel has", "cubic")
	test.Way = Down
	_, err = dial(t, address, "secret").Run(t.Context(), 1, test, nil)
	refused("an algorithm that the server has not", err, "at the server", "nosuch")

	address = serving(t, &Server{Token: "secret", Tests: 1})
	first, second := dial(t, address, "secret"), dial(t, address, "secret")
	one := &Test{
		Kind: Stream, Way: Up, Streams: 1, For: measure.Second, Every: measure.Second, Size: 1,
	}
	if err := first.write(&message{Test: one}); err != nil {
		t.Fatal(err)
	}
	if m, err := first.next(t.Context(), time.Second*5); err != nil || m.Ready == nil {
		t.Fatal(m, err)
	}
	_, err = second.Run(t.Context(), 1, short(Stream, Up), nil)
	refused("a second test", err, "--tests")
	first.Close() // frees its place
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err = dial(t, address,
			"secret").Run(t.Context(), 1, short(Stream, Up), func(*Interval) {})
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the place of a client that is gone is not free: %v", err)
		}
	}

	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := writeMessage(c, &message{Call: &call{Version: 99}}); err != nil {
		t.Fatal(err)
	}
	if m, err := readMessage(c, maxFirstMessage); err != nil || m.Refused == nil ||
		m.Refused.Code != refusedVersion {
		t.Errorf("another version is answered %+v, %v", m, err)
	}
	// A client that joins an unknown test, or does not speak the protocol, is disconnected.
	for _, b := range []string{"GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x2a" + `{"join":{"id":"abc","way":"up","stream":0}}`} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(b)); err != nil {
			t.Fatal(err)
		}
		c.SetReadDeadline(
			time.Now().Add(10 * time.Second),
		) //nolint:errcheck // without a deadline the test waits longer
		if got, err := io.ReadAll(c); errors.Is(err, os.ErrDeadlineExceeded) || len(got) > 0 {
			t.Errorf("%q is answered %q, %v", b, got, err)
		}
		c.Close()
	}
}

// TestUnknownServers checks the client's errors for servers that don't speak the protocol.
func TestUnknownServers(t *testing.T) {
	answering := func(answer string) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Write([]byte(answer)) //nolint:errcheck // the client reports what it got
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, c) //nolint:errcheck // until the client disconnects
				c.Close()
			}
		}()
		return l.Addr().String()
	}
	hello, err := appendMessage(nil, &message{Hello: &hello{Version: 7, Open: true}})
	if err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "is not culprit load serve",
		"":                                 "closed the connection",
		string(hello):                      "version 7",
	} {
		_, err := (&Client{Server: answering(answer)}).Dial(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", answer, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	if _, err := (&Client{Server: address}).Dial(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "culprit load serve --listen") {
		t.Errorf("nobody there: %v", err)
	}
	foreign := &Client{Server: address, Bind: netip.MustParseAddr("203.0.113.7")}
	if _, err := foreign.Dial(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "--bind 203.0.113.7") {
		t.Errorf("an address of others: %v", err)
	}
}

// TestInterrupted checks that an interrupted test has the numbers of both ends so far, and that the
// server continues.
func TestInterrupted(t *testing.T) {
	address := serving(t, &Server{Machine: cannedMachine()})
	s := dial(t, address, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	test := short(Stream, Down)
	test.For = 30 * measure.Second
	run, err := s.Run(ctx, 1, test, func(i *Interval) {
		if i.N == 2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || run == nil || run.Early == "" ||
		len(run.Intervals) < 2 ||
		len(run.Intervals) > 20 {
		t.Fatalf("%+v, %v", run, err)
	}
	if run.There == nil || !(run.Throughput(Down) > 1e6) || run.There.Total.way(Down).Bytes == 0 {
		t.Errorf("the server's part: %+v", run.There)
	}
	next := dial(t, address, "")
	if _, err := next.Run(t.Context(), 1, short(Stream, Up), func(*Interval) {}); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// TestClientGone checks that a test ends, with its threads, when its client dies.
func TestClientGone(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	address := serving(t, &Server{Tests: 1, Say: func(s string) {
		mu.Lock()
		lines = append(lines, s)
		mu.Unlock()
	}})
	s := dial(t, address, "")
	test := short(Stream, Down)
	test.For = 30 * measure.Second
	_, err := s.Run(t.Context(), 1, test, func(*Interval) { s.conn.Close() })
	if err == nil {
		t.Fatal("a broken connection is no error")
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		mu.Lock()
		all := strings.Join(lines, "\n")
		mu.Unlock()
		if strings.Contains(all, "ended early") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server goes on with a client that is gone: %q", all)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestHostPort(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.2": "10.0.0.2:7411", "10.0.0.2:99": "10.0.0.2:99", "host": "host:7411", "host:": "host:7411", "::1": "[::1]:7411", "[::1]": "[::1]:7411", "[fe80::1%eth0]:7": "[fe80::1%eth0]:7",
	} {
		if got, err := HostPort(text); got != want || err != nil {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":7411", "host:x", "host:70000", "a:b:c", "host:0"} {
		if got, err := HostPort(text); err == nil {
			t.Errorf("%q is %s", text, got)
		}
	}
}

// TestDataPathDoesNotAllocate checks that writes, reads and exchanges don't allocate.
func TestDataPathDoesNotAllocate(t *testing.T) {
	a, b := pair(t)
	fa, fb := &flow{socket: a}, &flow{socket: b}
	one, buf := make([]byte, 100), make([]byte, 100)
	c := newCounter()
	if n := testing.AllocsPerRun(100, func() {
		if a.send(one) != nil || fb.readFull(buf) != nil ||
			b.send(one) != nil || fa.readFull(buf) != nil {
			t.Fatal("the connection broke")
		}
		c.add(1)
	}); n != 0 {
		t.Errorf("an exchange allocates %v times", n)
	}
}

// TestManyConnections checks that more than maxUnidentified connections can join, and that silent
// connections don't block others for long.
func TestManyConnections(t *testing.T) {
	address := serving(t, &Server{Token: "secret", firstTimeout: 500 * time.Millisecond})
	for range maxUnidentified {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte{0, 0, 0, 9, '{'}); err != nil {
			t.Fatal(err)
		}
	}
	s := dial(t, address, "secret")
	test := short(Exchange, Up)
	test.Streams = 3 * maxUnidentified
	run, err := s.Run(t.Context(), 1, test, func(*Interval) {})
	if err != nil {
		t.Fatal(err)
	}
	if run.Here.Total.way(Up).Exchanges == 0 || run.There.Total.way(Up).Exchanges == 0 {
		t.Errorf("nothing went over %d connections", test.Streams)
	}
}
