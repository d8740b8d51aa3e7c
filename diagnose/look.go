package diagnose

import (
	"fmt"
	"math"

	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/measure"
)

// Look is the view of one rule on one range of time: the tables of its queries, and the results of
// its Check. It is valid during Check only, and belongs to one goroutine.
type Look struct {
	rule      *Rule
	tables    map[string]*Table
	Findings  []*Finding
	fine      []Exoneration
	doubts    []Doubt
	missing   []Missing
	unchecked bool
	// queries that the rule does not declare: an error of the rule, which tests detect
	undeclared []string
}

// Table returns the answer to one of the rule's queries.
func (l *Look) Table(query string) *Table {
	for _, list := range [][]string{l.rule.Needs, l.rule.Finds, l.rule.Uses, l.rule.Traced,
		l.rule.Sampled} {
		for _, s := range list {
			if s == query {
				return l.tables[s].filled()
			}
		}
	}
	l.undeclared = append(l.undeclared, query)
	return &Table{Why: "the rule does not name it", Seconds: make([]float64, 0)}
}

// Fine records that the resource is not at fault, with the numbers that show it.
func (l *Look) Fine(format string, args ...any) {
	l.fine = append(l.fine,
		Exoneration{Resource: l.rule.Resource, Because: fmt.Sprintf(format, args...)})
}

// Unchecked records that the rule could check nothing, although its queries were answered.
func (l *Look) Unchecked(format string, args ...any) {
	l.unchecked = true
	l.Skipped(format, args...)
}

// Skipped records that one of the things that the rule checks could not be checked.
func (l *Look) Skipped(format string, args ...any) {
	l.missing = append(l.missing,
		Missing{Rule: l.rule.ID, Checks: l.rule.Checks, Why: fmt.Sprintf(format, args...)})
}

// Found adds a finding. identity distinguishes it from others of the rule and may be "". The rule
// adds evidence and the rest to it.
func (l *Look) Found(identity string, severity Severity, confidence float64, culprit Culprit,
	claim string) *Finding {
	f := &Finding{ID: l.rule.ID, Rule: l.rule.ID, Severity: severity,
		Confidence: Number(math.Round(series.Clamp(series.Or(confidence, 0), 0, 1)*100) / 100),
		Culprit:    culprit, Claim: claim,
		Explains: Number(measure.NaN), Effect: Number(measure.NaN)}
	if identity != "" {
		f.ID += "/" + identity
	}
	if f.Culprit.Name = phrase.Clean(f.Culprit.Name); f.Culprit.Name == "" {
		f.Culprit.Name = "unknown"
	}
	l.Findings = append(l.Findings, f)
	return f
}

// AddEvidence adds a line of evidence: the text, the query with its table (for the time range), the
// value and its unit.
func (f *Finding) AddEvidence(t *Table, s Period, query string, value float64, unit measure.Unit,
	text string) *Evidence {
	f.Evidence = append(f.Evidence, Evidence{Text: text, Statistic: query, Value: Number(value),
		Unit: string(unit),
		Over: t.times(s), ComparedWith: Number(measure.NaN)})
	return &f.Evidence[len(f.Evidence)-1]
}

// CompareTo sets the value to compare with, in the same unit, and its name.
func (e *Evidence) CompareTo(value float64, as string) {
	e.ComparedWith, e.ComparedAs = Number(value), as
}

// AddCaveat adds a caveat, and reduces the confidence by the share doubt (0..1).
func (f *Finding) AddCaveat(doubt float64, format string, args ...any) {
	f.Against = append(f.Against, fmt.Sprintf(format, args...))
	f.Confidence = Number(math.Round(float64(f.Confidence)*(1-doubt)*100) / 100)
}

// times returns the begin and the end of a period.
func (t *Table) times(s Period) [2]Time {
	if s.first < 0 || s.end < s.first {
		return [2]Time{t.start, t.start.Add(t.Step * measure.Span(len(t.Seconds)))}
	}
	return [2]Time{t.start.Add(t.Step * measure.Span(s.first)),
		t.start.Add(t.Step * measure.Span(s.end+1))}
}

// SetEffect sets the share of time that the fault takes from tasks, or of demand that it leaves
// unserved: 0..1.
func (f *Finding) SetEffect(share float64) {
	f.Effect = Number(math.Round(series.Clamp(share, 0, 1)*1000) / 1000)
}

// SetExplains sets the share of the symptom that the culprit accounts for: 0..1.
func (f *Finding) SetExplains(share float64) {
	f.Explains = Number(math.Round(series.Clamp(share, 0, 1)*1000) / 1000)
}

// MarkUnchecked records that the rule checked nothing; its skipped things tell why.
func (l *Look) MarkUnchecked() { l.unchecked = true }

// Doubtful records that the resource cannot be ruled out although no culprit is known, with the
// numbers that speak against it.
func (l *Look) Doubtful(format string, args ...any) {
	l.doubts = append(l.doubts,
		Doubt{Resource: l.rule.Resource, Because: fmt.Sprintf(format, args...)})
}
