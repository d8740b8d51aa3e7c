package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// tableLong finds hash tables with long chains.
func tableLong() diagnose.Rule {
	return diagnose.Rule{
		ID: "table-long", Checks: "table length",
		Needs:   []string{facts.CacheEntries, facts.CacheBuckets},
		Uses:    []string{facts.CPUTime, facts.SoftnetPackets},
		Traced:  []string{facts.SoftirqTimes, facts.SoftirqTimeCost},
		Sampled: []string{facts.StackSamples, facts.StackRate},
		Check: func(l *diagnose.Look) {
			t, buckets := l.Table(facts.CacheEntries), l.Table(facts.CacheBuckets)
			for _, r := range t.Rows {
				b := buckets.One("netns", r.Word("netns"), "cache", r.Word("cache"))
				if b == nil || r.Word("cache") == "" {
					continue
				}
				s, ok := diagnose.Lasting(t,
					func(c int) bool { return r.At(c) == r.At(c) && b.At(c) > 0 },
					func(c int) bool {
						return r.At(c) >= threshold.TableWorth &&
							r.At(c) >= threshold.TableChain*b.At(c)
					})
				if ok {
					accuseLong(l, r, b, s)
				}
			}
		},
	}
}

func accuseLong(l *diagnose.Look, r, b *diagnose.Row, s diagnose.Period) {
	t := r.Table
	entries, buckets := r.Mean(s.Mask), b.Mean(s.Mask)
	chain := entries / buckets
	m := facts.MachineOf(l.Table(facts.CPUTime))
	packets := l.Table(facts.SoftnetPackets)
	// The CPU with most softirq work walks the chains. Its NET_RX part is known where it was
	// measured.
	h := facts.SoftirqTimeOf(l)
	cpu, soft, measured := "", 0.0, false
	for _, name := range m.Names {
		v, of := m.One(name, s.Mask, "soft"), false
		if rx := h.Vector(s.Mask, name, "NET_RX"); rx == rx {
			v, of = rx, true
		}
		if v > soft {
			cpu, soft, measured = name, v, of
		}
	}
	rate := packets.One("cpu", cpu).Mean(s.Mask)
	cost := soft / rate * 1e9
	severity := diagnose.Medium
	if chain >= threshold.TableChainBad && soft >= threshold.TableBusy &&
		cost >= threshold.PacketCost {
		severity = diagnose.High
	}
	cache := r.Word("cache")
	f := l.Found(phrase.Identity(r.Word("netns"), cache), severity, 0.9,
		diagnose.Culprit{Kind: "table", Name: cache, NetNS: r.Word("netns")},
		fmt.Sprintf("The table %s has %s entries per bucket: %s in %s buckets, so each lookup "+
			"walks about %s entries.", facts.TableName(r), phrase.Digits(chain),
			phrase.Count(entries), phrase.Count(buckets), phrase.Count(chain/2)))
	f.AddEvidence(t, s, r.Query(), chain, "entries per bucket",
		fmt.Sprintf("%s entries per bucket, one is usual",
			phrase.Digits(chain))).CompareTo(threshold.TableChain, "threshold")
	f.AddEvidence(t, s, r.Query(), entries, t.Unit,
		fmt.Sprintf("%s entries", phrase.Count(entries))).CompareTo(buckets, "buckets")
	f.AddEvidence(b.Table, s, b.Query(), buckets, b.Table.Unit,
		fmt.Sprintf("in %s buckets", phrase.Count(buckets)))
	each, work := "softirq time each", "Interrupt work"
	switch {
	case measured:
		each, work = "NET_RX each (measured)", "Receiving packets"
		if soft >= 0.01 {
			f.AddEvidence(h.Table, s, h.Table.QueryOf(nil, "cpu", cpu, "vector", "NET_RX"), soft,
				h.Table.Unit,
				fmt.Sprintf("CPU %s spends %s of its time in softirq NET_RX, which looks up "+
					"packets (measured)", phrase.Clean(cpu), phrase.Percent(soft)))
		}
	case soft >= 0.01:
		f.AddEvidence(m.Table, s, fmt.Sprintf(`cpu.time where cpu = %q and mode = "soft"`, cpu),
			soft, m.Table.Unit, fmt.Sprintf("CPU %s spends %s of its time in softirqs, which look "+
				"up packets", phrase.Clean(cpu), phrase.Percent(soft)))
	}
	if rate >= 100 && cost > 0 {
		f.AddEvidence(packets, s, packets.QueryOf(nil, "cpu", cpu), rate, packets.Unit,
			fmt.Sprintf("%s packets/s there, %s of %s", phrase.Count(rate), phrase.Duration(cost),
				each))
	}
	walking := walksProof(l, f, r.Word("cache"), s)
	if soft < threshold.TableBusy && !(walking >= threshold.TableBusy) {
		f.AddCaveat(0.1, "%s takes only %s of a CPU: the long walks cost little at this packet "+
			"rate.", work, phrase.Percent(soft))
	}
	f.Verify, f.Fix = tableAdvice(cache, r.Word("netns"), entries)
	if walking > 0 {
		f.Verify += "; " + facts.ProfileCommand("")
	}
	f.Cover("kernel-function", func(o *diagnose.Finding) bool {
		return facts.TableWalkers()[facts.SubjectFunction(o).Name] == cache
	})
	if severity == diagnose.High {
		// The walks are softirq work on top of any running task: neither that CPU nor that task is
		// the cause.
		f.Cover("cpu-softirq", nil)
		f.Cover("cpu-saturated", nil)
		f.Cover("cpu-one-saturated", nil)
	}
}

