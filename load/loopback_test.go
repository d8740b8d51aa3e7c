package load

import (
	"context"
	"encoding/json"
	"math"
	"net"
	"net/netip"
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
