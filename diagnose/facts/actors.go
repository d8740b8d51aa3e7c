package facts

import (
	"slices"
	"strings"

	"culprit/container"
	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// processFacts are what process.info has about a process.
type processFacts struct {
	name, cgroup, script string
	interpreted          bool // its name or its command line is that of an interpreter
}

// GroupOf returns the unit or container of a control group, as in a sentence: "unit
// backup.service", "container docker:3f2a1b4c5d6e". "" for the root, for slices, and for sessions
// of users, in which unrelated programs run.
func GroupOf(cgroup string) string {
	if cgroup == "" || cgroup == VisibleRoot || !strings.HasPrefix(cgroup, "/") {
		return ""
	}
	n := container.Parse(cgroup)
	unit := n.Unit
	for _, session := range []string{"session-", "user@", "init.scope"} {
		if strings.HasPrefix(unit, session) {
			unit = ""
		}
	}
	switch c := n.Container(); {
	case c != "" && unit != "":
		return "unit " + phrase.Clean(unit) + " in container " + phrase.Clean(c)
	case c != "":
		return "container " + phrase.Clean(c)
	case unit != "":
		return "unit " + phrase.Clean(unit)
	case n.Unit != "" || strings.HasSuffix(cgroup, ".slice"):
		return ""
	}
	return "cgroup " + phrase.Clean(cgroup)
}

// describe returns what process.info has about the processes of rows, by the word of the pid. A
// group in which most processes of the machine run distinguishes none of them and is left out.
func describe(l *diagnose.Look, rows []*diagnose.Row) map[string]processFacts {
	info := l.Table(ProcessInfo)
	members, all := map[string]int{}, 0
	for _, r := range info.Rows {
		if r.Word("command") != "" { // no kernel thread
			members[r.Word("cgroup")]++
			all++
		}
	}
	out := map[string]processFacts{}
	for _, r := range rows {
		pid := r.Word("pid")
		if _, done := out[pid]; done {
			continue
		}
		f := processFacts{name: r.Word("process")}
		_, f.interpreted = interpreterOf(f.name)
		for _, i := range info.Where("pid", pid) {
			if i.Last() != i.Last() {
				continue
			}
			command := i.Word("command")
			program, _, _ := strings.Cut(command, " ")
			_, runs := interpreterOf(program[strings.LastIndexByte(program, '/')+1:])
			f.interpreted = f.interpreted || runs
			if f.script = ScriptOf(command); strings.HasPrefix(f.script, f.name) {
				f.script = "" // the kernel names a process after its script
			}
			if g := i.Word("cgroup"); all < threshold.GroupLeast ||
				float64(members[g]) <= threshold.GroupMost*float64(all) {
				f.cgroup = g
			}
		}
		out[pid] = f
	}
	return out
}

// actorKey identifies an actor: processes that belong together.
type actorKey struct{ name, script, cgroup string }

// Actors groups rows with the fields pid and process as Programs does, and in addition
//
//   - interpreters (python3, java, sh) by their script and their unit, container or control group:
//     two programs that python3 runs are not one;
//   - all programs of a unit, container or control group as one, when none of them has most of what
//     they take together: tar and gzip of backup.service.
//
// Each process belongs to one actor.
func Actors(l *diagnose.Look, t *diagnose.Table, rows []*diagnose.Row, mask []bool) []Program {
	return ActorsIn(l, t, rows, mask, "")
}

// ActorsIn is Actors of rows of one control group, which is no actor itself.
func ActorsIn(l *diagnose.Look, t *diagnose.Table, rows []*diagnose.Row, mask []bool,
	cgroup string) []Program {
	about := describe(l, rows)
	groups, byKey := map[actorKey][]*diagnose.Row{}, map[actorKey]float64{}
	inGroup, largest := map[string]float64{}, map[string]float64{}
	total := 0.0
	keyOf := func(r *diagnose.Row) actorKey {
		f := about[r.Word("pid")]
		k := actorKey{name: r.Word("process")}
		if f.interpreted {
			k.script, k.cgroup = f.script, f.cgroup
		}
		return k
	}
	for _, r := range rows {
		rate := r.Part(mask)
		if !(rate > 0) {
			continue
		}
		byKey[keyOf(r)] += rate
		inGroup[about[r.Word("pid")].cgroup] += rate
		total += rate
	}
	for _, r := range rows {
		if g := about[r.Word("pid")].cgroup; r.Part(mask) > 0 {
			largest[g] = max(largest[g], byKey[keyOf(r)])
		}
	}
	whole := func(g string) bool {
		return g != cgroup && GroupOf(g) != "" && inGroup[g] >= threshold.GroupTimes*largest[g] &&
			inGroup[g] >= threshold.GroupShare*total
	}
	var order []actorKey
	for _, r := range rows {
		k, g := keyOf(r), about[r.Word("pid")].cgroup
		if whole(g) {
			k = actorKey{cgroup: g, script: "\x00"}
		}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], r)
	}
	var out []Program
	for _, k := range order {
		all := Programs(t, groups[k], mask)
		if len(all) == 0 {
			continue
		}
		a := all[0]
		a.actor = &actor{script: k.script}
		if k.script == "\x00" {
			a = joined(t, all, k.cgroup)
			a.actor.members = labels(about, groups[k], mask)
		} else if g := commonGroup(about, a); g != "" && (k.cgroup != "" || isContainer(g)) {
			a.actor.cgroup = g
		}
		a.actor.split = k.name == "" || k.script != "" || k.cgroup != ""
		out = append(out, a)
	}
	sortPrograms(out)
	return out
}

