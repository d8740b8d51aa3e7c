package cgroup

import (
	"math"
	"strings"

	"culprit/collect"
	"culprit/collect/procfs"
	"culprit/kernel"
	"culprit/kernel/proc"
	"culprit/measure"
)

// cgroupTop describes the visible root of a hierarchy: the whole machine, or one group.
type cgroupTop struct {
	group      bool
	controller string // "v2", or the controllers of version 1: "cpu,cpuacct"
}

func cgroupTopStat() measure.Stat {
	word := func(name, help string) measure.Field {
		return measure.Field{Name: name, Type: measure.Word, Help: help}
	}
	return measure.Stat{
		ID:   "cgroup.top",
		Kind: measure.Level,
		Unit: measure.Count,
		Fold: measure.Max,
		Help: `1 for each hierarchy: what the group "/" is`,
		Fields: []measure.Field{word("kind", "machine: the true top of the hierarchy, without "+
			"limits; group: the top of a cgroup namespace or of a container's mount, a group "+
			"with its own limits and events"),
			word("controllers", "v2, or those of a version 1 hierarchy, separated by commas")},
	}
}

// topOf finds out whether the top of a mounted hierarchy is a group. In version 1 only the true top
// has the file release_agent (CFTYPE_ONLY_ON_ROOT). In version 2 only the true top lacks
// cgroup.events (CFTYPE_NOT_ON_ROOT). If only a part of the hierarchy is mounted, mountinfo names
// it.
func topOf(root kernel.Root, m *procfs.Mount, t *cgroupTree) cgroupTop {
	top := cgroupTop{controller: "v2"}
	if t.v2 {
		top.group = m.Root != "/" || canOpen(root, m.Path+"/cgroup.events")
		return top
	}
	top.controller = controllersIn(m.Options)
	top.group = m.Root != "/" ||
		!canOpen(root, m.Path+"/release_agent") && !canOpen(root, m.Path+"/cgroup.sane_behavior")
	return top
}

func canOpen(root kernel.Root, path string) bool {
	f, err := proc.Open(path)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// controllersIn returns the controllers among the options of a version 1 mount: "cpu,cpuacct" of
// "rw,cpu,cpuacct".
func controllersIn(options string) string {
	var names []string
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "cpu", "cpuacct", "memory", "blkio", "pids":
			names = append(names, o)
		}
	}
	return strings.Join(names, ",")
}

func (top *cgroupTop) put(out *collect.Out) {
	kind := "machine"
	if top.group {
		kind = "group"
	}
	out.Table("cgroup.top").Row(1, kind, top.controller)
}

// topLimit returns the memory limit of the top in bytes, NaN if there is none. A group above, which
// is not visible, may have a lower limit. Version 1 shows the least of them in memory.stat
// (hierarchical_memory_limit).
func (n *cgroupNode) topLimit() float64 {
	own := n.levels[clLimit]
	if math.IsNaN(own) || n.outer < own {
		return n.outer
	}
	return own
}
