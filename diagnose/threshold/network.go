package threshold

// When a link counts as full.
const (
	// LinkFull: a sender paced by TCP keeps a line at 94-100 % of its wire rate, preambles and gaps counted (943 Mbit/s of
	// payload on 1 Gbit/s are 99.9 %); below nine tenths there is room for whoever wants more.
	LinkFull = 0.90
	// LinkBeyond: what carries a seventh more than its limit for seconds is not limited by it. Bursts of a shaper and the
	// estimate of headers stay below.
	LinkBeyond = 1.15
	// LinkOwner: whose share makes a process the one who fills the link.
	LinkOwner = 0.5
	// LinkWorthwhile: below this an unknown capacity is not worth a word, bit/s.
	LinkWorthwhile = 1e6
	// LinkResidual: the rest that flows don't explain is told from here on; estimates of headers are good to some percent.
	LinkResidual = 0.08
)

// When a class of a shaper counts as full, beside what holds for links.
const (
	// ClassOfLink: a class that may use nearly all of its link is full with the link, which tells it.
	ClassOfLink = 0.9
	// ClassLike: a program's connections that take as much as the class carries are taken for those in it: headers of small
	// packets are estimated, and counts of the two are read one after the other.
	ClassLike = 0.05
)

// LinkHalfUsed: from here on a link that could be faster would be noticed.
const LinkHalfUsed = 0.5

// When an interface that receives counts as receiving for nothing.
const (
	// UnusedRate: packets a second. Broadcasts and discovery on an office network stay below a hundred.
	UnusedRate = 200.0
	// UnusedAnswer: whoever uses an interface sends at least an acknowledgement for every hundred packets, or ARP answers.
	UnusedAnswer = 0.01
	// UnusedDropped: share of its packets that must be seen to be dropped to accuse an interface that has an address.
	UnusedDropped = 0.7
	// UnusedTwin: how far the rate of the interface and that of its twin on the same hub may differ, as a factor.
	UnusedTwin = 1.5
	// UnusedHeavy: share of a CPU's time that receiving for nothing takes, from where on it is felt.
	UnusedHeavy = 0.05
)

// When packets lost by this machine count.
const (
	// DropsRate and dropsShare: packets a second, and of all that the device handled in that direction. Frames of unknown
	// protocols (spanning tree, discovery) come once or twice a second and are dropped on every healthy machine.
	DropsRate, DropsShare = 5.0, 0.001
	// DropsPlainRate and dropsPlainShare: the same for drops on the way in whose reason is not told. A port that carries
	// VLANs or protocols of others drops all of them.
	DropsPlainRate, DropsPlainShare = 50.0, 0.01
	// DropsHigh: a twentieth lost leaves TCP a crawl and makes holes in any stream of datagrams.
	DropsHigh = 0.05
	// ErrorsRate: frames damaged on the line, a second: a good line has none in hours.
	ErrorsRate = 1.0
	// QueueShare: a queue that is full drops: that is how TCP learns the speed. From a hundredth on it is more than that.
	QueueShare = 0.01
	// SqueezeRate: times a second that receiving stopped with packets left, its budget used up. A remark.
	SqueezeRate = 20.0
	// UDPShare: share of the datagrams that found no room in their socket.
	UDPShare = 0.01
)

// AgainShare: packets lost here that explain at least so much of what TCP sends again are where it is lost.
const AgainShare = 0.5

// Who is seen to send datagrams: less than seldom of a CPU says nothing, and whoever takes less than mostly of what all take is
// one of several.
const SenderSeldom, SenderMostly = 0.01, 0.8

// ListenLost: connections a second that found no room. A burst of a moment is a remark; what goes on is a fault.
const ListenLost = 0.5

// HalfRate: attempts a second that nobody completes. Scanners leave some behind on every machine that the internet sees.
const HalfRate = 10.0

// When retransmitted segments count.
const (
	// RetransmitShare of the segments sent: loss at a hundredth limits one TCP connection of 1 ms round trip and 1,448 B to
	// about 140 Mbit/s (Mathis), of 20 ms to 7.
	RetransmitShare = 0.01
	// RetransmitHigh: a twentieth is a crawl.
	RetransmitHigh = 0.05
	// RetransmitRate: segments a second, so that a machine that sends three packets is not judged by one.
	RetransmitRate = 10.0
	// RetransmitPeer: whose share makes a peer the one it goes wrong with.
	RetransmitPeer = 0.6
)
