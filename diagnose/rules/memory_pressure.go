package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// memoryPressure finds that the memory of the machine, or the limit of a cgroup, is too small for
// the working set.
func memoryPressure() diagnose.Rule {
	return diagnose.Rule{
		ID: "memory-pressure", Checks: "memory", Resource: "memory",
		Needs: []string{facts.MemorySize, facts.MemoryScan},
		Uses: []string{facts.MemoryStalls, facts.MemoryRefault, facts.MemoryFaults, facts.MemoryOOM,
			facts.MemorySwap, facts.Pressure, facts.ProcessRSS, facts.ProcessFaults,
			facts.ProcessInfo,
			facts.CgroupMemory, facts.CgroupEvents, facts.CgroupPressure, facts.DiskBytes,
			facts.KernelMessages},
		Check: func(l *diagnose.Look) {
			machineMemory(l, cgroupsMemory(l))
		},
	}
}

// machineNumbers are the memory of the machine and the signs that it is short. Rows are nil, and
// series empty, where a kernel has none.
type machineNumbers struct {
	size                 *diagnose.Table
	total, avail         *diagnose.Row
	psi, direct, major   *diagnose.Row
	stalls, again        []float64 // allocations that waited; pages read again
	stallsOf, refaultsOf *diagnose.Table
	killsOf              *diagnose.Table
	kills                float64 // per second, without those for the limit of a cgroup
}

func machineNumbersOf(l *diagnose.Look, accused []tightCgroup) machineNumbers {
	n := machineNumbers{size: l.Table(facts.MemorySize), stallsOf: l.Table(facts.MemoryStalls),
		refaultsOf: l.Table(facts.MemoryRefault), killsOf: l.Table(facts.MemoryOOM)}
	n.total, n.avail = n.size.One("kind", "total"), n.size.One("kind", "available")
	n.psi = l.Table(facts.Pressure).One("resource", "memory", "scope", "some")
	n.direct, n.major = l.Table(facts.MemoryScan).One("by", "direct"),
		l.Table(facts.MemoryFaults).One("type", "major")
	n.stalls, n.again = n.stallsOf.Sum(n.stallsOf.Rows), n.refaultsOf.Sum(n.refaultsOf.Rows)
	n.kills = series.Or(n.killsOf.Mean(n.killsOf.Sum(n.killsOf.Rows), nil), 0)
	for _, g := range accused {
		if g.killed {
			n.kills = 0 // reported for the cgroup
		}
	}
	return n
}

// pinches reports whether tasks are slowed by lack of memory in cell c. Pressure decides where the
// kernel has it: little may be left beside reserved huge pages, and a program that starts reads its
// pages.
func (n machineNumbers) pinches(c int) bool {
	psi := n.psi.At(c)
	looks := n.direct.At(c) >= threshold.MemoryDirect ||
		series.AtOrZero(n.stalls, c) >= threshold.MemoryStallsRate ||
		series.AtOrZero(n.again, c) >= threshold.MemoryRefaults
	if psi == psi {
		return psi >= threshold.MemoryStall || psi >= threshold.MemoryFelt && looks
	}
	return looks || !n.refaultsOf.HasNumbers() && n.major.At(c) >= threshold.MemoryMajor
}

// share returns how much of the memory is available, 0..1.
func (n machineNumbers) share(mask []bool) float64 {
	return n.avail.Mean(mask) / n.total.Mean(mask)
}

