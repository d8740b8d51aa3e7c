package diagnose

import "fmt"

// When swap traffic is a state of the machine.
const (
	// swapIn: pages that come back are pages that somebody waited for. 1 MB/s is 256 of them a second: at 0.1 ms each from
	// an SSD 3 % of somebody's time, at 5 ms from a disk more than all of it.
	swapIn = 1e6
	// swapBoth: in and out together from where on the machine is busy with it.
	swapBoth = 10e6
	// swapStall: share of time in which some task stood still for memory (PSI). Where the kernel tells it and it is less,
	// nobody waits: swap in compressed memory (zram) gives a page back within microseconds.
	swapStall = 0.01
)

// swapping finds that memory is fetched back from disk all the time. Pages that only go out are what swap is for.
func swapping() Rule {
	return Rule{
		ID: "swapping", Checks: "swap", Resource: "memory",
		Needs: []string{memorySwap},
		Uses:  []string{memorySize, processFaults, processDelay, processRSS, diskBytes, diskBusy, pressure},
		Check: func(l *Look) {
			t := l.Table(memorySwap)
			in, out := t.One("direction", "in"), t.One("direction", "out")
			s, ok := lasting(t, known(in), func(c int) bool { return in.At(c) >= swapIn })
			if s.of < leastSeconds {
				l.Unchecked("how much is swapped in is not known")
				return
			}
			if !ok {
				l.Fine("%s swapped in", bytesRate(in.Mean(nil)))
				return
			}
			if stalled := l.Table(pressure).One("resource", "memory", "scope", "some").Mean(s.mask); stalled < swapStall {
				l.Fine("%s swapped in, which stalls tasks %s of the time", bytesRate(in.Mean(s.mask)), percent(stalled))
				return
			}
			rate := in.Mean(s.mask) + or(out.Mean(s.mask), 0)
			severity := Medium
			if rate >= swapBoth {
				severity = High
			}
			culprit, identity, who := Culprit{Kind: "memory", Name: "swap"}, "", ""
			share := 0.0
			// Who waits for it: the delay accounting says it to the nanosecond; major faults say it nearly.
			for _, sentence := range []string{processDelay, processFaults} {
				d := l.Table(sentence)
				rows := d.Rows
				if sentence == processDelay {
					rows = d.Where("reason", "swapin")
				}
				if all := actors(d, rows, s.mask); len(all) > 0 {
					total := 0.0
					for _, a := range all {
						total += a.rate
					}
					share = all[0].rate / total
					culprit, identity = all[0].culprit(), all[0].identity()
					who = fmt.Sprintf("; %s waits for it most (%s of all)", all[0], percent(share))
					f := l.Found(identity, severity, 0.93, culprit, swapClaim(in, out, s, who))
					what := fmt.Sprintf("%s takes %s of the faults that read from disk", all[0], percent(share))
					if sentence == processDelay {
						what = fmt.Sprintf("tasks of %s wait for swapped memory %s of the time", all[0], percent(all[0].rate))
					}
					swapProof(l, f, t, in, out, s)
					sent := all[0].sentence(d)
					if sentence == processDelay {
						sent += ` and reason = "swapin"`
					}
					f.proof(d, s, sent, all[0].rate, d.Unit, what)
					f.explains(share)
					return
				}
			}
			f := l.Found(identity, severity, 0.9, culprit, swapClaim(in, out, s, who))
			swapProof(l, f, t, in, out, s)
		},
	}
}

func swapClaim(in, out *Row, s spell, who string) string {
	return fmt.Sprintf("The machine swaps: %s in and %s out for %s%s.", bytesRate(in.Mean(s.mask)), bytesRate(or(out.Mean(s.mask), 0)), s, who)
}

func swapProof(l *Look, f *Finding, t *Table, in, out *Row, s spell) {
	f.proof(t, s, in.Sentence(), in.Mean(s.mask), t.Unit, fmt.Sprintf("%s come back from swap, each page waited for", bytesRate(in.Mean(s.mask))))
	if out != nil && out.Mean(s.mask) == out.Mean(s.mask) {
		f.proof(t, s, out.Sentence(), out.Mean(s.mask), t.Unit, fmt.Sprintf("%s go out to swap", bytesRate(out.Mean(s.mask))))
	}
	if v := l.Table(pressure).One("resource", "memory", "scope", "some").Mean(s.mask); v == v {
		f.loses(v)
	}
	size := l.Table(memorySize)
	total, avail := size.One("kind", "total").Mean(s.mask), size.One("kind", "available")
	if total > 0 && avail.Mean(s.mask) == avail.Mean(s.mask) {
		share := avail.Mean(s.mask) / total
		f.proof(size, s, avail.Sentence(), avail.Mean(s.mask), size.Unit, fmt.Sprintf("%s of %s available", percent(share), memory(total))).than(total, "all memory")
		if share > 2*memoryLow {
			f.but(0.2, "%s of memory is available: what is swapped in now went out earlier, or belongs to a cgroup at its limit.", percent(share))
		}
	}
	f.Verify = "vmstat 1 5; grep -E '^pswp' /proc/vmstat; sar -W 1 3"
	f.covering("disk-saturated", func(o *Finding) bool { return o.Culprit.Name == "swap" })
}
