package limits

import (
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

func cgroupPids() Kind {
	return Kind{
		id:    "pids",
		used:  Source{query: facts.CgroupPids},
		sizes: []Source{{query: facts.CgroupPidsLimit}},
		owner: []string{"cgroup"},
		culprit: func(r *diagnose.Row) diagnose.Culprit {
			return diagnose.Culprit{Kind: "cgroup", Name: r.Word("cgroup")}
		},
		verify: func(r *diagnose.Row) string {
			return fmt.Sprintf("cd /sys/fs/cgroup && grep -s . ./pids%[1]s/pids.* .%[1]s/pids.*",
				phrase.Shell(r.Word("cgroup")))
		},
		fix: func(r *diagnose.Row, size float64) *diagnose.Fix {
			return morePids(r.Word("cgroup"), size)
		},
		errors: errors{
			counters: []Source{{query: facts.CgroupPidsRefused}},
			failed: func(l *diagnose.Look, owner, call *diagnose.Row) bool {
				if call.Word("error") != "EAGAIN" ||
					!slices.Contains(forks(), call.Word("syscall")) {
					return false
				}
				t := l.Table(facts.ProcessInfo)
				for _, r := range facts.RowsInCgroup(l, t, owner.Word("cgroup")) {
					if r.Word("pid") == call.Word("pid") {
						return true
					}
				}
				return false
			},
		},
		words: words{
			things: "processes and threads",
			amount: phrase.Count,
			next:   "the next process or thread cannot be created (EAGAIN)",
			name:   func(r *diagnose.Row) string { return "Cgroup " + facts.CgroupName(r.Word("cgroup")) },
		},
	}
}

// morePids doubles the limit of processes of a cgroup, with the tool that manages it. nil when it
// is set outside the cgroup namespace.
func morePids(g string, limit float64) *diagnose.Fix {
	if g == facts.VisibleRoot {
		return nil
	}
	risk := "low: a program that never waits for its children reaches the new limit too"
	base := g[strings.LastIndexByte(g, '/')+1:]
	if strings.HasSuffix(base, ".service") || strings.HasSuffix(base, ".slice") ||
		strings.HasSuffix(base, ".scope") {
		set := func(n float64) string {
			return fmt.Sprintf("systemctl set-property --runtime %s TasksMax=%.0f",
				phrase.Shell(base), n)
		}
		return &diagnose.Fix{Command: set(2 * limit), Undo: set(limit), Risk: risk}
	}
	set := func(n float64) string {
		return fmt.Sprintf("for f in /sys/fs/cgroup%[1]s/pids.max /sys/fs/cgroup/pids%[1]s/"+
			"pids.max; do if [ -e $f ]; then echo %.0[2]f > $f; fi; done", phrase.Shell(g), n)
	}
	return &diagnose.Fix{Command: set(2 * limit), Undo: set(limit),
		Risk: risk + "; a container manager may reset it"}
}

// cgroupIO returns the limit of a cgroup's traffic at a disk. Requests wait at the limit.
func cgroupIO() Kind {
	return Kind{
		id:    "io",
		used:  Source{query: facts.CgroupIO},
		sizes: []Source{{query: facts.CgroupIOLimit}},
		limit: func(bits float64) float64 { return bits / 8 },
		owner: []string{"cgroup", "device", "direction"},
		rate:  true,
		culprit: func(r *diagnose.Row) diagnose.Culprit {
			return diagnose.Culprit{Kind: "cgroup", Name: r.Word("cgroup")}
		},
		verify: func(r *diagnose.Row) string {
			return fmt.Sprintf("cd /sys/fs/cgroup && cat .%[1]s/io.max .%[1]s/io.pressure "+
				"./blkio%[1]s/blkio.throttle.*_bps_device 2>/dev/null",
				phrase.Shell(r.Word("cgroup")))
		},
		errors: errors{blocks: true, mild: true,
			failed: func(*diagnose.Look, *diagnose.Row, *diagnose.Row) bool { return false },
			urgent: func(l *diagnose.Look, u *use) bool {
				stalled, _ := ioStall(l, u)
				return stalled >= threshold.IOStallHigh
			}},
		words: words{amount: phrase.BytesRate,
			things: "of traffic", next: "its tasks wait for the limit in place of the disk",
			name: func(r *diagnose.Row) string {
				name := facts.CgroupName(r.Word("cgroup"))
				if r.Word("cgroup") == facts.VisibleRoot { // version 1 limits the machine's too
					name = "/ (the machine's, or the container's own)"
				}
				return fmt.Sprintf("Cgroup %s (%s, %s)", name,
					phrase.Clean(r.Word("device")), phrase.Clean(r.Word("direction")))
			}},
		more: func(l *diagnose.Look, f *diagnose.Finding, u *use) {
			if v, row := ioStall(l, u); v == v {
				f.AddEvidence(row.Table, u.near, row.Query(), v, row.Table.Unit, fmt.Sprintf(
					"some task is stalled on I/O %s of the time (PSI)", phrase.Percent(v)))
				f.SetEffect(v)
			}
		},
	}
}

// cgroupOperations returns the limit of a cgroup's operations per second at a disk. In version 1
// writes of cached data count for no group, so only reads and direct or synchronous writes do.
func cgroupOperations() Kind {
	k := cgroupIO()
	k.id, k.limit = "io-operations", nil
	k.used, k.sizes = Source{query: facts.CgroupOps}, []Source{{query: facts.CgroupOpsLimit}}
	k.words.things = "of operations"
	k.words.amount = func(v float64) string { return phrase.Count(v) + "/s" }
	k.verify = func(r *diagnose.Row) string {
		return fmt.Sprintf("cd /sys/fs/cgroup && cat .%[1]s/io.max .%[1]s/io.pressure "+
			"./blkio%[1]s/blkio.throttle.*_iops_device 2>/dev/null",
			phrase.Shell(r.Word("cgroup")))
	}
	return k
}

// ioStall returns the share of the time in which tasks of a cgroup wait for I/O; of the machine
// when that of the cgroup is unknown, as in version 1.
func ioStall(l *diagnose.Look, u *use) (float64, *diagnose.Row) {
	row := l.Table(facts.CgroupPressure).One("cgroup", u.owner.Word("cgroup"), "resource", "io",
		"scope", "some")
	if v := row.Mean(u.near.Mask); v == v {
		return v, row
	}
	row = l.Table(facts.Pressure).One("resource", "io", "scope", "some")
	return row.Mean(u.near.Mask), row
}
