package cases

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// pair makes two hosts, src 10.20.3.33 and dst 10.20.3.34, joined by eth0 on both.
func pair(l *Lab, lay func(src, dst *Host)) (src, dst *Host) {
	src, dst = l.Host("src"), l.Host("dst")
	lay(src, dst)
	src.Address("eth0", "10.20.3.33/24")
	dst.Address("eth0", "10.20.3.34/24")
	return src, dst
}

func veths(l *Lab) func(a, b *Host) {
	return func(a, b *Host) { l.Veth(a, "eth0", b, "eth0") }
}

// shaped lays a veth that lets mbit through in both directions. Its burst is a fourth of a
// millisecond of line time or four full frames' worth, and 5 ms may wait, as in a card's ring.
func shaped(l *Lab, mbit int) func(a, b *Host) {
	return func(a, b *Host) {
		l.Veth(a, "eth0", b, "eth0")
		for _, h := range []*Host{a, b} {
			h.Shape("eth0", mbit, max(256<<10, mbit*1e6/8/4000), 256<<10+mbit*1e6/8/200)
		}
	}
}

func taps(l *Lab, w Wire) func(a, b *Host) {
	return func(a, b *Host) { l.Cables(Cable{A: a, DevA: "eth0", B: b, DevB: "eth0", Wire: w}) }
}

// bulk sets one sender on src going to a receiver on dst. rate in bytes a second, 0: as fast as it
// goes.
func bulk(sc *Scene, src, dst *Host, rate float64) *Load {
	sc.load(
		Program{Name: "bulk-sink", Act: "sink", On: dst, Args: []string{"-at", "10.20.3.34:7070"}},
	)
	return sc.load(
		Program{
			Name: "bulk-copy",
			Act:  "stream",
			On:   src,
			Args: []string{"-to", "10.20.3.34:7070", "-rate", fmt.Sprint(rate)},
		},
	)
}

func needTun() string {
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return "kernel feature tun"
	}
	return ""
}

func linkStories() []Story {
	full := func(lay func(*Lab, int) func(a, b *Host), mbit int) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, o Options) {
			if o.Mbit > 0 {
				mbit = o.Mbit
			}
			src, dst := pair(l, lay(l, mbit))
			d := bulk(sc, src, dst, 0)
			sc.Where = src
			sc.Truth = Truth{
				Rule:  "link-saturated",
				Kind:  []string{"process", "interface", "flow"},
				Names: []string{d.Name, "eth0"},
				PID:   d.PID,
				Also: []string{
					"tcp-retransmits",
					"net-drops",
				},
				Explains: 0.8,
				Cleared:  []string{"disk", "memory"},
				Says: []Span{
					{
						"bits a second on the wire",
						0.93 * float64(mbit) * 1e6,
						1.04 * float64(mbit) * 1e6,
					},
				},
				Expect: []Range{
					{
						What: "goodput",
						Low:  0.90 * float64(mbit) * 1e6,
						High: float64(mbit) * 1e6,
						Unit: "bit/s",
						Read: moved(sc.Load("bulk-sink")),
					},
				},
			}
			sc.try("ip netns exec %s nicstat -n -i eth0 1 3", src.NS)
			sc.try("ip netns exec %s ss -tinp", src.NS)
		}
	}
	quiet := func(
		lay func(*Lab) func(a, b *Host), rate float64, truth Truth,
	) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, _ Options) {
			src, dst := pair(l, lay(l))
			bulk(sc, src, dst, rate)
			sc.Where, sc.Truth = src, truth
			if rate > 0 {
				sc.Truth.Expect = []Range{
					{
						What: "goodput",
						Low:  0.9 * rate * 8,
						High: 1.1 * rate * 8,
						Unit: "bit/s",
						Read: moved(sc.Load("bulk-sink")),
					},
				}
			}
			sc.try("ip netns exec %s nicstat -n -i eth0 1 3", src.NS)
		}
	}
	tap := func(l *Lab, mbit int) func(a, b *Host) { return taps(l, Wire{Mbit: mbit}) }
	shaped1000 := func(l *Lab) func(a, b *Host) { return shaped(l, 1000) }
	return []Story{
		{
			Name:  "link-saturated",
			Light: true,
			Help:  "one process fills a link shaped to 1 Gbit/s that calls itself 10",
			Twin:  "link-unshaped",
			build: full(shaped, 1000),
		},
		{
			Name:  "link-saturated-tap-1000",
			Help:  "the same on a cable that says 1000 Mbit/s and means it",
			Twin:  "link-half",
			Needs: needTun,
			build: full(tap, 1000),
		},
		{
			Name:  "link-saturated-tap-100",
			Light: true,
			Help:  "the same on a cable of 100 Mbit/s",
			Twin:  "link-half",
			Needs: needTun,
			build: full(tap, 100),
		},
		{
			Name:  "link-saturated-iperf3",
			Light: true,
			Help:  "the tool that people use for this, on the shaped link",
			Twin:  "link-idle",
			Needs: func() string { return needTool("iperf3") },
			build: buildIperf,
		},
		{
			Name: "link-unshaped",
			Help: "the same pair without a limit: the processes are at their end, not the link",
			build: quiet(
				veths,
				0,
				Truth{
					Also:  []string{"cpu-saturated", "cpu-one-saturated", "cpu-softirq"},
					Never: []string{"link-saturated", "net-drops", "interface-unused"},
				},
			),
		},
		{
			Name:  "link-half",
			Light: true,
			Help:  "half of a shaped link of 1 Gbit/s in use",
			build: quiet(shaped1000, 500e6/8, Truth{Never: []string{"link-saturated"}}),
		},
		{
			Name:  "link-idle",
			Light: true,
			Help:  "a quarter of a megabyte a second on a link of 1 Gbit/s",
			build: quiet(shaped1000, 250e3, Truth{Never: []string{"link-saturated"}}),
		},
		{
			Name:  "link-below-mode",
			Light: true,
			Help:  "a cable that could do 1000 Mbit/s negotiated 100, and is used for less",
			Twin:  "link-best-mode",
			Needs: needTun,
			build: buildMode(
				100,
				1000,
				Truth{
					Rule:   "link-below-mode",
					Kind:   []string{"interface"},
					Names:  []string{"eth0"},
					Lowest: "low",
				},
			),
		},
		{
			Name:  "link-best-mode",
			Light: true,
			Help:  "the same cable at its best mode",
			Needs: needTun,
			build: buildMode(1000, 1000, Truth{Never: []string{"link-below-mode"}}),
		},
	}
}

