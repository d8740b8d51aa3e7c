package diagnose

// Rule looks for one kind of trouble. It keeps no state: the same answers give the same findings.
type Rule struct {
	ID       string // fixed for ever: programs look for it
	Checks   string // what it checks, for the list of what was checked: "cpu", "interrupt load of single cpus"
	Resource string // cpu memory disk network: what is innocent when all the rules of the resource say so; "" none

	// Needs are sentences that the rule can't do without, and whose answers have rows on every machine. One that can't be
	// had, or has no number in it, makes the rule "not checked".
	Needs []string
	// Finds are sentences that the rule can't do without, and whose answers may be empty: there are no such things.
	Finds []string
	// Uses are sentences that only add to the evidence; the rule works without.
	Uses []string
	// Traced are as Uses, of statistics that programs in the kernel measure (measure.Stat.Traced): few may, and a server records them for who asks.
	// Where they can't be had nothing is said of it: the evidence says that it is an estimate.
	Traced []string
	// Sampled are as Uses, of what CPUs were sampled to execute (measure.StackSamples): a look of one's own samples where it may, and a server records
	// it. Where there are none nothing is said of it.
	Sampled []string

	Check func(*Look)
}

// All gives every rule. The order is that of the list of what was checked.
func All() []Rule {
	return []Rule{
		cpuSaturated(),
		cpuOneSaturated(),
		cpuSoftirq(),
		memoryPressure(),
		swapping(),
		diskSaturated(),
		diskHangs(),
		ioStalled(),
		linkSaturated(),
		linkBelowMode(),
		macShared(),
		interfaceUnused(),
		netDrops(),
		tcpListenOverflow(),
		tcpRetransmits(),
		peerSlow(),
		tableLong(),
		tableFullRule(),
		tableGrowing(),
		cachePurge(),
		kernelFunction(),
		cgroupThrottledRule(),
		forkStorm(),
	}
}

// Sentences gives every sentence that the rules ask, once each, in a fixed order, and the one that tells the host's name: what must be
// measured before Run can find it in a reader.
func Sentences(rules []Rule) []string {
	var all []string
	seen := map[string]bool{}
	for _, r := range rules {
		for _, list := range [][]string{r.Needs, r.Finds, r.Uses, r.Traced, r.Sampled} {
			for _, s := range list {
				if !seen[s] {
					seen[s] = true
					all = append(all, s)
				}
			}
		}
	}
	return append(all, hostSentence)
}
