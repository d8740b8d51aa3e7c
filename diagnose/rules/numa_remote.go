package rules

import (
	"fmt"
	"math"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// numaRemote finds programs whose memory is on another node than the CPUs that they run on: it is
// allocated there, or the kernel's samples show that they use it there.
func numaRemote() diagnose.Rule {
	return diagnose.Rule{
		ID: "numa-remote", Checks: "memory of other NUMA nodes", About: "memory",
		Finds: []string{facts.NUMAMemory},
		Uses:  []string{facts.NUMABalancing},
		Check: func(l *diagnose.Look) {
			if len(l.Table(facts.NUMAMemory).Keys("node")) < 2 {
				return // one node: nothing is remote
			}
			s, ok := remoteMemory(l)
			faults, often := remoteFaults(l)
			switch {
			case ok:
				accuseRemoteMemory(l, s)
			case often:
				accuseRemoteFaults(l, faults)
			}
		},
	}
}

// remoteMemory returns when much memory is allocated on other nodes.
func remoteMemory(l *diagnose.Look) (diagnose.Period, bool) {
	t := l.Table(facts.NUMAMemory)
	other, local := t.Sum(t.Where("kind", "other")), t.Sum(t.Where("kind", "local"))
	return diagnose.Lasting(t, nil, func(c int) bool {
		o := series.AtOrZero(other, c)
		return o >= threshold.RemoteRate &&
			o >= threshold.RemoteShare*(o+series.AtOrZero(local, c))
	})
}

// remoteFaults returns when most samples of accesses to memory are of other nodes.
func remoteFaults(l *diagnose.Look) (diagnose.Period, bool) {
	t := l.Table(facts.NUMABalancing)
	all, local := t.One("kind", "faults"), t.One("kind", "local faults")
	return diagnose.Lasting(t, diagnose.HasValue(all), func(c int) bool {
		return all.At(c) >= threshold.RemoteFaults &&
			all.At(c)-local.At(c) >= threshold.RemoteHalf*all.At(c)
	})
}

// pagesMoved returns the row of the pages that the kernel moves between nodes, and the severity
// that they deserve.
func pagesMoved(l *diagnose.Look, s diagnose.Period) (*diagnose.Row, diagnose.Severity) {
	r := l.Table(facts.NUMABalancing).One("kind", "migrated")
	if r.Mean(s.Mask) >= threshold.RemoteMoved {
		return r, diagnose.Medium
	}
	return r, diagnose.Low
}

func accuseRemoteMemory(l *diagnose.Look, s diagnose.Period) {
	t := l.Table(facts.NUMAMemory)
	all := t.Where("kind", "other")
	other, local := t.Mean(t.Sum(all), s.Mask), t.Mean(t.Sum(t.Where("kind", "local")), s.Mask)
	var most *diagnose.Row
	for _, r := range all {
		if r.Mean(s.Mask) > series.Or(most.Mean(s.Mask), math.Inf(-1)) {
			most = r
		}
	}
	pages, severity := pagesMoved(l, s)
	node := phrase.Clean(most.Word("node"))
	f := l.Found("allocations", severity, 0.8, diagnose.Culprit{Kind: "memory",
		Name: "NUMA node " + node}, fmt.Sprintf("%s of the memory is allocated on another NUMA "+
		"node than the one of the CPU that asks, %s, most of it on node %s, for %s.",
		phrase.Percent(other/(other+local)), phrase.BytesRate(other), node, s))
	f.AddEvidence(t, s, most.Query(), most.Mean(s.Mask), t.Unit, fmt.Sprintf(
		"%s on node %s for CPUs of other nodes", phrase.BytesRate(most.Mean(s.Mask)), node)).
		CompareTo(other+local, "all that is allocated")
	f.AddEvidence(t, s, t.QueryOf(nil, "kind", "local"), local, t.Unit,
		phrase.BytesRate(local)+" on the node of the CPU that asks")
	addMoved(f, pages, s)
	endRemote(f)
}

func accuseRemoteFaults(l *diagnose.Look, s diagnose.Period) {
	t := l.Table(facts.NUMABalancing)
	all, local := t.One("kind", "faults"), t.One("kind", "local faults")
	share := 1 - local.Mean(s.Mask)/all.Mean(s.Mask)
	pages, severity := pagesMoved(l, s)
	f := l.Found("accesses", severity, 0.75, diagnose.Culprit{Kind: "memory",
		Name: "memory of other NUMA nodes"}, fmt.Sprintf(
		"Programs use memory of other NUMA nodes than their own: %s of the accesses that the "+
			"kernel samples, for %s.", phrase.Percent(share), s))
	f.AddEvidence(t, s, all.Query(), all.Mean(s.Mask), t.Unit,
		phrase.Count(all.Mean(s.Mask))+" accesses per second are sampled")
	f.AddEvidence(t, s, local.Query(), local.Mean(s.Mask), t.Unit,
		phrase.Count(local.Mean(s.Mask))+" of them to the own node")
	addMoved(f, pages, s)
	endRemote(f)
}

func addMoved(f *diagnose.Finding, r *diagnose.Row, s diagnose.Period) {
	if v := r.Mean(s.Mask); v >= 1 {
		f.AddEvidence(r.Table, s, r.Query(), v, r.Table.Unit,
			phrase.Count(v)+" pages per second are moved between nodes")
	}
}

func endRemote(f *diagnose.Finding) {
	f.AddCaveat(0, "A program larger than a node, and page cache, use memory of several nodes.")
	f.Verify = "numastat -c; numastat -p PID; culprit stat 'memory.numa by node,kind' 1"
}