func buildMode(mbit, best int, truth Truth) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		src, dst := pair(l, taps(l, Wire{Mbit: mbit, Best: best}))
		bulk(sc, src, dst, 3e6)
		sc.Where, sc.Truth = src, truth
		sc.try("ip netns exec %s ethtool eth0", src.NS)
	}
}

func buildIperf(l *Lab, sc *Scene, o Options) {
	mbit := 1000
	if o.Mbit > 0 {
		mbit = o.Mbit
	}
	src, dst := pair(l, shaped(l, mbit))
	sc.load(Program{Name: "iperf3", On: dst, Args: []string{"iperf3", "-s", "-i", "0"}})
	if l.err == nil {
		l.fail(waitFor("iperf3 to listen", func() bool { return listens(dst, 5201) }))
	}
	sc.load(
		Program{
			Name: "iperf3",
			On:   src,
			Args: []string{"iperf3", "-c", "10.20.3.34", "-t", "600", "-i", "0", "-C", "cubic"},
		},
	)
	sc.Where = src
	client := sc.Loads[len(sc.Loads)-1]
	sc.Truth = Truth{
		Rule:  "link-saturated",
		Kind:  []string{"process", "interface", "flow"},
		Names: []string{"iperf3", "eth0"},
		PID:   client.PID,
		Also: []string{
			"tcp-retransmits",
			"net-drops",
		},
		Explains: 0.8,
		Cleared:  []string{"disk", "memory"},
		Says: []Span{
			{"bits a second on the wire", 0.93 * float64(mbit) * 1e6, 1.04 * float64(mbit) * 1e6},
		},
		Expect: []Range{
			{
				What: "dst receives",
				Low:  0.9 * float64(mbit) * 1e6 / 8,
				High: float64(mbit) * 1e6 / 8,
				Unit: "byte/s",
				Read: dst.counts("eth0", "rx_bytes"),
			},
		},
	}
	sc.try("ip netns exec %s nicstat -n -i eth0 1 3", src.NS)
}

