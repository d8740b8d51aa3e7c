package threshold

// Thresholds of rule send-buffer: see sendBuffers.
const (
	SendBufferShare = 0.5
	SendBufferTrip  = 1e6
	SendBufferQueue = 2.0
	SendBufferFull  = 0.66
	SendBufferSent  = 0.25
)

func sendBuffers() []Threshold {
	return []Threshold{
		edge("SendBufferShare", SendBufferShare, "share of the time", 0.48, 0.52,
			"in which a program waits for its send buffer while the path would take more"),
		edge("SendBufferTrip", SendBufferTrip, "ns", 970e3, 1.04e6,
			"round-trip time; on shorter paths the buffer is empty whenever the program or the "+
				"receiver waits for a CPU"),
		edge("SendBufferQueue", SendBufferQueue, "of the least round-trip time", 1.9, 2.1,
			"a longer trip shows a queue on the path: it takes no more"),
		edge("SendBufferFull", SendBufferFull, "share of the buffer", 0.65, 0.67,
			"in use: the kernel wakes a waiting program when a third is free"),
		edge("SendBufferSent", SendBufferSent, "share of what the buffer holds", 0.245, 0.256,
			"that is not sent yet: with more the path, not the buffer, sets the rate"),
	}
}

// Thresholds of rule mtu-black-hole: see blackHoles.
const (
	BlackHoleSegment = 1200.0
	BlackHoleSmall   = 0.5
)

func blackHoles() []Threshold {
	return []Threshold{
		edge("BlackHoleSegment", BlackHoleSegment, "B", 1160, 1240,
			"segment size; IPv6 guarantees an MTU of 1,280, which smaller segments pass"),
		edge("BlackHoleSmall", BlackHoleSmall, "of a segment", 0.48, 0.52,
			"mean size of the segments that pass; larger ones show that full segments pass too"),
	}
}
