package limits

import (
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// Queries returns the optional queries of all kinds of limits, each once, without
// facts.FilesystemSize.
func Queries() []string {
	all := []string{facts.FilesystemAccess, facts.ProcessInfo, facts.ProcessIO,
		facts.PortsWaiting, facts.CgroupPressure, facts.Pressure}
	for _, k := range Kinds() {
		for _, q := range k.queries() {
			if q != "" && q != facts.FilesystemSize && !slices.Contains(all, q) {
				all = append(all, q)
			}
		}
	}
	return all
}

// Check reports the limits that are reached, or will be soon.
func Check(l *diagnose.Look) {
	for _, k := range Kinds() {
		checkKind(l, k)
	}
	readOnlyFilesystems(l)
}

// checkKind evaluates each owner of a kind of limit, and reports the worst.
func checkKind(l *diagnose.Look, k Kind) {
	t := l.Table(k.used.query)
	if !t.Have() {
		if k.used.query == facts.Descriptors {
			l.Skipped("%s: %s", k.words.things, t.Why)
		}
		return
	}
	worst := map[string]*use{} // by finding: processes of one name are one finding
	for _, r := range t.Where(k.used.terms...) {
		if k.nameless(r) || k.skips != nil && k.skips(l, r) {
			continue
		}
		u, ok := useOf(l, k, r)
		if !ok || u.severity() == "" {
			continue
		}
		id := k.identity(r)
		if o := worst[id]; o == nil || u.worse(o) {
			worst[id] = u
		}
	}
	var all []*use
	for _, u := range worst {
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b *use) int {
		switch {
		case a.worse(b):
			return -1
		case b.worse(a):
			return 1
		}
		return strings.Compare(k.identity(a.owner), k.identity(b.owner))
	})
	for i, u := range all {
		if i < threshold.LimitMost {
			u.accuse(l)
		}
	}
}

// nameless reports whether a part of the owner's name is missing.
func (k Kind) nameless(r *diagnose.Row) bool {
	for _, f := range k.owner {
		if f != "netns" && r.Word(f) == "" && !k.machine {
			return true
		}
	}
	return false
}

// identity returns the part of an owner in the ID of a finding. Pids change with each start, so
// that processes are identified by name.
func (k Kind) identity(owner *diagnose.Row) string {
	c := k.culprit(owner)
	if k.machine && c.Kind == "host" {
		return phrase.Identity(c.NetNS, k.id)
	}
	return k.id + ":" + phrase.Identity(c.NetNS, strings.TrimPrefix(c.Name, "/"))
}

// worse orders uses: more severe first, then more refusals, then the larger share.
func (u *use) worse(o *use) bool {
	rank := map[diagnose.Severity]int{diagnose.High: 3, diagnose.Medium: 2, diagnose.Low: 1}
	switch a, b := rank[u.severity()], rank[o.severity()]; {
	case a != b:
		return a > b
	case u.refused != o.refused:
		return u.refused > o.refused
	}
	return u.used/u.size > o.used/o.size
}
