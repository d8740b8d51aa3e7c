package report

import (
	"fmt"
	"strings"

	"culprit/fleet"
	"culprit/view"
)

// maxDifferences is the number of differences that are shown; JSON has all.
const maxDifferences = 12

// Comparison formats how a host differs from the others as text. Lines are at most width columns
// wide unless a word is longer.
func Comparison(c *fleet.Comparison, width int, colour bool) string {
	d := &diagnosis{width: min(max(width, 40), 110), colour: colour}
	when := fmt.Sprintf("over %v up to %s", c.Over.AsDuration(),
		c.At.AsTime().Local().Format("2006-01-02 15:04:05"))
	if c.Host == "" {
		d.paragraph("", fmt.Sprintf("None of %d hosts differs from the others %s. --host NAME "+
			"compares one nevertheless.", c.Others, when))
		d.remarks(c.Notes)
		return d.b.String()
	}
	host := view.Clean(c.Host)
	which := ""
	if c.Furthest {
		which = ", the host that differs most,"
	}
	d.paragraph("", fmt.Sprintf("culprit compared %s%s with %s %s.", host, which,
		others(c.Others), when))
	d.line("")
	if len(c.Differences) == 0 {
		d.paragraph("", d.bold("No statistic differs")+" by the thresholds: a factor of two and, "+
			"with three other hosts or more, six robust standard deviations.")
	} else {
		d.line(d.bold("Differs in " + count(len(c.Differences), "statistic")))
	}
	for i := range c.Differences {
		if i == maxDifferences {
			d.paragraph("  ", fmt.Sprintf("and %d more; --json has all", len(c.Differences)-i))
			break
		}
		d.difference(i+1, &c.Differences[i])
	}
	d.line("")
	d.ownFindings(c, host)
	if len(c.Differences) > 0 {
		d.paragraph("", "The line below each difference is a query: culprit stat 'QUERY' 1 on "+
			host+" shows the number live.")
	}
	d.remarks(c.Notes)
	return d.b.String()
}

// difference writes a difference and its query.
func (d *diagnosis) difference(n int, f *fleet.Difference) {
	text := fmt.Sprintf("%s, %s the median of %s, %s", d.bold(f.Format(f.Value)),
		fleet.Versus(f.Value, f.Median), others(f.Others), f.Format(f.Median))
	if f.Others > 1 {
		text += fmt.Sprintf(" (%s to %s", f.Format(f.Low), f.Format(f.High))
		if f.Score != nil {
			text += fmt.Sprintf("; %.0f deviations", max(*f.Score, -*f.Score))
		}
		text += ")"
	}
	d.hanging("", fmt.Sprintf("%2d.", n), text)
	d.line("      " + d.dim(view.Clean(f.Query))) // not wrapped, so that it can be copied
}

// ownFindings writes which findings the host has that others lack, and the other way round.
func (d *diagnosis) ownFindings(c *fleet.Comparison, host string) {
	if len(c.Only) > 0 {
		d.line(d.bold("Findings of " + host + " alone"))
		for i := range c.Only {
			d.hanging("  ", "-", view.Clean(c.Only[i].String()))
		}
	} else {
		d.paragraph("", host+" has no finding that the others lack.")
	}
	for _, part := range []struct {
		head  string
		rules []fleet.RuleHosts
	}{
		{"Findings that others have too", c.Shared},
		{"Findings of others alone", c.Lacks},
	} {
		if len(part.rules) == 0 {
			continue
		}
		var all []string
		for _, r := range part.rules {
			all = append(all, fmt.Sprintf("%s (%d of %d)", view.Clean(r.Rule), r.Hosts, c.Others))
		}
		d.hanging("", d.bold(part.head)+":", strings.Join(all, ", "))
	}
	d.line("")
}

// remarks writes notes, one per line.
func (d *diagnosis) remarks(notes []string) {
	for _, n := range notes {
		d.hanging("", "note:", view.Clean(n))
	}
}

// others returns "the other host" or "the 9 others".
func others(n int) string {
	if n == 1 {
		return "the other host"
	}
	return fmt.Sprintf("the %d others", n)
}

// count returns "1 statistic" or "9 statistics".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
