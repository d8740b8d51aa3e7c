package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// tableFull finds tables near the limit above which the kernel refuses or evicts entries.
func tableFull() diagnose.Rule {
	return diagnose.Rule{
		ID: "table-full", Checks: "table limits",
		Needs: []string{facts.CacheEntries, facts.CacheLimit},
		Uses:  []string{facts.CacheRefused, facts.CacheCollect, facts.ProtocolEvents},
		Check: func(l *diagnose.Look) {
			t, limits := l.Table(facts.CacheEntries), l.Table(facts.CacheLimit)
			for _, r := range t.Rows {
				lim := limits.One("netns", r.Word("netns"), "cache", r.Word("cache"))
				// limit-reached checks the open files of the machine.
				if lim == nil || r.Word("cache") == "" || r.Word("cache") == "file" {
					continue
				}
				s, ok := diagnose.Lasting(t,
					func(c int) bool {
						return r.At(c) == r.At(c) &&
							lim.At(c) >= threshold.LeastLimit
					}, func(c int) bool {
						return r.At(c) >= threshold.TableNear*lim.At(c)
					})
				cache := r.Word("cache")
				if refused := l.Table(facts.CacheRefused).One("netns", r.Word("netns"), "cache",
					cache); refused.Mean(nil) == refused.Mean(nil) {
					refuses(l, r, lim, refused)
					continue
				}
				if !ok || strings.HasPrefix(cache, "slab:") {
					continue
				}
				share := r.Mean(s.Mask) / lim.Mean(s.Mask)
				severity := diagnose.Medium
				if share >= threshold.TableFull {
					severity = diagnose.High
				}
				happens := "new ones are refused at the limit"
				switch {
				case cache == "tcp-timewait":
					severity, happens = diagnose.Low, "at the limit connections skip the state"
				case strings.HasPrefix(cache, "neighbour"):
					severity, happens = diagnose.Low,
						"hosts become unreachable when none can be evicted"
				case cache == "conntrack":
					happens = "new connections are dropped at the limit"
				}
				f := l.Found(phrase.Identity(r.Word("netns"), cache), severity, 0.9,
					diagnose.Culprit{Kind: "table", Name: cache, NetNS: r.Word("netns")},
					fmt.Sprintf("The table %s is %s full, %s of %s entries for %s: %s.",
						facts.TableName(r), phrase.Percent(min(share, 1)),
						phrase.Count(r.Mean(s.Mask)), phrase.Count(lim.Mean(s.Mask)), s,
						happens))
				f.SetExplains(min(share, 1))
				f.AddEvidence(t, s, r.Query(), r.Mean(s.Mask), t.Unit,
					fmt.Sprintf("%s entries",
						phrase.Count(r.Mean(s.Mask)))).CompareTo(lim.Mean(s.Mask), "limit")
				f.AddEvidence(lim.Table, s, lim.Query(), lim.Mean(s.Mask), lim.Table.Unit,
					fmt.Sprintf("the limit is %s", phrase.Count(lim.Mean(s.Mask))))
				f.Verify = "culprit caches 1 3"
				raiseLimit(f, cache, lim.Mean(s.Mask))
			}
		},
	}
}

// raiseLimit adds the fix for a table whose limit is a sysctl.
func raiseLimit(f *diagnose.Finding, cache string, now float64) {
	if knob := limitKnob(cache); knob != "" && now > 0 {
		f.Verify = "sysctl " + knob
		f.Fix = &diagnose.Fix{Command: fmt.Sprintf("sysctl %s=%.0f", knob, 2*now),
			Undo: fmt.Sprintf("sysctl %s=%.0f", knob, now),
			Risk: "low: takes more memory when it is used"}
	}
}