// listens reports whether something listens on a TCP port of the host.
func listens(h *Host, port int) bool {
	var b []byte
	inside(h.NS, func() (err error) {
		b4, _ := os.ReadFile("/proc/thread-self/net/tcp")
		b6, _ := os.ReadFile("/proc/thread-self/net/tcp6")
		b = append(b4, b6...)
		return nil
	})
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "0A" {
			continue
		}
		_, p, _ := strings.Cut(f[1], ":")
		if n, err := strconv.ParseInt(p, 16, 32); err == nil && int(n) == port {
			return true
		}
	}
	return false
}

func hubStories() []Story {
	const mac = "08:00:20:b0:7a:18"
	// box has hme0 192.168.1.13/24 and qfe0 on one hub; gen sends to hme0's address 25 MB/s in
	// frames of a wire's size.
	build := func(
		hub bool, qfeMAC string, more func(l *Lab, sc *Scene, box *Host), truth Truth, flooded bool,
	) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, _ Options) {
			gen, hb, box := l.Host("gen"), l.Host("hub"), l.Host("box")
			l.Veth(gen, "gen0", hb, "hp0")
			l.Veth(hb, "hp1", box, "hme0")
			l.Veth(hb, "hp2", box, "qfe0")
			hb.Bridge("hub0", hub, "hp0", "hp1", "hp2")
			box.MAC("hme0", mac)
			box.MAC("qfe0", qfeMAC)
			for _, s := range []string{"all", "hme0", "qfe0"} {
				box.Set("net/ipv4/conf/"+s+"/rp_filter", "1")
			}
			box.Set("net/ipv4/conf/all/arp_ignore", "1")
			gen.Address("gen0", "192.168.1.1/24")
			box.Address("hme0", "192.168.1.13/24")
			gen.OneFrameAPacket("gen0")
			hb.OneFrameAPacket("hp0", "hp1", "hp2")
			box.OneFrameAPacket("hme0", "qfe0")
			if more != nil {
				more(l, sc, box)
			}
			sc.load(
				Program{
					Name: "disk-backup",
					Act:  "sink",
					On:   box,
					Args: []string{"-at", "192.168.1.13:7070"},
				},
			)
			sc.load(
				Program{
					Name: "bulk-copy",
					Act:  "stream",
					On:   gen,
					Args: []string{"-to", "192.168.1.13:7070", "-rate", "25e6"},
				},
			)
			sc.Where, sc.Truth = box, truth
			low, high := 0.0, 10.0
			if flooded {
				low, high = 16000, 26000
			}
			sc.Truth.Expect = []Range{
				{
					What: "hme0 receives",
					Low:  16000,
					High: 20000,
					Unit: "packet/s",
					Read: box.counts("hme0", "rx_packets"),
				},
				{
					What: "qfe0 receives",
					Low:  low,
					High: high,
					Unit: "packet/s",
					Read: box.counts("qfe0", "rx_packets"),
				},
				{
					What: "qfe0 sends",
					High: 1,
					Unit: "packet/s",
					Read: box.counts("qfe0", "tx_packets"),
				},
			}
			sc.try("ip netns exec %s nicstat -n 1 3", box.NS)
			sc.try("ip -n %s -s link", box.NS)
		}
	}
	dummyAddress := func(_ *Lab, _ *Scene, box *Host) { box.Address("qfe0", "10.1.2.3/8") }
	unrelated := []string{"interface-unused", "link-saturated"}
	return []Story{
		{
			Name:  "dead-interface",
			Light: true,
			Help:  "a hub, two interfaces of one MAC, the second one up without a use",
			Twin:  "dead-interface-healthy",
			build: build(
				true,
				mac,
				dummyAddress,
				Truth{
					Rule:  "interface-unused",
					Kind:  []string{"interface"},
					Names: []string{"qfe0"},
					Also:  []string{"mac-shared", "net-drops"},
					Says: []Span{
						{"packets a second for nothing", 16000, 26000},
						{"of a CPU for them, as measured", 0.002, 0.3},
					},
				},
				true,
			),
		},
		{
			Name:  "dead-interface-bare",
			Light: true,
			Help:  "the same, the unused interface with a MAC of its own and no address: every frame of the hub is another's",
			Twin:  "dead-interface-healthy",
			build: build(
				true,
				"08:00:20:b0:7a:19",
				nil,
				Truth{
					Rule:  "interface-unused",
					Kind:  []string{"interface"},
					Names: []string{"qfe0"},
					Also:  []string{"net-drops"},
					Says: []Span{
						{"packets a second for nothing", 16000, 26000},
						{"of a CPU for them, as measured", 0.002, 0.3},
					},
				},
				true,
			),
		},
		{
			Name:  "mac-shared",
			Light: true,
			Help:  "two interfaces of one MAC on a learning switch",
			Twin:  "dead-interface-healthy",
			build: build(
				false,
				mac,
				dummyAddress,
				Truth{
					Rule:   "mac-shared",
					Kind:   []string{"interface"},
					Names:  []string{"qfe0", "hme0"},
					Also:   []string{"interface-unused", "net-drops", "tcp-retransmits"},
					Lowest: "low",
				},
				false,
			),
		},
		{
			Name:  "dead-interface-healthy",
			Light: true,
			Help:  "the same box on a learning switch, each interface with a MAC of its own",
			build: build(
				false, "08:00:20:b0:7a:19", dummyAddress,
				Truth{Never: append([]string{"mac-shared"}, unrelated...)}, false,
			),
		},
		{
			Name:  "sniffer-port",
			Light: true,
			Help:  "the hub again, but a program reads the second interface from a packet socket",
			build: build(true, "08:00:20:b0:7a:19", func(l *Lab, sc *Scene, box *Host) {
				sc.load(
					Program{Name: "probe", Act: "sniff", On: box, Args: []string{"-dev", "qfe0"}},
				)
			}, Truth{Never: unrelated}, true),
		},
		{
			Name:  "bridge-ports",
			Light: true,
			Help:  "seen from the switch: ports without addresses that only receive or only send",
			build: buildPorts,
		},
		{
			Name:  "macvlan-parent",
			Light: true,
			Help:  "an interface without an address that receives for the macvlan above it",
			build: buildMacvlan,
		},
	}
}

