package dataset

import (
	"strings"
	"testing"

	"culprit/measure"
)

// Each kind of gap has its note, and a short one has none.
func TestGapNotes(t *testing.T) {
	const last = measure.Time(17e17)
	for _, tt := range []struct {
		name      string
		first     measure.Time
		at        measure.Time
		suspended measure.Span
		continued bool
		want      string
	}{
		{"next second", last, last + 1e9, 0, false, ""},
		{"two seconds late", last, last + 3e9, 0, true, ""},
		{"stopped", last, last + 21e9, 0, true, "stopped (SIGSTOP or Ctrl-Z) and recorded nothing for 20s"},
		{"suspended", last, last + 41e9, 40 * measure.Second, false, "suspended for 40s"},
		{"starved", last, last + 11e9, 0, false, "did not run"},
		{"restarted", 0, last + 13e9, 0, false, "restarted here: nothing was recorded for 12s"},
		{"restarted in time", 0, last + 1e9, 0, false, "restarted here: no interval is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Set{
				started: last.Add(12 * measure.Second), recordedBefore: last,
				continued: make(chan struct{}, 1),
			}
			r := &recorder{set: s, step: measure.Second, last: last, first: tt.first}
			r.gaps.suspended = func() measure.Span { return tt.suspended }
			if tt.continued {
				s.Continued()
			}
			got := r.gapNote(tt.at, tt.at.Add(-r.step))
			if got == "" != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("the note is %q", got)
			}
		})
	}
}

// A gap is in the audit log once, however many recorders there are.
func TestGapIsLogged(t *testing.T) {
	log := &loggedChanges{}
	s := &Set{archive: log}
	const at = measure.Time(17e17)
	s.logGap(at, "culprit restarted here")
	s.logGap(at.Add(measure.Second), "culprit restarted here")
	s.logGap(at.Add(measure.Minute), "the machine was suspended")
	if len(log.all) != 2 || !strings.Contains(log.all[0], "restarted") ||
		!strings.Contains(log.all[1], "suspended") {
		t.Errorf("the log is %q", log.all)
	}
}

// loggedChanges is an archive of which only the log is used.
type loggedChanges struct {
	Archive
	all []string
}

func (l *loggedChanges) Log(_ string, _ measure.Time, b []byte) error {
	l.all = append(l.all, string(b))
	return nil
}