// refuses reports a table by the entries that it refuses, when it counts them. Such a table evicts
// unused entries when it is full: entries near its limit are no fault.
func refuses(l *diagnose.Look, r, limit, refused *diagnose.Row) {
	s, t := diagnose.WholePeriod(refused.Table), refused.Table
	rate := refused.Part(s.Mask)
	cache, netns := r.Word("cache"), r.Word("netns")
	if s.Known < threshold.LeastSeconds {
		return
	}
	if !(rate > 0) {
		collects(l, r, limit)
		return
	}
	f := l.Found(phrase.Identity(netns, cache), diagnose.High, 0.95,
		diagnose.Culprit{Kind: "table", Name: cache, NetNS: netns},
		fmt.Sprintf("The table %s is full and refuses %s new entries per second: no entry can be "+
			"evicted, and hosts become unreachable.", facts.TableName(r), phrase.Count(rate)))
	f.AddEvidence(t, s, refused.Query(), rate, t.Unit,
		fmt.Sprintf("%s entries per second were refused", phrase.Count(rate)))
	if v := r.Mean(s.Mask); v == v {
		e := f.AddEvidence(r.Table, s, r.Query(), v, r.Table.Unit,
			fmt.Sprintf("%s entries", phrase.Count(v)))
		if lim := limit.Mean(s.Mask); lim == lim {
			e.CompareTo(lim, "limit")
		}
	}
	proveDiscards(f, l, cache, s)
	f.Verify = "culprit caches 1 3"
	raiseLimit(f, cache, limit.Mean(s.Mask))
}

// collects reports a table that refuses nothing yet, and is searched at nearly each new entry: few
// entries can be evicted.
func collects(l *diagnose.Look, r, limit *diagnose.Row) {
	cache, netns := r.Word("cache"), r.Word("netns")
	runs := l.Table(facts.CacheCollect).One("netns", netns, "cache", cache)
	if runs == nil {
		return
	}
	s, t := diagnose.WholePeriod(runs.Table), runs.Table
	rate := runs.Part(s.Mask)
	if !(rate >= threshold.TableCollect) {
		return
	}
	f := l.Found(phrase.Identity(netns, cache), diagnose.Medium, 0.85,
		diagnose.Culprit{Kind: "table", Name: cache, NetNS: netns},
		fmt.Sprintf("The table %s is searched %s times per second for entries to evict: it is at "+
			"its limit, and few entries are unused. No entry is refused yet.", facts.TableName(r),
			phrase.Count(rate)))
	f.AddEvidence(t, s, runs.Query(), rate, t.Unit,
		fmt.Sprintf("%s forced collections per second",
			phrase.Count(rate))).CompareTo(threshold.TableCollect, "threshold")
	if v := r.Mean(s.Mask); v == v {
		e := f.AddEvidence(r.Table, s, r.Query(), v, r.Table.Unit,
			fmt.Sprintf("%s entries", phrase.Count(v)))
		if lim := limit.Mean(s.Mask); lim == lim {
			e.CompareTo(lim, "limit")
		}
	}
	proveDiscards(f, l, cache, s)
	f.Verify = "culprit caches 1 3"
	raiseLimit(f, cache, limit.Mean(s.Mask))
}

// proveDiscards adds the packets that were discarded before the address of their host was known.
// The kernel counts them for the whole machine.
func proveDiscards(f *diagnose.Finding, l *diagnose.Look, cache string, s diagnose.Period) {
	protocol := map[string]string{"neighbour": "Arp", "neighbour6": "Ndisc"}[cache]
	lost := l.Table(facts.ProtocolEvents).One("netns", "", "protocol", protocol, "counter",
		"unresolved_discards")
	if rate := lost.Part(s.Mask); rate > 0 {
		f.AddEvidence(lost.Table, s, lost.Query(), rate, lost.Table.Unit,
			fmt.Sprintf("%s packets/s were discarded before the address of their host was known",
				phrase.Count(rate)))
	}
}

// limitKnob returns the sysctl of a table's limit, "" when there is none.
func limitKnob(cache string) string {
	switch cache {
	case "conntrack":
		return "net.netfilter.nf_conntrack_max"
	case "neighbour":
		return "net.ipv4.neigh.default.gc_thresh3"
	case "neighbour6":
		return "net.ipv6.neigh.default.gc_thresh3"
	case "tcp-orphan":
		return "net.ipv4.tcp_max_orphans"
	}
	return ""
}
