package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"culprit/diagnose"
	"culprit/measure"

	"culprit/view"
)

// Diagnosis formats a report as text. Lines are at most width columns wide unless a word is longer.
// With colour, severities are colored.
func Diagnosis(r *diagnose.Report, width int, colour bool) string {
	d := &diagnosis{width: min(max(width, 40), 110), colour: colour,
		over: measure.Interval{Start: r.Start, End: r.End}}
	host := view.Clean(r.Host)
	if host == "" {
		host = "this machine"
	}
	if len(r.Captured) > 0 {
		d.paragraph("", "culprit read captured tables: "+view.Clean(shortList(r.Captured))+".")
	} else {
		d.looked(r, host)
	}
	d.line("")
	if len(r.Findings) == 0 {
		if len(r.Checked) == 0 {
			d.paragraph(
				"", "Not diagnosed: nothing could be checked. See below for what is missing.",
			)
		} else {
			verdict := "Nothing is wrong here"
			switch {
			case len(r.Doubtful) > 0:
				verdict = "Nothing was found, but not everything is ruled out"
			case len(r.Captured) > 0:
				verdict = "Nothing is wrong in these tables"
			}
			things := "things"
			if len(r.Checked) == 1 {
				things = "thing"
			}
			d.paragraph(
				"", d.bold(verdict)+fmt.Sprintf(" - checked %d %s:", len(r.Checked), things),
			)
			d.paragraph("  ", view.Clean(strings.Join(r.Checked, ", "))+".")
		}
		d.line("")
	}
	sentences := false
	for i, f := range r.Findings {
		sentences = d.finding(i+1, &f) || sentences
	}
	if sentences {
		d.paragraph(
			"",
			"The line below each piece of evidence is a query: "+
				"culprit stat 'QUERY' 1 shows the number live.",
		)
		d.line("")
	}
	for i := range r.Experiments {
		d.experiment(&r.Experiments[i])
	}
	d.held(r.Held)
	if len(r.Fine) > 0 {
		d.line(d.bold("Ruled out"))
		for _, e := range r.Fine {
			d.hanging("  ", fmt.Sprintf("%-9s", view.Clean(e.Resource)), view.Clean(e.Because))
		}
		d.line("")
	}
	if len(r.Doubtful) > 0 {
		d.line(d.bold("Not ruled out"))
		for _, e := range r.Doubtful {
			d.hanging("  ", fmt.Sprintf("%-9s", view.Clean(e.Resource)), view.Clean(e.Because))
		}
		d.line("")
	}
	if len(r.Findings) > 0 && len(r.Checked) > 0 {
		d.hanging("", d.bold("Checked"), view.Clean(strings.Join(r.Checked, ", "))+".")
		d.line("")
	}
	if len(r.Missing) > 0 {
		d.line(d.bold("Not checked"))
		for _, line := range notChecked(r.Missing) {
			d.hanging("  ", "-", view.Clean(line))
		}
		d.line("")
	}
	said := map[string]bool{}
	for _, m := range r.Missing {
		said[m.Why] = true
	}
	var notes []string
	for _, n := range r.Notes {
		if !said[n] {
			notes = append(notes, n)
		}
	}
	if len(notes) > 0 {
		d.line(d.bold("Notes"))
		for _, n := range notes {
			d.hanging("  ", "-", view.Clean(n))
		}
		d.line("")
	}
	return strings.TrimRight(d.b.String(), "\n") + "\n"
}

// experiment writes what was measured after the findings were known.
func (d *diagnosis) experiment(e *diagnose.Experiment) {
	text := fmt.Sprintf("%s for %.1f s, with %.2f s of CPU time",
		strings.Join(e.Statistics, ", "), float64(e.Seconds), float64(e.CPUSeconds))
	d.hanging("", d.bold("Measured afterwards"), view.Clean(text)+".")
	for _, line := range e.Results {
		d.hanging("  ", "-", view.Clean(line))
	}
	if e.Missing != "" {
		d.hanging("  ", "-", "not measured: "+view.Clean(e.Missing))
	}
	d.line("")
}

// looked writes for how long a machine was watched.
func (d *diagnosis) looked(r *diagnose.Report, host string) {
	d.paragraph(
		"",
		fmt.Sprintf(
			"culprit looked at %s for %.0f s, %s to %s.", host, r.End.Sub(r.Start).Seconds(),
			r.Start.AsTime().Local().Format("15:04:05"), r.End.AsTime().Local().Format("15:04:05"),
		),
	)
}

// shortList joins the first tables of a list and counts the others.
func shortList(list []string) string {
	const shown = 8
	if len(list) <= shown {
		return strings.Join(list, ", ")
	}
	return strings.Join(list[:shown], ", ") + fmt.Sprintf(" and %d more", len(list)-shown)
}

