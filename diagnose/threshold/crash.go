package threshold

// Thresholds of rule crash-loop: see crashes.
const (
	CrashRate = 2.0
	CrashLife = 30.0
	CrashOver = 5.0
	CrashMost = 5

	CrashLoops     = 5.0
	CrashLoopLasts = 6.0
	CrashLoopShare = 0.6
	CrashAsks      = 0.01
)

// Thresholds of rule kernel-events: see messages.
const (
	MessagesMost = 8
	MessageLines = 3
)

func messages() []Threshold {
	return []Threshold{
		edge("MessagesMost", MessagesMost, "findings", 8, 9,
			"the most severe; a failing disk or machine writes messages of many kinds"),
		edge("MessageLines", MessageLines, "lines", 3, 4,
			"of evidence; further ones differ in numbers only"),
	}
}

func crashes() []Threshold {
	return []Threshold{
		edge("CrashRate", CrashRate, "per minute", 1.95, 2.06,
			"a job that a timer starts each minute is no loop; supervisors wait for 0.1 to 20 s"),
		edge("CrashLife", CrashLife, "s", 29, 31,
			"mean lifetime; a service that fails sooner is hardly ever there"),
		edge("CrashOver", CrashOver, "times the mean time between two", 4.9, 5.15,
			"without a further crash: it has stopped"),
		edge("CrashAsks", CrashAsks, "s", 0.0095, 0.0105,
			"mean lifetime; a program that ends sooner with code 1 answers a question"),
		edge("CrashLoops", CrashLoops, "ends", 4.5, 5.5,
			"with the same code, of a program that the same parent starts again"),
		edge("CrashLoopLasts", CrashLoopLasts, "s", 5, 6,
			"from the first of them to the last; a script that fails some times ends"),
		edge("CrashLoopShare", CrashLoopShare, "share of the time", 0.55, 0.65,
			"in seconds in which one of them ended"),
		edge("CrashMost", CrashMost, "findings", 5, 6,
			"further ones repeat the same fault, as of a library that all use"),
	}
}
