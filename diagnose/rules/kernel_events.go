package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/kernelmessage"
	"culprit/diagnose/phrase"
	"culprit/diagnose/threshold"
)

// kernelEvents reports what the kernel wrote to its log within the range: kills, hung tasks, errors
// of devices and file systems, full tables. Findings of other rules with the same cause explain it:
// see RuleSet.Explained.
func kernelEvents() diagnose.Rule {
	return diagnose.Rule{
		ID: "kernel-events", Checks: "messages of the kernel",
		Finds: []string{facts.KernelMessages},
		Uses:  []string{facts.FilesystemAccess},
		Check: func(l *diagnose.Look) {
			log := kernelLogOf(l.Table(facts.KernelMessages))
			for i, e := range log.events {
				if i == threshold.MessagesMost {
					l.Skipped("%s in the kernel's log that differ from these",
						phrase.Plural(len(log.events)-i, "further failure", "further failures"))
					break
				}
				log.report(l, e)
			}
		},
	}
}

// kernelLog is what the kernel wrote within the range.
type kernelLog struct {
	table      *diagnose.Table
	events     []*kernelEvent // the most severe first
	lines      []*diagnose.Row
	suppressed float64  // messages that the kernel did not write, by its own count
	by         []string // functions that did not write them
	unread     float64  // messages whose text was not recorded
}

// kernelEvent is one kind of failure of one thing.
type kernelEvent struct {
	message      *kernelmessage.Message
	name, detail string
	rows         []*diagnose.Row
	count        float64
	last         int  // cell
	recovered    bool // a later message states that it works again
}

var suppressedMessage = regexp.MustCompile(`^(\S+): (\d+) callbacks suppressed`)

// kernelLogOf finds the messages of the table that have a meaning.
func kernelLogOf(t *diagnose.Table) *kernelLog {
	log := &kernelLog{table: t}
	all := kernelmessage.Messages()
	at := map[[2]string]*kernelEvent{}
	for _, r := range t.Rows {
		n, last := timesOf(r)
		if last < 0 {
			continue
		}
		text := r.Word("text")
		if text == facts.MoreMessages {
			log.unread += n
			continue
		}
		log.lines = append(log.lines, r)
		if s := suppressedMessage.FindStringSubmatch(text); s != nil {
			k, _ := strconv.ParseFloat(s[2], 64)
			log.suppressed += k * n
			if !slices.Contains(log.by, s[1]) && len(log.by) < 3 {
				log.by = append(log.by, s[1])
			}
			continue
		}
		m, name, detail := kernelmessage.Find(all, text)
		if m == nil {
			continue
		}
		key := [2]string{m.Event, name}
		e := at[key]
		if e == nil {
			e = &kernelEvent{message: m, name: name, last: -1}
			at[key] = e
			log.events = append(log.events, e)
		}
		e.rows = append(e.rows, r)
		e.count += n
		if last >= e.last {
			e.last, e.detail = last, detail
		}
	}
	log.events = slices.DeleteFunc(log.events, func(e *kernelEvent) bool {
		return e.count < float64(e.message.Least)-0.5
	})
	for _, e := range log.events {
		e.recovered = log.recovers(e)
	}
	slices.SortStableFunc(log.events, func(a, b *kernelEvent) int {
		return cmp.Or(cmp.Compare(b.severity().Weight(), a.severity().Weight()),
			cmp.Compare(b.count, a.count), cmp.Compare(a.message.Event, b.message.Event),
			cmp.Compare(a.name, b.name))
	})
	return log
}

// timesOf returns how often a message came, and the cell of the last one; -1: never.
func timesOf(r *diagnose.Row) (n float64, last int) {
	last = -1
	for c, sec := range r.Table.Seconds {
		if v := r.At(c) * sec; v > 0 {
			n += v
			last = c
		}
	}
	return n, last
}

// recovers reports whether a message after the last of an event states that it works again. The
// order of messages within a cell is not known.
func (k *kernelLog) recovers(e *kernelEvent) bool {
	return slices.ContainsFunc(k.lines, func(r *diagnose.Row) bool {
		_, last := timesOf(r)
		return last > e.last && e.message.Recovers(e.name, r.Word("text"))
	})
}

