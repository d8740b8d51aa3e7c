package show

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"culprit/changes"
	"culprit/diagnose"
	"culprit/diagnose/rules"
	"culprit/measure"
)

// WatchFinding compares a finding of the look before with looks of span, one after another, from
// now on. before nil: the first of these looks is the one before. found is called with the finding,
// then each with the outcome after each further look, until ctx ends or one of them returns an
// error, which it returns. The error is a UsageError if no rule has such an ID.
func WatchFinding(
	ctx context.Context, m Machine, id string, span time.Duration, before *Look,
	progress func(tick int), found func(*diagnose.Report, *diagnose.Finding) error,
	each func(*changes.Outcome) error,
) error {
	if err := checkRule(id); err != nil {
		return err
	}
	when := "then"
	if before == nil {
		var err error
		if before, err = lookNow(ctx, m, span, nil, progress); err != nil {
			return err
		}
		when = "now"
	}
	report := before.Report
	finding, err := findingOf(report, id, when)
	if err != nil {
		return err
	}
	queries := measuresOf(m, finding)
	old := make([]cells, len(queries))
	for i, q := range queries {
		old[i] = cellsOf(ctx, before.reader, q)
	}
	if err := found(report, finding); err != nil {
		return err
	}
	for ctx.Err() == nil {
		now, err := lookNow(ctx, m, span, queries, progress)
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
		o := outcome(finding, now.Report)
		o.Before, o.Seconds = report.End, now.Report.End.Sub(report.End).Seconds()
		for i, q := range queries {
			o.Measures = append(o.Measures, compared(q, old[i], cellsOf(ctx, now.reader, q)))
		}
		if err := each(o); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// checkRule fails if no rule has the findings of an ID.
func checkRule(id string) error {
	var names []string
	for _, r := range rules.Set().Rules {
		names = append(names, r.ID)
	}
	rule, _, _ := strings.Cut(id, "/")
	if slices.Contains(names, rule) {
		return nil
	}
	hint := DidYouMean(rule, names)
	if hint == "" {
		hint = ": IDs begin with a rule, such as " + names[0]
	}
	return Usagef("no finding has the ID %q%s", id, hint)
}

// findingOf returns the finding with an ID, or the only one of a rule. when is now or then. The
// error lists the IDs.
func findingOf(r *diagnose.Report, id, when string) (*diagnose.Finding, error) {
	var ids []string
	var ofRule []*diagnose.Finding
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.ID == id {
			return f, nil
		}
		if f.Rule == id {
			ofRule = append(ofRule, f)
		}
		ids = append(ids, f.ID)
	}
	switch {
	case len(ofRule) == 1:
		return ofRule[0], nil
	case len(ids) == 0:
		return nil, fmt.Errorf("%s is not found %s: there are no findings", id, when)
	}
	return nil, fmt.Errorf("%s is not found %s; the findings are %s", id, when,
		strings.Join(ids, ", "))
}

// outcome returns how a finding fares in a later report.
func outcome(f *diagnose.Finding, now *diagnose.Report) *changes.Outcome {
	o := &changes.Outcome{
		ID: f.ID, After: now.End, State: changes.Gone, Measures: []changes.Measure{},
	}
	for i := range now.Findings {
		if g := &now.Findings[i]; g.ID == f.ID {
			o.State, o.Severity, o.Claim = changes.Remains, string(g.Severity), g.Claim
			return o
		}
		for _, s := range now.Findings[i].Symptoms {
			if s.ID == f.ID { // another finding explains it now
				o.State, o.Claim = changes.Remains, s.Claim
				return o
			}
		}
	}
	for _, m := range now.Missing {
		if m.Rule == f.Rule {
			o.State, o.Claim = changes.Unknown, m.String()
		}
	}
	return o
}

// maxMeasures bounds the numbers that are compared: the strongest evidence is first.
const maxMeasures = 6

// measuresOf returns the queries of the evidence that return one number, each once.
func measuresOf(m Machine, f *diagnose.Finding) (out []measure.Query) {
	seen := map[string]bool{}
	for _, e := range f.Evidence {
		q, err := m.Parse(e.Statistic)
		if err != nil || len(q.By) > 0 || seen[q.String()] || len(out) == maxMeasures {
			continue
		}
		seen[q.String()] = true
		out = append(out, q)
	}
	return out
}

// cells are the values of a measure in the intervals of a look.
type cells struct {
	values []float64
	unit   measure.Unit
}

// cellsOf returns the values of a query; no values if there is no answer. Where nothing has a
// value, an amount is 0.
func cellsOf(ctx context.Context, r measure.Reader, q measure.Query) cells {
	a, err := r.Ask(context.WithoutCancel(ctx), q)
	if err != nil || a == nil {
		return cells{}
	}
	c := cells{unit: a.Unit, values: make([]float64, len(a.Elapsed))}
	for i := range c.values {
		c.values[i] = measure.NaN
		if len(a.Series) > 0 && i < len(a.Series[0].Values) {
			c.values[i] = a.Series[0].Values[i]
		}
		if c.values[i] != c.values[i] && a.Elapsed[i] > 0 && a.Kind == measure.Delta {
			c.values[i] = 0
		}
	}
	return c
}

// compared returns a measure with its values before and after.
func compared(q measure.Query, before, after cells) changes.Measure {
	e, changed := changes.CompareKnown(before.values, after.values, before.unit)
	return changes.Measure{
		Query: q.String(), Unit: string(before.unit), Before: diagnose.Number(e.Before),
		After: diagnose.Number(e.After), Deviations: diagnose.Number(e.Deviations),
		Changed: changed,
	}
}
