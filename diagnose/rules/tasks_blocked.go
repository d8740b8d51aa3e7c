package rules

import (
	"fmt"
	"sort"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// tasksBlocked finds threads that are in uninterruptible sleep (state D) for whole seconds, and
// what they wait for. Requests to a disk, even a slow one, are shorter.
func tasksBlocked() diagnose.Rule {
	return diagnose.Rule{
		ID: "tasks-blocked", Checks: "blocked tasks",
		Finds: []string{facts.ProcessBlocked},
		Uses:  []string{facts.DiskBusy},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.ProcessBlocked)
			for _, g := range blockedGroups(t.Rows) {
				if g.kind == facts.OnFreezer {
					continue // somebody paused them on purpose
				}
				number := make([]float64, len(t.Seconds))
				for _, r := range g.rows {
					for c := range number {
						number[c] += series.Or(r.At(c), 0)
					}
				}
				s, ok := diagnose.Lasting(t, nil, func(c int) bool { return number[c] >= 1 })
				if ok {
					accuseBlocked(l, g, number, s)
				}
			}
		},
	}
}

// A blockedGroup is the threads that wait for the same.
type blockedGroup struct {
	kind                facts.BlockedOn
	mount, fstype, from string // of the file system; "": not known
	function            string // the kernel function, "": not known
	rows                []*diagnose.Row
}

// blockedGroups groups rows by the kind of wait and the file system; other waits by the kernel
// function. The largest group is first. Threads whose file system is not known belong to the group
// of their kind, if it has only one.
func blockedGroups(rows []*diagnose.Row) []*blockedGroup {
	type key struct {
		kind facts.BlockedOn
		what string
	}
	at := map[key]*blockedGroup{}
	perKind := map[facts.BlockedOn][]*blockedGroup{}
	var all []*blockedGroup
	var unplaced []*diagnose.Row
	add := func(r *diagnose.Row, k key) {
		g := at[k]
		if g == nil {
			g = &blockedGroup{kind: k.kind, function: blockedIn(r)}
			if k.what != "" && k.kind != facts.OnOther {
				g.mount, g.fstype, g.from = r.Word("mount"), r.Word("type"), r.Word("source")
			}
			at[k] = g
			all = append(all, g)
			perKind[k.kind] = append(perKind[k.kind], g)
		}
		g.rows = append(g.rows, r)
	}
	for _, r := range rows {
		kind := blockedKind(r)
		switch {
		case kind == facts.OnOther:
			add(r, key{kind, blockedIn(r)})
		case r.Word("mount") == "":
			unplaced = append(unplaced, r)
		default:
			add(r, key{kind, r.Word("mount")})
		}
	}
	for _, r := range unplaced {
		kind := blockedKind(r)
		if groups := perKind[kind]; len(groups) == 1 {
			groups[0].rows = append(groups[0].rows, r)
			continue
		}
		add(r, key{kind, ""})
	}
	sort.SliceStable(all, func(i, j int) bool { return len(all[i].rows) > len(all[j].rows) })
	return all
}

func blockedKind(r *diagnose.Row) facts.BlockedOn {
	return facts.BlockedKind(r.Word("wchan"), r.Word("caller"), r.Word("mount"), r.Word("type"))
}

// blockedIn returns the kernel function in which threads wait; "" when it is not known.
func blockedIn(r *diagnose.Row) string {
	if f := r.Word("caller"); f != "" {
		return f
	}
	return r.Word("wchan")
}

// what returns what the threads wait for, as the end of a sentence.
func (g *blockedGroup) what() string {
	of := ""
	if g.mount != "" {
		of = fmt.Sprintf(" %s (%s on %s)", phrase.Clean(g.mount), phrase.Clean(g.fstype),
			phrase.Clean(g.from))
	}
	switch g.kind {
	case facts.OnFrozen:
		return "to write to the frozen file system" + orUnknown(of)
	case facts.OnServer:
		return "for the server of file system" + orUnknown(of)
	case facts.OnDaemon:
		return "for the process that serves file system" + orUnknown(of)
	case facts.OnMemory:
		return "for memory that the kernel reclaims"
	case facts.OnJournal:
		return "for the journal of file system" + orUnknown(of)
	case facts.OnWriteback:
		return "until dirty pages are written to file system" + orUnknown(of)
	case facts.OnDisk:
		return "for I/O of file system" + orUnknown(of)
	case facts.OnChild:
		return "for children that have neither started a program nor ended (vfork)"
	case facts.OnMap:
		return "for the lock of their own memory map"
	}
	if g.function == "" {
		return "in the kernel; root can see for what"
	}
	return "in kernel function " + phrase.Clean(g.function)
}

