package cases

import (
	"fmt"
	"os/exec"
	"time"
)

func needTool(name string) string {
	if _, err := exec.LookPath(name); err != nil {
		return "tool " + name
	}
	return ""
}

func peerStories() []Story {
	// Ten clients each want rate answers a second of 128 KiB from one server, through a switch. The
	// cables are between switch and client, so the server sees none of their limits.
	build := func(
		slow, clients int, rate float64, tap bool, truth Truth,
	) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, o Options) {
			srv, sw := l.Host("srv"), l.Host("sw")
			l.Veth(srv, "nxge0", sw, "up0")
			srv.Address("nxge0", "10.2.0.1/24")
			ports := []string{"up0"}
			var cl []*Host
			var cables []Cable
			for i := 1; i <= clients; i++ {
				h := l.Host(fmt.Sprintf("cl%d", i))
				cl = append(cl, h)
				mbit := 1000
				if i == slow {
					mbit = 100
					if o.Mbit > 0 {
						mbit = o.Mbit
					}
				}
				port := fmt.Sprintf("port%d", i)
				ports = append(ports, port)
				if tap {
					cables = append(
						cables,
						Cable{
							A:    sw,
							DevA: port,
							B:    h,
							DevB: "e1000g0",
							Wire: Wire{Mbit: mbit, Best: 1000},
						},
					)
					continue
				}
				l.Veth(sw, port, h, "e1000g0")
				sw.Shape(port, mbit, 128<<10, 1<<20)
				h.Shape("e1000g0", mbit, 128<<10, 1<<20)
			}
			if tap {
				l.Cables(cables...)
			}
			sw.Bridge("br0", false, ports...)
			for i, h := range cl {
				h.Address("e1000g0", fmt.Sprintf("10.2.0.%d/24", 101+i))
			}
			sc.load(
				Program{
					Name: "filer",
					Act:  "serve",
					On:   srv,
					Args: []string{"-at", "10.2.0.1:2049"},
				},
			)
			for i, h := range cl {
				sc.load(Program{Name: fmt.Sprintf("nfs-client-%d", i+1), Act: "ask", On: h,
					Args: []string{
						"-to",
						"10.2.0.1:2049",
						"-rate",
						fmt.Sprint(rate),
						"-size",
						"131072",
						"-window",
						"8",
					}})
			}
			sc.Where, sc.Truth = srv, truth
			for i := range cl {
				d := sc.Load(fmt.Sprintf("nfs-client-%d", i+1))
				r := Range{
					What: d.Name,
					Low:  0.97 * rate,
					High: 1.03 * rate,
					Unit: "answer/s",
					Read: served(d),
				}
				if i+1 == slow {
					r.Low, r.High = 0.75*100e6/8/131072, 100e6/8/131072
					if o.Mbit > 0 {
						r.Low, r.High = r.Low*float64(o.Mbit)/100, r.High*float64(o.Mbit)/100
					}
				}
				sc.Truth.Expect = append(sc.Truth.Expect, r)
			}
			sc.try("ip netns exec %s nicstat -n -i nxge0 1 3", srv.NS)
			sc.try("ip netns exec %s ss -tinH state established", srv.NS)
		}
	}
	sick := Truth{
		Rule:  "peer-slow",
		Kind:  []string{"peer", "client"},
		Names: []string{"10.2.0.103"},
		Also:  []string{"tcp-retransmits"},
		Never: []string{"link-saturated", "net-drops", "cpu-saturated"},
		Says:  []Span{{"bytes a second to the slow client", 9e6, 12.5e6}},
	}
	healthy := Truth{Never: []string{"peer-slow", "link-saturated", "tcp-retransmits"}}
	return []Story{
		{
			Name:  "peer-slow",
			Help:  "one of ten equal clients of a server is on a link of 100 Mbit/s",
			Twin:  "peer-equal",
			Long:  true,
			build: build(3, 10, 160, false, sick),
		},
		{
			Name:  "peer-slow-tap",
			Help:  "the same on cables that tell their speed, at half the load",
			Twin:  "peer-equal",
			Long:  true,
			Needs: needTun,
			build: build(3, 5, 150, true, sick),
		},
		{
			Name:  "peer-equal",
			Help:  "ten equal clients of a server",
			Long:  true,
			build: build(0, 10, 160, false, healthy),
		},
	}
}

