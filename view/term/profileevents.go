package term

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"culprit/profile"
)

// maxEvery is the largest number of events per sample.
const maxEvery = 1 << 40

// parseEvery parses the number of events per sample: 1000, 1e6; "": 0, the event's default.
func parseEvery(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	var n float64
	if _, err := fmt.Sscanf(text+" .", "%g .", &n); err != nil || n != math.Trunc(n) {
		return 0, usagef("--every %q is no number of events (write 1000 or 1e6)", text)
	}
	if !(n >= 1 && n <= maxEvery) {
		return 0, usagef("--every %s is out of range: 1 to 2^40", text)
	}
	return uint64(n), nil
}

// printable reports whether a name has only characters that can be part of a probe's description,
// and not those that end it.
func printable(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`,{};"'`, r)
	})
}

// writeEvents writes a profile of events, and prints its notes.
func (p *profilePrinter) writeEvents(got *Profiled, q Profiling, o outputFlags, pids bool) error {
	var samples, events, cut int64
	for s := range got.Stacks {
		samples, events = samples+s.Count, events+s.Amount
		if len(s.Kernel) >= got.Frames || len(s.User) >= got.Frames {
			cut += s.Count
		}
	}
	what := fmt.Sprintf("%s in %.1f s", eventWords(got.Unit), got.Took.Seconds())
	if got.Every > 1 {
		what += fmt.Sprintf(": %d samples, one in %d events", samples, got.Every)
	}
	note, notes := fmt.Sprintf("%d %s", events, what), slices.Clone(got.Notes)
	if cut > 0 {
		notes = append(
			notes, fmt.Sprintf("the stacks of %d samples are cut at %d frames", cut, got.Frames),
		)
	}
	notes = p.printNotes(notes, got.Loss)
	if samples == 0 {
		return fmt.Errorf("no %s match, in %.1f s%s", eventWords(got.Unit), got.Took.Seconds(),
			fewer(got.Every))
	}
	if o.table {
		return writeFile(p.terminal, o.output, func(w io.Writer) error {
			return profile.WriteTableLines(
				w, tableLines(got.Stacks), float64(events), what, o.rows,
			)
		})
	}
	t := treeOf(got.Stacks, profile.Roots{By: q.By, PIDs: pids, TIDs: q.ByThread})
	t.Unit, t.Taken = got.Unit, profile.Taken{At: got.Began, Over: got.Took}
	p.attachNotes(t, notes, eventWords(got.Unit))
	return o.write(p.terminal, t, note)
}

// fewer returns what explains a profile without samples.
func fewer(every uint64) string {
	if every > 1 {
		return fmt.Sprintf(": fewer than --every %d on each CPU", every)
	}
	return ""
}

// eventWords returns the name of an event for a sentence: page faults, events of
// sched:sched_switch.
func eventWords(unit string) string {
	if strings.Contains(unit, ":") {
		return "events of " + unit
	}
	return strings.ReplaceAll(unit, "-", " ")
}
