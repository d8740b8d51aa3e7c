package report

import (
	"fmt"

	"culprit/diagnose"
	"culprit/measure"
	"culprit/view"
)

// lasts returns since when a finding lasts, and how often it comes at this hour; "" if nothing is
// known from before the diagnosis of a time range.
func lasts(f *diagnose.Finding, over measure.Interval) string {
	p := f.Past
	if p == nil {
		return ""
	}
	s := ""
	if over.End.Sub(p.Since) > diagnose.HistoryOver && !(p.AtLeast && p.Since == over.Start) {
		s = "since "
		if p.AtLeast {
			s = "at least since "
		}
		s += clock(p.Since, over.End)
		if p.Share.Known() && p.Share < 0.95 {
			s += fmt.Sprintf(", with interruptions: %.0f %% of the time", float64(p.Share)*100)
		}
	}
	if p.Days > 0 {
		if s != "" {
			s += "; "
		}
		s += fmt.Sprintf("at this hour on %d of %s before", p.DaysFound, recordedDays(p.Days))
	}
	return s
}

func recordedDays(n int) string {
	if n == 1 {
		return "1 recorded day"
	}
	return fmt.Sprintf("%d recorded days", n)
}

// clock returns a local time of day, with the date unless end is within the same day.
func clock(t, end measure.Time) string {
	at, until := t.AsTime().Local(), end.AsTime().Local()
	if at.Format("2006-01-02") != until.Format("2006-01-02") {
		return at.Format("2006-01-02 15:04")
	}
	return at.Format("15:04:05")
}

// held writes the findings of the last minutes that a diagnosis lacks.
func (d *diagnosis) held(all []diagnose.Finding) {
	if len(all) == 0 {
		return
	}
	d.line(d.bold("Found in the last minutes, not now"))
	for _, f := range all {
		text := view.Clean(f.Claim)
		if s := lasts(&f, d.over); s != "" {
			text += " (" + s + ")"
		}
		d.hanging("  ", "-", text)
	}
	d.line("")
}
