package diagnose

import (
	"fmt"
	"strings"

	"culprit/measure"
)

// When a table of the kernel counts as too long, growing or full.
const (
	// tableChain: entries a bucket. A good hash table has one or fewer; a chain of eight is a walk of four on average, all
	// cache misses.
	tableChain = 8.0
	// tableChainBad: from here on the walk costs more than the rest of the work on a packet (27 us instead of 5 at 781).
	tableChainBad = 64.0
	// tableWorth: a table with fewer entries is walked within the processor's cache.
	tableWorth = 1000.0
	// tableBusy: share of a CPU that softirq work takes, from where on what a packet costs matters.
	tableBusy = 0.15
	// packetDear: nanoseconds of softirq time a packet; 1-5 us is usual.
	packetDear = 10e3
	// tableNear and tableFull: of the limit. Past it the kernel refuses new entries (conntrack: drops new connections).
	tableNear, tableFull = 0.90, 0.99
	// tableCollect: forced collections a second. A table of neighbours is looked through at most each five seconds while it is below
	// its limit (gc_thresh3), and at each new entry when it is at it and little of it can be evicted.
	tableCollect = 1.0
	// leastLimit: a smaller limit is no limit of a table but a switch.
	leastLimit = 16.0
	// growSize: tables below it can grow for long before anybody notices.
	growSize = 50000.0
	// growDouble: and it would double within ten minutes.
	growDouble = 600.0
)

// tableLong finds hash tables with long chains.
func tableLong() Rule {
	return Rule{
		ID: "table-long", Checks: "table length",
		Needs:  []string{cacheEntries, cacheBuckets},
		Uses:   []string{cpuTime, softnetPackets},
		Traced: []string{softirqTime, softirqTimeCost}, Sampled: []string{stackSamples, stackRate},
		Check: func(l *Look) {
			t, buckets := l.Table(cacheEntries), l.Table(cacheBuckets)
			for _, r := range t.Rows {
				b := buckets.One("netns", r.Word("netns"), "cache", r.Word("cache"))
				if b == nil || r.Word("cache") == "" {
					continue
				}
				s, ok := lasting(t, func(c int) bool { return r.At(c) == r.At(c) && b.At(c) > 0 }, func(c int) bool {
					return r.At(c) >= tableWorth && r.At(c) >= tableChain*b.At(c)
				})
				if ok {
					accuseLong(l, r, b, s)
				}
			}
		},
	}
}

// tableName says which table it is: "tcp-established in namespace box".
func tableName(r *Row) string { return at(r.Word("netns"), r.Word("cache")) }

