package rules

import (
	"fmt"
	"slices"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
	"culprit/measure"
)

// severity returns how bad it is. Work that somebody made yield to others is a fact.
func (g *starved) severity(share float64) diagnose.Severity {
	meant := g.mine.Idle || g.mine.Nice > 0
	for _, v := range g.victims {
		task := v.Path[len(v.Path)-1]
		meant = meant || task.Idle || task.Nice > 0
	}
	switch {
	case meant:
		return diagnose.Low
	case share >= threshold.StarvedHigh:
		return diagnose.High
	}
	return diagnose.Medium
}

// starvedUse is the use of the CPUs by the victims and by those that keep them waiting.
type starvedUse struct {
	victims, takers     []facts.Program
	waited, used, taken float64 // tasks, CPUs
	entitled, of        float64 // CPUs of the victims by weight, and of all; NaN: unknown
	query               string  // of the CPU time of the victims
}

func (g *starved) use(l *diagnose.Look, m facts.Machine) (u starvedUse) {
	wait, cpu := l.Table(facts.ProcessWait), l.Table(facts.ProcessCPU)
	var waits, takes []*diagnose.Row
	var pids []string
	parts, sum := g.entitled(m)
	u.of, u.entitled = sum, measure.NaN
	if parts != nil {
		u.entitled = 0
	}
	for _, v := range g.victims {
		waits, pids = append(waits, v.Wait), append(pids, v.PID)
		u.waited, u.used = u.waited+v.Waited, u.used+v.Used
		u.entitled += parts[v.PID]
	}
	for _, o := range g.takers { // those that the text names have one weight
		if _, other, _ := g.victims[0].Against(o); other.ID == g.theirs.ID ||
			other.Task && g.theirs.Task && other.Nice == g.theirs.Nice {
			takes, u.taken = append(takes, o.CPU...), u.taken+o.Used
		}
	}
	u.query = cpu.QueryIn(nil, "pid", pids)
	if len(pids) == 1 {
		u.query = cpu.QueryOf(nil, "pid", pids[0])
	}
	u.victims = facts.Programs(wait, waits, g.s.Mask)
	for _, p := range facts.Programs(cpu, takes, g.s.Mask) {
		if len(u.takers) == 0 || p.Rate >= 0.05*u.taken {
			u.takers = append(u.takers, p)
		}
	}
	return u
}

// gets describes what the victims get: "app gets 0.006 CPUs, and its weight entitles it to 0.004 of
// 2".
func (u starvedUse) gets() string {
	who, its, it := phrase.Clean(u.victims[0].Name)+" gets", "its", "it"
	if len(u.victims) > 1 {
		who, its, it = "those that wait get", "their", "them"
	}
	text := fmt.Sprintf("%s %s CPUs", who, phrase.Digits(u.used))
	if u.entitled == u.entitled {
		text += fmt.Sprintf(", and %s weight entitles %s to %s of %s", its, it,
			phrase.Digits(u.entitled), phrase.Digits(u.of))
	}
	return text
}

// claim states who waits, because of which weight, and who uses the CPUs.
func (g *starved) claim(u starvedUse, share float64) string {
	waits, it, uses := "waits", "it", "uses"
	if len(u.victims) > 1 {
		waits, it = "wait", "they"
	}
	if len(u.takers) > 1 {
		uses = "use"
	}
	cpus := "CPU " + phrase.Clean(g.in[0])
	if len(g.in) > 1 {
		cpus = fmt.Sprintf("%d CPUs", len(g.in))
	}
	return fmt.Sprintf("%s %s for a CPU %s of the time that %s could run, for %s: %s. %s, %s, %s "+
		"%s of %s; %s.", facts.ShortNames(u.victims), waits, phrase.Percent(share), it, g.s, g.mine,
		facts.ShortNames(u.takers), g.theirs.Beside(), uses, phrase.Digits(u.taken), cpus, u.gets())
}

func (g *starved) accuse(l *diagnose.Look, m facts.Machine) {
	wait, cpu, s, u := l.Table(facts.ProcessWait), l.Table(facts.ProcessCPU), g.s, g.use(l, m)
	if len(u.victims) == 0 || len(u.takers) == 0 {
		return
	}
	share := u.waited / (u.waited + u.used)
	culprit, identity := u.victims[0].Culprit(), u.victims[0].Identity()
	if g.mine.File != "" {
		culprit = diagnose.Culprit{Kind: "cgroup", Name: g.mine.ID}
		identity = facts.CgroupIdentity(g.mine.ID)
	}
	f := l.Found(identity, g.severity(share), 0.9, culprit, g.claim(u, share))
	f.SetEffect(share)
	f.Waits = &diagnose.Waits{Share: diagnose.Number(share), Text: fmt.Sprintf(
		"%s waits for a CPU", facts.ShortNames(u.victims))}
	facts.AddWaits(f, wait, s, u.victims)
	f.AddEvidence(cpu, s, u.query, u.used, cpu.Unit, u.gets())
	if u.entitled == u.entitled {
		f.Evidence[len(f.Evidence)-1].CompareTo(u.entitled, "their part by weight")
	}
	g.addWeight(l, f)
	for _, p := range u.takers[:min(len(u.takers), 3)] {
		f.AddEvidence(cpu, s, p.Query(cpu), p.Rate, cpu.Unit, fmt.Sprintf("%s uses %s CPUs", p,
			phrase.Digits(p.Rate)))
	}
	g.addPressure(l, f)
	g.addAdvice(f, u)
	everybody := wait.Mean(wait.Sum(wait.Rows), s.Mask)
	f.Subject = facts.Starvation{Most: u.waited >= threshold.StarvedMost*everybody}
	worse := func(o *diagnose.Finding) bool { return o.Severity.Weight() > f.Severity.Weight() }
	f.Cover("cpu-one-saturated", func(o *diagnose.Finding) bool {
		return !worse(o) && (has(u.takers, o) || has(u.victims, o) ||
			o.Culprit.Kind == "cpu" && slices.Contains(g.in, o.Culprit.Name))
	})
	f.Cover("cpus-confined", func(o *diagnose.Finding) bool {
		return !worse(o) && has(u.victims, o)
	})
}