func packetStories() []Story {
	return []Story{
		{
			Name:  "tcp-listen-overflow",
			Light: true,
			Help:  "a server that accepts nobody, with a backlog of one, and clients that keep trying",
			Twin:  "tcp-listen-healthy",
			build: buildDeaf(
				true,
				Truth{
					Rule:  "tcp-listen-overflow",
					Names: []string{"deaf-server"},
					Also:  []string{"tcp-retransmits"},
				},
			),
		},
		{
			Name:  "tcp-listen-healthy",
			Light: true,
			Help:  "the same clients and a server that accepts them",
			build: buildDeaf(
				false, Truth{Never: []string{"tcp-listen-overflow", "tcp-retransmits"}},
			),
		},
		{
			Name:  "tcp-retransmits",
			Light: true,
			Help:  "a hop on the way drops what comes faster than 100 Mbit/s, without a queue",
			Twin:  "tcp-lossless",
			build: buildPolice(
				20<<10,
				Truth{
					Rule:  "tcp-retransmits",
					Also:  []string{"peer-slow"},
					Never: []string{"link-saturated", "interface-unused"},
				},
			),
		},
		{
			Name:  "tcp-lossless",
			Light: true,
			Help:  "the same path with a queue, at half its speed",
			build: buildPolice(0, Truth{Never: []string{"tcp-retransmits", "net-drops"}}),
		},
		{
			Name:  "net-drops",
			Light: true,
			Help:  "datagrams at twice the rate of the host's shaped interface: its queue drops half",
			Twin:  "link-half",
			build: func(l *Lab, sc *Scene, _ Options) {
				src, dst := pair(l, veths(l))
				src.Shape(
					"eth0", 50, 16<<10, 48<<10,
				) // a queue smaller than the socket's buffer, or the sender would wait
				sc.load(
					Program{
						Name: "listener",
						Act:  "hear",
						On:   dst,
						Args: []string{"-at", "10.20.3.34:7071"},
					},
				)
				d := sc.load(
					Program{
						Name: "telemetry",
						Act:  "spray",
						On:   src,
						Args: []string{"-to", "10.20.3.34:7071", "-rate", "9000", "-size", "1400"},
					},
				)
				sc.Where = src
				sc.Truth = Truth{
					Rule:  "net-drops",
					Names: []string{"eth0", d.Name},
					Also:  []string{"link-saturated"},
					Says:  []Span{{"packets a second thrown away", 4200, 5200}},
					Expect: []Range{
						{What: "sent", Low: 8500, High: 9500, Unit: "datagram/s", Read: served(d)},
						{
							What: "arrived",
							Low:  3500,
							High: 5000,
							Unit: "datagram/s",
							Read: dst.counts("eth0", "rx_packets"),
						}},
				}
				sc.try("tc -n %s -s qdisc show dev eth0", src.NS)
			},
		},
		{
			Name:  "net-drops-tap",
			Help:  "datagrams at twice the rate of a 100 Mbit/s cable: the interface's ring drops",
			Twin:  "link-half",
			Needs: needTun,
			build: func(l *Lab, sc *Scene, _ Options) {
				src, dst := pair(l, taps(l, Wire{Mbit: 100}))
				sc.load(
					Program{
						Name: "listener",
						Act:  "hear",
						On:   dst,
						Args: []string{"-at", "10.20.3.34:7071"},
					},
				)
				d := sc.load(
					Program{
						Name: "telemetry",
						Act:  "spray",
						On:   src,
						Args: []string{"-to", "10.20.3.34:7071", "-rate", "18000", "-size", "1400"},
					},
				)
				sc.Where = src
				sc.Truth = Truth{
					Rule:  "net-drops",
					Names: []string{"eth0", d.Name},
					Also:  []string{"link-saturated"},
					Expect: []Range{
						{
							What: "the interface drops",
							Low:  5000,
							High: 12000,
							Unit: "datagram/s",
							Read: src.counts("eth0", "tx_dropped"),
						},
					},
				}
				sc.try("ip -n %s -s link show eth0", src.NS)
			},
		},
	}
}

