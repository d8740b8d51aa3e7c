package diagnose

import (
	"fmt"
	"math"

	"culprit/diagnose/phrase"
	"culprit/diagnose/series"
	"culprit/measure"
)

// Look is one rule's view of one range of time: the tables that it named, and the place where it puts what it found. It
// lives during Check only, and belongs to one goroutine.
type Look struct {
	rule      *Rule
	tables    map[string]*Table
	Findings  []*Finding
	fine      []Exoneration
	doubts    []Doubt
	missing   []Missing
	unchecked bool
	stray     []string // sentences asked that the rule had not named: a fault of the rule, looked for by the tests
}

// Table gives the answer to one of the rule's sentences.
func (l *Look) Table(sentence string) *Table {
	for _, list := range [][]string{l.rule.Needs, l.rule.Finds, l.rule.Uses, l.rule.Traced, l.rule.Sampled} {
		for _, s := range list {
			if s == sentence {
				return l.tables[s].filled()
			}
		}
	}
	l.stray = append(l.stray, sentence)
	return &Table{Why: "the rule does not name it", Seconds: make([]float64, 0)}
}

// Fine records that the resource shows nothing wrong, with the numbers that say so.
func (l *Look) Fine(format string, args ...any) {
	l.fine = append(l.fine, Exoneration{Resource: l.rule.Resource, Because: fmt.Sprintf(format, args...)})
}

// Unchecked records that the rule, though its sentences were answered, could not check anything.
func (l *Look) Unchecked(format string, args ...any) {
	l.unchecked = true
	l.Skipped(format, args...)
}

// Skipped records that one thing among those that the rule checks could not be checked.
func (l *Look) Skipped(format string, args ...any) {
	l.missing = append(l.missing, Missing{Rule: l.rule.ID, Checks: l.rule.Checks, Why: fmt.Sprintf(format, args...)})
}

// Found starts a finding: its identity among the rule's findings (may be ""), severity, confidence and claim. The rule
// adds evidence and the rest to it.
func (l *Look) Found(identity string, severity Severity, confidence float64, culprit Culprit, claim string) *Finding {
	f := &Finding{ID: l.rule.ID, Rule: l.rule.ID, Severity: severity, Confidence: Number(math.Round(series.Clamp(series.Or(confidence, 0), 0, 1)*100) / 100),
		Culprit: culprit, Claim: claim, Explains: Number(measure.NaN), Effect: Number(measure.NaN)}
	if identity != "" {
		f.ID += "/" + identity
	}
	if f.Culprit.Name = phrase.Clean(f.Culprit.Name); f.Culprit.Name == "" {
		f.Culprit.Name = "unknown"
	}
	l.Findings = append(l.Findings, f)
	return f
}

// AddEvidence adds a line of evidence: the text for people, the sentence with its table (for the time), the value and unit.
func (f *Finding) AddEvidence(t *Table, s Period, sentence string, value float64, unit measure.Unit, text string) *Evidence {
	f.Evidence = append(f.Evidence, Evidence{Text: text, Statistic: sentence, Value: Number(value), Unit: string(unit),
		Over: t.times(s), ComparedWith: Number(measure.NaN)})
	return &f.Evidence[len(f.Evidence)-1]
}

// CompareTo says what the value is to be compared with.
func (e *Evidence) CompareTo(value float64, as string) {
	e.ComparedWith, e.ComparedAs = Number(value), as
}

// AddCaveat adds a sentence that speaks against the finding, and takes the share doubt (0..1) off its confidence.
func (f *Finding) AddCaveat(doubt float64, format string, args ...any) {
	f.Against = append(f.Against, fmt.Sprintf(format, args...))
	f.Confidence = Number(math.Round(float64(f.Confidence)*(1-doubt)*100) / 100)
}

// times gives the moments between which the spell lay.
func (t *Table) times(s Period) [2]Time {
	if s.first < 0 || s.end < s.first {
		return [2]Time{t.start, t.start.Add(t.Step * measure.Span(len(t.Seconds)))}
	}
	return [2]Time{t.start.Add(t.Step * measure.Span(s.first)), t.start.Add(t.Step * measure.Span(s.end+1))}
}

// SetEffect sets the share of time that the trouble takes from tasks, or of what is asked for: 0..1.
func (f *Finding) SetEffect(share float64) {
	f.Effect = Number(math.Round(series.Clamp(share, 0, 1)*1000) / 1000)
}

// SetExplains sets the share of the symptom that the culprit accounts for, when it is known.
func (f *Finding) SetExplains(share float64) {
	f.Explains = Number(math.Round(series.Clamp(share, 0, 1)*1000) / 1000)
}

// MarkUnchecked records that the rule checked nothing; what it skipped says why.
func (l *Look) MarkUnchecked() { l.unchecked = true }

// Doubtful records that the resource can't be ruled out though nobody is accused, and the numbers that
// speak against it.
func (l *Look) Doubtful(format string, args ...any) {
	l.doubts = append(l.doubts, Doubt{Resource: l.rule.Resource, Because: fmt.Sprintf(format, args...)})
}