func accuseLong(l *Look, r, b *Row, s spell) {
	t := r.table
	entries, buckets := r.Mean(s.mask), b.Mean(s.mask)
	chain := entries / buckets
	m := machineOf(l.Table(cpuTime))
	packets := l.Table(softnetPackets)
	// The CPU with most softirq work is the one that walks the chains. What of it is NET_RX is known where it was measured.
	h := handledOf(l)
	cpu, soft, measured := "", 0.0, false
	for _, name := range m.names {
		v, of := m.one(name, s.mask, "soft"), false
		if rx := h.vector(s.mask, name, "NET_RX"); rx == rx {
			v, of = rx, true
		}
		if v > soft {
			cpu, soft, measured = name, v, of
		}
	}
	rate := packets.One("cpu", cpu).Mean(s.mask)
	cost := soft / rate * 1e9
	severity := Medium
	if chain >= tableChainBad && soft >= tableBusy && cost >= packetDear {
		severity = High
	}
	cache := r.Word("cache")
	f := l.Found(slot(r.Word("netns"), cache), severity, 0.9, Culprit{Kind: "table", Name: cache, NetNS: r.Word("netns")},
		fmt.Sprintf("The table %s has %s entries a bucket: %s in %s buckets, so each lookup walks about %s of them.", tableName(r), digits(chain), count(entries), count(buckets), count(chain/2)))
	f.proof(t, s, r.Sentence(), chain, "entries a bucket", fmt.Sprintf("%s entries a bucket (entries over buckets), one is usual", digits(chain))).than(tableChain, "long begins at")
	f.proof(t, s, r.Sentence(), entries, t.Unit, fmt.Sprintf("%s entries", count(entries))).than(buckets, "buckets")
	f.proof(b.table, s, b.Sentence(), buckets, b.table.Unit, fmt.Sprintf("in %s buckets", count(buckets)))
	each, work := "softirq time each", "Interrupt work"
	switch {
	case measured:
		each, work = "NET_RX each (measured)", "Receiving packets"
		if soft >= 0.01 {
			f.proof(h.table, s, h.table.Asking(nil, "cpu", cpu, "vector", "NET_RX"), soft, h.table.Unit,
				fmt.Sprintf("CPU %s spends %s of its time in softirq NET_RX, where packets look things up (measured)", clean(cpu), percent(soft)))
		}
	case soft >= 0.01:
		f.proof(m.table, s, fmt.Sprintf(`cpu.time where cpu = %q and mode = "soft"`, cpu), soft, m.table.Unit, fmt.Sprintf("CPU %s spends %s of its time in softirqs, where packets look things up", clean(cpu), percent(soft)))
	}
	if rate >= 100 && cost > 0 {
		f.proof(packets, s, packets.Asking(nil, "cpu", cpu), rate, packets.Unit, fmt.Sprintf("%s packets/s there, %s of %s", count(rate), duration(cost), each))
	}
	walking := walksProof(l, f, r.Word("cache"), s)
	if soft < tableBusy && !(walking >= tableBusy) {
		f.but(0.1, "%s takes only %s of a CPU: the long walks cost little at this rate of packets.", work, percent(soft))
	}
	f.Verify, f.Fix = tableAdvice(cache, r.Word("netns"), entries)
	if walking > 0 {
		f.Verify += "; " + profileOf("")
	}
	f.covering("kernel-function", func(o *Finding) bool { return o.function != nil && walkers()[o.function.name] == cache })
	if severity == High {
		// The walks are softirq work, on top of whatever task was running: neither that CPU nor that task is the cause.
		f.covering("cpu-softirq", nil)
		f.covering("cpu-saturated", nil)
		f.covering("cpu-one-saturated", nil)
	}
}

// walksProof adds what functions that look a table up take of the CPU where they take most; NaN when it was not sampled.
func walksProof(l *Look, f *Finding, cache string, s spell) float64 {
	k, in := stacksOf(l), walkers()
	if !k.enough(s.mask) {
		return measure.NaN
	}
	most, cpu := 0.0, ""
	var ofMost []*taken
	for name := range k.hz {
		var all []*taken
		sum := 0.0
		for _, t := range k.functions(s.mask, on(name)) {
			if in[t.name] == cache && t.self > 0 {
				all, sum = append(all, t), sum+t.self
			}
		}
		if sum > most || sum == most && sum > 0 && name < cpu {
			most, cpu, ofMost = sum, name, all
		}
	}
	if most < functionSeen {
		return most
	}
	sentence := k.table.Asking([]string{"kernel"}, "cpu", cpu)
	for i, t := range ofMost {
		if i == functionLines || t.self < most/10 {
			break
		}
		f.proof(k.table, s, sentence, t.self, "CPU", fmt.Sprintf("the function %s, which walks this table, takes %s of CPU %s by itself, %s (sampled)", clean(t.name), percent(t.self), clean(cpu), t.mostly()))
	}
	return most
}

