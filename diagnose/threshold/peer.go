package threshold

// When one peer counts as held back among equals.
const (
	// PeerLeast: with fewer than four there is no telling which one is the odd one.
	PeerLeast = 4
	// PeerHalf: a peer below half of the others' median gets something else than they do.
	PeerHalf = 0.5
	// PeerNear: nearer to the median than peerHalf all signs must agree: a step of Ethernet at which its path ends, nothing
	// waiting for the others, paths of the others that deliver far more. A link of 100 Mbit/s among clients that ask
	// for 170 each shows as 56 % of them.
	PeerNear = 0.85
	// PeerAway: robust standard deviations from the others' median, of rates or of their logarithms. Ten equal clients of
	// a healthy server differ by less than a thousandth; clients of all kinds differ by factors, and then nobody stands out.
	PeerAway = 6.0
	// PeerAwayStep is enough when the peer's path delivers at a step of Ethernet and the others' paths deliver more.
	PeerAwayStep = 3.5
	// PeerFloor: the least spread assumed of the others, a share of their median.
	PeerFloor = 0.02
	// PeerBacklog: bytes that wait for the peer: two segments. Who merely asks less has nothing waiting.
	PeerBacklog = 3000.0
	// PeerBacklogOthers: the others' waiting bytes, as a share of the peer's. When all wait alike, the limit is common.
	PeerBacklogOthers = 0.25
	// PeerFaster: the others' paths deliver at least this many times as much; the other sign that the limit is the peer's own.
	PeerFaster = 2.0
	// PeerActive: bytes a second; who gets less than that is not a client at work.
	PeerActive = 1000.0
	// StepLow and stepHigh: payload of a full line as a share of its speed: 0.94-0.95 with full frames, less with small ones.
	StepLow, StepHigh = 0.75, 1.01
	// StepBurst: what a path's last measurement may lie above a line's speed, when buffers on the way took a burst.
	StepBurst = 1.2
	// PinLow, pinHigh, pinSpread: whoever sends to us has its queue elsewhere, out of sight. Only a rate that sits at the
	// payload of a full line (0.91-0.97 of its speed by frame size and options) and does not move tells of one.
	PinLow, PinHigh, PinSpread = 0.90, 0.975, 0.03
	// PeerHeaders: what a device on the way carries, as a multiple of the payload: headers of small segments too.
	PeerHeaders = 1.15
	// PinShare: of the time.
	PinShare = 0.8
)

// PeerSuspects is how many peers of a service are looked at closely, those with most data waiting: where more are slow at
// once, it is no single one's trouble. A server may have tens of thousands, and each suspect is held against all.
const PeerSuspects = 8
