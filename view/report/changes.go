package report

import (
	"fmt"
	"math"
	"strings"

	"culprit/changes"
	"culprit/fleet"
	"culprit/measure"
	"culprit/view"
)

// maxChanges is the number of changes that are shown; JSON has all.
const maxChanges = 15

// Changes formats how two times differ as text. Lines are at most width columns wide unless a word
// is longer.
func Changes(r *changes.Report, width int, colour bool) string {
	d := &diagnosis{width: min(max(width, 40), 110), colour: colour}
	d.paragraph("", fmt.Sprintf("culprit compared %s with %s, in %s.",
		rangeText(&r.After), rangeText(&r.Before), count(r.Compared, "statistic")))
	d.line("")
	if len(r.Changes) == 0 {
		d.paragraph("", d.bold("Nothing changed beyond noise")+
			": three robust standard deviations and a factor of 1.25.")
	} else {
		d.line(d.bold("Changed"))
	}
	for i := range r.Changes {
		if i == maxChanges {
			d.paragraph("  ", fmt.Sprintf("and %d more; --json has all", len(r.Changes)-i))
			break
		}
		d.change(i+1, &r.Changes[i])
	}
	d.remarks(r.Notes)
	return d.b.String()
}

// rangeText formats a time range with its host.
func rangeText(r *changes.Range) string {
	const day, clock = "2006-01-02 15:04:05", "15:04:05"
	start, end := r.Start.AsTime().Local(), r.End.AsTime().Local()
	text := start.Format(day) + " to " + end.Format(clock)
	if start.YearDay() != end.YearDay() || start.Year() != end.Year() {
		text = start.Format(day) + " to " + end.Format(day)
	}
	if r.Host != "" {
		text = view.Clean(r.Host) + ", " + text
	}
	return text
}

// change writes a change: its query, the values, and what explains it.
func (d *diagnosis) change(n int, c *changes.Change) {
	d.hanging("", fmt.Sprintf("%2d.", n), fmt.Sprintf("%s %s -> %s (%s)",
		d.bold(view.Clean(c.Statistic)), fleet.FormatValue(measure.Unit(c.Unit), c.Before),
		fleet.FormatValue(measure.Unit(c.Unit), c.After), ratioText(c)))
	d.line("      " + d.dim(view.Clean(c.Query))) // not wrapped, so that it can be copied
	var parts []string
	last := ""
	if c.Function != "" {
		d.hanging("      ", "in", "kernel function "+view.Clean(c.Function))
	}
	for _, v := range c.Explains {
		part := fmt.Sprintf("%s %.0f %%", emptyAs(view.Clean(v.Value)), 100*v.Share)
		if v.Field != last {
			part = v.Field + " " + part
		}
		last = v.Field
		parts = append(parts, part)
	}
	if len(parts) > 0 {
		d.hanging("      ", "by", strings.Join(parts, ", "))
	}
	if len(c.With) > 0 {
		d.hanging("      ", "also", strings.Join(c.With, ", "))
	}
}

// emptyAs returns a field value so that an empty one is visible.
func emptyAs(v string) string {
	if v == "" {
		return `""`
	}
	return v
}

// ratioText formats how much a value changed: "3.1 times", "88 % less", "from nothing".
func ratioText(c *changes.Change) string {
	a, b := math.Abs(c.Before), math.Abs(c.After)
	switch {
	case a == 0:
		return "from nothing"
	case b == 0:
		return "to nothing"
	case b > a:
		return fmt.Sprintf("%.3g times", b/a)
	}
	return fmt.Sprintf("%.0f %% less", 100*(1-b/a))
}
