package load

import (
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"culprit/measure"

	"golang.org/x/sys/unix"
)

// TestDatagramReader follows iperf3 (iperf_udp_recv of iperf_udp.c), whose numbers begin at 1: a
// skipped number is lost, a late one reordered and found again. Jitter is that of RFC 3550, here
// computed by hand.
func TestDatagramReader(t *testing.T) {
	const us = 1000
	for _, tt := range []struct {
		name            string
		numbers         []uint64
		transits        []int64 // us
		lost, reordered int64
		jitter          float64 // us
	}{
		{"in order", []uint64{0, 1, 2}, []int64{500, 500, 500}, 0, 0, 0},
		{"lost", []uint64{0, 3, 4, 9}, []int64{5, 5, 5, 5}, 6, 0, 0},
		{"the first is lost", []uint64{2, 3}, []int64{5, 5}, 2, 0, 0},
		{"reordered", []uint64{0, 2, 1, 3}, []int64{5, 5, 5, 5}, 0, 1, 0},
		{"reordered and lost", []uint64{0, 5, 2, 6}, []int64{5, 5, 5, 5}, 3, 1, 0},
		{"twice", []uint64{0, 1, 1, 2}, []int64{5, 5, 5, 5}, 0, 1, 0},
		{"later by 16 us", []uint64{0, 1}, []int64{500, 516}, 0, 0, 1},
		{"earlier by 32 us, then as before", []uint64{0, 1, 2}, []int64{500, 468, 468}, 0, 0, 1.875},
		{"clocks apart", []uint64{0, 1}, []int64{-9e9, -9e9 + 16}, 0, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c datagramCounts
			r := datagramReader{counts: &c}
			for i, n := range tt.numbers {
				sent := int64(i) * 1000 * us
				r.add(n, sent, sent+tt.transits[i]*us)
			}
			if c.lost.Load() != tt.lost || c.reordered.Load() != tt.reordered {
				t.Errorf("%d lost, %d reordered, want %d and %d", c.lost.Load(), c.reordered.Load(),
					tt.lost, tt.reordered)
			}
			if got := float64(c.jitter.Load()) / us; math.Abs(got-tt.jitter) > 0.001 {
				t.Errorf("jitter %g us, want %g", got, tt.jitter)
			}
		})
	}
}

func TestBatchOf(t *testing.T) {
	for _, tt := range []struct {
		size int
		rate float64 // bytes per second
		want int
	}{
		{1448, 0, 45}, {65507, 0, 1}, {16, 0, 64},
		{1000, 1e6, 1}, {1000, 9.9e6, 1}, {1000, 10.1e6, 2}, {1000, 1e9, 64},
	} {
		if got := batchOf(tt.size, tt.rate); got != tt.want {
			t.Errorf("%d B at %g B/s: %d, want %d", tt.size, tt.rate, got, tt.want)
		}
	}
}

// datagrams is a short test over UDP at a rate that loopback carries without loss.
func datagrams(kind Kind, way Way) Test {
	test := short(kind, way)
	test.UDP, test.Size = true, 1000
	if kind == Stream {
		test.Rate, test.Window = 4e6, 1<<20
	}
	return test
}

// TestDatagramStreams compares what one end received and lost with what the other end sent.
func TestDatagramStreams(t *testing.T) {
	s := dial(t, serving(t, &Server{Token: "secret", Machine: cannedMachine()}), "secret")
	for n, way := range []Way{Up, Down, Both} {
		test := datagrams(Stream, way)
		run, err := s.Run(t.Context(), n+1, test, func(*Interval) {})
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		for _, w := range test.ways() {
			sender, receiver := run.ends(w)
			sent, got := sender.Total.way(w), receiver.Total.way(w)
			if got.UDP == nil || sent.UDP == nil || got.UDP.Count == 0 {
				t.Fatalf("%s: sent %+v, received %+v", w, sent, got)
			}
			if got.Bytes != got.UDP.Count*1000 || sent.Bytes != sent.UDP.Count*1000 {
				t.Errorf("%s: %d bytes of %d, %d of %d datagrams", w, got.Bytes, got.UDP.Count,
					sent.Bytes, sent.UDP.Count)
			}
			// The ends read their counters at other moments: 1 % of it, and a late thread.
			arrived := float64(got.UDP.Count) + float64(got.UDP.Lost)
			if d := arrived - float64(sent.UDP.Count); math.Abs(d) > 0.3*float64(sent.UDP.Count) {
				t.Errorf("%s: received and lost %.0f of %d", w, arrived, sent.UDP.Count)
			}
			if !got.UDP.Jitter.Known() || sent.UDP.Jitter.Known() || sent.UDP.Lost.Known() ||
				sent.Retransmits.Known() {
				t.Errorf("%s: sender %+v, receiver %+v", w, sent.UDP, got.UDP)
			}
		}
		r := Summarise(test, "s", "v", []*Run{run, run})
		if len(r.Ways) != len(test.ways()) || r.Ways[0].UDP == nil {
			t.Fatalf("%s: summary %+v", way, r.Ways)
		}
		_, receiver := run.ends(r.Ways[0].Way)
		one := receiver.Total.way(r.Ways[0].Way).UDP.Count
		if got := r.Ways[0].UDP.Count; got != 2*one {
			t.Errorf("%s: %d datagrams in two runs of %d", way, got, one)
		}
	}
}

