package rules

import (
	"fmt"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/attribute"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// cgroupThrottled finds cgroups that are limited by their CPU quota.
func cgroupThrottled() diagnose.Rule {
	return diagnose.Rule{
		ID: "cgroup-throttled", Checks: "cpu limits of cgroups",
		Finds: []string{facts.CgroupPeriods, facts.CgroupThrottledTime},
		Uses: []string{facts.CgroupQuota, facts.CgroupCPU, facts.ProcessInfo, facts.ProcessCPU,
			facts.ProcessRSS, facts.ProcessWait, facts.ProcessSwitches, facts.ThreadCPU,
			facts.ThreadWait},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.CgroupPeriods)
			throttled := l.Table(facts.CgroupThrottledTime)
			for _, g := range t.Keys("cgroup") {
				all, some := t.One("cgroup", g, "kind", "total"),
					t.One("cgroup", g, "kind", "throttled")
				if g == "" || all == nil || some == nil {
					continue
				}
				s, ok := diagnose.Lasting(t, diagnose.HasValue(all), func(c int) bool {
					return all.At(c) >= 1 && some.At(c) >= threshold.ThrottledSome*all.At(c) &&
						some.At(c) <= 1.5*all.At(c)
				})
				lost := throttled.One("cgroup", g).Part(s.Mask)
				if !ok || !(lost >= threshold.ThrottledTime) {
					continue
				}
				share := some.Part(s.Mask) / all.Part(s.Mask)
				severity := diagnose.Medium
				if share >= threshold.ThrottledHalf {
					severity = diagnose.High
				}
				quota, used := l.Table(facts.CgroupQuota).One("cgroup", g).Mean(s.Mask),
					l.Table(facts.CgroupCPU).One("cgroup", g).Part(s.Mask)
				limit := "its CPU limit"
				if quota == quota {
					limit = "its limit of " + phrase.Digits(quota) + " CPUs"
				}
				inside := facts.BusiestIn(l, g, s.Mask)
				programs := ""
				if inside != "" {
					programs = "; in it: " + inside
				}
				f := l.Found(facts.CgroupIdentity(g), severity, 0.95,
					diagnose.Culprit{Kind: "cgroup", Name: g},
					fmt.Sprintf("Cgroup %s is throttled by %s in %s of its periods for %s%s.",
						facts.CgroupName(g), limit, phrase.Percent(min(share, 1)), s, programs))
				f.SetExplains(min(share, 1))
				f.SetEffect(min(share, 1))
				f.AddEvidence(t, s, some.Query(), some.Part(s.Mask), t.Unit,
					fmt.Sprintf("throttled in %s of %s periods per second",
						phrase.Count(some.Part(s.Mask)),
						phrase.Count(all.Part(s.Mask)))).CompareTo(all.Part(s.Mask), "periods")
				f.AddEvidence(throttled, s, throttled.QueryOf(nil, "cgroup", g), lost,
					throttled.Unit, fmt.Sprintf("its tasks were stopped for %s s per second, "+
						"summed over CPUs", phrase.Digits(lost)))
				if quota == quota {
					q := l.Table(facts.CgroupQuota)
					f.AddEvidence(q, s, q.QueryOf(nil, "cgroup", g), quota, q.Unit,
						fmt.Sprintf("its limit is %s CPUs", phrase.Digits(quota)))
				}
				if used == used {
					c := l.Table(facts.CgroupCPU)
					f.AddEvidence(c, s, c.QueryOf(nil, "cgroup", g), used, c.Unit,
						fmt.Sprintf("it used %s CPUs", phrase.Digits(used))).CompareTo(quota,
						"limit")
				} else if pc, rows := l.Table(facts.ProcessCPU),
					facts.RowsInCgroup(l, l.Table(facts.ProcessCPU), g); len(rows) > 0 {
					// Under cgroup v1 CPU time is counted in another hierarchy than it is limited
					// in.
					if all := facts.Programs(pc, rows, s.Mask); len(all) > 0 {
						f.AddEvidence(pc, s, all[0].Query(pc), all[0].Rate, pc.Unit,
							fmt.Sprintf("%s in it used %s CPUs", all[0],
								phrase.Digits(all[0].Rate))).CompareTo(quota, "limit")
					}
				}
				if d := divideQuota(l, g, s, quota, used, lost); d.Total >= quota {
					f.Attribution = d.Report()
				}
				dir := phrase.Shell(g)
				f.Verify = fmt.Sprintf("cat /sys/fs/cgroup%s/cpu.stat "+
					"/sys/fs/cgroup/cpu%s/cpu.stat 2>/dev/null", dir, dir)
				f.Fix = moreQuota(g, quota)
				if g == facts.VisibleRoot {
					f.AddCaveat(0, "The limit was set outside of this container: only the host "+
						"can raise it.")
				}
			}
		},
	}
}

