package rules

import (
	"fmt"
	"slices"
	"sort"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/kernelmessage"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// tightCgroup is a control group whose own limit is too small for its working set.
type tightCgroup struct {
	name                 string
	current, limit, high *diagnose.Row
	hits, throttles      *diagnose.Row // events max and high
	kills                cgroupKills
	s                    diagnose.Period
	killed               bool // the kernel killed processes for its limit
	full                 bool // allocations keep reaching its limit, memory.max
	// allocations keep exceeding memory.high, so tasks reclaim and sleep
	slowed            bool
	stall             *diagnose.Row // PSI of the group, or of the machine when that is unknown
	stalled, refaults float64
}

// cgroupsMemory reports control groups whose own limit is too small: it is reached repeatedly, and
// tasks stall or evicted pages are read again; or processes were killed. It returns these groups,
// the innermost of each branch.
func cgroupsMemory(l *diagnose.Look) (accused []tightCgroup) {
	names := l.Table(facts.CgroupMemory).Keys("cgroup")
	// Events count for the groups above as well: the innermost group comes first.
	sort.SliceStable(names, func(i, j int) bool {
		return facts.CgroupDepth(names[i]) > facts.CgroupDepth(names[j])
	})
	for _, name := range names {
		if name == "" {
			continue
		}
		g, ok := tightCgroupOf(l, name)
		for _, o := range accused {
			ok = ok && !facts.Below(o.name, name)
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

// tightCgroupOf reads the numbers of a control group, and reports whether its limit is too small.
func tightCgroupOf(l *diagnose.Look, name string) (tightCgroup, bool) {
	m, events := l.Table(facts.CgroupMemory), l.Table(facts.CgroupEvents)
	event := func(word string) *diagnose.Row { return events.One("cgroup", name, "event", word) }
	level := func(kind string) *diagnose.Row { return m.One("cgroup", name, "kind", kind) }
	g := tightCgroup{name: name, current: level("current"), limit: level("limit"),
		high: level("high"),
		hits: event("max"), throttles: event("high"), kills: cgroupKillsOf(l, name)}
	var lasts bool
	g.s, lasts = diagnose.Lasting(m, diagnose.HasValue(g.current), func(c int) bool {
		return g.current.At(c) >= threshold.CgroupFull*g.limit.At(c) &&
			g.hits.At(c) >= threshold.CgroupHits
	})
	g.full = lasts && g.limit.Mean(nil) > 0
	if slow, ok := diagnose.Lasting(events, diagnose.HasValue(g.throttles), func(c int) bool {
		return g.throttles.At(c) >= threshold.CgroupHits
	}); ok && !g.full {
		g.s, g.slowed = slow, true
	}
	g.killed = g.kills.rate > 0 && g.limit.Mean(nil) > 0 &&
		g.kills.areFor(l, g.hits, event("oom"))
	if g.killed && !g.full && !g.slowed {
		g.s = diagnose.WholePeriod(m)
	}
	again, psi := l.Table(facts.MemoryRefault),
		l.Table(facts.CgroupPressure).One("cgroup", name, "resource", "memory", "scope", "some")
	g.stall, g.stalled = psi, psi.Mean(g.s.Mask)
	if g.stalled != g.stalled {
		g.stall = l.Table(facts.Pressure).One("resource", "memory", "scope", "some")
		g.stalled = g.stall.Mean(g.s.Mask)
	}
	g.refaults = again.Mean(again.Sum(again.Rows), g.s.Mask)
	// A group that writes or reads a big file through the page cache is at its limit and healthy:
	// its pages are evicted and not needed again. Harm shows in stalls or refaults.
	harmed := g.stalled >= threshold.MemoryStall || g.full && g.refaults >= threshold.MemoryRefaults
	return g, g.killed || (g.full || g.slowed) && harmed
}

// does describes the effect of the limit, as the middle of a claim.
func (g *tightCgroup) does(events *diagnose.Table) string {
	switch {
	case g.killed:
		return g.kills.text(diagnose.WholePeriod(events).Known)
	case g.slowed:
		return fmt.Sprintf("%s allocations per second exceed memory.high for %s, so its tasks "+
			"must reclaim memory and sleep", phrase.Count(g.throttles.Mean(g.s.Mask)), g.s)
	}
	return fmt.Sprintf("%s allocations per second hit the limit for %s",
		phrase.Count(g.hits.Mean(g.s.Mask)), g.s)
}

// use returns how much of which limit the group uses: for the claim, for the evidence, as a number,
// and the limit. A killed process frees its memory at once: the mean of the readings may be close
// to 0.
func (g *tightCgroup) use() (claim, evidence string, used, limit float64) {
	used, limit = g.current.Mean(g.s.Mask), g.limit.Mean(g.s.Mask)
	word := "limit"
	if h := g.high.Mean(g.s.Mask); g.slowed && (h > 0 || !(limit > 0)) {
		limit, word = h, "memory.high"
	}
	switch {
	case !(limit > 0):
		return phrase.Memory(used) + " in use", phrase.Memory(used) + " in use", used, limit
	case g.killed && !(used >= threshold.CgroupFull*limit):
		used = g.current.Max()
		return "its limit is " + phrase.Memory(limit),
			fmt.Sprintf("up to %s of %s in use at a reading; a killed process frees its memory",
				phrase.Memory(used), phrase.Memory(limit)), used, limit
	}
	return phrase.Memory(used) + " of its " + phrase.Memory(limit) + " " + word,
		fmt.Sprintf("%s of %s in use", phrase.Memory(used), phrase.Memory(limit)), used, limit
}

func (g *tightCgroup) accuse(l *diagnose.Look) {
	m, events := l.Table(facts.CgroupMemory), l.Table(facts.CgroupEvents)
	severity, confidence := diagnose.Medium, 0.85
	if g.stalled >= threshold.MemoryStallHigh || g.killed ||
		g.refaults >= 5*threshold.MemoryRefaults {
		severity, confidence = diagnose.High, 0.9
	}
	claim, inUse, used, limit := g.use()
	programs := ""
	if inside := facts.LargestIn(l, g.name, g.s.Mask); inside != "" {
		programs = "; in it: " + inside
	}
	f := l.Found(facts.CgroupIdentity(g.name), severity, confidence,
		diagnose.Culprit{Kind: "cgroup", Name: g.name},
		fmt.Sprintf("The memory limit of cgroup %s is too small for its working set: %s, %s%s.",
			facts.CgroupName(g.name), claim, g.does(events), programs))
	if used == used {
		e := f.AddEvidence(m, g.s, g.current.Query(), used, m.Unit, inUse)
		if limit > 0 {
			e.CompareTo(limit, "limit")
		}
	}
	g.proofs(l, f)
	f.Verify = fmt.Sprintf("cd /sys/fs/cgroup && cat ./memory%s/memory.failcnt .%s/memory.events "+
		"2>/dev/null", phrase.Shell(g.name), phrase.Shell(g.name))
	if g.name == facts.VisibleRoot {
		f.AddCaveat(0, "The limit was set outside of this container: only the host can raise it.")
	}
	f.Cover("disk-saturated", func(o *diagnose.Finding) bool {
		return rereads(l, o, g.refaults, g.s.Mask)
	})
	f.Cover("swapping", nil)
	f.Cover("tasks-blocked", facts.BlockedOnMemory)
}

// proofs adds the events, the stalls and the refaults.
func (g *tightCgroup) proofs(l *diagnose.Look, f *diagnose.Finding) {
	events, again := l.Table(facts.CgroupEvents), l.Table(facts.MemoryRefault)
	if v := g.throttles.Part(g.s.Mask); g.slowed {
		f.AddEvidence(events, g.s, g.throttles.Query(), v, events.Unit,
			fmt.Sprintf("memory.high was exceeded %s times per second", phrase.Count(v)))
	}
	if v := g.hits.Part(g.s.Mask); v > 0 {
		f.AddEvidence(events, g.s, g.hits.Query(), v, events.Unit,
			fmt.Sprintf("the limit was hit %s times per second", phrase.Count(v)))
	}
	if g.killed {
		g.kills.proofs(l, f, g.s)
	}
	if g.stalled == g.stalled {
		f.AddEvidence(g.stall.Table, g.s, g.stall.Query(), g.stalled, g.stall.Table.Unit,
			fmt.Sprintf("tasks are stalled on memory %s of the time (PSI)",
				phrase.Percent(g.stalled)))
		f.SetEffect(g.stalled)
	}
	if g.refaults >= threshold.MemoryRefaults {
		f.AddEvidence(again, g.s, `memory.refaults`, g.refaults, again.Unit,
			fmt.Sprintf("the machine reads %s again soon after eviction",
				phrase.BytesRate(g.refaults)))
	}
}

// cgroupKills are the processes that the kernel killed in a control group and in those below it.
// Version 2 counts a kill in the group of the process and in all groups above. Version 1 counts it
// only in the group of the process, while the failed allocation counts in the group with the limit.
type cgroupKills struct {
	own *diagnose.Row // nil: none is counted for the group
	// groups below without a limit that was reached, most kills first
	below []*diagnose.Row
	rate  float64 // kills per second
}

func cgroupKillsOf(l *diagnose.Look, name string) cgroupKills {
	events := l.Table(facts.CgroupEvents)
	k := cgroupKills{own: events.One("cgroup", name, "event", "oom_kill")}
	below := 0.0
	for _, r := range events.Where("event", "oom_kill") {
		group := r.Word("cgroup")
		if group != name && facts.Below(group, name) && r.Part(nil) > 0 &&
			!limitedBetween(l, group, name) {
			k.below = append(k.below, r)
		}
	}
	// In version 2 a group counts the kills of those below it.
	k.below = slices.DeleteFunc(k.below, func(r *diagnose.Row) bool {
		return slices.ContainsFunc(k.below, func(o *diagnose.Row) bool {
			return o != r && facts.Below(o.Word("cgroup"), r.Word("cgroup")) &&
				o.Part(nil) >= r.Part(nil)
		})
	})
	slices.SortStableFunc(k.below, func(a, b *diagnose.Row) int {
		return int(1e6 * (b.Part(nil) - a.Part(nil)))
	})
	for _, r := range k.below {
		below += r.Part(nil)
	}
	k.rate = max(series.Or(k.own.Part(nil), 0), below)
	return k
}

// limitedBetween reports whether a group, or one between it and the group above, reached a limit of
// its own.
func limitedBetween(l *diagnose.Look, group, above string) bool {
	for _, r := range l.Table(facts.CgroupMemory).Where("kind", "limit") {
		between := r.Word("cgroup")
		if between == above || !facts.Below(between, above) || !facts.Below(group, between) {
			continue
		}
		for _, event := range []string{"max", "oom"} {
			if l.Table(facts.CgroupEvents).One("cgroup", between, "event", event).Part(nil) > 0 {
				return true
			}
		}
	}
	return false
}

// areFor reports whether the kills are for the limit of the group, with its events max and oom. The
// kernel also counts kills for the whole machine, or for the limit of a group above.
func (k *cgroupKills) areFor(l *diagnose.Look, hits, ooms *diagnose.Row) bool {
	if hits.Part(nil) > 0 || ooms.Part(nil) > 0 {
		return k.own.Part(nil) > 0 || !machineKilled(l)
	}
	events := l.Table(facts.CgroupEvents)
	return k.own.Part(nil) > 0 && len(events.Where("event", "max")) == 0 &&
		len(events.Where("event", "oom")) == 0 // not counted
}

// machineKilled reports whether the kernel's log has a kill for the whole machine, and none for the
// limit of a group.
func machineKilled(l *diagnose.Look) bool {
	_, machine := killedPrograms(l, "killed")
	_, group := killedPrograms(l, "killed in its group")
	return machine > 0 && group == 0
}

// killedPrograms returns the programs of messages in the kernel's log of an event, in the order of
// the log's table, and the number of these messages per second.
func killedPrograms(l *diagnose.Look, event string) (names []string, rate float64) {
	all := kernelmessage.Messages()
	for _, r := range l.Table(facts.KernelMessages).Rows {
		m, name, _ := kernelmessage.Find(all, r.Word("text"))
		if v := r.Part(nil); m != nil && m.Event == event && v > 0 {
			rate += v
			if name = phrase.Clean(name); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, rate
}

// text returns the middle of a claim. seconds is the length of the range.
func (k *cgroupKills) text(seconds float64) string {
	killed, where := "processes", "it"
	if n := k.rate * seconds; n >= 0.5 {
		killed = phrase.Plural(int(n+0.5), "process", "processes")
	}
	if len(k.below) > 0 {
		where = facts.CgroupName(k.below[0].Word("cgroup"))
	}
	if n := len(k.below) - 1; n > 0 {
		where += " and " + phrase.Plural(n, "other group", "other groups") + " below it"
	}
	return "the kernel killed " + killed + " in " + where
}

// proofs adds the kills, and the programs of the kernel's messages about them.
func (k *cgroupKills) proofs(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period) {
	events := l.Table(facts.CgroupEvents)
	if v := k.own.Part(nil); v > 0 {
		f.AddEvidence(events, s, k.own.Query(), v, events.Unit,
			"processes in it were killed to free memory")
	}
	for _, r := range k.below[:min(len(k.below), mostGroupsBelow)] {
		f.AddEvidence(events, s, r.Query(), r.Part(nil), events.Unit,
			fmt.Sprintf("processes in %s, which is below it, were killed to free memory",
				facts.CgroupName(r.Word("cgroup"))))
	}
	if names, rate := killedPrograms(l, "killed in its group"); rate > 0 {
		messages := l.Table(facts.KernelMessages)
		f.AddEvidence(messages, s, facts.KernelMessages, rate, messages.Unit,
			"killed for the limit of a group, by the kernel's log: "+
				phrase.List(names[:min(len(names), mostGroupsBelow)]))
	}
}

// mostGroupsBelow is the number of groups, and of programs, that evidence names.
const mostGroupsBelow = 3