// machineMemory reports that the machine lacks memory, or why it does not. accused are the control
// groups at their own limit.
func machineMemory(l *diagnose.Look, accused []tightCgroup) {
	n := machineNumbersOf(l, accused)
	if !(n.total.Mean(nil) > 0) || !(n.avail.Mean(nil) <= n.total.Mean(nil)) {
		l.Unchecked("the available memory is unknown")
		return
	}
	s, short := diagnose.Lasting(n.size, diagnose.HasValue(n.avail), func(c int) bool {
		return n.avail.At(c) < threshold.MemoryLow*n.total.At(c) && n.pinches(c)
	})
	// The kernel's estimate of available memory includes file pages in constant use: stalls with
	// refaults count above MemoryLow too. With plenty available they are caused by the limit of a
	// cgroup.
	if !short {
		stalled, ok := diagnose.Lasting(n.size, diagnose.HasValue(n.avail), func(c int) bool {
			return n.psi.At(c) >= threshold.MemoryStallHigh &&
				series.AtOrZero(n.again, c) >= threshold.MemoryRefaults
		})
		if ok && n.share(stalled.Mask) < threshold.MemoryPlenty && len(accused) == 0 {
			s, short = stalled, true
		}
	}
	switch {
	case short:
		n.accuse(l, s)
	case n.kills > 0:
		n.accuse(l, diagnose.WholePeriod(n.size))
	case len(accused) == 0:
		n.spare(l)
	}
}

// spare records that memory is not short, with the numbers, or what keeps it from being ruled out.
func (n machineNumbers) spare(l *diagnose.Look) {
	text := fmt.Sprintf("%s of %s available", phrase.Percent(n.share(nil)),
		phrase.Memory(n.total.Mean(nil)))
	if own := ownLimit(l); own != "" {
		text += ", " + own
	}
	stalled := n.psi.Mean(nil)
	switch {
	case stalled >= threshold.DoubtStall && n.share(nil) >= threshold.MemoryPlenty:
		seen := "no cgroup is visible from here"
		if l.Table(facts.CgroupMemory).HasNumbers() {
			seen = "no visible cgroup is known to be at its limit"
		}
		l.Doubtful("some task is stalled on memory %s of the time (PSI) while %s: the limit of a "+
			"cgroup does that, and %s", phrase.Percent(stalled), text, seen)
	case stalled == stalled:
		l.Fine("%s, stalled on memory %s of the time", text, phrase.Percent(stalled))
	case n.share(nil) < threshold.MemoryLow && !n.refaultsOf.HasNumbers():
		l.Doubtful("%s, and this kernel reports neither memory stalls nor refaults", text)
	default:
		l.Fine("%s", text)
	}
}

// ownLimit returns how much of the limit of the visible root is in use, as a phrase; "" on a
// machine without one.
func ownLimit(l *diagnose.Look) string {
	m := l.Table(facts.CgroupMemory)
	used, limit := m.One("cgroup", facts.VisibleRoot, "kind", "current").Mean(nil),
		m.One("cgroup", facts.VisibleRoot, "kind", "limit").Mean(nil)
	if !(limit > 0) || used != used {
		return ""
	}
	return fmt.Sprintf("%s of this container's limit of %s in use", phrase.Memory(used),
		phrase.Memory(limit))
}

// holder is the program with most memory.
type holder struct {
	all      []facts.Program
	culprit  diagnose.Culprit
	identity string
	share    float64 // of all memory
	text     string
}

// holderOf returns the program with most memory. Reserved huge pages are in no process's resident
// memory.
func (n machineNumbers) holderOf(l *diagnose.Look, s diagnose.Period) holder {
	rss := l.Table(facts.ProcessRSS)
	h := holder{culprit: diagnose.Culprit{Kind: "memory", Name: "memory"},
		text: "no single program stands out", all: facts.Actors(l, rss, rss.Rows, s.Mask)}
	total := n.total.Mean(s.Mask)
	if len(h.all) > 0 {
		first := h.all[0]
		h.share = first.Rate / total
		h.text = fmt.Sprintf("the largest program, %s, holds %s of it", first,
			phrase.Percent(h.share))
		if h.share >= leastHeld {
			h.culprit, h.identity = first.Culprit(), first.Identity()
			h.text = fmt.Sprintf("%s holds %s of it, %s", first, phrase.Memory(first.Rate),
				phrase.Percent(h.share))
		}
	}
	if huge := n.size.One("kind",
		"hugepages_total").Mean(s.Mask) / total; huge >= threshold.MemoryPlenty {
		h.text += fmt.Sprintf("; %s is reserved for huge pages", phrase.Percent(huge))
	}
	return h
}

