package load

import (
	"sync"
	"testing"
	"time"
)

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
