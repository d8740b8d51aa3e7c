package diagnose

import (
	"fmt"
	"sort"
	"strings"
)

// When the memory of one control group counts as short.
const (
	// cgroupFull: share of its limit that the group uses. The kernel reclaims in batches, so that a
	// group at its limit is a little below it when it is read.
	cgroupFull = 0.95
	// cgroupHits: allocations a second that reach the group's limit. A batch job that fills its cache
	// up to the limit once shows a few; the limit pinches when they go on.
	cgroupHits = 10.0
)

// tightCgroup is a control group whose own limit is too small for what is in use within.
type tightCgroup struct {
	name                 string
	current, limit, high *Row
	hits, throttles      *Row // events max and high
	kills                *Row
	s                    spell
	killed               bool // the kernel killed processes for its limit
	full                 bool // allocations go on to reach its limit, memory.max
	slowed               bool // allocations go on to exceed memory.high, which makes tasks reclaim and sleep
	stall                *Row // PSI of the group, or of the machine where the group's is not known
	stalled, refaults    float64
}

// cgroupsMemory accuses control groups whose own limit is too small: it is reached again and again,
// and tasks stand still or the machine reads again what it just dropped; or processes were killed. It
// returns the groups accused, the innermost of each branch.
func cgroupsMemory(l *Look) (accused []tightCgroup) {
	names := l.Table(cgroupMemory).Keys("cgroup")
	// Events are counted for the groups above as well, so the innermost comes first.
	sort.SliceStable(names, func(i, j int) bool { return cgroupDepth(names[i]) > cgroupDepth(names[j]) })
	for _, name := range names {
		if name == "" {
			continue
		}
		g, ok := tightCgroupOf(l, name)
		for _, o := range accused {
			ok = ok && !below(o.name, name)
		}
		if ok {
			accused = append(accused, g)
		}
	}
	for i := range accused {
		accused[i].accuse(l)
	}
	return accused
}

func cgroupDepth(name string) int {
	if name == visibleRoot {
		return 0
	}
	return strings.Count(name, "/")
}

// tightCgroupOf reads the numbers of a control group and reports whether they accuse it.
func tightCgroupOf(l *Look, name string) (tightCgroup, bool) {
	m, events := l.Table(cgroupMemory), l.Table(cgroupEvents)
	event := func(word string) *Row { return events.One("cgroup", name, "event", word) }
	level := func(kind string) *Row { return m.One("cgroup", name, "kind", kind) }
	g := tightCgroup{name: name, current: level("current"), limit: level("limit"), high: level("high"),
		hits: event("max"), throttles: event("high"), kills: event("oom_kill")}
	var lasts bool
	g.s, lasts = lasting(m, known(g.current), func(c int) bool {
		return g.current.At(c) >= cgroupFull*g.limit.At(c) && g.hits.At(c) >= cgroupHits
	})
	g.full = lasts && g.limit.Mean(nil) > 0
	if slow, ok := lasting(events, known(g.throttles), func(c int) bool { return g.throttles.At(c) >= cgroupHits }); ok && !g.full {
		g.s, g.slowed = slow, true
	}
	g.killed = g.kills.Part(nil) > 0 && g.limit.Mean(nil) > 0 && g.reachedItsLimit(event("oom"))
	if g.killed && !g.full && !g.slowed {
		g.s = whole(m)
	}
	again, psi := l.Table(memoryRefault), l.Table(cgroupPressure).One("cgroup", name, "resource", "memory", "scope", "some")
	g.stall, g.stalled = psi, psi.Mean(g.s.mask)
	if g.stalled != g.stalled {
		g.stall = l.Table(pressure).One("resource", "memory", "scope", "some")
		g.stalled = g.stall.Mean(g.s.mask)
	}
	g.refaults = again.mean(again.Sum(again.Rows), g.s.mask)
	// A group that writes or reads a big file through the page cache lives at its limit in good health:
	// pages are dropped and never wanted again. Harm shows in stalls or in pages that come back.
	harmed := g.stalled >= memoryStall || g.full && g.refaults >= memoryRefaults
	return g, g.killed || (g.full || g.slowed) && harmed
}

// reachedItsLimit reports whether kills in the group are for its own limit. The kernel counts those
// for want of memory of the machine, or for the limit of a group above, as well.
func (g *tightCgroup) reachedItsLimit(ooms *Row) bool {
	if g.hits == nil && ooms == nil {
		return true // it is not counted
	}
	return g.hits.Part(nil) > 0 || ooms.Part(nil) > 0
}

