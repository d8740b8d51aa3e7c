package rules

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// swapping finds that pages are swapped in all the time. Pages that only go out are what swap is
// for.
func swapping() diagnose.Rule {
	return diagnose.Rule{
		ID: "swapping", Checks: "swap", Resource: "memory",
		Needs: []string{facts.MemorySwap},
		Uses: []string{facts.MemorySize, facts.ProcessFaults, facts.ProcessDelay, facts.ProcessRSS,
			facts.DiskBytes, facts.DiskBusy, facts.Pressure},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.MemorySwap)
			in, out := t.One("direction", "in"), t.One("direction", "out")
			s, ok := diagnose.Lasting(t, diagnose.HasValue(in), func(c int) bool {
				return in.At(c) >= threshold.SwapIn
			})
			if s.Known < threshold.LeastSeconds {
				l.Unchecked("swap traffic is unknown")
				return
			}
			if !ok {
				l.Fine("%s swapped in", phrase.BytesRate(in.Mean(nil)))
				return
			}
			if stalled := l.Table(facts.Pressure).One("resource", "memory", "scope",
				"some").Mean(s.Mask); stalled < threshold.SwapStall {
				l.Fine("%s swapped in, which stalls tasks %s of the time",
					phrase.BytesRate(in.Mean(s.Mask)), phrase.Percent(stalled))
				return
			}
			rate := in.Mean(s.Mask) + series.Or(out.Mean(s.Mask), 0)
			severity := diagnose.Medium
			if rate >= threshold.SwapBoth {
				severity = diagnose.High
			}
			culprit, identity, cause := diagnose.Culprit{Kind: "memory", Name: "swap"}, "", ""
			share := 0.0
			// The process that waits: delay accounting measures it in nanoseconds, major faults are
			// an estimate.
			for _, query := range []string{facts.ProcessDelay, facts.ProcessFaults} {
				d := l.Table(query)
				rows := d.Rows
				if query == facts.ProcessDelay {
					rows = d.Where("reason", "swapin")
				}
				if all := facts.Programs(d, rows, s.Mask); len(all) > 0 {
					total := 0.0
					for _, a := range all {
						total += a.Rate
					}
					share = all[0].Rate / total
					culprit, identity = all[0].Culprit(), all[0].Identity()
					cause = fmt.Sprintf("; %s waits most for it (%s of all)", all[0],
						phrase.Percent(share))
					f := l.Found(identity, severity, 0.93, culprit, swapClaim(in, out, s, cause))
					what := fmt.Sprintf("%s takes %s of the faults that read from disk", all[0],
						phrase.Percent(share))
					if query == facts.ProcessDelay {
						what = fmt.Sprintf("tasks of %s wait for swapped memory %s of the time",
							all[0], phrase.Percent(all[0].Rate))
					}
					swapProof(l, f, t, in, out, s)
					evidenceQuery := all[0].Query(d)
					if query == facts.ProcessDelay {
						evidenceQuery += ` and reason = "swapin"`
					}
					f.AddEvidence(d, s, evidenceQuery, all[0].Rate, d.Unit, what)
					f.SetExplains(share)
					return
				}
			}
			f := l.Found(identity, severity, 0.9, culprit, swapClaim(in, out, s, cause))
			swapProof(l, f, t, in, out, s)
		},
	}
}

func swapClaim(in, out *diagnose.Row, s diagnose.Period, cause string) string {
	return fmt.Sprintf("The machine swaps: %s in and %s out for %s%s.",
		phrase.BytesRate(in.Mean(s.Mask)), phrase.BytesRate(series.Or(out.Mean(s.Mask), 0)), s,
		cause)
}

func swapProof(l *diagnose.Look, f *diagnose.Finding, t *diagnose.Table, in, out *diagnose.Row,
	s diagnose.Period) {
	f.AddEvidence(t, s, in.Query(), in.Mean(s.Mask), t.Unit,
		fmt.Sprintf("%s are swapped in, each page waited for", phrase.BytesRate(in.Mean(s.Mask))))
	if out != nil && out.Mean(s.Mask) == out.Mean(s.Mask) {
		f.AddEvidence(t, s, out.Query(), out.Mean(s.Mask), t.Unit,
			fmt.Sprintf("%s are swapped out", phrase.BytesRate(out.Mean(s.Mask))))
	}
	if v := l.Table(facts.Pressure).One("resource", "memory", "scope",
		"some").Mean(s.Mask); v == v {
		f.SetEffect(v)
	}
	size := l.Table(facts.MemorySize)
	total, avail := size.One("kind", "total").Mean(s.Mask), size.One("kind", "available")
	if total > 0 && avail.Mean(s.Mask) == avail.Mean(s.Mask) {
		share := avail.Mean(s.Mask) / total
		f.AddEvidence(size, s, avail.Query(), avail.Mean(s.Mask), size.Unit,
			fmt.Sprintf("%s of %s available", phrase.Percent(share),
				phrase.Memory(total))).CompareTo(total, "all memory")
		if share > 2*threshold.MemoryLow {
			f.AddCaveat(0.2, "%s of memory is available: the pages were swapped out earlier, or "+
				"belong to a cgroup at its limit.", phrase.Percent(share))
		}
	}
	f.Verify = "vmstat 1 5; grep -E '^pswp' /proc/vmstat; sar -W 1 3"
	f.Cover("disk-saturated", func(o *diagnose.Finding) bool { return o.Culprit.Name == "swap" })
}
