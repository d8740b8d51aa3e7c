package threshold

// Threshold is one constant by which rules decide.
type Threshold struct {
	Name  string
	Value float64
	Unit  string
	Why   string // the reason for the value

	// Below and Above are two values in Unit, one on each side of Value. Canned machines in
	// rules/testdata show that rules decide differently at the two. Both are 0 with Untested.
	Below, Above float64
	Untested     string // why no canned machine tests the edge; "" when one does
}

// All returns every threshold, by package file.
func All() []Threshold {
	var all []Threshold
	for _, list := range [][]Threshold{
		cpuSaturated(), actors(), cpuOne(), cpuSoftirq(), forks(), throttling(),
		functions(), purges(), tables(), memory(), swapping(), swapIdle(), growing(),
		compaction(), writeback(), clockSteps(), slowness(), numa(),
		disks(), hangs(), stalls(), blocked(), links(), unused(),
		losses(), tcp(), tcpStalls(), sendBuffers(), nagleDelays(), blackHoles(),
		connects(), names(), refused(), httpServers(), peers(), limits(),
		zombies(), stopped(), locks(), fileLocks(), semaphores(), pipes(), switches(),
		faults(), shootdowns(), polling(), realtime(), starvation(),
		confinement(), state(), doubts(), anybody(), crashes(), messages(),
	} {
		all = append(all, list...)
	}
	return all
}

func edge(name string, value float64, unit string, below, above float64, why string) Threshold {
	return Threshold{Name: name, Value: value, Unit: unit, Why: why, Below: below, Above: above}
}

func untested(name string, value float64, unit, why, reason string) Threshold {
	return Threshold{Name: name, Value: value, Unit: unit, Why: why, Untested: reason}
}
