package rules

import (
	"culprit/diagnose"
	"culprit/diagnose/facts"
	"culprit/diagnose/limits"
)

// limitReached finds limits of the machine, of processes and of control groups that are reached, or
// will be soon. Package limits lists them.
func limitReached() diagnose.Rule {
	return diagnose.Rule{
		ID: "limit-reached", Checks: "limits of file systems, processes and control groups",
		Finds:  []string{facts.FilesystemSize},
		Uses:   limits.Queries(),
		Traced: []string{facts.FailedCalls},
		Check:  limits.Check,
	}
}
