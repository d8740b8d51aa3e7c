package report

import (
	"fmt"

	"culprit/changes"
	"culprit/diagnose"
	"culprit/fleet"
	"culprit/measure"
	"culprit/view"
)

// Watched formats the finding that is watched, and its fix, as text.
func Watched(f *diagnose.Finding, width int, colour bool) string {
	d := watchedFinding(f, width, colour)
	if f.Fix != nil {
		d.line("       fix   " + view.Clean(f.Fix.Command)) // not wrapped, so that it can be copied
		if f.Fix.Undo != "" {
			d.line("       undo  " + view.Clean(f.Fix.Undo))
		}
	}
	d.paragraph("       ", "Change something now; each look below is compared with this one.")
	return d.b.String()
}

// WatchedPast formats a finding of a recorded time as text. Its fix is not shown: it was made.
func WatchedPast(f *diagnose.Finding, width int, colour bool) string {
	return watchedFinding(f, width, colour).b.String()
}

func watchedFinding(f *diagnose.Finding, width int, colour bool) *diagnosis {
	d := &diagnosis{width: min(max(width, 40), 110), colour: colour}
	d.hanging("", "before", d.bold(view.Clean(f.ID))+": "+view.Clean(f.Claim))
	return d
}

// Outcome formats how a finding fares after a while as text.
func Outcome(o *changes.Outcome, width int, colour bool) string {
	d := &diagnosis{width: min(max(width, 40), 110), colour: colour}
	label := fmt.Sprintf("after %.0f s:", o.Seconds)
	changed := o.Changed()
	switch {
	case o.State == changes.Unknown:
		d.hanging("", label, "not checked: "+view.Clean(o.Claim))
	case o.State == changes.Gone && changed == 0 && len(o.Measures) > 0:
		d.hanging("", label, d.bold("the finding is gone")+
			", but none of its numbers changed beyond noise: it may come back")
	case o.State == changes.Gone:
		d.hanging("", label, d.bold("the finding is gone"))
	case changed == 0:
		d.hanging("", label, "no change beyond noise; the finding remains")
	default:
		d.hanging("", label, "the finding remains: "+view.Clean(o.Claim))
	}
	for i := range o.Measures {
		d.measure(&o.Measures[i])
	}
	return d.b.String()
}

// measure writes a number before and after, and its query.
func (d *diagnosis) measure(m *changes.Measure) {
	unit := measure.Unit(m.Unit)
	text := "not measured"
	if m.Before.Known() && m.After.Known() {
		text = fmt.Sprintf("%s -> %s", fleet.FormatValue(unit, float64(m.Before)),
			fleet.FormatValue(unit, float64(m.After)))
		if m.Changed {
			c := changes.Change{Before: float64(m.Before), After: float64(m.After)}
			text = d.bold(text) + " (" + ratioText(&c) + ")"
		} else {
			text += " (no change beyond noise)"
		}
	}
	d.line("  " + text + "  " + d.dim(view.Clean(m.Query)))
}