// does says what the limit does to the group, as the middle of a claim.
func (g *tightCgroup) does(events *Table) string {
	switch {
	case g.killed:
		if n := g.kills.Part(nil) * whole(events).of; n >= 0.5 {
			return fmt.Sprintf("the kernel killed %s in it", plural(int(n+0.5), "process", "processes"))
		}
		return "the kernel killed processes in it"
	case g.slowed:
		return fmt.Sprintf("%s allocations a second exceed memory.high for %s, which makes its tasks reclaim memory and sleep", count(g.throttles.Mean(g.s.mask)), g.s)
	}
	return fmt.Sprintf("%s allocations a second hit the limit for %s", count(g.hits.Mean(g.s.mask)), g.s)
}

// use returns how much of which limit the group uses: for the claim and for the evidence, the number
// and the limit. A process that is killed gives its memory back at once: then the mean of what was
// seen each second may be next to nothing.
func (g *tightCgroup) use() (claim, evidence string, used, limit float64) {
	used, limit = g.current.Mean(g.s.mask), g.limit.Mean(g.s.mask)
	word := "limit"
	if h := g.high.Mean(g.s.mask); g.slowed && (h > 0 || !(limit > 0)) {
		limit, word = h, "memory.high"
	}
	switch {
	case !(limit > 0):
		return memory(used) + " in use", memory(used) + " in use", used, limit
	case g.killed && !(used >= cgroupFull*limit):
		used = g.current.Max()
		return "its limit is " + memory(limit),
			fmt.Sprintf("up to %s of %s in use when it was read; who is killed gives back what it had", memory(used), memory(limit)), used, limit
	}
	return memory(used) + " of its " + memory(limit) + " " + word, fmt.Sprintf("%s of %s in use", memory(used), memory(limit)), used, limit
}

func (g *tightCgroup) accuse(l *Look) {
	m, events := l.Table(cgroupMemory), l.Table(cgroupEvents)
	severity, confidence := Medium, 0.85
	if g.stalled >= memoryStallHigh || g.killed || g.refaults >= 5*memoryRefaults {
		severity, confidence = High, 0.9
	}
	claim, inUse, used, limit := g.use()
	who := ""
	if inside := processesIn(l, g.name, g.s.mask); inside != "" {
		who = "; in it: " + inside
	}
	f := l.Found(cgroupIdentity(g.name), severity, confidence, Culprit{Kind: "cgroup", Name: g.name},
		fmt.Sprintf("Cgroup %s is too small for what is in use within: %s, %s%s.", cgroupName(g.name), claim, g.does(events), who))
	if used == used {
		e := f.proof(m, g.s, g.current.Sentence(), used, m.Unit, inUse)
		if limit > 0 {
			e.than(limit, "limit")
		}
	}
	g.proofs(l, f)
	f.Verify = fmt.Sprintf("cd /sys/fs/cgroup && cat ./memory%s/memory.failcnt .%s/memory.events 2>/dev/null", shell(g.name), shell(g.name))
	if g.name == visibleRoot {
		f.but(0, "Who runs this container has set the limit: it can be raised from outside only.")
	}
	f.covering("disk-saturated", func(o *Finding) bool { return rereads(l, o, g.refaults, g.s.mask) })
	f.covering("swapping", nil)
}

// proofs adds the events, the stalls and what is read again.
func (g *tightCgroup) proofs(l *Look, f *Finding) {
	events, again := l.Table(cgroupEvents), l.Table(memoryRefault)
	if v := g.throttles.Part(g.s.mask); g.slowed {
		f.proof(events, g.s, g.throttles.Sentence(), v, events.Unit, fmt.Sprintf("%s times a second memory.high was exceeded", count(v)))
	}
	if v := g.hits.Part(g.s.mask); v > 0 {
		f.proof(events, g.s, g.hits.Sentence(), v, events.Unit, fmt.Sprintf("%s times a second the limit was hit", count(v)))
	}
	if g.killed {
		f.proof(events, g.s, g.kills.Sentence(), g.kills.Part(nil), events.Unit, "processes in it were killed for memory")
	}
	if g.stalled == g.stalled {
		f.proof(g.stall.table, g.s, g.stall.Sentence(), g.stalled, g.stall.table.Unit, fmt.Sprintf("tasks stand still for memory %s of the time (PSI)", percent(g.stalled)))
		f.loses(g.stalled)
	}
	if g.refaults >= memoryRefaults {
		f.proof(again, g.s, `memory.refaults`, g.refaults, again.Unit, fmt.Sprintf("the machine reads %s again that it had thrown out shortly before", bytesRate(g.refaults)))
	}
}