func (n machineNumbers) accuse(l *diagnose.Look, s diagnose.Period) {
	total, share := n.total.Mean(s.Mask), n.share(s.Mask)
	h := n.holderOf(l, s)
	severity, confidence := diagnose.Medium, 0.85
	stalled, swap := n.psi.Mean(s.Mask), l.Table(facts.MemorySwap)
	if stalled >= threshold.MemoryStallHigh || n.kills > 0 || facts.SumRows(swap, swap.Rows,
		s.Mask) >= threshold.SwapBoth {
		severity, confidence = diagnose.High, 0.95
	}
	claim := fmt.Sprintf("Memory is short: only %s of %s available for %s; %s.",
		phrase.Percent(share), phrase.Memory(total), s, h.text)
	switch {
	case n.kills > 0 && share >= threshold.MemoryPlenty:
		claim = fmt.Sprintf("The kernel killed %s for lack of memory although %s of %s is "+
			"available: at the limit of a control group that is not visible here, or at a peak.",
			phrase.Plural(int(n.kills*s.Known+0.5), "process", "processes"), phrase.Percent(share),
			phrase.Memory(total))
	case n.kills > 0:
		claim = fmt.Sprintf("Memory ran out: the kernel killed %s, with %s of %s available; %s.",
			phrase.Plural(int(n.kills*s.Known+0.5), "process", "processes"), phrase.Percent(share),
			phrase.Memory(total), h.text)
	}
	f := l.Found(h.identity, severity, confidence, h.culprit, claim)
	f.SetExplains(h.share)
	f.Attribution = divideMemory(l, h.all, total*(1-share), total).Report()
	n.proofs(l, f, s)
	if n.kills > 0 {
		if share > 2*threshold.MemoryLow {
			f.AddCaveat(0.2, "%s of memory is available: the kill came at a peak between two "+
				"readings, or at the limit of a cgroup or of a memory node.", phrase.Percent(share))
		}
		f.AddEvidence(n.killsOf, s, facts.MemoryOOM, n.kills, n.killsOf.Unit,
			"the kernel killed processes to free memory")
	}
	h.proofs(l, f, s, total)
	refaults := n.refaultsOf.Mean(n.again, s.Mask)
	f.Verify = "vmstat 1 5; cat /proc/pressure/memory; ps -eo pid,rss,comm --sort=-rss | head"
	f.Cover("swapping", nil)
	f.Cover("compaction-stalls", nil)
	f.Cover("tasks-blocked", facts.BlockedOnMemory)
	f.Cover("disk-saturated", func(o *diagnose.Finding) bool {
		return o.Culprit.Name == "swap" || refaults >= threshold.MemoryRefaults
	})
}

// proofs adds the numbers of the machine.
func (n machineNumbers) proofs(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period) {
	avail, total := n.avail.Mean(s.Mask), n.total.Mean(s.Mask)
	f.AddEvidence(n.size, s, n.avail.Query(), avail, n.size.Unit,
		fmt.Sprintf("%s available of %s", phrase.Memory(avail),
			phrase.Memory(total))).CompareTo(total, "all memory")
	if huge := n.size.One("kind",
		"hugepages_total"); huge.Mean(s.Mask) >= threshold.MemoryPlenty*total {
		f.AddEvidence(n.size, s, huge.Query(), huge.Mean(s.Mask), n.size.Unit,
			fmt.Sprintf("%s reserved for huge pages",
				phrase.Memory(huge.Mean(s.Mask)))).CompareTo(total, "all memory")
	}
	if v := n.psi.Mean(s.Mask); v == v {
		f.AddEvidence(n.psi.Table, s, n.psi.Query(), v, n.psi.Table.Unit,
			fmt.Sprintf("some task is stalled on memory %s of the time (PSI)", phrase.Percent(v)))
		f.SetEffect(v)
	} else {
		f.AddCaveat(0.1, "Memory stalls are unknown: this kernel reports no pressure (PSI).")
	}
	if v := n.direct.Mean(s.Mask); v >= threshold.MemoryDirect {
		f.AddEvidence(n.direct.Table, s, n.direct.Query(), v, n.direct.Table.Unit,
			fmt.Sprintf("tasks reclaim memory themselves (direct reclaim), %s scanned",
				phrase.BytesRate(v)))
	}
	if v := n.stallsOf.Mean(n.stalls, s.Mask); v >= threshold.MemoryStallsRate {
		f.AddEvidence(n.stallsOf, s, facts.MemoryStalls, v, n.stallsOf.Unit,
			fmt.Sprintf("%s allocations per second had to wait", phrase.Count(v)))
	}
	if v := n.refaultsOf.Mean(n.again, s.Mask); v >= threshold.MemoryRefaults/10 {
		f.AddEvidence(n.refaultsOf, s, `memory.refaults`, v, n.refaultsOf.Unit,
			fmt.Sprintf("%s are read again soon after eviction", phrase.BytesRate(v)))
	}
	if v := n.major.Mean(s.Mask); v >= threshold.MemoryMajor/10 {
		f.AddEvidence(n.major.Table, s, n.major.Query(), v, n.major.Table.Unit,
			fmt.Sprintf("%s faults per second read from disk", phrase.Count(v)))
	}
}

