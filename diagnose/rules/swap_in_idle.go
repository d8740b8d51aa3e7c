package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// swapInIdle finds programs that wait for swapped pages although memory is free: the pages went out
// earlier, and each one is read back when it is touched.
func swapInIdle() diagnose.Rule {
	return diagnose.Rule{
		ID: "swap-in-idle", Checks: "swapped pages of an idle machine", About: "memory",
		Needs: []string{facts.MemorySwap, facts.MemorySize},
		Uses: []string{facts.ProcessDelay, facts.Pressure, facts.ProcessFaults, facts.DiskBusy,
			facts.DiskOps, facts.DiskWait, facts.DiskQueue, facts.DiskBytes},
		Check: func(l *diagnose.Look) {
			t, size := l.Table(facts.MemorySwap), l.Table(facts.MemorySize)
			in, out := t.One("direction", "in"), t.One("direction", "out")
			total, free := size.One("kind", "total"), size.One("kind", "available")
			s, ok := diagnose.Lasting(t, diagnose.HasValue(in), func(c int) bool {
				return in.At(c) >= threshold.SwapIdleIn &&
					!(out.At(c) > threshold.SwapIdleOut*in.At(c)) &&
					free.At(c) >= threshold.SwapIdleFree*total.At(c)
			})
			if s.Known < threshold.LeastSeconds {
				l.Unchecked("swap traffic is unknown")
				return
			}
			if ok {
				accuseSwapIn(l, in, free, total.Mean(s.Mask), s)
			}
		},
	}
}

// faultWaits returns the program with the most faults that read from a device, and the share of the
// time that it waits for them: each takes as long as a read of the disk that reads most. PSI counts
// such a wait only for pages that were in use when they went out, and delay accounting is off by
// default. ok is false when one of the two is not known.
func faultWaits(l *diagnose.Look, mask []bool) (program facts.Program, share float64, ok bool) {
	t := l.Table(facts.ProcessFaults)
	all := facts.Programs(t, t.Rows, mask)
	if len(all) == 0 {
		return program, 0, false
	}
	read, most := 0.0, 0.0
	ops := l.Table(facts.DiskOps)
	for _, busy := range l.Table(facts.DiskBusy).Rows {
		name := busy.Word("device")
		rate := ops.One("device", name, "direction", "read").Part(mask)
		if time := facts.DiskOf(l, name, "", busy).RequestTime(mask, "read"); rate > most &&
			time >= 0 {
			read, most = time/1e9, rate
		}
	}
	return all[0], min(1, all[0].Rate*read), most > 0
}

// accuseSwapIn reports the program that waits; without delay accounting, that somebody does by PSI,
// or by its faults. Compressed memory returns a page in microseconds, and nobody waits for it.
func accuseSwapIn(l *diagnose.Look, in, free *diagnose.Row, total float64, s diagnose.Period) {
	t, delays, pressure := in.Table, l.Table(facts.ProcessDelay), l.Table(facts.Pressure)
	waits := facts.Programs(delays, delays.Where("reason", "swapin"), s.Mask)
	stalled := pressure.One("resource", "memory", "scope", "some")
	culprit, identity := diagnose.Culprit{Kind: "memory", Name: "swap"}, ""
	share := series.Or(stalled.Mean(s.Mask), 0)
	whom := fmt.Sprintf("some task waits for memory %s of the time", phrase.Percent(share))
	if len(waits) > 0 {
		culprit, identity, share = waits[0].Culprit(), waits[0].Identity(), waits[0].Rate
		whom = fmt.Sprintf("%s waits %s of the time", waits[0], phrase.Percent(share))
	}
	faulty, estimate, ok := faultWaits(l, s.Mask)
	ok = ok && len(waits) == 0 && estimate > share
	if ok {
		culprit, identity, share = faulty.Culprit(), faulty.Identity(), estimate
		whom = fmt.Sprintf("%s probably waits %s of the time", faulty, phrase.Percent(share))
	}
	if share < threshold.SwapIdleWait {
		return
	}
	severity := diagnose.Low
	if share >= threshold.SwapIdleMuch {
		severity = diagnose.Medium
	}
	rate, available := in.Mean(s.Mask), free.Mean(s.Mask)
	f := l.Found(identity, severity, 0.9, culprit, fmt.Sprintf(
		"%s are swapped in for %s although %s of memory is available, and %s: the pages went out "+
			"earlier, and each is read when it is touched.", phrase.BytesRate(rate), s,
		phrase.Memory(available), whom))
	f.SetEffect(min(share, 1))
	f.AddEvidence(t, s, in.Query(), rate, t.Unit, phrase.BytesRate(rate)+" are swapped in")
	f.AddEvidence(free.Table, s, free.Query(), available, free.Table.Unit, fmt.Sprintf(
		"%s of memory is available, %s of all", phrase.Memory(available),
		phrase.Percent(available/total))).CompareTo(total, "all memory")
	switch {
	case ok:
		t := l.Table(facts.ProcessFaults)
		f.AddEvidence(t, s, faulty.Query(t), faulty.Rate, t.Unit,
			fmt.Sprintf("%s has %s faults per second that read from a device: %s of the time at "+
				"the time of a read", faulty, phrase.Count(faulty.Rate), phrase.Percent(share)))
		f.AddCaveat(0.1, "The wait is an estimate: delay accounting (kernel.task_delayacct=1) "+
			"measures it.")
	case identity != "":
		f.AddEvidence(delays, s, waits[0].Query(delays)+` and reason = "swapin"`, share,
			delays.Unit, fmt.Sprintf("tasks of %s wait for swapped pages %s of the time",
				waits[0], phrase.Percent(share)))
	default:
		f.AddEvidence(pressure, s, stalled.Query(), share, "ratio",
			fmt.Sprintf("some task waits for memory %s of the time (PSI)", phrase.Percent(share)))
	}
	f.AddCaveat(0.05, "It ends by itself when all pages in use are back.")
	f.Verify = "vmstat 1 5; grep -H VmSwap /proc/[0-9]*/status | sort -k2 -n | tail -5"
	f.Fix = &diagnose.Fix{Command: "swapoff -a && swapon -a", Undo: "nothing to undo: the kernel " +
		"swaps out again when it lacks memory",
		Risk: "medium: it reads all of swap at once; the pages must fit into the available " +
			"memory, and control groups at their limit may be killed"}
	f.Cover("swapping", nil)
	f.Cover("tasks-blocked", facts.BlockedOnMemory)
}
