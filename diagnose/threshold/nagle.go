package threshold

// Thresholds of rule nagle-delay: see nagleDelays.
const (
	NagleShare  = 0.5
	NagleTrip   = 10e6
	NagleLonger = 5.0
	NagleFlying = 2.5
)

func nagleDelays() []Threshold {
	return []Threshold{
		edge("NagleShare", NagleShare, "share of the time", 0.48, 0.52,
			"in which a connection with a small piece to send waits for acknowledgements"),
		edge("NagleTrip", NagleTrip, "ns", 9.7e6, 10.4e6,
			"of an acknowledgement; Linux delays one by 40 ms, and the mean has those of others"),
		edge("NagleLonger", NagleLonger, "times the least round-trip time", 4.8, 5.2,
			"that an acknowledgement takes: less is the path"),
		edge("NagleFlying", NagleFlying, "segments", 2.4, 2.6,
			"that are not acknowledged, on average in long cells: more wait in a queue"),
	}
}
