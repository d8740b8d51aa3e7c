package rules

import (
	"fmt"
	"math"
	"strconv"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// zombiesPileUp finds programs that do not wait for their children: each ended child keeps its
// process ID until its parent asks for its status.
func zombiesPileUp() diagnose.Rule {
	return diagnose.Rule{
		ID: "zombies", Checks: "ended processes that nobody waits for",
		Finds: []string{facts.Zombies},
		Uses: []string{facts.ProcessInfo, facts.LimitUsed, facts.LimitSize, facts.CgroupPids,
			facts.CgroupPidsLimit},
		Check: func(l *diagnose.Look) {
			t := l.Table(facts.Zombies)
			for _, p := range facts.Programs(t, t.Rows, nil) {
				z := zombiesOf(t, p)
				if z.held < threshold.ZombieLeast {
					continue
				}
				z.findLimit(l)
				if severity := z.severity(); severity != "" {
					z.accuse(l, severity)
				}
			}
		},
	}
}

// zombiePile is the zombies of one program. Programs that wait for their children late have some
// zombies at any moment; held is the number that they do not fall below.
type zombiePile struct {
	parent facts.Program
	held   float64 // least number in the latest half of the time
	rate   float64 // growth of held per second; 0: it does not grow

	used, size *diagnose.Row // of the limit that is reached first; nil: none is known
	cgroup     string        // whose limit it is; "": of the machine
	left       float64       // seconds until then; +Inf: it does not grow
}

// zombiesOf compares the least numbers of both halves of the time: the number at a moment contains
// children that the parent is about to wait for.
func zombiesOf(t *diagnose.Table, p facts.Program) zombiePile {
	half := len(p.Series) / 2
	least := func(from, to int) float64 {
		low := math.Inf(1)
		for c := from; c < to; c++ {
			if t.Seconds[c] > 0 {
				low = min(low, series.Or(p.Series[c], 0))
			}
		}
		return low
	}
	before, after, seconds := least(0, half), least(half, len(p.Series)), 0.0
	for _, s := range t.Seconds[:half] {
		seconds += s
	}
	z := zombiePile{parent: p, left: math.Inf(1)}
	if !math.IsInf(after, 1) {
		z.held = after
	}
	if half >= threshold.LeastCells && after > before && seconds > 0 {
		z.rate = (after - before) / seconds
	}
	return z
}

// findLimit finds the limit of process IDs that is reached first: of the machine, or of a control
// group of the parent.
func (z *zombiePile) findLimit(l *diagnose.Look) {
	consider := func(used, size *diagnose.Row, cgroup string) {
		free := size.Last() - used.Last()
		if !(free >= 0) || z.size != nil && free >= z.size.Last()-z.used.Last() {
			return
		}
		z.used, z.size, z.cgroup = used, size, cgroup
		if z.rate > 0 {
			z.left = free / z.rate
		}
	}
	for _, resource := range []string{"pids", "threads"} {
		consider(l.Table(facts.LimitUsed).One("resource", resource),
			l.Table(facts.LimitSize).One("resource", resource), "")
	}
	for _, r := range l.Table(facts.CgroupPidsLimit).Rows {
		g := r.Word("cgroup")
		for _, member := range facts.RowsInCgroup(l, l.Table(facts.ProcessInfo), g) {
			if member.Word("pid") == strconv.Itoa(z.parent.PID()) {
				consider(l.Table(facts.CgroupPids).One("cgroup", g), r, g)
				break
			}
		}
	}
}

// severity returns "" for zombies that cost nobody anything.
func (z *zombiePile) severity() diagnose.Severity {
	switch {
	case z.left <= threshold.ZombieSoon, z.held >= threshold.ZombieShare*z.size.Last():
		return diagnose.Medium
	case z.held >= threshold.ZombieMany:
		return diagnose.Low
	}
	return ""
}

func (z *zombiePile) accuse(l *diagnose.Look, severity diagnose.Severity) {
	t, p := l.Table(facts.Zombies), z.parent
	s := diagnose.WholePeriod(t)
	culprit, name, identity := p.Culprit(), p.String(), p.Identity()
	if p.PID() == 0 {
		name, identity = "A process outside of this PID namespace", "outside"
		culprit.Name = "a process outside of this PID namespace"
	}
	number := phrase.Count(z.held) + " children"
	claim := fmt.Sprintf("%s does not wait for %s that have ended (zombies)", name, number)
	if z.rate > 0 {
		claim += fmt.Sprintf(", %s more per second%s.", phrase.Count(z.rate), z.until())
	} else {
		claim += ": each keeps a process ID."
	}
	f := l.Found(identity, severity, 0.9, culprit, claim)
	f.AddEvidence(t, s, p.Query(t), z.held, t.Unit, fmt.Sprintf("%s are zombies", number))
	if z.rate > 0 {
		f.AddEvidence(t, s, p.Query(t), z.rate, t.Unit+"/s", fmt.Sprintf(
			"%s more per second stay", phrase.Count(z.rate)))
		f.AddCaveat(0.1, "A program that waits for its children once in a while shows the same "+
			"between two times.")
	}
	if z.size != nil {
		used := z.used.Table
		f.AddEvidence(used, s, z.used.Query(), z.used.Last(), used.Unit, fmt.Sprintf(
			"%s of %s processes and threads of %s exist, zombies included",
			phrase.Count(z.used.Last()), phrase.Count(z.size.Last()), z.owner())).CompareTo(
			z.size.Last(), "limit")
	}
	f.Verify = fmt.Sprintf("ps -o stat=,pid=,comm= --ppid %d | grep -c ^Z", p.PID())
	if p.PID() == 0 {
		f.Verify = "ps -eo stat=,ppid=,pid=,comm= | grep -c ^Z"
	}
	if z.held >= threshold.ZombieShare*z.used.Last() {
		f.Cover("limit-reached", z.explains)
	}
}

// until returns when and how the growth ends, as a part of a sentence.
func (z *zombiePile) until() string {
	if math.IsInf(z.left, 1) {
		return ""
	}
	return fmt.Sprintf(": at that rate no process or thread of %s can start in %s", z.owner(),
		phrase.Ahead(z.left))
}

// owner returns whose limit it is.
func (z *zombiePile) owner() string {
	if z.cgroup == "" {
		return "the machine"
	}
	return "cgroup " + facts.CgroupName(z.cgroup)
}

// explains reports whether a finding is about the limit that the zombies use up.
func (z *zombiePile) explains(o *diagnose.Finding) bool {
	if z.cgroup != "" {
		return o.Culprit.Kind == "cgroup" && o.Culprit.Name == z.cgroup &&
			o.ID == "limit-reached/pids:"+facts.CgroupIdentity(z.cgroup)
	}
	return o.Culprit.Kind == "host" && (o.Culprit.Name == "pids" || o.Culprit.Name == "threads")
}