func isContainer(cgroup string) bool { return container.Parse(cgroup).Container() != "" }

// commonGroup returns the control group in which all processes of a program are; "" when there are
// several, or it is not known.
func commonGroup(about map[string]processFacts, a Program) string {
	g := about[PIDWord(a.PID())].cgroup
	for _, pid := range a.pids {
		if about[PIDWord(pid)].cgroup != g {
			return ""
		}
	}
	return g
}

// actor is what distinguishes an actor from other processes with the same name.
type actor struct {
	script  string   // that its interpreter runs; "" unknown
	cgroup  string   // that all of it is in; "" several
	members []string // names of the programs, largest first, of a whole group
	split   bool     // other processes may have the same name
}

// joined returns all programs of a control group as one actor; all are its programs, largest first.
func joined(t *diagnose.Table, all []Program, cgroup string) Program {
	a := Program{Name: all[0].Name, First: all[0].First, actor: &actor{cgroup: cgroup}}
	type one struct {
		pid  int
		rate float64
	}
	var pids []one
	for _, p := range all {
		a.Rate += p.Rate
		a.Rows = append(a.Rows, p.Rows...)
		for _, pid := range p.pids {
			pids = append(pids, one{pid, p.Rate})
		}
	}
	slices.SortStableFunc(pids, func(a, b one) int {
		switch {
		case a.rate > b.rate:
			return -1
		case a.rate < b.rate:
			return 1
		}
		return 0
	})
	for _, p := range pids {
		a.pids = append(a.pids, p.pid)
	}
	a.Series = t.Sum(a.Rows)
	return a
}

// labels returns the scripts and programs of rows, those that take most first, at most mostNames.
func labels(about map[string]processFacts, rows []*diagnose.Row, mask []bool) (names []string) {
	rates := map[string]float64{}
	for _, r := range rows {
		label := r.Word("process")
		if script := about[r.Word("pid")].script; script != "" {
			label = script
		}
		if rate := r.Part(mask); rate > 0 {
			rates[label] += rate
		}
	}
	for len(rates) > 0 && len(names) < mostNames {
		label := Largest(rates)
		names = append(names, label)
		delete(rates, label)
	}
	return names
}

// title returns an actor without its process IDs, and the group to name behind them.
func (a Program) title() (title, group string) {
	name := phrase.Clean(a.Name)
	if a.actor == nil {
		return name, ""
	}
	group = GroupOf(a.actor.cgroup)
	switch {
	case len(a.actor.members) > 0:
		var names []string
		for _, n := range a.actor.members {
			names = append(names, phrase.Clean(n))
		}
		return group + " (" + strings.Join(names, ", ") + ")", ""
	case a.actor.script != "":
		name = phrase.Clean(a.actor.script) + " (" + name + ")"
	}
	return name, group
}

// Group returns the unit, container or control group that all processes of an actor are in; ""
// when there is none, or several.
func (a Program) Group() string {
	if a.actor == nil {
		return ""
	}
	return GroupOf(a.actor.cgroup)
}