// buildDeaf has twelve clients' worth of attempts at one server.
func buildDeaf(deaf bool, truth Truth) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		src, dst := pair(l, veths(l))
		if deaf {
			d := sc.load(
				Program{
					Name: "deaf-server",
					Act:  "deaf",
					On:   dst,
					Args: []string{"-at", "10.20.3.34:7072", "-backlog", "1"},
				},
			)
			truth.PID = d.PID
		} else {
			sc.load(Program{
				Name: "good-server",
				Act:  "serve",
				On:   dst,
				Args: []string{"-at", "10.20.3.34:7072"},
			})
		}
		sc.load(
			Program{
				Name: "eager-clients",
				Act:  "ask",
				On:   src,
				Args: []string{"-to", "10.20.3.34:7072", "-fresh", "-conns", "50", "-rate", "100"},
			},
		)
		sc.Where, sc.Truth = dst, truth
		overflows := Range{
			What: "listen overflows",
			Low:  5,
			High: 1e5,
			Unit: "1/s",
			Read: dst.protocol("TcpExt", "ListenOverflows"),
		}
		if !deaf {
			overflows.Low, overflows.High = 0, 0
		}
		sc.Truth.Expect = []Range{overflows}
		sc.try("ip netns exec %s nstat -as TcpExtListenOverflows TcpExtListenDrops", dst.NS)
		sc.try("ip netns exec %s ss -tln", dst.NS)
	}
}

// buildPolice has a hop between sender and receiver that passes 100 Mbit/s. queue is how many bytes
// may wait there: a small number drops like a policer. 0: a queue that is long enough, and a sender
// that is satisfied with half.
func buildPolice(queue int, truth Truth) func(*Lab, *Scene, Options) {
	return func(l *Lab, sc *Scene, _ Options) {
		src, hop, dst := l.Host("src"), l.Host("hop"), l.Host("dst")
		l.Veth(src, "eth0", hop, "p1")
		l.Veth(hop, "p2", dst, "eth0")
		hop.Bridge("br0", false, "p1", "p2")
		src.Address("eth0", "10.20.3.33/24")
		dst.Address("eth0", "10.20.3.34/24")
		src.OneFrameAPacket("eth0")
		hop.OneFrameAPacket("p1", "p2")
		dst.OneFrameAPacket("eth0")
		rate := 0.0
		if queue == 0 {
			queue, rate = 4<<20, 50e6/8
		}
		hop.Shape("p2", 100, 16<<10, queue)
		sc.load(
			Program{
				Name: "bulk-sink",
				Act:  "sink",
				On:   dst,
				Args: []string{"-at", "10.20.3.34:7070"},
			},
		)
		d := sc.load(Program{Name: "bulk-copy", Act: "stream", On: src,
			Args: []string{
				"-to",
				"10.20.3.34:7070",
				"-conns",
				"4",
				"-rate",
				fmt.Sprint(rate),
				"-chunk",
				"16384",
			}})
		if truth.Rule != "" {
			truth.Names = []string{d.Name, "10.20.3.34"}
		}
		sc.Where, sc.Truth = src, truth
		retransmits := Range{
			What: "retransmitted segments",
			Low:  50,
			High: 1e5,
			Unit: "1/s",
			Read: src.protocol("Tcp", "RetransSegs"),
		}
		if truth.Rule == "" {
			// A late wake-up of the sender looks like a lost tail.
			retransmits.Low, retransmits.High = 0, 20
		}
		sc.Truth.Expect = []Range{retransmits}
		sc.try("ip netns exec %s nstat -as TcpRetransSegs TcpOutSegs", src.NS)
	}
}

