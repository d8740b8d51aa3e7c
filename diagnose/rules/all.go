package rules

import (
	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// All returns every rule, in the order of Report.Checked.
func All() []diagnose.Rule {
	return []diagnose.Rule{
		cpuSaturated(),
		cpuOneSaturated(),
		cpuSoftirq(),
		memoryPressure(),
		swapping(),
		memoryGrowing(),
		compactionStalls(),
		swapInIdle(),
		writebackThrottled(),
		diskSaturated(),
		diskHangs(),
		diskSuspended(),
		arrayDegraded(),
		ioStalled(),
		tasksBlocked(),
		linkSaturated(),
		linkBelowMode(),
		macShared(),
		interfaceUnused(),
		netDrops(),
		tcpListenOverflow(),
		tcpRetransmits(),
		tcpStalled(),
		sendBuffer(),
		nagleDelay(),
		mtuBlackHole(),
		connectionsFail(),
		httpSlow(),
		dnsSilent(),
		dnsSlow(),
		dnsFails(),
		udpRefused(),
		peerSlow(),
		tableLong(),
		limitReached(),
		callsFail(),
		tableFull(),
		tableGrowing(),
		cachePurge(),
		kernelFunction(),
		cgroupThrottled(),
		forkStorm(),
		zombiesPileUp(),
		processStopped(),
		crashLoop(),
		kernelEvents(),
		lockConvoy(),
		fileLockWait(),
		semaphoreWait(),
		pipeWait(),
		switchStorm(),
		pageFaults(),
		tlbShootdowns(),
		busyPolling(),
		realtimeHog(),
		cpuStarved(),
		cpusConfined(),
		cpuSlow(),
		numaRemote(),
		clockSlow(),
		clockSteps(),
	}
}

// Set returns all rules with the checks across them.
func Set() diagnose.RuleSet {
	return diagnose.RuleSet{Rules: All(), Doubts: doubtsOf, Explains: explainsDoubt,
		Notes: notesOfCost, Covers: covers}
}

// covers reports whether a finding is the cause of a message of the kernel, of crashes, of system
// calls that fail, or of a process that gets no CPU.
func covers(cause, symptom *diagnose.Finding) bool {
	return facts.ExplainsMessage(cause, symptom) || facts.ExplainsCrashes(cause, symptom) ||
		facts.ExplainsFailedCalls(cause, symptom) || facts.ExplainsStarvation(cause, symptom)
}

// Queries returns each query of the rules once, in a fixed order: what must be measured before
// diagnose.Run can find it in a reader.
func Queries() []string { return diagnose.Queries(All()) }

// resourceOf returns the resource of a rule.
func resourceOf(rule string) string { return diagnose.RuleSet{Rules: All()}.Resource(rule) }

// notesOfCost returns a note on the CPU time that the measuring took, when it is much: it is part
// of what was measured.
func notesOfCost(tables diagnose.Tables) []string {
	if v := tables(facts.SoftirqTimeCost).One().Mean(nil); v >= threshold.CostNoted {
		return []string{"measuring softirq time took " + phrase.Percent(v) +
			" of a CPU, most of it inside the measured time"}
	}
	return nil
}
