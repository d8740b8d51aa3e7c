package load

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"culprit/heapbound"
	"culprit/measure"
)

// iperf3Server starts `iperf3 -s` on loopback and returns its address.
func iperf3Server(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("iperf3")
	if err != nil {
		t.Skip("needs: tool iperf3")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	l.Close()
	c := exec.Command(path, "-s", "-B", "127.0.0.1", "-p", port)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // and wait for its end
		_ = c.Wait()
	})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// TestIperf3 runs streams against a real server, in both directions and with several streams, and
// compares the numbers of both ends.
func TestIperf3(t *testing.T) {
	c := &Iperf3{Client: Client{Server: iperf3Server(t), Machine: cannedMachine()}}
	for n, way := range []Way{Up, Down} {
		test := short(Stream, way)
		test.For, test.Rate = measure.Second, 200e6
		run := retried(t, c, n+1, test)
		sender, receiver := run.ends(way)
		sent, got := sender.Total.way(way), receiver.Total.way(way)
		if sent.Bytes < 1e6 || math.Abs(float64(sent.Bytes)-float64(got.Bytes)) > 5e6 {
			t.Errorf("%s: sent %d bytes, received %d", way, sent.Bytes, got.Bytes)
		}
		if v := run.Throughput(way); !(v > 100e6) || v > 250e6 {
			t.Errorf("%s: %v bit/s, want about 200 Mbit/s", way, v)
		}
		if len(run.Intervals) != 10 || !run.Intervals[3].Throughput(way).Known() {
			t.Errorf("%s: %d intervals", way, len(run.Intervals))
		}
		if r := Summarise(test, "s", "v", []*Run{run}); !r.Ways[0].Throughput.Mean.Known() {
			t.Errorf("%s: summary %+v", way, r.Ways[0])
		}
	}
}

// TestIperf3Datagrams sends and receives datagrams at a rate, with a real server. Loopback loses
// some only where the receiver gets no CPU, so that both ends count the same.
func TestIperf3Datagrams(t *testing.T) {
	c := &Iperf3{Client: Client{Server: iperf3Server(t), Machine: cannedMachine()}}
	for n, way := range []Way{Up, Down} {
		test := short(Stream, way)
		test.UDP, test.Size, test.Streams = true, 1000, 2
		test.For, test.Rate = measure.Second, 16e6 // 2,000 datagrams in all
		run := retried(t, c, n+1, test)
		sender, receiver := run.ends(way)
		sent, got := sender.Total.way(way), receiver.Total.way(way)
		if sent.UDP == nil || got.UDP == nil {
			t.Fatalf("%s: sent %+v, received %+v", way, sent, got)
		}
		count := float64(got.UDP.Count) + float64(got.UDP.Lost)
		if sent.UDP.Count < 1000 || count < 0.9*float64(sent.UDP.Count)-100 ||
			count > 1.1*float64(sent.UDP.Count)+100 {
			t.Errorf("%s: sent %d datagrams, received %d and lost %v", way, sent.UDP.Count,
				got.UDP.Count, got.UDP.Lost)
		}
		if j := float64(got.UDP.Jitter); !(j > 0) || j > 1e9 {
			t.Errorf("%s: a jitter of %v ns", way, j)
		}
		if v := run.Throughput(way); !(v > 5e6) || v > 20e6 {
			t.Errorf("%s: %v bit/s, want about 16 Mbit/s", way, v)
		}
	}
}

// retried runs a test, again while the server ends its last one.
func retried(t *testing.T, c *Iperf3, number int, test Test) (run *Run) {
	t.Helper()
	var err error
	for range 50 {
		if run, err = c.Run(t.Context(), number, test, func(*Interval) {}); err == nil {
			return run
		}
		if !strings.Contains(err.Error(), "try again") &&
			!strings.Contains(err.Error(), "is `iperf3 -s` running there?") &&
			!strings.Contains(err.Error(), "closed the connection") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("%s: %v", test.Way, err)
	return nil
}

// TestIperf3Head: heads of both formats return what was written, and the first datagram of iperf3
// has the number 1.
func TestIperf3Head(t *testing.T) {
	for _, iperf3 := range []bool{false, true} {
		d := datagramCounts{iperf3: iperf3}
		b := make([]byte, datagramHead)
		d.putHead(b, 4, 3*time.Second+5*time.Microsecond)
		if number, sent, ok := d.readHead(b); number != 4 || sent != 3_000_005_000 || !ok {
			t.Errorf("iperf3 %v: number %d, %d ns, %v", iperf3, number, sent, ok)
		}
		if iperf3 && !bytes.Equal(b, []byte{0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 5}) {
			t.Errorf("the head is %v", b)
		}
		if _, _, ok := d.readHead(make([]byte, datagramHead)); ok {
			t.Errorf("iperf3 %v: zeros are a datagram", iperf3)
		}
	}
}

// TestForeignIperf3 answers as servers that are not iperf3, or refuse.
func TestForeignIperf3(t *testing.T) {
	for name, tt := range map[string]struct {
		says []byte
		want string
	}{
		"busy":     {[]byte{iperf3Refused}, "runs another test"},
		"an error": {[]byte{iperf3Error, 0, 0, 0, 7, 0, 0, 0, 13}, "error 7: permission denied"},
		"gone":     {[]byte{iperf3Gone}, "has ended"},
		"HTTP":     {[]byte("HTTP/1.1 400 Bad Request\r\n"), "is not iperf3 -s: it sent state 72"},
		"nothing":  {nil, "closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				b := make([]byte, iperf3Cookie)
				_, _ = c.Read(b)
				_, _ = c.Write(tt.says) // the client may be gone
				c.Close()
			}()
			c := &Iperf3{Client: Client{Server: l.Addr().String()}}
			_, err = c.Run(t.Context(), 1, short(Stream, Up), func(*Interval) {})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestCheckIperf3(t *testing.T) {
	for name, change := range map[string]func(*Test){
		"one direction":  func(t *Test) { t.Way = Both },
		"at most 128":    func(t *Test) { t.Streams = 129 },
		"1 MiB":          func(t *Test) { t.Size = 1<<20 + 1 },
		"streams in one": func(t *Test) { t.Kind = Exchange },
	} {
		test := short(Stream, Up)
		if err := test.CheckIperf3(); err != nil {
			t.Fatal(err)
		}
		change(&test)
		if err := test.CheckIperf3(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzIperf3Result(f *testing.F) {
	add := func(text string) {
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	}
	add(`{"cpu_util_total":1.5,"sender_has_retransmits":1,"streams":[{"id":1,"bytes":5,"end_time":1}]}`)
	add(`{"streams":[{"end_time":1e308,"start_time":-1e308,"bytes":18446744073709551615}]}`)
	add(`{"streams":[{"end_time":1,"retransmits":9223372036854775807}],"cpu_util_total":-1}`)
	add(`{"streams":[{"packets":9,"errors":2,"jitter":1e-5},{"packets":1e300,"errors":-1}]}`)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, '{'})
	heapbound.Fuzz(f, func(t *testing.T, b []byte) {
		var v iperf3Result
		if err := readIperf3Result(bytes.NewReader(b), &v); err != nil {
			return
		}
		for _, udp := range []bool{false, true} {
			r := &iperf3Run{test: short(Stream, Up), address: "a"}
			r.test.UDP = udp
			if err := r.endOf(&v).check(); err != nil {
				t.Fatal(fmt.Errorf("%s: %w", b, err))
			}
		}
	})
}
