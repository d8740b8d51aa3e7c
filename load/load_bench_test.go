package load

import (
	"net"
	"sync"
	"testing"
	"time"
)

// benchPair returns both ends of a connection over loopback.
func benchPair(b *testing.B) (x, y *socket) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var ends [2]*net.TCPConn
	connect := func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) }
	for i, open := range []func() (net.Conn, error){connect, l.Accept} {
		c, err := open()
		if err != nil {
			b.Fatal(err)
		}
		ends[i] = c.(*net.TCPConn)
	}
	if x, err = socketOf(ends[0]); err != nil {
		b.Fatal(err)
	}
	if y, err = socketOf(ends[1]); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		x.close()
		y.close()
	})
	return x, y
}

// BenchmarkExchange is a transaction of one byte each way, as in rr, with its latency counted.
func BenchmarkExchange(b *testing.B) {
	x, y := benchPair(b)
	test := Test{Kind: Exchange, Way: Up, Streams: 1, Ask: 1, Answer: 1}
	asks, answers := &flow{socket: x, sends: true, times: newCounter(), late: newCounter()}, &flow{
		socket: y,
	}
	var in threadSlots
	in.add(3)
	defer in.add(-3)
	var threads sync.WaitGroup
	began := time.Now()
	for _, f := range []*flow{asks, answers} {
		threads.Go(func() {
			f.prepare()
			f.run(&test, began)
		})
	}
	b.ResetTimer()
	for from := asks.done.Load(); asks.done.Load() < from+uint64(b.N); {
		time.Sleep(100 * time.Microsecond)
	}
	b.StopTimer()
	answers.over.Store(true)
	asks.end()
	answers.end()
	threads.Wait()
}

// BenchmarkCount is the cost of counting the latency of a transaction.
func BenchmarkCount(b *testing.B) {
	c := newCounter()
	for i := range b.N {
		c.add(int64(i & 0xffff))
	}
}