// proofs adds the programs with most memory.
func (h holder) proofs(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period, total float64) {
	if len(h.all) == 0 {
		return
	}
	rss, a := l.Table(facts.ProcessRSS), h.all[0]
	f.AddEvidence(rss, s, a.Query(rss), a.Rate, rss.Unit,
		fmt.Sprintf("%s holds %s resident", a, phrase.Memory(a.Rate))).CompareTo(total,
		"all memory")
	if more := facts.OtherPrograms(h.all, total, 3); more != "" {
		f.AddEvidence(rss, s, `process.rss by process`, h.all[1].Rate, rss.Unit, "then "+more)
	}
	if g := growthOf(rss, a.Series); g > 0.02*total/s.Known && g > 1e6 {
		f.AddEvidence(rss, s, a.Query(rss), g, "B/s",
			fmt.Sprintf("it grows by %s", phrase.BytesRate(g)))
	}
}

// rereads reports whether a disk is busy with refaults: most of its work is reading, and half of
// that is pages evicted before.
func rereads(l *diagnose.Look, disk *diagnose.Finding, refaults float64, mask []bool) bool {
	name := strings.TrimPrefix(disk.ID, "disk-saturated/")
	t := l.Table(facts.DiskBytes)
	read := series.Or(t.One("device", name, "direction", "read").Mean(mask), 0)
	all := series.Or(facts.SumRows(t, t.Where("device", name), mask), 0)
	return refaults >= threshold.MemoryRefaults && read >= 0.5*all && refaults >= 0.5*read
}

// growthOf returns the growth of a level per second when it grows in nearly every cell, else 0.
func growthOf(t *diagnose.Table, v []float64) float64 {
	first, last, up, steps, prev := -1, -1, 0, 0, 0.0
	for c, x := range v {
		if x != x || t.Seconds[c] <= 0 {
			continue
		}
		if first < 0 {
			first = c
		} else {
			steps++
			if x > prev {
				up++
			}
		}
		prev, last = x, c
	}
	if steps < 2 || float64(up) < 0.9*float64(steps) || last == first {
		return 0
	}
	return (v[last] - v[first]) / (t.Step.Seconds() * float64(last-first))
}

// leastHeld is the least share of all memory for which a program is named.
const leastHeld = 0.2

// divideMemory divides the memory in use among programs.
func divideMemory(l *diagnose.Look, all []facts.Program, used, total float64) *attribute.Result {
	return attribute.Divide(&attribute.Resource{Name: "memory", Unit: string(measure.Bytes),
		Total: used, Limit: total * (1 - threshold.MemoryLow),
		Least: leastHeld,
		Users: facts.Users(l.Table(facts.ProcessRSS), all,
			func(i int) float64 { return all[i].Rate }, func(int) float64 { return 0 }),
		Amount: phrase.Memory,
		State: func(use float64) string {
			return phrase.Memory(use) + " of " + phrase.Memory(total) + " would be in use"
		},
		Basis:  "measured: resident memory, in which shared pages count for each process",
		RestIs: "that of the kernel, of shared memory, or of files"})
}
