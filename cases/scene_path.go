package cases

import (
	"fmt"
	"time"
)

// pathStories are connections whose path or buffer is the limit, each with a twin that works.
func pathStories() []Story {
	return []Story{
		{
			Name: "send-buffer", Twin: "send-buffer-ample", Needs: needTun,
			Help:  "a program sets SO_SNDBUF to 32 kB and sends over a path of 40 ms",
			build: bufferScene(32 << 10),
		},
		{
			Name: "send-buffer-ample", Needs: needTun,
			Help:  "the same with the buffer of the kernel; the program has 1 MB each second",
			build: bufferScene(0),
		},
		{
			Name: "nagle-delay", Twin: "nagle-off",
			Help:  "a client writes each request in two pieces, the second waits for 40 ms",
			build: piecesScene(true),
		},
		{
			Name:  "nagle-off",
			Help:  "the same pieces with TCP_NODELAY",
			build: piecesScene(false),
		},
		{
			Name: "mtu-black-hole", Twin: "mtu-small",
			Help:  "a switch drops frames above 1,400 bytes without a word",
			build: switchScene(1400, 1500),
		},
		{
			Name:  "mtu-small",
			Help:  "the same switch, and the hosts know its MTU",
			build: switchScene(1400, 1400),
		},
	}
}

// bufferScene has a sender over a cable of 100 Mbit/s with a round trip of 40 ms: 500 kB would be
// under way. buffer 0: it sends less than its buffer and the path take.
func bufferScene(buffer int) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		src, dst := pair(l, taps(l, Wire{Mbit: 100, Delay: 20 * time.Millisecond}))
		at := "10.20.3.34:7070"
		sc.load(Program{Name: "store", Act: "sink", On: dst, Args: []string{"-at", at}})
		args := []string{"-to", at, "-buffer", fmt.Sprint(buffer), "-chunk", "8192"}
		if buffer == 0 {
			args = append(args, "-rate", "1e6")
		}
		d := sc.load(Program{Name: "backup", Act: "stream", On: src, Args: args})
		sc.Where = src
		sc.try("ip netns exec %s ss -tinmp dst %s", src.NS, at)
		sent := Range{What: "sent", Low: 0.7e6, High: 1.1e6, Unit: "byte/s",
			Read: func() (float64, time.Time) { c := d.Count(); return float64(c.Bytes), c.At }}
		if buffer == 0 {
			sc.Truth = Truth{Never: []string{"send-buffer", "tcp-stalled"}, Expect: []Range{sent}}
			return
		}
		sent.Low, sent.High = 0.2e6, 2.5e6
		sc.Truth = Truth{Rule: "send-buffer", Kind: []string{"process"}, Names: []string{d.Name},
			PID: d.PID, Cleared: []string{"memory"}, Expect: []Range{sent}}
	}
}

// piecesScene has a client that writes each request in two pieces and waits for the answer.
func piecesScene(nagle bool) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		src, dst := pair(l, veths(l))
		at := "10.20.3.34:7080"
		sc.load(Program{Name: "app", Act: "serve", On: dst, Args: []string{"-at", at}})
		client := sc.load(Program{Name: "billing", Act: "ask", On: src, Args: []string{"-to", at,
			"-rate", "60", "-size", "200", "-window", "0", "-pieces",
			fmt.Sprintf("-nagle=%t", nagle)}})
		sc.Where = src
		sc.try("ip netns exec %s ss -tinp", src.NS)
		if !nagle {
			sc.Truth = Truth{Never: []string{"nagle-delay", "tcp-stalled"},
				Expect: []Range{done(client, 50, 61)}}
			return
		}
		sc.Truth = Truth{Rule: "nagle-delay", Kind: []string{"process"},
			Names: []string{client.Name}, PID: client.PID, Cleared: []string{"memory"},
			Expect: []Range{done(client, 15, 26)}}
	}
}

// switchScene has two hosts at a switch with an MTU. The hosts believe in another one. One program
// sends full segments, a new connection each second, another one sends small requests.
func switchScene(mtu, believed int) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		src, dst, between := l.Host("src"), l.Host("dst"), l.Host("switch")
		l.Veth(src, "eth0", between, "port1")
		l.Veth(dst, "eth0", between, "port2")
		src.OneFrameAPacket("eth0")
		dst.OneFrameAPacket("eth0")
		between.OneFrameAPacket("port1", "port2")
		between.Bridge("br0", false, "port1", "port2")
		between.ip("link", "set", "port2", "mtu", fmt.Sprint(mtu))
		for _, h := range []*Host{src, dst} {
			h.ip("link", "set", "eth0", "mtu", fmt.Sprint(believed))
		}
		src.Address("eth0", "10.20.3.33/24")
		dst.Address("eth0", "10.20.3.34/24")
		sc.load(Program{Name: "files", Act: "sink", On: dst,
			Args: []string{"-at", "10.20.3.34:7070"}})
		sc.load(Program{Name: "app", Act: "serve", On: dst,
			Args: []string{"-at", "10.20.3.34:7080"}})
		d := sc.load(Program{Name: "upload", Act: "stream", On: src, Args: []string{"-to",
			"10.20.3.34:7070", "-conns", "8", "-apart", "1s", "-rate", "400e3", "-chunk", "20000"}})
		client := sc.load(Program{Name: "client", Act: "ask", On: src,
			Args: []string{"-to", "10.20.3.34:7080", "-rate", "20", "-size", "100"}})
		sc.Where = src
		sc.try("ip netns exec %s ping -c 1 -M do -s 1472 10.20.3.34", src.NS)
		sc.try("ip netns exec %s ss -tinp", src.NS)
		expect := []Range{done(client, 15, 21)}
		if mtu == believed {
			sc.Truth = Truth{Never: []string{"mtu-black-hole", "tcp-stalled", "tcp-retransmits"},
				Expect: append(expect, done(d, 15, 21))}
			return
		}
		sc.Truth = Truth{Rule: "mtu-black-hole", Kind: []string{"peer"},
			Names: []string{"10.20.3.34"}, Cleared: []string{"memory"}, Expect: expect}
	}
}
