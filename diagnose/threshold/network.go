package threshold

// Thresholds of rules link-saturated and link-below-mode: see links.
const (
	LinkFull       = 0.90
	LinkBeyond     = 1.15
	LinkOwner      = 0.5
	LinkWorthwhile = 1e6
	LinkResidual   = 0.08
	ClassOfLink    = 0.9
	ClassLike      = 0.05
	LinkHalfUsed   = 0.5
	LinkUnsent     = 1448.0
)

func links() []Threshold {
	return []Threshold{
		edge("LinkFull", LinkFull, "share of the capacity", 0.89, 0.91,
			"TCP keeps a line at 94-100 % of its wire rate; below nine tenths there is "+
				"capacity left"),
		edge("LinkBeyond", LinkBeyond, "times the capacity", 1.13, 1.17,
			"a device that carries more for seconds is not limited by that capacity"),
		edge("LinkOwner", LinkOwner, "share of the traffic", 0.49, 0.52,
			"from here on a process is named as the one that fills the link"),
		edge("LinkWorthwhile", LinkWorthwhile, "bit/s", 970000, 1.04e+06,
			"an unknown capacity of a link with less traffic is not reported"),
		edge("LinkResidual", LinkResidual, "share of the traffic", 0.078, 0.083,
			"in no TCP flow; estimates of headers are good to some percent"),
		edge("ClassOfLink", ClassOfLink, "share of the capacity", 0.89, 0.91,
			"a shaper class that may use nearly all of its link is full with the link"),
		edge("ClassLike", ClassLike, "share of the rate", 0.049, 0.052,
			"greatest difference between a class and the flows taken for it"),
		edge("LinkHalfUsed", LinkHalfUsed, "share of the speed", 0.48, 0.52,
			"from here on a faster link would be noticed"),
		edge("LinkUnsent", LinkUnsent, "B", 1400, 1500,
			"in a socket that are not sent: a full segment; its program would send more"),
	}
}

// Thresholds of rules interface-unused and mac-shared: see unused.
const (
	UnusedRate    = 200.0
	UnusedAnswer  = 0.01
	UnusedDropped = 0.7
	UnusedTwin    = 1.5
	UnusedHeavy   = 0.05
)

func unused() []Threshold {
	return []Threshold{
		edge("UnusedRate", UnusedRate, "packets per second", 195, 206,
			"broadcasts and discovery on an office network stay below a hundred"),
		edge("UnusedAnswer", UnusedAnswer, "packets sent per packet received", 0.0097, 0.0104,
			"users of an interface send an acknowledgement per hundred packets, or ARP "+
				"answers"),
		edge("UnusedDropped", UnusedDropped, "share of its packets", 0.68, 0.72,
			"that are seen to be dropped, to accuse an interface with an address"),
		edge("UnusedTwin", UnusedTwin, "factor", 1.47, 1.53,
			"between the rates of two interfaces on one hub"),
		edge("UnusedHeavy", UnusedHeavy, "share of a CPU", 0.048, 0.052,
			"receiving for nothing; from here on it is felt"),
	}
}

// Thresholds of rule net-drops: see losses.
const (
	DropsRate       = 5.0
	DropsShare      = 0.001
	DropsPlainRate  = 50.0
	DropsPlainShare = 0.01
	DropsHigh       = 0.05
	ErrorsRate      = 1.0
	QueueShare      = 0.01
	SqueezeRate     = 20.0
	UDPShare        = 0.01
	UDPReader       = 0.8
	AgainShare      = 0.5
	SenderSeldom    = 0.01
	SenderMostly    = 0.8
)

