package facts

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/diagnose/threshold"
)

// OutOfSight is the culprit when hidden work is that of long-lived processes that are not visible.
const OutOfSight = "processes that are not visible"

// HiddenWork is CPU time that no visible process, no interrupt and no other guest has used.
type HiddenWork struct {
	cpus   float64 // hidden work
	busy   float64 // CPUs that are busy in total
	forks  float64 // processes and threads started per second; NaN unknown
	parent Program // the parent of most short-lived children; rate 0 when there is none
	Short  bool    // short-lived processes; else processes that are not visible
	unseen bool    // some processes of the machine are not visible (process.visibility)
	// the reason in process.visibility: hidepid, pid namespace, unreadable; "" unknown
	why string
}

// HiddenWorkOf finds the source of hidden CPU time. Long-lived processes may be invisible: those of
// other users where /proc is mounted with hidepid, and in a container all others of the machine.
func HiddenWorkOf(l *diagnose.Look, s diagnose.Period, cpus, busy float64) HiddenWork {
	fork, children := l.Table(Forks), l.Table(ProcessShort)
	h := HiddenWork{cpus: cpus, busy: busy, parent: ParentOfShort(l, s.Mask)}
	h.unseen, h.why = unseenProcesses(l)
	h.forks = fork.Mean(fork.Sum(fork.Rows), s.Mask)
	proven := series.Or(SumRows(children, children.Rows, s.Mask), 0) >= cpus/2
	h.Short = proven || !h.unseen && h.forks*threshold.ShortLife >= cpus
	return h
}

// unseenProcesses reports whether some processes of the machine are not visible, and the reason in
// process.visibility. Without the statistic it reports false.
func unseenProcesses(l *diagnose.Look) (some bool, why string) {
	for _, r := range l.Table(ProcessSight).Where("visible", "some") {
		if r.Max() > 0 {
			return true, r.Word("reason")
		}
	}
	return false, ""
}

// share returns the hidden part of the busy time.
func (h HiddenWork) share() float64 { return h.cpus / h.busy }

// Culprit returns the source of the hidden work: the end of a claim, the culprit and its identity.
func (h HiddenWork) Culprit() (cause string, culprit diagnose.Culprit, identity string) {
	if !h.Short {
		return phrase.Percent(h.share()) + " of the busy time is used by processes that are not " +
				"visible from here",
			diagnose.Culprit{Kind: "host", Name: OutOfSight}, ""
	}
	cause, culprit, identity = phrase.Percent(h.share())+" of the busy time is used by processes "+
		"too short-lived to be seen",
		diagnose.Culprit{Kind: "process", Name: "short-lived processes"}, "short-lived"
	if h.parent.Rate >= threshold.CPUActor*h.cpus {
		cause += ", " + phrase.Percent(min(h.parent.Rate/h.busy, h.share())) + " to children of " +
			h.parent.String()
		culprit.Name, culprit.PID, identity = h.parent.Name, h.parent.PID(),
			identity+":"+h.parent.Identity()
	}
	return cause, culprit, identity
}

// AddEvidence adds the rate of new processes, and the parent of the short-lived ones.
func (h HiddenWork) AddEvidence(l *diagnose.Look, f *diagnose.Finding, s diagnose.Period) {
	fork := l.Table(Forks)
	if h.Short && h.parent.Rate > 0 {
		short := l.Table(ProcessShort)
		f.AddEvidence(short, s, h.parent.Query(short), h.parent.Rate, short.Unit,
			fmt.Sprintf("short-lived children of %s used %s CPUs", h.parent,
				phrase.Digits(h.parent.Rate)))
	}
	if h.forks != h.forks {
		return
	}
	text := phrase.Count(h.forks) + " new processes and threads per second"
	if h.forks == 1 {
		text = "1 new process or thread per second"
	}
	if !h.Short && h.forks*threshold.ShortLife < h.cpus {
		text += fmt.Sprintf(": too few to use %s CPUs", phrase.Digits(h.cpus))
	}
	f.AddEvidence(fork, s, Forks, h.forks, fork.Unit, text)
}

// AddCaveats adds what invisible processes may be.
func (h HiddenWork) AddCaveats(f *diagnose.Finding) {
	switch h.why {
	case "hidepid":
		f.AddCaveat(0, "/proc is mounted with hidepid: they are processes of other users. Run "+
			"culprit as root to see them.")
	case "pid namespace":
		f.AddCaveat(0, "/proc is that of a pid namespace, as in a container: they are processes "+
			"outside of it. Run culprit on the host to see them.")
	case "unreadable":
		f.AddCaveat(0, "Some processes in /proc may not be read: they are among them. Run culprit "+
			"as root to see them.")
	default:
		f.AddCaveat(0, "They may be processes of other containers, or of other users where /proc "+
			"is mounted with hidepid: run culprit on the host, as root, to see them.")
	}
}