// has reports whether a finding is about one of some programs.
func has(programs []facts.Program, o *diagnose.Finding) bool {
	return slices.ContainsFunc(programs, func(p facts.Program) bool {
		return o.Culprit.Kind == "process" && o.Culprit.Name == p.Name
	})
}

// addWeight adds the weights as evidence.
func (g *starved) addWeight(l *diagnose.Look, f *diagnose.Finding) {
	t, query, value := l.Table(facts.ProcessWeights), "", g.mine.Value
	other := g.theirs.Value
	switch {
	case g.mine.File != "":
		t = l.Table(facts.CgroupWeights)
		query, value = t.QueryOf(nil, "cgroup", g.mine.ID), g.mine.Raw
		if g.theirs.File != "" {
			other = g.theirs.Raw
		}
	default:
		query = t.QueryOf(nil, "pid", g.victims[0].PID)
	}
	f.AddEvidence(t, g.s, query, value, t.Unit, g.mine.String()).CompareTo(other,
		"weight of the others")
}

// addPressure adds how long the tasks of the group wait, where the kernel counts that.
func (g *starved) addPressure(l *diagnose.Look, f *diagnose.Finding) {
	t := l.Table(facts.CgroupPressure)
	r := t.One("cgroup", g.mine.ID, "resource", "cpu", "scope", "some")
	if v := r.Part(g.s.Mask); g.mine.File != "" && v == v {
		f.AddEvidence(t, g.s, r.Query(), v, t.Unit, fmt.Sprintf("some task of %s waits for a CPU "+
			"%s of the time (PSI)", facts.CgroupName(g.mine.ID), phrase.Percent(v)))
	}
}

// addAdvice adds what to check and to change.
func (g *starved) addAdvice(f *diagnose.Finding, u starvedUse) {
	pid, taker := u.victims[0].PID(), u.takers[0].PID()
	f.Verify = fmt.Sprintf("for p in %d %d; do ps -o ni,cls,pid,comm -p $p; cat /proc/$p/cgroup "+
		"/proc/$p/autogroup; done; cat /proc/%d/schedstat; sleep 5; cat /proc/%d/schedstat", pid,
		taker, pid, pid)
	risk := "low: it takes CPU time from the others; it may have little weight on purpose"
	renice := func(nice, pid int) string {
		return fmt.Sprintf("renice -n %d -p $(ls /proc/%d/task)", nice, pid)
	}
	switch {
	case g.mine.File != "":
		g.addGroupAdvice(f, risk)
	case g.mine.Task && g.mine.Idle:
		f.Fix = &diagnose.Fix{Command: fmt.Sprintf("chrt -a --other -p 0 %d", pid),
			Undo: fmt.Sprintf("chrt -a --idle -p 0 %d", pid), Risk: risk}
	case g.mine.Task && g.mine.Nice > 0:
		f.Fix = &diagnose.Fix{Command: renice(max(g.theirs.Nice, 0), pid),
			Undo: renice(g.mine.Nice, pid), Risk: risk}
	case g.theirs.Task && g.theirs.Nice < 0:
		f.Fix = &diagnose.Fix{Command: renice(0, taker), Undo: renice(g.theirs.Nice, taker),
			Risk: "low: it gets less CPU time; it may have precedence on purpose"}
	case strings.HasPrefix(g.mine.ID, "autogroup") && g.mine.Nice > 0:
		set := func(nice int) string {
			return fmt.Sprintf("echo %d > /proc/%d/autogroup", nice, pid)
		}
		f.Fix = &diagnose.Fix{Command: set(0), Undo: set(g.mine.Nice), Risk: risk}
	}
}

// addGroupAdvice proposes to raise the weight of a control group to that of the others.
func (g *starved) addGroupAdvice(f *diagnose.Finding, risk string) {
	f.AddCaveat(0, "A low weight may be meant: for work that yields to all others, and for pods "+
		"without a CPU request.")
	f.Verify += fmt.Sprintf("; grep . /sys/fs/cgroup{,/cpu}%s/cpu.{weight,shares,idle}",
		phrase.Shell(g.mine.ID))
	f.Fix = facts.RaiseGroup(g.mine, g.theirs, risk)
}
