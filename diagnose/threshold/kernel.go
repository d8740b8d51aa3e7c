package threshold

// Thresholds of rules that name kernel functions: see functions.
const (
	FunctionLine   = 0.1
	FunctionLines  = 2
	FunctionSeen   = 0.01
	FunctionShare  = 0.15
	FunctionMuch   = 0.30
	FunctionNearly = 0.5
	FunctionBusy   = 0.5
	FunctionLeast  = 0.1
	FunctionMost   = 2
)

func functions() []Threshold {
	return []Threshold{
		edge("FunctionLine", FunctionLine, "share of the time in question", 0.097, 0.104,
			"a function that takes less gets no line of evidence"),
		edge("FunctionLines", FunctionLines, "lines", 2, 3,
			"most functions that get a line of evidence"),
		edge("FunctionSeen", FunctionSeen, "share of a CPU", 0.0097, 0.0104,
			"ten samples in ten seconds at 99 per second; fewer may be chance"),
		edge("FunctionShare", FunctionShare, "share of the busy time", 0.146, 0.155,
			"of functions with a known cause: lookups in tables, waiting for locks"),
		edge("FunctionMuch", FunctionMuch, "share of the busy time", 0.29, 0.31,
			"of any other; on healthy machines none but the everyday ones takes a tenth"),
		edge("FunctionNearly", FunctionNearly, "share of the busy time", 0.48, 0.52,
			"from here on the CPUs do little else"),
		edge("FunctionBusy", FunctionBusy, "CPUs", 0.48, 0.52,
			"busy in all; with less nobody waits for the function"),
		edge("FunctionLeast", FunctionLeast, "CPUs", 0.097, 0.104,
			"ten samples per second"),
		edge("FunctionMost", FunctionMost, "findings", 2, 3,
			"further ones repeat the same fault"),
	}
}

// Thresholds of rule cache-purge: see purges.
const (
	PurgeSeen = 0.015
	PurgeFelt = 0.06
	PurgeHeld = 0.5
	PurgeSize = 1000.0
)

func purges() []Threshold {
	return []Threshold{
		edge("PurgeSeen", PurgeSeen, "CPUs", 0.0147, 0.0155,
			"fifteen samples in ten seconds at 99 per second"),
		edge("PurgeFelt", PurgeFelt, "CPUs", 0.058, 0.062,
			"19 ms five times per second are a tenth of a CPU: callers notice, not of 5 ms"),
		edge("PurgeHeld", PurgeHeld, "CPUs per process", 0.48, 0.52,
			"from here on the process does little else"),
		edge("PurgeSize", PurgeSize, "entries", 970, 1040,
			"purging fewer entries takes less than a millisecond: 40,000 took 19 ms"),
	}
}

// Thresholds of rules table-long, table-full and table-growing: see tables.
const (
	TableChain    = 8.0
	TableChainBad = 64.0
	TableWorth    = 1000.0
	TableBusy     = 0.15
	PacketCost    = 10e3
	TableNear     = 0.90
	TableFull     = 0.99
	TableCollect  = 1.0
	LeastLimit    = 16.0
	GrowSize      = 50000.0
	GrowDouble    = 600.0
)

func tables() []Threshold {
	return []Threshold{
		edge("TableChain", TableChain, "entries per bucket", 7.8, 8.2,
			"one is usual; a chain of eight means four cache misses per lookup"),
		edge("TableChainBad", TableChainBad, "entries per bucket", 63, 66,
			"the walk costs more than all other work on a packet: 27 us instead of 5 at 781"),
		edge("TableWorth", TableWorth, "entries", 970, 1040,
			"a smaller table fits into the cache of the CPU"),
		edge("TableBusy", TableBusy, "share of a CPU", 0.147, 0.154,
			"softirq work; from here on the cost of a packet matters"),
		edge("PacketCost", PacketCost, "ns of softirq time", 9800.0, 10300.0,
			"per packet; 1-5 us is usual"),
		edge("TableNear", TableNear, "share of the limit", 0.89, 0.91,
			"above the limit the kernel refuses entries: conntrack drops new connections"),
		edge("TableFull", TableFull, "share of the limit", 0.98, 0.995,
			"the next entries are refused"),
		edge("TableCollect", TableCollect, "collections per second", 0.97, 1.04,
			"a neighbour table below its limit is collected at most every five seconds"),
		edge("LeastLimit", LeastLimit, "entries", 15, 17,
			"a smaller limit is a switch"),
		edge("GrowSize", GrowSize, "entries", 49000, 51000,
			"a smaller table can grow for long"),
		edge("GrowDouble", GrowDouble, "s", 590, 610,
			"time to double; slower growth can wait"),
	}
}
