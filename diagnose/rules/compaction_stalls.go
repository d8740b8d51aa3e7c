package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// compactionStalls finds allocations that wait while the kernel moves pages to make memory
// contiguous: page faults of transparent huge pages, and buffers of drivers. Compaction in the
// background (kcompactd) stalls nobody.
func compactionStalls() diagnose.Rule {
	return diagnose.Rule{
		ID: "compaction-stalls", Checks: "memory compaction", About: "memory",
		Needs: []string{facts.MemoryCompaction},
		Uses: []string{facts.ProcessDelay, facts.Pressure, facts.MemoryScan,
			facts.MemorySize},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.MemoryCompaction)
			row := t.One()
			s, ok := diagnose.Lasting(t, diagnose.HasValue(row), func(c int) bool {
				return row.At(c) >= threshold.CompactStalls
			})
			if s.Known < threshold.LeastSeconds {
				l.Unchecked("compaction is not counted")
				return
			}
			if ok {
				accuseCompaction(l, row, s)
			}
		},
	}
}

// accuseCompaction reports stalls if somebody waits for them: a program by delay accounting, or by
// PSI where nothing else reclaims memory.
func accuseCompaction(l *diagnose.Look, row *diagnose.Row, s diagnose.Period) {
	t, delays, pressure := row.Table, l.Table(facts.ProcessDelay), l.Table(facts.Pressure)
	culprit, identity := diagnose.Culprit{Kind: "memory", Name: "compaction"}, ""
	waits := facts.Programs(delays, delays.Where("reason", "compact"), s.Mask)
	stalled := pressure.One("resource", "memory", "scope", "some")
	direct := l.Table(facts.MemoryScan).One("by", "direct").Mean(s.Mask)
	whom, share := "", 0.0
	switch {
	case len(waits) > 0 && waits[0].Rate >= threshold.CompactDelay:
		culprit, identity = waits[0].Culprit(), waits[0].Identity()
		share = waits[0].Rate
		whom = fmt.Sprintf("; tasks of %s wait for it %s of the time", waits[0],
			phrase.Percent(share))
	case len(waits) == 0 && stalled.Mean(s.Mask) >= threshold.CompactPressure &&
		direct < threshold.MemoryDirect:
		share = stalled.Mean(s.Mask)
		whom = fmt.Sprintf("; some task waits for memory %s of the time", phrase.Percent(share))
	default:
		return
	}
	f := l.Found(identity, diagnose.Medium, 0.85, culprit, fmt.Sprintf(
		"Allocations wait until memory is contiguous, %s times per second for %s%s.",
		phrase.Count(row.Mean(s.Mask)), s, whom))
	f.SetEffect(min(share, 1))
	f.AddEvidence(t, s, row.Query(), row.Mean(s.Mask), t.Unit, fmt.Sprintf(
		"%s allocations per second wait for compaction (compact_stall)",
		phrase.Count(row.Mean(s.Mask))))
	if identity != "" {
		f.AddEvidence(delays, s, waits[0].Query(delays)+` and reason = "compact"`, share,
			delays.Unit, fmt.Sprintf("tasks of %s wait for compaction %s of the time", waits[0],
				phrase.Percent(share)))
	}
	if v := stalled.Mean(s.Mask); v == v {
		f.AddEvidence(pressure, s, stalled.Query(), v, "ratio",
			fmt.Sprintf("some task waits for memory %s of the time (PSI)", phrase.Percent(v)))
	}
	f.AddCaveat(0.1, "Huge pages of programs and large buffers of drivers cause it alike.")
	const defrag = "/sys/kernel/mm/transparent_hugepage/defrag"
	f.Verify = "grep -E '^(compact_|thp_fault)' /proc/vmstat; cat " + defrag
	f.Fix = &diagnose.Fix{Command: "echo defer+madvise > " + defrag,
		Undo: "echo madvise > " + defrag,
		Risk: "low: programs get huge pages later, from khugepaged; madvise is the default of " +
			"the kernel, restore yours"}
	f.Cover("tasks-blocked", facts.BlockedOnMemory)
}
