package diagnose

import (
	"fmt"
	"strings"
)

// When memory counts as short.
const (
	// memoryLow: share of memory that is available without harm. Free memory means nothing, Linux fills it with cache;
	// below a tenth the kernel's reclaim begins to matter, and only together with a sign that it does.
	memoryLow = 0.10
	// memoryPlenty: with so much available nothing that happens is the machine's want of memory.
	memoryPlenty = 0.25
	// memoryStall: share of time in which some task stood still for memory (PSI some). Healthy machines show 0.
	memoryStall = 0.05
	// memoryStallHigh: a fifth of the time lost is felt by everybody.
	memoryStallHigh = 0.20
	// memoryDirect: direct reclaim makes the task that wants memory look for it itself; 1 MB/s scanned is 256 pages/s, far
	// above the rare single batch of 32 pages of a healthy machine.
	memoryDirect = 1e6
	// memoryStallsRate: allocations that had to stall, a second.
	memoryStallsRate = 5.0
	// memoryRefaults: pages read again that had been thrown out shortly before, B/s: the cache is smaller than what is in use.
	memoryRefaults = 10e6
	// memoryMajor: faults that had to read from disk, a second. Each program that starts makes them, so
	// they count only on kernels that say neither how long tasks wait nor what is read again.
	memoryMajor = 100.0
	// memoryFelt: share of time in which some task stood still for memory, below which nobody feels that
	// the kernel looks for memory.
	memoryFelt = 0.01
)

// memoryPressure finds that memory, of the machine or of one cgroup, is too small for what is in use.
func memoryPressure() Rule {
	return Rule{
		ID: "memory-pressure", Checks: "memory", Resource: "memory",
		Needs: []string{memorySize, memoryScan},
		Uses: []string{memoryStalls, memoryRefault, memoryFaults, memoryOOM, memorySwap, pressure, processRSS, processFaults, processInfo,
			cgroupMemory, cgroupEvents, cgroupPressure, diskBytes},
		Check: func(l *Look) {
			machineMemory(l, cgroupsMemory(l))
		},
	}
}

// machineNumbers are the machine's memory and the signs that it is short. Rows are nil, and series
// without numbers, where a kernel does not tell.
type machineNumbers struct {
	size                 *Table
	total, avail         *Row
	psi, direct, major   *Row
	stalls, again        []float64 // allocations that waited; pages read again
	stallsOf, refaultsOf *Table
	killsOf              *Table
	kills                float64 // a second, less those for the limit of a cgroup
}

func machineNumbersOf(l *Look, accused []tightCgroup) machineNumbers {
	n := machineNumbers{size: l.Table(memorySize), stallsOf: l.Table(memoryStalls), refaultsOf: l.Table(memoryRefault), killsOf: l.Table(memoryOOM)}
	n.total, n.avail = n.size.One("kind", "total"), n.size.One("kind", "available")
	n.psi = l.Table(pressure).One("resource", "memory", "scope", "some")
	n.direct, n.major = l.Table(memoryScan).One("by", "direct"), l.Table(memoryFaults).One("type", "major")
	n.stalls, n.again = n.stallsOf.Sum(n.stallsOf.Rows), n.refaultsOf.Sum(n.refaultsOf.Rows)
	n.kills = or(n.killsOf.mean(n.killsOf.Sum(n.killsOf.Rows), nil), 0)
	for _, g := range accused {
		if g.killed {
			n.kills = 0 // told of the cgroup
		}
	}
	return n
}

// pinches reports whether somebody feels that memory is short in cell c. The pressure says it where
// the kernel tells it: what reserved huge pages leave may be little, and a program that starts reads
// itself in.
func (n machineNumbers) pinches(c int) bool {
	psi := n.psi.At(c)
	looks := n.direct.At(c) >= memoryDirect || at0(n.stalls, c) >= memoryStallsRate || at0(n.again, c) >= memoryRefaults
	if psi == psi {
		return psi >= memoryStall || psi >= memoryFelt && looks
	}
	return looks || !n.refaultsOf.numbers() && n.major.At(c) >= memoryMajor
}

// share returns how much of the memory is available, 0..1.
func (n machineNumbers) share(mask []bool) float64 { return n.avail.Mean(mask) / n.total.Mean(mask) }

