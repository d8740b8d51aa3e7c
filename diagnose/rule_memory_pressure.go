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
	// memoryMajor: faults that had to read from disk, a second.
	memoryMajor = 100.0
	// cgroupMemoryStall: share of time in which some task of a cgroup stood still for memory, or less where it is not told.
	cgroupFull = 0.95 // of its limit
	// cgroupHits: allocations a second that hit the cgroup's limit. A batch job that fills its cache up to the limit once
	// shows a few; the limit pinches when they go on.
	cgroupHits = 10.0
)

// memoryPressure finds that memory, of the machine or of one cgroup, is too small for what is in use.
func memoryPressure() Rule {
	return Rule{
		ID: "memory-pressure", Checks: "memory", Resource: "memory",
		Needs: []string{memorySize},
		Finds: []string{memoryScan},
		Uses: []string{memoryStalls, memoryRefault, memoryFaults, memoryOOM, memorySwap, pressure, processRSS, processFaults, processInfo,
			cgroupMemory, cgroupEvents, cgroupPressure, diskBytes},
		Check: func(l *Look) {
			machineMemory(l)
			cgroupsMemory(l)
		},
	}
}

func machineMemory(l *Look) {
	size := l.Table(memorySize)
	total, avail := size.One("kind", "total"), size.One("kind", "available")
	if !(total.Mean(nil) > 0) || !(avail.Mean(nil) <= total.Mean(nil)) {
		l.Unchecked("how much memory is available is not known")
		return
	}
	scan, stalls, refault, faults := l.Table(memoryScan), l.Table(memoryStalls), l.Table(memoryRefault), l.Table(memoryFaults)
	psi := l.Table(pressure).One("resource", "memory", "scope", "some")
	direct := scan.One("by", "direct")
	stall := stalls.Sum(stalls.Rows)
	again := refault.Sum(refault.Rows)
	major := faults.One("type", "major")
	pinches := func(c int) bool {
		return psi.At(c) >= memoryStall || direct.At(c) >= memoryDirect || at0(stall, c) >= memoryStallsRate || at0(again, c) >= memoryRefaults || major.At(c) >= memoryMajor
	}
	low := func(c int) bool { return avail.At(c) < memoryLow*total.At(c) }
	s, ok := lasting(size, known(avail), func(c int) bool { return low(c) && pinches(c) })
	// The kernel's estimate of what is available counts file pages that are in constant use: stalls and refaults together
	// mean something also above memoryLow. With plenty available it is the limit of a cgroup that makes them.
	if !ok {
		var stalled spell
		if stalled, ok = lasting(size, known(avail), func(c int) bool { return psi.At(c) >= memoryStallHigh && at0(again, c) >= memoryRefaults }); ok {
			s = stalled
			if plenty := avail.Mean(s.mask) >= memoryPlenty*total.Mean(s.mask); plenty || cgroupAtLimit(l, s) != "" {
				ok = false
				if plenty && !l.Table(cgroupEvents).numbers() {
					l.Skipped("tasks stand still for memory %s of the time while %s of it is available: a cgroup's limit does that, and which one is not to be seen from here",
						percent(psi.Mean(s.mask)), percent(avail.Mean(s.mask)/total.Mean(s.mask)))
					return
				}
			}
		}
	}
	oom := l.Table(memoryOOM)
	kills := oom.mean(oom.Sum(oom.Rows), nil)
	if e := l.Table(cgroupEvents); e.Have() && sumRows(e, e.Where("event", "oom_kill"), nil) > 0 {
		kills = 0 // within a cgroup, at its own limit: cgroupsMemory says it
	}
	if !ok && !(kills > 0) {
		text := fmt.Sprintf("%s of %s available", percent(avail.Mean(nil)/total.Mean(nil)), memory(total.Mean(nil)))
		if v := psi.Mean(nil); v == v {
			text += fmt.Sprintf(", stalled for memory %s of the time", percent(v))
		}
		l.Fine("%s", text)
		return
	}
	if !ok {
		s = whole(size)
	}
	rss := l.Table(processRSS)
	all := actors(rss, rss.Rows, s.mask)
	culprit, identity, who := Culprit{Kind: "memory", Name: "memory"}, "", "no single program stands out"
	share := 0.0
	if len(all) > 0 {
		share = all[0].rate / total.Mean(s.mask)
		if share >= 0.2 {
			culprit, identity = all[0].culprit(), all[0].identity()
			who = fmt.Sprintf("%s holds %s of it, %s", all[0], memory(all[0].rate), percent(share))
		} else {
			who = fmt.Sprintf("the largest program, %s, holds %s of it", all[0], percent(share))
		}
	}
	severity, confidence := Medium, 0.85
	stalled := psi.Mean(s.mask)
	if stalled >= memoryStallHigh || kills > 0 || sumRows(l.Table(memorySwap), l.Table(memorySwap).Rows, s.mask) >= swapBoth {
		severity, confidence = High, 0.95
	}
	claim := fmt.Sprintf("Memory is short: %s of %s available for %s; %s.", percent(avail.Mean(s.mask)/total.Mean(s.mask)), memory(total.Mean(s.mask)), s, who)
	if kills > 0 {
		n := kills * s.of
		claim = fmt.Sprintf("Memory ran out: the kernel killed %s in this time, %s of %s was available; %s.", plural(int(n+0.5), "process", "processes"),
			percent(avail.Mean(s.mask)/total.Mean(s.mask)), memory(total.Mean(s.mask)), who)
	}
	f := l.Found(identity, severity, confidence, culprit, claim)
	f.explains(share)
	f.proof(size, s, avail.Sentence(), avail.Mean(s.mask), size.Unit, fmt.Sprintf("%s available of %s", memory(avail.Mean(s.mask)), memory(total.Mean(s.mask)))).than(total.Mean(s.mask), "all memory")
	if stalled == stalled {
		f.proof(psi.table, s, psi.Sentence(), stalled, psi.table.Unit, fmt.Sprintf("some task stands still for memory %s of the time (PSI)", percent(stalled)))
	} else {
		f.but(0.1, "How long tasks stand still for memory is not known: this kernel tells no pressure.")
	}
	if v := direct.Mean(s.mask); v >= memoryDirect {
		f.proof(scan, s, direct.Sentence(), v, scan.Unit, fmt.Sprintf("tasks look for memory themselves, %s scanned (direct reclaim)", bytesRate(v)))
	}
	if v := stalls.mean(stall, s.mask); v >= memoryStallsRate {
		f.proof(stalls, s, memoryStalls, v, stalls.Unit, fmt.Sprintf("%s allocations a second had to wait", count(v)))
	}
	if v := refault.mean(again, s.mask); v >= memoryRefaults/10 {
		f.proof(refault, s, `memory.refaults`, v, refault.Unit, fmt.Sprintf("%s are read again that were thrown out shortly before", bytesRate(v)))
	}
	if v := major.Mean(s.mask); v >= memoryMajor/10 {
		f.proof(faults, s, major.Sentence(), v, faults.Unit, fmt.Sprintf("%s faults a second read from disk", count(v)))
	}
	if kills > 0 && avail.Mean(s.mask) > 2*memoryLow*total.Mean(s.mask) {
		f.but(0.2, "%s of memory is available: the kill came at a peak between two readings, or at the limit of a cgroup or of a memory node.", percent(avail.Mean(s.mask)/total.Mean(s.mask)))
	}
	if kills > 0 {
		f.proof(oom, s, memoryOOM, kills, oom.Unit, "the kernel killed processes to get memory")
	}
	if len(all) > 0 {
		a := all[0]
		f.proof(rss, s, a.sentence(rss), a.rate, rss.Unit, fmt.Sprintf("%s holds %s resident", a, memory(a.rate))).than(total.Mean(s.mask), "all memory")
		if more := others(all, total.Mean(s.mask), 3); more != "" {
			f.proof(rss, s, `process.rss by process`, all[1].rate, rss.Unit, "then "+more)
		}
		if g := growth(rss, a.series); g > 0.02*total.Mean(s.mask)/s.of && g > 1e6 {
			f.proof(rss, s, a.sentence(rss), g, "B/s", fmt.Sprintf("it grows by %s", bytesRate(g)))
		}
	}
	f.Verify = "vmstat 1 5; cat /proc/pressure/memory; ps -eo pid,rss,comm --sort=-rss | head"
	f.covering("swapping", nil)
	f.covering("disk-saturated", func(o *Finding) bool {
		return o.Culprit.Name == "swap" || refault.mean(again, s.mask) >= memoryRefaults
	})
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

// cgroupAtLimit gives the name of a cgroup that is at its memory limit during the spell and whose tasks stall, or "".
func cgroupAtLimit(l *Look, s spell) string {
	for _, g := range l.Table(cgroupMemory).Keys("cgroup") {
		if g != "" && g != "/" && cgroupHit(l, g, s.mask) {
			return g
		}
	}
	return ""
}

func cgroupHit(l *Look, g string, mask []bool) bool {
	m := l.Table(cgroupMemory)
	current, limit := m.One("cgroup", g, "kind", "current").Mean(mask), m.One("cgroup", g, "kind", "limit").Mean(mask)
	return limit > 0 && current >= cgroupFull*limit && l.Table(cgroupEvents).One("cgroup", g, "event", "max").Part(mask) >= cgroupHits
}

// cgroupsMemory finds cgroups whose own limit is too small for what is in use within: refused again and again at the
// limit, and - where the kernel tells - its tasks standing still, or the machine reading from disk what it just threw out.
func cgroupsMemory(l *Look) {
	m, events := l.Table(cgroupMemory), l.Table(cgroupEvents)
	if !events.Have() || !m.Have() {
		return
	}
	var found []string
	for _, g := range m.Keys("cgroup") {
		if g == "" || g == "/" {
			continue
		}
		current, limit := m.One("cgroup", g, "kind", "current"), m.One("cgroup", g, "kind", "limit")
		hits, kills := events.One("cgroup", g, "event", "max"), events.One("cgroup", g, "event", "oom_kill")
		psi := l.Table(cgroupPressure).One("cgroup", g, "resource", "memory", "scope", "some")
		if !(limit.Mean(nil) > 0) {
			continue
		}
		s, ok := lasting(m, known(current), func(c int) bool {
			return current.At(c) >= cgroupFull*limit.At(c) && hits.At(c) >= cgroupHits
		})
		killed := kills.Part(nil) > 0
		if !ok && !killed {
			continue
		}
		if killed && !ok {
			s = whole(m)
		}
		again := l.Table(memoryRefault)
		refaults := again.mean(again.Sum(again.Rows), s.mask)
		hostPSI := l.Table(pressure).One("resource", "memory", "scope", "some")
		stalled := psi.Mean(s.mask)
		if stalled != stalled {
			stalled = hostPSI.Mean(s.mask)
			psi = hostPSI
		}
		// A cgroup that writes or reads a big file through the page cache lives at its limit in good health: pages are
		// thrown out and never wanted again. Harm shows in stalls or in pages that come back.
		if !killed && !(stalled >= memoryStall) && !(refaults >= memoryRefaults) {
			continue
		}
		nested := false
		for _, o := range found {
			nested = nested || strings.HasPrefix(g, o+"/") || strings.HasPrefix(o, g+"/")
		}
		if nested {
			continue
		}
		found = append(found, g)
		severity, confidence := Medium, 0.85
		if stalled >= memoryStallHigh || killed || refaults >= 5*memoryRefaults {
			severity, confidence = High, 0.9
		}
		verb := fmt.Sprintf("%s allocations a second hit the limit for %s", count(hits.Mean(s.mask)), s)
		if killed {
			verb = "the kernel killed processes in it"
			if n := kills.Part(nil) * whole(events).of; n >= 0.5 {
				verb = fmt.Sprintf("the kernel killed %s in it", plural(int(n+0.5), "process", "processes"))
			}
		}
		// Whom the kernel kills gives its memory back at once: the mean of what was seen each second may be next to nothing.
		use := current.Mean(s.mask)
		used, inUse := memory(use)+" of its "+memory(limit.Mean(s.mask))+" limit", fmt.Sprintf("%s of %s in use", memory(use), memory(limit.Mean(s.mask)))
		if killed && !(use >= cgroupFull*limit.Mean(s.mask)) {
			use = current.Max()
			used = "its limit is " + memory(limit.Mean(s.mask))
			inUse = fmt.Sprintf("up to %s of %s in use when it was read; who is killed gives back what it had", memory(use), memory(limit.Mean(s.mask)))
		}
		inside := processesIn(l, g, s.mask)
		who := ""
		if inside != "" {
			who = "; in it: " + inside
		}
		f := l.Found(strings.TrimPrefix(clean(g), "/"), severity, confidence, Culprit{Kind: "cgroup", Name: g},
			fmt.Sprintf("Cgroup %s is too small for what is in use within: %s, %s%s.", clean(g), used, verb, who))
		f.proof(m, s, current.Sentence(), use, m.Unit, inUse).than(limit.Mean(s.mask), "limit")
		if v := hits.Part(s.mask); v == v {
			f.proof(events, s, hits.Sentence(), v, events.Unit, fmt.Sprintf("%s times a second the limit was hit", count(v)))
		}
		if killed {
			f.proof(events, s, kills.Sentence(), kills.Part(nil), events.Unit, "processes in it were killed for memory")
		}
		if stalled == stalled {
			f.proof(psi.table, s, psi.Sentence(), stalled, psi.table.Unit, fmt.Sprintf("tasks stand still for memory %s of the time (PSI)", percent(stalled)))
		}
		if refaults >= memoryRefaults {
			f.proof(again, s, `memory.refaults`, refaults, again.Unit, fmt.Sprintf("the machine reads %s again that it had thrown out shortly before", bytesRate(refaults)))
		}
		f.Verify = fmt.Sprintf("cd /sys/fs/cgroup && cat ./memory%s/memory.failcnt .%s/memory.events 2>/dev/null", shell(g), shell(g))
		f.covering("disk-saturated", func(o *Finding) bool { return rereads(l, o, refaults, s.mask) })
		f.covering("swapping", nil)
	}
}

// processesIn names up to three programs of a cgroup, those with most memory first; "" when none is known.
func processesIn(l *Look, g string, mask []bool) string {
	in := map[string]bool{}
	for _, r := range l.Table(processInfo).Rows {
		if c := r.Word("cgroup"); c == g || strings.HasPrefix(c, g+"/") || cgroupListed(c, g) {
			in[r.Word("pid")] = true
		}
	}
	rss := l.Table(processRSS)
	var rows []*Row
	for _, r := range rss.Rows {
		if in[r.Word("pid")] {
			rows = append(rows, r)
		}
	}
	var names []string
	for i, a := range actors(rss, rows, mask) {
		if i < 3 {
			names = append(names, a.String())
		}
	}
	return list(names)
}

// cgroupListed says whether a process's cgroup word, which under cgroup v1 may list one path for each controller, has g.
func cgroupListed(word, g string) bool {
	for _, w := range strings.FieldsFunc(word, func(r rune) bool { return r == ',' || r == ' ' || r == ';' }) {
		if i := strings.IndexByte(w, '/'); i >= 0 && (w[i:] == g || strings.HasPrefix(w[i:], g+"/")) {
			return true
		}
	}
	return false
}