// tableAdvice gives the commands for the tables that have a knob.
func tableAdvice(cache, netns string, entries float64) (string, *Fix) {
	want := 1024
	for float64(want) < entries && want < 1<<24 {
		want *= 2
	}
	switch {
	case strings.HasPrefix(cache, "tcp"):
		return within(netns, "sysctl net.ipv4.tcp_ehash_entries") + "; " + within(netns, "ss -s"),
			&Fix{fmt.Sprintf("sysctl net.ipv4.tcp_child_ehash_entries=%d", want), "sysctl net.ipv4.tcp_child_ehash_entries=0",
				"medium: holds for namespaces made after it, so the program must be started again in a new one; the machine's own table is set by thash_entries= at boot"}
	case cache == "conntrack":
		return "sysctl net.netfilter.nf_conntrack_buckets net.netfilter.nf_conntrack_count",
			&Fix{fmt.Sprintf("echo %d > /sys/module/nf_conntrack/parameters/hashsize", want), "", "low: rehashes while running, takes 8 bytes a bucket"}
	case strings.HasPrefix(cache, "neighbour"):
		return within(netns, "ip -s neigh") + " | wc -l", nil
	}
	return "culprit caches 1 3", nil
}

// tableFullRule finds tables near the limit from which on the kernel refuses or evicts.
func tableFullRule() Rule {
	return Rule{
		ID: "table-full", Checks: "table limits",
		Needs: []string{cacheEntries, cacheLimit},
		Uses:  []string{cacheRefused, cacheCollect, protocolEvents},
		Check: func(l *Look) {
			t, limits := l.Table(cacheEntries), l.Table(cacheLimit)
			for _, r := range t.Rows {
				lim := limits.One("netns", r.Word("netns"), "cache", r.Word("cache"))
				if lim == nil || r.Word("cache") == "" {
					continue
				}
				s, ok := lasting(t, func(c int) bool { return r.At(c) == r.At(c) && lim.At(c) >= leastLimit }, func(c int) bool { return r.At(c) >= tableNear*lim.At(c) })
				cache := r.Word("cache")
				if refused := l.Table(cacheRefused).One("netns", r.Word("netns"), "cache", cache); refused.Mean(nil) == refused.Mean(nil) {
					refuses(l, r, lim, refused)
					continue
				}
				if !ok || strings.HasPrefix(cache, "slab:") {
					continue
				}
				share := r.Mean(s.mask) / lim.Mean(s.mask)
				severity := Medium
				if share >= tableFull {
					severity = High
				}
				happens := "new ones are refused then"
				switch {
				case cache == "tcp-timewait":
					severity, happens = Low, "further connections skip the state then"
				case strings.HasPrefix(cache, "neighbour"):
					severity, happens = Low, "where none of them can be evicted, hosts become unreachable"
				case cache == "conntrack":
					happens = "new connections are dropped then"
				}
				f := l.Found(slot(r.Word("netns"), cache), severity, 0.9, Culprit{Kind: "table", Name: cache, NetNS: r.Word("netns")},
					fmt.Sprintf("The table %s is %s full, %s of %s entries for %s: %s.", tableName(r), percent(min(share, 1)), count(r.Mean(s.mask)), count(lim.Mean(s.mask)), s, happens))
				f.explains(min(share, 1))
				f.proof(t, s, r.Sentence(), r.Mean(s.mask), t.Unit, fmt.Sprintf("%s entries", count(r.Mean(s.mask)))).than(lim.Mean(s.mask), "limit")
				f.proof(lim.table, s, lim.Sentence(), lim.Mean(s.mask), lim.table.Unit, fmt.Sprintf("%s may be", count(lim.Mean(s.mask))))
				f.Verify = "culprit caches 1 3"
				raiseLimit(f, cache, lim.Mean(s.mask))
			}
		},
	}
}

// raiseLimit adds how to raise the limit of a table that has a knob.
func raiseLimit(f *Finding, cache string, now float64) {
	if knob := limitKnob(cache); knob != "" && now > 0 {
		f.Verify = "sysctl " + knob
		f.Fix = &Fix{fmt.Sprintf("sysctl %s=%.0f", knob, 2*now), fmt.Sprintf("sysctl %s=%.0f", knob, now), "low: takes more memory when it is used"}
	}
}