func losses() []Threshold {
	return []Threshold{
		edge("DropsRate", DropsRate, "packets per second", 4.9, 5.2,
			"frames of unknown protocols are dropped once or twice per second everywhere"),
		edge("DropsShare", DropsShare, "share of the packets", 0.00097, 0.00104,
			"fewer losses are not noticed"),
		edge("DropsPlainRate", DropsPlainRate, "packets per second", 49, 51.5,
			"received, dropped without a reason: a port with foreign VLANs or protocols "+
				"drops all of them"),
		edge("DropsPlainShare", DropsPlainShare, "share of the packets", 0.0097, 0.0104,
			"received, dropped without a reason"),
		edge("DropsHigh", DropsHigh, "share of the packets", 0.048, 0.052,
			"slows TCP to a crawl and leaves holes in any stream of datagrams"),
		edge("ErrorsRate", ErrorsRate, "frames per second", 0.97, 1.04,
			"damaged on the line; a good line has none in hours"),
		edge("QueueShare", QueueShare, "share of the packets", 0.0097, 0.0104,
			"a full queue drops some: TCP learns the speed that way"),
		edge("SqueezeRate", SqueezeRate, "times per second", 19.5, 20.6,
			"that receiving stopped with packets left"),
		edge("UDPShare", UDPShare, "share of the datagrams", 0.0097, 0.0104,
			"that found their socket full"),
		edge("UDPReader", UDPReader, "share of the datagrams", 0.78, 0.82,
			"that sockets lose: from here on one program is named"),
		edge("AgainShare", AgainShare, "share of the retransmits", 0.48, 0.52,
			"losses here that explain so many are where TCP loses"),
		edge("SenderSeldom", SenderSeldom, "CPUs", 0.0097, 0.0104,
			"a sender of datagrams with less is not named"),
		edge("SenderMostly", SenderMostly, "share of all senders", 0.78, 0.82,
			"a sender with less is one of several"),
	}
}

// Thresholds of rules tcp-listen-overflow and tcp-retransmits: see tcp.
const (
	ListenLost      = 0.5
	HalfRate        = 10.0
	RetransmitShare = 0.01
	RetransmitHigh  = 0.05
	RetransmitRate  = 10.0
	RetransmitPeer  = 0.6
)

func tcp() []Threshold {
	return []Threshold{
		edge("ListenLost", ListenLost, "connections per second", 0.48, 0.52,
			"a burst is reported as medium, what goes on as high"),
		edge("HalfRate", HalfRate, "attempts per second", 9.7, 10.4,
			"that nobody completes; scanners leave some on every public machine"),
		edge("RetransmitShare", RetransmitShare, "share of the segments", 0.0097, 0.0104,
			"limits a connection of 1 ms and 1,448 B to about 140 Mbit/s (Mathis), of 20 ms"+
				" to 7"),
		edge("RetransmitHigh", RetransmitHigh, "share of the segments", 0.048, 0.052,
			"a twentieth slows TCP to a crawl"),
		edge("RetransmitRate", RetransmitRate, "segments per second", 9.7, 10.4,
			"a machine that sends three packets is not judged by one"),
		edge("RetransmitPeer", RetransmitPeer, "share of the retransmits", 0.58, 0.62,
			"from here on the peer is named"),
	}
}

// Thresholds of rule tcp-stalled: see tcpStalls.
const (
	WindowClosed = 0.5
	StallWaits   = 3000.0
	StallSegment = 1200.0
)

func tcpStalls() []Threshold {
	return []Threshold{
		edge("WindowClosed", WindowClosed, "share of the time", 0.48, 0.52,
			"in which the receive window stops the sender; a full pipe is stopped for moments"),
		edge("StallWaits", StallWaits, "B", 2900, 3100,
			"that wait for the window: two segments; an idle connection has none"),
		untested("StallSegment", StallSegment, "B",
			"from this segment size on, a smaller MTU on the path is a possible cause",
			"it decides about a caveat only"),
	}
}

// Thresholds of rule connections-fail: see connects.
const (
	ConnectFails     = 1.0
	ConnectShare     = 0.6
	ConnectFailsMany = 5.0
	ConnectAll       = 0.99
	ConnectOwn       = 1.1
	ConnectTimeouts  = 2.5
)

