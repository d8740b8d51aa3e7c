package diagnose

import (
	"fmt"
	"strings"
)

// When a CPU limit counts as holding a cgroup back.
const (
	// throttledSome: share of its periods (100 ms unless set) in which the cgroup used up its quota before the end. A burst
	// now and then is what quotas are for; one period in five shows up in the latency of every request that takes a while.
	throttledSome = 0.20
	// throttledHalf: from here on the limit and not the work decides how fast the cgroup is.
	throttledHalf = 0.50
	// throttledTime: its tasks stood still for at least this share of the time, all its CPUs added up.
	throttledTime = 0.02
)

// cgroupThrottledRule finds cgroups that their own CPU limit holds back.
func cgroupThrottledRule() Rule {
	return Rule{
		ID: "cgroup-throttled", Checks: "cpu limits of cgroups",
		Finds: []string{cgroupPeriods, cgroupThrottled},
		Uses:  []string{cgroupQuota, cgroupCPU, processInfo, processCPU, processRSS},
		Check: func(l *Look) {
			t := l.Table(cgroupPeriods)
			throttled := l.Table(cgroupThrottled)
			for _, g := range t.Keys("cgroup") {
				all, some := t.One("cgroup", g, "kind", "total"), t.One("cgroup", g, "kind", "throttled")
				if g == "" || all == nil || some == nil {
					continue
				}
				s, ok := lasting(t, known(all), func(c int) bool {
					return all.At(c) >= 1 && some.At(c) >= throttledSome*all.At(c) && some.At(c) <= 1.5*all.At(c)
				})
				lost := throttled.One("cgroup", g).Part(s.mask)
				if !ok || !(lost >= throttledTime) {
					continue
				}
				share := some.Part(s.mask) / all.Part(s.mask)
				severity := Medium
				if share >= throttledHalf {
					severity = High
				}
				quota, used := l.Table(cgroupQuota).One("cgroup", g).Mean(s.mask), l.Table(cgroupCPU).One("cgroup", g).Part(s.mask)
				limit := "its CPU limit"
				if quota == quota {
					limit = "its limit of " + digits(quota) + " CPUs"
				}
				inside := busyIn(l, g, s.mask)
				who := ""
				if inside != "" {
					who = "; in it: " + inside
				}
				f := l.Found(cgroupIdentity(g), severity, 0.95, Culprit{Kind: "cgroup", Name: g},
					fmt.Sprintf("Cgroup %s is held back by %s: throttled in %s of its periods for %s%s.", cgroupName(g), limit, percent(min(share, 1)), s, who))
				f.explains(min(share, 1))
				f.loses(min(share, 1))
				f.proof(t, s, some.Sentence(), some.Part(s.mask), t.Unit, fmt.Sprintf("throttled in %s of %s periods a second", count(some.Part(s.mask)), count(all.Part(s.mask)))).than(all.Part(s.mask), "periods")
				f.proof(throttled, s, throttled.Asking(nil, "cgroup", g), lost, throttled.Unit, fmt.Sprintf("its tasks stood still %s s of each second, all CPUs added up", digits(lost)))
				if quota == quota {
					q := l.Table(cgroupQuota)
					f.proof(q, s, q.Asking(nil, "cgroup", g), quota, q.Unit, fmt.Sprintf("it may use %s CPUs", digits(quota)))
				}
				if used == used {
					c := l.Table(cgroupCPU)
					f.proof(c, s, c.Asking(nil, "cgroup", g), used, c.Unit, fmt.Sprintf("it used %s CPUs", digits(used))).than(quota, "limit")
				} else if pc, rows := l.Table(processCPU), rowsOf(l, l.Table(processCPU), g); len(rows) > 0 {
					// Under cgroup v1 time is counted in another hierarchy than it is limited in.
					if all := actors(pc, rows, s.mask); len(all) > 0 {
						f.proof(pc, s, all[0].sentence(pc), all[0].rate, pc.Unit, fmt.Sprintf("%s in it used %s CPUs", all[0], digits(all[0].rate))).than(quota, "limit")
					}
				}
				dir := shell(g)
				f.Verify = fmt.Sprintf("cat /sys/fs/cgroup%s/cpu.stat /sys/fs/cgroup/cpu%s/cpu.stat 2>/dev/null", dir, dir)
				f.Fix = moreQuota(g, quota)
				if g == visibleRoot {
					f.but(0, "Who runs this container has set the limit: it can be raised from outside only.")
				}
			}
		},
	}
}

// moreQuota doubles a cgroup's CPU limit, in the way of whoever manages it. nil when the limit isn't known, or is set outside the
// cgroup namespace.
func moreQuota(g string, quota float64) *Fix {
	if !(quota > 0) || quota > 10000 || g == visibleRoot {
		return nil
	}
	risk := "medium: it takes CPU time from others on this machine"
	base := g[strings.LastIndexByte(g, '/')+1:]
	if strings.HasSuffix(base, ".service") || strings.HasSuffix(base, ".slice") || strings.HasSuffix(base, ".scope") {
		return &Fix{fmt.Sprintf("systemctl set-property --runtime %s CPUQuota=%d%%", shell(base), int(quota*200+0.5)),
			fmt.Sprintf("systemctl set-property --runtime %s CPUQuota=%d%%", shell(base), int(quota*100+0.5)), risk}
	}
	set := func(q float64) string {
		us := int(q*100000 + 0.5)
		return fmt.Sprintf("if [ -e /sys/fs/cgroup%[1]s/cpu.max ]; then echo '%[2]d 100000' > /sys/fs/cgroup%[1]s/cpu.max; else echo %[2]d > /sys/fs/cgroup/cpu%[1]s/cpu.cfs_quota_us; fi", shell(g), us)
	}
	return &Fix{set(2 * quota), set(quota), risk + "; written for a period of 100 ms, a container's manager may set it back"}
}
