package threshold

// Thresholds of the question whether anybody waits for a resource: see anybody.
const (
	WaitsLeast    = 0.02
	LinkRTTFactor = 2.0
	LinkRTTMore   = 1e6
)

func anybody() []Threshold {
	return []Threshold{
		edge("WaitsLeast", WaitsLeast, "share of the time", 0.0195, 0.0206,
			"PSI some: below, no task is held up that anybody would notice"),
		edge("LinkRTTFactor", LinkRTTFactor, "times the least round trip", 1.94, 2.06,
			"of another connection through a full link: it waits in the queue"),
		edge("LinkRTTMore", LinkRTTMore, "ns above the least round trip", 970000, 1.03e+06,
			"a shorter queue is not noticed: interrupts and busy receivers delay as long"),
	}
}