func connects() []Threshold {
	return []Threshold{
		edge("ConnectFails", ConnectFails, "attempts per second", 0.97, 1.04,
			"that fail; a program that waits between its attempts is patient"),
		edge("ConnectShare", ConnectShare, "share of the attempts", 0.58, 0.62,
			"of a program at one port; a program that tries IPv6 before IPv4 fails half the time"),
		edge("ConnectFailsMany", ConnectFailsMany, "attempts per second", 4.9, 5.2,
			"that fail; checks of the health of a server are fewer"),
		edge("ConnectAll", ConnectAll, "share of the attempts", 0.98, 0.995,
			"that fail: the program cannot work at all"),
		edge("ConnectTimeouts", ConnectTimeouts, "attempts", 2.4, 2.6,
			"without an answer, and none with one: three are no accident"),
		edge("ConnectOwn", ConnectOwn, "failed per own attempt", 1.08, 1.12,
			"more are attempts of others, which this counter includes"),
	}
}

// Thresholds of the rules dns-silent, dns-slow and dns-fails: see names.
const (
	DNSAnswered = 0.5
	DNSMany     = 3.0
	DNSSlow     = 3.0

	DNSLate       = 0.2
	DNSWaits      = 0.5
	DNSUnanswered = 2.0
	DNSPatience   = 2.0

	DNSFailShare = 0.2
	DNSFailLeast = 3.0
	DNSFailMost  = 0.8
)

func names() []Threshold {
	return []Threshold{
		edge("DNSAnswered", DNSAnswered, "datagrams received per datagram sent", 0.49, 0.51,
			"a name server returns one per query; other datagrams may have no answer"),
		edge("DNSMany", DNSMany, "lookups", 2.9, 3.1,
			"that wait at any moment: programs cannot work, and not one of them is slow"),
		edge("DNSSlow", DNSSlow, "lookups", 2.9, 3.1,
			"in all that were slow: one lost datagram is sent again"),
		edge("DNSLate", DNSLate, "s", 0.19, 0.21,
			"an answer takes on average: one from the same continent takes less than half of it"),
		edge("DNSWaits", DNSWaits, "lookups", 0.48, 0.52,
			"that wait at any moment: a program waits for names half of the time"),
		edge("DNSUnanswered", DNSUnanswered, "queries", 1.9, 2.1,
			"without an answer, and none with one"),
		edge("DNSPatience", DNSPatience, "s", 1, 3, "that a query is left for its answer"),
		edge("DNSFailShare", DNSFailShare, "share of the answers", 0.19, 0.21,
			"that are failures: single names fail on healthy servers too"),
		edge("DNSFailLeast", DNSFailLeast, "answers", 2.9, 3.1, "in all that are failures"),
		edge("DNSFailMost", DNSFailMost, "share of the answers", 0.78, 0.82,
			"from which hardly any lookup works"),
	}
}

// Thresholds of rule udp-refused: see refused.
const (
	UnheardRate    = 10.0
	UnheardShare   = 0.05
	UnheardOwn     = 0.5
	UnreachRate    = 0.5
	UnreachShare   = 0.4
	UnreachAnswers = 0.5
)

func refused() []Threshold {
	return []Threshold{
		edge("UnheardRate", UnheardRate, "datagrams per second", 9.7, 10.3,
			"for ports without a listener; scans and late answers are fewer"),
		edge("UnheardShare", UnheardShare, "share of the datagrams", 0.045, 0.055,
			"that arrive: less is the noise of a busy server"),
		edge("UnheardOwn", UnheardOwn, "ICMP messages per datagram", 0.48, 0.52,
			"that return to senders of the same network namespace"),
		edge("UnreachRate", UnreachRate, "ICMP messages per second", 0.48, 0.52,
			"Linux sends one per second to each sender at most"),
		edge("UnreachShare", UnreachShare, "ICMP messages per datagram", 0.38, 0.42,
			"that is sent: most of what the programs send is lost"),
		edge("UnreachAnswers", UnreachAnswers, "datagrams received per sent one", 0.48, 0.52,
			"programs that get answers try another host, and work"),
	}
}
