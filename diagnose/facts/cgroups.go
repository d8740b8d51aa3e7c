package facts

import (
	"strings"

	"culprit/container"
	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

// VisibleRoot is the path of the topmost visible control group: that of the machine, or in a cgroup
// namespace that of the container. Only the latter has limits and events.
const VisibleRoot = "/"

// CgroupName returns the name of a control group in a finding: its path, and before it the
// container that it belongs to: "pod:5c8b1e9a/containerd:3f2a1b4c5d6e (/kubepods/...)".
func CgroupName(g string) string {
	if g == VisibleRoot {
		return "/ (the container's own, seen from inside)"
	}
	if c := container.Parse(g).Container(); c != "" {
		return phrase.Clean(c) + " (" + phrase.Clean(g) + ")"
	}
	return phrase.Clean(g)
}

// CgroupIdentity returns the part of a control group in the ID of a finding; "" for the visible
// root.
func CgroupIdentity(g string) string { return strings.TrimPrefix(phrase.Clean(g), "/") }

// Below reports whether control group g is o or lies in it.
func Below(g, o string) bool {
	return g == o || o == VisibleRoot || strings.HasPrefix(g, o+"/")
}

// memberOf reports whether a process with this word in the field cgroup is in group g. Under cgroup
// v1 the word may list one path for each controller.
func memberOf(word, g string) bool {
	return word != "" && Below(word, g) || cgroupListed(word, g)
}

// cgroupListed reports whether a process with this word in the field cgroup is in group g under
// cgroup v1, where the word may list one path per controller.
func cgroupListed(word, g string) bool {
	for _, w := range strings.FieldsFunc(word, func(r rune) bool {
		return r == ',' || r == ' ' || r == ';'
	}) {
		if i := strings.IndexByte(w, '/'); i >= 0 && Below(w[i:], g) {
			return true
		}
	}
	return false
}

// RowsInCgroup returns the rows of a table with the field pid whose processes are in a control
// group or below it.
func RowsInCgroup(l *diagnose.Look, t *diagnose.Table, g string) []*diagnose.Row {
	in := map[string]bool{}
	for _, r := range l.Table(ProcessInfo).Rows {
		if memberOf(r.Word("cgroup"), g) {
			in[r.Word("pid")] = true
		}
	}
	var rows []*diagnose.Row
	for _, r := range t.Rows {
		if in[r.Word("pid")] {
			rows = append(rows, r)
		}
	}
	return rows
}

// ProgramNames returns up to three programs of rows with the fields pid and process, largest first;
// "" when there is none.
func ProgramNames(t *diagnose.Table, rows []*diagnose.Row, mask []bool) string {
	var names []string
	for i, a := range Programs(t, rows, mask) {
		if i < 3 {
			names = append(names, a.String())
		}
	}
	return phrase.List(names)
}

// LargestIn returns up to three programs of a control group, those with most memory first; "" when
// none is known.
func LargestIn(l *diagnose.Look, g string, mask []bool) string {
	rss := l.Table(ProcessRSS)
	return ProgramNames(rss, RowsInCgroup(l, rss, g), mask)
}

// BusiestIn returns up to three programs of a control group, those with most CPU time first; ""
// when none is known.
func BusiestIn(l *diagnose.Look, g string, mask []bool) string {
	cpu := l.Table(ProcessCPU)
	if names := ProgramNames(cpu, RowsInCgroup(l, cpu, g), mask); names != "" {
		return names
	}
	return LargestIn(l, g, mask)
}

// TableName returns the name of a kernel table: "tcp-established in namespace box".
func TableName(r *diagnose.Row) string {
	return phrase.DeviceName(r.Word("netns"),
		r.Word("cache"))
}

// CgroupDepth returns the number of levels of a control group below the visible root.
func CgroupDepth(name string) int {
	if name == VisibleRoot {
		return 0
	}
	return strings.Count(name, "/")
}