func (e *kernelEvent) severity() diagnose.Severity {
	if e.recovered {
		return diagnose.Low
	}
	return e.message.Severity
}

func (k *kernelLog) report(l *diagnose.Look, e *kernelEvent) {
	often := "once"
	if n := int(e.count + 0.5); n > 1 {
		often = fmt.Sprintf("%d times", n)
	}
	name := phrase.Clean(strings.TrimSpace(e.name))
	mount, at := mountOf(l, e), ""
	if mount != "" {
		at = " (" + phrase.Clean(mount) + ")"
	}
	claim := e.message.Sentence(cmp.Or(name, "a program")+at, phrase.Clean(e.detail), often)
	if e.recovered {
		claim = strings.TrimSuffix(claim, ".") + "; a later message states that it works again."
	}
	identity := strings.ReplaceAll(e.message.Event, " ", "-")
	if name != "" {
		identity += "-" + name
	}
	f := l.Found(identity, e.severity(), 0.9, diagnose.Culprit{Kind: e.message.Kind,
		Name: cmp.Or(name, "this machine")}, claim)
	f.Subject = facts.KernelEvent{Event: e.message.Event, Name: e.name, Programs: e.programs()}
	whole := diagnose.WholePeriod(k.table)
	for i, r := range e.rows {
		if i == threshold.MessageLines {
			break
		}
		n, _ := timesOf(r)
		f.AddEvidence(k.table, whole, r.Query(), n, "event", fmt.Sprintf("%s of the kernel: %s",
			phrase.Clean(r.Word("level")), phrase.Printable(r.Word("text"))))
	}
	k.addCause(f, e)
	if k.suppressed > 0 {
		f.AddCaveat(0, "The kernel did not write %s more messages (%s): there may be more of "+
			"these.", phrase.Count(k.suppressed), phrase.Printable(strings.Join(k.by, ", ")))
	}
	if k.unread > 0 {
		f.AddCaveat(0, "The text of %s more messages was not recorded.", phrase.Count(k.unread))
	}
	f.Verify = "dmesg -T | tail -50"
	f.Fix = fixOf(e, mount)
}

// mountOf returns where the file system of an event is mounted; "" when that is not known, or the
// event is of no file system.
func mountOf(l *diagnose.Look, e *kernelEvent) string {
	if e.message.Kind != "filesystem" {
		return ""
	}
	mounts := l.Table(facts.FilesystemAccess).Where("device", "/dev/"+e.name)
	if len(mounts) == 0 {
		return ""
	}
	return mounts[0].Word("mount")
}

// fixOf returns how a damaged file system is repaired; nil for other events, and for the root.
func fixOf(e *kernelEvent, mount string) *diagnose.Fix {
	if mount == "" || mount == "/" || e.message.Event != "filesystem" {
		return nil
	}
	dir, device := phrase.Shell(mount), phrase.Shell("/dev/"+e.name)
	return &diagnose.Fix{
		Command: fmt.Sprintf("umount %s && fsck -f %s && mount %s %s", dir, device, device, dir),
		Risk: "high: programs that use it must end first, and a repair removes what cannot be " +
			"read: copy the device before it",
	}
}

var inProgram = regexp.MustCompile(`: comm (.{1,15}?)(?:: |$)`)

// programs returns the names of the programs in whose system calls the event happened, from its
// messages; those of EXT4 have them.
func (e *kernelEvent) programs() (names []string) {
	for _, r := range e.rows {
		m := inProgram.FindStringSubmatch(r.Word("text"))
		if m != nil && !slices.Contains(names, m[1]) {
			names = append(names, m[1])
		}
	}
	return names
}

// addCause adds who asked for the memory for which the kernel killed, and the control group.
func (k *kernelLog) addCause(f *diagnose.Finding, e *kernelEvent) {
	if !strings.HasPrefix(e.message.Event, "killed") {
		return
	}
	added := 0
	for _, r := range k.lines {
		text := r.Word("text")
		if r.Word("event") != "oom-cause" || added == threshold.MessageLines {
			continue
		}
		n, _ := timesOf(r)
		added++
		f.AddEvidence(k.table, diagnose.WholePeriod(k.table), r.Query(), n, "event",
			"who asked for memory: "+phrase.Printable(text))
	}
}