func tableStories() []Story {
	// Established connections of the box in a table of so many buckets, with short connections
	// coming in on CPU 0.
	build := func(buckets, entries int, truth Truth) func(*Lab, *Scene, Options) {
		return func(l *Lab, sc *Scene, o Options) {
			if o.Entries > 0 && entries > 0 {
				entries = o.Entries
			}
			cli, par := l.Host("cli"), l.Host("par")
			par.Set("net/ipv4/tcp_child_ehash_entries", fmt.Sprint(buckets))
			box := l.HostWithin(par, "box")
			if got := box.Get("net/ipv4/tcp_ehash_entries"); l.err == nil &&
				got != fmt.Sprint(buckets) {
				l.fail(fmt.Errorf("the box's table has %s buckets, not %d", got, buckets))
			}
			l.Veth(cli, "ccli0", box, "cbox0")
			cli.Address("ccli0", "10.1.0.2/24")
			box.Address("cbox0", "10.1.0.1/24")
			box.ReceiveOn("cbox0", 0)
			if entries > 0 {
				sc.load(
					Program{
						Name:    "old-flows",
						Act:     "fill",
						On:      box,
						Args:    []string{"-n", fmt.Sprint(entries)},
						Patient: true,
					},
				)
			}
			sc.load(
				Program{
					Name: "balancer",
					Act:  "serve",
					On:   box,
					Args: []string{"-at", "10.1.0.1:7000"},
				},
			)
			rate := "2500"
			if truth.Rule == "" {
				rate = "1500" // two CPUs have time left, also while they are watched
			}
			sc.load(
				Program{
					Name: "short-conns",
					Act:  "ask",
					On:   cli,
					Args: []string{
						"-to",
						"10.1.0.1:7000",
						"-fresh",
						"-conns",
						"8",
						"-rate",
						rate,
					},
				},
			)
			sc.Where, sc.Truth = box, truth
			sc.Truth.Expect = []Range{
				{
					What:  "entries a bucket",
					Low:   0.99 * float64(entries) / float64(buckets),
					High:  float64(entries)/float64(buckets) + 1,
					Level: true,
					Read:  func() (float64, time.Time) { n, at := box.sockets(); return n / float64(buckets), at },
				},
				{
					What: "short connections",
					Low:  500,
					High: 2600,
					Unit: "1/s",
					Read: served(sc.Load("short-conns")),
				},
			}
			if truth.Rule != "" {
				sc.Truth.Names = []string{
					"tcp-established",
					"tcp_ehash",
					"__inet_lookup_established",
					box.NS,
				}
			}
			sc.try("ip netns exec %s sysctl net.ipv4.tcp_ehash_entries", box.NS)
			sc.try("ip netns exec %s cat /proc/net/sockstat", box.NS)
			sc.try("mpstat -P ALL 1 3")
		}
	}
	return []Story{
		{
			Name: "table-long",
			Help: "200,000 connections in a table of 256 buckets: every packet walks a chain of 781",
			Twin: "table-wide",
			Long: true,
			build: build(
				256,
				200000,
				Truth{
					Rule: "table-long",
					Kind: []string{"table", "function"},
					Says: []Span{
						{"entries", 199000, 202000},
						{"of CPU 0 for the walk, sampled", 0.12, 0.9},
					},
					Also: []string{"cpu-softirq", "cpu-one-saturated", "cpu-saturated"},
				},
			),
		},
		{Name: "table-wide", Help: "the same in a table of 262,144 buckets", Long: true,
			build: build(262144, 200000, Truth{Never: []string{"table-long", "cpu-softirq"}})},
		{
			Name:  "table-empty",
			Help:  "256 buckets and nothing in them but the connections of the moment",
			Long:  true,
			build: build(256, 0, Truth{Never: []string{"table-long", "cpu-softirq"}}),
		},
	}
}

// waitFor asks until the answer is yes, for ten seconds at most.
func waitFor(what string, yes func() bool) error {
	deadline := time.Now().Add(10 * time.Second)
	for !yes() {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited ten seconds for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil
}