// TestDatagramExchanges checks that each response is that of its request.
func TestDatagramExchanges(t *testing.T) {
	s := dial(t, serving(t, &Server{Token: "secret", Machine: cannedMachine()}), "secret")
	for n, size := range [][2]int{{1, 1}, {9, 100}, {3000, 2}} {
		test := datagrams(Exchange, Up)
		test.Ask, test.Answer = size[0], size[1]
		run, err := s.Run(t.Context(), n+1, test, func(*Interval) {})
		if err != nil {
			t.Fatal(err)
		}
		tr := run.Here.Total.way(Up)
		// The last exchange may be counted in one of the counters when they are read.
		each := float64(size[0] + size[1])
		apart := math.Abs(float64(tr.Bytes) - float64(tr.Exchanges)*each)
		if tr.Exchanges == 0 || apart > each || tr.UDP.Lost != 0 ||
			run.Here.Total.Times.Count() < tr.Exchanges {
			t.Errorf("%v: %+v %+v", size, tr, tr.UDP)
		}
	}
}

// udpPair returns two UDP sockets that are connected with each other.
func udpPair(t *testing.T) (a, b *flow) {
	t.Helper()
	var conns [2]*net.UDPConn
	for i := range conns {
		var err error
		conns[i], err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
	}
	var peers [2]netip.AddrPort
	for i := range conns {
		peers[i] = conns[1-i].LocalAddr().(*net.UDPAddr).AddrPort()
	}
	test := Test{Kind: Exchange, UDP: true}
	a, err := datagramFlow(conns[0], peers[0], &test, place{Up, 0}, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.socket.close)
	if b, err = datagramFlow(conns[1], peers[1], &test, place{Up, 0}, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.socket.close)
	return a, b
}

// TestLostResponses answers every other request: the others are lost, and a late response counts
// for no other request.
func TestLostResponses(t *testing.T) {
	client, server := udpPair(t)
	limit := unix.NsecToTimeval(int64(20 * time.Millisecond))
	if err := unix.SetsockoptTimeval(
		client.socket.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit,
	); err != nil {
		t.Fatal(err)
	}
	go func() {
		b, held := make([]byte, 100), []byte(nil)
		for n := 0; ; n++ {
			size, err := server.socket.receiveDatagram(b, 0)
			if err != nil || size != 5 {
				return
			}
			if held != nil {
				_, _ = server.socket.sendDatagram(held) // too late
				held = nil
			}
			if n%2 == 0 {
				_, _ = server.socket.sendDatagram(append([]byte(nil), b[:size]...))
			} else {
				held = append([]byte(nil), b[:size]...)
			}
		}
	}()
	exchange := client.exchanger(&Test{Kind: Exchange, UDP: true, Ask: 5, Answer: 5})
	for n := range 6 {
		if err := exchange(); (n%2 == 0) != (err == nil) || n%2 == 1 && err != errLost {
			t.Errorf("request %d: %v", n, err)
		}
	}
}