// machineMemory accuses the machine of having too little memory, or says why it does not. accused are
// the control groups that are short by their own limit.
func machineMemory(l *Look, accused []tightCgroup) {
	n := machineNumbersOf(l, accused)
	if !(n.total.Mean(nil) > 0) || !(n.avail.Mean(nil) <= n.total.Mean(nil)) {
		l.Unchecked("how much memory is available is not known")
		return
	}
	s, short := lasting(n.size, known(n.avail), func(c int) bool { return n.avail.At(c) < memoryLow*n.total.At(c) && n.pinches(c) })
	// The kernel's estimate of what is available counts file pages that are in constant use: stalls and refaults together
	// mean something also above memoryLow. With plenty available it is the limit of a cgroup that makes them.
	if !short {
		stalled, ok := lasting(n.size, known(n.avail), func(c int) bool {
			return n.psi.At(c) >= memoryStallHigh && at0(n.again, c) >= memoryRefaults
		})
		if ok && n.share(stalled.mask) < memoryPlenty && len(accused) == 0 {
			s, short = stalled, true
		}
	}
	switch {
	case short:
		n.accuse(l, s)
	case n.kills > 0:
		n.accuse(l, whole(n.size))
	case len(accused) == 0:
		n.spare(l)
	}
}

// spare says that memory is not short, with the numbers; or what keeps them from saying that.
func (n machineNumbers) spare(l *Look) {
	text := fmt.Sprintf("%s of %s available", percent(n.share(nil)), memory(n.total.Mean(nil)))
	if own := ownLimit(l); own != "" {
		text += ", " + own
	}
	stalled := n.psi.Mean(nil)
	switch {
	case stalled >= innocentStall && n.share(nil) >= memoryPlenty:
		seen := "no cgroup can be seen from here"
		if l.Table(cgroupMemory).numbers() {
			seen = "none that can be seen is known to be at its limit"
		}
		l.Doubtful("some task stands still for memory %s of the time (PSI) while %s: the limit of a cgroup does that, and %s", percent(stalled), text, seen)
	case stalled == stalled:
		l.Fine("%s, stalled for memory %s of the time", text, percent(stalled))
	case n.share(nil) < memoryLow && !n.refaultsOf.numbers():
		l.Doubtful("%s, and this kernel tells neither how long tasks wait for memory nor what it reads again", text)
	default:
		l.Fine("%s", text)
	}
}

// ownLimit says how much of the limit of the visible root is in use; "" on a machine without one.
func ownLimit(l *Look) string {
	m := l.Table(cgroupMemory)
	used, limit := m.One("cgroup", visibleRoot, "kind", "current").Mean(nil), m.One("cgroup", visibleRoot, "kind", "limit").Mean(nil)
	if !(limit > 0) || used != used {
		return ""
	}
	return fmt.Sprintf("%s of this container's limit of %s in use", memory(used), memory(limit))
}

// holder is the program with most memory.
type holder struct {
	all      []actor
	culprit  Culprit
	identity string
	share    float64 // of all memory
	text     string
}

// holderOf finds who holds the memory. Huge pages that are reserved belong to nobody's resident memory.
func (n machineNumbers) holderOf(l *Look, s spell) holder {
	rss := l.Table(processRSS)
	h := holder{culprit: Culprit{Kind: "memory", Name: "memory"}, text: "no single program stands out", all: actors(rss, rss.Rows, s.mask)}
	total := n.total.Mean(s.mask)
	if len(h.all) > 0 {
		first := h.all[0]
		h.share = first.rate / total
		h.text = fmt.Sprintf("the largest program, %s, holds %s of it", first, percent(h.share))
		if h.share >= 0.2 {
			h.culprit, h.identity = first.culprit(), first.identity()
			h.text = fmt.Sprintf("%s holds %s of it, %s", first, memory(first.rate), percent(h.share))
		}
	}
	if huge := n.size.One("kind", "hugepages_total").Mean(s.mask) / total; huge >= memoryPlenty {
		h.text += fmt.Sprintf("; %s is reserved for huge pages", percent(huge))
	}
	return h
}

func (n machineNumbers) accuse(l *Look, s spell) {
	total, share := n.total.Mean(s.mask), n.share(s.mask)
	h := n.holderOf(l, s)
	severity, confidence := Medium, 0.85
	stalled, swap := n.psi.Mean(s.mask), l.Table(memorySwap)
	if stalled >= memoryStallHigh || n.kills > 0 || sumRows(swap, swap.Rows, s.mask) >= swapBoth {
		severity, confidence = High, 0.95
	}
	claim := fmt.Sprintf("Memory is short: %s of %s available for %s; %s.", percent(share), memory(total), s, h.text)
	if n.kills > 0 {
		claim = fmt.Sprintf("Memory ran out: the kernel killed %s in this time, %s of %s was available; %s.",
			plural(int(n.kills*s.of+0.5), "process", "processes"), percent(share), memory(total), h.text)
	}
	f := l.Found(h.identity, severity, confidence, h.culprit, claim)
	f.explains(h.share)
	n.proofs(l, f, s)
	if n.kills > 0 {
		if share > 2*memoryLow {
			f.but(0.2, "%s of memory is available: the kill came at a peak between two readings, or at the limit of a cgroup or of a memory node.", percent(share))
		}
		f.proof(n.killsOf, s, memoryOOM, n.kills, n.killsOf.Unit, "the kernel killed processes to get memory")
	}
	h.proofs(l, f, s, total)
	refaults := n.refaultsOf.mean(n.again, s.mask)
	f.Verify = "vmstat 1 5; cat /proc/pressure/memory; ps -eo pid,rss,comm --sort=-rss | head"
	f.covering("swapping", nil)
	f.covering("disk-saturated", func(o *Finding) bool { return o.Culprit.Name == "swap" || refaults >= memoryRefaults })
}

