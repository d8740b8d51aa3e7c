package threshold

// Thresholds of rule peer-slow: see peers.
const (
	PeerLeast         = 4
	PeerHalf          = 0.5
	PeerNear          = 0.85
	PeerAway          = 6.0
	PeerAwayStep      = 3.5
	PeerFloor         = 0.02
	PeerBacklog       = 3000.0
	PeerBacklogOthers = 0.25
	PeerFaster        = 2.0
	PeerActive        = 1000.0
	StepLow           = 0.75
	StepHigh          = 1.01
	StepBurst         = 1.2
	PinLow            = 0.90
	PinHigh           = 0.975
	PinSpread         = 0.03
	PinShare          = 0.8
	PeerHeaders       = 1.15
	PeerSuspects      = 8
)

func peers() []Threshold {
	return []Threshold{
		edge("PeerLeast", PeerLeast, "peers", 3, 4,
			"the odd one among fewer cannot be identified"),
		edge("PeerHalf", PeerHalf, "share of the median", 0.485, 0.51,
			"a peer below half of the median is held back by something the others do not "+
				"have"),
		edge("PeerNear", PeerNear, "share of the median", 0.83, 0.87,
			"nearer to the median than PeerHalf all signs must agree"),
		edge("PeerAway", PeerAway, "robust standard deviations", 5.85, 6.15,
			"ten equal clients of a healthy server differ by less than a thousandth"),
		edge("PeerAwayStep", PeerAwayStep, "robust standard deviations", 3.4, 3.6,
			"enough where the path of the peer delivers at a speed of Ethernet and those of"+
				" the others more"),
		untested("PeerFloor", PeerFloor, "share of the median",
			"least spread assumed of the others: equals are never perfectly equal",
			"PeerNear and PeerHalf decide first: a peer that they let through lies eight of"+
				" these below its equals"),
		edge("PeerBacklog", PeerBacklog, "B", 2900, 3100,
			"that wait for the peer: two segments; a client that asks for less has none"),
		edge("PeerBacklogOthers", PeerBacklogOthers, "share of the backlog of the peer", 0.24, 0.26,
			"that waits for the others; when all wait alike, the limit is common"),
		edge("PeerFaster", PeerFaster, "factor", 1.95, 2.06,
			"by which the paths of the others deliver more"),
		edge("PeerActive", PeerActive, "B/s", 970, 1040,
			"a peer that gets less is not a client at work"),
		edge("StepLow", StepLow, "share of the speed", 0.73, 0.77,
			"least payload of a full line, with small frames"),
		edge("StepHigh", StepHigh, "share of the speed", 1.0, 1.02,
			"most payload of a full line"),
		edge("StepBurst", StepBurst, "share of the speed", 1.18, 1.22,
			"most that the last measurement of a path may exceed the speed of a line, after"+
				" a burst"),
		edge("PinLow", PinLow, "share of the speed", 0.89, 0.91,
			"least steady rate of a sender behind a full line"),
		edge("PinHigh", PinHigh, "share of the speed", 0.965, 0.985,
			"most steady rate of a sender behind a full line"),
		edge("PinSpread", PinSpread, "share of the rate", 0.029, 0.031,
			"most that such a rate varies"),
		edge("PinShare", PinShare, "share of the time", 0.7, 0.8,
			"for which the rate stays there"),
		edge("PeerHeaders", PeerHeaders, "factor", 1.13, 1.17,
			"from payload to what a device on the way carries"),
		edge("PeerSuspects", PeerSuspects, "peers", 8, 9,
			"of a service examined closely: more slow ones at once are no fault of one"),
	}
}