func orUnknown(of string) string {
	if of == "" {
		return " (which one is not known)"
	}
	return of
}

// severity returns the severity, by the number of threads that wait. One thread may wait for a long
// sync; nobody can use a file system that does not answer.
func (g *blockedGroup) severity(threads float64) diagnose.Severity {
	many := threads >= threshold.BlockedMany
	switch {
	case g.kind.IsFilesystem() && many:
		return diagnose.High
	case g.kind.IsFilesystem(), many, g.kind == facts.OnMap, g.kind == facts.OnMemory:
		return diagnose.Medium
	}
	return diagnose.Low
}

// culprit returns what holds the threads up, and the identity of the finding.
func (g *blockedGroup) culprit(first facts.Program) (diagnose.Culprit, string) {
	identity := string(g.kind)
	switch {
	case g.mount != "":
		return diagnose.Culprit{Kind: "filesystem", Name: g.mount},
			identity + ":" + phrase.Clean(g.mount)
	case g.kind == facts.OnOther && g.function != "":
		return diagnose.Culprit{Kind: "function", Name: g.function},
			identity + ":" + phrase.Clean(g.function)
	case g.kind.IsFilesystem() || g.kind.OnDevice() || g.kind == facts.OnMemory:
		return diagnose.Culprit{Kind: "host", Name: identity}, identity
	}
	return first.Culprit(), identity + ":" + first.Identity()
}

func accuseBlocked(l *diagnose.Look, g *blockedGroup, number []float64, s diagnose.Period) {
	t := l.Table(facts.ProcessBlocked)
	programs := facts.Programs(t, g.rows, s.Mask)
	threads := t.Mean(number, s.Mask)
	culprit, identity := g.culprit(programs[0])
	subject, verb := phrase.Plural(int(threads+0.5), "thread", "threads"), "wait"
	if int(threads+0.5) == 1 {
		verb = "waits"
	}
	f := l.Found(identity, g.severity(threads), 0.9, culprit, fmt.Sprintf(
		"%s of %s %s %s for %s, each for more than a second.", subject, facts.ShortNames(programs),
		verb, g.what(), s))
	f.Subject = g.kind
	f.SetEffect(s.Share())
	for i, p := range programs {
		if i == mostBlocked {
			break
		}
		in := ""
		if name := blockedIn(p.Rows[0]); name != "" {
			in = ", in kernel function " + phrase.Clean(name)
		}
		f.AddEvidence(t, s, p.Query(t), p.Rate, t.Unit, fmt.Sprintf(
			"%s of %s did not run for whole seconds, in state D%s",
			phrase.Plural(int(p.Rate+0.5), "thread", "threads"), p, in))
	}
	g.explain(l, f, s)
	pid := programs[0].PID()
	f.Verify = fmt.Sprintf("ps -eLo state,wchan:32,pid,comm | grep ^D; cat /proc/%d/stack", pid)
}

// mostBlocked is the number of programs that a finding lists.
const mostBlocked = 3

// explain adds caveats, the fix and the findings that have the same cause.
func (g *blockedGroup) explain(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period) {
	if g.kind.IsFilesystem() {
		f.Cover("io-stalled", func(o *diagnose.Finding) bool { return o.Culprit.Kind == "host" })
	}
	switch {
	case g.kind == facts.OnFrozen:
		f.AddCaveat(0.05, "A snapshot or backup freezes a file system for some seconds.")
		if g.mount != "" {
			f.Fix = &diagnose.Fix{Command: "fsfreeze --unfreeze " + phrase.Shell(g.mount),
				Undo: "fsfreeze --freeze " + phrase.Shell(g.mount),
				Risk: "medium: a snapshot that is being taken becomes inconsistent"}
		}
	case g.kind.OnDevice():
		f.AddCaveat(0, "One sync, discard or large write may take this long.")
		busy := l.Table(facts.DiskBusy)
		var top *diagnose.Row
		for _, r := range busy.Rows {
			if v := r.Mean(s.Mask); v == v && !(v <= top.Mean(s.Mask)) {
				top = r
			}
		}
		if top != nil {
			v := min(top.Mean(s.Mask), 1)
			f.AddEvidence(busy, s, top.Query(), v, busy.Unit, fmt.Sprintf(
				"%s, the busiest disk, is busy %s of the time", phrase.Clean(top.Word("device")),
				phrase.Percent(v)))
		}
	case g.kind == facts.OnOther:
		f.AddCaveat(0.2, "Whether users of the program wait is not known.")
	case g.kind == facts.OnChild:
		f.AddCaveat(0.1, "The children, not the parents, do something that takes long: see "+
			"their state.")
	}
}