// walksProof adds the functions that search the table on the CPU where they take most time. It
// returns their time; NaN when nothing was sampled.
func walksProof(l *diagnose.Look, f *diagnose.Finding, cache string, s diagnose.Period) float64 {
	k, in := facts.SamplesOf(l), facts.TableWalkers()
	if !k.Enough(s.Mask) {
		return measure.NaN
	}
	most, cpu := 0.0, ""
	var ofMost []*facts.FunctionTime
	for name := range k.Hz {
		var all []*facts.FunctionTime
		sum := 0.0
		for _, t := range k.Functions(s.Mask, facts.OnCPU(name)) {
			if in[t.Name] == cache && t.Self > 0 {
				all, sum = append(all, t), sum+t.Self
			}
		}
		if sum > most || sum == most && sum > 0 && name < cpu {
			most, cpu, ofMost = sum, name, all
		}
	}
	if most < threshold.FunctionSeen {
		return most
	}
	sentence := k.Table.QueryOf([]string{"kernel"}, "cpu", cpu)
	for i, t := range ofMost {
		if i == threshold.FunctionLines || t.Self < most/10 {
			break
		}
		f.AddEvidence(k.Table, s, sentence, t.Self, "CPU",
			fmt.Sprintf("the function %s, which walks this table, takes %s of CPU %s, %s (sampled)",
				phrase.Clean(t.Name), phrase.Percent(t.Self), phrase.Clean(cpu), t.MainEntry()))
	}
	return most
}

// tableAdvice returns the commands for tables whose size can be set.
func tableAdvice(cache, netns string, entries float64) (string, *diagnose.Fix) {
	want := 1024
	for float64(want) < entries && want < 1<<24 {
		want *= 2
	}
	switch {
	case strings.HasPrefix(cache, "tcp"):
		return phrase.InNamespace(netns, "sysctl net.ipv4.tcp_ehash_entries") + "; " +
				phrase.InNamespace(netns, "ss -s"),
			&diagnose.Fix{Command: fmt.Sprintf("sysctl net.ipv4.tcp_child_ehash_entries=%d", want),
				Undo: "sysctl net.ipv4.tcp_child_ehash_entries=0",
				Risk: "medium: applies to new namespaces, so the program must be restarted in a " +
					"new one; the table of the machine is set by thash_entries= at boot"}
	case cache == "conntrack":
		return "sysctl net.netfilter.nf_conntrack_buckets net.netfilter.nf_conntrack_count",
			&diagnose.Fix{
				Command: fmt.Sprintf("echo %d > /sys/module/nf_conntrack/parameters/hashsize",
					want),
				Risk: "low: rehashes while running, uses 8 bytes per bucket"}
	case strings.HasPrefix(cache, "neighbour"):
		return phrase.InNamespace(netns, "ip -s neigh") + " | wc -l", nil
	}
	return "culprit caches 1 3", nil
}
