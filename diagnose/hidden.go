package diagnose

import "fmt"

// shortMost is the CPU time, in seconds, that a process too short-lived to be seen has used at most,
// on average. Processes are read each second: one that lives for longer than that is seen, and one
// that lives for less is seen or not as it comes.
const shortMost = 0.5

// outOfSight is the culprit where hidden work is that of processes that live on, unseen.
const outOfSight = "processes out of sight"

// hiddenWork is CPU time that none of the processes seen has used, nor interrupts, nor other guests.
type hiddenWork struct {
	cpus   float64 // that it takes
	busy   float64 // CPUs that are busy in all
	forks  float64 // processes and threads started a second; NaN not known
	parent actor   // whose children, which were not seen themselves, used most; its rate is 0 where nobody waited for any
	short  bool    // it is short-lived processes; else processes out of sight
	unseen bool    // some processes of the machine can't be seen (process.visibility)
	why    string  // the reason of process.visibility: hidepid, pid namespace, unreadable; "" not known
}

// hiddenOf finds out what hidden CPU time is. Processes may be out of sight for longer than a moment:
// those of other users where /proc is mounted with hidepid, and inside a container those of all others.
func hiddenOf(l *Look, s spell, cpus, busy float64) hiddenWork {
	fork, children := l.Table(forks), l.Table(processShort)
	h := hiddenWork{cpus: cpus, busy: busy, parent: parentOf(l, s.mask)}
	h.unseen, h.why = unseenProcesses(l)
	h.forks = fork.mean(fork.Sum(fork.Rows), s.mask)
	proven := or(sumRows(children, children.Rows, s.mask), 0) >= cpus/2
	h.short = proven || !h.unseen && h.forks*shortMost >= cpus
	return h
}

// unseenProcesses reports whether some processes of the machine can't be seen, and the reason that process.visibility gives. Where
// the statistic is missing nothing says that any can't.
func unseenProcesses(l *Look) (some bool, why string) {
	for _, r := range l.Table(processSight).Where("visible", "some") {
		if r.Max() > 0 {
			return true, r.Word("reason")
		}
	}
	return false, ""
}

// share returns the part of the busy time that is hidden.
func (h hiddenWork) share() float64 { return h.cpus / h.busy }

// accused returns whose work it is, as the end of a claim, the culprit and its identity.
func (h hiddenWork) accused() (who string, culprit Culprit, identity string) {
	if !h.short {
		return percent(h.share()) + " of their busy time goes to processes that can't be seen from here",
			Culprit{Kind: "host", Name: outOfSight}, ""
	}
	who, culprit, identity = percent(h.share())+" of their busy time goes to processes too short-lived to be seen",
		Culprit{Kind: "process", Name: "short-lived processes"}, "short-lived"
	if h.parent.rate >= cpuActor*h.cpus {
		who += ", " + percent(min(h.parent.rate/h.busy, h.share())) + " to children of " + h.parent.String()
		culprit.Name, culprit.PID, identity = h.parent.name, h.parent.pid(), identity+":"+h.parent.identity()
	}
	return who, culprit, identity
}

// proofs adds how many processes start, and whose children they are.
func (h hiddenWork) proofs(l *Look, f *Finding, s spell) {
	fork := l.Table(forks)
	if h.short && h.parent.rate > 0 {
		short := l.Table(processShort)
		f.proof(short, s, h.parent.sentence(short), h.parent.rate, short.Unit, fmt.Sprintf("children of %s that lived too shortly to be seen used %s CPUs", h.parent, digits(h.parent.rate)))
	}
	if h.forks != h.forks {
		return
	}
	text := count(h.forks) + " new processes and threads a second"
	if h.forks == 1 {
		text = "1 new process or thread a second"
	}
	if !h.short && h.forks*shortMost < h.cpus {
		text += fmt.Sprintf(": too few for short-lived ones to use %s CPUs", digits(h.cpus))
	}
	f.proof(fork, s, forks, h.forks, fork.Unit, text)
}

// caveats adds what processes out of sight may be.
func (h hiddenWork) caveats(f *Finding) {
	switch h.why {
	case "hidepid":
		f.but(0, "/proc is mounted with hidepid: they are processes of other users. Look as root to see them.")
	case "pid namespace":
		f.but(0, "/proc is of a pid namespace, as in a container: they are processes outside of it. Look from the host to see them.")
	case "unreadable":
		f.but(0, "Some processes in /proc may not be read: they are among them. Look as root to see them.")
	default:
		f.but(0, "They may be processes of other containers, or of other users where /proc is mounted with hidepid: look from the host, as root, to see them.")
	}
}