// refuses accuses a table that counts what it refuses, by that. Such a table evicts what nobody uses
// when it is full, so that entries near its limit are no trouble.
func refuses(l *Look, r, limit, refused *Row) {
	s, t := whole(refused.table), refused.table
	rate := refused.Part(s.mask)
	cache, netns := r.Word("cache"), r.Word("netns")
	if s.of < leastSeconds {
		return
	}
	if !(rate > 0) {
		collects(l, r, limit)
		return
	}
	f := l.Found(slot(netns, cache), High, 0.95, Culprit{Kind: "table", Name: cache, NetNS: netns},
		fmt.Sprintf("The table %s is full and refuses %s new entries a second: nothing in it can be evicted, and hosts become unreachable.", tableName(r), count(rate)))
	f.proof(t, s, refused.Sentence(), rate, t.Unit, fmt.Sprintf("%s entries a second were refused", count(rate)))
	if v := r.Mean(s.mask); v == v {
		e := f.proof(r.table, s, r.Sentence(), v, r.table.Unit, fmt.Sprintf("%s entries", count(v)))
		if lim := limit.Mean(s.mask); lim == lim {
			e.than(lim, "limit")
		}
	}
	f.discards(l, cache, s)
	f.Verify = "culprit caches 1 3"
	raiseLimit(f, cache, limit.Mean(s.mask))
}

// collects accuses a table that refuses nothing yet, and that is looked through at nearly each new entry: little of it can be evicted.
func collects(l *Look, r, limit *Row) {
	cache, netns := r.Word("cache"), r.Word("netns")
	runs := l.Table(cacheCollect).One("netns", netns, "cache", cache)
	if runs == nil {
		return
	}
	s, t := whole(runs.table), runs.table
	rate := runs.Part(s.mask)
	if !(rate >= tableCollect) {
		return
	}
	f := l.Found(slot(netns, cache), Medium, 0.85, Culprit{Kind: "table", Name: cache, NetNS: netns},
		fmt.Sprintf("The table %s is looked through %s times a second for entries to evict: it is at its limit, and little in it is unused. Nothing is refused yet.", tableName(r), count(rate)))
	f.proof(t, s, runs.Sentence(), rate, t.Unit, fmt.Sprintf("%s forced collections a second", count(rate))).than(tableCollect, "many begin at")
	if v := r.Mean(s.mask); v == v {
		e := f.proof(r.table, s, r.Sentence(), v, r.table.Unit, fmt.Sprintf("%s entries", count(v)))
		if lim := limit.Mean(s.mask); lim == lim {
			e.than(lim, "limit")
		}
	}
	f.discards(l, cache, s)
	f.Verify = "culprit caches 1 3"
	raiseLimit(f, cache, limit.Mean(s.mask))
}

// discards adds the packets that were thrown away while their host was looked for, which the kernel counts for the whole machine.
func (f *Finding) discards(l *Look, cache string, s spell) {
	protocol := map[string]string{"neighbour": "Arp", "neighbour6": "Ndisc"}[cache]
	lost := l.Table(protocolEvents).One("netns", "", "protocol", protocol, "counter", "unresolved_discards")
	if rate := lost.Part(s.mask); rate > 0 {
		f.proof(lost.table, s, lost.Sentence(), rate, lost.table.Unit, fmt.Sprintf("%s packets/s were discarded while the address of their host was not known", count(rate)))
	}
}

// limitKnob gives the sysctl of a table's limit, "" when it has none.
func limitKnob(cache string) string {
	switch cache {
	case "conntrack":
		return "net.netfilter.nf_conntrack_max"
	case "neighbour":
		return "net.ipv4.neigh.default.gc_thresh3"
	case "neighbour6":
		return "net.ipv6.neigh.default.gc_thresh3"
	case "file":
		return "fs.file-max"
	case "tcp-orphan":
		return "net.ipv4.tcp_max_orphans"
	}
	return ""
}

