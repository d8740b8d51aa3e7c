package alert

import (
	"cmp"
	"strings"

	"culprit/diagnose"
	"culprit/measure"
)

// Limits of the texts of an alert, in bytes and pieces. Findings contain names that others chose.
const (
	maxName     = 200
	maxText     = 1000
	maxCommand  = 2000
	maxEvidence = 10
	maxCaveats  = 5
)

// text returns a text without characters that are not shown, of at most n bytes.
func text(s string, n int) string {
	// A character has at most four bytes, and may become one.
	if s = measure.Clean(s[:min(len(s), 4*n+4)]); len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "..."
}

// command returns a shell command as text does, and keeps its lines.
func command(s string) string {
	if len(s) > maxCommand { // a part of a command is worse than none
		return ""
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = measure.Clean(l)
	}
	return strings.Join(lines, "\n")
}

// bounded returns what an alert keeps of a finding, within the limits.
func bounded(f *diagnose.Finding) diagnose.Finding {
	b := diagnose.Finding{
		ID: text(f.ID, 2*maxName), Rule: text(f.Rule, maxName), Confidence: f.Confidence,
		Severity: f.Severity, Claim: text(f.Claim, maxText), Explains: f.Explains, Effect: f.Effect,
		Verify: command(f.Verify), Past: f.Past,
	}
	if rank(b.Severity) == 0 {
		b.Severity = diagnose.Low
	}
	b.Culprit = f.Culprit
	b.Culprit.Kind, b.Culprit.Name = text(f.Culprit.Kind, maxName), text(f.Culprit.Name, maxName)
	for _, e := range f.Evidence[:min(len(f.Evidence), maxEvidence)] {
		b.Evidence = append(b.Evidence, diagnose.Evidence{
			Text: text(e.Text, maxText), Statistic: text(e.Statistic, maxText),
			Value: e.Value, Unit: text(e.Unit, maxName),
		})
	}
	for _, c := range f.Against[:min(len(f.Against), maxCaveats)] {
		b.Against = append(b.Against, text(c, maxText))
	}
	if f.Fix != nil {
		b.Fix = &diagnose.Fix{Command: command(f.Fix.Command), Undo: command(f.Fix.Undo),
			Risk: text(f.Fix.Risk, maxText)}
	}
	return b
}

// Labels returns the labels of an alert. Empty ones are absent.
func (s *Sender) Labels(a *Alert) map[string]string {
	out := map[string]string{
		"alertname": a.Finding.Rule, "rule": a.Finding.Rule, "finding": a.Finding.ID,
		"kind": a.Culprit.Kind, "culprit": a.Culprit.Name, "severity": string(a.Severity),
		"instance": s.Instance, "job": "culprit",
	}
	deleteEmpty(out)
	return out
}

func deleteEmpty(texts map[string]string) {
	for name, text := range texts {
		if text == "" {
			delete(texts, name)
		}
	}
}

// Annotations returns the texts of an alert: claim, evidence, caveats, verify, fix, undo and risk,
// and summary, the claim by the name that templates of Alertmanager use. Empty ones are absent.
func (a *Alert) Annotations() map[string]string {
	f := &a.Finding
	out := map[string]string{
		"summary": f.Claim, "claim": f.Claim, "verify": f.Verify,
		"evidence": strings.Join(evidence(f), "\n"), "caveats": strings.Join(f.Against, "\n"),
	}
	if f.Fix != nil {
		out["fix"], out["undo"], out["risk"] = f.Fix.Command, f.Fix.Undo, f.Fix.Risk
	}
	deleteEmpty(out)
	return out
}

// evidence returns the lines of evidence of a finding.
func evidence(f *diagnose.Finding) []string {
	all := make([]string, len(f.Evidence))
	for i, e := range f.Evidence {
		all[i] = cmp.Or(e.Text, e.Statistic)
	}
	return all
}