// notChecked returns a line for each reason, with the checks that were not made for it. A check
// that is alone names its statistic.
func notChecked(missing []diagnose.Missing) []string {
	var reasons []string
	of := map[string][]diagnose.Missing{}
	for _, m := range missing {
		if of[m.Why] == nil {
			reasons = append(reasons, m.Why)
		}
		of[m.Why] = append(of[m.Why], m)
	}
	lines := make([]string, len(reasons))
	for i, why := range reasons {
		all := of[why]
		var checks []string
		for _, m := range all {
			if !slices.Contains(checks, m.Checks) {
				checks = append(checks, m.Checks)
			}
		}
		some := slices.ContainsFunc(all, func(m diagnose.Missing) bool { return m.Statistic != "" })
		switch {
		case len(all) == 1:
			lines[i] = all[0].String()
		case some:
			lines[i] = strings.Join(checks, ", ") + ": several statistics are missing: " + why
		default:
			lines[i] = strings.Join(checks, ", ") + ": " + why
		}
	}
	return lines
}

type diagnosis struct {
	b      strings.Builder
	width  int
	colour bool
	over   measure.Interval // of the diagnosis
}

// finding writes one finding and reports whether it has queries.
func (d *diagnosis) finding(n int, f *diagnose.Finding) (sentences bool) {
	severity := strings.ToUpper(string(f.Severity))
	if d.colour {
		colours := map[diagnose.Severity]string{
			diagnose.High:   "31;1",
			diagnose.Medium: "33;1",
			diagnose.Low:    "36;1",
		}
		severity = "\x1b[" + colours[f.Severity] + "m" + severity + "\x1b[0m"
	}
	d.hanging("", fmt.Sprintf("%d. %s", n, severity), d.bold(view.Clean(f.Claim)))
	how := fmt.Sprintf("confidence %.0f %%", float64(f.Confidence)*100)
	if f.Explains.Known() {
		how += fmt.Sprintf(", accounts for %.0f %% of it", float64(f.Explains)*100)
	}
	d.line("   " + how)
	if since := lasts(f, d.over); since != "" {
		d.hanging("   ", "", since)
	}
	if a := f.Attribution; a != nil {
		d.hanging("   ", "users:", view.Clean(a.Text))
		d.hanging("     ", "", d.dim(view.Clean(a.Basis)))
	}
	for _, e := range f.Evidence {
		d.hanging("   ", "*", view.Clean(e.Text))
		if e.Statistic != "" {
			d.line(
				"       " + d.dim(view.Clean(e.Statistic)),
			) // not wrapped, so that it can be copied
			sentences = true
		}
	}
	for _, s := range f.Symptoms {
		d.hanging("   ", "this explains:", view.Clean(s.Claim))
	}
	if len(f.Exonerated) > 0 {
		d.hanging("   ", "ruled out:", view.Clean(strings.Join(f.Exonerated, ", ")))
	}
	for _, a := range f.Against {
		d.hanging("   ", "but:", view.Clean(a))
	}
	if f.Verify != "" {
		d.hanging("   ", "see it:", view.Clean(f.Verify))
	}
	if f.Fix != nil {
		d.hanging("   ", "fix:", view.Clean(f.Fix.Command))
		if f.Fix.Undo != "" {
			d.hanging("   ", "undo:", view.Clean(f.Fix.Undo))
		}
		d.hanging("   ", "risk:", view.Clean(f.Fix.Risk))
	}
	d.line("")
	return sentences
}

func (d *diagnosis) line(s string) { d.b.WriteString(strings.TrimRight(s, " ") + "\n") }

func (d *diagnosis) bold(s string) string { return d.style("1", s) }

func (d *diagnosis) dim(s string) string { return d.style("2", s) }

func (d *diagnosis) style(code, s string) string {
	if !d.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (d *diagnosis) paragraph(indent, text string) { d.hanging(indent, "", text) }

// hanging writes a lead and, beside it, a wrapped text with a hanging indent.
func (d *diagnosis) hanging(indent, lead, text string) {
	first := indent
	if lead != "" {
		first += lead + " "
	}
	at := columns(first)
	d.b.WriteString(first)
	next := strings.Repeat(" ", at)
	started := false
	for _, word := range strings.Fields(text) {
		n := columns(word)
		switch {
		case !started:
			started = true
		case at+1+n > d.width:
			d.b.WriteString("\n" + next)
			at = len(next)
		default:
			d.b.WriteString(" ")
			at++
		}
		d.b.WriteString(word)
		at += n
	}
	d.b.WriteString("\n")
}

// columns returns the number of columns of a text on a terminal, without color codes.
func columns(s string) int {
	n := 0
	for len(s) > 0 {
		if s[0] == 0x1b {
			if end := strings.IndexByte(s, 'm'); end >= 0 {
				s = s[end+1:]
				continue
			}
		}
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		n++
	}
	return n
}