// proofs adds the machine's numbers.
func (n machineNumbers) proofs(l *Look, f *Finding, s spell) {
	avail, total := n.avail.Mean(s.mask), n.total.Mean(s.mask)
	f.proof(n.size, s, n.avail.Sentence(), avail, n.size.Unit, fmt.Sprintf("%s available of %s", memory(avail), memory(total))).than(total, "all memory")
	if huge := n.size.One("kind", "hugepages_total"); huge.Mean(s.mask) >= memoryPlenty*total {
		f.proof(n.size, s, huge.Sentence(), huge.Mean(s.mask), n.size.Unit, fmt.Sprintf("%s reserved for huge pages", memory(huge.Mean(s.mask)))).than(total, "all memory")
	}
	if v := n.psi.Mean(s.mask); v == v {
		f.proof(n.psi.table, s, n.psi.Sentence(), v, n.psi.table.Unit, fmt.Sprintf("some task stands still for memory %s of the time (PSI)", percent(v)))
		f.loses(v)
	} else {
		f.but(0.1, "How long tasks stand still for memory is not known: this kernel tells no pressure.")
	}
	if v := n.direct.Mean(s.mask); v >= memoryDirect {
		f.proof(n.direct.table, s, n.direct.Sentence(), v, n.direct.table.Unit, fmt.Sprintf("tasks look for memory themselves, %s scanned (direct reclaim)", bytesRate(v)))
	}
	if v := n.stallsOf.mean(n.stalls, s.mask); v >= memoryStallsRate {
		f.proof(n.stallsOf, s, memoryStalls, v, n.stallsOf.Unit, fmt.Sprintf("%s allocations a second had to wait", count(v)))
	}
	if v := n.refaultsOf.mean(n.again, s.mask); v >= memoryRefaults/10 {
		f.proof(n.refaultsOf, s, `memory.refaults`, v, n.refaultsOf.Unit, fmt.Sprintf("%s are read again that were thrown out shortly before", bytesRate(v)))
	}
	if v := n.major.Mean(s.mask); v >= memoryMajor/10 {
		f.proof(n.major.table, s, n.major.Sentence(), v, n.major.table.Unit, fmt.Sprintf("%s faults a second read from disk", count(v)))
	}
}

// proofs adds the programs with most memory.
func (h holder) proofs(l *Look, f *Finding, s spell, total float64) {
	if len(h.all) == 0 {
		return
	}
	rss, a := l.Table(processRSS), h.all[0]
	f.proof(rss, s, a.sentence(rss), a.rate, rss.Unit, fmt.Sprintf("%s holds %s resident", a, memory(a.rate))).than(total, "all memory")
	if more := others(h.all, total, 3); more != "" {
		f.proof(rss, s, `process.rss by process`, h.all[1].rate, rss.Unit, "then "+more)
	}
	if g := growth(rss, a.series); g > 0.02*total/s.of && g > 1e6 {
		f.proof(rss, s, a.sentence(rss), g, "B/s", fmt.Sprintf("it grows by %s", bytesRate(g)))
	}
}

// rereads says whether a disk is busy because of pages that were thrown out and come back: most of what it does is reading,
// and half of that is such pages.
func rereads(l *Look, disk *Finding, refaults float64, mask []bool) bool {
	name := strings.TrimPrefix(disk.ID, "disk-saturated/")
	t := l.Table(diskBytes)
	read := or(t.One("device", name, "direction", "read").Mean(mask), 0)
	all := or(sumRows(t, t.Where("device", name), mask), 0)
	return refaults >= memoryRefaults && read >= 0.5*all && refaults >= 0.5*read
}

// at0 gives a value of a series, 0 where there is none: for signs that only count when they are there.
func at0(v []float64, c int) float64 {
	if c < len(v) && v[c] == v[c] {
		return v[c]
	}
	return 0
}

// growth gives by how much a level grows a second when it grows in nearly every cell, else 0.
func growth(t *Table, v []float64) float64 {
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
	return (v[last] - v[first]) / (t.step.Seconds() * float64(last-first))
}
