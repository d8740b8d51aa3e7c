package diagnose

import "strings"

// visibleRoot is the path of the topmost control group that can be seen: the machine's own, or inside
// a cgroup namespace that of the container. Only the latter has limits and events of its own.
const visibleRoot = "/"

// cgroupName returns how a finding names a control group.
func cgroupName(g string) string {
	if g == visibleRoot {
		return "/ (the container's own, seen from inside)"
	}
	return clean(g)
}

// cgroupIdentity returns a control group's part of a finding's id; "" for the visible root.
func cgroupIdentity(g string) string { return strings.TrimPrefix(clean(g), "/") }

// below reports whether control group g is o or lies in it.
func below(g, o string) bool {
	return g == o || o == visibleRoot || strings.HasPrefix(g, o+"/")
}

// memberOf reports whether a process with this word in the field cgroup is in group g. Under cgroup
// v1 the word may list one path for each controller.
func memberOf(word, g string) bool {
	return word != "" && below(word, g) || cgroupListed(word, g)
}

// cgroupListed says whether a process's cgroup word, which under cgroup v1 may list one path for each controller, has g.
func cgroupListed(word, g string) bool {
	for _, w := range strings.FieldsFunc(word, func(r rune) bool { return r == ',' || r == ' ' || r == ';' }) {
		if i := strings.IndexByte(w, '/'); i >= 0 && below(w[i:], g) {
			return true
		}
	}
	return false
}

// rowsOf returns the rows of a table with the field pid whose processes are in a control group or
// below it.
func rowsOf(l *Look, t *Table, g string) []*Row {
	in := map[string]bool{}
	for _, r := range l.Table(processInfo).Rows {
		if memberOf(r.Word("cgroup"), g) {
			in[r.Word("pid")] = true
		}
	}
	var rows []*Row
	for _, r := range t.Rows {
		if in[r.Word("pid")] {
			rows = append(rows, r)
		}
	}
	return rows
}

// programsOf names up to three programs of rows with the fields pid and process, largest first; ""
// when there is none.
func programsOf(t *Table, rows []*Row, mask []bool) string {
	var names []string
	for i, a := range actors(t, rows, mask) {
		if i < 3 {
			names = append(names, a.String())
		}
	}
	return list(names)
}

// processesIn names up to three programs of a control group, those with most memory first; "" when
// none is known.
func processesIn(l *Look, g string, mask []bool) string {
	rss := l.Table(processRSS)
	return programsOf(rss, rowsOf(l, rss, g), mask)
}

// busyIn names up to three programs of a control group, those with most CPU time first; "" when none
// is known.
func busyIn(l *Look, g string, mask []bool) string {
	cpu := l.Table(processCPU)
	if names := programsOf(cpu, rowsOf(l, cpu, g), mask); names != "" {
		return names
	}
	return processesIn(l, g, mask)
}