// buildPorts is a switch between a sender and a receiver of datagrams: one port only receives, the
// other only sends.
func buildPorts(l *Lab, sc *Scene, _ Options) {
	a, sw, b := l.Host("a"), l.Host("sw"), l.Host("b")
	l.Veth(a, "eth0", sw, "p1")
	l.Veth(sw, "p2", b, "eth0")
	sw.Bridge("br0", false, "p1", "p2")
	a.Address("eth0", "10.4.0.1/24")
	b.Address("eth0", "10.4.0.2/24")
	spray(l, sc, a, b, "10.4.0.2")
	sc.Where = sw
	sc.Truth = Truth{
		Expect: []Range{
			{
				What: "p1 receives",
				Low:  7500,
				High: 8500,
				Unit: "packet/s",
				Read: sw.counts("p1", "rx_packets"),
			},
		},
		Never: []string{"interface-unused", "mac-shared", "link-saturated", "net-drops"},
	}
	sc.try("ip netns exec %s nicstat -n 1 3", sw.NS)
}

func buildMacvlan(l *Lab, sc *Scene, _ Options) {
	a, b := l.Host("a"), l.Host("box")
	l.Veth(a, "eth0", b, "par0")
	b.ip("link", "add", "mv0", "link", "par0", "type", "macvlan", "mode", "bridge")
	b.Up("mv0")
	a.Address("eth0", "10.4.0.1/24")
	b.Address("mv0", "10.4.0.2/24")
	spray(l, sc, a, b, "10.4.0.2")
	sc.Where = b
	sc.Truth = Truth{
		Expect: []Range{
			{
				What: "par0 receives",
				Low:  7500,
				High: 8500,
				Unit: "packet/s",
				Read: b.counts("par0", "rx_packets"),
			},
		},
		Never: []string{"interface-unused", "mac-shared", "link-saturated"},
	}
	sc.try("ip netns exec %s nicstat -n 1 3", b.NS)
}

// spray sends 8,000 datagrams a second one way, to a program that reads them: without a reader the
// receiving host would answer each that nobody listens.
func spray(l *Lab, sc *Scene, from, to *Host, address string) {
	sc.load(
		Program{Name: "listener", Act: "hear", On: to, Args: []string{"-at", address + ":7071"}},
	)
	sc.load(
		Program{
			Name: "telemetry",
			Act:  "spray",
			On:   from,
			Args: []string{"-to", address + ":7071", "-rate", "8000", "-size", "1000"},
		},
	)
}