// TestConnections makes a connection for each transaction. A client of another address gets no
// response.
func TestConnections(t *testing.T) {
	s := dial(t, serving(t, &Server{Token: "secret", Machine: cannedMachine()}), "secret")
	test := short(Exchange, Up)
	test.Connect = true
	run, err := s.Run(t.Context(), 1, test, func(*Interval) {})
	if err != nil {
		t.Fatal(err)
	}
	here, there := run.Here.Total.way(Up), run.There.Total.way(Up)
	// The server may end while it counts the last exchanges.
	if here.Exchanges == 0 || here.UDP.Lost != 0 || there.Exchanges*100 < here.Exchanges*99 ||
		run.Here.Total.Times.Count() < here.Exchanges {
		t.Errorf("client %+v, server %+v", here, there)
	}
}

func TestForeignConnections(t *testing.T) {
	local := netip.MustParseAddr("127.0.0.1")
	test := Test{Kind: Exchange, Connect: true, Ask: 1, Answer: 7}
	f, port, err := listenFlow(local, &test, place{Up, 0})
	if err != nil {
		t.Fatal(err)
	}
	f.connecting = &connecting{only: netip.MustParseAddr("127.0.0.2")}
	done := make(chan error)
	go func() { done <- f.answerConnections(&test) }()
	for from, want := range map[string]int{"127.0.0.1": 0, "127.0.0.2": 7} {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "tcp", netip.AddrPortFrom(local, uint16(port)).String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte{1}) // a server that closes gets it or not
		b, n := make([]byte, 100), 0
		for err == nil {
			var got int
			got, err = c.Read(b)
			n += got
		}
		if n != want {
			t.Errorf("%s got %d bytes, want %d", from, n, want)
		}
		_ = c.Close() // it was read to its end
	}
	f.end()
	<-done
	f.socket.close()
	if f.done.Load() != 1 {
		t.Errorf("%d transactions", f.done.Load())
	}
}

// TestJoinByDatagram sends what is no join to the port of a flow: nothing is answered.
func TestJoinByDatagram(t *testing.T) {
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := join{"right", Up, 1}
	type result struct {
		peer netip.AddrPort
		err  error
	}
	got := make(chan result, 1)
	go func() {
		peer, err := acceptDatagrams(t.Context(), c, netip.MustParseAddr("127.0.0.1"), want)
		got <- result{peer, err}
	}()
	send := func(from string, m *message, raw []byte) *net.UDPConn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
		conn, err := d.DialContext(t.Context(), "udp", c.LocalAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if m != nil {
			if raw, err = appendMessage(nil, m); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Write(raw); err != nil {
			t.Fatal(err)
		}
		return conn.(*net.UDPConn)
	}
	send("127.0.0.1", nil, []byte{1})
	send("127.0.0.1", nil, []byte("0123{"))
	send("127.0.0.1", &message{Join: &join{"wrong", Up, 1}}, nil)
	send("127.0.0.1", &message{Join: &join{"right", Up, 0}}, nil)
	send("127.0.0.1", &message{Begin: &nothing{}}, nil)
	send("127.0.0.2", &message{Join: &want}, nil)
	right := send("127.0.0.1", &message{Join: &want}, nil)
	r := <-got
	if r.err != nil || r.peer.String() != right.LocalAddr().String() {
		t.Errorf("joined by %v, %v; want %v", r.peer, r.err, right.LocalAddr())
	}
}

// TestPortsOfAnOldServer checks the error of a server that does not know such tests.
func TestPortsOfAnOldServer(t *testing.T) {
	s := &Session{Server: "box:7411"}
	test := datagrams(Stream, Up)
	_, err := s.joinPorts(t.Context(), &test, &ready{ID: "x"})
	if err == nil || err.Error() != "the server at box:7411 has no ports for this test: "+
		"use the same culprit at both ends" {
		t.Error(err)
	}
}

func TestCheckDatagrams(t *testing.T) {
	for name, change := range map[string]func(*Test){
		"--size 15":         func(t *Test) { t.Size = 15 },
		"--size 65508":      func(t *Test) { t.Size = 65508 },
		"--size 65508,1":    func(t *Test) { t.Kind, t.Ask = Exchange, 65508 },
		"options of TCP":    func(t *Test) { t.Copy = true },
		"requests over TCP": func(t *Test) { t.Kind, t.Connect = Exchange, true },
	} {
		test := datagrams(Stream, Up)
		test.Ask, test.Answer, test.For = 1, 1, measure.Second
		if err := test.Check(); err != nil {
			t.Fatal(err)
		}
		change(&test)
		if err := test.Check(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