// tableGrowing finds tables that grow steadily and nothing shrinks: a leak in the making.
func tableGrowing() Rule {
	return Rule{
		ID: "table-growing", Checks: "table growth",
		Needs: []string{cacheEntries, cacheGrowth},
		Uses:  []string{cacheBytes, cacheLimit},
		Check: func(l *Look) {
			t, growth := l.Table(cacheEntries), l.Table(cacheGrowth)
			for _, r := range t.Rows {
				cache := r.Word("cache")
				g := growth.One("netns", r.Word("netns"), "cache", cache)
				if g == nil || cache == "" || !leaks(cache) || !(r.Last() >= growSize) || !(g.Mean(nil) > 0) {
					continue
				}
				s, ok := lasting(growth, known(g), func(c int) bool { return g.At(c) > 0 })
				rate := g.Mean(s.mask)
				// Steadily: in nearly every cell, and not in one jump.
				if !ok || s.share() < 0.9 || len(t.Seconds) < 5 || rate*growDouble < r.Last() || g.Max() > 5*rate {
					continue
				}
				// What doubled within the look is a load that has just begun.
				if before := r.Last() - rate*s.held; before < r.Last()/2 {
					continue
				}
				f := l.Found(slot(r.Word("netns"), cache), Low, 0.6, Culprit{Kind: "table", Name: cache, NetNS: r.Word("netns")},
					fmt.Sprintf("The table %s grows by %s entries a second for %s, to %s: at that pace it doubles in %s.", tableName(r), count(rate), s, count(r.Last()), ahead(r.Last()/rate)))
				f.proof(growth, s, g.Sentence(), rate, growth.Unit, fmt.Sprintf("%s entries more each second", count(rate)))
				f.proof(t, s, r.Sentence(), r.Last(), t.Unit, fmt.Sprintf("%s entries now", count(r.Last())))
				if b := l.Table(cacheBytes).One("netns", r.Word("netns"), "cache", cache); b.Last() > 0 {
					f.proof(b.table, s, b.Sentence(), b.Last(), b.table.Unit, memory(b.Last())+" of memory")
				}
				if lim := l.Table(cacheLimit).One("netns", r.Word("netns"), "cache", cache); lim.Last() > r.Last() {
					f.proof(lim.table, s, lim.Sentence(), lim.Last(), lim.table.Unit, fmt.Sprintf("its limit of %s is reached in %s", count(lim.Last()), ahead((lim.Last()-r.Last())/rate)))
				}
				f.but(0.2, "%s s are short: a load that has just begun looks the same.", seconds(s.of))
				f.Verify = "culprit caches 1 10"
				if !strings.HasPrefix(cache, "slab:") {
					// Each entry of a table takes an object or two of a slab, and a connection a file.
					f.covering("table-growing", func(o *Finding) bool {
						return strings.HasPrefix(o.Culprit.Name, "slab:") || cache != "file" && (o.Culprit.Name == "file" || strings.HasPrefix(o.Culprit.Name, "tcp-") && cache > o.Culprit.Name)
					})
				}
			}
		},
	}
}

// ahead gives a time to come: 40 s, 7 minutes.
func ahead(s float64) string {
	if s < 120 {
		return digits(s) + " s"
	}
	return digits(s/60) + " minutes"
}

// leaks says whether growth of a cache means anything. What the kernel drops when memory runs low (dentries, inodes, most
// slabs) grows with every file looked at, and connections in TIME-WAIT leave by themselves.
func leaks(cache string) bool {
	switch cache {
	case "dentry", "dentry-unused", "inode", "inode-unused", "tcp-timewait":
		return false
	case "dentry-negative":
		return true // nothing bounds them but memory; purges of big directories take as long as there are many
	}
	for _, shrinks := range []string{"dentry", "inode", "radix_tree", "xarray", "buffer_head", "ext4_", "xfs_", "btrfs_", "shmem", "proc_", "kernfs", "extent", "vm_area", "anon_vma", "maple", "kmalloc"} {
		if strings.HasPrefix(cache, "slab:") && strings.Contains(cache, shrinks) {
			return false
		}
	}
	return true
}