// moreQuota doubles the CPU limit of a cgroup, with the tool that manages it. nil when the limit is
// unknown, or set outside the cgroup namespace.
func moreQuota(g string, quota float64) *diagnose.Fix {
	if !(quota > 0) || quota > 10000 || g == facts.VisibleRoot {
		return nil
	}
	risk := "medium: it takes CPU time from others on this machine"
	base := g[strings.LastIndexByte(g, '/')+1:]
	if strings.HasSuffix(base, ".service") || strings.HasSuffix(base, ".slice") ||
		strings.HasSuffix(base, ".scope") {
		return &diagnose.Fix{Command: fmt.Sprintf("systemctl set-property --runtime %s "+
			"CPUQuota=%d%%", phrase.Shell(base), int(quota*200+0.5)),
			Undo: fmt.Sprintf("systemctl set-property --runtime %s CPUQuota=%d%%",
				phrase.Shell(base), int(quota*100+0.5)), Risk: risk}
	}
	set := func(q float64) string {
		us := int(q*100000 + 0.5)
		return fmt.Sprintf("if [ -e /sys/fs/cgroup%[1]s/cpu.max ]; then echo '%[2]d 100000' > "+
			"/sys/fs/cgroup%[1]s/cpu.max; else echo %[2]d > "+
			"/sys/fs/cgroup/cpu%[1]s/cpu.cfs_quota_us; fi", phrase.Shell(g), us)
	}
	return &diagnose.Fix{Command: set(2 * quota), Undo: set(quota),
		Risk: risk + "; assumes a period of 100 ms; a container manager may reset it"}
}

// divideQuota divides what the programs of a control group want of its CPU quota. used and lost are
// the CPU time that it used, and for which its tasks were stopped.
func divideQuota(l *diagnose.Look, g string, s diagnose.Period,
	quota, used, lost float64) *attribute.Result {
	pc := l.Table(facts.ProcessCPU)
	all := facts.ActorsIn(l, pc, facts.RowsInCgroup(l, pc, g), s.Mask, g)
	estimate, wants, sum := facts.CPUWantsOf(l, all, s.Mask), make([]float64, len(all)), 0.0
	for i := range wants {
		wants[i] = estimate.Likely(i)
		sum += wants[i]
	}
	least := series.Or(used, 0) + series.Or(lost, 0)
	if scale := least / sum; scale > 1 { // waits of stopped tasks are not counted on all kernels
		for i := range wants {
			wants[i] *= scale
		}
		sum = least
	}
	cpus := func(v float64) string { return phrase.Digits(v) + " CPUs" }
	return attribute.Divide(&attribute.Resource{Name: "CPU time wanted in " + facts.CgroupName(g),
		Unit: string(measure.Ratio), Total: sum, Limit: quota, Amount: cpus,
		Users: facts.Users(pc, all,
			func(i int) float64 { return wants[i] }, func(int) float64 { return 0 }),
		State: func(use float64) string {
			return "its programs would want " + phrase.Digits(use) + " of " + cpus(quota)
		},
		Basis: "estimated: CPU time, and the time that busy programs wait or are stopped"})
}
