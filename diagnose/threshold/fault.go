package threshold

// Thresholds of rule page-faults: see faults.
const (
	FaultRate    = 500.0
	FaultRenewed = 0.5
	FaultCost    = 0.15
	FaultShare   = 0.3
	FaultMuch    = 0.5
	FaultMain    = 0.5
	FaultCall    = 0.03
	FaultPerFork = 1000.0
)

func faults() []Threshold {
	return []Threshold{
		edge("FaultRate", FaultRate, "page faults per second", 485, 515,
			"of one program, beyond those by which its memory grows; with huge pages these are "+
				"1 GB per second"),
		edge("FaultRenewed", FaultRenewed, "share of the page faults", 0.48, 0.52,
			"beyond those by which its memory grows; with less it starts, or loads data"),
		edge("FaultCost", FaultCost, "CPUs", 0.146, 0.155,
			"for the faults and the calls that release the memory; with less nobody notices"),
		edge("FaultShare", FaultShare, "share of the CPU time of the program", 0.29, 0.31,
			"for the same; programs that allocate much spend up to a fifth there"),
		edge("FaultMuch", FaultMuch, "CPUs", 0.48, 0.52,
			"for the same; with less a program or a machine at its limit has another cause"),
		edge("FaultMain", FaultMain, "share of the time in faults", 0.48, 0.52,
			"of one kind of fault: it is the cause"),
		edge("FaultCall", FaultCall, "share of the time for faults and calls", 0.029, 0.031,
			"in a system call that releases memory: it is the cause of faults in new memory. "+
				"Releasing a page takes a tenth of what clearing it takes"),
		edge("FaultPerFork", FaultPerFork, "page faults per start of a process", 970, 1040,
			"copies after a fork; shells copy a hundred pages for each command that they start"),
	}
}

// Thresholds of rule tlb-shootdowns: see shootdowns.
const (
	ShootdownRate  = 5000.0
	ShootdownCost  = 0.1
	ShootdownShare = 0.15
)

func shootdowns() []Threshold {
	return []Threshold{
		edge("ShootdownRate", ShootdownRate, "interrupts per second", 4850, 5150,
			"for TLB shootdowns on all CPUs; at 2 to 10 us these are up to 5 % of a CPU"),
		edge("ShootdownCost", ShootdownCost, "CPUs", 0.097, 0.104,
			"of the program that waits for the other CPUs; ten samples per second"),
		edge("ShootdownShare", ShootdownShare, "share of the CPU time of the program", 0.146,
			0.155, "in which it waits for the other CPUs"),
	}
}
