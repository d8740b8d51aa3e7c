package facts

import (
	"fmt"

	"culprit/diagnose"
	"culprit/diagnose/phrase"
)

// SameProgram reports whether a finding is about processes with the name of the accused one.
func SameProgram(f, o *diagnose.Finding) bool {
	return o.Culprit.Kind == "process" && o.Culprit.Name == f.Culprit.Name
}

// AddWaits adds how long the first programs wait for a CPU. The table is process.runwait.
func AddWaits(f *diagnose.Finding, t *diagnose.Table, s diagnose.Period, programs []Program) {
	for i, p := range programs {
		if i == mostNames {
			break
		}
		f.AddEvidence(t, s, p.Query(t), p.Rate, t.Unit, fmt.Sprintf(
			"%s tasks of %s wait for a CPU at any moment", phrase.Digits(p.Rate), p))
	}
}
